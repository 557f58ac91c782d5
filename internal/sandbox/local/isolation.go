package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/harness"
)

// isolation says how commands are confined.
type isolation struct {
	bwrap string // the program's path; empty when commands are not isolated
	// nested lets commands make user namespaces: only where bubblewrap is too old
	// to forbid it.
	nested bool
	whyNot string // why bubblewrap does not, as a sentence
	// landlock is the ABI of the kernel's Landlock, where that holds the files of
	// commands that are not isolated; else 0, and notHeld ends a sentence about why.
	landlock int
	notHeld  string
}

// What commands see.
const (
	insideWorkspace = "/workspace"
	insideHome      = "/home/agent"
	systemPath      = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin"
	// otherPath adds where package managers of other systems put programs; only
	// commands that are not isolated see them.
	otherPath = systemPath + ":/opt/homebrew/bin"
)

// findShell returns the shell of commands: bash where there is one.
func findShell() (string, error) {
	for _, name := range []string{"bash", "sh"} {
		for dir := range strings.SplitSeq(otherPath, ":") {
			p := filepath.Join(dir, name)
			if _, err := exec.LookPath(p); err == nil {
				return p, nil
			}
		}
	}
	return "", errors.New("there is neither bash nor sh on this machine")
}

// probeCommand prints its word only where everything holds that Info.Isolated
// promises. SECRET names a file in the data directory.
const probeCommand = `set -e
echo x > /workspace/probe
echo x > "$HOME/probe"
echo x > /tmp/probe
if cat "$SECRET"; then exit 1; fi
for f in /probe /etc/probe /etc/passwd /usr/probe /proc/sys/kernel/core_pattern; do
	if (true >> "$f"); then exit 1; fi
done 2>/dev/null
echo isolated`

// probe finds out how commands are confined here.
func (b *Backend) probe(ctx context.Context) isolation {
	m := b.probeBubblewrap(ctx)
	if m.bwrap != "" {
		return m
	}
	return b.probeLandlock(ctx, m)
}

func (b *Backend) probeBubblewrap(ctx context.Context) isolation {
	if b.cfg.NoIsolation {
		return isolation{whyNot: "Isolation is switched off."}
	}
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		return isolation{whyNot: "bubblewrap is not installed on the worker's machine."}
	}
	if bwrap, err = filepath.Abs(bwrap); err != nil {
		return isolation{whyNot: "bubblewrap cannot be found: " + err.Error() + "."}
	}
	// An old bubblewrap lacks the option that forbids nested namespaces.
	for _, nested := range []bool{false, true} {
		b.mode = isolation{bwrap: bwrap, nested: nested}
		if err = b.tryOut(ctx, probeCommand, "isolated"); err == nil {
			return b.mode
		}
	}
	return isolation{whyNot: fmt.Sprintf("bubblewrap does not work on the worker's machine (%v).", err)}
}

// tryOut runs a command in a scratch sandbox, as any exec is run, and believes only
// what it sees: a word.
func (b *Backend) tryOut(ctx context.Context, command, word string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	s, err := b.Open(ctx, sandbox.Spec{ID: ScratchID("probe")})
	if err != nil {
		return err
	}
	defer func() { _ = s.(*session).remove(context.WithoutCancel(ctx), false) }()
	err = s.Start(ctx, sandbox.ExecSpec{
		ID: "probe", Command: command, Env: map[string]string{"SECRET": b.harness},
		Limits: sandbox.Limits{Timeout: 10 * time.Second},
	})
	if err != nil {
		return err
	}
	var out, problem bytes.Buffer
	if err := s.Attach(ctx, "probe", sandbox.Stdout, 0, &out); err != nil {
		return err
	}
	if err := s.Attach(ctx, "probe", sandbox.Stderr, 0, &problem); err != nil {
		return err
	}
	if strings.TrimSpace(out.String()) == word {
		return nil
	}
	line, _, _ := strings.Cut(strings.TrimSpace(problem.String()), "\n")
	if line == "" {
		line = "what it shuts out can be reached"
	}
	return errors.New(line)
}

// systemDirs hold programs; where one is a link into /usr it is made one.
var systemDirs = [...]string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix"}

// bwrapArgs is the command line up to the program to run. With environ the
// environment comes from [harness.EnvFD]; binds show more of the machine, read-only.
func (b *Backend) bwrapArgs(dir, workspace, cwd string, environ bool, binds ...string) []string {
	args := []string{b.mode.bwrap, "--unshare-all", "--unshare-user"}
	if !b.mode.nested {
		args = append(args, "--disable-userns")
	}
	args = append(args, "--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--new-session", "--json-status-fd", "9", "--clearenv")
	if environ {
		args = append(args, "--args", harness.EnvFD)
	}
	args = append(args, "--dir", "/home", "--dir", "/run", "--dir", "/var")
	for _, d := range systemDirs {
		args = append(args, b.systemDir(d)...)
	}
	args = append(args, "--ro-bind", filepath.Join(dir, etcDir), "/etc")
	for _, d := range etcDirs(dir) {
		args = append(args, "--ro-bind-try", d, d)
	}
	args = append(args, "--proc", "/proc")
	if os.Geteuid() == 0 {
		// The kernel lets root's own user write these without any capability, and a
		// worker that runs as root stays that user outside its namespace.
		for _, d := range []string{"sys", "sysrq-trigger", "fs", "irq", "bus"} {
			args = append(args, "--ro-bind-try", "/proc/"+d, "/proc/"+d)
		}
	}
	args = append(args, "--dev", "/dev",
		"--bind", filepath.Join(dir, "tmp"), "/tmp", "--symlink", "/tmp", "/var/tmp",
		"--bind", filepath.Join(dir, "home"), insideHome)
	for _, d := range b.cfg.ReadOnly {
		args = append(args, b.bindReadOnly(d)...)
	}
	args = append(args, binds...)
	return append(args, "--bind", workspace, insideWorkspace, "--remount-ro", "/", "--chdir", cwd, "--")
}

// systemDir shows a directory of the system as it is on this machine.
func (b *Backend) systemDir(dir string) []string {
	info, err := os.Lstat(dir)
	if err != nil {
		return nil
	}
	if info.Mode()&os.ModeSymlink == 0 {
		return b.bindReadOnly(dir)
	}
	to, err := os.Readlink(dir)
	if err != nil {
		return nil
	}
	return []string{"--symlink", to, dir}
}

// bindReadOnly shows a directory, and hides the data directory where it lies
// below it.
func (b *Backend) bindReadOnly(dir string) []string {
	src, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil
	}
	args := []string{"--ro-bind", src, dir}
	if below, err := filepath.Rel(src, b.cfg.DataDir); err == nil && filepath.IsLocal(below) {
		hide := filepath.Join(dir, below)
		args = append(args, "--tmpfs", hide, "--remount-ro", hide)
	}
	return args
}
