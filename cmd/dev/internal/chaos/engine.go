package chaos

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
)

const (
	// engineImage is what the run's Docker sandboxes are made from: this machine's
	// busybox, since a run has no registry.
	engineImage = "countersign-chaos:1"
	// insideWorkspace is where a Docker sandbox has its workspace.
	insideWorkspace = "/workspace"
	// engineStopsWithin bounds the end of an engine without containers.
	engineStopsWithin = 20 * time.Second
)

// engine is a Docker engine of the run's own, on its own socket and data
// directory: never this machine's.
type engine struct {
	*part
	// runtime is its containerd, which runs as a service of its own, as is usual,
	// and is not hit.
	runtime *part
	host    string
	home    string // beside the run's directory, as its processes are no sandbox's
	api     *client.Client
}

// cannotStartEngine says why there can be none; empty where there can.
func cannotStartEngine() string {
	if os.Getuid() != 0 {
		return "only root can start one"
	}
	for _, program := range []string{"dockerd", "containerd", "busybox"} {
		if _, err := exec.LookPath(program); err != nil {
			return "there is no program " + program
		}
	}
	busybox, _ := exec.LookPath("busybox") // it was just found
	if out, err := exec.Command("ldd", busybox).CombinedOutput(); err == nil && !strings.Contains(string(out), "statically") {
		return "busybox, which sandboxes are made from, is not linked statically"
	}
	return ""
}

// startEngine starts an engine for the run in dir and gives it its image.
func startEngine(ctx context.Context, dir string) (*engine, error) {
	e := &engine{home: dir + "-engine"}
	if err := os.MkdirAll(e.home, 0o711); err != nil {
		return nil, fmt.Errorf("making the engine's directory: %w", err)
	}
	socket, settings := e.home+"/containerd.sock", e.home+"/containerd.toml"
	err := os.WriteFile(settings, fmt.Appendf(nil, "version = 2\nroot = %q\nstate = %q\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = %q\n",
		e.home+"/images", e.home+"/state", socket), 0o600)
	if err != nil {
		return nil, fmt.Errorf("writing containerd's settings: %w", err)
	}
	e.runtime = &part{name: "containerd", dir: dir, argv: []string{"containerd", "--config", settings}}
	if err := e.runtime.start(); err != nil {
		return e, err
	}
	e.host = "unix://" + e.home + "/docker.sock"
	e.part = &part{name: "engine", dir: dir, supervised: true, argv: []string{
		"dockerd", "--host", e.host, "--data-root", e.home + "/data", "--exec-root", e.home + "/exec", "--pidfile", e.home + "/docker.pid",
		"--bridge=none", "--iptables=false", "--ip6tables=false", "--containerd", socket,
	}}
	if e.api, err = client.NewClientWithOpts(client.WithHost(e.host), client.WithAPIVersionNegotiation()); err != nil {
		return e, fmt.Errorf("preparing the Docker client: %w", err)
	}
	if err := e.start(); err != nil {
		return e, err
	}
	if err := e.await(ctx); err != nil {
		return e, err
	}
	return e, e.importImage(ctx)
}

// await waits until the engine answers.
func (e *engine) await(ctx context.Context) error {
	return until(ctx, startWithin, "the Docker engine answers; see logs/engine", func() (bool, error) {
		_, err := e.api.Ping(ctx)
		return err == nil, nil
	})
}

// importImage makes the image from busybox.
func (e *engine) importImage(ctx context.Context) error {
	root, w := io.Pipe()
	go func() { w.CloseWithError(packBusybox(ctx, w)) }()
	r, err := e.api.ImageImport(ctx, image.ImportSource{Source: root, SourceName: "-"}, engineImage, image.ImportOptions{})
	if err != nil {
		return errors.Join(fmt.Errorf("making the sandboxes' image: %w", err), root.Close())
	}
	_, err = io.Copy(io.Discard, r)
	if err = errors.Join(err, r.Close(), root.Close()); err != nil {
		return fmt.Errorf("making the sandboxes' image: %w", err)
	}
	return nil
}

