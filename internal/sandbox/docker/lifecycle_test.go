package docker_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/docker"
	"github.com/countersign/countersign/internal/sandbox/sandboxtest"
	"github.com/countersign/countersign/internal/sandbox/snapshot"
)

// volumes returns the names of the rig's volumes but those of destroyed sandboxes.
func (r rig) volumes(t *testing.T) []string {
	t.Helper()
	list, err := newClient(t, r.host).VolumeList(t.Context(), volume.ListOptions{
		Filters: filters.NewArgs(filters.Arg("label", "countersign.owner="+r.owner)),
	})
	require.NoError(t, err)
	var names []string
	for _, v := range list.Volumes {
		if v.Labels["countersign.part"] != "gone" {
			names = append(names, v.Name)
		}
	}
	return names
}

// An engine that is restarted kills what ran; nothing is lost but that.
func TestEngineRestarts(t *testing.T) {
	t.Parallel()
	d, err := startDaemon(t.TempDir())
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { d.stop() })
	require.NoError(t, importImage(d.host, imageBash))
	r := rigOn(t, d.host)
	spec := sandbox.Spec{ID: newID()}
	s, err := r.Open(t.Context(), spec)
	require.NoError(t, err)
	done := sandboxtest.Start(t, s, "echo kept | tee file; exit 3")
	await(t, s, done)
	running := sandboxtest.Start(t, s, "echo begun; sleep 600")
	awaitOutput(t, s, running)
	followed := make(chan error, 1)
	go func() { followed <- s.Attach(t.Context(), running, sandbox.Stdout, 0, &sink{}) }()

	d.stop()
	require.ErrorIs(t, <-followed, sandbox.ErrUnavailable)
	_, err = s.Status(t.Context(), running)
	require.ErrorIs(t, err, sandbox.ErrUnavailable)
	require.ErrorIs(t, s.Start(t.Context(), sandbox.ExecSpec{ID: "x", Command: "true"}), sandbox.ErrUnavailable)
	require.ErrorIs(t, s.WriteFile(t.Context(), "file", nil), sandbox.ErrUnavailable)
	other := rigOn(t, d.host, func(c *docker.Config) { c.Owner = r.owner })
	spec.Existing = true
	_, err = other.Open(t.Context(), spec)
	require.ErrorIs(t, err, sandbox.ErrUnavailable)
	require.ErrorContains(t, err, "does not answer")

	require.NoError(t, d.start())
	st, err := s.Status(t.Context(), running)
	require.NoError(t, err)
	require.Equal(t, sandbox.StateUnknown, st.State)
	require.Equal(t, "begun\n", await(t, s, running).Stdout)
	require.NoError(t, s.Start(t.Context(), sandbox.ExecSpec{ID: running, Command: "echo begun; sleep 600",
		Limits: sandbox.Limits{}}), "starting it again does not run it again")
	require.Equal(t, sandbox.StateUnknown, await(t, s, running).State)
	require.Equal(t, 3, await(t, s, done).ExitCode)
	require.Equal(t, "kept\n", run(t, s, "cat file").Stdout)
	again, err := other.Open(t.Context(), spec)
	require.NoError(t, err)
	require.Equal(t, "kept\n", run(t, again, "cat file").Stdout)
	require.NoError(t, s.Destroy(t.Context()))
}

