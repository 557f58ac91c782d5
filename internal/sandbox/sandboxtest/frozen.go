package sandboxtest

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/snapshot"
	"github.com/countersign/countersign/internal/workflows"
)

// roundFiles is how many files one round of [rounds] writes.
const roundFiles = 40

// rounds writes its number into all files of a directory, again and again: at any
// one moment the files hold two neighbouring numbers, the newer ones first.
var rounds = fmt.Sprintf(`mkdir -p r; n=0
while :; do
	n=$((n + 1)) i=100
	while [ $i -lt %d ]; do echo $n > r/$i; i=$((i + 1)); done
done`, 100+roundFiles)

// What runs while a snapshot is taken stands still: the snapshot is of one moment.
// Then it goes on, until the sandbox is released.
func testFrozenSnapshot(t *testing.T, b *rig) {
	ctx := t.Context()
	blobs, err := blob.Open(ctx, "mem://")
	require.NoError(t, err)
	defer func() { require.NoError(t, blobs.Close()) }()
	temp, state := t.TempDir(), t.TempDir()
	acts := sandbox.NewActivities(sandbox.Config{
		Offers: []sandbox.Offer{{Backend: b.backend}}, Default: b.backend.Name(), Blobs: blobs, TempDir: temp, StateDir: state,
	})
	spec := sandbox.Spec{ID: "agent/web/main/" + newID(), Generation: 1}
	s := b.openSpec(t, spec)
	ref := workflows.SandboxRef{Backend: b.backend.Name(), ID: spec.ID, Generation: spec.Generation}
	id := Start(t, s, rounds)
	last := fmt.Sprintf("r/%d", 99+roundFiles)
	eventually(t, "the first round", func() bool { return content(t, s, last) != "" })
	for range 3 {
		took, err := acts.TakeSnapshot(ctx, workflows.SnapshotInput{WorkflowID: spec.ID, Sandbox: ref})
		require.NoError(t, err)
		r, err := (&snapshot.Store{Blobs: blobs, Temp: temp, State: state}).Open(ctx, took.Snapshot)
		require.NoError(t, err)
		newest := requireOneMoment(t, r)
		require.NoError(t, r.Close())
		eventually(t, "it goes on", func() bool {
			n, err := strconv.Atoi(strings.TrimSpace(content(t, s, last)))
			return err == nil && n > newest+1
		})
	}
	require.NoError(t, acts.ReleaseSandbox(ctx, workflows.ReleaseInput{WorkflowID: spec.ID, Sandbox: ref}))
	spec.Existing = true
	s = b.openSpec(t, spec)
	require.Equal(t, sandbox.StateCancelled, await(t, s, id).State, "release ends it")
	before := content(t, s, last)
	run(t, s, "sleep 0.3")
	require.Equal(t, before, content(t, s, last))
}

// requireOneMoment reads the files of rounds from a snapshot and returns the newest
// number.
func requireOneMoment(t *testing.T, r io.Reader) int {
	t.Helper()
	files := map[string]string{}
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if h.Typeflag == tar.TypeReg {
			data, err := io.ReadAll(in)
			require.NoError(t, err)
			files[strings.TrimPrefix(h.Name, "./")] = strings.TrimSpace(string(data))
		}
	}
	require.Len(t, files, roundFiles)
	newest, was, empty := 0, 0, 0
	for i := range roundFiles {
		text := files[fmt.Sprintf("r/%d", 100+i)]
		if text == "" { // it was halted between opening the file and writing it
			empty++
			continue
		}
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		newest = max(newest, n)
		require.True(t, was == 0 || n == was || n == was-1 && n == newest-1, "%v", files)
		was = n
	}
	require.LessOrEqual(t, empty, 1, "%v", files)
	return newest
}
