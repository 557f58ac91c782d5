package agent_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/agent"
	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/workflows"
)

// Whatever a model answers, the session gets calls with a sentence or an answer,
// and the next request is one that the API takes (newServer checks that).
func TestNonsense(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		bad    string // of the first call
		text   string
	}{
		"no output":            {answer: output(), text: "answered with nothing"},
		"output is no list":    {answer: text(200, "application/json", `{"id":"r","status":"completed","output":"hello"}`), text: "answered with nothing"},
		"items of other kinds": {answer: output(`7`, `"x"`, `null`, `[]`, `{"type":"web_search_call","id":"ws_1"}`), text: "web_search_call"},
		"untyped item":         {answer: output(`{"a b":1}`), text: "untyped"},
		"blank answer":         {answer: output(says("  \n")), text: "answered with nothing"},
		"content as string":    {answer: output(`{"type":"message","content":"plain"}`), text: "plain"},
		"refusal":              {answer: output(`{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"I will not."}]}`), text: "I will not."},
		"no status":            {answer: text(200, "application/json", `{"output":[`+says("x")+`]}`), text: "x"},
		"only reasoning":       {answer: output(reasoning), text: "answered with nothing"},
		"unknown tool":         {answer: output(calls("a", "fly", `{}`)), bad: `no tool named "fly"`},
		"tool without a name":  {answer: output(calls("a", "", `{}`)), bad: "no tool named"},
		"tool with a bad name": {answer: output(calls("a", "a b/c", `{}`)), bad: "no tool named"},
		"arguments no JSON":    {answer: output(calls("a", "shell", `ls -la`)), bad: "no JSON object"},
		"arguments cut":        {answer: output(calls("a", "shell", `{"command":"l`)), bad: "no JSON object"},
		"arguments a list":     {answer: output(calls("a", "shell", `["ls"]`)), bad: "no JSON object"},
		"arguments null":       {answer: output(calls("a", "shell", `null`)), bad: "no JSON object"},
		"arguments twice":      {answer: output(calls("a", "shell", `{"command":"ls"}{"command":"rm"}`)), bad: "more than one"},
		"no arguments":         {answer: output(`{"type":"function_call","call_id":"a","name":"shell"}`), bad: "no JSON object"},
		"no command":           {answer: output(calls("a", "shell", `{}`)), bad: "no command"},
		"blank command":        {answer: output(calls("a", "shell", `{"command":" \n"}`)), bad: "no command"},
		"command a number":     {answer: output(calls("a", "shell", `{"command":7}`)), bad: `"command" has the wrong type: it must be a string`},
		"time-out a fraction":  {answer: output(calls("a", "shell", `{"command":"ls","timeout_seconds":1.5}`)), bad: "a whole number"},
		"time-out negative":    {answer: output(calls("a", "shell", `{"command":"ls","timeout_seconds":-1}`)), bad: "negative"},
		"unknown argument":     {answer: output(calls("a", "shell", `{"command":"ls","env":{"A":"b"}}`)), bad: `does not have: "env"`},
		"no patch":             {answer: output(calls("a", "apply_patch", `{"patch":" "}`)), bad: "no patch"},
		"negative depth":       {answer: output(calls("a", "list_files", `{"path":null,"depth":-1}`)), bad: "depth"},
		"no path":              {answer: output(calls("a", "read_file", `{"path":""}`)), bad: "no path"},
		"no call ID":           {answer: output(calls("", "shell", `{"command":""}`)), bad: "no command"},
		"call ID as a path":    {answer: output(calls("../x", "shell", `{"command":""}`)), bad: "no command"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, c.answer, output(says("fine")))
			b := newBench(t, s.options(agent.Options{}))
			got := b.must(workflows.ModelInput{Append: []workflows.Item{message("hi")}})
			next := workflows.ModelInput{Transcript: got.Transcript, Append: []workflows.Item{message("go on")}}
			if c.bad == "" {
				require.Empty(t, got.Calls)
				require.Contains(t, got.Answer.Text, c.text)
			} else {
				require.Len(t, got.Calls, 1)
				require.Contains(t, got.Calls[0].Bad, c.bad)
				require.Regexp(t, `^[A-Za-z0-9_-]{1,64}$`, got.Calls[0].CallID)
				next.Append = []workflows.Item{result(got.Calls[0].CallID, got.Calls[0].Bad)}
			}
			require.Equal(t, "fine", b.must(next).Answer.Text)
		})
	}
}

