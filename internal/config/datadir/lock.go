package datadir

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Lock is a held lock. The system releases it when the process ends, however
// it ends; a child process does not inherit it.
type Lock struct{ file *os.File }

// A killed process takes a moment to end, and one that it was just starting has
// the lock until it runs its program. Whoever starts anew at once waits for that.
const (
	lockWithin = 2 * time.Second
	lockPoll   = 20 * time.Millisecond
)

// LockedError says that another process holds the lock.
type LockedError struct {
	// Dir is the data directory, Holder what holds it: cmd/dev or a worker.
	Dir, Holder string
	// PID is the holder's, 0 when it could not be read.
	PID int
}

func (e *LockedError) Error() string {
	who := "another " + e.Holder
	if e.PID != 0 {
		who += " (pid " + strconv.Itoa(e.PID) + ")"
	}
	return fmt.Sprintf("%s uses the data directory %s; stop it, or name another directory with --data-dir", who, e.Dir)
}

// LockDev takes the directory for a cmd/dev. The error is a [LockedError] when
// another one has it and does not end within two seconds.
func (d *Dir) LockDev() (*Lock, error) { return d.lock(devLock, "cmd/dev") }

// LockWorker takes this host's sandboxes for a worker. The error is a
// [LockedError] when another one has them and does not end within two seconds.
func (d *Dir) LockWorker() (*Lock, error) { return d.lock(workerLock, "worker") }

// Release gives the lock back.
func (l *Lock) Release() error {
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("releasing a lock: %w", err)
	}
	return nil
}

func (d *Dir) lock(name, holder string) (*Lock, error) {
	f, err := os.OpenFile(d.Join(name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", d.Join(name), reason(err))
	}
	err = flock(f)
	for deadline := time.Now().Add(lockWithin); errors.Is(err, syscall.EWOULDBLOCK) && time.Now().Before(deadline); {
		time.Sleep(lockPoll)
		err = flock(f)
	}
	if err != nil {
		defer func() { _ = f.Close() }()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &LockedError{Dir: d.path, Holder: holder, PID: pidIn(f)}
		}
		return nil, fmt.Errorf("locking %s: %w", d.Join(name), err)
	}
	if err := writePID(f); err != nil {
		return nil, errors.Join(fmt.Errorf("writing %s: %w", d.Join(name), err), f.Close())
	}
	return &Lock{file: f}, nil
}

func flock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func pidIn(f *os.File) int {
	text := make([]byte, 32)
	n, _ := f.ReadAt(text, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	if err != nil {
		return 0
	}
	return pid
}
