package discord

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest/discordfake"
	"github.com/countersign/countersign/internal/workflows"
)

// incident is a channel that ada sees and grace does not.
const incident = "1000000000000000777"

// walls is a world with a session in a closed channel and one in the open.
func walls(t *testing.T) (w *world, hidden, open workflows.Thread) {
	t.Helper()
	w = start(t, setup{before: func(w *world) {
		w.fake.AddChannel(discordfake.Channel{ID: incident, Guild: guild, Name: "incident", Overwrites: []discordfake.Overwrite{
			{ID: guild, Deny: discordfake.ViewChannel}, {ID: ada, Member: true, Allow: discordfake.ViewChannel}, {ID: discordfake.BotUser, Member: true, Allow: discordfake.ViewChannel},
		}})
	}})
	id := w.fake.Quiet(ada, incident, bot+" the merger")
	w.fake.OpenThread(ada, incident, id, "the merger")
	return w, w.sessionIn(incident, id), w.session()
}

func (w *world) untouched() {
	w.t.Helper()
	for _, method := range []string{"Decide", "CancelTurn", "Pause", "Destroy", "SwitchBackend", "Fork", "SetTitle", "SetModel", "RevokeGrant", "SendFiles", "SendMessage"} {
		require.Empty(w.t, w.sessions.Asked(method), method)
	}
}

// TestForgedCustomIDs: a menu or form that names a thread that the person does not
// see does nothing there and shows nothing of it.
func TestForgedCustomIDs(t *testing.T) {
	t.Parallel()
	w, hidden, open := walls(t)
	card := w.approval(open, nil)
	for _, verb := range []chat.Verb{chat.VerbStop, chat.VerbStatus, chat.VerbHistory, chat.VerbDestroy, chat.VerbFiles, chat.VerbTitle, chat.VerbSwitch, chat.VerbFork} {
		for _, thread := range []string{hidden.ID, "1000000000000099999", "../" + hidden.ID} {
			i, err := w.fake.ChooseStale(grace, open.ID, card, idMenu+"|"+thread, string(verb))
			require.NoError(t, err)
			require.Contains(t, w.said(i), "names no session that you can see", "%s %s", verb, thread)
		}
	}
	for _, verb := range []chat.Verb{chat.VerbTitle, chat.VerbModel, chat.VerbFork, chat.VerbSwitch} {
		form := w.use(grace, open.ID, "agent switch", nil).Answer().Modal
		require.NotNil(t, form)
		forged := *form
		forged.CustomID = strings.Join([]string{idModal, string(verb), hidden.ID}, "|")
		sub, err := w.fake.Submit(&forged, map[string]string{"backend": "docker"})
		require.NoError(t, err)
		require.Contains(t, w.said(sub), "names no session that you can see", verb)
	}
	w.untouched()
	require.Len(t, w.fake.Messages(hidden.ID), 0)

	// Who sees it may: the header's menu stands in the channel.
	seen, err := w.fake.ChooseStale(ada, open.ID, card, idMenu+"|"+hidden.ID, string(chat.VerbStop))
	require.NoError(t, err)
	require.NotZero(t, seen.Answer().Kind)
	w.until("it is stopped", func() bool { return len(w.sessions.Asked("CancelTurn")) == 1 })
	require.Equal(t, hidden.WorkflowID(), w.sessions.Asked("CancelTurn")[0].ID)
}

