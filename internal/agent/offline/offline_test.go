package offline_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/agent/offline"
	"github.com/countersign/countersign/internal/agent/tooloutput"
	"github.com/countersign/countersign/internal/policy"
)

type object = map[string]any

// talk is a conversation with the model as a client would have it.
type talk struct {
	t     *testing.T
	model *offline.Model
	items []any
}

func newTalk(t *testing.T) *talk {
	t.Helper()
	return &talk{t: t, model: &offline.Model{EndMarks: []string{"[the end]"}}}
}

func (k *talk) say(text string) {
	k.items = append(k.items, object{"type": "message", "role": "user", "content": []any{
		object{"type": "input_text", "text": text},
	}})
}

func (k *talk) tool(callID string, o tooloutput.Output) {
	k.items = append(k.items, object{"type": "function_call_output", "call_id": callID, "output": tooloutput.Format(o)})
}

func post(t *testing.T, m *offline.Model, body any) (int, object) {
	t.Helper()
	data, err := json.Marshal(body)
	require.NoError(t, err)
	client := http.Client{Transport: m.Transport()}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://offline/v1/responses", bytes.NewReader(data))
	require.NoError(t, err)
	res, err := client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	got := object{}
	require.NoError(t, json.Unmarshal(answer, &got))
	return res.StatusCode, got
}

type call struct{ id, command string }

// step sends the items and takes in the output: calls, or an answer.
func (k *talk) step() (calls []call, answer string) {
	k.t.Helper()
	status, got := post(k.t, k.model, object{"model": "offline", "input": k.items, "store": false})
	require.Equal(k.t, http.StatusOK, status, got)
	for _, one := range got["output"].([]any) {
		it := one.(object)
		k.items = append(k.items, it)
		if it["type"] == "message" {
			answer = it["content"].([]any)[0].(object)["text"].(string)
			continue
		}
		args := struct{ Command string }{}
		require.NoError(k.t, json.Unmarshal([]byte(it["arguments"].(string)), &args))
		calls = append(calls, call{it["call_id"].(string), args.Command})
	}
	return calls, answer
}

// turn runs to the answer, each command exiting with 0 and printing its name,
// and returns the commands of each response.
func (k *talk) turn() (steps [][]string, answer string) {
	k.t.Helper()
	for range 50 {
		calls, answer := k.step()
		if len(calls) == 0 {
			return steps, answer
		}
		var names []string
		for _, c := range calls {
			names = append(names, c.command)
			k.tool(c.id, exited(0, "ran "+c.command))
		}
		steps = append(steps, names)
	}
	k.t.Fatal("the model never answers")
	return nil, ""
}

func exited(code int, stdout string) tooloutput.Output {
	return tooloutput.Output{ExitCode: &code, Stdout: stdout}
}

func TestCommandsOneByOneThenTheAnswer(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.say("look around with `ls -la`, then `rm -rf build`")
	steps, answer := k.turn()
	require.Equal(t, [][]string{{"ls -la"}, {"rm -rf build"}}, steps)
	require.Contains(t, answer, "OPENAI_API_KEY")
	require.Contains(t, answer, "`ls -la`: exit code 0.\n```\nran ls -la\n```")
	require.Contains(t, answer, "`rm -rf build`: exit code 0.")

	k.say("and `pwd`")
	steps, answer = k.turn()
	require.Equal(t, [][]string{{"pwd"}}, steps)
	require.NotContains(t, answer, "OPENAI_API_KEY", "it says only once what it is")
	require.NotContains(t, answer, "ls -la")
}

func TestMessagesTakenTogetherAndMidway(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.say("[@ada]: `a`")
	k.say("[@bob]: ```parallel\nb1\nb2\n```")
	calls, _ := k.step()
	require.Equal(t, "a", calls[0].command)
	k.tool(calls[0].id, exited(1, ""))
	k.say("[@ada]: also `c`")
	k.say("[@bob]: thanks")
	steps, answer := k.turn()
	require.Equal(t, [][]string{{"b1", "b2"}, {"c"}}, steps)
	for _, want := range []string{"`a`: exit code 1.", "`b1`: exit", "`b2`: exit", "`c`: exit", "One more message"} {
		require.Contains(t, answer, want)
	}
}

