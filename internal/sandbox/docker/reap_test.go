package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/docker"
)

// tarOf is a tar of empty files and, by a slash at the end, directories.
func tarOf(t *testing.T, names ...string) io.Reader {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, name := range names {
		h := tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755}
		if strings.HasSuffix(name, "/") {
			h.Typeflag = tar.TypeDir
		}
		require.NoError(t, w.WriteHeader(&h))
	}
	require.NoError(t, w.Close())
	return &buf
}

// What is being opened here may look old, where the clock was set meanwhile.
func TestReapSparesWhatIsBeingMade(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	making, goOn := make(chan struct{}), make(chan struct{})
	opened := make(chan error, 1)
	go func() {
		_, err := r.Open(t.Context(), sandbox.Spec{ID: "new", Generation: 1, Seed: sandbox.Seed{Snapshot: func(context.Context) (io.ReadCloser, error) {
			close(making)
			<-goOn
			return io.NopCloser(tarOf(t, "f")), nil
		}}})
		opened <- err
	}()
	select {
	case <-making:
	case err := <-opened:
		t.Fatal(err)
	}
	r.Age(docker.OrphanGrace)
	done, err := r.Reap(t.Context(), func(context.Context, string, int) (bool, error) { return false, nil })
	require.NoError(t, err)
	require.Zero(t, done)
	close(goOn)
	require.NoError(t, <-opened)
	done, err = r.Reap(t.Context(), func(context.Context, string, int) (bool, error) { return false, nil })
	require.NoError(t, err)
	require.Equal(t, 1, done.Sandboxes, "afterwards the session is asked")
}

func TestReap(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	kept, orphan := sandbox.Spec{ID: "kept", Generation: 1}, sandbox.Spec{ID: "orphan", Generation: 7}
	r.open(t, kept)
	lost := r.open(t, orphan)
	r.open(t, sandbox.Spec{ID: "destroyed"}).Destroy(t.Context())
	stranger := newRig(t)
	stranger.open(t, orphan)

	asked := 0
	keep := func(_ context.Context, session string, generation int) (bool, error) {
		asked++
		require.True(t, session == "kept" && generation == 1 || session == "orphan" && generation == 7, session)
		return session == "kept", nil
	}
	done, err := r.Reap(t.Context(), keep)
	require.NoError(t, err)
	require.Zero(t, done, "nothing is old enough")
	require.Zero(t, asked)

	r.Age(docker.OrphanGrace)
	_, err = r.Reap(t.Context(), func(context.Context, string, int) (bool, error) { return false, errors.New("who knows") })
	require.ErrorContains(t, err, "who knows")
	require.Len(t, r.volumes(t), 6)
	done, err = r.Reap(t.Context(), keep)
	require.NoError(t, err)
	require.Equal(t, docker.Reaped{Sandboxes: 1, Volumes: 3}, done)
	require.Equal(t, 2, asked)
	require.Len(t, r.volumes(t), 3)
	_, err = lost.Status(t.Context(), "x")
	require.ErrorIs(t, err, sandbox.ErrGone)
	kept.Existing = true
	r.open(t, kept)
	require.Len(t, stranger.volumes(t), 3, "what others own is not looked at")
	_, err = r.Open(t.Context(), sandbox.Spec{ID: "destroyed"})
	require.ErrorIs(t, err, sandbox.ErrGone)

	r.Age(docker.GoneGrace)
	done, err = r.Reap(t.Context(), keepAll)
	require.NoError(t, err)
	require.GreaterOrEqual(t, done.Volumes, 1)
	r.open(t, sandbox.Spec{ID: "destroyed"})
}
