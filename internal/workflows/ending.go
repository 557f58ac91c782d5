package workflows

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/countersign/countersign/internal/audit"
)

// KeepFor is how long a destroyed session's files stay in the blob store.
const KeepFor = 4 * 24 * time.Hour

// pause snapshots and releases the sandbox; the next message resumes.
func (s *session) pause(ctx workflow.Context) {
	by := *s.st.PauseBy
	s.st.PauseBy = nil
	defer s.askHost()()
	ended := s.endAllBackground(ctx, "ended: paused by "+by.Label())
	if err := s.release(ctx, ended != ""); s.missing(err) {
		s.notice("Not paused: the host of this session's sandbox does not answer. What was saved is safe. Try `pause` again when the host is back," +
			" or send a message: it goes on there, or asks whether to go on elsewhere." + s.endedLateText())
		return
	} else if err != nil {
		s.notice("The sandbox could not be released: " + sentenceOf(err) + " The session goes on; try `pause` again." + ended)
		return
	}
	s.st.Paused = true
	s.opened = false
	s.notice("Paused by " + by.Label() + ". The next message resumes it." + ended)
	s.liveness(ctx)
	s.tellManager(ctx, SignalUpdateSnapshotID, UpdateSnapshotID{Boundary: s.boundary(), Liveness: s.now()})
	s.step(ctx)
}

// release saves the files, where the last boundary's are not all of them, and gives
// back what the sandbox costs.
func (s *session) release(ctx workflow.Context, changed bool) error {
	sb := s.st.Sandbox
	if sb == nil || s.noHost {
		return nil
	}
	if changed || s.st.Boundary.Snapshot == "" || s.st.Boundary.Failed != "" {
		s.snapshot(ctx)
	}
	if s.noHost {
		return nil
	}
	return workflow.ExecuteActivity(s.onHost(openOptions(ctx, sb.Queue, openAttempts), sb.Queue), ActivityReleaseSandbox, ReleaseInput{
		WorkflowID: s.id, Sandbox: *sb,
	}).Get(ctx, nil)
}

// destroy ends what runs at once; the main coroutine does the rest.
func (s *session) destroy(ctx workflow.Context, d Destroy) {
	if s.st.Destroy != nil {
		return
	}
	s.st.Destroy = &d
	if s.st.Turn != nil && s.st.Turn.Stop == nil {
		s.stop(ctx, CancelTurn{By: d.By})
	}
	s.endBackground(ctx, 0, "ended: destroyed by "+d.By.Label())
}

// end destroys the sandbox and closes the session with a receipt.
func (s *session) end(ctx workflow.Context) error {
	d := s.st.Destroy
	var inv Inventory
	ended := s.endAllBackground(ctx, "ended: destroyed by "+d.By.Label())
	if s.st.Sandbox != nil {
		inv = s.removeSandbox(ctx)
	}
	s.st.DestroyAt = workflow.Now(ctx)
	s.audit(ctx, audit.Entry{Kind: audit.KindDestroyed, Actor: d.By.ID})
	s.flush = true
	s.notice(s.receipt(d.By, inv) + ended)
	s.liveness(ctx)
	if p := s.post(HeaderKey); p != nil {
		p.View.Buttons = nil
	}
	s.tellManager(ctx, SignalUpdateSnapshotID, UpdateSnapshotID{Boundary: s.boundary(), Liveness: LivenessDestroyed, Destroyed: true})
	if s.noHost {
		s.removeLate(ctx, *s.st.Sandbox)
	}
	for {
		err := workflow.Await(ctx, func() bool {
			return s.settled() && len(s.st.Unwritten) == 0 && len(s.st.Doubtful) == 0 && !s.posting && s.calls == 0 && !s.asking && s.following == 0 && workflow.AllHandlersFinished(ctx)
		})
		if err != nil {
			return err
		}
		// A message that came with this very task must not vanish with the run.
		if s.drainSignals(ctx); s.settled() && s.calls == 0 && len(s.st.Doubtful) == 0 {
			return nil
		}
	}
}

