package local

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/countersign/countersign/internal/sandbox/keeper"
)

// Limits bound what the commands of one sandbox take of the machine together. What
// is 0 is not bounded.
type Limits struct {
	Memory int64 // bytes, without swap
	PIDs   int   // processes and threads
	CPUs   float64
	// Group is a directory of control groups (cgroup v2) that is this worker's to
	// divide; empty is what the service manager has delegated to it, if anything.
	Group string
}

// The controllers of control groups that limits need.
const (
	ctlMemory = "memory"
	ctlPIDs   = "pids"
	ctlCPU    = "cpu"
)

// wanted are the controllers that the limits need.
func (l Limits) wanted() []string {
	var all []string
	if l.Memory > 0 {
		all = append(all, ctlMemory)
	}
	if l.PIDs > 0 {
		all = append(all, ctlPIDs)
	}
	if l.CPUs > 0 {
		all = append(all, ctlCPU)
	}
	return all
}

// groupsName is the group in which those of sandboxes are, whoever's.
const groupsName = "countersign"

// hierarchy is where groups are made, and what they bound there.
type hierarchy struct {
	dir  string // the group named groupsName
	v2   bool
	ctls []string
}

// groups are the places where a sandbox's control groups are made: one for each
// hierarchy, of which v1 has many and v2 is one.
type groups struct {
	limits Limits
	in     []hierarchy
	// prefix begins the names of this data directory's.
	prefix string
	// whyNot says for a controller why there is none, as the end of a sentence.
	whyNot map[string]string
}

func (g groups) has(ctl string) bool {
	return slices.ContainsFunc(g.in, func(h hierarchy) bool { return slices.Contains(h.ctls, ctl) })
}

// cgroupFS is what this process's mounts and groups are read from.
type cgroupFS struct {
	mounts, own string
	pid         int
	// try tries a hierarchy out; nil believes that it works.
	try func(groups, hierarchy) error
}

// findGroups looks for control groups that this process may make.
func findGroups(l Limits, dataDir string) groups {
	fsys := cgroupFS{mounts: "/proc/self/mountinfo", own: "/proc/self/cgroup", pid: os.Getpid(), try: groups.try}
	return fsys.find(l, dataDir)
}

func (c cgroupFS) find(l Limits, dataDir string) groups {
	sum := sha256.Sum256([]byte(dataDir))
	g := groups{limits: l, whyNot: map[string]string{}, prefix: hex.EncodeToString(sum[:4]) + "-"}
	left := l.wanted()
	v1, v2 := c.places()
	if l.Group != "" {
		v1, v2 = nil, l.Group
	}
	for _, ctl := range l.wanted() {
		at, ok := v1[ctl]
		if !ok {
			continue
		}
		left = slices.DeleteFunc(left, func(c string) bool { return c == ctl })
		dir := filepath.Join(at, groupsName)
		if err := makeGroup(dir); err != nil {
			g.whyNot[ctl] = "no control group can be made in " + at
			continue
		}
		c.add(&g, hierarchy{dir: dir, ctls: []string{ctl}})
	}
	if len(left) == 0 {
		return g
	}
	dir, err := c.divide(v2, left, l.Group != "")
	if err != nil {
		for _, ctl := range left {
			g.whyNot[ctl] = err.Error()
		}
		return g
	}
	c.add(&g, hierarchy{dir: dir, v2: true, ctls: left})
	return g
}

// add takes a hierarchy that works.
func (c cgroupFS) add(g *groups, h hierarchy) {
	if c.try != nil {
		if err := c.try(*g, h); err != nil {
			for _, ctl := range h.ctls {
				g.whyNot[ctl] = "nothing can be run in a control group in " + h.dir
			}
			return
		}
	}
	g.in = append(g.in, h)
}

// try makes a group with its limits and runs something in it.
func (g groups) try(h hierarchy) error {
	dir := filepath.Join(h.dir, g.prefix+"trial-"+random())
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	defer removeGroup(dir)
	if err := g.bound(dir, h); err != nil {
		return err
	}
	return exec.Command("/bin/sh", "-c", `echo 0 >"$0/cgroup.procs"`, dir).Run()
}

// places are this process's groups: of v1 by controller, and of v2, if mounted.
func (c cgroupFS) places() (v1 map[string]string, v2 string) {
	paths := map[string]string{} // by controller; "" is v2
	eachLine(c.own, func(line string) {
		if f := strings.SplitN(line, ":", 3); len(f) == 3 {
			for ctl := range strings.SplitSeq(f[1], ",") {
				paths[ctl] = f[2]
			}
		}
	})
	v1 = map[string]string{}
	eachLine(c.mounts, func(line string) {
		about, kind, ok := strings.Cut(line, " - ")
		f, k := strings.Fields(about), strings.Fields(kind)
		if !ok || len(f) < 5 || len(k) < 3 {
			return
		}
		at := func(ctl string) string {
			rel, err := filepath.Rel(f[3], paths[ctl])
			if err != nil || !filepath.IsLocal(rel) {
				rel = "." // a namespace shows only what is below
			}
			return filepath.Join(f[4], rel)
		}
		switch k[0] {
		case "cgroup2":
			v2 = at("")
		case "cgroup":
			for opt := range strings.SplitSeq(k[2], ",") {
				if opt == ctlMemory || opt == ctlPIDs || opt == ctlCPU {
					v1[opt] = at(opt)
				}
			}
		}
	})
	return v1, v2
}

func eachLine(file string, each func(string)) {
	f, err := os.Open(file)
	if err != nil {
		return
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		each(s.Text())
	}
}

