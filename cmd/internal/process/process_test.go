package process_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/internal/config"
	"github.com/countersign/countersign/internal/config/datadir"
)

type command struct {
	process.Flags
	got map[string]string
	err error
}

// loading is a command that reads the settings.
type loading struct{ process.Flags }

func (c *loading) Run(context.Context) error {
	_, err := c.Values(nil)
	return err
}

func (c *command) Run(ctx context.Context, _ *process.Env) error {
	if ctx.Err() != nil {
		return errors.New("the context has ended")
	}
	c.got, _ = c.Values(map[string]string{"openai.model": "offline", "web.listen": ""})
	return c.err
}

func run(c *command, args ...string) (int, string, string) {
	var out, errs bytes.Buffer
	code := process.Main("prog", "Does things.", c, &process.Env{Args: args, Stdout: &out, Stderr: &errs})
	return code, out.String(), errs.String()
}

func TestMainExitCodes(t *testing.T) {
	t.Parallel()
	c := &command{}
	code, _, errs := run(c, "--data-dir", "/d", "--set", "approvals.approvers=ada,grace", "--set", "policy.file=a=b")
	require.Equal(t, 0, code, errs)
	require.Equal(t, map[string]string{
		"data_dir": "/d", "approvals.approvers": "ada,grace", "policy.file": "a=b", "openai.model": "offline",
	}, c.got)

	code, _, errs = run(&command{err: errors.New("the disk is full")})
	require.Equal(t, process.ExitFailed, code)
	require.Equal(t, "prog: the disk is full\n", errs)

	code, _, errs = run(&command{err: process.ExitError{Code: 3}})
	require.Equal(t, 3, code)
	require.Empty(t, errs, "the command has said what there is to say")

	code, _, errs = run(&command{}, "--no-such-flag")
	require.Equal(t, process.ExitUsage, code)
	require.Contains(t, errs, "--no-such-flag")

	code, out, _ := run(&command{err: errors.New("must not run")}, "--help")
	require.Equal(t, 0, code)
	require.Contains(t, out, "Does things.")
}

func TestSetWithoutValue(t *testing.T) {
	t.Parallel()
	_, err := process.Flags{Set: []string{"log.level"}}.Values(nil)
	require.EqualError(t, err, "--set log.level: write it as KEY=VALUE")
	for _, text := range []string{"log.level", "=debug"} {
		var errs bytes.Buffer
		code := process.Main("prog", "", &loading{}, &process.Env{Args: []string{"--set", text}, Stderr: &errs})
		require.Equal(t, process.ExitUsage, code)
		require.Equal(t, "prog: --set "+text+": write it as KEY=VALUE\n", errs.String())
	}
}

// A worker on a cmd/dev's data directory takes its server and its settings; one
// that is pointed at another server takes neither.
func TestLoadOnTheDirectoryOfADev(t *testing.T) {
	t.Parallel()
	dir, err := datadir.Open(filepath.Join(t.TempDir(), "d"))
	require.NoError(t, err)
	flags := process.Flags{DataDir: dir.Path()}
	load := func(env ...string) (*config.Config, bool) {
		env = append(env, "TEMPORAL_CONFIG_FILE="+filepath.Join(t.TempDir(), "none.toml"), "COUNTERSIGN_OPENAI_MODEL=mine")
		c, fromDev, err := flags.Load(&process.Env{Environ: env}, nil)
		require.NoError(t, err)
		return c, fromDev
	}
	c, fromDev := load()
	require.False(t, fromDev)
	require.Equal(t, config.DefaultTemporalAddress, c.Temporal.Address)

	dev, err := config.Load(config.Sources{Embedded: true, Flags: map[string]string{
		"data_dir": dir.Path(), "openai.model": "offline", "approvals.approvers": "*",
	}})
	require.NoError(t, err)
	require.NoError(t, dir.WriteSettings(dev.Snapshot("127.0.0.1:4711", "default")))
	for _, env := range [][]string{nil, {"TEMPORAL_ADDRESS=127.0.0.1:4711"}} {
		c, fromDev = load(env...)
		require.True(t, fromDev)
		require.Equal(t, "127.0.0.1:4711", c.Temporal.Address)
		require.Equal(t, "offline", c.OpenAI.Model)
		require.Equal(t, []string{"*"}, c.Approvals.Approvers)
	}
	for _, env := range [][]string{{"TEMPORAL_ADDRESS=temporal.example:7233"}, {"TEMPORAL_NAMESPACE=other"}} {
		c, fromDev = load(env...)
		require.False(t, fromDev)
		require.Equal(t, "mine", c.OpenAI.Model)
	}
	withFlag, fromDev, err := flags.Load(&process.Env{}, map[string]string{"openai.model": "flag"})
	require.NoError(t, err)
	require.True(t, fromDev)
	require.Equal(t, "flag", withFlag.OpenAI.Model)
}

type service struct {
	failed  chan error
	stopped *[]string
	name    string
}

func (s service) Failed() <-chan error { return s.failed }
func (s service) Stop() error          { *s.stopped = append(*s.stopped, s.name); return nil }

func TestServeStopsAllInReverse(t *testing.T) {
	t.Parallel()
	var stopped []string
	a := service{make(chan error, 1), &stopped, "a"}
	b := service{make(chan error, 1), &stopped, "b"}
	a.failed <- errors.New("a broke")
	require.EqualError(t, process.Serve(t.Context(), a, b), "a broke")
	require.Equal(t, []string{"b", "a"}, stopped)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, process.Serve(ctx, b))
}
