// Package wallclock starts processes whose wall clock can be set without anybody
// else's: forwards and backwards, at their start and while they run. Their monotonic
// clock, which timers go by, is left alone, as it is where somebody sets a machine's
// clock.
//
// A process reads its clocks without a call to the kernel, in code that the kernel
// puts into each process. Between exec and the first instruction that code is written
// over with a piece that asks the kernel and adds an offset; the offset is a word
// beside it, which is written again when the clock is set. Programs that the process
// starts have the real clock again, and what the kernel notes by itself, such as when
// a file was changed, is by the real clock as well.
package wallclock

import (
	"errors"
	"fmt"
	"os/exec"
)

// ErrUnsupported is why processes cannot have clocks of their own here.
var ErrUnsupported = errors.New("clocks of their own are for processes of Linux on amd64")

// Cannot says why processes cannot have clocks of their own here; empty where they
// can. It starts one.
func Cannot() string {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe() // it lives until this is closed
	if err != nil {
		return err.Error()
	}
	c, err := Start(cmd, 0)
	if err != nil {
		return err.Error()
	}
	_ = in.Close() // it may have ended
	err = cmd.Wait()
	c.Close()
	if err != nil {
		return fmt.Sprintf("a process with a clock of its own ended with %v", err)
	}
	return ""
}
