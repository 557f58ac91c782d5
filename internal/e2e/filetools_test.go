package e2e_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/agent/agenttest"
	"github.com/countersign/countersign/internal/sandbox/docker/ownengine"
)

// use is one call of a tool.
type use struct {
	tool string
	args map[string]any
}

func reads(path string) use { return use{"read_file", map[string]any{"path": path}} }

func writes(path, content string) use {
	return use{"write_file", map[string]any{"path": path, "content": content}}
}

func lists(path any) use { return use{"list_files", map[string]any{"path": path, "depth": nil}} }

func patchOf(lines ...string) use {
	return use{"apply_patch", map[string]any{"patch": "*** Begin Patch\n" + strings.Join(lines, "\n") + "\n*** End Patch"}}
}

func shells(command string) use { return use{"shell", map[string]any{"command": command}} }

// scripted is a model that makes the calls of the script which a message names, one
// step a response, for any number of sessions at once, and notes what they gave.
type scripted struct {
	mu      sync.Mutex
	steps   map[string][][]use
	outputs map[string]string // by call ID
}

var scriptName = regexp.MustCompile(`script ([a-z]+-\d+)`)

func (m *scripted) answer(req agenttest.Request) agenttest.Answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	name, made := "", 0
	for _, raw := range req.Input {
		var it struct {
			Type   string          `json:"type"`
			Role   string          `json:"role"`
			CallID string          `json:"call_id"`
			Output json.RawMessage `json:"output"`
		}
		_ = json.Unmarshal(raw, &it) // the server has read it
		switch {
		case it.Role == "user":
			if found := scriptName.FindSubmatch(raw); found != nil {
				name, made = string(found[1]), 0
			}
		case it.Type == "function_call_output":
			made++
			var text string
			if json.Unmarshal(it.Output, &text) == nil {
				m.outputs[it.CallID] = text
			}
		}
	}
	at := 0
	for _, step := range m.steps[name] {
		if at == made {
			var calls []any
			for i, u := range step {
				calls = append(calls, agenttest.Calls(fmt.Sprintf("%s-%d", name, at+i), u.tool, u.args))
			}
			return agenttest.Gives(calls...)
		}
		at += len(step)
	}
	return agenttest.Gives(agenttest.Says("done with " + name))
}

// toolRig is a session whose model does what a test says.
type toolRig struct {
	model   *scripted
	ada     *client
	backend string
	id      string
	turn    int
}

// begins has the model make calls in the session's next turn.
func (r *toolRig) begins(t *testing.T, steps ...[]use) {
	t.Helper()
	r.turn++
	name := fmt.Sprintf("%s-%d", r.backend, r.turn)
	r.model.mu.Lock()
	r.model.steps[name] = steps
	r.model.mu.Unlock()
	if r.id == "" {
		r.id = r.ada.opens(t, "run --backend "+r.backend+" -- script "+name)
	} else {
		r.ada.says(t, r.id, "script "+name)
	}
}

// gave is what the turn's calls gave the model, in order, when it has ended.
func (r *toolRig) gave(t *testing.T) []string {
	t.Helper()
	r.ada.seesIn(t, 2*within, r.id, "the turn ends", answered(r.turn))
	r.model.mu.Lock()
	defer r.model.mu.Unlock()
	var all []string
	n := 0
	for _, step := range r.model.steps[fmt.Sprintf("%s-%d", r.backend, r.turn)] {
		for range step {
			all = append(all, r.model.outputs[fmt.Sprintf("%s-%d-%d", r.backend, r.turn, n)])
			n++
		}
	}
	return all
}

// makes is begins and gave for calls that nobody is asked about.
func (r *toolRig) makes(t *testing.T, steps ...[]use) []string {
	t.Helper()
	before := len(r.requests(t))
	r.begins(t, steps...)
	out := r.gave(t)
	require.Len(t, r.requests(t), before, "nobody is asked")
	return out
}

func (r *toolRig) requests(t *testing.T) []message {
	t.Helper()
	if r.id == "" {
		return nil
	}
	return r.ada.thread(t, r.id).all("approval")
}

// holds looks at files' bytes with a command, and gives what another prints then.
func (r *toolRig) holds(t *testing.T, files map[string]string, then string) string {
	t.Helper()
	command := "sha256sum"
	for name := range files {
		command += " " + name
	}
	out := r.makes(t, []use{shells(command + "; " + then)})[0]
	for name, content := range files {
		sum := sha256.Sum256([]byte(content))
		require.Contains(t, out, hex.EncodeToString(sum[:])+"  "+name+"\n")
	}
	return out
}

