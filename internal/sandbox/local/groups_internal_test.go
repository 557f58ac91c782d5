package local

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/countersign/countersign/internal/sandbox"
)

// fakeGroup makes a directory with a group's files.
func fakeGroup(t *testing.T, dir string, files ...string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for _, f := range append(files, "cgroup.procs", "cgroup.subtree_control") {
		require.NoError(t, os.WriteFile(filepath.Join(dir, f), nil, 0o644))
	}
	return dir
}

func delegate(t *testing.T, dir string) {
	t.Helper()
	if err := unix.Setxattr(dir, "user.delegate", []byte("1"), 0); err != nil {
		t.Skipf("no extended attributes in %s: %v", dir, err)
	}
}

func reads(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(data)
}

// fakeFS is a process's view of control groups.
func fakeFS(t *testing.T, mounts, own string) cgroupFS {
	t.Helper()
	dir := t.TempDir()
	c := cgroupFS{mounts: filepath.Join(dir, "mountinfo"), own: filepath.Join(dir, "cgroup"), pid: 42}
	require.NoError(t, os.WriteFile(c.mounts, []byte(mounts), 0o600))
	require.NoError(t, os.WriteFile(c.own, []byte(own), 0o600))
	return c
}

var allLimits = Limits{Memory: 1 << 30, PIDs: 100, CPUs: 1.5}

// Of a delegated group of v2 the worker goes aside and divides the rest; of one that
// nobody has given it it makes nothing.
func TestGroupsOfVersion2(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]string{"the worker's own": ".", "its parent": "..", "nobody's": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			at := fakeGroup(t, filepath.Join(root, "system.slice", "worker.service", "main"))
			divided := filepath.Join(at, place)
			fakeGroup(t, filepath.Join(at, "worker"))
			fakeGroup(t, filepath.Dir(at))
			fakeGroup(t, filepath.Join(divided, groupsName))
			if place != "" {
				delegate(t, divided)
			}
			c := fakeFS(t, "31 23 0:28 / "+root+" rw - cgroup2 cgroup2 rw\n", "0::/system.slice/worker.service/main\n")
			g := c.find(allLimits, "/data")
			if place == "" {
				require.Empty(t, g.in)
				require.Contains(t, g.whyNot[ctlMemory], "no control group is delegated to the worker")
				return
			}
			require.Equal(t, []hierarchy{{dir: filepath.Join(divided, groupsName), v2: true, ctls: []string{"memory", "pids", "cpu"}}}, g.in)
			require.Equal(t, "+memory +pids +cpu", reads(t, divided, "cgroup.subtree_control"))
			require.Equal(t, "+memory +pids +cpu", reads(t, divided, groupsName, "cgroup.subtree_control"))
			moved := ""
			if place == "." {
				moved = "42"
			}
			require.Equal(t, moved, reads(t, at, "worker", "cgroup.procs"))

			dir := fakeGroup(t, filepath.Join(root, "bounded"), "memory.max", "pids.max", "cpu.max", "memory.swap.max")
			require.NoError(t, g.bound(dir, g.in[0]))
			require.Equal(t, []string{"1073741824", "0", "100", "150000 100000"},
				[]string{reads(t, dir, "memory.max"), reads(t, dir, "memory.swap.max"), reads(t, dir, "pids.max"), reads(t, dir, "cpu.max")})
			require.Equal(t, []string{"COUNTERSIGN_GROUPS=/g/x", "COUNTERSIGN_OOMS=/g/x/memory.events"}, g.environ([]string{"/g/x"}, true))
		})
	}
}

