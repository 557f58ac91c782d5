package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/harness"
)

// recorded tells whether the exec has its exit record, whole.
// That stays so, and a session has many.
func (s *session) recorded(id string) bool {
	if _, ok := s.finished.Load(id); ok {
		return true
	}
	done, err := s.readExit(s.record(id), &sandbox.ExecStatus{})
	if done && err == nil {
		s.finished.Store(id, struct{}{})
		return true
	}
	return false
}

// Status returns how an exec stands; see [sandbox.Execs].
func (s *session) Status(ctx context.Context, id string) (sandbox.ExecStatus, error) {
	record := s.record(id)
	lock, err := os.Stat(filepath.Join(record, "run", "lock"))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			return sandbox.ExecStatus{}, s.storeError("reading an exec's record", err)
		}
		if _, err := os.Stat(s.dir); errors.Is(err, fs.ErrNotExist) {
			return sandbox.ExecStatus{}, fmt.Errorf("%w: %v", sandbox.ErrGone, err)
		}
		return sandbox.ExecStatus{}, fmt.Errorf("%w: %s", sandbox.ErrNoExec, id)
	}
	st := sandbox.ExecStatus{State: sandbox.StateUnknown, StartedAt: lock.ModTime()}
	if self, err := os.Stat(filepath.Join(record, "run", "self")); err == nil {
		st.StartedAt = self.ModTime()
	}
	done, err := s.readExit(record, &st)
	if err != nil {
		return st, err
	}
	if !done && s.alive(record, lock.ModTime()) {
		st.State = sandbox.StateRunning
	} else if !done {
		// It may have written its exit record and gone between the two looks.
		if _, err := s.readExit(record, &st); err != nil {
			return st, err
		}
	}
	st.StdoutBytes = size(filepath.Join(record, "stdout"))
	st.StderrBytes = size(filepath.Join(record, "stderr"))
	return st, nil
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

func (s *session) readExit(record string, st *sandbox.ExecStatus) (bool, error) {
	f, err := os.Open(filepath.Join(record, "exit"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, s.storeError("reading an exec's record", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err != nil {
		return false, s.storeError("reading an exec's record", err)
	}
	e, err := harness.ParseExit(data)
	if errors.Is(err, harness.ErrUnfinished) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if info, err := f.Stat(); err == nil {
		st.EndedAt = info.ModTime()
	}
	state, err := e.State()
	if err != nil {
		return false, err
	}
	st.ExitCode, st.State = e.Code, state
	return true, nil
}

// alive tells whether the exec's harness still runs.
func (s *session) alive(record string, since time.Time) bool {
	line, err := os.ReadFile(filepath.Join(record, "run", "self"))
	if err != nil || len(line) == 0 {
		return time.Since(since).Abs() < startGrace // the clock may have been set back since
	}
	want, err := harness.ParseProcess(string(line))
	if err != nil {
		return false
	}
	return lives(want)
}

// lives tells whether a process still runs.
func lives(want harness.Process) bool {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(want.PID) + "/stat")
	if errors.Is(err, fs.ErrNotExist) && !haveProc() {
		return syscall.Kill(want.PID, 0) == nil
	}
	if err != nil {
		return false
	}
	have, err := harness.ParseProcess(string(line))
	return err == nil && have == want && !isZombie(string(line))
}

func haveProc() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}

// isZombie tells whether a process has ended and only waits to be noticed.
func isZombie(stat string) bool {
	i := strings.LastIndexByte(stat, ')')
	return strings.HasPrefix(strings.TrimSpace(stat[i+1:]), "Z")
}

// Running returns the execs that run; see [sandbox.Execs].
func (s *session) Running(ctx context.Context) ([]string, error) {
	ids, err := s.started()
	if err != nil {
		return nil, s.storeError("listing execs", err)
	}
	var running []string
	for _, id := range ids {
		if s.recorded(id) {
			continue
		}
		st, err := s.Status(ctx, id)
		if err != nil && !errors.Is(err, sandbox.ErrNoExec) {
			return nil, err
		}
		if err == nil && !st.Ended() {
			running = append(running, id)
		}
	}
	return running, nil
}