func TestTour(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.say("hello")
	calls, _ := k.step()
	require.Len(t, calls, 1)
	require.Equal(t, "ls -la", calls[0].command)
	k.tool(calls[0].id, exited(0, "x"))
	k.say("and `pwd`")
	steps, answer := k.turn()
	require.Len(t, steps, 3)
	require.Contains(t, steps[0][0], "README.md")
	require.Equal(t, [][]string{{policy.TourCommand}, {"pwd"}}, steps[1:])
	require.Contains(t, answer, "tour")
}

func TestCallIDsDifferWithinAndBetweenSessions(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, session := range []string{"a", "b"} {
		for _, text := range []string{"`x`", "`y`"} {
			_, got := post(t, &offline.Model{}, object{
				"model": "offline", "prompt_cache_key": session, "input": text,
			})
			id := got["output"].([]any)[0].(object)["call_id"].(string)
			require.False(t, seen[id])
			require.LessOrEqual(t, len(id), 64)
			seen[id] = true
		}
	}
}

// A turn that was stopped is not taken up again by the next one.
func TestStoppedTurnIsOver(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.say("`sleep 60` then `rm x`")
	calls, _ := k.step()
	k.tool(calls[0].id, tooloutput.Output{State: "cancelled", Note: "stopped by @ada"})
	k.say("[the end]")
	k.say("`pwd`")
	steps, answer := k.turn()
	require.Equal(t, [][]string{{"pwd"}}, steps)
	require.NotContains(t, answer, "sleep")
}

func TestAnswerTellsHowEachCallEnded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789", 300)
	for name, c := range map[string]struct {
		output tooloutput.Output
		want   string
	}{
		"denied":     {tooloutput.Output{State: "denied", Note: "@grace: not `now`"}, "`x`: denied, not run (@grace: not \\`now\\`)."},
		"expired":    {tooloutput.Output{State: "expired"}, "`x`: nobody decided in time, not run."},
		"cancelled":  {tooloutput.Output{State: "cancelled", Stdout: "half"}, "`x`: cancelled.\n```\nhalf\n```"},
		"changed":    {tooloutput.Output{State: "changed", Note: "s.sh"}, "`x`: changed since it was approved, not run (s.sh)."},
		"unknown":    {tooloutput.Output{State: "unknown"}, "outcome unknown"},
		"stderr":     {tooloutput.Output{State: "completed", Stderr: "oops"}, "`x`: completed.\n\nstderr:\n```\noops\n```"},
		"break out":  {exited(0, "a\n````\n# b\n"), "`x`: exit code 0.\n`````\na\n````\n# b\n`````"},
		"long":       {exited(0, long), "```\n" + long[:2000] + "\n```\n2000 of 3000 bytes of output."},
		"both long":  {tooloutput.Output{Stdout: long, Stderr: long}, "\nstderr:\n```\n" + long[:500] + "\n```\n2000 of 6000 bytes"},
		"rune whole": {exited(0, "a"+strings.Repeat("é", 1500)), strings.Repeat("é", 999) + "\n```"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newTalk(t)
			k.say("`x`")
			calls, _ := k.step()
			k.tool(calls[0].id, c.output)
			_, answer := k.step()
			require.Contains(t, answer, c.want)
		})
	}
}

func TestAnswerQuotesCommandsSafely(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.say("``echo `date` `` and\n```sh\ncd a\nls\n```\n")
	_, answer := k.turn()
	require.Contains(t, answer, "`` echo `date`  ``: exit code 0.")
	require.Contains(t, answer, "```sh\ncd a\nls\n```\nExit code 0.")
}

