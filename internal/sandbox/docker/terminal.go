package docker

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/countersign/countersign/internal/sandbox"
)

// terminalFD is where the program that gives a command a terminal is open when the
// command begins: it lies among the records, where no command comes. The harness
// opens it there.
const terminalFD = "/proc/self/fd/5"

// terminalHelper makes sure that the program is in the container, and returns its
// name among the records.
func (s *session) terminalHelper(ctx context.Context) (string, error) {
	const doing = "bringing a terminal into the sandbox"
	if why := s.b.helperUnfit(); why != "" {
		return "", sandbox.Refuse("No terminal can be had in this sandbox: " + why)
	}
	digest, err := s.b.forwarderDigest()
	if err != nil {
		return "", err
	}
	name := "terminal-" + digest[:16]
	out, err := s.ask(ctx, doing, "helper", name)
	if err != nil || string(out) == "there\n" {
		return name, err
	}
	aside := name + newMark + random()
	if err := s.b.copyForwarder(ctx, s.id, insideRoot, aside, doing); err != nil {
		return "", err
	}
	_, err = s.ask(ctx, doing, "helper", name, aside)
	return name, err
}

// copyForwarder puts the worker's program into a directory of a container.
func (b *Backend) copyForwarder(ctx context.Context, id, dir, name, doing string) error {
	f, err := os.Open(b.cfg.Forwarder)
	if err != nil {
		return fmt.Errorf("reading the worker's program: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("reading the worker's program: %w", err)
	}
	r, w := io.Pipe()
	go func() {
		t := tar.NewWriter(w)
		err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: info.Size()})
		if err == nil {
			_, err = io.Copy(t, f)
		}
		w.CloseWithError(errors.Join(err, t.Close()))
	}()
	err = b.api.CopyToContainer(ctx, id, dir, r)
	r.CloseWithError(errEngineStopped)
	return b.fail(doing, err)
}
