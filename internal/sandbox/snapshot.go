package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"strings"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/workflows"
)

// A snapshot's key is snapshotPrefix, the SHA-256 of its bytes, snapshotSuffix.
const (
	snapshotPrefix = "snapshots/"
	snapshotSuffix = ".tar.zst"
)

// TakeSnapshot stores the workspace's content. Background execs are halted
// meanwhile. Equal content has one key.
func (a *Activities) TakeSnapshot(ctx context.Context, in workflows.SnapshotInput) (workflows.SnapshotResult, error) {
	defer a.beat(ctx)()
	res, err := a.takeSnapshot(ctx, in)
	return res, activityError(ctx, err)
}

func (a *Activities) takeSnapshot(ctx context.Context, in workflows.SnapshotInput) (workflows.SnapshotResult, error) {
	s, err := a.open(ctx, in.Sandbox)
	if err != nil {
		return workflows.SnapshotResult{}, err
	}
	unlock, err := a.lockSession(ctx, in.Sandbox)
	if err != nil {
		return workflows.SnapshotResult{}, err
	}
	defer unlock()
	thaw, err := freezeOthers(ctx, s, "")
	if err != nil {
		return workflows.SnapshotResult{}, err
	}
	defer thaw()

	f, err := os.CreateTemp(a.cfg.TempDir, "snapshot-*"+snapshotSuffix)
	if err != nil {
		return workflows.SnapshotResult{}, fmt.Errorf("making room for a snapshot: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	h := sha256.New()
	st, err := s.Export(ctx, io.MultiWriter(f, h))
	if err != nil {
		return workflows.SnapshotResult{}, err
	}
	res := workflows.SnapshotResult{
		Snapshot: snapshotPrefix + hex.EncodeToString(h.Sum(nil)) + snapshotSuffix, Files: st.Files, Bytes: st.Bytes,
	}
	if ok, err := a.cfg.Blobs.Exists(ctx, res.Snapshot); err != nil || ok {
		return res, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return res, fmt.Errorf("reading a snapshot back: %w", err)
	}
	_, err = a.cfg.Blobs.PutStream(ctx, res.Snapshot, f)
	return res, err
}

// openSnapshot streams a snapshot and, at its end, verifies it against its key.
func (a *Activities) openSnapshot(ctx context.Context, key string) (io.ReadCloser, error) {
	want, ok := strings.CutSuffix(path.Base(key), snapshotSuffix)
	if !ok || snapshotPrefix+path.Base(key) != key {
		return nil, Refuse(fmt.Sprintf("%q is no snapshot.", key))
	}
	r, err := a.cfg.Blobs.NewReader(ctx, key)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, Refuse("The snapshot is no longer kept.")
	}
	if err != nil {
		return nil, err
	}
	return &verifier{ReadCloser: r, h: sha256.New(), want: want}, nil
}

// verifier turns the end of a stream into an error where its content is not what
// its name says.
type verifier struct {
	io.ReadCloser
	h    hash.Hash
	want string
}

func (v *verifier) Read(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p)
	v.h.Write(p[:n])
	if errors.Is(err, io.EOF) {
		if hex.EncodeToString(v.h.Sum(nil)) != v.want {
			return n, Refuse("The snapshot is damaged: its content is not what was stored.")
		}
	}
	return n, err
}
