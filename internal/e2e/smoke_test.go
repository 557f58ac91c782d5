package e2e_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

type smokeReport struct {
	OK         bool   `json:"ok"`
	Answer     string `json:"answer"`
	WorkflowID string `json:"workflow_id"`
	DataDir    string `json:"data_dir"`
	MS         int64  `json:"ms"`
	Steps      []struct {
		Name  string `json:"name"`
		OK    bool   `json:"ok"`
		MS    int64  `json:"ms"`
		Error string `json:"error"`
	} `json:"steps"`
}

func smoke(t testing.TB, dir string, args ...string) (int, smokeReport) {
	t.Helper()
	code, out, problem := runs(t, "dev", dir, nil, append([]string{"smoke", "--json"}, args...)...)
	var r smokeReport
	require.NoError(t, json.Unmarshal([]byte(out), &r), "%s\n%s", out, problem)
	require.Len(t, lines(out), 1, "one object, one line")
	return code, r
}

// The smoke test's greeting is in its answer, and a cmd/dev on what it kept shows
// the thread and goes on with it.
func TestSmokeIsKept(t *testing.T) {
	t.Parallel()
	d := newDev(t)
	code, r := smoke(t, d.home, "--greeting", "X7q", "--keep", d.dir)
	require.Equal(t, 0, code, "%+v", r)
	require.True(t, r.OK)
	require.Contains(t, r.Answer, "X7q")
	require.Contains(t, r.Answer, "OPENAI_API_KEY", "the first answer says how to set a key")
	require.Equal(t, d.dir, r.DataDir)
	require.Positive(t, r.MS)
	var names []string
	for _, s := range r.Steps {
		names = append(names, s.Name)
		require.True(t, s.OK, "%+v", s)
		require.Empty(t, s.Error)
	}
	require.Equal(t, []string{"server", "worker", "bot", "session", "command", "answer", "shutdown"}, names)

	d.up(t)
	ada := d.as("ada")
	var threads []thread
	ada.get(t, "/channels/general/threads", &threads)
	require.Len(t, threads, 1)
	require.Equal(t, r.WorkflowID, threads[0].WorkflowID)
	th := ada.thread(t, threads[0].ID)
	require.Len(t, th.all("header"), 1)
	require.Len(t, th.all("turn"), 1)
	require.Len(t, th.all("answer"), 1)
	require.Contains(t, th.answer(1).Text, "X7q")
	ran(t, th.calls(1)[0])
	require.Equal(t, "X7q\n", ada.output(t, th.calls(1)[0].ID, "stdout", 0))

	ada.says(t, th.ID, "and again: `cat README.md`")
	th = ada.sees(t, th.ID, "the thread goes on", answered(2))
	require.Contains(t, th.answer(2).Text, "X7q")
}

// A smoke test that cannot work says which step failed, with exit code 1.
func TestSmokeFails(t *testing.T) {
	t.Parallel()
	d := newDev(t)
	code, r := smoke(t, d.home, "--keep", filepath.Join(d.workspace, "README.md"))
	require.Equal(t, 1, code)
	require.False(t, r.OK)
	require.NotEmpty(t, r.Steps)
	require.Equal(t, "server", r.Steps[0].Name)
	require.False(t, r.Steps[0].OK)
	require.Contains(t, r.Steps[0].Error, "README.md")
}

// Without a key or a model named, cmd/dev answers with the offline model.
func TestNoKeyIsOffline(t *testing.T) {
	t.Parallel()
	d := sharedDev(t)
	var meta struct {
		Offline  bool     `json:"offline"`
		ActAs    bool     `json:"act_as"`
		Notices  []string `json:"notices"`
		Backends []struct{ Name string }
	}
	d.as("ada").get(t, "/meta", &meta)
	require.True(t, meta.Offline)
	require.True(t, meta.ActAs)
	require.NotEmpty(t, meta.Backends)
	resp, err := http.Get(d.UIURL)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode, "Temporal's Web UI")
}
