package local

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/countersign/countersign/internal/sandbox/landlock"
)

// Where nothing isolates a command, Landlock holds its files, if the kernel has it.

// heldReads are the system's own files, beside [systemDirs]. What some of them are
// links to lies elsewhere.
var heldReads = [...]string{
	"/usr/local", "/etc", "/etc/resolv.conf", "/etc/localtime", "/proc", "/sys/devices/system", "/sys/fs/cgroup",
}

// heldWrites are the machine's, shared by all: what programs of several processes
// cannot do without.
var heldWrites = [...]string{"/dev/shm"}

// heldUses are devices that do no harm. A new terminal cannot be made: who may open
// one of the user's terminals may open all, also the one that somebody sits at.
var heldUses = [...]string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// heldProbe prints its word only where everything holds that [isolation.reach] says.
// SECRET names a file in the data directory.
const heldProbe = `set -e
echo x > probe
echo x > "$HOME/probe"
echo x > "$TMPDIR/probe"
echo x > /dev/null
ls /usr /etc > /dev/null
if cat "$SECRET"; then exit 1; fi
if (true >> "$SECRET"); then exit 1; fi 2>/dev/null
echo held`

// probeLandlock tries whether Landlock holds commands here, and adds to m how, or why
// it does not.
func (b *Backend) probeLandlock(ctx context.Context, m isolation) isolation {
	switch abi := landlock.ABI(); {
	case b.cfg.NoLandlock:
		m.notHeld = "it is switched off"
	case abi == 0:
		m.notHeld = "this kernel has none"
	case abi < landlock.LeastABI:
		m.notHeld = fmt.Sprintf("this kernel's is too old (ABI %d)", abi)
	case b.cfg.Forwarder == "":
		m.notHeld = "this worker has no program that puts it on"
	case b.Refuses() != "":
		m.notHeld = "no command runs here"
	default:
		b.mode = m
		b.mode.landlock = abi
		if err := b.tryOut(ctx, heldProbe, "held"); err != nil {
			m.notHeld = fmt.Sprintf("it does not work on this machine (%v)", err)
			return m
		}
		return b.mode
	}
	return m
}

// why says in sentences what commands reach that are not isolated, and why they do.
func (m isolation) why() string { return m.reach() + " " + m.whyNot }

func (m isolation) reach() string {
	if m.landlock == 0 {
		return "They can read and change what the worker's user can."
	}
	emptied := ""
	if m.landlock < landlock.TruncateABI {
		emptied = ", though they can empty other files"
	}
	return "Landlock holds their files: they can change only their workspace, home and temporary directory" + emptied +
		", and beside these read only the system's programs and settings. The machine's network is open to them, and they see its processes."
}

// gap says what this kernel's Landlock leaves open that a newer one does not; empty
// where that is nothing.
func (m isolation) gap() string {
	if m.landlock == 0 || m.landlock >= landlock.ScopeABI {
		return ""
	}
	return fmt.Sprintf(" This kernel's Landlock (ABI %d) lets them signal the worker's own processes; Linux 6.12 does not.", m.landlock)
}

// held is what runs a command held to its sandbox's files, in its control groups.
func (s *session) held(argv, groups []string) []string {
	r := landlock.Rules{
		Read: append(append([]string{}, systemDirs[:]...), heldReads[:]...), List: []string{"/etc"},
		Write: append([]string{s.root.Name(), filepath.Join(s.dir, "home"), filepath.Join(s.dir, "tmp")}, heldWrites[:]...),
		Use:   heldUses[:], Join: groups,
	}
	r.Read = append(r.Read, s.b.cfg.ReadOnly...)
	r.Hidden = append(append([]string{s.b.cfg.DataDir}, s.b.cfg.Hidden...), s.b.private.paths()...)
	return r.Command(s.b.cfg.Forwarder, argv)
}

// private are files of /etc that not everybody on the machine may read: keys, hashes
// of passwords, and settings that hold secrets. A worker that is root could.
type private struct {
	mu     sync.Mutex
	all    []string
	looked time.Time
}

// privateFor is for how long it is known which they are: looking takes milliseconds.
const privateFor = time.Minute

func (p *private) paths() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.looked).Abs() > privateFor {
		p.all, p.looked = privateBelow("/etc"), time.Now()
	}
	return p.all
}

// privateBelow lists what below dir others than its owner and group cannot read.
func privateBelow(dir string) []string {
	var all []string
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if path == dir || d == nil {
			return nil
		}
		info, ierr := d.Info()
		needs := fs.FileMode(0o004)
		if d.IsDir() {
			needs = 0o005
		}
		if ierr == nil && (d.Type()&fs.ModeSymlink != 0 || info.Mode().Perm()&needs == needs) && err == nil {
			return nil
		}
		all = append(all, path)
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	return all
}

// ownPlaces are directories of the worker's user that no command is to read, wherever
// they lie.
func ownPlaces() []string {
	var all []string
	for _, place := range []func() (string, error){os.UserHomeDir, os.Getwd} {
		if dir, err := place(); err == nil {
			all = append(all, dir)
		}
	}
	return all
}
