package workflows

import "time"

// OpenThreadInput asks a bot to open the thread of a new session: to post its
// root under Key, unless it is already there.
type OpenThreadInput struct {
	Thread Thread `json:"thread"`
	Key    string `json:"key"`
	Title  string `json:"title"`
	By     Actor  `json:"by"`
	// Parent is the workflow ID of the session that was forked.
	Parent string `json:"parent,omitempty"`
}

// NotStartedInput asks a bot to say in a thread that was opened why no session runs
// there: in the place of its header.
type NotStartedInput struct {
	Thread Thread `json:"thread"`
	Title  string `json:"title"`
	By     Actor  `json:"by"`
	// Text says what happened and what to do.
	Text string `json:"text"`
}

// PostInput asks a bot to post the message Key of the session. The bot reads
// what to post by [QueryMessage], looks for the key first and posts at most once.
type PostInput struct {
	WorkflowID string `json:"workflow_id"`
	Thread     Thread `json:"thread"`
	Key        string `json:"key"`
	// First is when the post was first tried: a retry looks for our own message
	// from then on.
	First time.Time `json:"first"`
}

// PostResult says where a message stands and which version of it.
type PostResult struct {
	Ref     string `json:"ref"`
	Version int    `json:"version"`
}

// EditInput asks a bot to bring the message Ref to the newest view of Key.
// While that view has running execs the activity fails retryably with
// [ErrTypeRefresh] and its own next delay, and is cancelled when the view changes.
type EditInput struct {
	WorkflowID string `json:"workflow_id"`
	Thread     Thread `json:"thread"`
	Key        string `json:"key"`
	Ref        string `json:"ref"`
	// Gather is how long the first attempt waits before it reads the view: what
	// changes until then is shown by this edit, too.
	Gather time.Duration `json:"gather,omitempty"`
	// First is set instead of Ref where it is not known whether the message was posted:
	// it is looked for from then on, and left alone where it was not.
	First time.Time `json:"first,omitzero"`
}

// ModelInput is one model call: what is new since Transcript.
type ModelInput struct {
	WorkflowID string `json:"workflow_id"`
	Model      string `json:"model"`
	// Transcript is the reference of everything before; empty at the start.
	Transcript string      `json:"transcript,omitempty"`
	Append     []Item      `json:"append"`
	Turn       int         `json:"turn"`
	Step       int         `json:"step"`
	Sandbox    *SandboxRef `json:"sandbox,omitempty"`
	// Shared is true when more than one person speaks: the model is told who does.
	Shared bool `json:"shared,omitempty"`
	// Channel is where the session's thread is: approvers may differ there.
	Channel string `json:"channel,omitempty"`
	// Spent is held against the budgets.
	Spent Spending `json:"spent,omitzero"`
	// NoCall only records Append in the transcript (a turn that was stopped).
	NoCall bool `json:"no_call,omitempty"`
}

// Item is one thing that a model call adds to the transcript: a message or the
// output of a tool call.
type Item struct {
	Message *Message `json:"message,omitempty"`
	CallID  string   `json:"call_id,omitempty"`
	Output  TextRef  `json:"output,omitzero"`
	// EditedBy changed the command before it ran; Args are the arguments it ran
	// with.
	EditedBy string  `json:"edited_by,omitempty"`
	Args     TextRef `json:"args,omitzero"`
	// Image is what the call shows, beside Output.
	Image *Image `json:"image,omitempty"`
	// Guide is an AGENTS.md file that is new to the model.
	Guide *Guide `json:"guide,omitempty"`
	// Files are what became of the message's attachments.
	Files []PlacedFile `json:"files,omitempty"`
	// Ended is a command in the background of whose end the model does not know.
	Ended *EndedExec `json:"ended,omitempty"`
}

// EndedExec is how a command in the background has ended.
type EndedExec struct {
	Session string `json:"session"`
	// State is a tool call's; Note says why, where the command did not end by itself.
	State    string `json:"state"`
	ExitCode *int   `json:"exit_code,omitempty"`
	Note     string `json:"note,omitempty"`
	// Tail is what it printed last, as people see it.
	Tail string `json:"tail,omitempty"`
}

// Image is an image file that a tool call shows to the model. Its bytes are in the
// blob store, and in no history.
type Image struct {
	Ref string `json:"ref"`
	// Type is its media type.
	Type   string `json:"type"`
	Width  int    `json:"width"`
	Height int    `json:"height"`
	Bytes  int64  `json:"bytes"`
}

