package e2e_test

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox/landlock"
)

// bubblewrapWorks reports whether commands can be isolated on this machine.
func bubblewrapWorks() bool {
	return exec.Command("bwrap", "--unshare-all", "--ro-bind", "/", "/", "true").Run() == nil
}

// What a session must not reach it does not reach, approved or not.
func TestIsolation(t *testing.T) {
	t.Parallel()
	d := sharedDev(t)
	ada := d.as("ada")
	id := ada.opens(t, "`echo mine > /tmp/mine; echo changed > README.md`")
	ada.sees(t, id, "an answer or a request", func(th thread) bool { return answered(1)(th) || waiting(th) })
	ada.approves(t, id, 1)
	if !bubblewrapWorks() {
		th := ada.thread(t, id)
		require.Contains(t, th.all("header")[0].Text, "not isolated", "where it is not, it says so")
		return
	}
	require.Equal(t, "A project.\n", d.inProject(t, "README.md"), "a workspace is a copy")
	require.Equal(t, "changed\n", ada.thread(t, id).inWorkspace(t, "README.md"))

	web, err := url.Parse(d.WebURL)
	require.NoError(t, err)
	host, port, err := net.SplitHostPort(web.Host)
	require.NoError(t, err)
	mark := filepath.Base(d.home)
	other := ada.opens(t, "`ls /tmp; echo end`")
	th := ada.sees(t, other, "the other session", answered(1))
	require.NotContains(t, th.answer(1).Text, "mine", "/tmp is the session's own")
	theirs := th.workspace(t)

	turn := 1
	probe := func(command string) (call, string) {
		turn++
		c := ada.does(t, id, turn, command)
		return c, ada.output(t, c.ID, "stdout", 0) + ada.output(t, c.ID, "stderr", 0)
	}
	t.Run("environment", func(t *testing.T) {
		c, out := probe("env")
		ran(t, c)
		require.NotContains(t, out, "SECRET_X")
		require.NotContains(t, out, d.Token)
		_, out = probe("cat /proc/1/environ /proc/self/environ /proc/*/environ")
		require.NotContains(t, out, "SECRET_X")
	})
	fails := map[string]string{
		"token in the data directory": "cat " + filepath.Join(d.dir, "dev.json"),
		"database":                    "head -c 20 " + filepath.Join(d.dir, "temporal.db"),
		"listing the data directory":  "ls " + d.dir,
		"data directory by glob":      "cat " + d.dir + "/*.json",
		"writing the data directory":  "echo x > " + filepath.Join(d.dir, "x"),
		"another session's workspace": "cat " + filepath.Join(theirs, "README.md"),
		"the project itself":          "echo x > " + filepath.Join(d.workspace, "README.md"),
		"writing /etc":                "echo x > /etc/" + mark,
		"touching /etc":               "touch /etc/" + mark,
		"writing /etc/passwd":         "echo x >> /etc/passwd",
		"writing /usr":                "touch /usr/bin/" + mark,
		"web port by bash":            fmt.Sprintf("exec 3<>/dev/tcp/%s/%s && echo connected", host, port),
		"web port by curl":            fmt.Sprintf("curl -sS -m 5 http://%s/", web.Host),
		"Temporal's port":             fmt.Sprintf("exec 3<>/dev/tcp/%s && echo connected", slashed(t, d.TemporalAddress)),
		"the worker's process":        fmt.Sprintf("kill -9 %d", d.PID),
		"by another interpreter":      fmt.Sprintf("perl -e 'use IO::Socket::INET; IO::Socket::INET->new(q(%s)) or exit 7'", web.Host),
	}
	for name, command := range fails {
		t.Run(name, func(t *testing.T) {
			c, out := probe(command)
			require.NotContains(t, out, d.Token)
			require.NotContains(t, out, "connected")
			if c.State == "denied" {
				return // forbidden: it did not even ask
			}
			require.Equal(t, "completed", c.State, "%+v %s", c, out)
			require.NotEqual(t, 0, *c.ExitCode, "%+v %s", c, out)
		})
	}
	require.NoFileExists(t, "/etc/"+mark)
	require.NoFileExists(t, "/usr/bin/"+mark)
	require.Equal(t, "A project.\n", d.inProject(t, "README.md"))
	require.True(t, d.running())
	data, err := os.ReadFile("/etc/passwd")
	require.NoError(t, err)
	require.NotContains(t, string(data), "\nx\n")
}

func slashed(t testing.TB, address string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	return host + "/" + port
}

// Where bubblewrap does not work, start-up and thread say so.
func TestNotIsolatedIsSaid(t *testing.T) {
	t.Parallel()
	d := newDev(t)
	tools := t.TempDir()
	for _, name := range []string{"bwrap"} {
		require.NoError(t, os.WriteFile(filepath.Join(tools, name), []byte("#!/bin/sh\necho bwrap: broken on this machine >&2\nexit 1\n"), 0o755))
	}
	d.env = []string{"PATH=" + tools + ":" + os.Getenv("PATH")}
	d.up(t)
	require.Contains(t, d.printed(), "not isolated", "at start-up")
	ada := d.as("ada")
	id := ada.opens(t, "`cat README.md`")
	ada.sees(t, id, "the command asks, or the answer", func(th thread) bool { return waiting(th) || answered(1)(th) })
	c := ada.approves(t, id, 1)
	ran(t, c)
	th := ada.thread(t, id)
	said := func(text string) bool {
		return th.said(text) || slices.ContainsFunc(th.all("header"), func(m message) bool { return contains(m.Text, text) })
	}
	require.True(t, said("not isolated"), "in the thread: %+v", th.Messages)
	if landlock.ABI() < landlock.LeastABI {
		return
	}
	require.True(t, said("Landlock holds their files"), "and how far: %+v", th.Messages)
	for turn, command := range []string{"head -c 9 " + filepath.Join(d.dir, "dev.json"), "cp README.md " + d.dir, "cp README.md " + d.workspace + "/new"} {
		c := ada.does(t, id, turn+2, command)
		require.Contains(t, []string{"completed", "denied"}, c.State)
		require.True(t, c.State == "denied" || *c.ExitCode != 0, "%+v", c)
	}
}