// removeSandbox saves the files a last time and removes the sandbox. It does not
// wait for a host that takes nothing up.
func (s *session) removeSandbox(ctx workflow.Context) (inv Inventory) {
	sb, saved := *s.st.Sandbox, false
	if !s.noHost {
		s.snapshot(ctx)
		saved = s.st.Boundary.Failed == ""
	}
	if !s.noHost {
		err := workflow.ExecuteActivity(s.onHost(openOptions(ctx, sb.Queue, openAttempts), sb.Queue), ActivityDestroySandbox, ReleaseInput{
			WorkflowID: s.id, Sandbox: sb,
		}).Get(ctx, &inv)
		if err != nil && !s.missing(err) {
			s.notice("The sandbox could not be removed: " + sentenceOf(err) + " Its worker removes it when it finds it orphaned.")
		}
	}
	if s.noHost {
		s.loseBackground("its host does not answer")
		s.notice("The host of this session's sandbox does not answer. The sandbox, and what may still run in it, goes when that host is back. " + s.keptText(saved))
		s.st.Boundary.Failed = "" // said: what is kept may be gone on from
	}
	return inv
}

// keptText says which files outlast a sandbox that could not be removed.
func (s *session) keptText(saved bool) string {
	switch {
	case s.st.Boundary.Snapshot == "":
		return "No files are kept: none were saved."
	case saved:
		return "All its files are saved."
	}
	return "Kept are the " + s.savedText() + " What may have changed since then is lost."
}

// removeLate leaves word for a host that is only busy, for as long as it may be
// that. One that was dead looks through its sandboxes when it is back.
func (s *session) removeLate(ctx workflow.Context, sb SandboxRef) {
	o := workflow.GetActivityOptions(openOptions(ctx, sb.Queue, openAttempts))
	o.ScheduleToStartTimeout = s.hostDeadAfter()
	f := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), ActivityDestroySandbox, ReleaseInput{WorkflowID: s.id, Sandbox: sb})
	s.calls++
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { s.calls-- }()
		if err := f.Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Warn("Sandbox was not removed; its host does that when it is back", "host", sb.Host, "error", err)
		}
	})
}

// notTaken answers messages that come after the receipt and before the run has
// closed, once; from then on the chat side refuses them.
func (s *session) notTaken() {
	if s.late {
		return
	}
	s.late = true
	text := "This session is destroyed; messages are not taken any more."
	if s.st.Boundary.Snapshot != "" {
		text += " Start anew from its files: `new --from " + s.id + "`."
	}
	s.notice(text)
}

// receipt says what the session was and what is left of it.
func (s *session) receipt(by Actor, inv Inventory) string {
	st := s.st.Stats
	var b strings.Builder
	b.WriteString(fmt.Sprintf("Destroyed by %s at %s after %s. %s, %s, %s", by.Label(), s.st.DestroyAt.UTC().Format("15:04 UTC"),
		Duration(s.st.DestroyAt.Sub(s.st.StartedAt)), plural(s.st.Turns, "turn"), plural(st.Commands, "command"), plural(st.Approved+st.Denied, "approval")))
	if detail := decidersText(st); detail != "" {
		b.WriteString(" (" + detail + ")")
	}
	b.WriteString(".")
	if s.st.Usage.Micros > 0 {
		b.WriteString(fmt.Sprintf(" $%.2f.", float64(s.st.Usage.Micros)/1e6))
	}
	if len(inv.Unpushed) > 0 {
		b.WriteString(" Unpushed commits: " + strings.Join(inv.Unpushed, ", ") + ".")
	}
	if inv.Uncommitted > 0 {
		b.WriteString(" " + plural(inv.Uncommitted, "file") + " with changes that no commit holds.")
	}
	if s.noHost {
		b.WriteString(" Its sandbox is not removed yet: the host does that when it is back.")
	}
	if n := s.waiting(); n > 0 {
		b.WriteString(" Not taken any more: " + plural(n, "message") + ".")
	}
	if s.st.Boundary.Snapshot != "" {
		b.WriteString(fmt.Sprintf(" Files kept until %s: `new --from %s`.", s.st.DestroyAt.Add(KeepFor).UTC().Format("2 Jan"), s.id))
	}
	return b.String()
}

func decidersText(st Stats) string {
	names := workflow.DeterministicKeys(st.Deciders)
	slices.Sort(names)
	var parts []string
	for _, n := range names {
		parts = append(parts, fmt.Sprintf("%d %s", st.Deciders[n], n))
	}
	if st.Denied > 0 {
		parts = append(parts, fmt.Sprintf("%d denied", st.Denied))
	}
	return strings.Join(parts, ", ")
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// Duration writes a duration as cards do: "0.4 s", "1 m 42 s", "3 h 12 m".
func Duration(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", max(d, 0).Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d m %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d m", int(d.Hours()), int(d.Minutes())%60)
}
