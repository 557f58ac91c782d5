package snapshot_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/sandbox/archive"
	"github.com/countersign/countersign/internal/sandbox/snapshot"
)

// killedEnv makes this test's program the one that is killed: it names the
// directories of store and tree.
const killedEnv = "COUNTERSIGN_TEST_SNAPSHOT_KILLED"

// stuck reads half and never ends.
type stuck struct{ snapshot.Tree }

func (s stuck) Read(ctx context.Context, names []string, each func(string, int64, io.Reader) error) error {
	return s.Tree.Read(ctx, names, func(name string, size int64, r io.Reader) error {
		if name == "z" {
			select {}
		}
		return each(name, size, r)
	})
}

// Killed in the middle, a process leaves the snapshot before, and the next one
// takes what it could not.
func TestKilled(t *testing.T) {
	if dirs := filepath.SplitList(os.Getenv(killedEnv)); len(dirs) == 2 {
		blobs, err := blob.Open(t.Context(), "file://"+dirs[0]+"/blobs")
		require.NoError(t, err)
		s := &snapshot.Store{Blobs: blobs, Temp: dirs[0] + "/tmp", State: dirs[0] + "/state"}
		_, _ = s.Take(t.Context(), dirs[1], stuck{archive.Dir(dirs[1])})
		return
	}
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	write(t, dir, map[string]string{"a": "1", "z": "1"})
	first := r.take(dir)
	before := tree(t, dir)
	big := make([]byte, 8<<20)
	for i := range big {
		big[i] = byte(i * i >> 7)
	}
	write(t, dir, map[string]string{"a": string(big), "z": "22"})

	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), killedEnv+"="+filepath.Dir(r.Temp)+string(filepath.ListSeparator)+dir)
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool {
		left, err := filepath.Glob(r.Temp + "/layer-*")
		return err == nil && len(left) == 1
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()

	require.Equal(t, before, tree(t, r.restore(first.Ref)))
	next := r.take(dir)
	require.Equal(t, 2, next.Layers)
	require.Equal(t, tree(t, dir), tree(t, r.restore(next.Ref)))
}
