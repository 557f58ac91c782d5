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
	"github.com/countersign/countersign/internal/workflows"
)

// fail says what a failed call to the engine means.
func (b *Backend) fail(doing string, err error) error {
	var network net.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errSilent), errors.Is(err, errStuck):
		return sandbox.Unavailable("Docker has stopped answering on the worker. Restart it if it stays so"+workflows.OrMove+".",
			fmt.Errorf("%s: %w: %s", doing, err, b.api.DaemonHost()))
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w", doing, err)
	case client.IsErrConnectionFailed(err), errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return sandbox.Unavailable("Docker is not reachable on the worker. Start Docker"+workflows.OrMove+".",
			fmt.Errorf("%s: the Docker engine at %s does not answer: %w", doing, b.api.DaemonHost(), err))
	case strings.Contains(err.Error(), "no space left on device"):
		return sandbox.Unavailable("The Docker engine's disk is full. Free some space on it, then send a message to go on.",
			fmt.Errorf("%s: the Docker engine's disk is full: %w", doing, err))
	case errdefs.IsUnavailable(err), errdefs.IsInternal(err), errdefs.IsUnknown(err):
		return sandbox.Unavailable("The Docker engine could not do it: "+engineText(err)+".", fmt.Errorf("%s: %w", doing, err))
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// engineText is what the engine says, on one line and without its own prefixes.
func engineText(err error) string {
	line, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	line = strings.TrimPrefix(line, "Error response from daemon: ")
	return strings.TrimSuffix(line[:min(len(line), 300)], ".")
}

// gone is fail for what concerns a container that must be there.
func (b *Backend) gone(doing string, err error) error {
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("%s: %w: %v", doing, sandbox.ErrGone, err)
	}
	return b.fail(doing, err)
}
