package agent_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/agent"
	"github.com/countersign/countersign/internal/workflows"
)

// window answers like a model whose window holds limit bytes.
func window(limit int64, answer http.HandlerFunc) http.HandlerFunc {
	full := refuse(http.StatusBadRequest, "context_length_exceeded", "input")
	return func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > limit {
			full(w, r)
			return
		}
		answer(w, r)
	}
}

// Some servers name a full window in words only, with a number for a code, in an error
// or in the stream.
func TestFullWindowInWords(t *testing.T) {
	t.Parallel()
	const words = "This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens."
	stream := func(body string) http.HandlerFunc {
		return text(http.StatusOK, "text/event-stream", "data: "+body+"\n\n")
	}
	for name, full := range map[string]http.HandlerFunc{
		"an error":          text(http.StatusBadRequest, "application/json", `{"error":{"message":"`+words+`","type":"BadRequestError","param":null,"code":400}}`),
		"an event":          stream(`{"type":"error","code":400,"message":"` + words + `"}`),
		"an event's object": stream(`{"type":"error","error":{"code":400,"message":"` + words + `"}}`),
		"a failed response": stream(`{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"server_error","message":"` + words + `"}}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, output(says("one")), full, output(says("fits")))
			b := newBench(t, s.options(agent.Options{}))
			first := b.must(workflows.ModelInput{Append: []workflows.Item{message("a task")}})
			got := b.must(workflows.ModelInput{Transcript: first.Transcript, Append: []workflows.Item{message("go on")}})
			require.Equal(t, "fits", got.Answer.Text)
			require.Len(t, s.seen(), 3)
		})
	}
}

// A conversation that has outgrown the window goes on without its oldest part;
// the transcript stays whole.
func TestFullWindow(t *testing.T) {
	t.Parallel()
	step := 0
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		step++
		if step%2 == 0 {
			output(says("done"))(w, r)
			return
		}
		output(calls(fmt.Sprint("c", step), "shell", `{"command":"ls"}`))(w, r)
	})
	b := newBench(t, s.options(agent.Options{}))
	ref := ""
	for turn := range 10 {
		got := b.must(workflows.ModelInput{Transcript: ref, Append: []workflows.Item{message(fmt.Sprint("task ", turn))}})
		got = b.must(workflows.ModelInput{Transcript: got.Transcript, Append: []workflows.Item{
			result(got.Calls[0].CallID, exited(0, strings.Repeat("y", 20_000))),
		}})
		ref = got.Transcript
	}
	s.mu.Lock()
	s.answers = []http.HandlerFunc{window(60_000, output(says("fits")))}
	s.requests = nil
	s.mu.Unlock()
	huge := strings.Repeat("z", 500_000)
	got := b.must(workflows.ModelInput{Transcript: ref, Append: []workflows.Item{message("the last task " + huge)}})
	require.Equal(t, "fits", got.Answer.Text)
	reqs := s.seen()
	last := reqs[len(reqs)-1].Input
	require.Contains(t, string(last[0]), "Older parts of this conversation were left out")
	require.Contains(t, string(last[1]), `"role":"user"`)
	require.Contains(t, string(last[len(last)-1]), "the last task")

	records, err := b.acts.Transcripts().Load(t.Context(), got.Transcript)
	require.NoError(t, err)
	require.Len(t, records, 10*4+2)
	require.Contains(t, string(records[40].Item), huge)
}

// One turn of many steps that outgrows the window keeps its task and goes on.
func TestFullWindowWithinATurn(t *testing.T) {
	t.Parallel()
	n := 0
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		n++
		output(reasoning, calls(fmt.Sprint("c", n), "shell", `{"command":"ls"}`))(w, r)
	})
	b := newBench(t, s.options(agent.Options{}))
	got := b.must(workflows.ModelInput{Append: []workflows.Item{message("the task")}})
	for range 40 {
		got = b.must(workflows.ModelInput{Transcript: got.Transcript, Append: []workflows.Item{
			result(got.Calls[0].CallID, exited(0, strings.Repeat("y", 4_000))),
		}})
	}
	s.mu.Lock()
	s.answers = []http.HandlerFunc{window(40_000, output(says("fits")))}
	s.requests = nil
	s.mu.Unlock()
	last := workflows.ModelInput{Transcript: got.Transcript, Append: []workflows.Item{result(got.Calls[0].CallID, exited(0, "the end"))}}
	require.Equal(t, "fits", b.must(last).Answer.Text)
	reqs := s.seen()
	input := reqs[len(reqs)-1].Input
	require.Contains(t, string(input[1]), "the task")
	require.Contains(t, string(input[2]), `"function_call"`)
	require.Contains(t, string(input[len(input)-1]), "the end")
}

// What does not fit however small it is made is said.
func TestWindowThatIsTooSmallForAnything(t *testing.T) {
	t.Parallel()
	s := newServer(t, window(10, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "") }))
	b := newBench(t, s.options(agent.Options{}))
	_, err := b.call(workflows.ModelInput{Append: []workflows.Item{message(strings.Repeat("z", 50_000))}})
	app := applicationError(t, err)
	require.Equal(t, workflows.ErrTypeBadRequest, app.Type())
	require.Contains(t, app.Message(), "window")
	require.Len(t, s.seen(), 8)
}
