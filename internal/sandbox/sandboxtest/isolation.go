package sandboxtest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
)

func testIsolation(t *testing.T, b *rig) {
	s := b.open(t)
	info := s.Info()
	if !info.Isolated {
		require.NotEmpty(t, info.WhyNot, "a sandbox that is not isolated says why")
		t.Skip("not isolated: " + info.WhyNot)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())

	shut := map[string]string{
		"writing /etc":                 "echo x > /etc/x",
		"changing /etc/passwd":         "echo x >> /etc/passwd",
		"writing /":                    "echo x > /x",
		"writing /usr":                 "echo x > /usr/x",
		"the kernel's settings":        "true >> /proc/sys/kernel/core_pattern",
		"the host's name":              "hostname other",
		"a mount":                      "mount -t tmpfs none /mnt || mount --bind /tmp /usr",
		"a nested namespace":           "unshare -Ur true",
		"password hashes":              "cat /etc/shadow",
		"root's home":                  "ls /root/.",
		"docker":                       "ls /run/docker.sock /var/run/docker.sock",
		"the workers' loopback":        "exec 3<>/dev/tcp/127.0.0.1/" + port,
		"a network interface":          "ls /sys/class/net/eth0 || grep -v -e lo: -e '|' /proc/net/dev",
		"the metadata address":         "timeout 3 bash -c 'exec 3<>/dev/tcp/169.254.169.254/80'",
		"processes outside":            "ls -d /proc/[0-9]* | wc -l | { read n; [ $n -gt 20 ]; }",
		"killing processes outside":    "kill -0 " + fmt.Sprint(os.Getpid()),
		"becoming root":                "su -c true || sudo -n true",
		"raw disks":                    "ls /dev/sd* /dev/vd* /dev/nvme* /dev/mem",
		"the exec's record":            "grep -rl COUNTERSIGN /proc/1/root/*/execs",
		"the environment of the init":  "tr '\\0' '\\n' < /proc/1/environ | grep " + SecretEnv,
		"the environment of any other": "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep " + SecretEnv,
	}
	staysShut(t, b, s, shut)
	require.Equal(t, "ok\n", run(t, s, "ls / /usr/bin >/dev/null && echo x > /tmp/x && echo x > /dev/null && echo ok").Stdout)
	require.False(t, info.Network)
}

// staysShut tries what must fail, and reads the worker's files.
func staysShut(t *testing.T, b *rig, s sandbox.Session, shut map[string]string) {
	t.Helper()
	if b.f.Secret != nil {
		shut["the worker's files"] = "cat " + quote(b.f.Secret(b.dir))
	}
	for what, command := range shut {
		r := run(t, s, command)
		require.NotEqual(t, 0, r.ExitCode, "%s: `%s` succeeds: %s", what, command, r.Stdout)
	}
}

// testConfined tries what holds of files where commands are confined to theirs and
// not isolated.
func testConfined(t *testing.T, b *rig) {
	s := b.open(t)
	info := s.Info()
	if !info.Confined {
		t.Skip("commands are isolated, or nothing confines them")
	}
	require.False(t, info.Isolated)
	require.NotEmpty(t, info.WhyNot)
	other := b.open(t)
	require.NoError(t, other.WriteFile(t.Context(), "theirs", []byte("x")))
	theirs := quote(other.Info().Workspace + "/theirs")
	self := "/proc/" + fmt.Sprint(os.Getpid())
	const record = `r=${COUNTERSIGN_EXEC%;}; `
	staysShut(t, b, s, map[string]string{
		"writing /etc":               "echo x > /etc/x",
		"changing /etc/passwd":       "true >> /etc/passwd",
		"writing /":                  "echo x > /x",
		"writing /usr":               "echo x > /usr/x",
		"writing the machine's /tmp": "echo x > /tmp/countersign-x",
		"the kernel's settings":      "true >> /proc/sys/kernel/core_pattern",
		"the host's name":            "hostname other",
		"a mount":                    "mount -t tmpfs none /mnt || mount --bind /usr /mnt",
		"password hashes":            "cat /etc/shadow",
		"root's home":                "ls /root/.",
		"becoming another":           "su -c true nobody || sudo -n true",
		"raw disks":                  "cat /dev/[sv]d[a-z] /dev/nvme* /dev/mem | head -c 1 | grep -c ''",
		"a device of its own":        "mknod null c 1 3",
		"the worker's environment":   "cat " + self + "/environ",
		"the environment of others":  "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep " + SecretEnv,
		"the worker's memory":        "head -c 1 " + self + "/mem",
		"the worker's open files":    "cat " + self + "/fd/0 || ls " + self + "/cwd/",
		"another session's files":    "cat " + theirs,
		"changing them":              "true >> " + theirs,
		"removing them":              "rm " + theirs,
		"listing its own record":     record + `ls "$r" "$r/run"`,
		"reading its own record":     record + `cat "$r/job.json"`,
		"writing its own record":     record + `echo "code 0" > "$r/exit"`,
		"appending to it":            record + `true >> "$r/stdout"`,
		"moving into it":             record + `printf 'code 0\nreason exited\n' > exit; mv exit "$r/exit"`,
		"moving it away":             record + `mv "$r" gone || mv "$r/run/self" gone`,
	})
	r := run(t, s, `for fd in 3 4 5 6 7 8 9 10; do echo 'code 0' >&$fd; done 2>/dev/null; echo on; exit 9`)
	require.Equal(t, "on\n", r.Stdout)
	require.Equal(t, 9, r.ExitCode)
	require.Equal(t, "ok\n", run(t, s, `ls /usr/bin /etc > /dev/null && cat /etc/passwd > "$TMPDIR/x" && mv "$TMPDIR/x" "$HOME/x" && mv ~/x x && echo ok`).Stdout)
	require.Equal(t, 2, strings.Count(run(t, s, "grep -E '^Cap(Prm|Eff):' /proc/self/status").Stdout, "\t0000000000000000\n"), "no privileges")
}

