package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat/chattest/discordfake"
	"github.com/countersign/countersign/internal/ports"
)

// postgresPrograms finds the directory of PostgreSQL's own programs: Debian has
// them outside PATH.
func postgresPrograms(t *testing.T) string {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is well formed
	if len(found) > 0 {
		slices.Sort(found)
		return filepath.Dir(found[len(found)-1])
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		t.Skip("PostgreSQL is not installed (Debian: postgresql)")
	}
	path, err = filepath.EvalSymlinks(path)
	require.NoError(t, err)
	return filepath.Dir(path)
}

// startPostgres runs a PostgreSQL of the test's own and returns its address. It
// refuses to run as root: then it is another user's.
func startPostgres(t *testing.T) string {
	t.Helper()
	bin := postgresPrograms(t)
	dir, err := os.MkdirTemp("", "countersign-pg-") // t.TempDir is root's alone
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	as := &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() == 0 {
		owner, err := user.Lookup("postgres")
		if err != nil {
			t.Skip("PostgreSQL does not run as root, and there is no user postgres")
		}
		uid, err := strconv.Atoi(owner.Uid)
		require.NoError(t, err)
		gid, err := strconv.Atoi(owner.Gid)
		require.NoError(t, err)
		require.NoError(t, os.Chown(dir, uid, gid))
		as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	run := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir, cmd.SysProcAttr, cmd.Env = dir, as, []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
		return cmd
	}
	out, err := run("initdb", "--pgdata", dir+"/data", "--username", "temporal", "--auth", "trust", "--no-sync").CombinedOutput()
	require.NoError(t, err, string(out))
	port := freePort(t)
	server := run("postgres", "-D", dir+"/data", "-h", "127.0.0.1", "-p", port, "-k", dir, "-c", "fsync=off")
	var log strings.Builder
	server.Stdout, server.Stderr = &log, &log
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGQUIT) // at once, and without a word to anybody
		_ = server.Wait()
		if t.Failed() {
			t.Logf("PostgreSQL said, at the end:\n%s", log.String()[max(0, log.Len()-1500):])
		}
	})
	require.Eventually(t, func() bool {
		return run("pg_isready", "-q", "-h", "127.0.0.1", "-p", port, "-U", "temporal").Run() == nil
	}, discordWithin, 100*time.Millisecond, "PostgreSQL is up")
	return "postgres://temporal@127.0.0.1:" + port + "?sslmode=disable"
}

// freePort is one that stays free when a process of the test's has died.
func freePort(t *testing.T) string {
	t.Helper()
	port, err := ports.Free()
	require.NoError(t, err)
	return strconv.Itoa(port)
}

// Two bots and two workers on Temporal on PostgreSQL: a task, an approval, and in
// between one worker and one bot are killed. The others go on, and nothing happens
// twice.
func TestTwoOfEachOnPostgreSQL(t *testing.T) {
	t.Parallel()
	database := startPostgres(t)
	fake := discordfake.New(discordfake.Options{})
	t.Cleanup(fake.Close)
	fake.AddRole(discordfake.Guild, discordfake.Role{ID: oncall, Name: "platform-oncall", Mentionable: true})
	fake.AddMember(discordfake.Guild, discordfake.Grace, oncall)
	home := t.TempDir()
	data, workspace, bin := filepath.Join(home, "data"), filepath.Join(home, "workspace"), executables(t)
	require.NoError(t, os.MkdirAll(filepath.Join(workspace, "build"), 0o755))
	w := discordWorld{t: t, fake: fake}

	// One blob store and one database for all; each worker on a data directory, and
	// thus a host, of its own.
	common := []string{"COUNTERSIGN_APPROVALS_APPROVERS=platform-oncall", "COUNTERSIGN_BLOB_URL=file://" + home + "/blobs", "COUNTERSIGN_SANDBOX_WORKSPACE=" + workspace}
	require.NoError(t, os.Mkdir(filepath.Join(home, "blobs"), 0o700))
	runs(t, home, common, filepath.Join(bin, "dev"), "--data-dir", data, "--workspace", workspace, "--model", "offline", "--without", "bot,worker", "--db-url", database)
	w.until("the server is up", func() bool {
		_, err := os.Stat(filepath.Join(data, "dev.json"))
		return err == nil
	})
	_, err := os.Stat(filepath.Join(data, "temporal.db"))
	require.ErrorIs(t, err, os.ErrNotExist, "nothing of Temporal's is in a file")
	worker := func(name string) *exec.Cmd {
		return runs(t, home, common, filepath.Join(bin, "worker"), "--data-dir", filepath.Join(home, name), "--set", "temporal.address="+address(t, data), "--model", "offline")
	}
	bot := func(name string) *exec.Cmd {
		env := append(slices.Clone(common), "COUNTERSIGN_DISCORD_TOKEN="+fake.Token(), "COUNTERSIGN_DISCORD_API_URL="+fake.URL(),
			"COUNTERSIGN_DISCORD_GATEWAY_URL="+fake.GatewayURL(), "COUNTERSIGN_WEB_LISTEN=127.0.0.1:0")
		return runs(t, home, env, filepath.Join(bin, "bot"), "--data-dir", filepath.Join(home, name), "--set", "temporal.address="+address(t, data))
	}
	workers := []*exec.Cmd{worker("host-1"), worker("host-2")}
	bots := []*exec.Cmd{bot("bot-1"), bot("bot-2")}
	w.until("both bots are connected", func() bool { return len(fake.Commands("")) > 0 && fake.Gateway().Connections() == 2 })

	run, err := fake.Slash(discordfake.Ada, discordfake.General, "agent run", map[string]any{"task": "`echo once >> log; rm -rf build`", "title": "Clean up"})
	require.NoError(t, err)
	require.NotZero(t, run.Answer().Kind)
	w.until("the thread opens", func() bool { return len(fake.Threads(discordfake.General)) == 1 })
	thread := fake.Threads(discordfake.General)[0].ID
	card := w.message(thread, "the request", func(m discordfake.Message) bool { _, ok := m.Button("Approve once"); return ok })

	// The worker dies that does not have the session's sandbox, and a bot.
	for i, name := range []string{"host-1", "host-2"} {
		boxes, err := filepath.Glob(filepath.Join(home, name, "sandboxes", "agent_discord*", "sandbox.json"))
		require.NoError(t, err)
		if len(boxes) == 0 {
			require.NoError(t, workers[i].Process.Kill())
			break
		}
	}
	require.NoError(t, bots[0].Process.Kill())
	w.until("one bot is left", func() bool { return fake.Gateway().Connections() == 1 })
	w.approves(discordfake.Grace, thread, card.ID)
	w.message(thread, "the answer", func(m discordfake.Message) bool { return strings.Contains(m.Content, "exit code 0") && m.ID != card.ID })
	id := fake.Say(discordfake.Ada, thread, "and now `cat log`")
	answer := w.message(thread, "the second answer", func(m discordfake.Message) bool {
		return older(id, m.ID) && strings.Contains(m.Content, "`cat log`: exit code 0")
	})
	require.Equal(t, 1, strings.Count(answer.Content, "once"), answer.Content)
	requests := 0
	for _, m := range fake.Messages(thread) {
		if strings.Contains(m.Content, "Approved by @grace") {
			requests++
		}
	}
	require.Equal(t, 1, requests, "one card")
	require.Empty(t, fake.Complaints())
}

// address is where the server of a data directory is.
func address(t *testing.T, data string) string {
	t.Helper()
	var dev struct {
		Address string `json:"temporal_address"`
	}
	text, err := os.ReadFile(filepath.Join(data, "dev.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &dev))
	return dev.Address
}
