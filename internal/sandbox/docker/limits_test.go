package docker_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/docker"
	"github.com/countersign/countersign/internal/sandbox/sandboxtest"
)

// rig is a backend on the shared engine with an owner of its own.
type rig struct {
	*docker.Backend
	host, owner string
}

func newRig(t *testing.T, change ...func(*docker.Config)) rig {
	t.Helper()
	needImage(t, imageBash)
	return rigOn(t, engine.host, change...)
}

func rigOn(t *testing.T, host string, change ...func(*docker.Config)) rig {
	t.Helper()
	cfg := docker.Config{Host: host, Owner: "test-" + newID(), Image: imageBash, Memory: 256 << 20}
	for _, c := range change {
		c(&cfg)
	}
	t.Cleanup(func() { purge(t, host, cfg.Owner) })
	b, err := docker.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return rig{Backend: b, host: host, owner: cfg.Owner}
}

func (r rig) open(t *testing.T, spec sandbox.Spec) sandbox.Session {
	t.Helper()
	if spec.ID == "" {
		spec.ID = newID()
	}
	s, err := r.Open(t.Context(), spec)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
		defer cancel()
		require.NoError(t, s.Destroy(ctx))
	})
	return s
}

// container is the one container of the rig.
func (r rig) container(t *testing.T) container.InspectResponse {
	t.Helper()
	api := newClient(t, r.host)
	list, err := api.ContainerList(t.Context(), container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", "countersign.owner="+r.owner)),
	})
	require.NoError(t, err)
	require.Len(t, list, 1)
	c, err := api.ContainerInspect(t.Context(), list[0].ID)
	require.NoError(t, err)
	return c
}

func await(t *testing.T, s sandbox.Session, id string) sandboxtest.Ran {
	t.Helper()
	return sandboxtest.Await(t, s, id, 5*time.Minute)
}

func run(t *testing.T, s sandbox.Session, command string, change ...func(*sandbox.ExecSpec)) sandboxtest.Ran {
	t.Helper()
	return await(t, s, sandboxtest.Start(t, s, command, change...))
}

// awaitOutput waits until the command has written something.
func awaitOutput(t *testing.T, s sandbox.Session, id string) {
	t.Helper()
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { w.CloseWithError(s.Attach(ctx, id, sandbox.Stdout, 0, w)) }()
	_, err := r.Read(make([]byte, 1))
	require.NoError(t, err)
}

func TestConfined(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.open(t, sandbox.Spec{})
	c := r.container(t)
	h := c.HostConfig
	require.Equal(t, container.NetworkMode("none"), h.NetworkMode)
	require.True(t, h.ReadonlyRootfs)
	require.True(t, *h.Init)
	require.Equal(t, []string{"ALL"}, []string(h.CapDrop))
	require.Contains(t, h.SecurityOpt, "no-new-privileges")
	require.EqualValues(t, 256<<20, h.Memory)
	require.EqualValues(t, docker.DefaultPIDs, *h.PidsLimit)
	require.EqualValues(t, docker.DefaultCPUs*1e9, h.NanoCPUs)
	require.Empty(t, h.Binds, "nothing of the engine's machine")
	for _, m := range c.Mounts {
		require.Equal(t, "volume", string(m.Type))
	}

	status := run(t, s, "cat /proc/self/status; id -un; id").Stdout
	for _, want := range []string{
		"CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapInh:\t0000000000000000", "CapAmb:\t0000000000000000",
		"NoNewPrivs:\t1", "Seccomp:\t2", "Groups:\t \n", "agent\n", "uid=1000(agent) gid=1000(agent) groups=1000(agent)\n",
	} {
		require.Contains(t, status, want)
	}
	require.Equal(t, "yes /home/agent agent", run(t, rigEnv(t), `printf '%s %s %s' "$FROM_IMAGE" "$HOME" "$USER"`).Stdout,
		"the image's environment is seen, but for what is the sandbox's own")
	for what, command := range map[string]string{
		"entering the records":    "cd /countersign",
		"listing them":            "ls /countersign",
		"the harness by its fds":  "for p in /proc/[0-9]*; do [ -O $p ] || { ls $p/fd/ >/dev/null 2>&1 && exit 0; }; done; exit 1",
		"its environment":         "for p in /proc/[0-9]*; do [ -O $p ] || { cat $p/environ 2>/dev/null && exit 0; }; done; exit 1",
		"signalling it":           "for p in /proc/[0-9]*; do [ -O $p ] || { kill -0 ${p#/proc/} 2>/dev/null && exit 0; }; done; exit 1",
		"going before it in PATH": "touch /usr/local/bin/grep",
		"the engine's init":       "kill -0 1",
	} {
		require.NotEqual(t, 0, run(t, s, command).ExitCode, "%s: `%s`", what, command)
	}
}

