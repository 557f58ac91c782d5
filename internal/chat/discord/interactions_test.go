package discord

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest/discordfake"
	"github.com/countersign/countersign/internal/workflows"
)

// use gives a slash command and waits for its first answer.
func (w *world) use(user, channel, command string, options map[string]any) *discordfake.Interaction {
	w.t.Helper()
	i, err := w.fake.Slash(user, channel, command, options)
	require.NoError(w.t, err)
	require.NotZero(w.t, i.Answer().Kind, "%s was not answered in time", command)
	return i
}

// click presses a button and waits for its first answer.
func (w *world) click(user, channel, message, name string) *discordfake.Interaction {
	w.t.Helper()
	i, err := w.fake.Click(user, channel, message, name)
	require.NoError(w.t, err)
	require.NotZero(w.t, i.Answer().Kind, "the click on %s was not answered in time", name)
	return i
}

// said is an answer's text once it is no longer waiting.
func (w *world) said(i *discordfake.Interaction) string {
	w.t.Helper()
	w.until("the answer", func() bool {
		m, ok := i.Message()
		return ok && !m.Loading()
	})
	m, _ := i.Message()
	return m.Content
}

func TestRunByCommand(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	i := w.use(ada, general, "agent run", map[string]any{"task": "fix the test", "backend": "docker", "title": "A fix"})
	require.Equal(t, discordfake.AnswerDeferred, i.Answer().Kind)
	require.Contains(t, w.said(i), "Accepted")
	r := one[workflows.SessionRequest](w, "RequestSession")
	require.Equal(t, i.ID, r.ID)
	require.Equal(t, "docker", r.Backend)
	require.Equal(t, "A fix", r.Title)
	require.Equal(t, w.app.thread(guild, general, ""), r.Thread)

	in := workflows.OpenThreadInput{Thread: r.Thread, Key: "root-" + r.ID, Title: r.Title, By: r.By}
	first, err := w.app.Poster().OpenThread(t.Context(), in)
	require.NoError(t, err)
	w.fake.Advance(10 * time.Minute) // the nonce is forgotten
	again, err := w.app.Poster().OpenThread(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, first, again)
	threads := w.fake.Threads(general)
	require.Len(t, threads, 1)
	require.Equal(t, "A fix", threads[0].Name)
	require.Contains(t, threads[0].ThreadMembers, ada, "who asked is brought in")

	// The header is edited in the channel, and the thread follows its title.
	v := workflows.MessageView{Key: "header", Kind: workflows.KindHeader, Version: 1, Header: &workflows.HeaderView{
		Title: "A better fix", Backend: "local", Liveness: workflows.LivenessActive, By: r.By,
	}}
	id, err := w.app.Poster().Post(t.Context(), chat.Content{WorkflowID: first.WorkflowID(), Thread: first, View: v})
	require.NoError(t, err)
	require.Equal(t, first.ID, id)
	root, _ := w.fake.Message(general, id)
	require.Contains(t, root.Content, "**A better fix**")
	require.Equal(t, "A better fix", w.fake.Threads(general)[0].Name)
}

func TestRunWithoutPermission(t *testing.T) {
	t.Parallel()
	w := start(t, setup{fake: discordfake.Options{Permissions: discordfake.Invited &^ discordfake.SendMessagesInThreads}, before: func(w *world) {
		w.fake.AddRole(guild, discordfake.Role{ID: guild, Name: "@everyone", Permissions: discordfake.ViewChannel | discordfake.UseApplicationCommands})
	}})
	i := w.use(ada, general, "agent run", map[string]any{"task": "fix the test"})
	require.Contains(t, w.said(i), "Send Messages in Threads")
	require.Empty(t, w.sessions.Asked("RequestSession"))
}

func TestCommandsInAThread(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	s := w.session()
	i := w.use(ada, s.ID, "agent run", map[string]any{"task": "also the docs"})
	require.Equal(t, "also the docs", one[workflows.Message](w, "SendMessage").Text.Text)
	w.until("the task is shown to all", func() bool { return strings.Contains(w.last(s.ID).Content, "> also the docs") })
	_ = i
	w.use(ada, s.ID, "agent status", nil)
	w.until("the status is shown to all", func() bool { return strings.Contains(w.last(s.ID).Content, "**do something**") })
	w.use(ada, s.ID, "agent stop", nil)
	w.until("the turn is stopped", func() bool { return len(w.sessions.Asked("CancelTurn")) == 1 })
	require.Equal(t, s.WorkflowID(), w.sessions.Asked("CancelTurn")[0].ID)
	w.use(ada, s.ID, "agent title", map[string]any{"title": "Better"})
	require.Equal(t, "Better", one[workflows.SetTitle](w, "SetTitle").Title)
}

