// Package process is what the executables share: flags, settings, logger,
// signals and exit codes.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/countersign/countersign/internal/config"
	"github.com/countersign/countersign/internal/config/datadir"
	"github.com/countersign/countersign/internal/telemetry"
)

// Exit codes.
const (
	ExitOK     = 0
	ExitFailed = 1
	// ExitUsage is for flags and arguments that make no sense.
	ExitUsage = 2
)

// ExitError ends the process with Code without another word: the command has
// said what there is to say.
type ExitError struct{ Code int }

func (e ExitError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// usageError is an argument that makes no sense, found after the flags were parsed.
type usageError struct{ problem string }

func (e usageError) Error() string { return e.problem }

// Env is what a command may use of its surroundings, so that tests can give it
// others.
type Env struct {
	Args           []string
	Environ        []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// OSEnv is the process's own.
func OSEnv() *Env {
	return &Env{Args: os.Args[1:], Environ: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
}

// Main parses e's arguments into cli, a pointer to a struct for kong, runs the
// command chosen and returns the exit code. Commands are methods
// Run(context.Context, *Env) error. The context ends at the first SIGINT or
// SIGTERM; a second one ends the process at once.
func Main(name, description string, cli any, e *Env) int {
	closeOnExec()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	exited := -1
	parser, err := kong.New(cli, kong.Name(name), kong.Description(description),
		kong.Writers(e.Stdout, e.Stderr), kong.Exit(func(code int) { exited = code }),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(e))
	if err != nil {
		return fail(e, name, fmt.Errorf("flags: %w", err), ExitFailed)
	}
	command, err := parser.Parse(e.Args)
	if exited >= 0 { // --help
		return exited
	}
	if err != nil {
		return fail(e, name, err, ExitUsage)
	}
	err = command.Run()
	var exit ExitError
	var usage usageError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &usage):
		return fail(e, name, err, ExitUsage)
	case errors.As(err, &exit):
		return exit.Code
	}
	return fail(e, name, err, ExitFailed)
}

func fail(e *Env, name string, err error, code int) int {
	_, _ = fmt.Fprintf(e.Stderr, "%s: %v\n", name, err)
	return code
}

// Flags are the flags that every executable has. The zero value of one leaves
// the setting to the environment and the file.
type Flags struct {
	Config   string   `help:"Settings file; countersign.yaml in the working directory by default." placeholder:"FILE"`
	DataDir  string   `help:"Directory of all state on this machine (data_dir)." placeholder:"DIR"`
	LogLevel string   `help:"debug, info, warn or error (log.level)." placeholder:"LEVEL"`
	Set      []string `help:"Any setting, by its key; may be repeated." placeholder:"KEY=VALUE" sep:"none"`
}

// Values are the settings that the flags give, with extra ones of the command,
// by key; those of extra that are empty are left out.
func (f Flags) Values(extra map[string]string) (map[string]string, error) {
	values := map[string]string{}
	for _, text := range f.Set {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, usageError{"--set " + text + ": write it as KEY=VALUE"}
		}
		values[key] = value
	}
	named := map[string]string{"data_dir": f.DataDir, "log.level": f.LogLevel}
	for key, value := range extra {
		named[key] = value
	}
	for key, value := range named {
		if value != "" {
			values[key] = value
		}
	}
	return values, nil
}

// Load reads the settings of a process that connects to a Temporal server. On
// the data directory of a cmd/dev that is that server it takes the cmd/dev's
// settings, and fromDev is true; with no address given it looks for the server
// there.
func (f Flags) Load(e *Env, extra map[string]string) (c *config.Config, fromDev bool, err error) {
	values, err := f.Values(extra)
	if err != nil {
		return nil, false, err
	}
	sources := config.Sources{File: f.Config, Environ: e.Environ, Flags: values}
	c, err = config.Load(sources)
	if err != nil {
		return nil, false, err
	}
	if _, err := os.Stat(c.DataDir); err != nil {
		return c, false, nil
	}
	dir, err := datadir.Open(c.DataDir)
	if err != nil {
		return nil, false, err
	}
	snapshot, err := dir.ReadSettings()
	if err != nil || snapshot == nil {
		return c, false, err
	}
	sources.Defaults = map[string]string{
		"temporal.address": snapshot.TemporalAddress, "temporal.namespace": snapshot.Namespace,
	}
	if c, err = config.Load(sources); err != nil {
		return nil, false, err
	}
	if c.Temporal.Address != snapshot.TemporalAddress || c.Temporal.Namespace != snapshot.Namespace {
		return c, false, nil
	}
	sources.Snapshot = snapshot
	c, err = config.Load(sources)
	return c, err == nil, err
}

// Logger makes the process's logger and writes the settings' warnings to it.
func Logger(e *Env, c *config.Config) (*slog.Logger, error) {
	log, err := telemetry.NewLogger(e.Stderr, telemetry.Options{Level: c.Log.Level, Secrets: c.Secrets()})
	if err != nil {
		return nil, err
	}
	for _, w := range c.Warnings() {
		log.Warn("Setting to look at", "warning", w)
	}
	return log, nil
}
