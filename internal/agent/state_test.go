package agent_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/agent"
	"github.com/countersign/countersign/internal/agent/agenttest"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// talk goes on with a conversation: what is said in answer to ref and items.
func (b *bench) talk(ref string, items ...workflows.Item) workflows.ModelResult {
	b.t.Helper()
	return b.must(workflows.ModelInput{Transcript: ref, Append: items, Turn: 1})
}

// With the state on the server only what is new is sent; instructions go along.
// When the server has forgotten, the whole conversation is sent. A fork goes on
// from where it branched off.
func TestStateOnTheServer(t *testing.T) {
	t.Parallel()
	s := agenttest.New(t,
		agenttest.Gives(agenttest.Thinks("hm"), agenttest.Shell("c1", "ls"), agenttest.Shell("c2", "pwd")),
		agenttest.Gives(agenttest.Says("one")), agenttest.Gives(agenttest.Says("two")))
	b := newBench(t, agent.Options{BaseURL: s.Base(), APIKey: telemetry.NewSecret(agenttest.Key), Model: "gpt-test", Stored: true})
	first := b.talk("", message("hi"))
	second := b.talk(first.Transcript, result("c1", exited(0, "x")), result("c2", "state: denied — no"))
	require.Equal(t, "one", second.Answer.Text)
	fork := b.talk(second.Transcript, message("in the fork"))
	require.Equal(t, "two", fork.Answer.Text)
	b.talk(second.Transcript, message("in the source"))
	reqs := s.Requests()
	require.Len(t, reqs, 4)
	require.Empty(t, reqs[0].Previous)
	require.Len(t, reqs[1].Input, 2)
	require.Equal(t, reqs[2].Previous, reqs[3].Previous, "both go on from the same response")
	for _, r := range reqs {
		require.True(t, *r.Store)
		require.Equal(t, reqs[0].Instructions, r.Instructions)
	}
	s.Forget()
	b.talk(fork.Transcript, message("still there?"))
	reqs = s.Requests()
	require.Len(t, reqs, 6)
	require.Contains(t, reqs[4].Refused, "previous_response_not_found")
	require.Empty(t, reqs[5].Previous)
	require.Len(t, reqs[5].Input, 10, "hi, reasoning, two calls, two outputs, one, in the fork, two, still there")
	require.Contains(t, string(reqs[5].Input[len(reqs[5].Input)-1]), "still there?")

	// Another model starts from the transcript, and so does a stopped turn's next.
	other := b.must(workflows.ModelInput{Transcript: fork.Transcript, Model: "gpt-other", Append: []workflows.Item{message("x")}})
	require.Empty(t, last(s).Previous)
	stopped := b.must(workflows.ModelInput{Transcript: other.Transcript, Model: "gpt-other", NoCall: true, Append: []workflows.Item{message("stopped")}})
	b.must(workflows.ModelInput{Transcript: stopped.Transcript, Model: "gpt-other", Append: []workflows.Item{message("y")}})
	require.NotEmpty(t, last(s).Previous)
	require.Len(t, last(s).Input, 3, "what was stopped, the end mark, what is new")
	require.Len(t, s.Refusals(), 1)
}

func last(s *agenttest.Server) agenttest.Request {
	all := s.Requests()
	return all[len(all)-1]
}

// A server that keeps nothing is asked once.
func TestServerWithoutState(t *testing.T) {
	t.Parallel()
	s := agenttest.New(t, agenttest.Gives(agenttest.Says("fine")))
	s.NoStore = true
	b := newBench(t, agent.Options{BaseURL: s.Base(), APIKey: telemetry.NewSecret(agenttest.Key), Model: "gpt-test", Stored: true})
	ref := ""
	for i := range 4 {
		ref = b.talk(ref, message(fmt.Sprint("message ", i))).Transcript
	}
	require.Len(t, s.Requests(), 5)
	require.Len(t, s.Refusals(), 1)
	require.Len(t, last(s).Input, 7)
}

// A call that had to be renamed is not known to the server by its new name.
func TestRenamedCallsAreReplayed(t *testing.T) {
	t.Parallel()
	s := agenttest.New(t, agenttest.Gives(agenttest.Shell("c 1", "ls")), agenttest.Gives(agenttest.Says("done")))
	b := strictly(t, s, agent.Options{Stored: true})
	first := b.talk("", message("hi"))
	b.talk(first.Transcript, result(first.Calls[0].CallID, exited(0, "")))
	require.Empty(t, last(s).Previous)
}

