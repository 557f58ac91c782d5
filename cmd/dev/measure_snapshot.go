package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/archive"
	"github.com/countersign/countersign/internal/sandbox/local"
	"github.com/countersign/countersign/internal/sandbox/snapshot"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// benchFiles and benchBytes are the workspace that snapshots are measured with.
	benchFiles = 50_000
	benchBytes = 1 << 30 // 1 GiB
	// benchSnapshots is how often what takes seconds is measured.
	benchSnapshots = 3
	// benchChanges is how often a snapshot of one changed file is taken.
	benchChanges = 10
)

// snapshotBench is a workspace and a store for its snapshots.
type snapshotBench struct {
	temp, tree string
	store      *snapshot.Store
}

func newSnapshotBench(ctx context.Context) (*snapshotBench, error) {
	temp, err := os.MkdirTemp("", "countersign-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	b := &snapshotBench{temp: temp, tree: filepath.Join(temp, "tree")}
	blobs, err := blob.Open(ctx, "file://"+filepath.Join(temp, "blobs"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(temp))
	}
	b.store = &snapshot.Store{Blobs: blobs, Temp: filepath.Join(temp, "tmp"), State: filepath.Join(temp, "state")}
	if err = os.Mkdir(b.store.Temp, 0o700); err == nil {
		err = makeTree(ctx, b.tree)
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *snapshotBench) close() error {
	return errors.Join(b.store.Blobs.Close(), os.RemoveAll(b.temp))
}

// makeTree makes the workspace: directories of a hundred files of words, which
// compress about as source code does.
func makeTree(ctx context.Context, dir string) error {
	rnd := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 4096)
	for i := range words {
		words[i] = strconv.FormatUint(rnd.Uint64N(1<<(8+rnd.UintN(32))), 36) + " "
		if i%11 == 0 {
			words[i] += "\n"
		}
	}
	const each = benchBytes / benchFiles
	var buf []byte
	for i := range benchFiles {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := filepath.Join(dir, fmt.Sprintf("d%02d/d%02d", i/5000, i/100%50))
		if i%100 == 0 {
			if err := os.MkdirAll(at, 0o755); err != nil {
				return fmt.Errorf("making files to measure with: %w", err)
			}
		}
		buf = buf[:0]
		for size := each/4 + rnd.IntN(each*3/2); len(buf) < size; {
			buf = append(buf, words[rnd.Uint32()%uint32(len(words))]...)
		}
		if err := os.WriteFile(filepath.Join(at, fmt.Sprintf("f%05d.txt", i)), buf, 0o644); err != nil {
			return fmt.Errorf("making files to measure with: %w", err)
		}
	}
	return nil
}

// take takes a snapshot and returns how long it took, in milliseconds.
func (b *snapshotBench) take(ctx context.Context) (snapshot.Taken, float64, error) {
	began := time.Now()
	took, err := b.store.Take(ctx, "bench", archive.Dir(b.tree))
	return took, milliseconds(time.Since(began)), err
}

// packed is how long tar and zstd take for the same.
func (b *snapshotBench) packed(ctx context.Context) (float64, error) {
	out := filepath.Join(b.temp, "packed")
	defer func() { _ = os.Remove(out) }()
	began := time.Now()
	if err := b.pack(ctx, out); err != nil {
		return 0, err
	}
	return milliseconds(time.Since(began)), nil
}

func (b *snapshotBench) pack(ctx context.Context, out string) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", `tar -C "$1" -cf - . | zstd -1 -q -o "$2"`, "sh", b.tree, out)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running tar and zstd: %w: %s", err, text)
	}
	return nil
}

// benchSnapshotFirst compares a whole snapshot with tar and zstd, turn by turn.
func benchSnapshotFirst(ctx context.Context, _ *process.Env, _ benchOptions) (m measurement, err error) {
	m.what = "tar_zstd_1"
	if _, err := exec.LookPath("zstd"); err != nil {
		m.note = "not measured: there is no zstd program to compare with"
		return m, nil
	}
	b, err := newSnapshotBench(ctx)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	for range benchSnapshots {
		yard, err := b.packed(ctx)
		if err != nil {
			return m, err
		}
		b.store.Forget("bench")
		_, took, err := b.take(ctx)
		if err != nil {
			return m, err
		}
		m.samples, m.yardstick = append(m.samples, took), append(m.yardstick, yard)
	}
	return m, nil
}

// benchSnapshotIncremental compares a snapshot after one changed file with the
// first one.
func benchSnapshotIncremental(ctx context.Context, _ *process.Env, _ benchOptions) (m measurement, err error) {
	m.what = "snapshot_first"
	b, err := newSnapshotBench(ctx)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	for range benchSnapshots {
		b.store.Forget("bench")
		_, took, err := b.take(ctx)
		if err != nil {
			return m, err
		}
		m.yardstick = append(m.yardstick, took)
	}
	for i := range benchChanges {
		name := filepath.Join(b.tree, "d03/d07", fmt.Sprintf("f%05d.txt", 15700+i))
		if err := os.WriteFile(name, []byte("changed"), 0o644); err != nil {
			return m, fmt.Errorf("changing a file: %w", err)
		}
		_, took, err := b.take(ctx)
		if err != nil {
			return m, err
		}
		m.samples = append(m.samples, took)
	}
	return m, nil
}