// rigEnv is a session of an image that has an environment.
func rigEnv(t *testing.T) sandbox.Session {
	t.Helper()
	needImage(t, imageEnv)
	return newRig(t, func(c *docker.Config) { c.Image = imageEnv }).open(t, sandbox.Spec{})
}

func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *docker.Config) { c.Memory = sandboxtest.LimitedMemory })
	sandboxtest.OutOfMemory(t, r.open(t, sandbox.Spec{}))
}

func TestTooBusy(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *docker.Config) { c.CPUs = sandboxtest.LimitedCPUs })
	sandboxtest.TooBusy(t, r.open(t, sandbox.Spec{}))
}

func TestDiskLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *docker.Config) { c.Disk = 20 << 20 })
	s := r.open(t, sandbox.Spec{})
	got := run(t, s, "head -c 30M /dev/zero > big; echo written; sleep 300")
	require.Equal(t, sandbox.StateOutputLimit, got.State)
	require.Equal(t, "written\n", got.Stdout)
	require.Contains(t, got.Stderr, "its limit is 20 MiB")
	require.Equal(t, sandbox.StateExited, run(t, s, "rm big").State)
}

func TestTemporaryFilesAreLimited(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *docker.Config) { c.Temp = 4 << 20 })
	s := r.open(t, sandbox.Spec{})
	got := run(t, s, "head -c 8M /dev/zero > /tmp/x")
	require.NotEqual(t, 0, got.ExitCode)
	require.Contains(t, got.Stderr, "No space left on device")
	require.Equal(t, "ran\n", run(t, s, "printf '#!/bin/sh\necho ran\n' > /var/tmp/p && chmod +x /var/tmp/p && /var/tmp/p").Stdout)
}

// A command that takes all processes there may be leaves none to stop it with.
func TestForkBomb(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *docker.Config) { c.PIDs = sandboxtest.LimitedPIDs })
	s := r.open(t, sandbox.Spec{})
	sandboxtest.TooManyProcesses(t, s)
	left := func() int { return strings.Count(run(t, s, "ls -d /proc/[0-9]*").Stdout, "\n") }
	for end := time.Now().Add(time.Minute); left() >= 30; {
		require.True(t, time.Now().Before(end), "its processes stay")
	}

	got := run(t, s, "setsid sh -c 'for i in $(seq 200); do sleep 600 & done' 2>/dev/null & wait; exit 3")
	require.Equal(t, sandbox.StateExited, got.State, "what has left its group is ended with the command, too")
	require.Equal(t, 3, got.ExitCode)
	for i, bomb := range []string{sandboxtest.ForkBomb, "setsid sh -c 'bomb() { bomb | bomb & sleep 600; }; bomb' 2>/dev/null & exec sleep 600"} {
		id := sandboxtest.Start(t, s, bomb, func(e *sandbox.ExecSpec) { e.Limits.Timeout = time.Duration(1+6*i) * time.Second })
		require.Eventually(t, func() bool {
			st, err := s.Status(t.Context(), id) // there is no room to answer until then
			return err == nil && st.State != sandbox.StateRunning
		}, 3*time.Minute, 100*time.Millisecond)
		require.Equal(t, sandbox.StateTimedOut, await(t, s, id).State, bomb)
	}
	require.Equal(t, "fine\n", run(t, s, "echo fine").Stdout)
}
