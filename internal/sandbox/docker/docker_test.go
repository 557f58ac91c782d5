package docker_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/docker"
	"github.com/countersign/countersign/internal/sandbox/sandboxtest"
)

// open reads the image from the owner's name, and the engine from the
// environment: a worker in another process must open it alike.
func open(_ context.Context, owner string) (sandbox.Backend, error) {
	ref := imageBash
	if strings.HasPrefix(owner, "busybox") {
		ref = imageBusybox
	}
	return docker.New(docker.Config{
		Host: os.Getenv(hostEnv), Owner: owner, Image: ref, Memory: 512 << 20, Forwarder: os.Getenv(forwarderEnv),
	})
}

// forwarderEnv names the forwarder that the tests built.
const forwarderEnv = "COUNTERSIGN_TEST_FORWARDER"

// buildForwarder builds one that needs no library.
func buildForwarder(dir string) {
	exe := filepath.Join(dir, "forward")
	cmd := exec.Command("go", "build", "-o", exe, "../egress/testdata/forward")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the forwarder: %v\n%s", err, out)
		return
	}
	_ = os.Setenv(forwarderEnv, exe)
}

// TestMain runs the tests in a process of their own where an engine had to be
// started for them: sandboxtest.Main does not return, and the engine must go.
func TestMain(m *testing.M) {
	openEngine()
	if os.Getenv(forwarderEnv) == "" && engine.problem == nil {
		dir, err := engine.dir, error(nil)
		if dir == "" {
			dir, err = os.MkdirTemp("", "countersign-forwarder-")
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		buildForwarder(dir)
	}
	if engine.own == nil {
		sandboxtest.Main(m, open)
		return
	}
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), hostEnv+"="+engine.host)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	closeEngine()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func fixture(prefix string) sandboxtest.Fixture {
	return sandboxtest.Fixture{
		Open: open,
		Dir: func(t *testing.T) string {
			owner := prefix + "-" + rand.Text()
			t.Cleanup(func() { purge(t, engine.host, owner) })
			return owner
		},
		Secret: func(string) string { return "/proc/1/root/countersign/named" },
	}
}

// The suites run before the other tests, not beside them: they measure memory.
func TestSuite(t *testing.T) { //nolint:paralleltest
	needImage(t, imageBash)
	sandboxtest.Run(t, fixture("bash"))
}

// TestSuiteBusybox runs it where sh is all there is.
func TestSuiteBusybox(t *testing.T) { //nolint:paralleltest
	needImage(t, imageBusybox)
	f := fixture("busybox")
	dir := f.Dir
	f.Dir = func(t *testing.T) string {
		if strings.HasSuffix(t.Name(), "/Isolation") {
			// What confines is the same as with bash.
			t.Skip("the suite counts processes, and busybox's shell leaves those of earlier execs for a moment")
		}
		return dir(t)
	}
	sandboxtest.Run(t, f)
}

func newID() string { return strings.ToLower(rand.Text()[:12]) }