func TestCommandForAnotherSession(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	s := w.session()
	i, err := w.fake.Autocomplete(ada, general, "agent stop", "session", "some", nil)
	require.NoError(t, err)
	found := i.Answer()
	require.Equal(t, discordfake.AnswerChoices, found.Kind)
	require.Len(t, found.Choices, 1)
	require.Equal(t, s.ID, found.Choices[0].Value)
	w.use(ada, general, "agent stop", map[string]any{"session": s.ID})
	w.until("the turn is stopped", func() bool { return len(w.sessions.Asked("CancelTurn")) == 1 })
	require.Equal(t, s.WorkflowID(), w.sessions.Asked("CancelTurn")[0].ID)

	i, err = w.fake.Autocomplete(ada, general, "agent run", "backend", "d", nil)
	require.NoError(t, err)
	require.Equal(t, []discordfake.Choice{{Name: "docker", Value: "docker"}}, i.Answer().Choices)
	require.Contains(t, w.said(w.use(ada, general, "agent pause", nil)), "needs a session")
}

// TestOldSessionsAreOffered: what is typed is looked for among all sessions, not only
// the newest.
func TestOldSessionsAreOffered(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	for i := range 450 {
		s := w.app.thread(guild, general, fmt.Sprintf("10000000000100%05d", i))
		w.sessions.set(s, workflows.TurnState{Header: workflows.HeaderView{Title: "another", Backend: "local", Liveness: workflows.LivenessPaused}})
	}
	s := w.session()
	w.sessions.set(s, workflows.TurnState{Header: workflows.HeaderView{Title: "The old one", Backend: "local", Liveness: workflows.LivenessPaused}})
	i, err := w.fake.Autocomplete(ada, general, "agent stop", "session", "old ONE", nil)
	require.NoError(t, err)
	require.Equal(t, []discordfake.Choice{{Name: "The old one · local", Value: s.ID}}, i.Answer().Choices)
	i, err = w.fake.Autocomplete(ada, general, "agent stop", "session", "another", nil)
	require.NoError(t, err)
	require.Len(t, i.Answer().Choices, maxChoices)
}

func TestForms(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	s := w.session()
	i := w.use(ada, s.ID, "agent switch", nil)
	require.Equal(t, discordfake.AnswerModal, i.Answer().Kind)
	sub, err := w.fake.Submit(i.Answer().Modal, map[string]string{"backend": "docker"})
	require.NoError(t, err)
	require.NotZero(t, sub.Answer().Kind)
	require.Equal(t, "docker", one[workflows.SwitchSession](w, "SwitchBackend").Backend)

	v := workflows.MessageView{Key: "header", Kind: workflows.KindHeader, Version: 1, Header: &workflows.HeaderView{
		Title: "do something", Backend: "local", Liveness: workflows.LivenessActive, By: workflows.Actor{ID: ada, Name: "ada"},
	}}
	id, err := w.app.Poster().Post(t.Context(), chat.Content{WorkflowID: s.WorkflowID(), Thread: s, View: v})
	require.NoError(t, err)
	m, _ := w.fake.Message(s.ID, id)
	chosen, err := w.fake.Choose(ada, s.ID, id, m.Menus()[0].CustomID, "fork")
	require.NoError(t, err)
	require.Equal(t, discordfake.AnswerModal, chosen.Answer().Kind)
	sub, err = w.fake.Submit(chosen.Answer().Modal, map[string]string{"title": "Try it otherwise"})
	require.NoError(t, err)
	require.NotZero(t, sub.Answer().Kind)
	f := one[workflows.ForkSession](w, "Fork")
	require.Equal(t, "Try it otherwise", f.Title)
	require.Equal(t, s.WorkflowID(), f.Source)
	require.Equal(t, w.app.thread(guild, general, ""), f.Thread)
}