func TestGoodCalls(t *testing.T) {
	t.Parallel()
	s := newServer(t, output(says("I will look."),
		calls("a", "shell", `{"command":"ls\n-la","cwd":null,"timeout_seconds":30}`),
		calls("b", "write_file", `{"path":"a.txt","content":"x"}`),
		`{"type":"function_call","call_id":"c","name":"read_file","arguments":{"path":"a.txt"}}`,
		calls("d", "list_files", `{"path":null,"depth":2}`),
		calls("e", "apply_patch", `{"patch":"*** Begin Patch\n*** Delete File: a.txt\n*** End Patch"}`)))
	got := newBench(t, s.options(agent.Options{})).must(workflows.ModelInput{Append: []workflows.Item{message("hi")}})
	require.Equal(t, "I will look.", got.Answer.Text)
	require.Len(t, got.Calls, 5)
	require.Equal(t, "list_files", got.Calls[3].Shown)
	require.Equal(t, "apply_patch\n*** Begin Patch\n*** Delete File: a.txt\n*** End Patch", got.Calls[4].Shown)
	for _, c := range got.Calls {
		require.Empty(t, c.Bad)
	}
	require.Equal(t, workflows.ToolCall{
		CallID: "a", Tool: "shell", Shown: "ls\n-la",
		Args: workflows.TextRef{Text: `{"command":"ls\n-la","cwd":null,"timeout_seconds":30}`, Bytes: 53},
	}, got.Calls[0])
	require.Equal(t, "write_file a.txt", got.Calls[1].Shown)
	require.Equal(t, "read_file a.txt", got.Calls[2].Shown)
	require.JSONEq(t, `{"path":"a.txt"}`, got.Calls[2].Args.Text)
}

// Two calls with one ID, and IDs that were used before, get their own.
func TestDuplicateCallIDs(t *testing.T) {
	t.Parallel()
	one := calls("same", "shell", `{"command":"ls"}`)
	s := newServer(t, output(one, one), output(one), output(says("done")))
	b := newBench(t, s.options(agent.Options{}))
	first := b.must(workflows.ModelInput{Append: []workflows.Item{message("hi")}})
	var answers []workflows.Item
	seen := map[string]bool{}
	for _, c := range first.Calls {
		seen[c.CallID] = true
		answers = append(answers, result(c.CallID, exited(0, "")))
	}
	require.Len(t, seen, 2)
	second := b.must(workflows.ModelInput{Transcript: first.Transcript, Append: answers})
	require.Len(t, second.Calls, 1)
	require.False(t, seen[second.Calls[0].CallID])
	third := b.must(workflows.ModelInput{
		Transcript: second.Transcript, Append: []workflows.Item{result(second.Calls[0].CallID, exited(0, ""))},
	})
	require.Equal(t, "done", third.Answer.Text)
}

// Missing, doubled and orphaned outputs are mended instead of refused for ever.
func TestOutputsAreMended(t *testing.T) {
	t.Parallel()
	s := newServer(t, output(calls("a", "shell", `{"command":"ls"}`), calls("b", "shell", `{"command":"ls"}`)), output(says("done")))
	b := newBench(t, s.options(agent.Options{}))
	first := b.must(workflows.ModelInput{Append: []workflows.Item{message("hi")}})
	b.must(workflows.ModelInput{Transcript: first.Transcript, Append: []workflows.Item{
		result("zzz", "orphan"), result("b", exited(0, "one")), result("b", exited(0, "two")), message("go on"),
	}})
	var all []string
	for _, raw := range s.seen()[1].Input {
		all = append(all, string(raw))
	}
	joined := strings.Join(all, "\n")
	require.NotContains(t, joined, "orphan")
	require.NotContains(t, joined, "two")
	require.Contains(t, joined, "no outcome of this call was recorded")
}

func TestTooManyCalls(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 100 {
		many = append(many, calls(fmt.Sprint("c", i), "shell", `{"command":"ls"}`))
	}
	s := newServer(t, output(many...), output(says("done")))
	b := newBench(t, s.options(agent.Options{}))
	first := b.must(workflows.ModelInput{Append: []workflows.Item{message("hi")}})
	require.Len(t, first.Calls, 64)
	var answers []workflows.Item
	for _, c := range first.Calls {
		answers = append(answers, result(c.CallID, exited(0, "")))
	}
	require.Equal(t, "done", b.must(workflows.ModelInput{Transcript: first.Transcript, Append: answers}).Answer.Text)
	require.Len(t, s.seen()[1].Input, 1+100+100)
}

