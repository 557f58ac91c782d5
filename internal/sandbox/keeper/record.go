package keeper

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The record of the exec that is served is the working directory.

// take enters the record and takes its lock, for this process and for good.
func (o Order) take() bool {
	if err := os.Chdir(o.Record); err != nil {
		return false
	}
	lock, err := os.OpenFile("run/lock", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false
	}
	_ = lock.Close()
	return put(room, strings.Repeat(" ", 80)+"\n") == nil && put("run/own", "") == nil && put("run/self", identity("self")) == nil
}

// room is a file that how the exec ends is written to where the command has filled the
// disk: what is written over takes no room.
const room = "run/room"

// where is where the record is now, and whether it is an exec's; it is empty where
// the record is nowhere any more.
func where() (at string, named bool) {
	buf := make([]byte, 4096)
	n, err := syscall.Getcwd(buf)
	if err != nil || n < 2 || buf[0] != '/' {
		return "", false
	}
	at = string(buf[:n-1])
	return at, !strings.HasPrefix(at[strings.LastIndexByte(at, '/')+1:], ".")
}

// named tells whether the record is an exec's, for good: one that is not is gone
// afterwards.
func named() bool {
	for {
		at, named := where()
		if named || at == "" {
			return named
		}
		// Whoever gives it a name at this moment succeeds, or does not.
		if gone := at + ".gone"; os.Rename(at, gone) == nil {
			_ = os.RemoveAll(gone)
			return false
		} else if _, err := os.Lstat(at); err == nil {
			return false // it cannot be removed
		}
	}
}

const (
	// recordTries is how often the record's end is written while the disk does not
	// take it, once a recordEvery: without it the exec's outcome would be unknown.
	recordTries = 600
	recordEvery = time.Second
)

// record writes how the exec ended. It is true where that was written without ado.
func record(o outcome) bool {
	reason := "exited"
	if data, err := os.ReadFile("run/reason"); err == nil {
		reason = strings.TrimSpace(string(data))
		if reason == "" {
			reason = "output_lost" // the disk did not take it
		}
	} else if !o.begun {
		reason = "failed" // bubblewrap could not set the sandbox up
	}
	text := "code " + strconv.Itoa(o.code) + "\nreason " + reason + "\n"
	for tries := range recordTries {
		if put("exit", text) == nil || over(room, text) == nil && os.Rename(room, "exit") == nil {
			return tries == 0
		}
		if _, err := os.Stat("run"); err != nil {
			return false // a sandbox that was destroyed needs no record
		}
		time.Sleep(recordEvery)
	}
	return false
}

func put(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) }

// over writes a text over the beginning of a file.
func over(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err = f.WriteString(text); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// identity is a line that names a process for as long as the system is up.
func identity(pid string) string {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return ""
	}
	return string(data)
}

// started is what of an identity never changes: pid and start time, field 22.
func started(line string) string {
	pid, _, _ := strings.Cut(line, " ")
	f := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(f) < 20 {
		return ""
	}
	return pid + " " + f[19]
}