func TestApproveByRole(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	w.fake.AddMember(guild, grace, oncall)
	s := w.session()
	card := w.approval(s, nil)
	m, _ := w.fake.Message(s.ID, card)
	require.Equal(t, []string{oncall}, m.Pings)
	b, ok := m.Button("Approve once")
	require.True(t, ok)
	require.LessOrEqual(t, len(b.CustomID), maxCustomID)
	require.Contains(t, b.CustomID, s.ID+".a1")
	i := w.click(grace, s.ID, card, "Approve once")
	require.Equal(t, discordfake.AnswerDeferredUpdate, i.Answer().Kind)
	d := one[workflows.Decision](w, "Decide")
	require.Equal(t, workflows.VerdictApprove, d.Verdict)
	require.Equal(t, s.ID+".a1", d.ApprovalID)
	require.Equal(t, i.ID, d.Interaction)
	require.Equal(t, []string{oncall, "platform-oncall", "@platform-oncall"}, d.By.Groups)
	require.Equal(t, "sha256:0123456789abcdef0123", d.Digest, "the click binds what the card showed")
	require.WithinDuration(t, w.fake.Now(), d.ClickedAt, 20*time.Second)
	require.Empty(t, w.fake.Ephemerals(grace), "what counts shows in the thread")
}

func TestClicksThatDoNotCount(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	s := w.session()
	card := w.approval(s, nil)
	w.sessions.Answer = workflows.Outcome{Outcome: workflows.OutcomeNotYours, Text: "This needs @platform-oncall."}
	w.click(ada, s.ID, card, "Approve once")
	require.Equal(t, "This needs @platform-oncall.", w.toldOnly(ada))

	// The request changed after the card was drawn.
	v := w.sessions.Views["approval-1"]
	changed := *v.Approval
	changed.Digest, changed.Command.Text = "sha256:ffffffffffffffffffff", "rm -rf /"
	v.Approval = &changed
	w.sessions.SetView(v)
	w.click(grace, s.ID, card, "Approve once")
	require.Contains(t, w.toldOnly(grace), "changed since")
	require.Len(t, w.sessions.Asked("Decide"), 1)
}

// TestApproversThatAreGone: where the role was deleted while its request waits, who
// clicks is told that nobody can approve it.
func TestApproversThatAreGone(t *testing.T) {
	t.Parallel()
	for name, approvers := range map[string][]string{
		"deleted": {"a role of before", "1000000000000000999"}, "a person": {"a role of before", grace}, "there": {"platform-oncall"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{})
			w.sessions.Answer = workflows.Outcome{Outcome: workflows.OutcomeNotYours, Text: "This needs somebody else."}
			s := w.session()
			card := w.approval(s, func(v *workflows.MessageView) { v.Approval.Approvers = approvers })
			w.click(ada, s.ID, card, "Approve once")
			told := w.toldOnly(ada)
			require.Contains(t, told, "This needs somebody else.")
			require.Equal(t, name == "deleted", strings.Contains(told, "none of the roles and people"))
		})
	}
}

func TestDenyForm(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	s := w.session()
	card := w.approval(s, nil)
	for n, c := range []struct {
		typed   map[string]string
		verdict string
	}{
		{map[string]string{"reason": "not during the freeze"}, workflows.VerdictDeny},
		{map[string]string{"verdict": "changes", "reason": "use the staging bucket"}, workflows.VerdictChanges},
	} {
		form := w.click(grace, s.ID, card, "Deny…").Answer()
		require.Equal(t, discordfake.AnswerModal, form.Kind)
		sub, err := w.fake.Submit(form.Modal, c.typed)
		require.NoError(t, err)
		require.NotZero(t, sub.Answer().Kind)
		w.until("the decision", func() bool { return len(w.sessions.Asked("Decide")) == n+1 })
		d := w.sessions.Asked("Decide")[n].Arg.(workflows.Decision)
		require.Equal(t, c.verdict, d.Verdict)
		require.Equal(t, c.typed["reason"], d.Reason)
	}
}