// The model's file tools, on each backend, as a model calls them: what they do, what
// they refuse, what they say of it, and what people are asked.
func TestFileTools(t *testing.T) {
	t.Parallel()
	model := &scripted{steps: map[string][][]use{}, outputs: map[string]string{}}
	server := agenttest.New(t)
	server.Answer = model.answer
	args := []string{"--set", "openai.base_url=" + server.Base(), "--model", "fake-1"}
	backends := []string{"local"}
	var d *dev
	if ownengine.Cannot() == "" {
		d, _ = dockerDev(t, args...)
		backends = append(backends, "docker")
	} else {
		d = newDev(t, args...)
	}
	d.env = append(d.env, "OPENAI_API_KEY="+agenttest.Key)
	d.up(t)
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) { //nolint:paralleltest // the server is this test's
			r := &toolRig{model: model, ada: d.as("ada"), backend: backend}
			r.begins(t, []use{shells(`mkdir d sub; printf 'caf\351\nend\n' > latin1; printf 'one\r\ntwo\r\n' > crlf; printf 'a\nb' > bare; : > empty; ` +
				`head -c 3000000 /dev/zero | tr '\0' x > huge; mkfifo pipe; printf 'kept\n' > shut; chmod 444 shut; ln -s /etc/passwd out; ln -s .. up`)})
			r.ada.approves(t, r.id, r.turn)
			r.filesAreRead(t)
			r.filesAreWritten(t)
			r.peopleAreAsked(t)
			r.filesComeAndGo(t)
			once(t, r.ada.thread(t, r.id))
		})
	}
	require.Empty(t, server.Refusals())
}

func (r *toolRig) filesAreRead(t *testing.T) {
	long := strings.Repeat("n", 300)
	cases := []struct {
		use  use
		want string
	}{
		{reads("crlf"), "stdout (10 bytes):\none\r\ntwo\r\n"},
		{reads("bare"), "stdout (3 bytes):\na\nb"},
		{reads("./d/../bare"), "stdout (3 bytes):\na\nb"},
		{reads("latin1"), "caf\uFFFD\nend\n"},
		{reads("empty"), "state: completed"},
		{reads("huge"), "3000000 bytes"},
		{reads("none"), "none does not exist."},
		{reads("bare/below"), "bare/below does not exist."},
		{reads(long), "state: failed"},
		{reads("d"), "d is no regular file."},
		{reads("pipe"), "pipe is no regular file."},
		{reads("out"), "/etc/passwd is outside the workspace"},
		{reads("../../etc/passwd"), "is outside the workspace"},
		{reads("up/x"), "is outside the workspace"},
		{reads("/etc/passwd"), "/etc/passwd is outside the workspace"},
		{reads("~/.profile"), "is outside the workspace"},
		{lists(nil), "bare  3\n"},
		{lists("bare"), "bare is no directory."},
		{lists("bare/below"), "state: failed"},
		{lists(".."), "is outside the workspace"},
		{lists(long + "/x"), "state: failed"},
	}
	var step []use
	for _, c := range cases {
		step = append(step, c.use)
	}
	out := r.makes(t, step)
	for i, c := range cases {
		require.Contains(t, out[i], c.want, "%v", c.use)
	}
	require.Less(t, len(out[5]), 100_000, "of a huge file the model gets its beginning")
}

