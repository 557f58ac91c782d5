package chat

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/countersign/countersign/internal/workflows"
)

// maxListed is how many sessions `list` shows.
const maxListed = 100

const helpText = "Commands, after `/agent` or a mention:\n\n" +
	"- `<task>` or `run [--backend B] [--workspace W] [--model M] [--title \"T\"] [--] <task>`: opens a thread and its session and runs the task; in a thread it is a message to the session\n" +
	"- `stop`: ends the running turn and its command\n" +
	"- `status` · `history` · `list`: this session, its conversation, all sessions as a tree\n" +
	"- `title \"<name>\"` · `model <name>`: renames; changes the model from the next turn on\n" +
	"- `fork [\"title\"] [--backend B]`: copies workspace and conversation into a new thread\n" +
	"- `new --from <session>`: a new session from another's files\n" +
	"- `switch [backend] [root]`: moves the session to another backend\n" +
	"- `files [path]`: lists a directory of the workspace in the thread, or sends a file there\n" +
	"- `pause`: releases the sandbox until the next message\n" +
	"- `done` · `destroy`: asks whether to keep; ends the session, after a question\n" +
	"- `grants` · `grants revoke <id>`: standing permissions; ends one\n" +
	"- `help`: this\n\n" +
	"Text is a command only if all of it fits: `list the files` is a task. `run -- list` makes a task of anything."

// rows reads the newest sessions of a team, guild or site.
func (r *Router) rows(ctx context.Context, t workflows.Thread) (rows []workflows.SessionRow, more bool, err error) {
	l := workflows.ListSessions{Limit: maxListed}
	res, err := r.Sessions.List(ctx, t.ManagerID(), l)
	if err != nil {
		return nil, false, err
	}
	return res.Sessions, res.Next != "", nil
}

// list shows the sessions as a tree by fork.
func (r *Router) list(ctx context.Context, ev Event) (Reply, error) {
	rows, more, err := r.rows(ctx, ev.Thread)
	if err != nil && !isNoSession(err) {
		return Reply{}, failure(err)
	}
	if len(rows) == 0 {
		return Reply{Text: "There are no sessions yet. `/agent <task>` starts one."}, nil
	}
	var b strings.Builder
	kids := map[string][]workflows.SessionRow{}
	known := map[string]bool{}
	for _, row := range rows {
		known[row.WorkflowID] = true
	}
	for _, row := range rows {
		parent := row.Parent
		if !known[parent] {
			parent = ""
		}
		kids[parent] = append(kids[parent], row)
	}
	shown := map[string]bool{}
	var walk func(parent string, depth int)
	walk = func(parent string, depth int) {
		for _, row := range kids[parent] {
			if shown[row.WorkflowID] {
				continue
			}
			shown[row.WorkflowID] = true
			b.WriteString(strings.Repeat("  ", depth) + "- " + r.row(row, ev.Thread) + "\n")
			walk(row.WorkflowID, depth+1)
		}
	}
	walk("", 0)
	if more {
		fmt.Fprintf(&b, "\nThe newest %d; older ones are left out.", maxListed)
	}
	return Reply{Text: strings.TrimRight(b.String(), "\n")}, nil
}

// row is one session in a list.
func (r *Router) row(row workflows.SessionRow, here workflows.Thread) string {
	parts := []string{r.linked(row.Thread, r.Mask.Text(row.Title)), row.Backend}
	parts = append(parts, r.Style.Liveness(workflows.HeaderView{Liveness: row.Liveness}), "by "+Escape(r.Style.Person(row.By)))
	if row.WorkflowID == here.WorkflowID() {
		parts = append(parts, "this thread")
	}
	parts = append(parts, Code(SessionName(row.Thread)))
	return strings.Join(parts, " · ")
}