// Where both versions are mounted each limit is held where its controller is, and in
// a container below the group that is shown as the root.
func TestGroupsOfBothVersions(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	fakeGroup(t, filepath.Join(root, "memory", "own"))
	fakeGroup(t, filepath.Join(root, "unified"))
	fakeGroup(t, filepath.Join(root, "unified", groupsName))
	delegate(t, filepath.Join(root, "unified"))
	c := fakeFS(t, "1 0 0:1 /docker/abc "+root+"/memory rw - cgroup cgroup rw,memory\n"+
		"2 0 0:2 / "+root+"/unified rw - cgroup2 cgroup2 rw\n", "4:memory:/docker/abc/own\n0::/\n")
	fakeGroup(t, filepath.Join(root, "unified", "worker"))
	g := c.find(allLimits, "/data")
	require.Equal(t, []hierarchy{
		{dir: filepath.Join(root, "memory", "own", groupsName), ctls: []string{"memory"}},
		{dir: filepath.Join(root, "unified", groupsName), v2: true, ctls: []string{"pids", "cpu"}},
	}, g.in)
	require.Empty(t, g.whyNot)
	require.Equal(t, []string{"COUNTERSIGN_GROUPS=/a:/b", "COUNTERSIGN_OOMS=/a/memory.oom_control"}, g.environ([]string{"/a", "/b"}, true))
	require.Equal(t, []string{"COUNTERSIGN_OOMS=/a/memory.oom_control"}, g.environ([]string{"/a", "/b"}, false))
}

// What runs in a sandbox is in its group, of the kernel's own, and what watches it is
// not; whoever starts it.
func TestCommandsAreInTheirGroup(t *testing.T) {
	t.Parallel()
	v1, v2 := cgroupFS{mounts: "/proc/self/mountinfo", own: "/proc/self/cgroup"}.places()
	for name, h := range map[string]hierarchy{"version 1": {dir: v1[ctlPIDs]}, "version 2": {dir: v2, v2: true}} {
		for _, made := range []string{"made ahead", "made for it"} {
			t.Run(name+", "+made, func(t *testing.T) {
				t.Parallel()
				if h.dir == "" {
					t.Skip("this version is not mounted")
				}
				dir := filepath.Join(h.dir, "countersign-test-"+random())
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Skipf("no group can be made: %v", err)
				}
				t.Cleanup(func() { // the kernel may be at it still
					require.Eventually(t, func() bool { return os.Remove(dir) == nil }, patience, 10*time.Millisecond)
				})
				b, err := New(t.Context(), Config{DataDir: t.TempDir()})
				require.NoError(t, err)
				if ok, why := b.Isolated(); !ok {
					t.Skip(why)
				}
				b.groups.in = []hierarchy{{dir: dir, v2: h.v2}}
				opened, err := b.Open(t.Context(), sandbox.Spec{ID: "x", Generation: 1})
				require.NoError(t, err)
				s := opened.(*session)
				t.Cleanup(func() { require.NoError(t, s.Destroy(context.WithoutCancel(t.Context()))) })
				if made == "made ahead" {
					sp, err := s.makeSpare(nil, sandbox.DefaultOutputBytes)
					require.NoError(t, err)
					s.b.spares.Add(1)
					s.spares.ready = []*spare{sp}
					require.Eventually(t, func() bool { return size(filepath.Join(sp.dir, "run", "init")) > 0 }, patience, time.Millisecond)
				}
				require.NoError(t, s.Start(t.Context(), sandbox.ExecSpec{ID: "exec", Command: "sleep 600 & sleep 600"}))
				group := filepath.Join(dir, b.groups.prefix+s.name, "cgroup.procs")
				var in []string
				require.Eventually(t, func() bool {
					in = nil
					for pid := range strings.FieldsSeq(reads(t, group)) {
						name, _ := os.ReadFile("/proc/" + pid + "/comm")
						in = append(in, strings.TrimSpace(string(name)))
					}
					n := 0
					for _, name := range in {
						if name == "sleep" {
							n++
						}
					}
					return n == 2
				}, patience, 10*time.Millisecond, "in the group: %v", in)
				require.NotContains(t, in, "cat", "what keeps its output")
				require.NoError(t, s.Signal(t.Context(), "exec", sandbox.SignalKill))
			})
		}
	}
}
