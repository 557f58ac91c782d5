package wallclock

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Clock is the wall clock of one process.
type Clock struct {
	mem *os.File
	at  int64 // address of the offset
}

// entry is what programs call, Go's runtime among them.
const entry = "__vdso_clock_gettime"

// code does what entry does: clock_gettime(2), and for the wall clock adds an offset
// to the seconds.
var code = []byte{
	0xb8, 0xe4, 0x00, 0x00, 0x00, // mov eax, 228 (clock_gettime)
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi (CLOCK_REALTIME is 0)
	0x75, 0x0a, // jne the return
	0x48, 0x8b, 0x0d, 0, 0, 0, 0, // mov rcx, [the offset]
	0x48, 0x01, 0x0e, // add [rsi], rcx
	0xc3, // ret
}

const (
	// offsetOperand is where in code the way to the offset stands, counted from the
	// end of its instruction.
	offsetOperand = 14
	// word is an offset's size in bytes: whole seconds.
	word = 8
)

// Start starts cmd with a wall clock that is ahead by so much, in whole seconds. The
// caller waits for cmd, and then closes the clock.
func Start(cmd *exec.Cmd, ahead time.Duration) (*Clock, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Ptrace = true
	// The one who traces a process is a thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c, err := take(cmd.Process.Pid, ahead)
	if err == nil {
		// Writing has to be possible also when nobody traces the process.
		if err = c.Set(ahead); err == nil {
			return c, nil
		}
		c.Close()
	}
	_ = cmd.Process.Kill() // it may have ended
	_ = cmd.Wait()         // by that
	return nil, err
}

// take gives a process that has just been stopped by its exec its clock, and lets it
// go.
func take(pid int, ahead time.Duration) (*Clock, error) {
	var ws syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &ws, 0, nil)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EINTR) {
			return nil, fmt.Errorf("waiting for the start of process %d: %w", pid, err)
		}
	}
	if !ws.Stopped() {
		return nil, fmt.Errorf("process %d ended before it began", pid)
	}
	c, err := patch(pid, ahead)
	if err != nil {
		return nil, err
	}
	if err := syscall.PtraceDetach(pid); err != nil {
		c.Close()
		return nil, fmt.Errorf("letting process %d go: %w", pid, err)
	}
	return c, nil
}

// patch writes over the code by which a process reads its clocks.
func patch(pid int, ahead time.Duration) (*Clock, error) {
	proc := "/proc/" + strconv.Itoa(pid)
	mem, err := os.OpenFile(proc+"/mem", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the memory of a process: %w", err)
	}
	c := &Clock{mem: mem}
	at, room, err := find(proc, mem)
	if err == nil {
		c.at = (at + int64(len(code)) + word - 1) / word * word
		if c.at+word > at+room {
			err = fmt.Errorf("%s has %d bytes, which are too few", entry, room)
		}
	}
	if err == nil {
		err = c.Set(ahead)
	}
	if err == nil {
		text := slices.Clone(code)
		binary.LittleEndian.PutUint32(text[offsetOperand:], uint32(c.at-at-offsetOperand-4))
		_, err = mem.WriteAt(text, at)
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("giving a process a clock of its own: %w", err)
	}
	return c, nil
}

// find returns where in a process's memory entry is, and its size.
func find(proc string, mem *os.File) (at, size int64, err error) {
	maps, err := os.ReadFile(proc + "/maps")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(maps)) {
		f := strings.Fields(line)
		if len(f) == 0 || f[len(f)-1] != "[vdso]" {
			continue
		}
		var from, to int64
		if _, err := fmt.Sscanf(f[0], "%x-%x", &from, &to); err != nil {
			return 0, 0, fmt.Errorf("reading %q: %w", line, err)
		}
		image := make([]byte, to-from)
		if _, err := mem.ReadAt(image, from); err != nil {
			return 0, 0, err
		}
		file, err := elf.NewFile(bytes.NewReader(image))
		if err != nil {
			return 0, 0, err
		}
		symbols, err := file.DynamicSymbols()
		if err != nil {
			return 0, 0, err
		}
		for _, s := range symbols {
			if s.Name == entry {
				return from + int64(s.Value), int64(s.Size), nil
			}
		}
	}
	return 0, 0, fmt.Errorf("there is no %s", entry)
}

// Set sets the clock: ahead of the machine's by so much, in whole seconds; behind it
// where that is negative. A process that has ended has none to be set.
func (c *Clock) Set(ahead time.Duration) error {
	offset := binary.LittleEndian.AppendUint64(nil, uint64(int64(ahead/time.Second)))
	// Of a process that has ended nothing is left that could be written.
	if _, err := c.mem.WriteAt(offset, c.at); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("setting a clock: %w", err)
	}
	return nil
}

// Close leaves the clock as it is; nil is none.
func (c *Clock) Close() {
	if c != nil {
		_ = c.mem.Close() // nothing is lost
	}
}