// pick answers a command that needs a session and was given outside a thread
// with the sessions that it could mean.
func (r *Router) pick(ctx context.Context, ev Event, c Command) (Reply, error) {
	rows, _, err := r.rows(ctx, ev.Thread)
	if err != nil && !isNoSession(err) {
		return Reply{}, failure(err)
	}
	rows = slices.DeleteFunc(rows, func(row workflows.SessionRow) bool { return row.Liveness == workflows.LivenessDestroyed })
	verb := Code(string(c.Verb))
	if len(rows) == 0 {
		return Reply{Text: verb + " needs a session, and none is live. `/agent <task>` starts one."}, nil
	}
	lines := []string{verb + " needs a session. Give it in one of these threads:", ""}
	for _, row := range rows[:min(len(rows), 20)] {
		lines = append(lines, "- "+r.row(row, ev.Thread))
	}
	return Reply{Text: strings.Join(lines, "\n")}, nil
}

// status shows how this session stands.
func (r *Router) status(ctx context.Context, ev Event) (Reply, error) {
	st, err := r.Sessions.TurnState(ctx, ev.Thread.WorkflowID())
	if err != nil {
		return Reply{}, failure(err)
	}
	lines := []string{
		"**" + Escape(r.Mask.Text(st.Header.Title)) + "**",
		Escape(r.Style.HeaderLine(st.Header)),
		fmt.Sprintf("- %s since %s", Count(st.Turns, "turn", "turns"), r.Style.Clock(st.StartedAt)),
	}
	if t := st.Turn; t != nil {
		lines = append(lines, "- Turn "+fmt.Sprint(t.Number)+": "+Escape(r.Style.TurnSummary(*t)))
	} else {
		lines = append(lines, "- No turn is running.")
	}
	if n := len(st.Approvals); n > 0 {
		lines = append(lines, "- "+Count(n, "request waits", "requests wait")+" for approval.")
	}
	if n := len(standing(st.Grants)); n > 0 {
		lines = append(lines, "- "+Count(n, "permission stands", "permissions stand")+": see `grants`.")
	}
	if st.Queued > 0 {
		lines = append(lines, "- "+Count(st.Queued, "message is", "messages are")+" queued.")
	}
	if used := UsedTokens(st.Header.Usage); used != "" {
		if m := Money(st.Header.Usage.Micros); m != "" {
			used += ", " + m
		}
		lines = append(lines, "- "+used+" used")
	}
	if n := st.Header.Usage.Unsure; n > 0 {
		lines = append(lines, "- "+Count(n, "model call was", "model calls were")+" never answered and may have been billed")
	}
	if sb := st.Sandbox; sb != nil && st.Header.Liveness != workflows.LivenessDestroyed {
		lines = append(lines, fmt.Sprintf("- Sandbox generation %d on %s, workspace root %s", sb.Generation, sb.Backend, Code(sb.Root)))
		if sb.WorkspacePath != "" {
			lines = append(lines, "- Workspace on this machine: "+Code(sb.WorkspacePath))
		}
	}
	if st.Header.Notice != "" {
		lines = append(lines, "- "+st.Header.Notice)
	}
	return Reply{Text: lines[0] + "\n\n" + lines[1] + "\n\n" + strings.Join(lines[2:], "\n")}, nil
}

// history shows the recent turns in short.
func (r *Router) history(ctx context.Context, ev Event) (Reply, error) {
	h, err := r.Sessions.History(ctx, ev.Thread.WorkflowID())
	if err != nil {
		return Reply{}, failure(err)
	}
	if len(h.Turns) == 0 {
		return Reply{Text: "No turn has ended yet."}, nil
	}
	var b strings.Builder
	for _, t := range h.Turns {
		t.Messages, t.Commands, t.Answer = r.Mask.Texts(t.Messages), r.Mask.Texts(t.Commands), r.Mask.Text(t.Answer)
		fmt.Fprintf(&b, "**Turn %d** · %s · %s\n\n", t.Number, r.Style.Clock(t.At), t.State)
		for _, m := range t.Messages {
			b.WriteString("> " + Escape(Cut(m, 300)) + "\n\n")
		}
		for _, c := range t.Commands {
			b.WriteString("- " + Code(Cut(c, 200)) + "\n")
		}
		if len(t.Commands) > 0 {
			b.WriteString("\n")
		}
		if t.Answer != "" {
			b.WriteString(Escape(Cut(t.Answer, 400)) + "\n\n")
		}
	}
	return Reply{Text: strings.TrimRight(b.String(), "\n")}, nil
}
