package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/cmd/internal/workerapp"
	"github.com/countersign/countersign/internal/config"
	"github.com/countersign/countersign/internal/config/datadir"
	"github.com/countersign/countersign/internal/devserver"
	"github.com/countersign/countersign/internal/workflows"
)

// asProgram makes this binary run cmd/dev instead of tests.
const asProgram = "DEV_TEST_AS_PROGRAM"

// within bounds everything that a test waits for.
const within = 2 * time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program is a running executable.
type program struct {
	*exec.Cmd
	t           *testing.T
	out, errors *bytes.Buffer
	ended       chan error
}

func start(t *testing.T, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{Cmd: cmd, t: t, out: &bytes.Buffer{}, errors: &bytes.Buffer{}, ended: make(chan error, 1)}
	cmd.Stdout, cmd.Stderr = p.out, p.errors
	require.NoError(t, cmd.Start())
	go func() { p.ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return p
}

// end sends sig and returns the exit code.
func (p *program) end(sig os.Signal) int {
	p.t.Helper()
	require.NoError(p.t, p.Process.Signal(sig))
	return p.wait()
}

func (p *program) wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(within):
		p.t.Fatalf("%s did not end:\n%s", p.Path, p.errors)
	}
	return p.ProcessState.ExitCode()
}

// environment is a small one, whatever settings the tests were started with.
func environment(t *testing.T, more ...string) []string {
	t.Helper()
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + os.TempDir()}, more...)
}

// startDev runs cmd/dev on dir until dev.json is there.
func startDev(t *testing.T, dir string, args ...string) (*program, datadir.Dev) {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"--data-dir", dir, "--model", "offline", "--web-listen", "127.0.0.1:0"}, args...)...)
	cmd.Dir, cmd.Env = t.TempDir(), environment(t, asProgram+"=1")
	p := start(t, cmd)
	d, err := datadir.Open(dir)
	require.NoError(t, err)
	deadline := time.After(within)
	for {
		select {
		case err := <-p.ended:
			p.ended <- err
			t.Fatalf("cmd/dev ended:\n%s", p.errors)
		case <-deadline:
			t.Fatalf("cmd/dev did not come up")
		case <-time.After(20 * time.Millisecond):
		}
		published, ok, err := d.ReadDev()
		if ok && err == nil && published.PID == cmd.Process.Pid {
			return p, published
		}
	}
}

func TestUpDownAndUpAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	p, first := startDev(t, dir)
	info, err := os.Stat(filepath.Join(dir, "dev.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.Equal(t, "default", first.Namespace)
	require.NotEmpty(t, first.Token)
	resp, err := http.Get(first.UIURL)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)

	second := start(t, func() *exec.Cmd {
		cmd := exec.Command(os.Args[0], "--data-dir", dir)
		cmd.Env = environment(t, asProgram+"=1")
		return cmd
	}())
	require.Equal(t, process.ExitFailed, second.wait())
	require.Equal(t, fmt.Sprintf("dev: another cmd/dev (pid %d) uses the data directory %s; stop it, or name another directory with --data-dir\n",
		p.Process.Pid, dir), second.errors.String())
	require.FileExists(t, filepath.Join(dir, "dev.json"), "the second one must not take the first one's away")

	require.Equal(t, 0, p.end(syscall.SIGTERM), p.errors)
	require.NoFileExists(t, filepath.Join(dir, "dev.json"))
	require.Contains(t, p.out.String(), "Countersign is up.")
	require.NotContains(t, p.errors.String(), `"level":"ERROR"`)
	require.NotContains(t, p.errors.String(), first.Token, "the token is not logged")

	p, again := startDev(t, dir)
	require.Equal(t, first.TemporalAddress, again.TemporalAddress, "workers of their own find the server again")
	require.Equal(t, first.Token, again.Token, "open pages stay signed in")
	require.Equal(t, -1, p.end(syscall.SIGKILL))
	p, killed := startDev(t, dir)
	require.Equal(t, first.TemporalAddress, killed.TemporalAddress)
	require.Equal(t, again.UIURL, killed.UIURL)
	require.Equal(t, 0, p.end(syscall.SIGINT), p.errors)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"unwritable":     {[]string{"--data-dir", file + "/d"}, 1, "cannot be made (not a directory); name another one with --data-dir"},
		"not loopback":   {[]string{"--web-listen", "0.0.0.0:1"}, 1, "0.0.0.0:1 is not a loopback address"},
		"no workspace":   {[]string{"--workspace", file}, 1, "is not a directory"},
		"unknown key":    {[]string{"--set", "aproval.ttl=1h"}, 1, "aproval.ttl: unknown setting"},
		"unknown part":   {[]string{"--without", "temporal"}, 2, "--without"},
		"unknown flag":   {[]string{"--nothing"}, 2, "--nothing"},
		"no such file":   {[]string{"--config", file + ".yaml"}, 1, "no such file"},
		"unknown planet": {[]string{"mars"}, 2, "mars"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var errs bytes.Buffer
			dir := filepath.Join(t.TempDir(), "data")
			args := append([]string{"--set", "data_dir=" + dir}, c.args...)
			code := process.Main("dev", description, &cli{}, &process.Env{Args: args, Stdout: io.Discard, Stderr: &errs})
			require.Equal(t, c.code, code)
			require.Contains(t, errs.String(), c.want)
			require.NoDirExists(t, dir, "nothing is made for a start that is refused")
		})
	}
}

