package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	"github.com/countersign/countersign/internal/sandbox"
)

// fail says what a failed call to the engine means.
func (b *Backend) fail(doing string, err error) error {
	var network net.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w", doing, err)
	case client.IsErrConnectionFailed(err), errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: %w: the Docker engine at %s does not answer: %v", doing, sandbox.ErrUnavailable, b.api.DaemonHost(), err)
	case strings.Contains(err.Error(), "no space left on device"):
		return fmt.Errorf("%s: %w: the Docker engine's disk is full: %v", doing, sandbox.ErrUnavailable, err)
	case errdefs.IsUnavailable(err), errdefs.IsInternal(err), errdefs.IsUnknown(err):
		return fmt.Errorf("%s: %w: %w", doing, sandbox.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// gone is fail for what concerns a container that must be there.
func (b *Backend) gone(doing string, err error) error {
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("%s: %w: %v", doing, sandbox.ErrGone, err)
	}
	return b.fail(doing, err)
}
