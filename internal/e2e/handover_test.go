package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A deploy script whose worker is killed between the script's success and the
// record of it has run once, and counts as done.
func TestDeployScriptRunsOnce(t *testing.T) {
	t.Parallel()
	d := newDev(t, "--without", "worker")
	script := "echo begun >> deployments\nuntil [ -e go ]; do sleep 0.1; done\necho deployed >> deployments\n"
	require.NoError(t, os.WriteFile(filepath.Join(d.workspace, "deploy.sh"), []byte(script), 0o644))
	d.up(t)
	w := d.worker(t)
	ada := d.as("ada")
	id := ada.opens(t, "`sh deploy.sh`")
	m := ada.sees(t, id, "a request", waiting).pending()[0]
	require.Equal(t, "recorded", ada.click(t, m, "approve", nil).Outcome)
	th := ada.sees(t, id, "it runs", running(1))
	await(t, within, "it has begun", func() (string, bool) {
		s := th.inWorkspace(t, "deployments")
		return s, strings.Contains(s, "begun")
	})
	// The worker stands still while the script goes on to its end, and then dies:
	// nothing between success and its record was done.
	require.NoError(t, w.cmd.Process.Signal(syscall.SIGSTOP))
	require.NoError(t, os.WriteFile(filepath.Join(th.workspace(t), "go"), nil, 0o644))
	await(t, within, "its end is recorded by the harness", func() ([]string, bool) {
		found, err := filepath.Glob(filepath.Join(d.dir, "sandboxes", "*", "execs", id+"*", "exit"))
		require.NoError(t, err)
		return found, len(found) > 0
	})
	require.Equal(t, "begun\ndeployed\n", th.inWorkspace(t, "deployments"))
	require.Equal(t, "running", ada.thread(t, id).calls(1)[0].State, "nobody knows of it yet")
	w.kill()
	d.worker(t)
	th = ada.sees(t, id, "the answer", answered(1))
	ran(t, th.calls(1)[0])
	require.Len(t, th.all("approval"), 1)
	require.Equal(t, "begun\ndeployed\n", th.inWorkspace(t, "deployments"), "once")
	once(t, th)
}

// SIGTERM of worker and bot finishes what is quick, hands over the rest within
// the time set, and loses nothing: a command that runs, an answer that is being
// streamed, a request that waits.
func TestDrain(t *testing.T) {
	t.Parallel()
	f := newFakeModel(t)
	d := newDev(t, "--without", "worker,bot", "--set", "openai.base_url="+f.URL+"/v1", "--model", "fake-1")
	d.env = []string{"OPENAI_API_KEY=" + modelKey}
	d.listen = "127.0.0.1:" + freePort(t)
	d.up(t)
	limit := 4 * time.Second
	part := func(name string) *process {
		return start(t, name, d.home, d.env, "--data-dir", d.dir, "--set", "drain.within="+limit.String())
	}
	w, b := part("worker"), part("bot")
	ada := d.as("ada")
	await(t, within, "the bot answers", func() (int, bool) {
		status, _, err := ada.request(http.MethodGet, "/meta", nil)
		return status, err == nil && status == http.StatusOK
	})
	shell := func(id, command string) http.HandlerFunc {
		return gives(asks(id, "shell", `{"command":"`+command+`"}`))
	}

	f.will(shell("c1", "echo begun >> log; until [ -e go ]; do sleep 0.1; done; echo ended >> log"), gives(text("the command has ended")))
	runs := ada.opens(t, "run it")
	// Where its files are is asked for when no bot can tell.
	th := ada.sees(t, runs, "the command runs", func(th thread) bool { return running(1)(th) && th.WorkspacePath != "" })
	await(t, within, "it has begun", func() (string, bool) { s := th.inWorkspace(t, "log"); return s, s != "" })

	f.will(shell("c2", "sh s.sh"), gives(text("the request was approved")))
	waits := ada.opens(t, "ask for it")
	m := ada.sees(t, waits, "a request", waiting).pending()[0]

	streaming := make(chan struct{})
	f.will(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = rw.Write([]byte("event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_s\",\"object\":\"response\",\"status\":\"in_progress\",\"output\":[]}}\n\n"))
		_ = http.NewResponseController(rw).Flush()
		close(streaming)
		<-r.Context().Done()
	}, gives(text("asked again")))
	streams := ada.opens(t, "think")
	<-streaming

	began := time.Now()
	for _, p := range []*process{w, b} {
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	}
	for _, p := range []*process{w, b} {
		require.Equal(t, 0, p.wait(t), p.printed())
	}
	took := time.Since(began)
	t.Logf("stopped within %v", took)
	require.Less(t, took, stretched(limit+time.Second))
	require.Equal(t, "begun\n", th.inWorkspace(t, "log"), "the command is not ended by it")
	// While nobody is there the next answers are those of the last script.
	part("worker")
	part("bot")
	th = ada.sees(t, streams, "the answer is asked for again", answered(1))
	require.Equal(t, "asked again", th.answer(1).Text)
	once(t, th)
	f.will(gives(text("the command has ended")))
	require.NoError(t, os.WriteFile(filepath.Join(ada.thread(t, runs).workspace(t), "go"), nil, 0o644))
	th = ada.sees(t, runs, "the command's turn", answered(1))
	ran(t, th.calls(1)[0])
	require.Equal(t, "begun\nended\n", th.inWorkspace(t, "log"), "once")
	once(t, th)
	require.Equal(t, "recorded", ada.click(t, m, "approve", nil).Outcome)
	th = ada.sees(t, waits, "the request's turn", answered(1))
	require.Equal(t, "one\n", th.inWorkspace(t, "ran"))
	once(t, th)
}
