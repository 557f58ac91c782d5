package process

import (
	"os"
	"strconv"
	"syscall"
)

// closeOnExec keeps what this process has inherited from whoever started it, beyond
// its three streams, from the commands that it starts. What Go opens is kept from
// them anyway. It does what it can: where the open files cannot be listed, nothing.
func closeOnExec() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}
