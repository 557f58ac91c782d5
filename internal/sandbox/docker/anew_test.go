package docker_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/volume"
	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/docker"
	"github.com/countersign/countersign/internal/sandbox/docker/ownengine"
	"github.com/countersign/countersign/internal/sandbox/sandboxtest"
)

// killable is an engine of a test's own that is killed; its containerd is not.
type killable struct {
	*ownengine.Engine
	dir  string
	dead func() // ends it, and waits for that
}

func newKillable(t *testing.T) *killable {
	t.Helper()
	if why := ownengine.Cannot(); why != "" {
		t.Skip(why)
	}
	dir, err := os.MkdirTemp("", "countersign-anew-") // a test's own may be too long for a socket
	require.NoError(t, err)
	e, err := ownengine.New(dir)
	require.NoError(t, err)
	k := &killable{Engine: e, dir: dir}
	t.Cleanup(e.Sweep)
	t.Cleanup(k.run(t, e.Containerd()))
	k.start(t)
	t.Cleanup(func() {
		e.Empty(t.Context())
		k.dead()
	})
	require.NoError(t, e.Busybox(t.Context(), imageBusybox))
	return k
}

// run starts a program and returns what kills it.
func (k *killable) run(t *testing.T, argv []string) func() {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(k.dir, argv[0]+".log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	require.NoError(t, err)
	defer log.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	return sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

func (k *killable) start(t *testing.T) {
	t.Helper()
	k.dead = k.run(t, k.Dockerd())
	require.Eventually(t, func() bool {
		_, err := k.API.Ping(t.Context())
		return err == nil
	}, 2*time.Minute, 50*time.Millisecond, "the engine comes up")
}

// killInAStart kills the engine and starts it again, with what it had written down of
// a container before the task was started: it writes the rest when containerd has said
// that it runs.
func (k *killable) killInAStart(t *testing.T, id string) {
	t.Helper()
	k.dead()
	file := filepath.Join(k.dir, "data", "containers", id, "config.v2.json")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), `"Running":true`)
	text = regexp.MustCompile(`"Running":true|"Pid":\d+`).ReplaceAllFunc(text, func(was []byte) []byte {
		if was[1] == 'P' {
			return []byte(`"Pid":0`)
		}
		return []byte(`"Running":false`)
	})
	require.NoError(t, os.WriteFile(file, text, 0o600))
	k.start(t)
}

// containers are the names of those of the rig.
func (r rig) containers(t *testing.T) []string {
	t.Helper()
	list, err := newClient(t, r.host).ContainerList(t.Context(), container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", "countersign.owner="+r.owner)),
	})
	require.NoError(t, err)
	var names []string
	for _, c := range list {
		names = append(names, c.Names[0])
	}
	return names
}

// An engine that was killed in the middle of a container's start refuses to start it ever
// again, where it does not clean up: "id already in use".
func TestEngineKilledInAStart(t *testing.T) {
	t.Parallel()
	k := newKillable(t)
	r := rigOn(t, k.Host(), func(c *docker.Config) { c.Image = imageBusybox })
	spec := sandbox.Spec{ID: newID(), Generation: 1}
	s := r.open(t, spec)
	done := sandboxtest.Start(t, s, "echo kept > file; echo mine > ~/x; exit 3")
	await(t, s, done)
	c := r.container(t)

	k.killInAStart(t, c.ID)
	_, err := s.Status(t.Context(), done)
	if err == nil {
		t.Skip("this engine cleans up by itself")
	}
	require.ErrorIs(t, err, sandbox.ErrUnavailable)
	require.ErrorContains(t, err, "id already in use")
	_, err = k.API.ImageRemove(t.Context(), c.Image, image.RemoveOptions{Force: true})
	require.NoError(t, err, "nor is its image there any more")

	spec.Existing = true
	again := r.open(t, spec)
	require.Equal(t, 3, await(t, again, done).ExitCode)
	require.Equal(t, "kept\nmine\n", run(t, again, "cat file ~/x").Stdout)
	require.Equal(t, []string{c.Name}, r.containers(t))
	require.Len(t, r.volumes(t), 3)
	_, err = s.Status(t.Context(), done)
	require.ErrorIs(t, err, sandbox.ErrUnavailable, "who has it still is told to open it anew, not that it is gone")
	require.NotErrorIs(t, err, sandbox.ErrGone)
	require.NoError(t, again.Destroy(t.Context()))
	require.Empty(t, r.containers(t))
}

