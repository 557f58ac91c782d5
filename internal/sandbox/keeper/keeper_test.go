package keeper_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox/harness"
	"github.com/countersign/countersign/internal/sandbox/keeper"
)

// patience is how long tests wait for what a busy machine takes its time for.
const patience = 2 * time.Minute

// kept is a keeper and what it is told by; this test binary becomes one.
type kept struct {
	t            *testing.T
	dir, script  string
	orders, told *os.File
	pid          int
	ended        chan error
}

func start(t *testing.T) *kept {
	t.Helper()
	k := &kept{t: t, dir: t.TempDir(), ended: make(chan error, 1)}
	k.script = filepath.Join(k.dir, "harness.sh")
	require.NoError(t, os.WriteFile(k.script, []byte(harness.Script()), 0o600))
	ordered, orders, err := os.Pipe()
	require.NoError(t, err)
	defer ordered.Close()
	told, tells, err := os.Pipe()
	require.NoError(t, err)
	defer tells.Close()
	k.orders, k.told = orders, told
	path, args := keeper.Command(k.dir)
	cmd := &exec.Cmd{Path: path, Args: args, Env: append(keeper.Environ(), "PATH="+os.Getenv("PATH")), Dir: "/"}
	cmd.ExtraFiles = []*os.File{ordered, tells}
	require.NoError(t, cmd.Start())
	k.pid = cmd.Process.Pid
	t.Cleanup(func() {
		_ = orders.Close()
		_ = told.Close()
		_ = cmd.Process.Kill()
	})
	go func() { k.ended <- cmd.Wait() }()
	return k
}

// program stands in for bubblewrap, and says what it would; before comes first, the
// command when it is let go.
func program(before, command string) []string {
	return []string{"/bin/sh", "-c", before + `
IFS= read -r _ <&3 || exit
echo >&8
echo >&4
(` + command + `)
echo '{ "exit-code": '$?' }' >&9`}
}

// order has the keeper make a namespace whose record has this name.
func (k *kept) order(name string, argv []string) (record string) {
	k.t.Helper()
	record = filepath.Join(k.dir, "."+name)
	require.NoError(k.t, os.MkdirAll(filepath.Join(record, "run"), 0o700))
	require.NoError(k.t, os.WriteFile(filepath.Join(record, "run", "script"), nil, 0o600))
	require.NoError(k.t, os.WriteFile(filepath.Join(record, "run", "timeout"), []byte("100\n"), 0o600))
	k.write(keeper.Order{Record: record, Script: k.script, Limit: 1000, Argv: argv}.Encode())
	return record
}

func (k *kept) write(data []byte) {
	k.t.Helper()
	_, err := k.orders.Write(data)
	require.NoError(k.t, err)
}

// name gives a record its exec's, once the keeper has taken it.
func (k *kept) name(record string) string {
	k.t.Helper()
	at := filepath.Join(k.dir, filepath.Base(record)[1:])
	require.Eventually(k.t, func() bool {
		info, err := os.Stat(filepath.Join(record, "run", "self"))
		return err == nil && info.Size() > 0
	}, patience, time.Millisecond)
	require.NoError(k.t, os.Rename(record, at))
	return at
}

// run has the keeper run a command, from its order to its end.
func (k *kept) run(name, command string) (at string) {
	k.t.Helper()
	record := k.order(name, program("", command))
	at = k.name(record)
	k.write(keeper.Claim(record))
	k.tells(keeper.Begun)
	k.tells(keeper.Done)
	return at
}

// tells reads what the keeper tells next; 0 is its end.
func (k *kept) tells(want byte) {
	k.t.Helper()
	require.NoError(k.t, k.told.SetReadDeadline(time.Now().Add(patience)))
	got := make([]byte, 1)
	n, err := k.told.Read(got)
	require.NotErrorIs(k.t, err, os.ErrDeadlineExceeded)
	if n == 0 {
		got[0] = 0
	}
	require.Equal(k.t, string(want), string(got[0]))
}

func (k *kept) endsWith(code int) {
	k.t.Helper()
	k.tells(0)
	require.NoError(k.t, k.orders.Close())
	var exit *exec.ExitError
	if err := <-k.ended; code != 0 {
		require.ErrorAs(k.t, err, &exit)
		require.Equal(k.t, code, exit.ExitCode())
	} else {
		require.NoError(k.t, err)
	}
}

func (k *kept) reads(path ...string) string {
	k.t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	require.NoError(k.t, err)
	return string(data)
}

// has is how many open files or threads the keeper has.
func (k *kept) has(what string) int {
	k.t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/%s", k.pid, what))
	require.NoError(k.t, err)
	return len(entries)
}

