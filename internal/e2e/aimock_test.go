package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/agent/agenttest"
)

// All of it over another people's server that drops, breaks and garbles a third of
// the requests: the person sees the answer, and each command ran once.
func TestOverAIMockWithFaults(t *testing.T) {
	t.Parallel()
	at := agenttest.AIMock(t, `{"fixtures":[
 {"match":{"userMessage":"append a line","hasToolResult":false},"response":{"toolCalls":[{"id":"call_append","name":"shell","arguments":{"command":"echo line >> lines; wc -l lines","cwd":null,"timeout_seconds":null}}]}},
 {"match":{"userMessage":"append a line","hasToolResult":true},"response":{"content":"One line more."}}
]}`, "--chaos-drop", "0.15", "--chaos-disconnect", "0.15", "--chaos-malformed", "0.1", "--latency", "20")
	d := newDev(t, "--set", "openai.base_url="+at+"/v1", "--model", "gpt-test")
	d.env = []string{"OPENAI_API_KEY=any"}
	d.up(t)
	ada := d.as("ada")
	id := ada.opens(t, "append a line")
	th := ada.sees(t, id, "the answer", answered(1))
	require.Equal(t, "One line more.", th.answer(1).Text)
	require.Equal(t, "1 lines\n", ada.output(t, th.calls(1)[0].ID, "stdout", 0))
	once(t, th)
}
