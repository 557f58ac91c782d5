package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"
)

// hostEnv names the engine that the tests use. Without it they try the default
// one, and then start one of their own where they may.
const hostEnv = "COUNTERSIGN_TEST_DOCKER_HOST"

// images are made of the programs of the machine that runs the tests: there is
// no registry.
const (
	imageBash    = "countersign-test-bash:2"
	imageBusybox = "countersign-test-busybox:1"
	imageEnv     = "countersign-test-env:1" // the first with an environment
)

// daemon is an engine that a test started.
type daemon struct {
	host string
	args []string
	cmd  *exec.Cmd
	log  string
}

// startDaemon starts an engine below dir. It needs root.
func startDaemon(dir string) (*daemon, error) {
	path, err := exec.LookPath("dockerd")
	if err != nil {
		return nil, errors.New("there is no dockerd program")
	}
	if os.Getuid() != 0 {
		return nil, errors.New("only root can start dockerd")
	}
	d := &daemon{host: "unix://" + dir + "/docker.sock", log: filepath.Join(dir, "dockerd.log")}
	d.args = []string{
		path, "--host", d.host, "--data-root", dir + "/data", "--exec-root", dir + "/exec", "--pidfile", dir + "/docker.pid",
		"--bridge=none", "--iptables=false", "--ip6tables=false",
	}
	return d, d.start()
}

func (d *daemon) start() error {
	log, err := os.OpenFile(d.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	d.cmd = exec.Command(d.args[0], d.args[1:]...)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := d.cmd.Start(); err != nil {
		return err
	}
	deadline := time.Now().Add(2 * time.Minute)
	for {
		err := ping(d.host)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(d.log)
			return fmt.Errorf("dockerd does not come up: %w\n%s", err, text[max(0, len(text)-2000):])
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (d *daemon) stop() {
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(30*time.Second, func() { _ = d.cmd.Process.Kill() })
	_ = d.cmd.Wait()
	timer.Stop()
}

func ping(host string) error {
	opts := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if host != "" {
		opts = append(opts, client.WithHost(host))
	}
	api, err := client.NewClientWithOpts(opts...)
	if err != nil {
		return err
	}
	defer api.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err = api.Ping(ctx)
	return err
}

// engine is the one that most tests share.
var engine struct {
	host    string // "" is the default
	problem error  // why there is none
	own     *daemon
	dir     string

	once   sync.Mutex
	images map[string]error
}

// openEngine finds an engine or starts one.
func openEngine() {
	engine.host, engine.images = os.Getenv(hostEnv), map[string]error{}
	err := ping(engine.host)
	if err == nil {
		return
	}
	if engine.host != "" {
		engine.problem = fmt.Errorf("the engine of %s does not answer: %w", hostEnv, err)
		return
	}
	if engine.dir, engine.problem = os.MkdirTemp("", "countersign-dockerd-"); engine.problem != nil {
		return
	}
	if engine.own, engine.problem = startDaemon(engine.dir); engine.problem != nil {
		engine.problem = fmt.Errorf("no engine answers (%v) and none can be started: %w", err, engine.problem)
		return
	}
	engine.host = engine.own.host
}

func closeEngine() {
	if engine.own != nil {
		engine.own.stop()
	}
	if engine.dir != "" {
		_ = os.RemoveAll(engine.dir)
	}
}

// needEngine skips the test where there is no engine.
func needEngine(t testing.TB) {
	t.Helper()
	if engine.problem != nil {
		t.Skip(engine.problem)
	}
}

// needImage makes an image in the shared engine.
func needImage(t testing.TB, ref string) {
	t.Helper()
	needEngine(t)
	engine.once.Lock()
	defer engine.once.Unlock()
	err, ok := engine.images[ref]
	if !ok {
		err = importImage(engine.host, ref)
		engine.images[ref] = err
	}
	var missing missingProgram
	if errors.As(err, &missing) {
		t.Skip(err)
	}
	require.NoError(t, err)
}

func newClient(t testing.TB, host string) *client.Client {
	t.Helper()
	opts := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if host != "" {
		opts = append(opts, client.WithHost(host))
	}
	api, err := client.NewClientWithOpts(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { api.Close() })
	return api
}

// purge removes the volumes that tell of destroyed sandboxes: the engine may be
// somebody's.
func purge(t testing.TB, host, owner string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	api := newClient(t, host)
	list, err := api.VolumeList(ctx, volume.ListOptions{Filters: filters.NewArgs(
		filters.Arg("label", "countersign.owner="+owner), filters.Arg("label", "countersign.part=gone"))})
	require.NoError(t, err)
	for _, v := range list.Volumes {
		require.NoError(t, api.VolumeRemove(ctx, v.Name, true))
	}
}

func importImage(host, ref string) error {
	root, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := packRoot(w, ref)
		w.CloseWithError(err)
		packed <- err
	}()
	defer root.Close()
	opts := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if host != "" {
		opts = append(opts, client.WithHost(host))
	}
	api, err := client.NewClientWithOpts(opts...)
	if err != nil {
		return err
	}
	defer api.Close()
	if _, err := api.ImageInspect(context.Background(), ref); err == nil {
		root.Close()
		<-packed
		return nil // an engine that has been here before
	}
	env := "ENV HOME=/elsewhere LANG=C.UTF-8"
	if ref == imageEnv {
		env += " FROM_IMAGE=yes"
	}
	r, err := api.ImageImport(context.Background(), image.ImportSource{Source: root, SourceName: "-"}, ref,
		image.ImportOptions{Changes: []string{env, "USER nobody", `ENTRYPOINT ["false"]`}})
	root.Close()
	if perr := <-packed; perr != nil {
		return perr
	}
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(io.Discard, r)
	return err
}

// missingProgram says that the machine lacks what an image is made of.
type missingProgram string

func (m missingProgram) Error() string {
	return "there is no program " + string(m) + " to make an image of"
}

var programs = strings.Fields(`sh bash env sleep cat grep mkdir mkfifo mv rm ln chmod stat dd head tail wc date id du find
	readlink sha256sum setpriv setsid touch ls cp tr yes seq test true false printf nohup timeout mount umount unshare su hostname
	sort sed git tar xargs kill ps tee stty`)

// packRoot writes an image's root directory as tar.
func packRoot(w io.Writer, ref string) error {
	out := rootPacker{tar: tar.NewWriter(w), have: map[string]bool{}}
	for _, dir := range []string{"dev", "etc", "proc", "sys", "tmp", "usr", "usr/bin", "root", "var", "run"} {
		mode := int64(0o755)
		if dir == "root" {
			mode = 0o700
		}
		out.add(tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: mode}, nil)
	}
	for _, link := range []string{"bin", "sbin"} {
		out.add(tar.Header{Typeflag: tar.TypeSymlink, Name: link, Linkname: "usr/bin", Mode: 0o777}, nil)
	}
	// Uid 1000 is taken, as it is in many images.
	out.text("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nsomebody:x:1000:1000::/nowhere:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")
	out.text("etc/group", "root:x:0:\nsomebody:x:1000:\nnogroup:x:65534:\n")
	out.text("etc/shadow", "root:*:1::::::\n")
	if ref == imageBusybox {
		out.busybox()
	} else {
		for _, name := range programs {
			out.program(name)
		}
	}
	if out.err == nil {
		out.err = out.tar.Close()
	}
	return out.err
}

type rootPacker struct {
	tar  *tar.Writer
	have map[string]bool
	err  error
}

func (p *rootPacker) add(h tar.Header, data []byte) {
	if p.err != nil || p.have[h.Name] {
		return
	}
	p.have[h.Name] = true
	h.Size = int64(len(data))
	if p.err = p.tar.WriteHeader(&h); p.err == nil {
		_, p.err = p.tar.Write(data)
	}
}

func (p *rootPacker) text(name, text string) {
	mode := int64(0o644)
	if name == "etc/shadow" {
		mode = 0o600
	}
	p.add(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode}, []byte(text))
}