// A command cannot write its own record: neither through what it holds open nor
// through what runs beside it.
func testRecordNotForged(t *testing.T, b *rig) {
	s := b.open(t)
	if !s.Info().Isolated {
		t.Skip("not isolated: " + s.Info().WhyNot)
	}
	r := run(t, s, `for fd in 3 4 5 6 7 8 9 10; do echo '{ "exit-code": 0 }' >&$fd; done 2>/dev/null
find / -name exit -o -name "$COUNTERSIGN_EXEC*" 2>/dev/null | grep -v -e ^/proc -e ^/usr -e ^/nix -e ^/opt
kill -9 $PPID -1 2>/dev/null; echo survived; exit 9`)
	if r.State == sandbox.StateExited && r.ExitCode == 9 {
		require.Equal(t, "survived\n", r.Stdout)
	}
	require.NotEqual(t, 0, r.ExitCode)
	require.NotContains(t, r.Stdout, "exit")
}

// Redirecting to /dev/stdout opens what is behind it: no file may be there.
func testOutputNotTruncated(t *testing.T, b *rig) {
	s := b.open(t)
	r := run(t, s, "echo one; echo two > /dev/stdout; echo three > /proc/self/fd/1; echo four >> /dev/stderr")
	require.Equal(t, "one\ntwo\nthree\n", r.Stdout)
	require.Equal(t, "four\n", r.Stderr)
}

// deadCommand is what the worker that is killed starts. It goes on for as long as
// the test needs it to.
const deadCommand = `echo run >> runs; for i in $(seq 100); do echo $i; echo $i >> log
	[ $i -lt 50 ] || until [ -e go ]; do sleep 0.05; done; sleep 0.02; done`

func testWorkerDies(t *testing.T, b *rig) { workerDies(t, b, false) }

// A terminal is the sandbox's, not the worker's.
func testTerminalWorkerDies(t *testing.T, b *rig) { workerDies(t, b, true) }

func workerDies(t *testing.T, b *rig, tty bool) {
	spec := sandbox.Spec{ID: newID(), Generation: 1}
	for round := range 2 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+b.dir, "SPEC="+spec.ID, fmt.Sprintf("TTY=%t", tty))
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err, line)
		require.Equal(t, "attached\n", line)
		if round == 0 {
			pause(t, 200*time.Millisecond)
		}
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
	}

	spec.Existing = true
	s := b.openSpec(t, spec)
	require.NoError(t, s.Start(t.Context(), sandbox.ExecSpec{ID: "exec", Command: deadCommand, TTY: tty}), "starting again attaches")
	st, err := s.Status(t.Context(), "exec")
	require.NoError(t, err)
	require.Equal(t, sandbox.StateRunning, st.State)
	require.NoError(t, s.WriteFile(t.Context(), "go", nil))
	r := await(t, s, "exec")
	require.Equal(t, sandbox.StateExited, r.State)
	require.Equal(t, 0, r.ExitCode)
	var want strings.Builder
	for i := range 100 {
		fmt.Fprintln(&want, i+1)
	}
	stdout := want.String()
	if tty {
		stdout = strings.ReplaceAll(stdout, "\n", "\r\n")
	}
	require.Equal(t, stdout, r.Stdout)
	require.Equal(t, want.String(), content(t, s, "log"))
	require.Equal(t, "run\n", content(t, s, "runs"))
}

// playWorker starts the exec, says when it has read its first bytes, and follows
// it until it is killed.
func playWorker(dir string, open func(ctx context.Context, dir string) (sandbox.Backend, error)) error {
	ctx := context.Background()
	b, err := open(ctx, dir)
	if err != nil {
		return err
	}
	s, err := b.Open(ctx, sandbox.Spec{ID: os.Getenv("SPEC"), Generation: 1})
	if err != nil {
		return err
	}
	if err := s.Start(ctx, sandbox.ExecSpec{ID: "exec", Command: deadCommand, TTY: os.Getenv("TTY") == "true"}); err != nil {
		return err
	}
	return s.Attach(ctx, "exec", sandbox.Stdout, 0, &announcer{})
}

type announcer struct {
	once bool
	buf  bytes.Buffer
}

func (a *announcer) Write(p []byte) (int, error) {
	if !a.once {
		a.once = true
		fmt.Println("attached")
	}
	return a.buf.Write(p)
}
