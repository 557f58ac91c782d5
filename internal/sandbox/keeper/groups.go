package keeper

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// The variables that say which control groups the command joins, as paths with colons
// between, and in which file the kernel counts what it has ended in them for want of
// memory. Package harness's script has them in its environment, a keeper in its orders.
const (
	EnvGroups = "COUNTERSIGN_GROUPS"
	EnvOOMs   = "COUNTERSIGN_OOMS"
)

// outOfMemory is what the script says on standard error, too.
const outOfMemory = "countersign: the sandbox ran out of memory; the kernel ended a process in it.\n"

// begin starts the namespace's program in its control groups, and nothing else: what
// watches the command is not bounded with it. A process that moves waits for the
// kernel for some ten milliseconds; one that begins where it belongs does not, but in
// groups of the first version, where the thread that starts it moves.
func (o Order) begin(files []*os.File) (*os.Process, error) {
	attr := &os.ProcAttr{Env: os.Environ(), Files: files}
	groups := o.bound(EnvGroups)
	if groups == "" {
		return os.StartProcess(o.Argv[0], o.Argv, attr)
	}
	var p *os.Process
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends, and is in no group any more
		for dir := range strings.SplitSeq(groups, ":") {
			if err = join(dir, attr); err != nil {
				return
			}
		}
		p, err = os.StartProcess(o.Argv[0], o.Argv, attr)
		if attr.Sys != nil {
			_ = syscall.Close(attr.Sys.CgroupFD)
		}
	}()
	<-done
	return p, err
}

// join makes what this thread starts begin in a group.
func join(dir string, attr *os.ProcAttr) error {
	f, err := os.OpenFile(dir+"/tasks", os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(strconv.Itoa(syscall.Gettid()))
		_ = f.Close()
		return err
	}
	fd, err := syscall.Open(dir, syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	attr.Sys = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd}
	return nil
}

// killed is how many processes of the groups the kernel has ended for want of memory.
func (o Order) killed() string {
	data, err := os.ReadFile(o.bound(EnvOOMs))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return n
		}
	}
	return ""
}

// sayShort says on the command's standard error that memory was short, where that is
// news.
func (o Order) sayShort(before string) {
	if o.killed() == before {
		return
	}
	f, err := os.OpenFile("stderr", os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return
	}
	_, _ = f.WriteString(outOfMemory)
	_ = f.Close()
}
