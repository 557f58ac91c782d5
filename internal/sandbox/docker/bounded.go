package docker

import (
	"context"
	"io"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
)

// How long calls may take that an engine answers which lives, on a machine under
// load. What moves data, 0, takes as long as it takes.
const (
	lookLimit  = 20 * time.Second // looks into its books, and small entries there
	workLimit  = time.Minute      // lists of all it has; processes and containers begin and end
	sweepLimit = 5 * time.Minute  // files are removed
)

// engine is the Docker engine. It has the calls that this package makes, under the
// client's own names, and none of them waits longer than such a call can take for an
// engine that has stopped answering.
type engine struct {
	*pulse
	api  *client.Client
	stop context.CancelFunc
}

func newEngine(api *client.Client) *engine {
	ctx, cancel := context.WithCancel(context.Background())
	return &engine{api: api, stop: cancel, pulse: newPulse(ctx.Done(), func(ctx context.Context) error {
		_, err := api.Ping(ctx)
		return err
	})}
}

// Close gives the connections back.
func (e *engine) Close() error {
	e.stop()
	return e.api.Close()
}

// DaemonHost is the engine's address.
func (e *engine) DaemonHost() string { return e.api.DaemonHost() }

// bounded makes one call.
func bounded[T any](ctx context.Context, e *engine, limit time.Duration, call func(context.Context) (T, error)) (T, error) {
	ctx, end := e.watch(ctx, limit)
	defer end()
	v, err := call(ctx)
	return v, why(ctx, err)
}

// do is bounded for calls that return an error alone.
func (e *engine) do(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	ctx, end := e.watch(ctx, limit)
	defer end()
	return why(ctx, call(ctx))
}

func (e *engine) ContainerCommit(ctx context.Context, id string, opts container.CommitOptions) (container.CommitResponse, error) {
	return bounded(ctx, e, 0, func(ctx context.Context) (container.CommitResponse, error) {
		return e.api.ContainerCommit(ctx, id, opts)
	})
}

// ContainerCreate makes a container on this engine's own platform.
func (e *engine) ContainerCreate(
	ctx context.Context, config *container.Config, host *container.HostConfig, name string,
) (container.CreateResponse, error) {
	return bounded(ctx, e, workLimit, func(ctx context.Context) (container.CreateResponse, error) {
		return e.api.ContainerCreate(ctx, config, host, nil, nil, name)
	})
}

func (e *engine) ContainerExecCreate(ctx context.Context, id string, opts container.ExecOptions) (container.ExecCreateResponse, error) {
	return bounded(ctx, e, lookLimit, func(ctx context.Context) (container.ExecCreateResponse, error) {
		return e.api.ContainerExecCreate(ctx, id, opts)
	})
}

// ContainerExecAttach starts an exec and returns its stdio, for which the caller
// watches the engine. The client waits for the engine's first word whatever becomes
// of ctx; it is then left to wait alone.
func (e *engine) ContainerExecAttach(ctx context.Context, exec string) (types.HijackedResponse, error) {
	ctx, end := e.watch(ctx, lookLimit)
	defer end()
	type attached struct {
		conn types.HijackedResponse
		err  error
	}
	answer := make(chan attached, 1)
	go func() {
		conn, err := e.api.ContainerExecAttach(ctx, exec, container.ExecAttachOptions{})
		answer <- attached{conn, err}
	}()
	select {
	case a := <-answer:
		return a.conn, why(ctx, a.err)
	case <-ctx.Done():
		go func() {
			if late := <-answer; late.err == nil {
				late.conn.Close()
			}
		}()
		return types.HijackedResponse{}, why(ctx, ctx.Err())
	}
}

func (e *engine) ContainerExecInspect(ctx context.Context, exec string) (container.ExecInspect, error) {
	return bounded(ctx, e, lookLimit, func(ctx context.Context) (container.ExecInspect, error) { return e.api.ContainerExecInspect(ctx, exec) })
}

func (e *engine) ContainerInspect(ctx context.Context, id string) (container.InspectResponse, error) {
	return bounded(ctx, e, lookLimit, func(ctx context.Context) (container.InspectResponse, error) { return e.api.ContainerInspect(ctx, id) })
}

func (e *engine) ContainerKill(ctx context.Context, id, signal string) error {
	return e.do(ctx, workLimit, func(ctx context.Context) error { return e.api.ContainerKill(ctx, id, signal) })
}

