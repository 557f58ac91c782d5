package e2e_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/agent/agenttest"
	"github.com/countersign/countersign/internal/agent/agenttest/mcptest"
)

// A tool of an MCP server is called when a rule allows it or a person does, at most
// once; what its server says of it, that it only reads, allows nothing.
func TestToolsOfAnMCPServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, rules := filepath.Join(dir, "notes"), filepath.Join(dir, "policy.yaml")
	require.NoError(t, os.WriteFile(rules, []byte("rules:\n  - {id: env, tool: \"mcp:test/env\", tier: safe}\n  - {id: fail, tool: \"mcp:test/fail\", tier: forbidden}\n"), 0o600))
	say := func(id, tool, text string) any {
		return agenttest.Calls(id, "mcp__test__"+tool, map[string]string{"text": text})
	}
	s := agenttest.New(t,
		agenttest.Gives(say("c1", "env", ""), say("c2", "fail", "")),
		agenttest.Gives(say("c3", "say", "hi")),
		agenttest.Gives(say("c4", "note", "denied")),
		agenttest.Gives(agenttest.Says("one")),
		agenttest.Gives(say("c5", "die", "first")), agenttest.Gives(agenttest.Says("two")))
	d := served(t, s, "policy.file="+rules, "mcp.servers.test.command="+os.Args[0]+" "+mcptest.Word+" "+file, "mcp.servers.test.timeout=15s")
	ada := d.as("ada")
	id := ada.opens(t, "use your tools")
	th := ada.sees(t, id, "the read-only tool waits too", func(th thread) bool {
		return waiting(th) && len(th.calls(1)) > 1 && th.call(1, 0).State == "completed"
	})
	require.Equal(t, "mcp:test/env", th.calls(1)[0].Tool)
	require.Equal(t, "denied", th.calls(1)[1].State)
	card := th.pending()[0]
	require.Equal(t, "risky", card.Approval.Tier)
	require.Contains(t, card.Text, "In MCP server test:")
	require.Contains(t, card.Approval.Command, `test/say {"text":"hi"}`)
	require.Equal(t, "recorded", ada.click(t, card, "approve", nil).Outcome)
	th = ada.sees(t, id, "the next waits", func(th thread) bool { return waiting(th) && th.pending()[0].Key != card.Key })
	require.Equal(t, "recorded", ada.click(t, th.pending()[0], "deny", map[string]any{"reason": "no notes"}).Outcome)
	th = ada.sees(t, id, "the answer", answered(1))
	require.Equal(t, "completed", th.calls(1)[2].State)
	require.Equal(t, "denied", th.calls(1)[3].State)
	require.NoFileExists(t, file)
	require.Contains(t, string(s.Requests()[2].Body), "said hi")
	require.NotContains(t, string(s.Requests()[1].Body), agenttest.Key, "the server does not get the worker's environment")

	ada.says(t, id, "again")
	th = ada.sees(t, id, "it waits", waiting)
	first := th.pending()[0]
	require.Equal(t, "recorded", ada.click(t, first, "approve", nil).Outcome)
	th = ada.sees(t, id, "a person is asked: it may have run", func(th thread) bool { return waiting(th) && th.pending()[0].Key != first.Key })
	require.Contains(t, th.pending()[0].Text, "may have done its work")
	require.Equal(t, "recorded", ada.click(t, th.pending()[0], "leave", nil).Outcome)
	th = ada.sees(t, id, "the answer", answered(2))
	require.Equal(t, "unknown", th.calls(2)[0].State)
	time.Sleep(time.Second)
	notes, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "first\n", string(notes), "once")
}