// file adds a file of this machine under a name, without what links lead to it.
func (p *rootPacker) file(name, from string) {
	if p.err != nil || p.have[name] {
		return
	}
	data, err := os.ReadFile(from)
	if err != nil {
		p.err = err
		return
	}
	p.parents(name)
	p.add(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755}, data)
}

func (p *rootPacker) parents(name string) {
	var dirs []string
	for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
	}
	for _, dir := range slices.Backward(dirs) {
		p.add(tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}, nil)
	}
}

// program adds a program and the libraries that ldd names for it.
func (p *rootPacker) program(name string) {
	path, err := exec.LookPath(name)
	if err != nil {
		p.fail(missingProgram(name))
		return
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		p.fail(err)
		return
	}
	p.file("usr/bin/"+name, path)
	out, err := exec.Command("ldd", path).Output()
	if err != nil {
		return // linked statically
	}
	for _, word := range strings.Fields(string(out)) {
		if filepath.IsAbs(word) {
			p.file(strings.TrimPrefix(word, "/"), word)
		}
	}
}

func (p *rootPacker) busybox() {
	path, err := exec.LookPath("busybox")
	if err != nil {
		p.fail(missingProgram("busybox"))
		return
	}
	if out, err := exec.Command("ldd", path).CombinedOutput(); err == nil && !bytes.Contains(out, []byte("statically")) {
		p.fail(missingProgram("busybox, linked statically"))
		return
	}
	p.file("usr/bin/busybox", path)
	out, err := exec.Command(path, "--list").Output()
	if err != nil {
		p.fail(err)
		return
	}
	for _, name := range strings.Fields(string(out)) {
		if name != "busybox" {
			p.add(tar.Header{Typeflag: tar.TypeSymlink, Name: "usr/bin/" + name, Linkname: "busybox", Mode: 0o777}, nil)
		}
	}
}

func (p *rootPacker) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}
