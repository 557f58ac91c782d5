// Package ownengine is what a Docker engine of one's own takes, which may be killed
// and started again: never this machine's. Whoever has one starts its two programs
// and ends them.
package ownengine

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

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
)

// Engine is a Docker engine without a network, and the containerd below it, which
// is a service of its own, as is usual: containers outlive a killed engine until it
// is back.
type Engine struct {
	// API reaches it while it is up.
	API *client.Client

	dir string
}

// Cannot says why this machine cannot have one; empty where it can.
func Cannot() string {
	if os.Getuid() != 0 {
		return "only root can start a Docker engine"
	}
	for _, program := range []string{"dockerd", "containerd", "docker-init", "busybox"} {
		if _, err := exec.LookPath(program); err != nil {
			return "there is no program " + program
		}
	}
	busybox, _ := exec.LookPath("busybox") // it was just found
	if out, err := exec.Command("ldd", busybox).CombinedOutput(); err == nil && !strings.Contains(string(out), "statically") {
		return "busybox, which images are made from, is not linked statically"
	}
	return ""
}

// New prepares one in a directory that is there, and is its alone. Its path must
// be short: that of a socket in it holds 107 bytes.
func New(dir string) (*Engine, error) {
	e := &Engine{dir: dir}
	settings := fmt.Appendf(nil, "version = 2\nroot = %q\nstate = %q\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = %q\n",
		dir+"/images", dir+"/state", e.runtime())
	if err := os.WriteFile(dir+"/containerd.toml", settings, 0o600); err != nil {
		return nil, fmt.Errorf("writing containerd's settings: %w", err)
	}
	var err error
	if e.API, err = client.NewClientWithOpts(client.WithHost(e.Host()), client.WithAPIVersionNegotiation()); err != nil {
		return nil, fmt.Errorf("preparing the Docker client: %w", err)
	}
	return e, nil
}

// Host is its address, as DOCKER_HOST has it.
func (e *Engine) Host() string { return "unix://" + e.dir + "/docker.sock" }

func (e *Engine) runtime() string { return e.dir + "/containerd.sock" }

// Containerd is the command line of its containerd, which is started first.
func (e *Engine) Containerd() []string {
	return []string{"containerd", "--config", e.dir + "/containerd.toml"}
}

// Dockerd is the command line of the engine.
func (e *Engine) Dockerd() []string {
	return []string{
		"dockerd", "--host", e.Host(), "--data-root", e.dir + "/data", "--exec-root", e.dir + "/exec", "--pidfile", e.dir + "/docker.pid",
		"--bridge=none", "--iptables=false", "--ip6tables=false", "--containerd", e.runtime(),
	}
}

// Busybox makes an image of this machine's busybox under a name, since there is no
// registry.
func (e *Engine) Busybox(ctx context.Context, name string) error {
	root, w := io.Pipe()
	go func() { w.CloseWithError(packBusybox(ctx, w)) }()
	defer func() { _ = root.Close() }()
	r, err := e.API.ImageImport(ctx, image.ImportSource{Source: root, SourceName: "-"}, name, image.ImportOptions{})
	if err != nil {
		return fmt.Errorf("making the image %s: %w", name, err)
	}
	_, err = io.Copy(io.Discard, r)
	if err = errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("making the image %s: %w", name, err)
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
	put := func(h tar.Header, data string) {
		h.Size = int64(len(data))
		if err == nil {
			err = t.WriteHeader(&h)
		}
		if err == nil {
			_, err = io.WriteString(t, data)
		}
	}
	for _, dir := range strings.Fields("bin dev etc proc sys tmp root") {
		put(tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}, "")
	}
	put(tar.Header{Name: "etc/passwd", Mode: 0o644}, "root:x:0:0:root:/root:/bin/sh\n")
	put(tar.Header{Name: "etc/group", Mode: 0o644}, "root:x:0:\n")
	put(tar.Header{Name: "bin/busybox", Mode: 0o755}, string(program))
	for _, name := range strings.Fields(string(applets)) {
		if name != "busybox" {
			put(tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + name, Linkname: "busybox", Mode: 0o777}, "")
		}
	}
	return errors.Join(err, t.Close())
}

// Empty removes all containers, as an engine waits 10 s for each that runs when it
// ends. What it cannot remove [Engine.Sweep] does.
func (e *Engine) Empty(ctx context.Context) {
	list, err := e.API.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return // it is down: its end is all that can be done
	}
	for _, c := range list {
		_ = e.API.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
	}
}

// Sweep ends what is left when both programs have ended: the client, processes and
// mounts below the directory, and that.
func (e *Engine) Sweep() {
	_ = e.API.Close()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is well formed
	for _, f := range files {
		data, err := os.ReadFile(f)
		pid, perr := strconv.Atoi(strings.Split(f, "/")[2])
		if err == nil && perr == nil && strings.Contains(string(data), e.dir+"/") && pid != os.Getpid() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
	data, _ := os.ReadFile("/proc/self/mounts") // without it nothing is unmounted
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], e.dir+"/") {
			_ = exec.Command("umount", "--lazy", f[1]).Run() // it may have gone with its process
		}
	}
	_ = os.RemoveAll(e.dir) // what is left is a temporary directory
}
