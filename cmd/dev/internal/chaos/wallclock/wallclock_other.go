//go:build !(linux && amd64)

package wallclock

import (
	"os/exec"
	"time"
)

// Clock is the wall clock of one process.
type Clock struct{}

// Start is [ErrUnsupported].
func Start(*exec.Cmd, time.Duration) (*Clock, error) { return nil, ErrUnsupported }

// Set is [ErrUnsupported].
func (*Clock) Set(time.Duration) error { return ErrUnsupported }

// Close does nothing.
func (*Clock) Close() {}
