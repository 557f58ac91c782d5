package local

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// held says how one limit is held.
type held int

const (
	notHeld held = iota
	// byGroup: a control group holds it for all commands of a sandbox together.
	byGroup
	// byUser: the kernel holds it for the processes of the sandbox's own namespace of
	// users.
	byUser
	// byProcess: each process has it for itself.
	byProcess
)

// how tells how a limit is held here; what is not set is not held.
func (b *Backend) how(ctl string) held {
	l := b.cfg.Limits
	switch {
	case b.groups.has(ctl):
		return byGroup
	case ctl == ctlMemory && l.Memory > 0:
		return byProcess
	case ctl == ctlPIDs && l.PIDs > 0 && b.mode.bwrap != "" && os.Geteuid() != 0 && countsByNamespace():
		return byUser
	}
	return notHeld
}

// countsByNamespace tells whether RLIMIT_NPROC counts the processes of a namespace of
// users by themselves, as Linux does from 5.14 on. Before, it counts all of a user's,
// wherever they run, and would refuse the worker's own. Root's are never counted.
func countsByNamespace() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var major, minor int
	_, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	return err == nil && (major > 5 || major == 5 && minor >= 14)
}

// ulimits is what a shell does before a command begins, for what no control group
// bounds. Shells have different names for the number of processes.
func (b *Backend) ulimits() string {
	var s strings.Builder
	if b.how(ctlMemory) == byProcess {
		fmt.Fprintf(&s, "ulimit -d %d; ", max(b.cfg.Limits.Memory>>10, 1))
	}
	if b.how(ctlPIDs) == byUser {
		n := strconv.Itoa(b.cfg.Limits.PIDs)
		fmt.Fprintf(&s, "ulimit -u %s 2>/dev/null || ulimit -p %s; ", n, n)
	}
	return s.String()
}

// Fact is one thing that holds of this backend's sandboxes, or does not.
type Fact struct {
	// Name is what it is about: isolation, memory, processes, processors.
	Name string
	// OK says that it holds for the sandbox as a whole.
	OK bool
	// Text is a sentence, or two.
	Text string
}

// Facts say how commands are confined on this machine, and what bounds them.
func (b *Backend) Facts() []Fact {
	isolated := Fact{Name: "isolation", OK: b.mode.bwrap != "", Text: "Commands run in bubblewrap: they see their workspace, their home, /tmp and the system's programs."}
	if !isolated.OK {
		isolated.Text = "Commands are not isolated. " + b.mode.why() + b.mode.gap()
		if b.mode.notHeld != "" {
			isolated.Text += " Landlock would hold their files, but " + b.mode.notHeld + "."
		}
		if why := b.Refuses(); why != "" {
			isolated.Text = why
		}
	}
	l := b.cfg.Limits
	facts := []Fact{isolated}
	for _, f := range []struct{ name, ctl, amount string }{
		{"memory", ctlMemory, fmt.Sprintf("%d MiB", l.Memory>>20)},
		{"processes", ctlPIDs, fmt.Sprintf("%d processes and threads", l.PIDs)},
		{"processors", ctlCPU, strconv.FormatFloat(l.CPUs, 'f', -1, 64) + " processors"},
	} {
		facts = append(facts, b.fact(f.name, f.ctl, f.amount))
	}
	return facts
}

func (b *Backend) fact(name, ctl, amount string) Fact {
	f := Fact{Name: name}
	why := ""
	if w := b.groups.whyNot[ctl]; w != "" {
		why = " A control group would hold it for all of a sandbox, but " + w + "."
	}
	switch how := b.how(ctl); {
	case !slices.Contains(b.cfg.Limits.wanted(), ctl):
		f.OK, f.Text = true, "No limit is set."
	case how == byGroup:
		f.OK, f.Text = true, "A sandbox has "+amount+", held by a control group."
	case how == byUser:
		f.OK, f.Text = true, "A sandbox has "+amount+", held by RLIMIT_NPROC of its namespace."
	case how == byProcess:
		f.Text = "Each process may have " + amount + " (RLIMIT_DATA); a sandbox of many may have more." + why
	default:
		f.Text = "The limit of " + amount + " is not held." + why
	}
	return f
}
