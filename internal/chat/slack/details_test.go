package slack

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest"
	"github.com/countersign/countersign/internal/chat/chattest/slackfake"
	"github.com/countersign/countersign/internal/workflows"
)

// shows is a person's newest modal, once it has been filled that often.
func (w *world) shows(user string, views, updates int) slackfake.View {
	w.t.Helper()
	w.until("the dialog is filled", func() bool {
		all := w.fake.Views(user)
		return len(all) == views && all[views-1].Updates >= updates
	})
	return w.fake.Views(user)[views-1]
}

// files are those in a thread, by name.
func (w *world) files(t workflows.Thread) map[string]string {
	out := map[string]string{}
	for _, m := range w.fake.Thread(t.Channel, t.ID) {
		for _, f := range m.Files {
			out[f.Name] += string(f.Content)
		}
	}
	return out
}

// Details open at once, are filled, and lead to each call's output; what is posted
// to the thread is posted once.
func TestDetails(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	thread := w.session()
	ts := w.turn(thread, 5)
	w.outputs = chattest.Outputs{
		thread.ID + ".2.1.x1/stdout": strings.Repeat("a line of output\n", 3000), thread.ID + ".2.1.x1/stderr": "a warning\n",
	}
	_, err := w.fake.Press(grace, general, ts, workflows.ButtonDetails)
	require.NoError(t, err)
	v := w.shows(grace, 1, 1)
	text := blockText(v.Blocks)
	for _, want := range []string{
		"Turn 2 · 5 calls", "1. ✓ exit 1 · 3.1 s", "go test ./internal/router", "Verdict: critical: ", "rewrites what others have",
		"agreed in the stand-up", "request " + thread.ID + ".a1", "exec " + thread.ID + ".2.2.x1", "characters in all: the file has them",
	} {
		require.Contains(t, text, want)
	}
	require.Contains(t, string(v.Blocks), `"user_id":"`+grace+`"`, "who voted, as Slack shows people")

	_, err = w.fake.PressIn(v.ID, "output:1")
	require.NoError(t, err)
	out := w.shows(grace, 2, 1)
	require.Equal(t, v.ID, out.Below)
	require.Contains(t, blockText(out.Blocks), "the last 18000 characters of")
	require.Contains(t, blockText(out.Blocks), "a warning")
	require.Empty(t, w.files(thread), "nothing is posted unless somebody wants it")
	for range 2 {
		_, err = w.fake.PressIn(v.ID, "output:1")
		require.NoError(t, err)
	}
	w.shows(grace, 4, 1)
	for _, o := range w.fake.Views(grace)[1:3] {
		w.until("it is filled", func() bool {
			v, _ := w.fake.View(o.ID)
			return strings.Contains(blockText(v.Blocks), "the last 18000 characters of")
		})
		_, err = w.fake.PressIn(o.ID, actionShare)
		require.NoError(t, err)
		w.until("it is posted", func() bool {
			v, _ := w.fake.View(o.ID)
			return strings.Contains(blockText(v.Blocks), "Posted as a file")
		})
	}
	require.Equal(t, map[string]string{
		"turn-2-call-1-stdout.txt": w.outputs[thread.ID+".2.1.x1/stdout"], "turn-2-call-1-stderr.txt": "a warning\n",
	}, w.files(thread), "once")

	_, err = w.fake.PressIn(v.ID, actionFile)
	require.NoError(t, err)
	w.until("the details are posted", func() bool { return len(w.files(thread)) == 3 })
	whole := w.files(thread)["turn-2-details.txt"]
	require.Contains(t, whole, strings.Split(chattest.LongCommand(), "\n")[1])
	require.Contains(t, whole, "Approved by @grace at 15:04 UTC")
}

func TestDetailsInPages(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	ts := w.turn(w.session(), 30)
	_, err := w.fake.Press(grace, general, ts, workflows.ButtonDetails)
	require.NoError(t, err)
	v := w.shows(grace, 1, 1)
	require.Contains(t, blockText(v.Blocks), "page 4 of 4")
	require.Contains(t, blockText(v.Blocks), "dir-30")
	_, err = w.fake.PressIn(v.ID, "page:3")
	require.NoError(t, err)
	v = w.shows(grace, 1, 2)
	require.Contains(t, blockText(v.Blocks), "page 3 of 4")
	require.Contains(t, blockText(v.Blocks), "dir-24")
	require.NotContains(t, blockText(v.Blocks), "dir-30")
}

