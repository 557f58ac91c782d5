package discord

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest"
	"github.com/countersign/countersign/internal/chat/chattest/discordfake"
	"github.com/countersign/countersign/internal/workflows"
)

// shows is the n-th thing that a person alone was told, once it has come.
func (w *world) shows(user string, n int) discordfake.Message {
	w.t.Helper()
	var m discordfake.Message
	w.until("it is shown", func() bool {
		all := w.fake.Ephemerals(user)
		if len(all) != n || all[n-1].Loading() {
			return false
		}
		m = all[n-1]
		return true
	})
	return m
}

func filesOf(m discordfake.Message) map[string]string {
	out := map[string]string{}
	for _, f := range m.Files {
		out[f.Name] = string(f.Content)
	}
	return out
}

// Details are shown to who asks alone, with all of them as a file; each call's
// output too; what is posted to the thread is posted once.
func TestDetails(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	thread := w.session()
	card := w.turn(thread, 5)
	w.outputs = chattest.Outputs{
		thread.ID + ".2.1.x1/stdout": strings.Repeat("a line of output\n", 3000), thread.ID + ".2.1.x1/stderr": "a warning\n",
	}
	_, err := w.fake.Click(grace, thread.ID, card, "Details")
	require.NoError(t, err)
	m := w.shows(grace, 1)
	for _, want := range []string{"**Turn 2** · 5 calls", "✓ exit 1 · 3.1 s", "go test ./internal/router", "Verdict: critical"} {
		require.Contains(t, m.Content, want)
	}
	require.Empty(t, m.Pings)
	whole := filesOf(m)["turn-2-details.txt"]
	for _, want := range []string{
		strings.Split(chattest.LongCommand(), "\n")[1], "Approved by @grace at 15:04 UTC", "agreed in the stand-up", "exec " + thread.ID + ".2.2.x1",
	} {
		require.Contains(t, whole, want)
	}

	menu := m.Menus()[0]
	require.Len(t, menu.Options, 3, "those that ran something")
	_, err = w.fake.Choose(grace, thread.ID, m.ID, menu.CustomID, "1")
	require.NoError(t, err)
	out := w.shows(grace, 2)
	require.Contains(t, out.Content, "a warning")
	require.Contains(t, out.Content, "a line of output")
	want := map[string]string{"turn-2-call-1-stdout.txt": w.outputs[thread.ID+".2.1.x1/stdout"], "turn-2-call-1-stderr.txt": "a warning\n"}
	require.Equal(t, want, filesOf(out))
	for n := 3; n < 5; n++ {
		_, err = w.fake.Click(grace, thread.ID, out.ID, "Post to the thread")
		require.NoError(t, err)
		require.Contains(t, w.shows(grace, n).Content, "in the thread as a file")
	}
	posted := 0
	for _, m := range w.fake.Messages(thread.ID) {
		if len(m.Files) > 0 {
			posted++
			require.Equal(t, want, filesOf(m))
			require.Empty(t, m.Pings)
		}
	}
	require.Equal(t, 1, posted, "once")
	_, err = w.fake.Click(grace, thread.ID, m.ID, "Post to the thread")
	require.NoError(t, err)
	w.shows(grace, 5)
	require.Contains(t, filesOf(w.last(thread.ID)), "turn-2-details.txt")
}

func TestDetailsInPages(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	thread := w.session()
	card := w.turn(thread, 12)
	_, err := w.fake.Click(grace, thread.ID, card, "Details")
	require.NoError(t, err)
	m := w.shows(grace, 1)
	require.Contains(t, m.Content, "page 3 of 3")
	require.Contains(t, m.Content, "dir-12")
	_, err = w.fake.Click(grace, thread.ID, m.ID, "Earlier calls")
	require.NoError(t, err)
	m = w.shows(grace, 2)
	require.Contains(t, m.Content, "page 2 of 3")
	require.Contains(t, m.Content, "dir-6")
}

func TestDetailsAreForThoseWhoMaySeeTheHistory(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	thread := w.session()
	card := w.turn(thread, 5)
	w.app.plain.Allow = (&chat.Authority{Rules: map[chat.Verb][]string{chat.VerbHistory: {grace}}}).Allow
	_, err := w.fake.Click(ada, thread.ID, card, "Details")
	require.NoError(t, err)
	require.Contains(t, w.toldOnly(ada), "may use `history` here")
}

// Stop is what the command is, and is answered as it is.
func TestStopButton(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	thread := w.session()
	v := workflows.MessageView{
		Key: "turn-3", Kind: workflows.KindTurn, Version: 1, Turn: &workflows.TurnView{Number: 3, State: workflows.TurnWorking, StartedAt: clock(t, "15:04:10")},
		Buttons: []workflows.Button{{ID: workflows.ButtonStop, Label: "Stop"}, {ID: workflows.ButtonDetails, Label: "Details"}},
	}
	id, err := w.app.Poster().Post(t.Context(), chat.Content{WorkflowID: thread.WorkflowID(), Thread: thread, View: v})
	require.NoError(t, err)
	w.sessions.Answer = workflows.Outcome{Outcome: workflows.OutcomeRecorded, Text: "Stopping."}
	_, err = w.fake.Click(grace, thread.ID, id, "Stop")
	require.NoError(t, err)
	require.Equal(t, 3, one[workflows.CancelTurn](w, "CancelTurn").Turn)
	require.Equal(t, "Stopping.", w.toldOnly(grace))
}

func TestDetailsGolden(t *testing.T) {
	t.Parallel()
	b := &chattest.Blobs{}
	r := &chat.Router{Sessions: &chattest.Sessions{}, Blobs: b}
	trail, err := chattest.RecordTurn(t.Context(), b, goldenThread(), 2, 0, grace, ada)
	require.NoError(t, err)
	d, err := r.Details(t.Context(), workflows.Actor{ID: ada}, goldenThread(), 2, trail)
	require.NoError(t, err)
	at := ref{Turn: 2}.withTrail(trail)
	require.Equal(t, trail, at.trail())
	var all []shown
	add := func(name string, p private) {
		require.LessOrEqual(t, size(p.text), maxContent)
		all = append(all, shown{Name: name, Text: p.text, Rows: p.rows})
	}
	add("details", detailsOf(at, d, 0))
	add("details, nothing ran", detailsOf(at, chat.Details{Turn: 2}, 0))
	add("output", outputOf(at, d.Calls[0], []chat.OutputFile{{Stream: chat.Stdout, Text: "--- FAIL: TestFlaky\n", Bytes: 20}, {Stream: chat.Stderr, Text: "exit status 1\n", Bytes: 14}}))
	add("no output", outputOf(at, d.Calls[2], nil))
	golden(t, "details", all)

	for i := range d.Calls {
		d.Calls[i].Command = strings.Repeat("😀`*_", 5000)
		d.Calls[i].Reasons = []string{strings.Repeat("<@1234567890123456789>```", 100)}
	}
	add("", detailsOf(at, d, 0))
	big := strings.Repeat("```*😀\x01>\n", 100000)
	add("", outputOf(at, d.Calls[0], []chat.OutputFile{{Stream: chat.Stdout, Text: big, Bytes: 1}, {Stream: chat.Stderr, Text: big, Bytes: 1}}))
	_, err = json.Marshal(all)
	require.NoError(t, err)
}