// packBusybox writes a root directory of busybox alone as tar.
func packBusybox(ctx context.Context, w io.Writer) error {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return fmt.Errorf("finding busybox: %w", err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading busybox: %w", err)
	}
	applets, err := exec.CommandContext(ctx, path, "--list").Output()
	if err != nil {
		return fmt.Errorf("listing busybox's programs: %w", err)
	}
	t := tar.NewWriter(w)
	put := func(h tar.Header, data []byte) {
		if err == nil {
			h.Size = int64(len(data))
			err = t.WriteHeader(&h)
		}
		if err == nil {
			_, err = t.Write(data)
		}
	}
	for _, dir := range strings.Fields("bin dev etc proc sys tmp root") {
		put(tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}, nil)
	}
	put(tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644}, []byte("root:x:0:0:root:/root:/bin/sh\n"))
	put(tar.Header{Typeflag: tar.TypeReg, Name: "etc/group", Mode: 0o644}, []byte("root:x:0:\n"))
	put(tar.Header{Typeflag: tar.TypeReg, Name: "bin/busybox", Mode: 0o755}, program)
	for _, name := range strings.Fields(string(applets)) {
		if name != "busybox" {
			put(tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + name, Linkname: "busybox", Mode: 0o777}, nil)
		}
	}
	return errors.Join(err, t.Close())
}

// contained is a Docker sandbox that is there.
type contained struct {
	box
	// container is its name in the engine, whole where it has been put in place.
	container string
	whole     bool
	workspace string // its directory on this machine
}

// sandboxes are those in the engine; it may be down.
func (e *engine) sandboxes(ctx context.Context) ([]contained, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	list, err := e.api.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", "countersign.sandbox"))})
	if err != nil {
		return nil, fmt.Errorf("listing containers: %w", err)
	}
	var all []contained
	for _, c := range list {
		generation, err := strconv.Atoi(c.Labels["countersign.generation"])
		if err != nil || len(c.Names) == 0 {
			continue // not one of ours
		}
		s := contained{
			box:       box{Host: c.Labels["countersign.owner"], WorkflowID: c.Labels["countersign.session"], Generation: generation},
			container: c.Names[0], whole: c.Names[0] == "/"+c.Labels["countersign.sandbox"],
		}
		for _, m := range c.Mounts {
			if m.Destination == insideWorkspace {
				s.workspace = m.Source
			}
		}
		all = append(all, s)
	}
	return all, nil
}

// stop removes the engine's containers, ends it and removes its directory; nil
// has nothing to stop.
func (e *engine) stop() {
	if e == nil || e.part == nil {
		return
	}
	defer e.sweep()
	defer e.runtime.kill()
	e.empty()
	e.mu.Lock()
	cmd, ended := e.cmd, e.ended
	e.up = false
	e.mu.Unlock()
	if cmd != nil {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-ended:
		case <-time.After(engineStopsWithin):
			e.kill()
		}
	}
}

// empty removes all containers, as an engine waits 10 s for each that runs.
func (e *engine) empty() {
	ctx, cancel := context.WithTimeout(context.Background(), engineStopsWithin)
	defer cancel()
	list, err := e.api.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return // it is down: its end is all that can be done
	}
	for _, c := range list {
		_ = e.api.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}) // sweep has the rest
	}
	_ = e.api.Close()
}

// sweep ends what is left of an engine: processes and mounts below its directory,
// and that.
func (e *engine) sweep() {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is well formed
	for _, f := range files {
		data, err := os.ReadFile(f)
		pid, perr := strconv.Atoi(strings.Split(f, "/")[2])
		if err == nil && perr == nil && strings.Contains(string(data), e.home+"/") && pid != os.Getpid() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
	data, _ := os.ReadFile("/proc/self/mounts") // without it nothing is unmounted
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], e.home+"/") {
			_ = exec.Command("umount", "--lazy", f[1]).Run() // it may have gone with its process
		}
	}
	_ = os.RemoveAll(e.home) // what is left is a temporary directory
}
