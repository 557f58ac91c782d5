package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// answerWithin bounds an update or query that a person waits for: chat
	// services want an answer within 3 seconds.
	answerWithin = 2500 * time.Millisecond
	// openWithin bounds what opens a thread before it answers; chat services get
	// their first answer before.
	openWithin = 8 * time.Second
	// drainRetry is the pause before an update that met a draining run is sent to
	// the next one.
	drainRetry = 50 * time.Millisecond
	// wrongClock is the least difference to the server's clock that can make a click
	// look too old or too new, less what it may have taken to get there.
	wrongClock = workflows.MaxDecisionAge / 3
	// listAttempts bounds how often a list is read that changes meanwhile.
	listAttempts = 5
)

// Client reaches sessions and managers. It is safe for concurrent use.
type Client struct {
	// Namespace is the Temporal client's. Without it the server is not asked for its
	// time where this machine's clock is wrong.
	Namespace string

	temporal client.Client
	registry *Registry
}

// New returns a client over a connected Temporal client. The registry, which may
// be nil, lets [Client.List] page through older sessions.
func New(t client.Client, r *Registry) *Client { return &Client{temporal: t, registry: r} }

// RequestSession asks the thread's manager for a new session, starting the
// manager if there is none. It returns once Temporal has the request.
func (c *Client) RequestSession(ctx context.Context, r workflows.SessionRequest) error {
	_, err := c.temporal.SignalWithStartWorkflow(ctx, r.Thread.ManagerID(), workflows.SignalRequestSession, r,
		managerOptions(r.Thread.ManagerID()), workflows.WorkflowTypeManager, workflows.ManagerInput{})
	return translate("asking for a session", err)
}

func managerOptions(id string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID: id, TaskQueue: workflows.TaskQueueReasoning, WorkflowTaskTimeout: workflows.TaskTimeout,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}
}

// SendMessage gives a message to the thread's session; one that is still opening
// gets it from the manager. It returns [workflows.ErrNoSession] where there is
// none or it was destroyed.
func (c *Client) SendMessage(ctx context.Context, workflowID string, m workflows.Message) error {
	err := c.signal(ctx, workflowID, workflows.SignalSendMessage, m)
	if !errors.Is(err, workflows.ErrNoSession) {
		return err
	}
	thread, perr := workflows.ParseWorkflowID(workflowID)
	if perr != nil {
		return err
	}
	list, lerr := c.List(ctx, thread.ManagerID(), workflows.ListSessions{Limit: 200})
	if lerr != nil {
		return lerr
	}
	for _, id := range list.Opening {
		if id == workflowID {
			return c.RequestSession(ctx, workflows.SessionRequest{ID: m.ID, Thread: thread, Task: m, By: m.Author, Join: true})
		}
	}
	for _, row := range list.Sessions {
		if row.WorkflowID == workflowID && row.Liveness != workflows.LivenessDestroyed {
			return c.signal(ctx, workflowID, workflows.SignalSendMessage, m)
		}
	}
	return err
}

// SetTitle renames a session.
func (c *Client) SetTitle(ctx context.Context, workflowID string, t workflows.SetTitle) error {
	return c.signal(ctx, workflowID, workflows.SignalSetTitle, t)
}

func (c *Client) signal(ctx context.Context, workflowID, name string, arg any) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return translate("signalling "+name, c.temporal.SignalWorkflow(ctx, workflowID, "", name, arg))
}

// Decide records a click on an approval card and returns what became of it. Where
// the session finds a click too old or too new that was made a moment ago, this
// machine's clock is wrong: it is told again, by the server's.
func (c *Client) Decide(ctx context.Context, workflowID string, d workflows.Decision) (workflows.Outcome, error) {
	id := "decide/" + d.ApprovalID + "/" + d.By.ID + "/" + d.Interaction
	clicked := d.ClickedAt
	out, err := update[workflows.Outcome](ctx, c, workflowID, workflows.UpdateDecideApproval, id, d)
	if err != nil || out.Outcome != workflows.OutcomeUnconfirmed || c.Namespace == "" || age(clicked) > workflows.MaxDecisionAge {
		return out, err
	}
	now, err := c.serverTime(ctx, workflowID)
	if err != nil {
		return out, nil // the first answer stands
	}
	if d.ClickedAt = now.Add(-age(clicked)); d.ClickedAt.Sub(clicked).Abs() < wrongClock {
		return out, nil // it is something else
	}
	return update[workflows.Outcome](ctx, c, workflowID, workflows.UpdateDecideApproval, id+"/again", d)
}