// A command in a container that the engine has lost is not one that has ended: nothing
// begins beside it, and how it ends is known.
func TestNothingBesideALostCommand(t *testing.T) {
	t.Parallel()
	k := newKillable(t)
	r := rigOn(t, k.Host(), func(c *docker.Config) { c.Image = imageBusybox })
	spec := sandbox.Spec{ID: newID()}
	s := r.open(t, spec)
	id := sandboxtest.Start(t, s, "echo begun; until [ -e go ]; do sleep 0.1; done; echo ended; exit 4")
	awaitOutput(t, s, id)
	vols, err := k.API.VolumeList(t.Context(), volume.ListOptions{Filters: filters.NewArgs(filters.Arg("label", "countersign.part=workspace"))})
	require.NoError(t, err)
	require.Len(t, vols.Volumes, 1)

	k.killInAStart(t, r.container(t).ID)
	spec.Existing = true
	r = rigOn(t, k.Host(), func(c *docker.Config) { c.Owner, c.Image = r.owner, imageBusybox })
	_, err = r.Open(t.Context(), spec)
	if err == nil {
		t.Skip("this engine ends by itself what it does not know of")
	}
	require.ErrorIs(t, err, sandbox.ErrUnavailable)
	require.ErrorContains(t, err, id)
	require.Len(t, r.containers(t), 1)
	require.NoError(t, os.WriteFile(filepath.Join(vols.Volumes[0].Mountpoint, "go"), nil, 0o600))
	require.Eventually(t, func() bool {
		s, err = r.Open(t.Context(), spec)
		return err == nil
	}, time.Minute, 100*time.Millisecond)
	res := await(t, s, id)
	require.Equal(t, sandbox.StateExited, res.State)
	require.Equal(t, "begun\nended\n", res.Stdout)
	require.Equal(t, 4, res.ExitCode)
	require.NoError(t, s.Destroy(t.Context()))
}

// refusing stands before an engine that cannot do some things: to a request about which
// why says something it answers that.
type refusing struct {
	http.Handler
	mu  sync.Mutex
	why func(method, path string) string
}

func (r *refusing) refuse(why func(method, path string) string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.why = why
}

func (r *refusing) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	why := r.why(req.Method, req.URL.Path)
	r.mu.Unlock()
	if why == "" {
		r.Handler.ServeHTTP(w, req)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusInternalServerError)
	_, _ = w.Write([]byte(`{"message":"` + why + `"}` + "\n"))
}

// What fails while a container is made anew loses nothing, is told, and is gone on with by
// the next that opens the sandbox.
func TestAContainerThatDoesNotStart(t *testing.T) {
	t.Parallel()
	needImage(t, imageBash)
	nothing := func(string, string) string { return "" }
	engine := &refusing{Handler: toEngine(t, engine.host), why: nothing}
	r := rigOn(t, serveEngine(t, engine))
	spec := sandbox.Spec{ID: newID()}
	run(t, r.open(t, spec), "echo kept > file")
	spec.Existing = true
	stopped := func() container.InspectResponse {
		s := r.open(t, spec)
		require.Equal(t, "kept\n", run(t, s, "cat file").Stdout)
		require.NoError(t, s.Release(t.Context()))
		return r.container(t)
	}
	fails := func(in rig, says string) {
		t.Helper()
		_, err := in.Open(t.Context(), spec)
		require.ErrorIs(t, err, sandbox.ErrUnavailable)
		require.ErrorContains(t, err, says)
	}

	c := stopped()
	t.Cleanup(func() { engine.refuse(nothing) })
	noStart := func(_, path string) string {
		if strings.HasSuffix(path, "/start") && strings.Contains(path, "/containers/") {
			return "OCI runtime create failed"
		}
		return ""
	}
	engine.refuse(noStart)
	fails(r, "OCI runtime create failed")
	require.Equal(t, []string{c.Name}, r.containers(t), "another would not start either")
	engine.refuse(nothing)
	s := r.open(t, spec)
	require.NoError(t, newClient(t, r.host).ContainerKill(t.Context(), c.ID, "KILL"))
	engine.refuse(noStart)
	require.Eventually(t, func() bool { return s.WriteFile(t.Context(), "x", nil) != nil }, 30*time.Second, 10*time.Millisecond)
	fails(r, "OCI runtime create failed") // whoever asks whether it answers again must not hear that it does
	engine.refuse(nothing)
	require.NoError(t, r.open(t, spec).Release(t.Context()))

	cut := func(id string, removed bool) func(method, path string) string {
		return func(method, path string) string {
			switch old := strings.HasSuffix(path, "/"+id); {
			case strings.HasSuffix(path, "/"+id+"/start"):
				return "id already in use"
			case method == http.MethodDelete && old != removed, strings.HasSuffix(path, "/rename"):
				return "it could not be done"
			}
			return ""
		}
	}
	engine.refuse(cut(c.ID, false))
	fails(r, "removing the sandbox's container")
	require.Equal(t, []string{c.Name}, r.containers(t))
	engine.refuse(nothing)

	// The engine fails when the old one is removed and the new one has no name yet.
	half := c.Name + ".new-" + c.Config.Labels["countersign.set"]
	for name, next := range map[string]func() rig{
		"by the same process": func() rig { return r },
		"by another, later": func() rig {
			other := rigOn(t, r.host, func(c *docker.Config) { c.Owner = r.owner })
			fails(other, "is there")
			other.Age(time.Hour)
			return other
		},
		"by another, after its start": func() rig {
			other := rigOn(t, r.host, func(c *docker.Config) { c.Owner = r.owner })
			require.NoError(t, other.Sweep(t.Context()))
			require.Empty(t, r.containers(t))
			return other
		},
	} {
		c = stopped()
		engine.refuse(cut(c.ID, true))
		fails(r, "making a sandbox")
		require.Equal(t, []string{half}, r.containers(t))
		engine.refuse(nothing)
		require.Equal(t, "kept\n", run(t, next().open(t, spec), "cat file").Stdout, name)
		require.Equal(t, []string{c.Name}, r.containers(t))
		require.Len(t, r.volumes(t), 3)
	}
}
