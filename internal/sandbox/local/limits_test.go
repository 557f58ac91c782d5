package local_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/local"
	"github.com/countersign/countersign/internal/sandbox/sandboxtest"
)

func await(t *testing.T, s sandbox.Session, id string) sandboxtest.Ran {
	t.Helper()
	return sandboxtest.Await(t, s, id, 2*time.Minute)
}

// runs starts a command, in a namespace made for it or, where ahead, in one that was
// made before.
func runs(t *testing.T, s sandbox.Session, id, command string, timeout time.Duration) sandboxtest.Ran {
	t.Helper()
	require.NoError(t, s.Start(t.Context(), sandbox.ExecSpec{ID: id, Command: command, Limits: sandbox.Limits{Timeout: timeout}}))
	return await(t, s, id)
}

// limited opens a sandbox whose limits control groups hold, or skips.
func limited(t *testing.T, mode string, l local.Limits, facts ...string) sandbox.Session {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	b, err := local.New(t.Context(), local.Config{DataDir: filepath.Join(t.TempDir(), mode), NoIsolation: mode == "bare", Forwarder: self, Limits: l})
	require.NoError(t, err)
	for _, f := range b.Facts() {
		for _, name := range facts {
			if f.Name == name && (!f.OK || mode != "bare" && f.Name == "isolation") {
				t.Skip(f.Text)
			}
		}
	}
	if ok, why := b.Isolated(); !ok && mode != "bare" {
		t.Skip(why)
	}
	var opener sandbox.Backend = b
	if mode == "ahead" {
		opener = ahead{b}
	}
	s, err := opener.Open(t.Context(), sandbox.Spec{ID: "limits", Generation: 1})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		require.NoError(t, s.Destroy(ctx))
		require.Empty(t, local.Groups(b), "its control groups are gone with it")
	})
	return s
}

func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"isolated", "ahead", "bare"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			sandboxtest.OutOfMemory(t, limited(t, mode, local.Limits{Memory: sandboxtest.LimitedMemory}, "memory"))
		})
	}
}

func TestTooBusy(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"isolated", "ahead", "bare"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			sandboxtest.TooBusy(t, limited(t, mode, local.Limits{CPUs: sandboxtest.LimitedCPUs}, "processors"))
		})
	}
}

// A command that takes all processes there may be takes no more, and is ended by its
// time-out and by a stop.
func TestForkBomb(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"isolated", "ahead", "bare"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := limited(t, mode, local.Limits{PIDs: sandboxtest.LimitedPIDs}, "processes")
			sandboxtest.TooManyProcesses(t, s)
			require.Equal(t, sandbox.StateTimedOut, runs(t, s, "bomb", sandboxtest.ForkBomb, 3*time.Second).State)
			require.Equal(t, "fine\n", runs(t, s, "next", "echo fine", time.Minute).Stdout)
		})
	}
}

// What a group does not bound is bounded otherwise, or said not to be.
func TestLimitsAreSaid(t *testing.T) {
	t.Parallel()
	l := local.Limits{Memory: 256 << 20, PIDs: 100, CPUs: 0.5, Group: filepath.Join(t.TempDir(), "no-such-group")}
	for _, bare := range []bool{false, true} {
		b, err := local.New(t.Context(), local.Config{DataDir: t.TempDir(), NoIsolation: bare, Limits: l})
		require.NoError(t, err)
		said := map[string]local.Fact{}
		for _, f := range b.Facts() {
			require.Regexp(t, `^[A-Z].*\.$`, f.Text)
			said[f.Name] = f
		}
		require.False(t, said["memory"].OK)
		require.Contains(t, said["memory"].Text, "Each process may have 256 MiB (RLIMIT_DATA)")
		require.Contains(t, said["memory"].Text, "no control group can be made in")
		require.Contains(t, said["processors"].Text, "The limit of 0.5 processors is not held.")
		if bare || os.Geteuid() == 0 {
			require.Contains(t, said["processes"].Text, "The limit of 100 processes and threads is not held.")
		}
		if b.Refuses() != "" {
			continue
		}
		s, err := b.Open(t.Context(), sandbox.Spec{ID: "x", Generation: 1})
		require.NoError(t, err)
		got := runs(t, s, "limits", "ulimit -d; head -c 600M /dev/zero | tail -n 1 | wc -c", time.Minute)
		require.Contains(t, got.Stdout, fmt.Sprint(256<<10, "\n"))
		require.Regexp(t, "(?i)memory", got.Stderr)
		require.NoError(t, s.Destroy(t.Context()))
	}
	for _, f := range mustFacts(t, local.Config{DataDir: t.TempDir(), NoIsolation: true}) {
		if f.Name != "isolation" {
			require.Equal(t, local.Fact{Name: f.Name, OK: true, Text: "No limit is set."}, f)
		}
	}
}

func mustFacts(t *testing.T, cfg local.Config) []local.Fact {
	t.Helper()
	b, err := local.New(t.Context(), cfg)
	require.NoError(t, err)
	return b.Facts()
}