// unpacked is how long zstd and tar take to bring the same back.
func (b *snapshotBench) unpacked(ctx context.Context) (float64, error) {
	out := filepath.Join(b.temp, "unpacked")
	if err := os.Mkdir(out, 0o700); err != nil {
		return 0, fmt.Errorf("making a directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(out) }()
	began := time.Now()
	cmd := exec.CommandContext(ctx, "sh", "-c", `zstd -d -q -c "$1" | tar -C "$2" -xf -`, "sh", filepath.Join(b.temp, "packed"), out)
	if text, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("running zstd and tar: %w: %s", err, text)
	}
	return milliseconds(time.Since(began)), nil
}

// benchRestore compares a local sandbox made from a snapshot with zstd and tar,
// turn by turn. There is no budget.
func benchRestore(ctx context.Context, _ *process.Env, _ benchOptions) (m measurement, err error) {
	m.what = "zstd_tar"
	if _, err := exec.LookPath("zstd"); err != nil {
		m.note = "not measured: there is no zstd program to compare with"
		return m, nil
	}
	b, err := newSnapshotBench(ctx)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	took, _, err := b.take(ctx)
	if err != nil {
		return m, err
	}
	if err := b.pack(ctx, filepath.Join(b.temp, "packed")); err != nil {
		return m, err
	}
	m.samples, err = restores(ctx, b.store, took.Ref, b.temp, func() error {
		yard, err := b.unpacked(ctx)
		m.yardstick = append(m.yardstick, yard)
		return err
	})
	return m, err
}

// restores opens local sandboxes from a snapshot, one after the other, each after
// what before does.
func restores(ctx context.Context, store *snapshot.Store, ref, temp string, before func() error) (samples []float64, err error) {
	backend, err := local.New(ctx, local.Config{DataDir: filepath.Join(temp, "restored")})
	if err != nil {
		return nil, err
	}
	for i := range benchSnapshots {
		if err := before(); err != nil {
			return nil, err
		}
		began := time.Now()
		s, err := backend.Open(ctx, sandbox.Spec{ID: "bench-" + strconv.Itoa(i), Generation: 1, Seed: sandbox.Seed{
			Snapshot: func(ctx context.Context) (io.ReadCloser, error) { return store.Open(ctx, ref) },
			Filled: func(ctx context.Context, tree snapshot.Tree) {
				err = store.Seeded(ctx, "bench-"+strconv.Itoa(i), ref, tree)
			},
		}})
		if err != nil {
			return nil, err
		}
		samples = append(samples, milliseconds(time.Since(began)))
		if err := s.Destroy(ctx); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

// benchFork compares a fork, from the command that asks for it to the end of the
// first command in it, with a restore of the same files, turn by turn.
func benchFork(ctx context.Context, e *process.Env, _ benchOptions) (m measurement, err error) {
	m.what = "restore"
	s, err := startStack(ctx, e)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := makeTree(ctx, filepath.Join(s.temp, "workspace")); err != nil {
		return m, err
	}
	thread, err := s.ask(ctx, "`echo made > made`") // what only reads has no snapshot
	if err != nil {
		return m, err
	}
	ref, err := s.boundary(ctx, thread)
	if err != nil {
		return m, err
	}
	blobs, err := blob.Open(ctx, s.config.Blob.URL)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, blobs.Close()) }()
	store := &snapshot.Store{Blobs: blobs, State: filepath.Join(s.temp, "state")}
	m.yardstick, err = restores(ctx, store, ref, s.temp, func() error {
		took, err := s.fork(ctx, thread)
		m.samples = append(m.samples, took)
		return err
	})
	return m, err
}

// boundary waits for a session's first snapshot.
func (s *stack) boundary(ctx context.Context, thread string) (string, error) {
	sessions := control.New(s.client, nil)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	for {
		b, err := sessions.Boundary(ctx, workflowOf(thread))
		switch {
		case err == nil && b.Failed != "":
			return "", errors.New(b.Failed)
		case err == nil && b.Snapshot != "":
			return b.Snapshot, nil
		}
		select {
		case <-ctx.Done():
			return "", errors.Join(ctx.Err(), err)
		case <-time.After(smokePoll):
		}
	}
}

func workflowOf(thread string) string {
	return workflows.Thread{Platform: workflows.PlatformWeb, Team: workflows.WebTeam, ID: thread}.WorkflowID()
}

// fork forks a session and returns how long it is, in milliseconds, until the
// first command in the new one has run.
func (s *stack) fork(ctx context.Context, thread string) (float64, error) {
	began := time.Now()
	var reply struct {
		Opened string `json:"opened"`
	}
	say := func(to, text string) error {
		return s.chat().call(ctx, "POST", "/threads/"+to+"/messages", map[string]string{
			"text": text, "client_id": strconv.FormatInt(time.Now().UnixNano(), 36),
		}, &reply)
	}
	if err := say(thread, "/agent fork"); err != nil {
		return 0, err
	}
	opened := reply.Opened
	if opened == "" {
		return 0, errors.New("the fork opened no thread")
	}
	if err := say(opened, "`true`"); err != nil {
		return 0, err
	}
	if _, err := s.answer(ctx, opened); err != nil {
		return 0, err
	}
	var ran time.Time
	types := map[int64]string{}
	err := events(ctx, s.client, workflowOf(opened), func(ev *historypb.HistoryEvent) {
		switch ev.GetEventType() {
		case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
			types[ev.GetEventId()] = ev.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName()
		case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
			if ran.IsZero() && types[ev.GetActivityTaskCompletedEventAttributes().GetScheduledEventId()] == workflows.ActivityRunTool {
				ran = ev.GetEventTime().AsTime()
			}
		}
	})
	if err == nil && ran.IsZero() {
		err = errors.New("the fork ran no command")
	}
	return milliseconds(ran.Sub(began)), err
}
