package local_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/local"
	"github.com/countersign/countersign/internal/sandbox/sandboxtest"
)

// open reads the mode from the directory's name: a worker in another process
// must open it alike.
func open(ctx context.Context, dir string) (sandbox.Backend, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return local.New(ctx, local.Config{DataDir: dir, NoIsolation: filepath.Base(dir) == "bare", Forwarder: self})
}

func TestMain(m *testing.M) { sandboxtest.Main(m, open) }

func fixture(mode string) sandboxtest.Fixture {
	return sandboxtest.Fixture{
		Open: open,
		Dir:  func(t *testing.T) string { return filepath.Join(t.TempDir(), mode) },
		Secret: func(dir string) string {
			p := filepath.Join(dir, "secret")
			_ = os.WriteFile(p, []byte("secret"), 0o644)
			return p
		},
	}
}

func TestSuiteIsolated(t *testing.T) {
	t.Parallel()
	b, err := local.New(t.Context(), local.Config{DataDir: t.TempDir()})
	require.NoError(t, err)
	if ok, why := b.Isolated(); !ok {
		require.NotEmpty(t, why)
		t.Skip(why)
	}
	sandboxtest.Run(t, fixture("isolated"))
}

func TestSuiteNotIsolated(t *testing.T) {
	t.Parallel()
	sandboxtest.Run(t, fixture("bare"))
}