func (r *toolRig) filesAreWritten(t *testing.T) {
	long := strings.Repeat("n", 300)
	out := r.makes(t, []use{
		writes("new/deep/file", "made\r\nhere"), writes("empty", ""), writes("shut", "changed\n"),
		writes("../x", "x"), writes("out", "x"), writes("up/x", "x"), writes("d", "x"), writes("pipe", "x"),
		writes("bare/below", "x"), writes(long, "x"), writes("d/"+long+"/x", "x"),
	})
	for i, want := range []string{
		"10 bytes written to", "0 bytes written to", "8 bytes written to",
		"is outside the workspace", "is outside the workspace", "is outside the workspace", "is no regular file", "is no regular file",
		"cannot be written", "state: failed", "state: failed",
	} {
		require.Contains(t, out[i], want, "%d", i)
	}
	r.holds(t, map[string]string{"new/deep/file": "made\r\nhere", "shut": "changed\n"}, "true")

	out = r.makes(t,
		[]use{patchOf("*** Update File: crlf", "@@", " one", "-three", "+3")},
		[]use{patchOf("*** Update File: bare", "@@", "-a", "+A", "*** Delete File: none")},
		[]use{patchOf("*** Add File: bare", "+x")},
		[]use{patchOf("*** Update File: d", "@@", "-a", "+b")},
		[]use{patchOf("*** Add File: ../x", "+x")},
		[]use{patchOf("*** Add File: up/x", "+x")},
		[]use{patchOf("*** Add File: bare/below", "+x")},
		[]use{patchOf("*** Add File: "+long, "+x")},
		[]use{patchOf("*** Update File: bare", "@@", "-a", "+A", "*** Add File: new/more", "+x", "*** Add File: bare/below", "+x")},
		[]use{{"apply_patch", map[string]any{"patch": "*** Update File: bare"}}},
	)
	for i, want := range []string{
		`crlf, hunk 1 of 1 (line 3 of the patch): it does not fit: at line 2 of the file it expects "three", but found "two"`,
		"none does not exist.", "bare is there already", "d is no regular file", "is outside the workspace", "is outside the workspace",
		"state: failed", "state: failed", "state: failed", "The patch must begin with",
	} {
		require.Contains(t, out[i], want, "%d", i)
		require.Contains(t, out[i], "state: failed")
	}
	listed := r.holds(t, map[string]string{"crlf": "one\r\ntwo\r\n", "bare": "a\nb"}, "ls new")
	require.Contains(t, listed, "\ndeep\n", "none of a patch is made where some of it cannot be")
	require.NotContains(t, listed, "more")

	out = r.makes(t, []use{patchOf("*** Update File: crlf", "@@", " one", "-two", "+2", "*** Update File: bare", "@@", " a", "-b", "+B",
		"*** Add File: src/added", "+added", "*** Delete File: empty", "*** Update File: shut", "*** Move to: src/moved", "@@", "-changed", "+moved")})
	require.Contains(t, out[0], "applied:")
	listed = r.holds(t, map[string]string{"crlf": "one\r\n2\r\n", "bare": "a\nB", "src/added": "added\n", "src/moved": "moved\n"}, "ls -l src/moved; ls")
	require.Contains(t, listed, "-r--r--r--", "a moved file keeps its mode")
	require.NotRegexp(t, "(?m)^(empty|shut)$", listed)

	// Lines that are no text stay as they are.
	r.begins(t, []use{patchOf("*** Update File: latin1", "@@", "-end", "+END")})
	r.ada.approves(t, r.id, r.turn)
	r.holds(t, map[string]string{"latin1": "caf\xe9\nEND\n"}, "true")
}

func (r *toolRig) peopleAreAsked(t *testing.T) {
	r.begins(t, []use{writes(".envrc", "export A=1\nexport B=2\n")})
	m := r.ada.seesIn(t, 2*within, r.id, "a request", waiting).pending()[0]
	require.Equal(t, "risky", m.Approval.Tier)
	require.Contains(t, m.Approval.Command, ".envrc (22 bytes)\nexport A=1\nexport B=2", "what is written is shown")
	require.Contains(t, m.Text, ".envrc`, which is protected")
	r.ada.approve(t, m)
	require.Contains(t, r.gave(t)[0], "22 bytes written to")
	r.holds(t, map[string]string{".envrc": "export A=1\nexport B=2\n"}, "true")

	// Between the question and its answer the way to the file leads elsewhere.
	r.begins(t, []use{writes("sub/.envrc", "x"), shells("mv sub was && ln -s .. sub && echo moved")})
	th := r.ada.seesIn(t, 2*within, r.id, "two requests", func(th thread) bool { return len(th.pending()) == 2 })
	of := map[bool]message{}
	for _, m := range th.pending() {
		of[strings.HasPrefix(m.Approval.Command, "write_file")] = m
	}
	r.ada.approve(t, of[false])
	r.ada.seesIn(t, 2*within, r.id, "the command has ended", func(th thread) bool { return th.call(r.turn, 1).State == "completed" })
	require.Equal(t, "changed", r.ada.click(t, of[true], "approve", nil).Outcome)
	require.Contains(t, r.gave(t)[0], "outside the workspace")
	require.Contains(t, r.makes(t, []use{shells("ls -A was; echo looked")})[0], "\nlooked\n")
}

// filesComeAndGo brings the largest file that a message may have, and sends it back.
func (r *toolRig) filesComeAndGo(t *testing.T) {
	big := make([]byte, 8_000_000)
	_, _ = rand.New(rand.NewSource(1)).Read(big) // it never fails
	name := fmt.Sprintf("%s-%d", r.backend, r.turn+1)
	r.turn++
	r.model.mu.Lock()
	r.model.steps[name] = [][]use{{shells("sha256sum attachments/big.bin")}}
	r.model.mu.Unlock()
	r.ada.brings(t, r.id, name, "script "+name, r.ada.uploads(t, "big.bin", string(big)))
	sum := sha256.Sum256(big)
	require.Contains(t, r.gave(t)[0], hex.EncodeToString(sum[:]))

	r.ada.says(t, r.id, "/agent files attachments/big.bin")
	var m message
	r.ada.seesIn(t, 2*within, r.id, "the file", func(th thread) bool {
		for _, n := range th.all("notice") {
			if strings.HasPrefix(n.Key, "files-") {
				m = n
			}
		}
		return m.ID != ""
	})
	status, data, err := r.ada.request(http.MethodGet, "/messages/"+m.ID+"/file", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, m.Text)
	require.True(t, string(big) == string(data), "it comes back as it was")
}
