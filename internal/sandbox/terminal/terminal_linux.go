package terminal

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// restMost is more than the kernel keeps of what a terminal was to show.
const restMost = 256 << 10 // 256 KiB

// open makes a terminal that controls nobody yet. The command's end of it is kept
// open here, so that the other has no end of its own.
func open() (master, tty *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("opening /dev/ptmx: %w", err)
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, fmt.Errorf("unlocking it: %w", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, nil, fmt.Errorf("asking for its name: %w", err)
	}
	name := fmt.Sprintf("/dev/pts/%d", n)
	if fd, err = unix.Open(name, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0); err != nil {
		return nil, nil, fmt.Errorf("opening %s: %w", name, err)
	}
	return master, os.NewFile(uintptr(fd), name), setUp(fd)
}

// setUp gives the terminal its size, and lets its keys delete whole characters.
func setUp(fd int) error {
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: Rows, Col: Columns}); err != nil {
		return fmt.Errorf("setting its size: %w", err)
	}
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return fmt.Errorf("reading its settings: %w", err)
	}
	t.Iflag |= unix.IUTF8
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, t); err != nil {
		return fmt.Errorf("setting it up: %w", err)
	}
	return nil
}

// showRest passes on what the terminal was to show and nobody has read.
func showRest(to io.Writer, master *os.File) {
	raw, err := master.SyscallConn()
	if err != nil {
		return
	}
	buf := make([]byte, 32<<10)
	_ = raw.Control(func(fd uintptr) {
		for most := restMost; most > 0; {
			n, err := unix.Read(int(fd), buf)
			if err == unix.EINTR {
				continue
			}
			if err != nil || n <= 0 {
				return
			}
			most -= n
			_, _ = to.Write(buf[:n])
		}
	})
}

// keepInherited keeps from the command what this process was given beside its
// standard streams.
func keepInherited() {
	if unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	for fd := 3; fd < 64; fd++ { // an older kernel; the harness uses numbers below 10
		unix.CloseOnExec(fd)
	}
}
