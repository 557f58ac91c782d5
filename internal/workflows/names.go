package workflows

// Names below are public: the temporal CLI and other clients use them. A value
// is never reused for something else.
const (
	// WorkflowTypeAgent is one session: a thread and the workspace it owns.
	WorkflowTypeAgent = "AgentWorkflow"
	// WorkflowTypeEnded brings the thread of a session up to date whose workflow was
	// ended from outside.
	WorkflowTypeEnded = "EndedWorkflow"
	// WorkflowTypeManager starts and lists the sessions of one team, guild or site.
	WorkflowTypeManager = "SessionManagerWorkflow"

	// TaskQueueReasoning carries workflows and model activities.
	TaskQueueReasoning = "agent-reasoning"
	// TaskQueueRecords carries bookkeeping: what is written to the blob store, looked up
	// there or asked of Temporal, in moments. It has places of its own, so that it goes
	// on while every place for a model call is taken.
	TaskQueueRecords = "agent-records"
	// TaskQueueSandbox carries sandbox activities that any worker can run. A
	// sandbox that only one host reaches has TaskQueueSandbox + "/" + host.
	TaskQueueSandbox = "sandbox-exec"
)

// Signals, updates and queries of AgentWorkflow.
const (
	SignalSendMessage = "send_message"
	SignalSetTitle    = "set_title"
	SignalDestroy     = "destroy"
	// SignalCheckVersion, to sessions and managers alike, only wakes: what is at rest
	// on another worker version than the current one then moves to that. It has no
	// input.
	SignalCheckVersion = "check_version"

	UpdateDecideApproval = "decide_approval"
	UpdateCancelTurn     = "cancel_turn"
	UpdateSwitchBackend  = "switch_backend"
	UpdatePause          = "pause"
	UpdateSetModel       = "set_model"
	UpdateRevokeGrant    = "revoke_grant"
	UpdateSendFiles      = "send_files"

	QueryTurnState  = "get_turn_state"
	QueryHistory    = "get_history"
	QuerySnapshot   = "get_snapshot"
	QuerySnapshotID = "get_snapshot_id"
	QueryIsPaused   = "is_paused"
	// QueryMessage answers what one message of the thread should show now.
	QueryMessage = "get_message"
	// QueryToolCall answers one tool call by its ID: where its output is.
	QueryToolCall = "get_tool_call"
	// QueryTurnTrail answers where the record of a turn is, by the turn's number.
	QueryTurnTrail = "get_turn_trail"
	// QueryAuditHead answers the head of the session's audit chain.
	QueryAuditHead = "get_audit_head"
	// QueryNeeds answers what must not be removed from the blob store.
	QueryNeeds = "get_needs"
	// QueryStanding answers which messages of the thread show something that goes on:
	// they are wrong once the workflow was ended from outside.
	QueryStanding = "get_standing"
)

// Signals, updates and queries of SessionManagerWorkflow.
const (
	UpdateCreateSession  = "create_session"
	UpdateForkSession    = "fork_session"
	UpdateSwitchSession  = "switch_backend"
	UpdateDestroySession = "destroy_session"

	SignalRequestSession   = "request_session"
	SignalRenameSession    = "rename_session"
	SignalUpdateSnapshotID = "update_snapshot_id"
	SignalShutdown         = "shutdown"

	QueryListSessions = "list_sessions"
)

// Deployment is the name of the worker deployment whose versions serve
// TaskQueueReasoning, where workers have a build ID.
const Deployment = "countersign"

// Activity names. Each lives with what it drives: chat activities are served by
// bots on a chat queue, the rest by workers.
const (
	ActivityOpenThread  = "OpenThread"
	ActivityPostMessage = "PostMessage"
	ActivityEditMessage = "EditMessage"
	// ActivityShowNotStarted makes a thread say why its session did not start.
	ActivityShowNotStarted = "ShowNotStarted"
	// ActivityCheckMembership is served by bots, as the platform knows people.
	ActivityCheckMembership = "CheckMembership"
	// ActivityFetchFiles is served by bots: they alone may read what people attach.
	ActivityFetchFiles = "FetchFiles"

	ActivityCallModel = "CallModel"

	// Activities about tools of MCP servers: like their namesakes below, without a
	// sandbox.
	ActivityJudgeMCP   = "JudgeMCPCall"
	ActivityBindingMCP = "CheckMCPBinding"
	ActivityRunMCP     = "RunMCPCall"

	ActivityOpenSandbox    = "OpenSandbox"
	ActivityJudgeToolCall  = "JudgeToolCall"
	ActivityCheckBinding   = "CheckBinding"
	ActivityRunTool        = "RunTool"
	ActivitySignalExec     = "SignalExec"
	ActivityTakeSnapshot   = "TakeSnapshot"
	ActivityReleaseSandbox = "ReleaseSandbox"
	ActivityDestroySandbox = "DestroySandbox"
	ActivityReadFiles      = "ReadFiles"
	ActivityImportFiles    = "ImportFiles"
	ActivityJudgeSwitch    = "JudgeSwitch"

	ActivityCheckHost = "CheckHost"
	ActivityAwaitHost = "AwaitHost"

	ActivityRecordAudit = "RecordAudit"

	ActivityStashMessages   = "StashMessages"
	ActivityUnstashMessages = "UnstashMessages"
	ActivityRecordSeen      = "RecordSeen"
	ActivityFindSeen        = "FindSeen"

	ActivityQuerySession  = "QuerySession"
	ActivityUpdateSession = "UpdateSession"
	ActivitySaveRegistry  = "SaveRegistry"
	ActivityFindSession   = "FindSession"
	ActivityLoadRegistry  = "LoadRegistry"
)

// Types of application errors that activities return and workflows act on.
const (
	// ErrTypeQuota, ErrTypeAuth and ErrTypeBadRequest end a model call for good:
	// the message is a sentence for people.
	ErrTypeQuota      = "ModelQuota"
	ErrTypeAuth       = "ModelAuth"
	ErrTypeBadRequest = "ModelBadRequest"
	// ErrTypeRateLimited is retried by Temporal after the server's delay.
	ErrTypeRateLimited = "RateLimited"
	// ErrTypeUnanswered: a session did not say what its message should show.
	ErrTypeUnanswered = "Unanswered"
	// ErrTypeSandboxGone: the sandbox existed by our record and is not there.
	ErrTypeSandboxGone = "SandboxGone"
	// ErrTypeSandboxUnavailable: the backend does not answer; nothing is lost.
	ErrTypeSandboxUnavailable = "SandboxUnavailable"
	// ErrTypeUnknownBackend: no worker here has that backend.
	ErrTypeUnknownBackend = "UnknownBackend"
	// ErrTypeRefresh makes Temporal run an edit again later; it is no fault.
	ErrTypeRefresh = "Refresh"
	// ErrTypeThreadGone: the thread was deleted or cannot be written to.
	ErrTypeThreadGone = "ThreadGone"
	// ErrTypeConflict: something else stands where this should be written.
	ErrTypeConflict = "Conflict"
	// ErrTypeNotFound: the workflow asked for is not known.
	ErrTypeNotFound = "NotFound"
	// ErrTypeRefused: the chat service takes a message in no form.
	ErrTypeRefused = "Refused"
)

// Search attributes that make sessions findable from the Web UI and by list.
const (
	SearchAttributeLiveness = "CountersignLiveness" // Keyword: active, waiting, paused, destroyed
	SearchAttributeWaiting  = "CountersignWaiting"  // Int: approvals that wait now
	SearchAttributePlatform = "CountersignPlatform" // Keyword
)