// CancelTurn stops the running turn.
func (c *Client) CancelTurn(ctx context.Context, workflowID string, in workflows.CancelTurn, updateID string) (workflows.Outcome, error) {
	return update[workflows.Outcome](ctx, c, workflowID, workflows.UpdateCancelTurn, updateID, in)
}

// Pause releases the session's sandbox until its next message.
func (c *Client) Pause(ctx context.Context, workflowID string, in workflows.Pause, updateID string) (workflows.Outcome, error) {
	return update[workflows.Outcome](ctx, c, workflowID, workflows.UpdatePause, updateID, in)
}

// SetModel changes the session's model.
func (c *Client) SetModel(ctx context.Context, workflowID string, in workflows.SetModel, updateID string) (workflows.Outcome, error) {
	return update[workflows.Outcome](ctx, c, workflowID, workflows.UpdateSetModel, updateID, in)
}

// RevokeGrant ends a standing permission.
func (c *Client) RevokeGrant(ctx context.Context, workflowID string, in workflows.RevokeGrant, updateID string) (workflows.Outcome, error) {
	return update[workflows.Outcome](ctx, c, workflowID, workflows.UpdateRevokeGrant, updateID, in)
}

// SendFiles asks a session to show files of its workspace in the thread.
func (c *Client) SendFiles(ctx context.Context, workflowID string, in workflows.SendFiles, updateID string) (workflows.Outcome, error) {
	return update[workflows.Outcome](ctx, c, workflowID, workflows.UpdateSendFiles, updateID, in)
}

// SwitchBackend moves a session to another backend, through its manager.
func (c *Client) SwitchBackend(ctx context.Context, managerID string, in workflows.SwitchSession, updateID string) (workflows.Outcome, error) {
	return update[workflows.Outcome](ctx, c, managerID, workflows.UpdateSwitchSession, updateID, in)
}

// Destroy ends a session for good, through its manager.
func (c *Client) Destroy(ctx context.Context, managerID string, in workflows.DestroySession, updateID string) (workflows.Outcome, error) {
	return update[workflows.Outcome](ctx, c, managerID, workflows.UpdateDestroySession, updateID, in)
}

// Fork copies a session into a new thread.
func (c *Client) Fork(ctx context.Context, managerID string, in workflows.ForkSession) (workflows.SessionResult, error) {
	return update[workflows.SessionResult](ctx, c, managerID, workflows.UpdateForkSession, "fork/"+in.ID, in)
}

// CreateSession starts a session and waits until it has started.
func (c *Client) CreateSession(ctx context.Context, in workflows.SessionRequest) (workflows.SessionResult, error) {
	id := in.Thread.ManagerID()
	_, err := c.temporal.ExecuteWorkflow(ctx, managerOptions(id), workflows.WorkflowTypeManager, workflows.ManagerInput{})
	if err != nil {
		return workflows.SessionResult{}, translate("starting the manager", err)
	}
	return update[workflows.SessionResult](ctx, c, id, workflows.UpdateCreateSession, "create/"+in.ID, in)
}