// In the background a response goes on without its reader: the next attempt
// fetches it, and it is not paid for twice.
func TestBackgroundIsResumed(t *testing.T) {
	t.Parallel()
	s := agenttest.New(t, agenttest.Answer{Output: []any{agenttest.Says("worth waiting for")}, CutAfter: 4})
	b := newBench(t, agent.Options{
		BaseURL: s.Base(), APIKey: telemetry.NewSecret(agenttest.Key), Model: "gpt-test", Stored: true, Background: true,
	})
	_, err := b.call(ask("hi"))
	require.Equal(t, agent.ErrTypeUnavailable, applicationError(t, err).Type())
	require.True(t, last(s).Background)
	b.beats = workflows.ModelProgress{Unsure: 1, Response: "resp_0001"}
	got := b.must(ask("hi"))
	require.Equal(t, "worth waiting for", got.Answer.Text)
	require.Equal(t, 1, got.Usage.Calls)
	require.Zero(t, got.Usage.Unsure)
	require.Equal(t, "responses/resp_0001", last(s).Path)

	s.Script(agenttest.Gives(agenttest.Says("anew")))
	b.beats = workflows.ModelProgress{Unsure: 1, Response: "resp_9999"}
	got, err = b.call(ask("hi"))
	require.NoError(t, err)
	require.Equal(t, "anew", got.Answer.Text)
	require.Equal(t, 2, got.Usage.Calls, "the lost one may have been billed")
	require.Equal(t, 1, got.Usage.Unsure)
	require.Len(t, s.Refusals(), 1)
}

// A conversation is condensed before the window is full, by the server or as a
// summary. What people said goes on, and the transcript stays whole.
func TestCondense(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]bool{"by the server": false, "by a summary": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := agenttest.New(t)
			s.Window, s.NoCompact = 20_000, own
			n := 0
			s.Answer = func(r agenttest.Request) agenttest.Answer {
				if string(r.ToolChoice) == `"none"` {
					return agenttest.Gives(agenttest.Says("SUMMARY: tasks were done"))
				}
				if n++; n%2 == 1 {
					return agenttest.Gives(agenttest.Thinks("hm"), agenttest.Shell(fmt.Sprint("c", n), "ls"))
				}
				return agenttest.Gives(agenttest.Says(fmt.Sprint("done ", n)))
			}
			b := newBench(t, agent.Options{
				BaseURL: s.Base(), APIKey: telemetry.NewSecret(agenttest.Key), Model: "gpt-test",
				Windows: map[string]int64{"gpt-test": 20_000}, Prices: map[string]agent.Price{"gpt-test": {Input: 1_000_000}},
			})
			ref, condensed := "", 0
			count := func(r workflows.ModelResult) {
				ref = r.Transcript
				if r.Condensed {
					condensed++
					require.GreaterOrEqual(t, r.Usage.Calls, 2, "condensing is paid for")
				}
			}
			for i := range 12 {
				r := b.talk(ref, message(fmt.Sprint("task number ", i)))
				count(r)
				count(b.talk(ref, result(r.Calls[0].CallID, exited(0, strings.Repeat("some output ", 1500)))))
			}
			require.GreaterOrEqual(t, condensed, 2)
			refused := s.Refusals()
			if own {
				require.Len(t, refused, 1, "the server is asked to condense once")
			} else {
				require.Empty(t, refused)
			}
			input := fmt.Sprintf("%s", last(s).Input)
			require.Contains(t, input, "task number 11")
			if own {
				require.Contains(t, input, "SUMMARY")
			} else {
				require.Contains(t, input, `"type":"compaction"`)
				require.Contains(t, input, "task number 0", "the API keeps all that people said")
			}
			records, err := b.acts.Transcripts().Load(t.Context(), ref)
			require.NoError(t, err)
			whole := ""
			for _, r := range records {
				whole += string(r.Item)
			}
			for i := range 12 {
				require.Contains(t, whole, fmt.Sprint("task number ", i, `"`))
			}
			// A model that cannot read the server's item gets the conversation itself.
			r := b.must(workflows.ModelInput{Transcript: ref, Model: "gpt-4.1", Append: []workflows.Item{message("and now?")}})
			require.NotEmpty(t, r.Transcript)
			require.NotContains(t, fmt.Sprintf("%s", last(s).Input), `"type":"compaction"`)
		})
	}
}