func TestReview(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	s := w.session()
	card := w.approval(s, func(v *workflows.MessageView) {
		v.Approval.BreakGlass, v.Approval.Evidence = []string{grace}, []string{"312 files, 48 MB"}
		v.Approval.Reasons = []string{strings.Repeat("a long reason ", 60), strings.Repeat("another one ", 60)}
	})
	posted, _ := w.fake.Message(s.ID, card)
	require.Contains(t, posted.Content, "When asked: 312 files, 48 MB.", "however long the reasons are")
	i := w.click(grace, s.ID, card, "Review…")
	require.Contains(t, w.said(i), "rm -rf build")
	require.Contains(t, w.said(i), "When asked: 312 files, 48 MB.")
	m, _ := i.Message()
	require.True(t, m.Ephemeral)
	require.Len(t, m.Files, 1)
	require.Contains(t, string(m.Files[0].Content), "Digest: sha256:0123456789abcdef0123")

	w.click(grace, s.ID, m.ID, "Approve once")
	w.until("the approval", func() bool { return len(w.sessions.Asked("Decide")) == 1 })
	d := w.sessions.Asked("Decide")[0].Arg.(workflows.Decision)
	require.Equal(t, "sha256:0123456789abcdef0123", d.Digest)

	form := w.click(grace, s.ID, m.ID, "Change the command…").Answer()
	require.Equal(t, "rm -rf build", form.Modal.Inputs[0].Value)
	sub, err := w.fake.Submit(form.Modal, map[string]string{"command": "rm -rf build/cache"})
	require.NoError(t, err)
	require.NotZero(t, sub.Answer().Kind)
	w.until("the edit", func() bool { return len(w.sessions.Asked("Decide")) == 2 })
	d = w.sessions.Asked("Decide")[1].Arg.(workflows.Decision)
	require.Equal(t, "rm -rf build/cache", d.Edit)
	require.Equal(t, "sha256:0123456789abcdef0123", d.Digest)

	form = w.click(grace, s.ID, m.ID, "Approve alone…").Answer()
	sub, err = w.fake.Submit(form.Modal, map[string]string{"reason": "production is down"})
	require.NoError(t, err)
	require.NotZero(t, sub.Answer().Kind)
	w.until("the vote", func() bool { return len(w.sessions.Asked("Decide")) == 3 })
	d = w.sessions.Asked("Decide")[2].Arg.(workflows.Decision)
	require.True(t, d.BreakGlass)
	require.Equal(t, "production is down", d.Reason)

	form = w.click(grace, s.ID, m.ID, "Approve with a note…").Answer()
	sub, err = w.fake.Submit(form.Modal, map[string]string{"reason": "agreed in the stand-up"})
	require.NoError(t, err)
	require.NotZero(t, sub.Answer().Kind)
	w.until("the vote", func() bool { return len(w.sessions.Asked("Decide")) == 4 })
	d = w.sessions.Asked("Decide")[3].Arg.(workflows.Decision)
	require.False(t, d.BreakGlass)
	require.Equal(t, []string{workflows.VerdictApprove, "agreed in the stand-up", "sha256:0123456789abcdef0123"}, []string{d.Verdict, d.Reason, d.Digest})
}

// A directory that no message can hold is in the file, whole.
func TestReviewOfALongDirectory(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	s := w.session()
	dir := strings.Repeat("/a directory", 300) + "/end"
	i := w.click(grace, s.ID, w.approval(s, func(v *workflows.MessageView) { v.Approval.Cwd = dir }), "Review…")
	require.Contains(t, w.said(i), "the directory is in the file")
	m, _ := i.Message()
	require.Len(t, m.Files, 1)
	require.Contains(t, string(m.Files[0].Content), "Directory: "+dir+"\n")
}

// Workspaces are offered while somebody types, and others are refused at once.
func TestWorkspaces(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	i, err := w.fake.Autocomplete(ada, general, "agent run", "workspace", "a", map[string]any{"task": "fix it"})
	require.NoError(t, err)
	w.until("the choices", func() bool { return i.Answer().Kind == discordfake.AnswerChoices })
	require.Len(t, i.Answer().Choices, 1)
	require.Equal(t, "api", i.Answer().Choices[0].Value)
	refused := w.use(ada, general, "agent run", map[string]any{"task": "fix it", "workspace": "nowhere"})
	require.Contains(t, w.said(refused), "Workspaces: api, site.")
	require.Empty(t, w.sessions.Asked("RequestSession"))
}

// TestReviewOfADecidedRequest: the session answers how it stands.
func TestReviewOfADecidedRequest(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	s := w.session()
	card := w.approval(s, nil)
	i := w.click(grace, s.ID, card, "Review…")
	require.Contains(t, w.said(i), "rm -rf build")
	m, _ := i.Message()
	w.sessions.SetView(workflows.MessageView{Key: "approval-1"})
	w.sessions.Answer = workflows.Outcome{Outcome: workflows.OutcomeAlreadyDecided, Text: "@ada already denied this at 15:07 UTC."}
	click := w.click(grace, s.ID, m.ID, "Approve once")
	w.until("the answer", func() bool { return len(click.Followups()) == 1 })
	require.Contains(t, click.Followups()[0].Content, "already denied")
	require.Equal(t, "0123456789abcdef", one[workflows.Decision](w, "Decide").Digest, "it is no whole digest, and so approves nothing")
}

