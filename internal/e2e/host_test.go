package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// secondHost are the flags of a worker on a data directory of its own, as on
// another machine, with this one's server, settings and blob store.
func (d *dev) secondHost(t testing.TB) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(d.dir, "settings.json"))
	require.NoError(t, err)
	var s struct {
		Address   string              `json:"temporal_address"`
		Namespace string              `json:"namespace"`
		Settings  map[string][]string `json:"settings"`
	}
	require.NoError(t, json.Unmarshal(data, &s))
	flags := []string{"--data-dir", filepath.Join(d.home, "data-2"), "--set", "temporal.address=" + s.Address, "--set", "temporal.namespace=" + s.Namespace}
	for key, items := range s.Settings {
		if text := strings.Join(items, ","); text != "" && key != "web.listen" && key != "sandbox.host_dead_after" {
			flags = append(flags, "--set", key+"="+text)
		}
	}
	return flags
}

// Local sandboxes stay with their host. One that is only busy is waited for; a
// dead one's sessions go on on another from their last snapshot, after a person
// has agreed and was told what is lost; the old sandbox is gone when the host is
// back.
func TestHostDies(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--without", "worker", "--set", "sandbox.timeout.shell=1h")
	const deadAfter = "sandbox.host_dead_after=15s"
	ada := d.as("ada")
	first := d.worker(t, "--set", deadAfter)
	id := ada.opens(t, "`echo one >> log`")
	th := ada.sees(t, id, "the answer", answered(1))
	home := th.workspace(t)
	mine := d.dir + "/sandboxes/agent_" // on the command line of each exec on this host
	t.Cleanup(func() { killAll(t, mine) })
	require.Contains(t, home, d.dir+"/")
	start(t, "worker", d.home, d.env, append(d.secondHost(t), "--set", deadAfter)...)

	// Busy: it does not answer for a while, and then it does.
	require.NoError(t, first.cmd.Process.Signal(syscall.SIGSTOP))
	ada.says(t, id, "`echo two >> log`")
	time.Sleep(8 * time.Second)
	require.NoError(t, first.cmd.Process.Signal(syscall.SIGCONT))
	th = ada.sees(t, id, "it goes on where it was", answered(2))
	require.Empty(t, th.all("approval"))
	require.Equal(t, "one\ntwo\n", th.inWorkspace(t, "log"))
	require.Equal(t, home, th.WorkspacePath)

	// Dead, in the middle of a command.
	ada.says(t, id, "`echo three >> log; sleep 91417`")
	th = ada.sees(t, id, "the command runs", running(3))
	await(t, within, "it has begun", func() (string, bool) {
		s := th.inWorkspace(t, "log")
		return s, strings.Contains(s, "three")
	})
	first.kill()
	th = ada.seesIn(t, 2*within, id, "its outcome is unknown", answered(3))
	require.Equal(t, "unknown", th.calls(3)[0].State)
	ada.says(t, id, "`cat log`")
	m := ada.seesIn(t, 2*within, id, "a person is asked", waiting).pending()[0]
	require.Contains(t, m.Text, "Go on on another host, from the files as saved at the end of turn 2")
	require.Contains(t, m.Text, "Lost since then: what the turns before this one changed")
	require.Equal(t, "recorded", ada.click(t, m, "approve", nil).Outcome)
	th = ada.seesIn(t, 2*within, id, "it goes on elsewhere", answered(4))
	th = ada.sees(t, id, "the header says where", func(th thread) bool {
		return strings.HasPrefix(th.WorkspacePath, filepath.Join(d.home, "data-2")+"/")
	})
	require.Equal(t, "one\ntwo\n", ada.output(t, th.calls(4)[0].ID, "stdout", 0))
	once(t, ada.sees(t, id, "it says so", func(th thread) bool { return th.said("The session goes on on another host") }))

	// Back: the old generation is removed, with the command that ran on.
	require.NotEmpty(t, commandLines(t, mine), "it runs on")
	d.worker(t, "--set", deadAfter)
	await(t, within, "the old sandbox is gone", func() ([]string, bool) {
		left, err := filepath.Glob(filepath.Join(d.dir, "sandboxes", "agent_*", "sandbox.json"))
		require.NoError(t, err)
		return left, len(left) == 0
	})
	await(t, within, "the old command has ended", func() ([]string, bool) {
		left := commandLines(t, mine)
		return left, len(left) == 0
	})
	c := ada.does(t, id, 5, "cat log")
	ran(t, c)
	require.Equal(t, "one\ntwo\n", ada.output(t, c.ID, "stdout", 0))
}

// A worker that stands still for good, as a stopped process or a paused machine does,
// is as good as dead, though its connections stand: what ran there ends as unknown, and
// a person lets the session go on elsewhere. When it goes on after all, it says nothing
// to the session any more, and its sandbox goes.
func TestHostStandsStill(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--without", "worker", "--set", "sandbox.timeout.shell=1h")
	const deadAfter = "sandbox.host_dead_after=15s"
	ada := d.as("ada")
	first := d.worker(t, "--set", deadAfter)
	id := ada.opens(t, "`echo one >> log`")
	th := ada.sees(t, id, "the answer", answered(1))
	mine := d.dir + "/sandboxes/agent_" // on the command line of each exec on this host
	t.Cleanup(func() { killAll(t, mine) })
	ada.says(t, id, "`echo two >> log; sleep 91418`")
	await(t, within, "it has begun", func() (string, bool) {
		s := th.inWorkspace(t, "log")
		return s, strings.Contains(s, "two")
	})
	start(t, "worker", d.home, d.env, append(d.secondHost(t), "--set", deadAfter)...)

	require.NoError(t, first.cmd.Process.Signal(syscall.SIGSTOP))
	th = ada.seesIn(t, 3*within, id, "its outcome is unknown", answered(2))
	require.Equal(t, "unknown", th.calls(2)[0].State)
	ada.says(t, id, "`cat log`")
	m := ada.seesIn(t, 3*within, id, "a person is asked", waiting).pending()[0]
	require.Contains(t, m.Text, "Go on on another host, from the files as saved at the end of turn 1")
	require.Equal(t, "recorded", ada.click(t, m, "approve", nil).Outcome)
	th = ada.seesIn(t, 3*within, id, "it goes on elsewhere", answered(3))
	require.Equal(t, "one\n", ada.output(t, th.calls(3)[0].ID, "stdout", 0))
	ada.sees(t, id, "it says so", func(th thread) bool { return th.said("The session goes on on another host") })

	require.NotEmpty(t, commandLines(t, mine), "it runs on")
	require.NoError(t, first.cmd.Process.Signal(syscall.SIGCONT))
	await(t, within, "the old sandbox is gone, with what ran in it", func() ([]string, bool) {
		left, err := filepath.Glob(filepath.Join(d.dir, "sandboxes", "agent_*", "sandbox.json"))
		require.NoError(t, err)
		left = append(left, commandLines(t, mine)...)
		return left, len(left) == 0
	})
	c := ada.does(t, id, 4, "cat log")
	ran(t, c)
	require.Equal(t, "one\n", ada.output(t, c.ID, "stdout", 0))
	th = ada.sees(t, id, "the header says where", func(th thread) bool {
		return strings.HasPrefix(th.WorkspacePath, filepath.Join(d.home, "data-2")+"/")
	})
	require.Equal(t, "unknown", th.calls(2)[0].State)
	once(t, th)
}
