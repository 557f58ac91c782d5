// Package dockertest gives tests a Docker engine of their own, which they may kill
// and start again: never this machine's.
package dockertest

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
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
)

const (
	// upWithin bounds the start of an engine, on a machine under load too.
	upWithin = 2 * time.Minute
	// downWithin bounds its end; what is left then is killed.
	downWithin = 30 * time.Second
)

// Engine is a Docker engine without a network, and the containerd below it, which
// is a service of its own, as is usual: containers outlive a killed engine until it
// is back.
type Engine struct {
	// Host is its address, as DOCKER_HOST has it.
	Host string

	dir             string
	runtime, daemon *exec.Cmd
	api             *client.Client
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

// Start starts an engine in a temporary directory of its own. [Engine.Stop] ends it,
// also after an error with which an engine was returned.
func Start() (*Engine, error) {
	dir, err := os.MkdirTemp("", "cs-engine-") // short: a socket's path holds 107 bytes
	if err != nil {
		return nil, fmt.Errorf("making the engine's directory: %w", err)
	}
	e := &Engine{Host: "unix://" + dir + "/docker.sock", dir: dir}
	settings := fmt.Appendf(nil, "version = 2\nroot = %q\nstate = %q\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = %q\n",
		dir+"/images", dir+"/state", dir+"/containerd.sock")
	if err := os.WriteFile(dir+"/containerd.toml", settings, 0o600); err != nil {
		return e, fmt.Errorf("writing containerd's settings: %w", err)
	}
	if e.runtime, err = e.run("containerd", "--config", dir+"/containerd.toml"); err != nil {
		return e, err
	}
	if e.api, err = client.NewClientWithOpts(client.WithHost(e.Host), client.WithAPIVersionNegotiation()); err != nil {
		return e, fmt.Errorf("preparing the Docker client: %w", err)
	}
	return e, e.Up()
}

// run starts a program whose output is kept in a file.
func (e *Engine) run(argv ...string) (*exec.Cmd, error) {
	out, err := os.OpenFile(filepath.Join(e.dir, argv[0]+".log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", argv[0], err)
	}
	defer func() { _ = out.Close() }() // the program has it
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", argv[0], err)
	}
	return cmd, nil
}

// Up starts the engine again, with all it held, and waits until it answers.
func (e *Engine) Up() (err error) {
	e.daemon, err = e.run("dockerd", "--host", e.Host, "--data-root", e.dir+"/data", "--exec-root", e.dir+"/exec", "--pidfile", e.dir+"/docker.pid",
		"--bridge=none", "--iptables=false", "--ip6tables=false", "--containerd", e.dir+"/containerd.sock")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), upWithin)
	defer cancel()
	for {
		if _, err = e.api.Ping(ctx); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(e.dir + "/dockerd.log")
			return fmt.Errorf("waiting for the Docker engine: %w\n%s", err, log[max(0, len(log)-2000):])
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Kill ends the engine at once. Its containers run on until it is back.
func (e *Engine) Kill() {
	if e.daemon == nil {
		return
	}
	_ = e.daemon.Process.Kill() // it may have ended
	_ = e.daemon.Wait()
	e.daemon = nil
}

// Busybox makes an image of this machine's busybox under a name.
func (e *Engine) Busybox(ctx context.Context, name string) error {
	root, w := io.Pipe()
	go func() { w.CloseWithError(packBusybox(ctx, w)) }()
	defer func() { _ = root.Close() }()
	r, err := e.api.ImageImport(ctx, image.ImportSource{Source: root, SourceName: "-"}, name, image.ImportOptions{})
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

// Stop removes the engine's containers, ends it and removes its directory.
func (e *Engine) Stop() {
	if e.daemon != nil {
		e.empty()
		_ = e.daemon.Process.Signal(syscall.SIGTERM) // it may have ended
		kill := time.AfterFunc(downWithin, func() { _ = e.daemon.Process.Kill() })
		_ = e.daemon.Wait()
		kill.Stop()
	}
	if e.api != nil {
		_ = e.api.Close()
	}
	if e.runtime != nil {
		_ = e.runtime.Process.Kill() // it may have ended
		_ = e.runtime.Wait()
	}
	e.sweep()
}

// empty removes all containers, as an engine waits 10 s for each that runs.
func (e *Engine) empty() {
	ctx, cancel := context.WithTimeout(context.Background(), downWithin)
	defer cancel()
	list, err := e.api.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return // it is down: its end is all that can be done
	}
	for _, c := range list {
		_ = e.api.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}) // sweep has the rest
	}
}

// sweep ends what is left of the engine: processes and mounts below its directory,
// and that.
func (e *Engine) sweep() {
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