// An engine that is halted refuses nothing and answers nothing: whoever waits for it is
// told soon, and what runs goes on.
func TestEngineHangs(t *testing.T) {
	t.Parallel()
	d, err := startDaemon(t.TempDir())
	if err != nil {
		t.Skip(err)
	}
	signal := func(sig syscall.Signal) { require.NoError(t, d.cmd.Process.Signal(sig)) }
	t.Cleanup(func() {
		_ = d.cmd.Process.Signal(syscall.SIGCONT) // it may be halted still
		d.stop()
	})
	require.NoError(t, importImage(d.host, imageBash))
	r := rigOn(t, d.host)
	s, err := r.Open(t.Context(), sandbox.Spec{ID: newID()})
	require.NoError(t, err)
	id := sandboxtest.Start(t, s, "echo begun; sleep 20; echo ended")
	awaitOutput(t, s, id)
	followed := make(chan error, 1)
	go func() { followed <- s.Attach(t.Context(), id, sandbox.Stdout, 0, &sink{}) }()

	signal(syscall.SIGSTOP)
	began := time.Now()
	err = <-followed
	t.Logf("it was noticed after %v", time.Since(began))
	require.ErrorIs(t, err, sandbox.ErrUnavailable)
	require.ErrorContains(t, err, "no sign of life")
	began = time.Now()
	for range 20 {
		_, err = s.Status(t.Context(), id)
		require.ErrorIs(t, err, sandbox.ErrUnavailable)
		require.ErrorIs(t, s.WriteFile(t.Context(), "file", nil), sandbox.ErrUnavailable)
		require.ErrorIs(t, s.List(t.Context(), func(snapshot.Entry) error { return nil }), sandbox.ErrUnavailable)
		_, err = r.Open(t.Context(), sandbox.Spec{ID: "another"})
		require.ErrorIs(t, err, sandbox.ErrUnavailable)
	}
	require.Less(t, time.Since(began), 20*time.Second, "and then nobody waits for it each time")

	signal(syscall.SIGCONT)
	require.Eventually(t, func() bool {
		_, err := s.Status(t.Context(), id)
		return err == nil
	}, time.Minute, 50*time.Millisecond)
	got := await(t, s, id)
	require.Equal(t, "begun\nended\n", got.Stdout)
	require.Equal(t, 0, got.ExitCode)
	require.NoError(t, s.Destroy(t.Context()))
}

type sink struct{}

func (*sink) Write(p []byte) (int, error) { return len(p), nil }

func TestEngineAway(t *testing.T) {
	t.Parallel()
	b, err := docker.New(docker.Config{Host: "unix:///nonexistent/docker.sock", Image: imageBash})
	require.NoError(t, err)
	defer b.Close()
	for _, existing := range []bool{false, true} {
		_, err = b.Open(t.Context(), sandbox.Spec{ID: "x", Existing: existing})
		require.ErrorIs(t, err, sandbox.ErrUnavailable)
		require.ErrorContains(t, err, "the Docker engine at unix:///nonexistent/docker.sock does not answer")
	}
	_, err = b.Reap(t.Context(), keepAll)
	require.ErrorIs(t, err, sandbox.ErrUnavailable)
}

// A container that somebody has paused goes on for whoever needs it.
func TestContainerPaused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.open(t, sandbox.Spec{ID: newID()})
	id := sandboxtest.Start(t, s, "echo begun; sleep 600")
	awaitOutput(t, s, id)
	require.NoError(t, newClient(t, r.host).ContainerPause(t.Context(), r.container(t).ID))
	st, err := s.Status(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, sandbox.StateRunning, st.State)
	require.False(t, r.container(t).State.Paused)
	require.Equal(t, 0, run(t, s, "true").ExitCode)
}

func TestContainerKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	spec := sandbox.Spec{ID: newID()}
	s := r.open(t, spec)
	id := sandboxtest.Start(t, s, "echo begun; sleep 600")
	awaitOutput(t, s, id)
	api := newClient(t, r.host)
	require.NoError(t, api.ContainerKill(t.Context(), r.container(t).ID, "KILL"))
	got := await(t, s, id)
	require.Equal(t, sandbox.StateUnknown, got.State)
	require.Equal(t, "begun\n", got.Stdout)
	require.NoError(t, s.Signal(t.Context(), id, sandbox.SignalStop))

	require.NoError(t, api.ContainerPause(t.Context(), r.container(t).ID))
	other := rigOn(t, r.host, func(c *docker.Config) { c.Owner = r.owner })
	again, err := other.Open(t.Context(), spec)
	require.NoError(t, err)
	require.Equal(t, "goes on\n", run(t, again, "echo goes on").Stdout)
}

// The file that says how an exec ended is there before what stands in it.
func TestExitBeingWritten(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.open(t, sandbox.Spec{})
	id := sandboxtest.Start(t, s, "echo begun; until [ -e go ]; do sleep 0.05; done; echo over; exit 3")
	awaitOutput(t, s, id)
	for _, part := range []string{"", "code 3\\n", "code 3\\nreason exi"} {
		r.asRoot(t, fmt.Sprintf("printf '%s' > /countersign/execs/%s/exit", part, id))
		st, err := s.Status(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, sandbox.StateRunning, st.State, "%q", part)
		require.Zero(t, st.EndedAt)
		ids, err := s.Running(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{id}, ids)
	}
	require.NoError(t, s.WriteFile(t.Context(), "go", nil))
	got := await(t, s, id)
	require.Equal(t, sandbox.StateExited, got.State)
	require.Equal(t, 3, got.ExitCode)
	require.Equal(t, "begun\nover\n", got.Stdout)
}