// ModelResult is what a model call gave.
type ModelResult struct {
	Transcript string     `json:"transcript"`
	Calls      []ToolCall `json:"calls,omitempty"`
	// Answer is the text; with calls it is talk between them.
	Answer TextRef `json:"answer,omitzero"`
	Usage  Usage   `json:"usage"`
	Model  string  `json:"model"`
	// Incomplete says why an answer was cut short, as a sentence; empty when whole.
	Incomplete string `json:"incomplete,omitempty"`
	// Over says that no call was made, because a budget is used up.
	Over *OverBudget `json:"over,omitempty"`
	// Condensed: the conversation was condensed for the model before this call.
	Condensed bool `json:"condensed,omitempty"`
}

// ModelProgress is the heartbeat detail of a model call under way.
type ModelProgress struct {
	// Unsure counts requests that were sent and never answered, in this attempt
	// and those before it: each may have been billed.
	Unsure int `json:"unsure,omitempty"`
	// Response is the ID of a response that goes on without its reader.
	Response string `json:"response,omitempty"`
	// Thought is the end of the reasoning summary and Text that of the answer, as
	// far as they have come, masked: at most 10 lines and 1 KiB each.
	Thought string `json:"thought,omitempty"`
	Text    string `json:"text,omitempty"`
}

// Tails are what moves on a session's cards now.
type Tails struct {
	// Execs are the running commands' by exec ID.
	Execs map[string]ExecProgress
	// Model is what the model says.
	Model ModelProgress
}

// Tools that the model may call.
const (
	ToolShell      = "shell"
	ToolReadFile   = "read_file"
	ToolWriteFile  = "write_file"
	ToolListFiles  = "list_files"
	ToolApplyPatch = "apply_patch"
	// ToolViewImage shows the model an image file.
	ToolViewImage = "view_image"
	// ToolWriteStdin reads on from a command in the background, and sends it text.
	ToolWriteStdin = "write_stdin"
)

// ToolCall is one call the model asked for.
type ToolCall struct {
	// CallID is the model's own; every one gets an output.
	CallID string `json:"call_id"`
	Tool   string `json:"tool"`
	// Args are the call's arguments as the model wrote them (JSON).
	Args TextRef `json:"args"`
	// Shown is the command, or "write_file path", unescaped, cut to
	// MaxShownCommand bytes.
	Shown string `json:"shown"`
	// Yield is how long the call may hold its step: a shell command that runs longer
	// goes on in the background, and talk to one waits so long; 0 is to the end.
	Yield time.Duration `json:"yield,omitempty"`
	// Session names the command in the background that a call talks to, or that a
	// shell call becomes.
	Session string `json:"session,omitempty"`
	// MCP is set where a tool of an MCP server is called.
	MCP *MCPTool `json:"mcp,omitempty"`
	// Bad says what is wrong with a call that cannot be carried out; it is
	// answered with this sentence and never judged.
	Bad string `json:"bad,omitempty"`
}

// MCPTool names a tool of an MCP server, as the settings and the server do.
type MCPTool struct {
	Server string `json:"server"`
	Tool   string `json:"tool"`
}

// Name is how policy and people name the tool.
func (m MCPTool) Name() string { return "mcp:" + m.Server + "/" + m.Tool }

// ShellArgs are the arguments of [ToolShell].
type ShellArgs struct {
	Command string `json:"command"`
	// Cwd is the directory it runs in, relative to the workspace or absolute;
	// empty is the workspace's root.
	Cwd string `json:"cwd,omitempty"`
	// TimeoutSeconds bounds the command; 0 takes the default for its kind.
	TimeoutSeconds int `json:"timeout_seconds,omitempty"`
	// YieldTimeMS, when set, lets the command go on in the background once it has
	// run so long, with its standard input open.
	YieldTimeMS int `json:"yield_time_ms,omitempty"`
	// TTY runs it on a terminal, and lets it go on in the background, too.
	TTY bool `json:"tty,omitempty"`
}

// Interactive reports whether the command may be talked to while it runs.
func (a ShellArgs) Interactive() bool { return a.TTY || a.YieldTimeMS > 0 }

// WriteStdinArgs are the arguments of [ToolWriteStdin].
type WriteStdinArgs struct {
	SessionID string `json:"session_id"`
	// Chars is what is sent; empty only reads on.
	Chars       string `json:"chars,omitempty"`
	YieldTimeMS int    `json:"yield_time_ms,omitempty"`
}

// ReadFileArgs are the arguments of [ToolReadFile] and [ToolViewImage].
type ReadFileArgs struct {
	Path string `json:"path"`
}

