package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox/docker/dockertest"
	"github.com/countersign/countersign/internal/sandbox/docker/ownengine"
)

// engineImage is what Docker sandboxes of the tests are made from.
const engineImage = "countersign-e2e:1"

// dockerDev is a cmd/dev, not started yet, that runs sessions on an engine of its own.
func dockerDev(t testing.TB, args ...string) (*dev, *dockertest.Engine) {
	t.Helper()
	if why := ownengine.Cannot(); why != "" {
		t.Skip(why)
	}
	e, err := dockertest.Start()
	if e != nil {
		t.Cleanup(e.Stop)
	}
	require.NoError(t, err)
	require.NoError(t, e.Busybox(context.Background(), engineImage))
	d := newDev(t, args...)
	d.env = []string{
		"COUNTERSIGN_SANDBOX_BACKEND=docker", "COUNTERSIGN_SANDBOX_DOCKER_IMAGE=" + engineImage, "COUNTERSIGN_SANDBOX_DOCKER_HOST=" + e.Host(),
		"COUNTERSIGN_SANDBOX_TIMEOUT_SHELL=1h",
	}
	return d, e
}

// engineWorkspace is where this machine has the workspace of the engine's only session.
func engineWorkspace(t testing.TB, e *dockertest.Engine) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(e.Volumes(), "*-workspace", "_data"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	return found[0]
}

// A Docker engine that is killed under a command, and while one waits for an
// approval: the thread says so, goes on when it is back, and nothing runs twice.
func TestEngineDies(t *testing.T) {
	t.Parallel()
	d, engine := dockerDev(t)
	d.up(t)
	ada := d.as("ada")
	id := ada.opens(t, "`echo begun; echo begun >> log; sleep 71416; echo never >> log` and `echo after >> log`")
	th := ada.seesIn(t, 2*within, id, "the command runs", func(th thread) bool { return over(1)(th) || command(th.calls(1)).State == "running" })
	await(t, within, "it has begun", func() (string, bool) {
		out := ada.output(t, command(th.calls(1)).ID, "stdout", 0)
		return out, out == "begun\n"
	})
	engine.Kill()
	ada.seesIn(t, 2*within, id, "the thread says it", func(th thread) bool {
		return th.said("Docker is not reachable on the worker. Start Docker, or move the session: `switch local`. " +
			"The session and its files are safe. It goes on by itself when that is over; Stop ends the turn.")
	})
	require.NoError(t, engine.Up())
	th = ada.seesIn(t, 2*within, id, "a person is asked", waiting)
	ada.seesIn(t, 2*within, id, "the thread says that it is back", func(th thread) bool { return th.said("The sandbox answers again; the turn goes on.") })
	m := th.pending()[0]
	require.True(t, m.has("leave"), "%+v", m.Buttons)
	require.Equal(t, "recorded", ada.click(t, m, "leave", nil).Outcome)
	th = ada.seesIn(t, 2*within, id, "the turn ends", answered(1))
	require.Equal(t, "unknown", command(th.calls(1)).State)

	ada.says(t, id, "`rm -rf build; cat log`")
	m = ada.seesIn(t, 2*within, id, "a request", waiting).pending()[0]
	engine.Kill()
	require.Equal(t, "recorded", ada.click(t, m, "approve", nil).Outcome)
	ada.seesIn(t, 2*within, id, "the thread says it again", func(th thread) bool { return count(th, "Docker is not reachable on the worker.") == 2 })
	require.NoError(t, engine.Up())
	th = ada.seesIn(t, 2*within, id, "the turn ends", answered(2))
	c := command(th.calls(2))
	require.Equal(t, "completed", c.State)
	require.Equal(t, "begun\nafter\n", ada.output(t, c.ID, "stdout", 0), "each ran once, and what was killed is not run again")
	th = ada.seesIn(t, 2*within, id, "the thread says again that it is back", func(th thread) bool { return count(th, "The sandbox answers again; the turn goes on.") == 2 })
	once(t, th)
}