// A command whose record cannot be written does not run, and may be tried again.
func TestNoRoomForRecords(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.open(t, sandbox.Spec{})
	r.asRoot(t, "mv /countersign/execs /countersign/aside && : > /countersign/execs")
	spec := sandbox.ExecSpec{ID: newID(), Command: "echo ran >> log; cat log"}
	err := s.Start(t.Context(), spec)
	require.ErrorIs(t, err, sandbox.ErrUnavailable)
	require.ErrorContains(t, err, "its record cannot be written")
	r.asRoot(t, "rm /countersign/execs && mv /countersign/aside /countersign/execs")
	require.NoError(t, s.Start(t.Context(), spec))
	require.Equal(t, "ran\n", await(t, s, spec.ID).Stdout)
}

// asRoot runs a command in the rig's container beside its harness.
func (r rig) asRoot(t *testing.T, command string) {
	t.Helper()
	api := newClient(t, r.host)
	e, err := api.ContainerExecCreate(t.Context(), r.container(t).ID, container.ExecOptions{
		User: "0:0", Cmd: []string{"sh", "-c", command}, AttachStdout: true,
	})
	require.NoError(t, err)
	conn, err := api.ContainerExecAttach(t.Context(), e.ID, container.ExecAttachOptions{})
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.Copy(io.Discard, conn.Reader)
	require.NoError(t, err)
	state, err := api.ContainerExecInspect(t.Context(), e.ID)
	require.NoError(t, err)
	require.Zero(t, state.ExitCode)
}

// Pruning stopped containers is an everyday act; it leaves volumes alone.
func TestContainerPruned(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	spec := sandbox.Spec{ID: newID(), Generation: 2}
	s := r.open(t, spec)
	id := sandboxtest.Start(t, s, "echo kept > file; echo mine > ~/x; exit 3")
	await(t, s, id)
	require.NoError(t, s.Release(t.Context()))
	api := newClient(t, r.host)
	require.NoError(t, api.ContainerRemove(t.Context(), r.container(t).ID, container.RemoveOptions{}))

	spec.Existing = true
	s = r.open(t, spec)
	require.Equal(t, 3, await(t, s, id).ExitCode)
	require.Equal(t, "kept\nmine\n", run(t, s, "cat file ~/x").Stdout)
	require.NotContains(t, r.container(t).Name, ".new-")

	require.NoError(t, api.ContainerRemove(t.Context(), r.container(t).ID, container.RemoveOptions{Force: true}))
	require.ErrorIs(t, s.Start(t.Context(), sandbox.ExecSpec{ID: "x", Command: "true"}), sandbox.ErrGone)
	s = r.open(t, spec)
	require.Equal(t, "kept\n", run(t, s, "cat file").Stdout, "also of a session that this process has open")
	require.NoError(t, s.Release(t.Context()))
	require.NoError(t, api.ContainerRemove(t.Context(), r.container(t).ID, container.RemoveOptions{Force: true}))
	for _, name := range r.volumes(t) {
		require.NoError(t, api.VolumeRemove(t.Context(), name, true))
	}
	_, err := r.Open(t.Context(), spec)
	require.ErrorIs(t, err, sandbox.ErrGone)
	_, err = r.Open(t.Context(), spec)
	require.ErrorIs(t, err, sandbox.ErrGone, "asking after it has not made it")
}

// Half a sandbox, whose maker died, is not taken for one.
func TestHalfIsNotAdopted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	spec := sandbox.Spec{ID: newID()}
	s := r.open(t, spec)
	run(t, s, "echo kept > file")
	c, api := r.container(t), newClient(t, r.host)
	r.asRoot(t, "rm /countersign/named") // the container never had its name
	require.NoError(t, s.Release(t.Context()))
	require.NoError(t, api.ContainerRemove(t.Context(), c.ID, container.RemoveOptions{}))
	require.Len(t, r.volumes(t), 3)

	existing := spec
	existing.Existing = true
	_, err := r.Open(t.Context(), existing)
	require.ErrorIs(t, err, sandbox.ErrGone)
	require.Empty(t, run(t, r.open(t, spec), "ls").Stdout)
}

func TestReleaseStops(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	spec := sandbox.Spec{ID: newID()}
	s := r.open(t, spec)
	require.True(t, r.container(t).State.Running)
	require.NoError(t, s.Release(t.Context()))
	require.False(t, r.container(t).State.Running)
	require.NoError(t, s.Release(t.Context()))
	_, err := s.Status(t.Context(), "x")
	require.Error(t, err)
	require.False(t, r.container(t).State.Running, "a released session starts nothing")
	r.open(t, spec)
	require.True(t, r.container(t).State.Running)
}

