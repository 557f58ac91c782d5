package datadir_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/config"
	"github.com/countersign/countersign/internal/config/datadir"
	"github.com/countersign/countersign/internal/telemetry"
)

// childDir makes this binary hold the directory's lock instead of testing.
const childDir = "DATADIR_TEST_CHILD_DIR"

func TestMain(m *testing.M) {
	if path := os.Getenv(childDir); path != "" {
		d, err := datadir.Open(path)
		if err == nil {
			_, err = d.LockDev()
		}
		fmt.Println(err)
		select {}
	}
	os.Exit(m.Run())
}

func open(t *testing.T) *datadir.Dir {
	t.Helper()
	d, err := datadir.Open(filepath.Join(t.TempDir(), "deep", "data"))
	require.NoError(t, err)
	return d
}

func TestLockNamesItsHolderAndEndsWithIt(t *testing.T) {
	t.Parallel()
	d := open(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+d.Path())
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line := make([]byte, 64)
	n, err := out.Read(line)
	require.NoError(t, err)
	require.Equal(t, "<nil>\n", string(line[:n]))

	_, err = d.LockDev()
	var locked *datadir.LockedError
	require.ErrorAs(t, err, &locked)
	require.Equal(t, cmd.Process.Pid, locked.PID)
	require.ErrorContains(t, err, fmt.Sprintf("another cmd/dev (pid %d) uses the data directory %s", cmd.Process.Pid, d.Path()))
	worker, err := d.LockWorker()
	require.NoError(t, err, "a worker's lock is another one")
	require.NoError(t, worker.Release())

	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	var lock *datadir.Lock
	require.Eventually(t, func() bool { lock, err = d.LockDev(); return err == nil }, time.Minute, 10*time.Millisecond)
	require.NoError(t, lock.Release())
}

func TestFilesAreWholeAndPrivate(t *testing.T) {
	t.Parallel()
	d := open(t)
	_, ok, err := d.ReadDev()
	require.NoError(t, err)
	require.False(t, ok)
	s, err := d.ReadSettings()
	require.NoError(t, err)
	require.Nil(t, s)
	require.NoError(t, d.RemoveDev())

	want := datadir.Dev{PID: 7, WebURL: "http://127.0.0.1:1", Token: "t", TemporalAddress: "127.0.0.1:2", Namespace: "default", UIURL: "http://127.0.0.1:3"}
	require.NoError(t, d.WriteDev(want))
	require.NoError(t, d.WriteDev(want))
	got, ok, err := d.ReadDev()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, want, got)
	data, err := os.ReadFile(d.Join("dev.json"))
	require.NoError(t, err)
	require.JSONEq(t, `{"pid":7,"web_url":"http://127.0.0.1:1","token":"t","temporal_address":"127.0.0.1:2","namespace":"default","ui_url":"http://127.0.0.1:3"}`, string(data))
	require.NoError(t, d.WriteSettings(config.Snapshot{TemporalAddress: "a", Namespace: "n", Settings: map[string][]string{"openai.model": {"offline"}}}))
	s, err = d.ReadSettings()
	require.NoError(t, err)
	require.Equal(t, []string{"offline"}, s.Settings["openai.model"])
	_, err = d.WebToken(config.Secret{})
	require.NoError(t, err)
	entries, err := os.ReadDir(d.Path())
	require.NoError(t, err)
	require.Len(t, entries, 4, "no draft is left")
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), e.Name())
	}
}

func TestHostIDIsOneForAllAtOnce(t *testing.T) {
	t.Parallel()
	d := open(t)
	ids := make([]string, 16)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			id, err := d.HostID()
			if err == nil {
				ids[i] = id
			}
		})
	}
	wg.Wait()
	require.Len(t, ids[0], 16)
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
}

func TestWebTokenIsKept(t *testing.T) {
	t.Parallel()
	d := open(t)
	first, err := d.WebToken(config.Secret{})
	require.NoError(t, err)
	require.Len(t, first.Reveal(), 48)
	again, err := d.WebToken(config.Secret{})
	require.NoError(t, err)
	require.Equal(t, first.Reveal(), again.Reveal())
	given, err := d.WebToken(telemetry.NewSecret("given"))
	require.NoError(t, err)
	require.Equal(t, "given", given.Reveal())
	other, err := d.WebToken(config.Secret{})
	require.NoError(t, err)
	require.Equal(t, "given", other.Reveal(), "another process on the directory finds it")
}

func TestUnusableDirectoryIsASentence(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := datadir.Open(filepath.Join(file, "data"))
	require.ErrorContains(t, err, "cannot be made (not a directory); name another one with --data-dir")
	_, err = datadir.Open("/proc/1/nothing")
	require.ErrorContains(t, err, "the data directory /proc/1/nothing cannot be made")
	_, err = datadir.Open("/proc")
	require.ErrorContains(t, err, "cannot be written to")
}

// What is made in somebody's project is not committed with it; a directory that was
// there stays as it is.
func TestGitIgnoresADirectoryThatIsMade(t *testing.T) {
	t.Parallel()
	made := open(t)
	content, err := os.ReadFile(made.Join(".gitignore"))
	require.NoError(t, err)
	require.Equal(t, "*\n", string(content))
	there := t.TempDir()
	_, err = datadir.Open(there)
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(there, ".gitignore"))
}