// divide makes the parent of sandboxes' groups in a hierarchy of v2, where a group
// with members has no children that are bounded. given says that the place was named
// in the settings.
func (c cgroupFS) divide(at string, ctls []string, given bool) (string, error) {
	switch {
	case at == "":
		return "", errors.New("this machine has no control groups that can be made here")
	case given:
	case delegated(at):
		// This process goes aside.
		aside := filepath.Join(at, "worker")
		if err := makeGroup(aside); err != nil {
			return "", fmt.Errorf("no control group can be made in %s", at)
		}
		if err := put(filepath.Join(aside, "cgroup.procs"), strconv.Itoa(c.pid)); err != nil {
			return "", fmt.Errorf("the worker cannot be moved in its control group %s", at)
		}
	case delegated(filepath.Dir(at)):
		at = filepath.Dir(at)
	default:
		return "", errors.New("no control group is delegated to the worker (with systemd: Delegate=yes)")
	}
	dir := filepath.Join(at, groupsName)
	if err := makeGroup(dir); err != nil {
		return "", fmt.Errorf("no control group can be made in %s", at)
	}
	for _, d := range []string{at, dir} {
		if err := put(filepath.Join(d, "cgroup.subtree_control"), "+"+strings.Join(ctls, " +")); err != nil {
			return "", fmt.Errorf("the control group %s cannot be divided by %s", d, strings.Join(ctls, ", "))
		}
	}
	return dir, nil
}

// delegated tells whether a group is marked as somebody's own to divide, as systemd
// does it.
func delegated(dir string) bool {
	value := make([]byte, 8)
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		if n, err := unix.Getxattr(dir, name, value); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	return false
}

func makeGroup(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// put writes a file of a group, which is there.
func put(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// cpuPeriod is how often processor time is given out, in microseconds: the kernel's
// default.
const cpuPeriod = 100_000

// open makes a sandbox's groups with their limits, unless they are there.
func (g groups) open(name string) ([]string, error) {
	var dirs []string
	for _, h := range g.in {
		dir := filepath.Join(h.dir, g.prefix+name)
		dirs = append(dirs, dir)
		if err := os.Mkdir(dir, 0o755); errors.Is(err, fs.ErrExist) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("making a control group: %w", err)
		}
		if err := g.bound(dir, h); err != nil {
			_ = os.Remove(dir)
			return nil, fmt.Errorf("bounding a control group: %w", err)
		}
	}
	return dirs, nil
}

func (g groups) bound(dir string, h hierarchy) error {
	memory := strconv.FormatInt(g.limits.Memory, 10)
	quota := strconv.Itoa(int(g.limits.CPUs * cpuPeriod))
	var errs []error
	set := func(file, text string) { errs = append(errs, put(filepath.Join(dir, file), text)) }
	for _, ctl := range h.ctls {
		switch {
		case ctl == ctlPIDs:
			set("pids.max", strconv.Itoa(g.limits.PIDs))
		case ctl == ctlMemory && h.v2:
			set("memory.max", memory)
			_ = put(filepath.Join(dir, "memory.swap.max"), "0") // absent without swap
		case ctl == ctlMemory:
			set("memory.limit_in_bytes", memory)
			_ = put(filepath.Join(dir, "memory.memsw.limit_in_bytes"), memory)
		case h.v2:
			set("cpu.max", quota+" "+strconv.Itoa(cpuPeriod))
		default:
			set("cpu.cfs_period_us", strconv.Itoa(cpuPeriod))
			set("cpu.cfs_quota_us", quota)
		}
	}
	return errors.Join(errs...)
}

// groupEnd is how long what was killed in a group may take to leave it.
const groupEnd = 2 * time.Second

// close removes a sandbox's groups once nothing is in them any more. What cannot be
// removed costs nothing; [groups.sweep] finds it.
func (g groups) close(name string) {
	for _, h := range g.in {
		removeGroup(filepath.Join(h.dir, g.prefix+name))
	}
}

func removeGroup(dir string) {
	for end := time.Now().Add(groupEnd); ; time.Sleep(pollMax) {
		if err := os.Remove(dir); !errors.Is(err, syscall.EBUSY) || time.Now().After(end) {
			return
		}
	}
}

// sweep removes groups that nothing is in.
func (g groups) sweep() {
	for _, h := range g.in {
		entries, _ := os.ReadDir(h.dir)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), g.prefix) {
				_ = os.Remove(filepath.Join(h.dir, e.Name()))
			}
		}
	}
}

// bounds makes the sandbox's control groups. It returns their directories, and what
// tells whoever starts a command of them.
func (s *session) bounds() (dirs, env []string, err error) {
	dirs, err = s.b.groups.open(s.name)
	if err != nil {
		return nil, nil, s.storeError("setting the sandbox's limits", err)
	}
	return dirs, s.b.groups.environ(dirs, !s.info.Confined), nil
}

// environ tells whoever starts commands where the kernel counts what it has ended and
// refused and, unless the command does it by itself, which groups it is to join.
func (g groups) environ(dirs []string, join bool) []string {
	if len(dirs) == 0 {
		return nil
	}
	var env []string
	if join {
		env = append(env, keeper.EnvGroups+"="+strings.Join(dirs, ":"))
	}
	for i, h := range g.in {
		if slices.Contains(h.ctls, ctlMemory) {
			file := "memory.oom_control"
			if h.v2 {
				file = "memory.events"
			}
			env = append(env, keeper.EnvOOMs+"="+filepath.Join(dirs[i], file))
		}
	}
	return env
}