// A Docker engine that is halted under a command, and while one waits for an approval:
// it refuses nothing and answers nothing. The thread says so soon, and goes on when it
// answers again; commands have gone on meanwhile.
func TestEngineHangs(t *testing.T) {
	t.Parallel()
	d, engine := dockerDev(t)
	d.up(t)
	ada := d.as("ada")
	id := ada.opens(t, "`echo begun; echo begun >> log; until [ -e go ]; do echo x >> beats; sleep 0.2; done; echo ended >> log; echo ended`")
	th := ada.seesIn(t, 2*within, id, "the command runs", func(th thread) bool { return over(1)(th) || command(th.calls(1)).State == "running" })
	await(t, within, "it has begun", func() (string, bool) {
		out := ada.output(t, command(th.calls(1)).ID, "stdout", 0)
		return out, out == "begun\n"
	})
	const silent = "Docker has stopped answering on the worker. Restart it if it stays so, or move the session: `switch local`."
	require.NoError(t, engine.Halt())
	ada.sees(t, id, "the thread says it", func(th thread) bool {
		return th.said(silent + " The session and its files are safe. It goes on by itself when that is over; Stop ends the turn.")
	})
	workspace := engineWorkspace(t, engine)
	beats := func() int64 {
		info, err := os.Stat(filepath.Join(workspace, "beats"))
		require.NoError(t, err)
		return info.Size()
	}
	was := beats()
	await(t, within, "the command goes on", func() (int64, bool) { n := beats(); return n, n > was })
	require.NoError(t, engine.Resume())
	ada.sees(t, id, "the thread says that it is back", func(th thread) bool { return th.said("The sandbox answers again; the turn goes on.") })
	require.NoError(t, os.WriteFile(filepath.Join(workspace, "go"), nil, 0o644))
	th = ada.seesIn(t, 2*within, id, "the turn ends", answered(1))
	c := command(th.calls(1))
	ran(t, c)
	require.Equal(t, "begun\nended\n", ada.output(t, c.ID, "stdout", 0))

	ada.says(t, id, "`rm -rf build; cat log`")
	m := ada.sees(t, id, "a request", waiting).pending()[0]
	require.NoError(t, engine.Halt())
	require.Equal(t, "recorded", ada.click(t, m, "approve", nil).Outcome)
	ada.sees(t, id, "the thread says it again", func(th thread) bool { return count(th, silent) == 2 })
	require.NoError(t, engine.Resume())
	th = ada.seesIn(t, 2*within, id, "the turn ends", answered(2))
	c = command(th.calls(2))
	ran(t, c)
	require.Equal(t, "begun\nended\n", ada.output(t, c.ID, "stdout", 0), "it ran once")
	th = ada.sees(t, id, "the thread says again that it is back", func(th thread) bool { return count(th, "The sandbox answers again; the turn goes on.") == 2 })
	once(t, th)
}

// A command in the background ends when its session moves, which is said, in either
// direction; its files come along, and it changes none afterwards.
func TestSwitchEndsBackground(t *testing.T) {
	t.Parallel()
	if !bubblewrapWorks() {
		t.Skip("bubblewrap does not work here")
	}
	d, _ := dockerDev(t)
	d.up(t)
	ada := d.as("ada")
	const beating = "while :; do echo x | tee -a beats; sleep 0.2; done"
	id := ada.opens(t, "```interactive yield=300\n"+beating+"\n```")
	for i, to := range []string{"local", "docker"} {
		turn := 2*i + 1
		if i > 0 {
			ada.says(t, id, "```interactive yield=300\n"+beating+"\n```")
		}
		ada.seesIn(t, 2*within, id, "it runs in the background", func(th thread) bool {
			c := command(th.calls(turn))
			return strings.HasPrefix(th.turn(turn).Text, "Done") && c.State == "running" && ada.output(t, c.ID, "stdout", 0) != ""
		})
		ada.says(t, id, "/agent switch "+to)
		th := ada.seesIn(t, 2*within, id, "it has moved", func(th thread) bool {
			return th.said("Moved to "+to+" by @ada") && command(th.calls(turn)).State == "cancelled"
		})
		require.True(t, th.said("Ended in the background: `"+beating+"`."))
		require.Contains(t, command(th.calls(turn)).Note, "ended: moved to "+to)
		c := ada.does(t, id, turn+1, "wc -l < beats; sleep 1; wc -l < beats")
		ran(t, c)
		n := strings.Fields(ada.output(t, c.ID, "stdout", 0))
		require.Len(t, n, 2)
		require.NotEqual(t, "0", n[0], "its files came along")
		require.Equal(t, n[0], n[1], "nothing writes any more")
	}
}

// command is the first of a turn's calls that a model asked for; none yet is empty.
func command(calls []call) call {
	for _, c := range calls {
		if c.Tool != "sandbox" {
			return c
		}
	}
	return call{}
}

// count is how many notices hold a text.
func count(th thread, text string) int {
	n := 0
	for _, m := range th.all("notice") {
		n += strings.Count(m.Text, text)
	}
	return n
}