// TestForgedRequests: a button that names another session's request, another version
// or another digest than what stands decides nothing but what it showed.
func TestForgedRequests(t *testing.T) {
	t.Parallel()
	w, hidden, open := walls(t)
	w.approval(hidden, func(v *workflows.MessageView) { v.Key, v.Approval.Command.Text = "approval-9", "cat secret" })
	card := w.approval(open, func(v *workflows.MessageView) { v.Approval.Approvers = []string{grace} })
	m, _ := w.fake.Message(open.ID, card)
	approve, ok := m.Button("Approve once")
	require.True(t, ok)
	r, ok := decodeRef(approve.CustomID)
	require.True(t, ok)

	// Another digest: refused before the session is asked.
	old := r
	old.Digest = "ffffffffffff"
	_, err := w.fake.ClickStale(grace, open.ID, card, old.encode())
	require.NoError(t, err)
	require.Contains(t, w.toldOnly(grace), "changed since")
	require.Empty(t, w.sessions.Asked("Decide"))

	// Another session's request: what reaches the session of this thread has no digest
	// of that request, and Review shows nothing of it.
	other := r
	other.Approval, other.Key = hidden.ID+".a1", "approval-1"
	_, err = w.fake.ClickStale(grace, open.ID, card, other.encode())
	require.NoError(t, err)
	d := one[workflows.Decision](w, "Decide")
	require.Equal(t, open.WorkflowID(), w.sessions.Asked("Decide")[0].ID, "only ever the thread's own session")
	require.NotEqual(t, "sha256:0123456789abcdef0123", d.Digest)
	other.Button = workflows.ButtonReview
	i, err := w.fake.ClickStale(grace, open.ID, card, other.encode())
	require.NoError(t, err)
	require.Contains(t, w.said(i), "not open any more")

	for _, junk := range []string{"", "a", idModal, "a|approve", strings.Repeat("|", 90), "z|approve|x|y|1|1|q|d"} {
		if junk == "" {
			continue
		}
		i, err := w.fake.ClickStale(grace, open.ID, card, junk)
		require.NoError(t, err)
		require.NotZero(t, i.Answer().Kind, junk)
	}
	require.Len(t, w.sessions.Asked("Decide"), 1)
}

// TestOutsidersDoNotDrive: who is no full member of the server drives nothing and is
// shown nothing; that they are none goes along with their decisions.
func TestOutsidersDoNotDrive(t *testing.T) {
	t.Parallel()
	const eve = "1000000000000000066"
	for name, c := range map[string]struct{ pending, guest, allowed bool }{
		"not screened":        {pending: true},
		"a guest":             {guest: true},
		"a guest, by setting": {guest: true, allowed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{config: func(cfg *Config) { cfg.AllowGuests = c.allowed }, before: func(w *world) {
				w.fake.AddUser(discordfake.User{ID: eve, Name: "eve"})
				w.fake.AddMember(guild, eve, oncall)
				w.fake.Screen(guild, eve, c.pending, c.guest)
			}})
			s := w.session()
			card := w.approval(s, nil)
			turn := w.turn(s, 5)
			w.click(eve, s.ID, card, "Approve once")
			d := one[workflows.Decision](w, "Decide")
			require.True(t, d.By.Guest, "the session counts it as what it is: no approver's")
			require.False(t, chat.InSet([]string{"*", oncall})(d.By))

			details := w.said(w.click(eve, s.ID, turn, "Details"))
			run := w.said(w.use(eve, general, "agent run", map[string]any{"task": "rm it all"}))
			w.fake.Say(eve, s.ID, "and this")
			stop := w.said(w.use(eve, s.ID, "agent stop", nil))
			if c.allowed {
				require.Contains(t, details, "go test")
				require.Contains(t, run, "Accepted")
				w.until("the message is taken", func() bool { return len(w.sessions.Asked("SendMessage")) == 1 })
				return
			}
			for _, told := range []string{details, run, stop} {
				require.Contains(t, told, "Guests cannot use Countersign here.")
			}
			w.fake.Say(ada, s.ID, "a member")
			w.until("a member's is taken", func() bool { return len(w.sessions.Asked("SendMessage")) > 0 })
			require.Equal(t, ada, one[workflows.Message](w, "SendMessage").Author.ID)
			require.Empty(t, w.sessions.Asked("CancelTurn"))
			require.Empty(t, w.sessions.Asked("RequestSession"))
		})
	}
}
