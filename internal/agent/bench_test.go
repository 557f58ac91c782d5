package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/agent/transcript"

	"github.com/countersign/countersign/internal/agent"
	"github.com/countersign/countersign/internal/workflows"
)

// BenchmarkStep is one model call of a session with 1,000 steps behind it, some
// 2 MB, with the offline model: all that is ours of a call.
func BenchmarkStep(b *testing.B) {
	for _, steps := range []int{1, 1000} {
		b.Run(fmt.Sprint(steps), func(b *testing.B) {
			bench := newBench(b, agent.Options{})
			bench.ctx = context.Background()
			records := []transcript.Record{}
			for i := range steps {
				id := fmt.Sprint("c", i)
				records = append(records,
					transcript.Record{Item: json.RawMessage(calls(id, "shell", `{"command":"ls"}`)), Model: "offline"},
					transcript.Record{Item: json.RawMessage(`{"type":"function_call_output","call_id":"` + id + `","output":"` + strings.Repeat("y", 2000) + `"}`)},
					transcript.Record{Item: json.RawMessage(says("done")), Model: "offline"})
			}
			ref, err := bench.acts.Transcripts().Append(b.Context(), session, "", records)
			require.NoError(b, err)
			for b.Loop() {
				bench.must(workflows.ModelInput{Transcript: ref, Append: []workflows.Item{message("`ls`")}})
			}
		})
	}
}
