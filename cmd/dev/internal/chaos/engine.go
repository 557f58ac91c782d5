package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/countersign/countersign/internal/sandbox/docker/ownengine"
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

// engine is the run's own, on its own socket and data directory.
type engine struct {
	*part
	*ownengine.Engine
	// runtime is its containerd, which is not hit.
	runtime *part
}

// startEngine starts an engine for the run in dir and gives it its image. It has its
// files beside the run's directory, as its processes are no sandbox's.
func startEngine(ctx context.Context, dir string) (*engine, error) {
	home := dir + "-engine"
	if err := os.MkdirAll(home, 0o711); err != nil {
		return nil, fmt.Errorf("making the engine's directory: %w", err)
	}
	own, err := ownengine.New(home)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(home))
	}
	e := &engine{
		Engine:  own,
		runtime: &part{name: "containerd", dir: dir, argv: own.Containerd()},
		part:    &part{name: "engine", dir: dir, supervised: true, argv: own.Dockerd()},
	}
	if err := e.runtime.start(); err != nil {
		return e, err
	}
	if err := e.start(); err != nil {
		return e, err
	}
	if err := e.await(ctx); err != nil {
		return e, err
	}
	return e, e.Busybox(ctx, engineImage)
}

// await waits until the engine answers.
func (e *engine) await(ctx context.Context) error {
	return until(ctx, startWithin, "the Docker engine answers; see logs/engine", func() (bool, error) {
		_, err := e.API.Ping(ctx)
		return err == nil, nil
	})
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
	list, err := e.API.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", "countersign.sandbox"))})
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
	if e == nil {
		return
	}
	defer e.Sweep()
	defer e.runtime.kill()
	ctx, cancel := context.WithTimeout(context.Background(), engineStopsWithin)
	defer cancel()
	e.Empty(ctx)
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