// WriteFileArgs are the arguments of [ToolWriteFile].
type WriteFileArgs struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// ListFilesArgs are the arguments of [ToolListFiles].
type ListFilesArgs struct {
	// Path is a directory; empty is the workspace's root.
	Path string `json:"path,omitempty"`
	// Depth is how many levels below it are listed; 0 is 1.
	Depth int `json:"depth,omitempty"`
}

// ApplyPatchArgs are the arguments of [ToolApplyPatch].
type ApplyPatchArgs struct {
	// Patch is in the V4A format.
	Patch string `json:"patch"`
}

// SandboxRef names a session's sandbox and what the workflow must know of it.
type SandboxRef struct {
	Backend    string `json:"backend"`
	ID         string `json:"id"`
	Generation int    `json:"generation"`
	// Queue serves the sandbox's activities.
	Queue         string `json:"queue"`
	Host          string `json:"host,omitempty"`
	WorkspacePath string `json:"workspace_path,omitempty"` // as people on the host see it; empty when they cannot
	Root          string `json:"root"`                     // the workspace root inside the sandbox
	Home          string `json:"home,omitempty"`
	Shell         string `json:"shell"`
	Isolated      bool   `json:"isolated"`
	Confined      bool   `json:"confined,omitempty"` // not isolated, but only workspace, home and TMPDIR can be written
	Network       bool   `json:"network,omitempty"`
	// Workspace is the name of the manifest that commands get their environment by.
	Workspace string `json:"workspace,omitempty"`
	// Notice is an honest sentence for the header where isolation is missing.
	Notice string `json:"notice,omitempty"`
}

// OpenInput opens or resumes a session's sandbox. It is idempotent.
type OpenInput struct {
	WorkflowID string `json:"workflow_id"`
	Backend    string `json:"backend"`
	Workspace  string `json:"workspace,omitempty"`
	Root       string `json:"root,omitempty"`
	Generation int    `json:"generation"`
	// Snapshot is what a new generation is filled from; empty is the workspace's
	// manifest.
	Snapshot string `json:"snapshot,omitempty"`
	// Current is set to resume: the sandbox must still be there, else
	// ErrTypeSandboxGone.
	Current *SandboxRef `json:"current,omitempty"`
	// ExecID names this open in heartbeats; set-up commands are execs below it.
	ExecID string `json:"exec_id,omitempty"`
}

// OpenResult is an open sandbox, and what was run to set it up.
type OpenResult struct {
	SandboxRef
	Setup []SetupRun `json:"setup,omitempty"`
	// Guides are the workspace's AGENTS.md files, the root's first.
	Guides []Guide `json:"guides,omitempty"`
}

