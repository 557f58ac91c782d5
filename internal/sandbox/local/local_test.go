package local_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/landlock"
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
	mode := filepath.Base(dir)
	b, err := local.New(ctx, local.Config{DataDir: dir, NoIsolation: mode == "bare" || mode == "held", NoLandlock: mode == "bare", Forwarder: self})
	if err == nil && mode == "ahead" {
		return ahead{b}, nil
	}
	return b, err
}

// patience is how long tests wait for what a busy machine takes its time for.
const patience = 2 * time.Minute

// ahead opens sandboxes with a namespace that was made ahead of the first command.
type ahead struct{ *local.Backend }

func (a ahead) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Session, error) {
	s, err := a.Backend.Open(ctx, spec)
	if err != nil {
		return s, err
	}
	s.(sandbox.Preparer).Prepare()
	for end := time.Now().Add(patience); !local.HasSpare(s); {
		if time.Now().After(end) {
			return s, errors.New("no namespace was made ahead")
		}
		time.Sleep(time.Millisecond)
	}
	return s, nil
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
	sandboxtest.Run(t, fixture("ahead"))
}

func TestSuiteNotIsolated(t *testing.T) {
	t.Parallel()
	sandboxtest.Run(t, fixture("bare"))
}

// TestSuiteHeld is the suite where nothing isolates commands and Landlock holds their
// files.
func TestSuiteHeld(t *testing.T) {
	t.Parallel()
	if abi := landlock.ABI(); abi < landlock.LeastABI {
		t.Skipf("this kernel's Landlock has ABI %d", abi)
	}
	b, err := open(t.Context(), filepath.Join(t.TempDir(), "held"))
	require.NoError(t, err)
	s, err := b.Open(t.Context(), sandbox.Spec{ID: "s"})
	require.NoError(t, err)
	require.True(t, s.Info().Confined, s.Info().WhyNot)
	sandboxtest.Run(t, fixture("held"))
}