func TestTheDatabasesVariable(t *testing.T) {
	t.Parallel()
	f, ok := reflect.TypeFor[runCmd]().FieldByName("DBURL")
	require.True(t, ok)
	require.Equal(t, config.DevDatabase, f.Tag.Get("env"))
}

// pollers counts who polls a queue of the server at address.
func pollers(t *testing.T, address, queue string) int {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: address, Logger: silent{}})
	if err != nil {
		return 0
	}
	defer c.Close()
	d, err := c.DescribeTaskQueue(t.Context(), queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		return 0
	}
	return len(d.Pollers)
}

type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}

// workerBinary is cmd/worker: from the directory that COUNTERSIGN_E2E_BIN names, else
// built.
func workerBinary(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("COUNTERSIGN_E2E_BIN"); dir != "" {
		return filepath.Join(dir, "worker")
	}
	binary := filepath.Join(t.TempDir(), "worker")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../worker").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}

// A worker of its own on the data directory finds the server, outlives a
// SIGKILL of cmd/dev, and keeps a second one out.
func TestWorkerOfItsOwn(t *testing.T) {
	t.Parallel()
	binary := workerBinary(t)
	dir := filepath.Join(t.TempDir(), "data")
	p, published := startDev(t, dir, "--without", "worker")
	require.Zero(t, pollers(t, published.TemporalAddress, workflows.TaskQueueReasoning))

	command := func() *exec.Cmd {
		cmd := exec.Command(binary)
		cmd.Dir, cmd.Env = t.TempDir(), environment(t, "COUNTERSIGN_DATA_DIR="+dir)
		return cmd
	}
	w := start(t, command())
	polls := func() bool { return pollers(t, published.TemporalAddress, workflows.TaskQueueReasoning) > 0 }
	require.Eventually(t, polls, within, 50*time.Millisecond)
	second := start(t, command())
	require.Equal(t, process.ExitFailed, second.wait())
	require.Contains(t, second.errors.String(), fmt.Sprintf("another worker (pid %d) uses the data directory", w.Process.Pid))

	require.Equal(t, -1, p.end(syscall.SIGKILL))
	p, again := startDev(t, dir, "--without", "worker")
	require.Equal(t, published.TemporalAddress, again.TemporalAddress)
	require.Eventually(t, polls, within, 50*time.Millisecond)
	require.Equal(t, 0, w.end(syscall.SIGTERM), w.errors)
	require.Equal(t, 0, p.end(syscall.SIGTERM), p.errors)
}

// The worker creates the search attributes that a namespace lacks, and says so
// when it finds one of another type.
func TestWorkerCreatesSearchAttributes(t *testing.T) {
	t.Parallel()
	s, err := devserver.Start(t.Context(), devserver.Options{
		InMemory: true, Namespaces: []string{"bare", "odd"},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Stop() })
	run := func(namespace string) error {
		c, err := s.Dial(t.Context(), namespace)
		require.NoError(t, err)
		t.Cleanup(c.Close)
		cfg, err := config.Load(config.Sources{Flags: map[string]string{"data_dir": t.TempDir(), "temporal.namespace": namespace}})
		require.NoError(t, err)
		dir, err := datadir.Open(cfg.DataDir)
		require.NoError(t, err)
		log, err := process.Logger(&process.Env{Stderr: io.Discard}, cfg)
		require.NoError(t, err)
		w, err := workerapp.Start(t.Context(), workerapp.Options{Config: cfg, Client: c, Dir: dir, Log: log})
		if err == nil {
			require.NoError(t, w.Stop())
		}
		return err
	}
	require.NoError(t, run("bare"))
	require.NoError(t, run("bare"), "a second start finds them")
	admin, err := s.Dial(t.Context(), "odd")
	require.NoError(t, err)
	t.Cleanup(admin.Close)
	list, err := admin.OperatorService().ListSearchAttributes(t.Context(), &operatorservice.ListSearchAttributesRequest{Namespace: "bare"})
	require.NoError(t, err)
	for name, kind := range workerapp.SearchAttributes() {
		require.Equal(t, kind, list.CustomAttributes[name], name)
	}
	_, err = admin.OperatorService().AddSearchAttributes(context.Background(), &operatorservice.AddSearchAttributesRequest{
		Namespace:        "odd",
		SearchAttributes: map[string]enumspb.IndexedValueType{workflows.SearchAttributeWaiting: enumspb.INDEXED_VALUE_TYPE_TEXT},
	})
	require.NoError(t, err)
	require.ErrorContains(t, run("odd"), "CountersignWaiting as Text and not Int")
	err = run("absent")
	require.ErrorContains(t, err, "temporal operator search-attribute create --namespace absent --name CountersignLiveness --type Keyword")
	require.Equal(t, 1, strings.Count(err.Error(), "\n"))
}