func TestRefusesWhatTheAPIRefuses(t *testing.T) {
	t.Parallel()
	user := object{"role": "user", "content": "hi"}
	fcall := func(id string) object {
		return object{"type": "function_call", "call_id": id, "name": "shell", "arguments": "{}"}
	}
	out := func(id string) object {
		return object{"type": "function_call_output", "call_id": id, "output": "x"}
	}
	tool := func(parameters object) object {
		return object{"type": "function", "name": "shell", "strict": true, "parameters": parameters}
	}
	for name, c := range map[string]struct {
		body object
		want string
	}{
		"no model":            {object{"input": "x"}, "'model'"},
		"no input":            {object{"model": "m"}, "'input'"},
		"unknown parameter":   {object{"model": "m", "input": "x", "frobnicate": 1}, "Unknown parameter: 'frobnicate'"},
		"unknown item field":  {object{"model": "m", "input": []any{object{"role": "user", "content": "x", "author": "me"}}}, "input[0].author"},
		"unknown item":        {object{"model": "m", "input": []any{object{"type": "telepathy"}}}, "telepathy"},
		"bad role":            {object{"model": "m", "input": []any{object{"role": "boss", "content": "x"}}}, "boss"},
		"null output":         {object{"model": "m", "input": []any{fcall("1"), object{"type": "function_call_output", "call_id": "1", "output": nil}}}, "output"},
		"orphan output":       {object{"model": "m", "input": []any{user, out("9")}}, "No tool call found for function call output with call_id 9."},
		"missing output":      {object{"model": "m", "input": []any{user, fcall("9")}}, "No tool output found for function call 9."},
		"duplicate output":    {object{"model": "m", "input": []any{user, fcall("9"), out("9"), out("9")}}, "Duplicate"},
		"duplicate call":      {object{"model": "m", "input": []any{user, fcall("9"), fcall("9"), out("9")}}, "Duplicate"},
		"long call ID":        {object{"model": "m", "input": []any{user, fcall(strings.Repeat("x", 65))}}, "maximum length 64"},
		"reasoning unkept":    {object{"model": "m", "store": false, "input": []any{user, object{"type": "reasoning", "id": "rs_1", "summary": []any{}}, fcall("1"), out("1")}}, "not persisted"},
		"reasoning alone":     {object{"model": "m", "input": []any{object{"type": "reasoning", "id": "rs_1", "summary": []any{}, "encrypted_content": "e"}, user}}, "required following item"},
		"background":          {object{"model": "m", "input": "x", "background": true}, "background"},
		"previous response":   {object{"model": "m", "input": "x", "previous_response_id": "resp_1"}, "not found"},
		"schema not strict":   {object{"model": "m", "input": "x", "tools": []any{tool(object{"properties": object{"a": object{}}, "additionalProperties": false})}}, "Invalid schema"},
		"schema left open":    {object{"model": "m", "input": "x", "tools": []any{tool(object{"properties": object{}})}}, "Invalid schema"},
		"tool of other kinds": {object{"model": "m", "input": "x", "tools": []any{object{"type": "web_search"}}}, "nly function tools"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, got := post(t, &offline.Model{}, c.body)
			require.Equal(t, http.StatusBadRequest, status)
			e := got["error"].(object)
			require.Contains(t, e["message"], c.want)
			require.Equal(t, "invalid_request_error", e["type"])
			require.Contains(t, e, "param")
			require.Contains(t, e, "code")
		})
	}
	status, _ := post(t, &offline.Model{}, json.RawMessage(`[1`+`]`))
	require.Equal(t, http.StatusBadRequest, status)
}

func TestOtherPathsAreNotFound(t *testing.T) {
	t.Parallel()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://offline/v1/responses", nil)
	require.NoError(t, err)
	res, err := (&offline.Model{}).Transport().RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusNotFound, res.StatusCode)
}
