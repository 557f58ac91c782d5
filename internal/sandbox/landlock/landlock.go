// Package landlock holds a command to some of a machine's files where it has no
// namespace of its own: by Linux's Landlock, which needs no privilege.
//
// This program itself, started by its path and with [Verb], restricts itself, for
// good, and becomes the command: whoever has started it is not restricted. It does so
// while its packages are initialised, as package keeper does and for the same reason:
// what the rest of the program needs to begin takes longer than a command. So this
// package imports next to nothing.
//
// Landlock allows, by places in the tree of files, and denies all else: opening,
// making, removing and renaming, and looking into processes outside. It does not know
// changes of modes, owners, times and attributes, nor sockets that have a name in the
// tree, nor UDP. Privileges, which would give root a way around it, are given up, too.
package landlock

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// Verb is the first argument of a program that is to become a held command.
const Verb = "held-to-files"

// The versions of Landlock's interface ("ABI") that make a difference here.
const (
	// LeastABI is the oldest that will do, of Linux 5.19: before, nothing can be
	// renamed from one directory to another.
	LeastABI = 2
	// TruncateABI is the first that keeps a command from emptying files that it may
	// not write (Linux 6.2).
	TruncateABI = 3
	// ScopeABI is the first that keeps a command from signalling processes outside
	// and from abstract sockets (Linux 6.12).
	ScopeABI = 6
)

// Rules are the files of a command, by absolute paths. A path stands for what it
// leads to now, and for all below; one that leads nowhere is left out.
type Rules struct {
	// Read may be read, listed and run.
	Read []string
	// List may be listed, which shows names below that cannot be read, too.
	List []string
	// Write may be changed in every way, also read and run.
	Write []string
	// Use are devices that may be read and written.
	Use []string
	// Join are the directories of control groups that the command joins. Of their limits
	// nothing is spent before it begins.
	Join []string
	// Hidden is not Read though it lies below one of these. Nor can the directories
	// between be listed, unless they are in List.
	Hidden []string
}

// end stands between the rules and the command.
const end = "--"

// kinds are the rules' words on a command line.
func (r *Rules) kinds() map[string]*[]string {
	return map[string]*[]string{"read": &r.Read, "list": &r.List, "write": &r.Write, "use": &r.Use, "join": &r.Join, "hide": &r.Hidden}
}

// Command is what runs argv held to the rules, where helper is the path of a program
// that has this package in it. Its standard streams stay the command's. Where the
// rules cannot be put in force argv does not run: the exit code is 126 and standard
// error says why.
func (r Rules) Command(helper string, argv []string) []string {
	all := []string{helper, Verb}
	for _, kind := range []string{"read", "list", "write", "use", "join", "hide"} {
		for _, path := range *r.kinds()[kind] {
			all = append(all, kind+"="+path)
		}
	}
	return append(append(all, end), argv...)
}

// parse is the reverse of [Rules.Command].
func parse(args []string) (r Rules, argv []string, err error) {
	kinds := r.kinds()
	for i, arg := range args {
		if arg == end {
			argv = args[i+1:]
			break
		}
		kind, path, _ := strings.Cut(arg, "=")
		to, ok := kinds[kind]
		if !ok || !filepath.IsAbs(path) {
			return r, nil, errors.New("this is no rule about files: " + arg)
		}
		*to = append(*to, path)
	}
	if len(argv) == 0 {
		return r, nil, errors.New("there is no command to run")
	}
	return r, argv, nil
}

func init() {
	if len(os.Args) > 2 && os.Args[1] == Verb {
		err := become(os.Args[2:])
		_, _ = os.Stderr.WriteString("countersign: the command was not begun: " + err.Error() + "\n")
		os.Exit(126)
	}
}

// become becomes the command, or returns why it cannot.
func become(args []string) error {
	r, argv, err := parse(args)
	if err != nil {
		return err
	}
	runtime.LockOSThread() // the rules hold for a thread, and for what it becomes
	for _, dir := range r.Join {
		if err := os.WriteFile(dir+"/cgroup.procs", []byte("0"), 0); err != nil {
			return errors.New("the sandbox's limits could not be set: " + err.Error())
		}
	}
	if err := r.enforce(); err != nil {
		return err
	}
	return os.NewSyscallError("running "+argv[0], syscall.Exec(argv[0], argv, os.Environ()))
}

// below tells whether path lies below dir, which is not dir itself.
func below(path, dir string) bool {
	return path != dir && (dir == "/" || strings.HasPrefix(path, dir+"/"))
}

// shown gives do the places below path, or path itself, that stand for all of it but
// what is hidden. Symbolic links are left out: what they lead to is a place, or is not.
func shown(path string, hidden []string, do func(path string)) {
	var inside []string
	for _, h := range hidden {
		if h == path {
			return
		}
		if below(h, path) {
			inside = append(inside, h)
		}
	}
	if inside == nil {
		do(path)
		return
	}
	entries, _ := os.ReadDir(path)
	for _, e := range entries {
		if e.Type()&os.ModeSymlink == 0 {
			shown(filepath.Join(path, e.Name()), inside, do)
		}
	}
}

// resolved are what paths lead to; those that lead nowhere are left out.
func resolved(paths []string) []string {
	var all []string
	for _, p := range paths {
		if p, err := filepath.EvalSymlinks(p); err == nil {
			all = append(all, p)
		}
	}
	return all
}