// update sends an update under its ID until a run takes it: one that is about to
// continue as new sends it on to the next.
func update[R any](ctx context.Context, c *Client, workflowID, name, updateID string, arg any) (R, error) {
	within := answerWithin
	if name == workflows.UpdateForkSession || name == workflows.UpdateCreateSession {
		within = openWithin
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	doing := "updating " + name
	for {
		var res R
		h, err := c.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			WorkflowID: workflowID, UpdateName: name, UpdateID: updateID, Args: []any{arg},
			WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		if err == nil {
			err = h.Get(ctx, &res)
		}
		if err == nil {
			return res, nil
		}
		if !draining(err) {
			return res, translate(doing, err)
		}
		select {
		case <-ctx.Done():
			return res, translate(doing, ctx.Err())
		case <-time.After(drainRetry):
		}
	}
}

// draining reports an update that met a run on its way out. A run's end that
// crosses a signal is refused by the server, and with it the whole workflow task:
// an update that the task carried comes back as not ready, without effect, and is
// not sent again by the SDK.
func draining(err error) bool {
	var app *temporal.ApplicationError
	var notReady *serviceerror.WorkflowNotReady
	return errors.As(err, &notReady) || (errors.As(err, &app) && workflows.IsDraining(app.Message())) || strings.Contains(err.Error(), "AcceptedUpdateCompletedWorkflow")
}

// List lists a manager's sessions, newest first; a manager that was never started
// has none.
func (c *Client) List(ctx context.Context, managerID string, l workflows.ListSessions) (workflows.SessionList, error) {
	for attempt := 1; ; attempt++ {
		list, err := c.list(ctx, managerID, l)
		// What a manager has just replaced may be gone: it names something newer now.
		if !errors.Is(err, blob.ErrNotFound) || attempt == listAttempts {
			return list, err
		}
	}
}

func (c *Client) list(ctx context.Context, managerID string, l workflows.ListSessions) (workflows.SessionList, error) {
	before, err := l.BeforeRow()
	if err != nil {
		return workflows.SessionList{}, err
	}
	list, err := query[workflows.SessionList](ctx, c, managerID, workflows.QueryListSessions, l)
	if errors.Is(err, workflows.ErrNoSession) {
		list, err = workflows.SessionList{Sessions: []workflows.SessionRow{}}, nil
	}
	if err != nil || list.Next != "" || list.Archive == "" || c.registry == nil {
		return list, err
	}
	if n := len(list.Sessions); n > 0 {
		before = list.Sessions[n-1].Row
	}
	older, err := c.registry.older(ctx, list.Archive, before, l.Size()-len(list.Sessions))
	if err != nil {
		return list, err
	}
	for i := range older {
		for _, change := range list.Changes {
			if change.WorkflowID == older[i].WorkflowID {
				change.Apply(&older[i])
			}
		}
	}
	list.Sessions = append(list.Sessions, older...)
	if n := len(list.Sessions); n > 0 && list.Sessions[n-1].Row > 0 {
		list.Next = list.Sessions[n-1].Cursor()
	}
	return list, nil
}

// TurnState answers what a session is doing. One whose workflow was ended from outside,
// or failed, does nothing any more, whatever it was at.
func (c *Client) TurnState(ctx context.Context, workflowID string) (workflows.TurnState, error) {
	st, end, err := queryEnd[workflows.TurnState](ctx, c, workflowID, workflows.QueryTurnState)
	if err == nil && end.How != "" {
		st.Turn, st.Approvals, st.Queued = nil, nil, 0
		st.Header = st.Header.CutShort(end.cutShort(workflowID))
	}
	return st, err
}

// History answers a session's recent turns.
func (c *Client) History(ctx context.Context, workflowID string) (workflows.History, error) {
	return query[workflows.History](ctx, c, workflowID, workflows.QueryHistory)
}

// Message answers what a message of the thread should show now. Where the session's
// workflow was ended from outside, or failed, nothing in it goes on; of one that can not
// say what it was, the manager knows enough for the header.
func (c *Client) Message(ctx context.Context, workflowID, key string) (workflows.MessageView, error) {
	v, end, err := queryEnd[workflows.MessageView](ctx, c, workflowID, workflows.QueryMessage, key)
	if end.How == "" {
		return v, err
	}
	if key == workflows.HeaderKey && lost(err, end, time.Now()) {
		v, err = c.headerOf(ctx, workflowID)
	}
	if err != nil {
		return v, err
	}
	return v.CutShort(end.cutShort(workflowID)), nil
}

// ToolCall answers where a running tool call's output is.
func (c *Client) ToolCall(ctx context.Context, workflowID, callID string) (workflows.ToolCallInfo, error) {
	return query[workflows.ToolCallInfo](ctx, c, workflowID, workflows.QueryToolCall, callID)
}

// TurnTrail answers where the record of a turn is.
func (c *Client) TurnTrail(ctx context.Context, workflowID string, turn int) (workflows.TurnTrail, error) {
	trail, end, err := queryEnd[workflows.TurnTrail](ctx, c, workflowID, workflows.QueryTurnTrail, turn)
	if err == nil && end.How != "" && trail.Running != nil {
		card := trail.Running.CutShort(end.cutShort(workflowID))
		trail.Running = &card
	}
	return trail, err
}

// Boundary answers a session's content at its last turn's end.
func (c *Client) Boundary(ctx context.Context, workflowID string) (workflows.Boundary, error) {
	return query[workflows.Boundary](ctx, c, workflowID, workflows.QuerySnapshot)
}

func query[R any](ctx context.Context, c *Client, workflowID, name string, args ...any) (R, error) {
	return queryWithin[R](ctx, c, answerWithin, workflowID, name, args...)
}

// queryEnd queries a session, and says how it was cut short, where it was.
func queryEnd[R any](ctx context.Context, c *Client, workflowID, name string, args ...any) (res R, end Moment, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	first, err := c.temporal.QueryWorkflowWithOptions(ctx, &client.QueryWorkflowWithOptionsRequest{
		WorkflowID: workflowID, QueryType: name, Args: args, QueryRejectCondition: enumspb.QUERY_REJECT_CONDITION_NOT_COMPLETED_CLEANLY,
	})
	switch {
	case err != nil:
		return res, end, translate("querying "+name, err)
	case first.QueryRejected == nil:
		return res, end, translate("querying "+name, first.QueryResult.Get(&res))
	case closed(first.QueryRejected.GetStatus()):
		if end, err = c.Moment(ctx, workflowID); err != nil {
			return res, end, err
		}
	default: // a run that has just gone over into the next one
	}
	res, err = query[R](ctx, c, workflowID, name, args...)
	return res, end, err
}

func queryWithin[R any](ctx context.Context, c *Client, within time.Duration, workflowID, name string, args ...any) (R, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var res R
	v, err := c.temporal.QueryWorkflow(ctx, workflowID, "", name, args...)
	if err == nil {
		err = v.Get(&res)
	}
	return res, translate("querying "+name, err)
}

// Tails answers the live tails of a session's running execs and what its model
// is saying: they travel as heartbeat details, outside history.
func (c *Client) Tails(ctx context.Context, workflowID string) (workflows.Tails, error) {
	tails := workflows.Tails{Execs: map[string]workflows.ExecProgress{}}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	d, err := c.temporal.DescribeWorkflowExecution(ctx, workflowID, "")
	if err != nil {
		return tails, translate("describing the session", err)
	}
	for _, a := range d.GetPendingActivities() {
		if a.GetHeartbeatDetails() == nil {
			continue
		}
		var exec workflows.ExecProgress
		read := converter.GetDefaultDataConverter().FromPayloads
		switch a.GetActivityType().GetName() {
		case workflows.ActivityRunTool, workflows.ActivityOpenSandbox:
			if err := read(a.GetHeartbeatDetails(), &exec); err == nil && exec.ExecID != "" {
				tails.Execs[exec.ExecID] = exec
			}
		case workflows.ActivityCallModel:
			_ = read(a.GetHeartbeatDetails(), &tails.Model) // of another version: nothing to show
		}
	}
	return tails, nil
}

// translate turns the client's errors into ours.
func translate(doing string, err error) error {
	var notFound *serviceerror.NotFound
	var nsNotFound *serviceerror.NamespaceNotFound
	var unavailable *serviceerror.Unavailable
	switch {
	case err == nil:
		return nil
	case errors.As(err, &nsNotFound):
		return fmt.Errorf("%s: %w", doing, err)
	case errors.As(err, &notFound):
		return fmt.Errorf("%s: %w", doing, workflows.ErrNoSession)
	case errors.As(err, &unavailable):
		return fmt.Errorf("%s: %w: %v", doing, workflows.ErrUnavailable, err)
	case timedOut(err):
		return fmt.Errorf("%s: %w", doing, workflows.ErrUnconfirmed)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func timedOut(err error) bool {
	var deadline *serviceerror.DeadlineExceeded
	var canceled *serviceerror.Canceled
	var update *client.WorkflowUpdateServiceTimeoutOrCanceledError
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &deadline) || errors.As(err, &canceled) || errors.As(err, &update)
}

// AuditHead answers the head of a session's audit chain, also of one that has
// ended.
func (c *Client) AuditHead(ctx context.Context, workflowID string) (workflows.AuditHead, error) {
	return query[workflows.AuditHead](ctx, c, workflowID, workflows.QueryAuditHead)
}
