// Package dockertest gives tests a Docker engine of their own, which they may kill
// and start again: never this machine's.
package dockertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/countersign/countersign/internal/sandbox/docker/ownengine"
)

const (
	// upWithin bounds the start of an engine, on a machine under load too.
	upWithin = 2 * time.Minute
	// downWithin bounds its end; what is left then is killed.
	downWithin = 30 * time.Second
)

// Engine is one that runs, with its containerd. Where it cannot be had
// [ownengine.Cannot] says why.
type Engine struct {
	*ownengine.Engine

	dir             string
	runtime, daemon *exec.Cmd
}

// Start starts an engine in a temporary directory of its own. [Engine.Stop] ends it,
// also after an error with which an engine was returned.
func Start() (*Engine, error) {
	dir, err := os.MkdirTemp("", "cs-engine-")
	if err != nil {
		return nil, fmt.Errorf("making the engine's directory: %w", err)
	}
	e := &Engine{dir: dir}
	if e.Engine, err = ownengine.New(dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if e.runtime, err = e.run(e.Containerd()); err != nil {
		return e, err
	}
	return e, e.Up()
}

// run starts a program whose output is kept in a file.
func (e *Engine) run(argv []string) (*exec.Cmd, error) {
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
	if e.daemon, err = e.run(e.Dockerd()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), upWithin)
	defer cancel()
	for {
		if _, err = e.API.Ping(ctx); err == nil {
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

// Volumes is the directory where the engine makes its volumes.
func (e *Engine) Volumes() string { return filepath.Join(e.dir, "data", "volumes") }

// Halt stops the engine in the middle of whatever it does: it takes connections, and
// answers nothing until [Engine.Resume]. Its containers run on.
func (e *Engine) Halt() error { return e.signal(syscall.SIGSTOP) }

// Resume lets a halted engine go on.
func (e *Engine) Resume() error { return e.signal(syscall.SIGCONT) }

func (e *Engine) signal(sig syscall.Signal) error {
	if err := e.daemon.Process.Signal(sig); err != nil {
		return fmt.Errorf("signalling the Docker engine: %w", err)
	}
	return nil
}

// Stop removes the engine's containers, ends it and removes its directory.
func (e *Engine) Stop() {
	if e.daemon != nil {
		_ = e.Resume() // it may have ended
		ctx, cancel := context.WithTimeout(context.Background(), downWithin)
		e.Empty(ctx)
		cancel()
		_ = e.daemon.Process.Signal(syscall.SIGTERM) // it may have ended
		kill := time.AfterFunc(downWithin, func() { _ = e.daemon.Process.Kill() })
		_ = e.daemon.Wait()
		kill.Stop()
	}
	if e.runtime != nil {
		_ = e.runtime.Process.Kill() // it may have ended
		_ = e.runtime.Wait()
	}
	e.Sweep()
}
