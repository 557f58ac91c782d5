package agenttest

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// aimockVersion is the release of npm's @copilotkit/aimock that the tests run.
const aimockVersion = "1.43.0"

// installWithin bounds its installation.
const installWithin = 2 * time.Minute

// AIMock starts aimock, a fake of the Responses API by other people, with fixtures
// and flags of its own, and returns its address. It is installed once, in the
// user's cache; without npm or a network the test is skipped.
func AIMock(t testing.TB, fixtures string, flags ...string) string {
	t.Helper()
	dir := installed(t)
	file := filepath.Join(t.TempDir(), "fixtures.json")
	require.NoError(t, os.WriteFile(file, []byte(fixtures), 0o600))
	args := append([]string{filepath.Join(dir, "node_modules", "@copilotkit", "aimock", "dist", "cli.js"), "-p", "0", "-f", file}, flags...)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, "node", args...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = cmd.Stdout
	require.NoError(t, cmd.Start())
	address := make(chan string, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if _, at, ok := strings.Cut(lines.Text(), "listening on "); ok {
				address <- strings.TrimSpace(at)
			}
		}
		_ = cmd.Wait() // it was ended
	}()
	t.Cleanup(func() { cancel(); <-ended })
	select {
	case at := <-address:
		return at
	case <-ended:
		t.Fatal("aimock ended before it listened")
	case <-time.After(time.Minute):
		t.Fatal("aimock does not listen")
	}
	return ""
}

func installed(t testing.TB) string {
	t.Helper()
	for _, program := range []string{"npm", "node"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the test needs %s", program)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	cache = filepath.Join(cache, "countersign-tests")
	dir := filepath.Join(cache, "aimock-"+aimockVersion)
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	require.NoError(t, os.MkdirAll(cache, 0o755))
	draft, err := os.MkdirTemp(cache, "install-")
	require.NoError(t, err)
	defer func() { _ = os.RemoveAll(draft) }()
	ctx, cancel := context.WithTimeout(t.Context(), installWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-save", "@copilotkit/aimock@"+aimockVersion)
	cmd.Dir = draft
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("aimock cannot be installed here (no network?): %v: %s", err, out[max(0, len(out)-300):])
	}
	if err := os.Rename(draft, dir); err != nil {
		_, err = os.Stat(dir) // another test was faster
		require.NoError(t, err)
	}
	return dir
}
