package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
)

// ErrHostLocked says that another worker serves this data directory.
var ErrHostLocked = errors.New("another worker uses this data directory")

// Host is a data directory's identity, held by one process at a time: local
// sandboxes are served on the queue that carries its ID.
type Host struct {
	// ID is random and stays with the data directory.
	ID   string
	file *os.File
}

var hostID = regexp.MustCompile(`^[0-9a-f]{12}$`)

// LockHost takes the data directory for this process until [Host.Close], or
// until it dies. It returns [ErrHostLocked] when another process has it.
func LockHost(dataDir string) (*Host, error) {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return nil, fmt.Errorf("making the data directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dataDir, "host"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the host's identity: %w", err)
	}
	h, err := lockHost(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return h, nil
}

func lockHost(f *os.File) (*Host, error) {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s", ErrHostLocked, filepath.Dir(f.Name()))
		}
		return nil, fmt.Errorf("locking the data directory: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(f, 64))
	if err != nil {
		return nil, fmt.Errorf("reading the host's identity: %w", err)
	}
	if id := string(data); hostID.MatchString(id) {
		return &Host{ID: id, file: f}, nil
	}
	if len(data) > 0 {
		return nil, fmt.Errorf("%s holds no host identity", f.Name())
	}
	id := random()
	if _, err := f.WriteAt([]byte(id), 0); err != nil {
		return nil, fmt.Errorf("writing the host's identity: %w", err)
	}
	if err := f.Sync(); err != nil {
		return nil, fmt.Errorf("writing the host's identity: %w", err)
	}
	return &Host{ID: id, file: f}, nil
}

// Close gives the data directory back.
func (h *Host) Close() error { return h.file.Close() }