// A container that nothing needs is stopped, whoever started it, and one in which a
// command runs is not; the next that needs one starts it.
func TestStopIdle(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.open(t, sandbox.Spec{ID: newID()})
	run(t, s, "echo kept > file")
	stops := func(b rig, after time.Duration, want int) {
		t.Helper()
		n := 0
		// What a command has left may be on its way out when its end is known.
		for end := time.Now().Add(time.Minute); ; {
			more, err := b.StopIdle(t.Context(), after)
			require.NoError(t, err)
			if n += more; n >= want || time.Now().After(end) {
				break
			}
		}
		require.Equal(t, want, n)
	}
	stops(r, time.Hour, 0)
	id := sandboxtest.Start(t, s, "echo begun; sleep 600")
	awaitOutput(t, s, id)
	stops(r, 0, 0)
	require.True(t, r.container(t).State.Running)
	require.NoError(t, s.Signal(t.Context(), id, sandbox.SignalKill))
	await(t, s, id)
	stops(r, 0, 1)
	require.False(t, r.container(t).State.Running)
	stops(r, 0, 0)
	require.Equal(t, sandbox.StateCancelled, await(t, s, id).State)
	require.Equal(t, "kept\n", run(t, s, "cat file").Stdout)
	require.True(t, r.container(t).State.Running)

	other := rigOn(t, r.host, func(c *docker.Config) { c.Owner = r.owner })
	stops(other, time.Hour, 0)
	stops(other, 0, 1)
	require.False(t, r.container(t).State.Running)
	require.NoError(t, s.WriteFile(t.Context(), "new", []byte("x")))
	require.Equal(t, "new\n", run(t, s, "ls new; echo x > /tmp/x").Stdout)

	// What lies in memory is kept for longer.
	const after = 5 * time.Second
	time.Sleep(after)
	stops(r, after, 0)
	run(t, s, "rm /tmp/x")
	time.Sleep(after)
	stops(r, after, 1)
	require.False(t, r.container(t).State.Running)
}

// However often containers are stopped, no command is ended by it, and each runs once.
func TestStopIdleBesideCommands(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.open(t, sandbox.Spec{ID: newID()})
	ctx, cancel := context.WithCancel(t.Context())
	var stopped atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			n, err := r.StopIdle(ctx, 0)
			if stopped.Add(int64(n)); ctx.Err() == nil && err != nil {
				t.Error(err)
			}
		}
	})
	for i := range 15 {
		res := run(t, s, "echo x >> file; sleep 0.05; echo done")
		require.Equal(t, "done\n", res.Stdout, "%d: %+v", i, res.ExecStatus)
		require.NoError(t, s.WriteFile(t.Context(), "written", []byte("x")))
		time.Sleep(time.Duration(i%3) * 100 * time.Millisecond)
	}
	require.Eventually(t, func() bool { return stopped.Load() > 0 }, time.Minute, 10*time.Millisecond)
	cancel()
	wg.Wait()
	t.Logf("the container was stopped %d times", stopped.Load())
	require.Equal(t, strings.Repeat("x\n", 15), run(t, s, "cat file").Stdout)
}

// Several workers share an engine.
func TestOpenedAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	spec := sandbox.Spec{ID: newID()}
	sessions := make([]sandbox.Session, 4)
	var wg sync.WaitGroup
	for i := range sessions {
		other := rigOn(t, r.host, func(c *docker.Config) { c.Owner = r.owner })
		wg.Go(func() {
			s, err := other.Open(t.Context(), spec)
			if err == nil {
				sessions[i] = s
			}
		})
	}
	wg.Wait()
	for i, s := range sessions {
		require.NotNil(t, s)
		run(t, s, "echo x >> file")
		require.Equal(t, i+1, len(run(t, s, "cat file").Stdout)/2)
	}
	require.Len(t, r.volumes(t), 3)
	r.container(t)
	require.NoError(t, sessions[0].Destroy(t.Context()))
	require.Empty(t, r.volumes(t))
	_, err := sessions[1].Status(t.Context(), "x")
	require.ErrorIs(t, err, sandbox.ErrGone)
	require.NoError(t, sessions[1].Destroy(t.Context()))
}

func keepAll(context.Context, string, int) (bool, error) { return true, nil }