func TestIncomplete(t *testing.T) {
	t.Parallel()
	cut := func(reason string, items ...string) http.HandlerFunc {
		return text(200, "application/json", `{"id":"r","status":"incomplete","incomplete_details":{"reason":"`+reason+
			`"},"output":[`+strings.Join(items, ",")+`]}`)
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		why    string
		text   string
	}{
		"output limit":   {cut("max_output_tokens", says("half an ans")), "output limit", "half an ans"},
		"filter":         {cut("content_filter", says("half")), "content filter", "half"},
		"nothing at all": {cut("max_output_tokens", reasoning), "output limit", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, c.answer, output(says("more")))
			b := newBench(t, s.options(agent.Options{}))
			got := b.must(workflows.ModelInput{Append: []workflows.Item{message("hi")}})
			require.Contains(t, got.Incomplete, c.why)
			require.Equal(t, c.text, got.Answer.Text)
			b.must(workflows.ModelInput{Transcript: got.Transcript, Append: []workflows.Item{message("go on")}})
		})
	}
	half := `{"type":"function_call","status":"incomplete","call_id":"a","name":"shell","arguments":"{\"command\":\"rm -rf bui\"}"}`
	s := newServer(t, cut("max_output_tokens", half))
	got := newBench(t, s.options(agent.Options{})).must(workflows.ModelInput{Append: []workflows.Item{message("hi")}})
	require.Contains(t, got.Calls[0].Bad, "cut short", "half a command is not run")
}

func TestLongTextsAreReferences(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 10_000)
	content, err := json.Marshal(workflows.WriteFileArgs{Path: "a", Content: long})
	require.NoError(t, err)
	s := newServer(t, output(says(long), calls("a", "write_file", string(content))), output(says("done")))
	b := newBench(t, s.options(agent.Options{}))
	require.NoError(t, b.blobs.Write(t.Context(), "in/1", []byte(long+"\x00 in")))
	require.NoError(t, b.blobs.Write(t.Context(), "out/1", []byte(long+" out")))
	in := message("é")
	in.Message.Text.Ref = "in/1"
	got := b.must(workflows.ModelInput{Append: []workflows.Item{in}})
	for ref, want := range map[workflows.TextRef]string{got.Answer: long, got.Calls[0].Args: string(content)} {
		require.LessOrEqual(t, len(ref.Text), 1024)
		require.True(t, strings.HasPrefix(want, ref.Text))
		require.Equal(t, len(want), ref.Bytes)
		data, err := b.blobs.Get(t.Context(), ref.Ref)
		require.NoError(t, err)
		require.Equal(t, want, string(data))
	}
	out := workflows.Item{CallID: "a", Output: workflows.TextRef{Text: "é", Ref: "out/1"}}
	b.must(workflows.ModelInput{Transcript: got.Transcript, Append: []workflows.Item{out}})
	input := s.seen()[1].Input
	require.Contains(t, string(input[0]), long+" in")
	require.Contains(t, string(input[3]), long+" out")

	_, err = b.call(workflows.ModelInput{Append: []workflows.Item{{CallID: "a", Output: workflows.TextRef{Ref: "gone"}}}})
	require.Equal(t, workflows.ErrTypeNotFound, applicationError(t, err).Type())
	_, err = b.call(workflows.ModelInput{Transcript: "transcripts/x/000001-00000000000000000000000000000000.json"})
	require.Equal(t, workflows.ErrTypeNotFound, applicationError(t, err).Type())
}

func TestShownIsMaskedAndArgumentsAreNot(t *testing.T) {
	t.Parallel()
	token := "ghp_" + strings.Repeat("a1B2", 9)
	s := newServer(t, output(calls("a", "shell", `{"command":"GH=1 gh --x `+token+`"}`), calls("b", "none", `{"k":"`+token+`"}`)))
	got := newBench(t, s.options(agent.Options{})).must(workflows.ModelInput{Append: []workflows.Item{message("hi")}})
	require.Equal(t, "GH=1 gh --x ghp_"+mask.Mark, got.Calls[0].Shown)
	require.Contains(t, got.Calls[0].Args.Text, token)
	require.Equal(t, `none {"k":"ghp_`+mask.Mark+`"}`, got.Calls[1].Shown)
}