func TestALongCommandIsApprovedFromReviewOnly(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	s := w.session()
	card := w.approval(s, func(v *workflows.MessageView) {
		v.Approval.Command.Text = strings.Repeat("echo 0123456789\n", 300) + "rm -rf build"
	})
	m, _ := w.fake.Message(s.ID, card)
	var labels []string
	for _, b := range m.Buttons() {
		labels = append(labels, b.Label)
	}
	require.Equal(t, []string{"Review…", "Deny…"}, labels)
	i := w.click(grace, s.ID, card, "Review…")
	require.Contains(t, w.said(i), "the file has all of it")
	shown, _ := i.Message()
	require.Contains(t, string(shown.Files[0].Content), "rm -rf build")
	_, ok := shown.Button("Change the command…")
	require.False(t, ok, "no box holds it")
}

func TestQuestionsAreSettled(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	s := w.session()
	w.use(ada, s.ID, "agent done", nil)
	w.until("the question", func() bool { return len(w.last(s.ID).Buttons()) == 2 })
	q := w.last(s.ID)
	w.click(ada, s.ID, q.ID, "Keep")
	w.until("the answer", func() bool {
		m, _ := w.fake.Message(s.ID, q.ID)
		return len(m.Buttons()) == 0 && strings.Contains(m.Content, "Kept by @ada")
	})
	require.Len(t, w.sessions.Asked("Pause"), 1)
}

// TestOutcomeAfterTheTokenDied: what cannot be told to the clicker alone any more
// is said in the thread.
func TestOutcomeAfterTheTokenDied(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	s := w.session()
	card := w.approval(s, nil)
	w.sessions.Answer = workflows.Outcome{Outcome: workflows.OutcomeNotYours, Text: "This needs @platform-oncall."}
	release := w.sessions.hold()
	w.click(grace, s.ID, card, "Approve once")
	w.fake.Advance(16 * time.Minute)
	release()
	w.until("the outcome is said", func() bool { return strings.Contains(w.last(s.ID).Content, "This needs @platform-oncall.") })
	m := w.last(s.ID)
	require.Contains(t, m.Content, "<@"+grace+">")
	require.Empty(t, m.Pings)
}

// TestTooLate: whom Discord has told that we did not answer is not acted for.
func TestTooLate(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	w.fake.Fail("POST /interactions/{interaction}/{token}/callback", discordfake.Failure{Status: 404, Code: 10062})
	_, err := w.fake.Slash(ada, general, "agent run", map[string]any{"task": "fix the test"})
	require.NoError(t, err)
	w.until("the answer is refused", func() bool { return len(w.fake.Refused(10062)) == 1 })
	w.use(ada, general, "agent help", nil)
	require.Empty(t, w.sessions.Asked("RequestSession"))
}

// TestTwoBots: each gets every event, and everything is done once.
func TestTwoBots(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	w.sessions.Answer = workflows.Outcome{}
	second, err := Connect(t.Context(), w.app.cfg, w.app.dep)
	require.NoError(t, err)
	first := w.app
	w.app = second
	w.run()
	w.app = first
	w.until("two connections", func() bool { return w.fake.Gateway().Connections() == 2 })
	i := w.use(ada, general, "agent run", map[string]any{"task": "fix the test"})
	require.Contains(t, w.said(i), "Accepted")
	for _, c := range w.sessions.Asked("RequestSession") {
		require.Equal(t, i.ID, c.Arg.(workflows.SessionRequest).ID, "Temporal takes the second for the first")
	}
	s := w.session()
	w.fake.Say(ada, s.ID, bot+" status")
	w.until("status is answered", func() bool { return strings.Contains(w.last(s.ID).Content, "do something") })
	time.Sleep(200 * time.Millisecond)
	ours := slices.DeleteFunc(w.fake.Messages(s.ID), func(m discordfake.Message) bool { return m.Author != discordfake.BotUser })
	require.Len(t, ours, 1)
}

