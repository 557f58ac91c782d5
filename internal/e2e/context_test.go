package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/agent/agenttest"
)

// The model gets the workspace's AGENTS.md files once, as data with their scope,
// and again when they change; it is told the real time-outs, and who speaks.
func TestWhatTheModelIsTold(t *testing.T) {
	t.Parallel()
	s := agenttest.New(t,
		agenttest.Gives(agenttest.Shell("c1", "ls")), agenttest.Gives(agenttest.Says("one")),
		agenttest.Gives(agenttest.Shell("c2", "echo 'Never run make.' > AGENTS.md")), agenttest.Gives(agenttest.Says("two")),
		agenttest.Gives(agenttest.Shell("c3", "ls")), agenttest.Gives(agenttest.Says("three")))
	d := served(t, s, "sandbox.timeout.shell=77s", "openai.state=server")
	require.NoError(t, os.MkdirAll(filepath.Join(d.workspace, "api"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(d.workspace, "AGENTS.md"), []byte("Always run make."), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(d.workspace, "api", "AGENTS.md"), []byte("Only Go here."), 0o644))
	ada, grace := d.as("ada"), d.as("grace")
	id := ada.opens(t, "first")
	ada.sees(t, id, "one", answered(1))
	ada.says(t, id, "second")
	th := ada.sees(t, id, "the file is a protected one", waiting)
	require.Equal(t, "recorded", ada.click(t, th.pending()[0], "approve", nil).Outcome)
	ada.sees(t, id, "two", answered(2))
	grace.says(t, id, "third")
	ada.sees(t, id, "three", answered(3))
	reqs := s.Requests()
	require.Len(t, reqs, 6)
	input := func(n int) string { return fmt.Sprintf("%s", reqs[n].Input) }
	require.Contains(t, input(0), "Always run make.", "before its first action")
	require.Contains(t, input(0), "Only Go here.")
	require.Contains(t, input(0), "the directory api and what is below it")
	require.NotContains(t, input(1), "Always run make.", "the server has it")
	require.NotContains(t, input(3), "Always run make.", "the server has it")
	require.Contains(t, input(5), "Never run make.")
	require.NotContains(t, input(5), "Only Go here.")
	require.Contains(t, input(4), "[@grace]: third")
	require.Contains(t, reqs[5].Instructions, "ended after 77 seconds")
	require.Contains(t, reqs[5].Instructions, "Backend local")
	require.NotEmpty(t, reqs[5].Previous)
	require.Equal(t, reqs[0].Instructions, reqs[5].Instructions, "the beginning is stable")
}

// A turn's budget holds it before the next call until somebody raises it; money
// stands on the cards; a long conversation is condensed on the way.
func TestBudgetIsRaisedAndTheConversationCondensed(t *testing.T) {
	t.Parallel()
	s := agenttest.New(t)
	n := 0
	s.Window = 30_000
	s.Answer = func(agenttest.Request) agenttest.Answer {
		if n++; n == 8 {
			return agenttest.Gives(agenttest.Says("all done"))
		}
		return agenttest.Gives(agenttest.Thinks("hm"), agenttest.Shell(fmt.Sprint("c", n), "seq 1 6000"))
	}
	d := served(t, s, "openai.prices.fake-1.input=10", "openai.prices.fake-1.output=10", "budget.turn=0.30",
		"openai.windows.fake-1=30000", "approvals.risky.requester_may_approve=false")
	ada, grace := d.as("ada"), d.as("grace")
	id := ada.opens(t, "count a lot")
	th := ada.sees(t, id, "the budget is asked for", waiting)
	card := th.pending()[0]
	require.Equal(t, "budget", card.Approval.Tier)
	require.Contains(t, card.Text, "Raise the budget of this turn from $0.30 to $0.60")
	require.NotContains(t, card.Text, "In :")
	asked := len(s.Requests())
	require.Equal(t, "not_yours", ada.click(t, card, "approve", nil).Outcome)
	for {
		require.Equal(t, "recorded", grace.click(t, card, "approve", nil).Outcome)
		th = ada.sees(t, id, "it asks again or ends", func(th thread) bool {
			return over(1)(th) || (waiting(th) && th.pending()[0].Key != card.Key)
		})
		if over(1)(th) {
			break
		}
		card = th.pending()[0]
	}
	require.Greater(t, len(s.Requests()), asked)
	require.Equal(t, "all done", th.answer(1).Text)
	require.Contains(t, th.turn(1).Text, "$", th.turn(1).Text)
	require.Contains(t, th.turn(1).Text, "was condensed for the model")
	require.Len(t, th.calls(1), 7)
	compacted := 0
	for _, r := range s.Requests() {
		if strings.HasSuffix(r.Path, "compact") {
			compacted++
		}
	}
	require.NotZero(t, compacted)
	code, stdout, stderr := runs(t, "worker", d.home, nil, "spend", "--data-dir", d.dir)
	require.Zero(t, code, stderr)
	require.Regexp(t, `^ada +1 sessions .* \$[1-9]`, stdout)
}

// A turn makes as many model calls as it may, says so and ends; the session goes on
// with all that was done.
func TestATurnHasItsLimit(t *testing.T) {
	t.Parallel()
	s := agenttest.New(t)
	n := 0
	s.Answer = func(r agenttest.Request) agenttest.Answer {
		if strings.Contains(string(r.Body), "now tell me") {
			return agenttest.Gives(agenttest.Says("enough"))
		}
		n++
		return agenttest.Gives(agenttest.Shell(fmt.Sprint("c", n), fmt.Sprint("echo step-", n)))
	}
	ada := served(t, s, "budget.turn_steps=3").as("ada")
	id := ada.opens(t, "never stop")
	th := ada.sees(t, id, "the turn ends", over(1))
	require.Contains(t, th.turn(1).Text, "Could not go on: The turn has made 3 model calls, its limit. Say how to go on, and a new turn starts.")
	require.Len(t, th.calls(1), 3)
	require.Len(t, s.Requests(), 3)
	ada.says(t, id, "now tell me")
	th = ada.sees(t, id, "the answer", answered(2))
	require.Equal(t, "enough", th.answer(2).Text)
	require.Contains(t, string(s.Requests()[3].Body), "step-3", "what the last call gave is not lost")
}
