package e2e_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// workflowRun is one run of a workflow, as Temporal tells of it.
type workflowRun struct {
	id string
	// build is the worker version that it is pinned to.
	build string
}

// latest is a session's newest run.
func (d *dev) latest(t testing.TB, workflowID string) workflowRun {
	t.Helper()
	var about struct {
		Info struct {
			Execution struct{ RunID string }
			Versions  struct {
				Version struct{ BuildID string } `json:"deploymentVersion"`
			} `json:"versioningInfo"`
		} `json:"workflowExecutionInfo"`
	}
	d.temporal(t, workflowID, "", &about)
	return workflowRun{about.Info.Execution.RunID, about.Info.Versions.Version.BuildID}
}

// builds are the versions whose workers have completed tasks of a run, and whether
// the run has ended in a new one.
func (d *dev) builds(t testing.TB, workflowID, run string) (builds []string, continued bool) {
	t.Helper()
	var told struct {
		History struct {
			Events []struct {
				Type string `json:"eventType"`
				Task struct {
					Version struct{ BuildID string } `json:"deploymentVersion"`
				} `json:"workflowTaskCompletedEventAttributes"`
			}
		}
	}
	d.temporal(t, workflowID, "/history?maximumPageSize=1000&execution.runId="+url.QueryEscape(run), &told)
	for _, e := range told.History.Events {
		switch strings.TrimPrefix(e.Type, "EVENT_TYPE_") {
		case "WORKFLOW_TASK_COMPLETED":
			if !slices.Contains(builds, e.Task.Version.BuildID) {
				builds = append(builds, e.Task.Version.BuildID)
			}
		case "WORKFLOW_EXECUTION_CONTINUED_AS_NEW":
			continued = true
		}
	}
	return builds, continued
}

// temporal asks the Web UI's API about a workflow.
func (d *dev) temporal(t testing.TB, workflowID, what string, v any) {
	t.Helper()
	resp, err := http.Get(d.UIURL + "/api/v1/namespaces/" + d.Namespace + "/workflows/" + url.PathEscape(workflowID) + what)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.NoError(t, json.NewDecoder(resp.Body).Decode(v))
}

// use makes a worker version the current one, once a worker of it was seen.
func (d *dev) use(t testing.TB, build, wait string) {
	t.Helper()
	await(t, within, "version "+build+" is current", func() (string, bool) {
		code, out, problem := runs(t, "worker", d.home, d.env, "versions", "use", "--data-dir", d.dir, "--wait", wait, build)
		return out + problem, code == 0
	})
}

// moved waits until a session's newest run is pinned to a version.
func (d *dev) moved(t testing.TB, workflowID, build string) workflowRun {
	t.Helper()
	return await(t, within, "the session is on version "+build, func() (workflowRun, bool) {
		r := d.latest(t, workflowID)
		return r, r.build == build
	})
}

// An old worker and a new one side by side: a turn ends on the version that began
// it, the next one runs on the new version, a session at rest moves at once, back
// again when the old version is made current again; nothing is lost on the way,
// also where the turn goes on in other runs.
func TestVersionsSideBySide(t *testing.T) {
	t.Parallel()
	t.Run("one run", func(t *testing.T) { t.Parallel(); versionsSideBySide(t, "0") })
	t.Run("many runs", func(t *testing.T) { t.Parallel(); versionsSideBySide(t, "2") })
}

func versionsSideBySide(t *testing.T, forced string) {
	t.Helper()
	d := startDev(t, "--without", "worker", "--set", "worker.build_id=none-of-these")
	ada := d.as("ada")
	version := func(build string) []string {
		return []string{"--set", "worker.build_id=" + build, "--force-continue-as-new", forced}
	}
	first := d.worker(t, version("one")...)
	d.use(t, "one", "0s")
	busy, parked := ada.opens(t, "`echo one >> log`"), ada.opens(t, "`echo parked >> log`")
	about := ada.sees(t, busy, "it is at rest", answered(1)).WorkflowID
	other := ada.sees(t, parked, "it is at rest", answered(1)).WorkflowID
	require.Equal(t, "one", d.moved(t, other, "one").build)

	// In the middle of a turn, a held command included, the new version comes.
	ada.says(t, busy, "`echo two >> log; rm -rf build`")
	m := ada.sees(t, busy, "a person is asked", waiting).pending()[0]
	began := d.latest(t, about)
	require.Equal(t, "one", began.build)
	start(t, "worker", d.home, d.env, append(d.secondHost(t), version("two")...)...)
	d.use(t, "two", "6s")
	d.moved(t, other, "two")
	ada.says(t, busy, "`echo three >> log`")
	require.Equal(t, "one", d.latest(t, about).build, "a turn does not move")
	require.Equal(t, "recorded", ada.click(t, m, "approve", nil).Outcome)
	th := ada.sees(t, busy, "both are answered", func(th thread) bool {
		return strings.Contains(th.inWorkspace(t, "log"), "three") && len(th.all("answer")) > 1 && !slices.ContainsFunc(th.all("turn"), func(m message) bool { return m.has("stop") })
	})
	require.Equal(t, "one\ntwo\nthree\n", th.inWorkspace(t, "log"))
	now := d.moved(t, about, "two")
	builds, continued := d.builds(t, about, began.id)
	require.Equal(t, []string{"one"}, builds, "what began on a version stays with it")
	require.True(t, continued)

	turns := len(th.all("turn"))
	ada.says(t, busy, "`cat log`")
	th = ada.sees(t, busy, "the next turn is answered", answered(turns+1))
	require.Equal(t, "one\ntwo\nthree\n", ada.output(t, th.calls(turns + 1)[0].ID, "stdout", 0))
	builds, _ = d.builds(t, about, now.id)
	require.Equal(t, []string{"two"}, builds)

	// Back to the old version, and its worker away for good: the host comes back with
	// the new one.
	d.use(t, "one", "30s")
	d.moved(t, about, "one")
	d.use(t, "two", "30s")
	d.moved(t, about, "two")
	d.moved(t, other, "two")
	first.interrupt(t)
	first.wait(t)
	d.worker(t, version("two")...)
	ada.says(t, parked, "`cat log`")
	th = ada.sees(t, parked, "it goes on", answered(2))
	require.Equal(t, "parked\n", ada.output(t, th.calls(2)[0].ID, "stdout", 0))
	once(t, th)
	once(t, ada.thread(t, busy))
	code, out, _ := runs(t, "worker", d.home, d.env, "versions", "list", "--data-dir", d.dir)
	require.Equal(t, 0, code)
	require.Regexp(t, `(?m)^two .* current$`, out)
}