func (e *engine) ContainerList(ctx context.Context, opts container.ListOptions) ([]container.Summary, error) {
	return bounded(ctx, e, workLimit, func(ctx context.Context) ([]container.Summary, error) { return e.api.ContainerList(ctx, opts) })
}

func (e *engine) ContainerRemove(ctx context.Context, id string, opts container.RemoveOptions) error {
	return e.do(ctx, sweepLimit, func(ctx context.Context) error { return e.api.ContainerRemove(ctx, id, opts) })
}

func (e *engine) ContainerRename(ctx context.Context, id, name string) error {
	return e.do(ctx, lookLimit, func(ctx context.Context) error { return e.api.ContainerRename(ctx, id, name) })
}

func (e *engine) ContainerStart(ctx context.Context, id string) error {
	return e.do(ctx, workLimit, func(ctx context.Context) error { return e.api.ContainerStart(ctx, id, container.StartOptions{}) })
}

func (e *engine) ContainerStop(ctx context.Context, id string, opts container.StopOptions) error {
	return e.do(ctx, workLimit, func(ctx context.Context) error { return e.api.ContainerStop(ctx, id, opts) })
}

func (e *engine) ContainerUnpause(ctx context.Context, id string) error {
	return e.do(ctx, workLimit, func(ctx context.Context) error { return e.api.ContainerUnpause(ctx, id) })
}

// CopyFromContainer gives use what is at a path, as tar.
func (e *engine) CopyFromContainer(ctx context.Context, id, at string, use func(io.Reader) error) error {
	return e.do(ctx, 0, func(ctx context.Context) error {
		r, _, err := e.api.CopyFromContainer(ctx, id, at)
		if err != nil {
			return err
		}
		defer r.Close()
		return use(r)
	})
}

func (e *engine) CopyToContainer(ctx context.Context, id, dir string, content io.Reader) error {
	return e.do(ctx, 0, func(ctx context.Context) error {
		return e.api.CopyToContainer(ctx, id, dir, content, container.CopyToContainerOptions{})
	})
}

func (e *engine) ImageInspect(ctx context.Context, ref string) (image.InspectResponse, error) {
	return bounded(ctx, e, lookLimit, func(ctx context.Context) (image.InspectResponse, error) { return e.api.ImageInspect(ctx, ref) })
}

func (e *engine) ImageList(ctx context.Context, opts image.ListOptions) ([]image.Summary, error) {
	return bounded(ctx, e, workLimit, func(ctx context.Context) ([]image.Summary, error) { return e.api.ImageList(ctx, opts) })
}

// ImagePull gives use what the engine says while it pulls.
func (e *engine) ImagePull(ctx context.Context, ref string, use func(io.Reader) error) error {
	return e.do(ctx, 0, func(ctx context.Context) error {
		r, err := e.api.ImagePull(ctx, ref, image.PullOptions{})
		if err != nil {
			return err
		}
		defer r.Close()
		return use(r)
	})
}

func (e *engine) ImageRemove(ctx context.Context, ref string, opts image.RemoveOptions) ([]image.DeleteResponse, error) {
	return bounded(ctx, e, sweepLimit, func(ctx context.Context) ([]image.DeleteResponse, error) { return e.api.ImageRemove(ctx, ref, opts) })
}

func (e *engine) VolumeCreate(ctx context.Context, opts volume.CreateOptions) (volume.Volume, error) {
	return bounded(ctx, e, lookLimit, func(ctx context.Context) (volume.Volume, error) { return e.api.VolumeCreate(ctx, opts) })
}

func (e *engine) VolumeInspect(ctx context.Context, name string) (volume.Volume, error) {
	return bounded(ctx, e, lookLimit, func(ctx context.Context) (volume.Volume, error) { return e.api.VolumeInspect(ctx, name) })
}

func (e *engine) VolumeList(ctx context.Context, opts volume.ListOptions) (volume.ListResponse, error) {
	return bounded(ctx, e, workLimit, func(ctx context.Context) (volume.ListResponse, error) { return e.api.VolumeList(ctx, opts) })
}

func (e *engine) VolumeRemove(ctx context.Context, name string, force bool) error {
	return e.do(ctx, sweepLimit, func(ctx context.Context) error { return e.api.VolumeRemove(ctx, name, force) })
}
