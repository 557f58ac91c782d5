package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/countersign/countersign/internal/sandbox"
)

// Attach follows a stream; see [sandbox.Execs].
func (s *session) Attach(ctx context.Context, id string, stream sandbox.Stream, offset int64, w io.Writer) error {
	if stream != sandbox.Stdout && stream != sandbox.Stderr {
		return fmt.Errorf("an exec has no stream %q", stream)
	}
	if _, err := s.Status(ctx, id); err != nil {
		return err
	}
	f, err := os.Open(filepath.Join(s.record(id), string(stream)))
	if err != nil {
		return s.storeError("opening an exec's output", err)
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return fmt.Errorf("reading output at offset %d: %w", offset, err)
	}
	buf := make([]byte, 64<<10)
	looked, heard := time.Now(), time.Now()
	over := s.over(id)
	for {
		// Looked at before the last read: what was written before the end is read.
		ended := s.recorded(id)
		if !ended && time.Since(looked) > probeEvery {
			looked = time.Now()
			st, err := s.Status(ctx, id)
			if err != nil {
				return err
			}
			ended = st.Ended()
		}
		n, err := copyAvailable(ctx, w, f, buf)
		if err != nil || ended {
			return err
		}
		if n > 0 {
			heard = time.Now()
		}
		least := pollMin
		if over != nil {
			least = pollTold
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-over:
			over = nil
		case <-time.After(min(max(time.Since(heard)/pollShare, least), pollMax)):
		}
	}
}

// copyAvailable copies what is there now.
func copyAvailable(ctx context.Context, w io.Writer, r io.Reader, buf []byte) (int64, error) {
	var total int64
	for {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		n, err := r.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return total, err
			}
			total += int64(n)
		}
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, fmt.Errorf("reading output: %w", err)
		}
	}
}

// follow notes an exec whose harness is a child of this process: its end is noticed
// at once. What the next one needs is made when this one leaves the processors free.
func (s *session) follow(id string, ended <-chan struct{}) {
	s.endings.Store(id, ended)
	go func() {
		select {
		case <-ended:
		case <-time.After(spareAfter):
		}
		s.prepare()
		<-ended
		s.endings.Delete(id)
	}()
}

// over is closed when the exec's harness has ended; nil where that is not this
// process's child.
func (s *session) over(id string) <-chan struct{} {
	ended, _ := s.endings.Load(id)
	ch, _ := ended.(<-chan struct{})
	return ch
}
