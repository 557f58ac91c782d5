package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/agent/agenttest"
)

// served starts a cmd/dev whose model is served by s, which must not have refused
// a request when the test ends.
func served(t testing.TB, s *agenttest.Server, set ...string) *dev {
	t.Helper()
	args := []string{"--set", "openai.base_url=" + s.Base(), "--model", "fake-1"}
	for _, one := range set {
		args = append(args, "--set", one)
	}
	d := newDev(t, args...)
	d.env = []string{"OPENAI_API_KEY=" + agenttest.Key}
	d.up(t)
	t.Cleanup(func() { require.Empty(t, s.Refusals()) })
	return d
}

// What the model thinks and writes stands on the card while it does, a stop ends
// it within a second, and following it leaves nothing in history.
func TestModelIsFollowedAndStopped(t *testing.T) {
	t.Parallel()
	words := strings.Repeat("all work and no play makes a dull answer. ", 400)
	s := agenttest.New(t,
		agenttest.Answer{Output: []any{agenttest.Thinks(strings.Repeat("Where is the router? ", 12)), agenttest.Says(words)}, Pause: 150 * time.Millisecond},
		agenttest.Gives(agenttest.Says("here again")))
	d := served(t, s)
	ada := d.as("ada")
	id := ada.opens(t, "write a novel")
	ada.sees(t, id, "it thinks", func(th thread) bool {
		return strings.Contains(th.turn(1).Text, "thinking") && strings.Contains(th.turn(1).Text, "Where is the router?")
	})
	th := ada.sees(t, id, "it writes", func(th thread) bool {
		return strings.Contains(th.turn(1).Text, "writing") && strings.Contains(th.turn(1).Text, "a dull answer.")
	})
	require.Equal(t, 1, s.Open())
	require.Empty(t, th.answer(1).ID, "an answer is whole or not there")
	began := time.Now()
	require.Equal(t, "recorded", ada.click(t, th.turn(1), "stop", nil).Outcome)
	await(t, within, "the stream ends", func() (bool, bool) { return true, s.Open() == 0 })
	require.Less(t, time.Since(began), stretched(1500*time.Millisecond))
	th = ada.sees(t, id, "the turn is stopped", over(1))
	require.Contains(t, th.turn(1).Text, "Stopped by @ada")
	require.NotContains(t, th.turn(1).Text, "dull")
	ada.says(t, id, "go on")
	th = ada.sees(t, id, "the session goes on", answered(2))
	require.Equal(t, "here again", th.answer(2).Text)
}

// A stream that breaks is tried again, and the card says nothing of it.
func TestBrokenStreamIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := agenttest.New(t,
		agenttest.Answer{Output: []any{agenttest.Says("half of it")}, CutAfter: 5},
		agenttest.Gives(agenttest.Shell("c1", "echo mended")),
		agenttest.Answer{Status: "incomplete", Reason: "max_output_tokens", Output: []any{agenttest.Says("The rest is cut")}})
	d := served(t, s)
	ada := d.as("ada")
	id := ada.opens(t, "go")
	th := ada.sees(t, id, "the answer", answered(1))
	require.Equal(t, "The rest is cut", th.answer(1).Text)
	require.True(t, th.said("it reached its output limit") || th.said("reached its output limit"))
	require.Len(t, s.Requests(), 3)
	require.Equal(t, "mended\n", ada.output(t, th.calls(1)[0].ID, "stdout", 0))
}