func TestServerAwayIsSaid(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	s := w.session()
	card := w.approval(s, nil)
	w.setDown(errors.Join(workflows.ErrUnconfirmed, errors.New("deadline")))
	w.click(grace, s.ID, card, "Approve once")
	require.Contains(t, w.toldOnly(grace), "Not confirmed")
}

func TestCommandsAreRegisteredOnce(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	writes := w.fake.CommandWrites()
	require.NoError(t, w.app.register(t.Context()))
	require.Equal(t, writes, w.fake.CommandWrites(), "what is there already is left alone")
	w.app.cfg.Guilds = []string{guild}
	require.NoError(t, w.app.register(t.Context()))
	require.Empty(t, w.fake.Commands(""), "commands would be shown twice")
	require.Len(t, w.fake.Commands(guild), 2)
}

// TestRolesByName: a name that is not one role's, or that looks like somebody's
// ID, gives nobody anything.
func TestRolesByName(t *testing.T) {
	t.Parallel()
	all := []role{{ID: "1", Name: "oncall"}, {ID: "2", Name: "twice"}, {ID: "3", Name: "twice"}, {ID: "4", Name: grace}, {ID: "5", Name: "*"}}
	require.Equal(t, []string{"oncall", "@oncall"}, namesOf(all, []string{"1", "2", "4", "5"}))
	for name, want := range map[string]string{"oncall": "1", "@oncall": "1", "2": "2", "twice": "", "other": ""} {
		id, ok := roleID(all, name)
		require.Equal(t, want, id, name)
		require.Equal(t, want != "", ok)
	}
}

func TestCommandsOfAMessage(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	s := w.session()
	id := w.fake.Say(ada, s.ID, "hello")
	i, err := w.fake.OnMessage(grace, s.ID, id, shortcutName)
	require.NoError(t, err)
	require.Equal(t, discordfake.AnswerMessage, i.Answer().Kind)
	m, ok := i.Message()
	require.True(t, ok)
	require.True(t, m.Ephemeral)
	chosen, err := w.fake.Choose(grace, s.ID, m.ID, m.Menus()[0].CustomID, "pause")
	require.NoError(t, err)
	require.NotZero(t, chosen.Answer().Kind)
	require.Equal(t, grace, one[workflows.Pause](w, "Pause").By.ID)

	other := w.fake.Say(ada, general, "good morning")
	i, err = w.fake.OnMessage(grace, general, other, shortcutName)
	require.NoError(t, err)
	require.NotZero(t, i.Answer().Kind)
	m, _ = i.Message()
	require.Contains(t, m.Content, "No session")
}

// TestClosedChannels: a session in a channel that is closed to somebody is not
// there for them.
func TestClosedChannels(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	secret, team := "1000000000000000013", "1000000000000000043"
	w.fake.AddRole(guild, discordfake.Role{ID: team, Name: "security"})
	w.fake.AddMember(guild, grace, team)
	w.fake.AddChannel(discordfake.Channel{ID: secret, Name: "incident", Overwrites: []discordfake.Overwrite{
		{ID: guild, Deny: discordfake.ViewChannel}, {ID: team, Allow: discordfake.ViewChannel}, {ID: discordfake.BotUser, Member: true, Allow: discordfake.ViewChannel},
	}})
	root := w.fake.Quiet(grace, secret, bot+" look into it")
	w.fake.OpenThread(grace, secret, root, "look into it")
	s := w.sessionIn(secret, root)

	require.Contains(t, w.said(w.use(ada, general, "agent list", nil)), "no sessions")
	require.Contains(t, w.said(w.use(grace, general, "agent list", nil)), root)
	i, err := w.fake.Autocomplete(ada, general, "agent new", "from", "", nil)
	require.NoError(t, err)
	require.Empty(t, i.Answer().Choices)
	require.Contains(t, w.said(w.use(ada, general, "agent new", map[string]any{"from": s.ID})), "no session that you can see")
	require.Contains(t, w.said(w.use(ada, general, "agent history", map[string]any{"session": s.ID})), "no session that you can see")
	w.fake.Say(ada, general, bot+" new --from "+s.ID)
	w.until("it is refused", func() bool { return strings.Contains(w.last(general).Content, "no session that you can see") })
	require.Empty(t, w.sessions.Asked("Fork"))
	w.use(grace, general, "agent new", map[string]any{"from": s.ID})
	require.Equal(t, s.WorkflowID(), one[workflows.ForkSession](w, "Fork").Source)
}
