package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// smallDisk puts a disk of 16 MiB over a directory.
func smallDisk(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o711))
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
}

// fill is a command that leaves no room on the disk of its workspace.
const fill = "echo kept > kept; head -c 100000000 /dev/zero 2>/dev/null > full; exit 7"

// A disk that is full is said to be so in the thread. Nothing is lost: once there is
// room the session goes on, each command has run at most once, what was written
// meanwhile is answered, and a fork has all files. A command for which there is still
// room, and none for what it prints, ends and says so; else it waits.
func fullDisk(t *testing.T, d *dev, sentence string, files func(thread) string) {
	t.Helper()
	ada := d.as("ada")
	id := ada.opens(t, "`"+fill+"`")
	th := ada.seesIn(t, 2*within, id, "the disk is full", answered(1))
	require.NotNil(t, command(th.calls(1)).ExitCode, "%+v", th.calls(1))
	require.Equal(t, 7, *command(th.calls(1)).ExitCode, "its outcome is known")

	ada.says(t, id, "`echo again >> log; cat kept log`")
	ada.seesIn(t, 2*within, id, "the thread says it", func(th thread) bool {
		return th.said(sentence) || strings.Contains(th.call(2, 0).Note, sentence)
	})
	ada.says(t, id, "`echo meanwhile`")
	require.NoError(t, os.Remove(filepath.Join(files(ada.thread(t, id)), "full")))
	turn := 2
	th = ada.seesIn(t, 2*within, id, "it goes on", func(th thread) bool {
		if th.answer(3).ID != "" {
			turn = 3
		}
		return answered(turn)(th) && strings.Contains(th.answer(turn).Text, "meanwhile")
	})
	if th.said(sentence) {
		require.True(t, th.said("The session and its files are safe. It goes on by itself when that is over; Stop ends the turn."))
		ada.sees(t, id, "it says that it goes on", func(th thread) bool { return th.said("The sandbox answers again; the turn goes on.") })
		require.Equal(t, "kept\nagain\n", ada.output(t, th.call(2, 0).ID, "stdout", 0), "it has waited")
	}
	c := ada.does(t, id, turn+1, "cat kept; wc -l < log")
	out := ada.output(t, c.ID, "stdout", 0)
	require.Contains(t, []string{"kept\n0\n", "kept\n1\n"}, out, "it ran at most once")
	ada.says(t, id, "/agent pause")
	ada.sees(t, id, "all is saved", func(th thread) bool { return th.Liveness == "paused" })
	copied := ada.says(t, id, "/agent fork").Opened
	require.Equal(t, out, ada.output(t, ada.does(t, copied, 1, "cat kept; wc -l < log").ID, "stdout", 0), "a fork has its files")
	once(t, ada.thread(t, id))
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	d := newDev(t)
	smallDisk(t, filepath.Join(d.dir, "sandboxes"))
	d.up(t)
	fullDisk(t, d, "disk that holds this session's files is full", func(th thread) string { return th.workspace(t) })
}

func TestFullDiskOfTheEngine(t *testing.T) {
	t.Parallel()
	d, engine := dockerDev(t)
	smallDisk(t, engine.Volumes())
	d.up(t)
	fullDisk(t, d, "The Docker sandbox has no room left: the engine's disk is full, or the sandbox is out of processes or memory. "+
		"Free some space on the engine, or stop what runs in the sandbox.", func(thread) string { return engineWorkspace(t, engine) })
}