func TestDetailsThatCannotBeShown(t *testing.T) {
	t.Parallel()
	w := start(t, setup{config: func(*Config) {}})
	thread := w.session()
	ts := w.turn(thread, 5)
	w.app.plain.Allow = (&chat.Authority{Rules: map[chat.Verb][]string{chat.VerbHistory: {grace}}}).Allow
	_, err := w.fake.Press(ada, general, ts, workflows.ButtonDetails)
	require.NoError(t, err)
	v := w.shows(ada, 1, 1)
	require.Contains(t, blockText(v.Blocks), "Only @"+grace+" may")
	w.fake.Fail("views.push", slackfake.Failure{Code: "expired_trigger_id", Times: 1})
	_, err = w.fake.Press(grace, general, ts, workflows.ButtonDetails)
	require.NoError(t, err)
	v = w.shows(grace, 1, 1)
	_, err = w.fake.PressIn(v.ID, "output:1")
	require.NoError(t, err)
	require.Contains(t, w.toldOnly(grace), "did not open the dialog")
}

// Stop is what the command is, and is answered as it is.
func TestStopButton(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	thread := w.session()
	v := workflows.MessageView{
		Key: "turn-3", Kind: workflows.KindTurn, Version: 1, Turn: &workflows.TurnView{Number: 3, State: workflows.TurnWorking, StartedAt: at(t, "15:04:10")},
		Buttons: []workflows.Button{{ID: workflows.ButtonStop, Label: "Stop"}, {ID: workflows.ButtonDetails, Label: "Details"}},
	}
	ts, err := w.app.Poster().Post(t.Context(), chat.Content{WorkflowID: thread.WorkflowID(), Thread: thread, View: v})
	require.NoError(t, err)
	w.sessions.Answer = workflows.Outcome{Outcome: workflows.OutcomeRecorded, Text: "Stopping."}
	_, err = w.fake.Press(grace, general, ts, workflows.ButtonStop)
	require.NoError(t, err)
	require.Equal(t, 3, one[workflows.CancelTurn](w, "CancelTurn").Turn)
	require.Equal(t, "Stopping.", w.toldOnly(grace))
}

func TestDetailsGolden(t *testing.T) {
	t.Parallel()
	r, b := &chat.Router{Sessions: &chattest.Sessions{}}, &chattest.Blobs{}
	r.Blobs = b
	trail, err := chattest.RecordTurn(t.Context(), b, goldenThread(), 2, 0, grace, ada)
	require.NoError(t, err)
	d, err := r.Details(t.Context(), workflows.Actor{ID: ada}, goldenThread(), 2, trail)
	require.NoError(t, err)
	at := refOf(goldenThread())
	at.Turn, at.First, at.Last = 2, trail.First, trail.Last
	var all []shown
	view := func(name string, v any) {
		data, err := json.Marshal(v)
		require.NoError(t, err)
		require.Less(t, len(data), maxView)
		all = append(all, shown{Name: name, View: v})
	}
	view("details", detailsView(at, d))
	view("details, nothing ran", detailsView(at, chat.Details{Turn: 2}))
	at.Call = 1
	view("output", outputView(at, d.Calls[0], []chat.OutputFile{{Stream: chat.Stdout, Text: "--- FAIL: TestFlaky\n", Bytes: 20}, {Stream: chat.Stderr, Text: "exit status 1\n", Bytes: 14}}))
	view("no output", outputView(at, d.Calls[2], nil))
	golden(t, "details", all)

	// The largest that there can be stays below what Slack takes.
	for i := range d.Calls {
		d.Calls[i].Command = strings.Repeat("😀\"", 5000)
		d.Calls[i].Reasons = []string{strings.Repeat("<&>", 1000)}
		d.Calls[i].Exec = "x"
	}
	d.Calls = append(d.Calls, d.Calls...)
	data, err := json.Marshal(detailsView(at, d))
	require.NoError(t, err)
	require.Less(t, len(data), maxView)
	big := strings.Repeat("<\x01>\n", 100000)
	data, err = json.Marshal(outputView(at, d.Calls[0], []chat.OutputFile{{Stream: chat.Stdout, Text: big, Bytes: 1}, {Stream: chat.Stderr, Text: big, Bytes: 1}}))
	require.NoError(t, err)
	require.Less(t, len(data), maxView)
}
