package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/landlock"
	"github.com/countersign/countersign/internal/sandbox/local"
)

// heldBackend is one whose commands Landlock holds, or the test is skipped.
func heldBackend(t *testing.T, cfg local.Config) *local.Backend {
	t.Helper()
	if abi := landlock.ABI(); abi < landlock.LeastABI {
		t.Skipf("this kernel's Landlock has ABI %d", abi)
	}
	self, err := os.Executable()
	require.NoError(t, err)
	cfg.NoIsolation, cfg.Forwarder = true, self
	b, err := local.New(t.Context(), cfg)
	require.NoError(t, err)
	return b
}

// Which it is stands in what doctor says, in the log and in the thread's header.
func TestHeldIsSaid(t *testing.T) {
	t.Parallel()
	said := func(b *local.Backend) (string, sandbox.Info) {
		s := openOne(t, b)
		ok, why := b.Isolated()
		require.False(t, ok)
		require.Equal(t, why, s.Info().WhyNot)
		fact := b.Facts()[0]
		require.Equal(t, "isolation", fact.Name)
		require.False(t, fact.OK)
		require.Contains(t, fact.Text, "Commands are not isolated. "+why)
		return fact.Text, s.Info()
	}
	text, info := said(heldBackend(t, local.Config{DataDir: t.TempDir()}))
	require.True(t, info.Confined)
	require.Contains(t, text, "Landlock holds their files: they can change only their workspace, home and temporary directory")
	require.NotContains(t, text, "can read and change what the worker's user can")

	text, info = said(heldBackend(t, local.Config{DataDir: t.TempDir(), NoLandlock: true}))
	require.False(t, info.Confined)
	require.Contains(t, text, "They can read and change what the worker's user can. Isolation is switched off. "+
		"Landlock would hold their files, but it is switched off.")

	b, err := local.New(t.Context(), local.Config{DataDir: t.TempDir(), NoIsolation: true})
	require.NoError(t, err)
	text, info = said(b)
	require.False(t, info.Confined)
	require.Contains(t, text, "but this worker has no program that puts it on.")
}

// What is the worker's stays unread where it lies below what commands may read, as it
// does in bubblewrap; what is beside it does not.
func TestHiddenBelowWhatIsRead(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	write(t, top, map[string]string{"tool/bin/hello": "#!/bin/sh\necho hello\n", "tool/data/x": "secret", "tool/conf/settings": "secret", "tool/conf/other": "other\n"})
	require.NoError(t, os.Chmod(filepath.Join(top, "tool/bin/hello"), 0o755))
	b := heldBackend(t, local.Config{
		DataDir: filepath.Join(top, "tool/data"), ReadOnly: []string{filepath.Join(top, "tool")}, Hidden: []string{filepath.Join(top, "tool/conf/settings")},
	})
	s := openOne(t, b)
	got := runs(t, s, "e", "hello; cd '"+top+"/tool'; cat conf/other; ls data || cat data/x || cat conf/settings || echo hidden; pwd > ~/x; cat ~/x", time.Minute)
	require.Equal(t, "hello\nother\nhidden\n"+top+"/tool\n", got.Stdout)
}

// Processes outside cannot be signalled, the command's own can.
func TestHeldSignals(t *testing.T) {
	t.Parallel()
	b := heldBackend(t, local.Config{DataDir: t.TempDir()})
	if abi := landlock.ABI(); abi < landlock.ScopeABI {
		t.Skipf("this kernel's Landlock has ABI %d", abi)
	}
	s := openOne(t, b)
	got := runs(t, s, "e", fmt.Sprintf("sleep 600 & kill $! && echo own; kill -0 %d || kill -0 $PPID || echo shut", os.Getpid()), time.Minute)
	require.Equal(t, "own\nshut\n", got.Stdout)
}
