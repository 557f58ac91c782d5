package transcript_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/agent/transcript"
)

func TestEntries(t *testing.T) {
	t.Parallel()
	var records []transcript.Record
	for _, item := range []string{
		`{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}`,
		`{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"},{"type":"summary_text","text":"well"}],"encrypted_content":"x"}`,
		`{"type":"reasoning","summary":[],"encrypted_content":"x"}`,
		`{"type":"function_call","call_id":"c1","name":"shell","arguments":"{}"}`,
		`{"type":"function_call_output","call_id":"c1","output":"exit code: 0"}`,
		`{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"no"}]}`,
		`{"type":"message","role":"assistant","content":"plain"}`,
		`{"type":"web_search_call"}`, `7`,
	} {
		records = append(records, transcript.Record{Item: json.RawMessage(item), Turn: 1, Author: "a"})
	}
	entry := func(kind, text, tool, call string) transcript.Entry {
		return transcript.Entry{Kind: kind, Text: text, Tool: tool, CallID: call, Turn: 1, Author: "a"}
	}
	require.Equal(t, []transcript.Entry{
		entry("message", "hi", "", ""), entry("reasoning", "hm\nwell", "", ""), entry("call", "{}", "shell", "c1"),
		entry("output", "exit code: 0", "", "c1"), entry("answer", "no", "", ""), entry("answer", "plain", "", ""),
	}, transcript.Entries(records))
}