// SetupRun is one of the manifest's set-up commands, which has succeeded.
type SetupRun struct {
	ExecID string `json:"exec_id"`
	// Command is masked, at most [MaxShownCommand] bytes.
	Command   string    `json:"command"`
	ExitCode  int       `json:"exit_code"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
}

// Guide is an AGENTS.md file of the workspace. It is the workspace's data, like
// any file; it holds for the directory that it stands in.
type Guide struct {
	// Path is relative to the workspace.
	Path   string `json:"path"`
	Digest string `json:"digest"`
	// Text is what the model gets of it; Cut says that it is not all.
	Text TextRef `json:"text"`
	Cut  bool    `json:"cut,omitempty"`
}

// JudgeInput asks the gate about a tool call.
type JudgeInput struct {
	WorkflowID string     `json:"workflow_id"`
	Sandbox    SandboxRef `json:"sandbox"`
	Call       ToolCall   `json:"call"`
	// Channel is where the session's thread is: approvers may differ there.
	Channel string `json:"channel,omitempty"`
	// Running is the command that the call talks to.
	Running *RunningExec `json:"running,omitempty"`
	// Edit, when set, is judged in place of the call's command.
	Edit string `json:"edit,omitempty"`
	// Inline bounds each text of the answer; see [RunInput].
	Inline int `json:"inline,omitempty"`
}

// Judgement is the gate's verdict, recorded in history before anything runs.
type Judgement struct {
	// Tier is one of safe, write, risky, critical, forbidden.
	Tier string `json:"tier"`
	// Reasons say why, worst first. The first Asking of them are why it asks or is
	// refused; what comes after says what its other parts do. 0 stands for all.
	Reasons []string `json:"reasons,omitempty"`
	Asking  int      `json:"asking,omitempty"`
	// Digest binds the verdict to what was judged: command, shell, working
	// directory, environment changes, backend and generation, and the contents of
	// the files that the command line itself runs.
	Digest string `json:"digest"`
	// Command is the escaped and masked text for people.
	Command     TextRef `json:"command"`
	Displayable bool    `json:"displayable"`
	// Stored is the blob key of the whole text, where it is longer than the record
	// keeps ([MaxShownCommand]).
	Stored        string        `json:"stored,omitempty"`
	Detail        string        `json:"detail,omitempty"`
	Cwd           string        `json:"cwd"`
	Timeout       time.Duration `json:"timeout"`
	PolicyVersion string        `json:"policy_version"`
	// Rule says who must approve; meaningful for risky and critical.
	Rule ApprovalRule `json:"rule,omitzero"`
	// Evidence are phrases on what a risky command would lose, as it was when it
	// was asked for; masked, and empty where that was not cheap to find out.
	Evidence []string `json:"evidence,omitempty"`
	// Editable says that people read the command as it is, so that a changed text
	// differs from it only where somebody changed it.
	Editable bool `json:"editable,omitempty"`
	// Edited are the call's arguments with the command of JudgeInput.Edit.
	Edited *TextRef `json:"edited,omitempty"`
	// Shape is the exact parsed form that a grant may allow; empty where none may
	// (interpreters, shells, wrappers, anything that loads code).
	Shape string `json:"shape,omitempty"`
	// To names the running command that Command is sent to; masked and cut short.
	To string `json:"to,omitempty"`
	// Terminal says that the command, or the one that it is sent to, has a terminal.
	Terminal bool `json:"terminal,omitempty"`
	// Bad answers a call that cannot run at all (too long, NUL bytes).
	Bad string `json:"bad,omitempty"`
}

// ApprovalRule says what an approval takes.
type ApprovalRule struct {
	Required            int           `json:"required"`
	Approvers           []string      `json:"approvers,omitempty"`
	RequesterMayApprove bool          `json:"requester_may_approve,omitempty"`
	TTL                 time.Duration `json:"ttl"`
	// BreakGlass are those who may approve alone, with a reason, on a loud record.
	BreakGlass []string `json:"break_glass,omitempty"`
	// WidenAfter, when it is not 0, is how long nobody may answer before WidenTo
	// may approve too and is pinged.
	WidenAfter time.Duration `json:"widen_after,omitempty"`
	WidenTo    []string      `json:"widen_to,omitempty"`
	// Notify are those whom the card pings; empty pings the approvers.
	Notify []string `json:"notify,omitempty"`
}

// MembershipInput asks a bot which of the people still are in the groups that a
// rule names.
type MembershipInput struct {
	Thread    Thread   `json:"thread"`
	People    []Actor  `json:"people"`
	Approvers []string `json:"approvers"`
}

// MembershipResult holds the people as the platform vouches for them now.
type MembershipResult struct {
	People []Actor `json:"people"`
}

// BindingInput asks whether what a digest binds is still so.
type BindingInput struct {
	WorkflowID string     `json:"workflow_id"`
	Sandbox    SandboxRef `json:"sandbox"`
	Call       ToolCall   `json:"call"`
	Digest     string     `json:"digest"`
	// Running is the command that the call talks to.
	Running *RunningExec `json:"running,omitempty"`
	// Tier is what was judged, and Channel where the session's thread is.
	Tier    string `json:"tier,omitempty"`
	Channel string `json:"channel,omitempty"`
}

// BindingResult answers [BindingInput].
type BindingResult struct {
	Changed bool   `json:"changed"`
	What    string `json:"what,omitempty"`
	// Rule is what an approval of Tier takes by the settings of this moment.
	Rule ApprovalRule `json:"rule,omitzero"`
}

// RunInput runs a tool call whose verdict is in. The activity may be retried:
// the exec ID makes the command run at most once.
type RunInput struct {
	WorkflowID string        `json:"workflow_id"`
	Sandbox    SandboxRef    `json:"sandbox"`
	Call       ToolCall      `json:"call"`
	ExecID     string        `json:"exec_id"`
	Digest     string        `json:"digest"`
	Timeout    time.Duration `json:"timeout"`
	// Inline is how long the output may be, in bytes as JSON, that comes with the
	// result and not as a reference; 0 is [MaxInlineText]. The calls of one step share
	// what a run's input may have.
	Inline int `json:"inline,omitempty"`
	// Attach is true where an earlier run of the workflow has started the exec:
	// only then is the digest not checked again.
	Attach bool `json:"attach,omitempty"`
	// Running is the command in the background that the call talks to, or whose
	// first output it gives. ExecID then is the key of what is sent.
	Running *RunningExec `json:"running,omitempty"`
}

// ToolResult is how a tool call ended.
type ToolResult struct {
	// State is completed, failed, cancelled or unknown; or "changed": what the
	// digest binds is no longer so, and nothing ran.
	State    string `json:"state"`
	ExitCode *int   `json:"exit_code,omitempty"`
	TimedOut bool   `json:"timed_out,omitempty"`
	// Output is what the model gets: both streams, head and tail kept.
	Output TextRef `json:"output,omitzero"`
	// Image is what [ToolViewImage] has found.
	Image *Image `json:"image,omitempty"`
	// Tail is the last lines for the card, at most 10 and 1 KiB.
	Tail string `json:"tail,omitempty"`
	// Over is true of talk to a command that has ended, which Output says.
	Over bool `json:"over,omitempty"`
	// StdoutBytes and StderrBytes are the lengths of the streams; of talk to a
	// running command, where reading goes on.
	StdoutBytes int64     `json:"stdout_bytes,omitempty"`
	StderrBytes int64     `json:"stderr_bytes,omitempty"`
	StartedAt   time.Time `json:"started_at,omitzero"`
	EndedAt     time.Time `json:"ended_at,omitzero"`
	// Error is a sentence for people where State is failed, changed or unknown.
	Error string `json:"error,omitempty"`
}

// ResultChanged is the [ToolResult] state of a call that did not run because
// what its verdict binds had changed.
const ResultChanged = "changed"

// ExecProgress is the heartbeat detail of a running tool call: its live tail.
type ExecProgress struct {
	ExecID      string `json:"exec_id"`
	Tail        string `json:"tail"`
	StdoutBytes int64  `json:"stdout_bytes"`
	StderrBytes int64  `json:"stderr_bytes"`
}

// SignalExecInput ends an exec's whole process group.
type SignalExecInput struct {
	WorkflowID string     `json:"workflow_id"`
	Sandbox    SandboxRef `json:"sandbox"`
	ExecID     string     `json:"exec_id"`
	// Why is stop, timeout or destroy.
	Why string `json:"why"`
}

// SnapshotInput takes the workspace's content at a turn's end.
type SnapshotInput struct {
	WorkflowID string     `json:"workflow_id"`
	Sandbox    SandboxRef `json:"sandbox"`
	Turn       int        `json:"turn"`
	Previous   string     `json:"previous,omitempty"`
}

// SnapshotResult names a snapshot.
type SnapshotResult struct {
	Snapshot string `json:"snapshot"`
	Bytes    int64  `json:"bytes"`
	Files    int    `json:"files"`
	// Work is what no remote has of the workspace's repositories; nil is nothing.
	Work *Inventory `json:"work,omitempty"`
}

// ReleaseInput releases or destroys a sandbox.
type ReleaseInput struct {
	WorkflowID string     `json:"workflow_id"`
	Sandbox    SandboxRef `json:"sandbox"`
}

// Inventory is what a destroy would lose, for the question and the receipt.
type Inventory struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Unpushed describes commits that no remote has: "2 on fix/flaky".
	Unpushed []string `json:"unpushed,omitempty"`
	// Uncommitted counts changed files that no commit holds.
	Uncommitted int `json:"uncommitted,omitempty"`
}

// QuerySessionInput asks a session for its last boundary.
type QuerySessionInput struct {
	WorkflowID string `json:"workflow_id"`
}

// UpdateSessionInput delivers an update to a session, awaited to acceptance.
type UpdateSessionInput struct {
	WorkflowID string         `json:"workflow_id"`
	UpdateID   string         `json:"update_id"`
	Switch     *SwitchBackend `json:"switch,omitempty"`
}

// SaveRegistryInput moves rows into a manager's registry in the blob store and
// changes rows that it has.
type SaveRegistryInput struct {
	ManagerID string `json:"manager_id"`
	// Archive is the registry to go on from; empty where there is none yet.
	Archive string `json:"archive,omitempty"`
	// Rows follow, by their numbers, those that the registry has.
	Rows    []SessionRow `json:"rows,omitempty"`
	Changes []RowChange  `json:"changes,omitempty"`
}

// SaveRegistryResult names the registry that holds all of it.
type SaveRegistryResult struct {
	Archive string `json:"archive"`
	// Rows is how many there are.
	Rows int `json:"rows,omitempty"`
}

// FindSessionInput looks a session up in the registry.
type FindSessionInput struct {
	Archive    string `json:"archive"`
	WorkflowID string `json:"workflow_id"`
}

// FindSessionResult answers [FindSessionInput].
type FindSessionResult struct {
	Found bool       `json:"found"`
	Row   SessionRow `json:"row"`
}