// A keeper serves one order after another, and is then as it was before.
func TestServesManyOrders(t *testing.T) {
	t.Parallel()
	k := start(t)
	var files, threads int
	for i := range 50 {
		at := k.run(fmt.Sprint("exec", i), fmt.Sprintf("umask; ulimit -c; /bin/pwd; echo %d; echo problem >&2; exit %d", i, i%7))
		require.Equal(t, fmt.Sprintf("0022\n0\n%s\n%d\n", at, i), k.reads(at, "stdout"))
		require.Equal(t, "problem\n", k.reads(at, "stderr"))
		require.Equal(t, fmt.Sprintf("code %d\nreason exited\n", i%7), k.reads(at, "exit"))
		require.Equal(t, fmt.Sprint(k.pid), strings.Fields(k.reads(at, "run", "self"))[0])
		require.NoError(t, os.RemoveAll(at), "an idle keeper wants nothing of it")
		if i == 0 {
			files, threads = k.has("fd"), k.has("task")
		}
	}
	// It may have told that it is done a moment before it was.
	require.Eventually(t, func() bool { return k.has("fd") <= files }, patience, time.Millisecond)
	require.LessOrEqual(t, k.has("task"), threads+10)
}

// What the claim of another order says is no claim of this one, and neither is a
// record's name alone.
func TestClaimsAreForOneOrder(t *testing.T) {
	t.Parallel()
	k := start(t)
	k.run("first", "true")
	record := k.order("second", program("", "true"))
	k.write(keeper.Claim(filepath.Join(k.dir, ".first")))
	at := k.name(record)
	k.write(keeper.Claim(filepath.Join(k.dir, ".first")))
	k.write(keeper.Claim(at))
	require.NoError(t, k.told.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	_, err := k.told.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoFileExists(t, filepath.Join(at, "exit"))
	k.write(keeper.Claim(record))
	k.tells(keeper.Begun)
	k.tells(keeper.Done)
}

// A command that keeps the pipe of its beginning cannot tell its end by it.
func TestCommandTellsOnlyItsBeginning(t *testing.T) {
	t.Parallel()
	k := start(t)
	go1 := filepath.Join(k.dir, "go")
	record := k.order("forger", program("", fmt.Sprintf("printf dddd >&4; until [ -e %s ]; do sleep 0.01; done", go1)))
	at := k.name(record)
	k.write(keeper.Claim(record))
	k.tells(keeper.Begun)
	require.NoError(t, os.WriteFile(go1, nil, 0o600))
	k.tells(keeper.Done)
	require.Equal(t, "code 0\nreason exited\n", k.reads(at, "exit"))
	k.run("next", "true")
}

// Whatever was not as it should be ends the keeper with its exec.
func TestEndsAfterWhatIsOdd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before, command, exit string
	}{
		"a namespace that failed":   {"IFS= read -r _ <&3; exit 1", "true", "code 126\nreason failed\n"},
		"a record that was removed": {"", "rm -r run", ""},
		"an end that is not noted":  {"", "mkdir run/done", "code 0\nreason exited\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := start(t)
			k.run("before", "true")
			record := k.order("odd", program(test.before, test.command))
			at := k.name(record)
			k.write(keeper.Claim(record))
			if test.before == "" {
				k.tells(keeper.Begun)
			}
			k.endsWith(1)
			if test.exit != "" {
				require.Equal(t, test.exit, k.reads(at, "exit"))
			}
		})
	}
}

// The end of the orders ends a keeper: one that is idle, one that waits with a
// namespace, and one with an exec after that.
func TestEndsWithItsOrders(t *testing.T) {
	t.Parallel()
	t.Run("idle", func(t *testing.T) {
		t.Parallel()
		k := start(t)
		k.run("before", "true")
		require.NoError(t, k.orders.Close())
		k.tells(0)
		require.NoError(t, <-k.ended)
	})
	t.Run("in the middle of an order", func(t *testing.T) {
		t.Parallel()
		k := start(t)
		k.run("before", "true")
		data := keeper.Order{Record: "/", Script: "/", Argv: []string{"true"}}.Encode()
		k.write(data[:len(data)-1])
		require.NoError(t, k.orders.Close())
		k.tells(0)
		require.NoError(t, <-k.ended)
	})
	t.Run("with an order that it has not read", func(t *testing.T) {
		t.Parallel()
		k := start(t)
		k.run("before", "true")
		require.NoError(t, syscall.Kill(k.pid, syscall.SIGSTOP))
		record := k.order("unread", program("", "true"))
		require.NoError(t, k.orders.Close())
		require.NoError(t, syscall.Kill(k.pid, syscall.SIGCONT))
		k.tells(0)
		require.NoDirExists(t, record)
		require.Error(t, <-k.ended)
	})
	t.Run("with a record that got its name before", func(t *testing.T) {
		t.Parallel()
		k := start(t)
		k.run("before", "true")
		at := k.name(k.order("named", program("", "echo ran")))
		require.NoError(t, k.orders.Close())
		k.tells(keeper.Begun)
		k.tells(keeper.Done)
		k.tells(0)
		require.NoError(t, <-k.ended)
		require.Equal(t, "ran\n", k.reads(at, "stdout"))
	})
	t.Run("with what is no order", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"x\n", "-1\n", "99999999\n", "2\nab", "11\norder\x00a\x00b\x00c"} {
			k := start(t)
			k.write([]byte(text))
			k.tells(0)
			require.NoError(t, <-k.ended)
		}
	})
}
