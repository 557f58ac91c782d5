package docker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"

	"github.com/countersign/countersign/internal/sandbox"
)

// newMark is in the name of a container that is being made, before a random
// word: its own name comes last, when all is in place.
const newMark = ".new-"

// parts are a sandbox's volumes, by the place where they are mounted.
var parts = [...]struct{ name, at string }{
	{"workspace", insideWorkspace}, {"home", insideHome}, {"execs", insideRoot},
}

// create makes a sandbox aside and puts it in place whole. When somebody else
// was faster, theirs stays.
func (b *Backend) create(ctx context.Context, name string, spec sandbox.Spec) (*session, error) {
	img, err := b.image(ctx, spec)
	if err != nil {
		return nil, err
	}
	set := random()
	s, err := b.createAside(ctx, img, name, set, spec)
	if err == nil {
		err = b.place(ctx, s)
	}
	if err == nil {
		return s, nil
	}
	b.discard(ctx, name, set)
	if errdefs.IsConflict(err) {
		// Of the name, or of something else that the engine calls so, such as a
		// container that has ended.
		c, ierr := b.api.ContainerInspect(ctx, name)
		switch {
		case ierr == nil:
			return b.resume(ctx, name, c.ID, spec)
		case !errdefs.IsNotFound(ierr):
			return nil, b.fail("looking for the sandbox", ierr)
		}
	}
	return nil, err
}

func (b *Backend) createAside(ctx context.Context, img, name, set string, spec sandbox.Spec) (*session, error) {
	labels := b.labels(name, spec)
	labels[labelSet] = set
	labels[labelMaker] = b.maker
	labels[labelMade] = strconv.FormatInt(time.Now().Unix(), 10)
	for _, p := range parts {
		if err := b.createVolume(ctx, volumeName(name, set, p.name), p.name, labels); err != nil {
			return nil, err
		}
	}
	s, err := b.createContainer(ctx, img, name, set, labels, spec)
	if err != nil {
		return nil, err
	}
	rest, err := b.fill(ctx, s.id, spec.Seed)
	if err != nil {
		return nil, err
	}
	if err = s.start(ctx); err == nil {
		err = s.greet(ctx, false)
	}
	if err == nil {
		err = s.finish(ctx, rest)
	}
	if err == nil && spec.Seed.Filled != nil && spec.Seed.Snapshot != nil {
		spec.Seed.Filled(ctx, s)
	}
	if err != nil {
		s.hangUp()
		return nil, s.endedAtOnce(ctx, err)
	}
	return s, nil
}

// endsWithin is how soon a program that does not run at all has ended, on a busy
// machine.
const endsWithin = 2 * time.Second

// endedAtOnce is the error of a container that is being made; of one whose program
// has ended by itself, what is wrong with its image.
func (s *session) endedAtOnce(ctx context.Context, err error) error {
	var refused *sandbox.RefusedError
	if errors.As(err, &refused) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, endsWithin)
	defer cancel()
	for {
		c, failed := s.b.api.ContainerInspect(ctx, s.id)
		if failed != nil {
			return err
		}
		if !c.State.Running {
			return whyEnded(s.image, c.State.ExitCode, err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(endsWithin / 20):
		}
	}
}

// whyEnded is about a container whose program has ended by itself, err about one
// that somebody has killed.
func whyEnded(image string, code int, err error) error {
	switch {
	case code == codeNotFound:
		return unusable(image, "it has no sleep")
	case code > 0 && code < codeNotFound:
		return unusable(image, fmt.Sprintf("its sleep ends at once, with exit code %d", code))
	}
	return err
}

// place gives the container its name, unless another has it, or had it and was
// destroyed meanwhile.
func (b *Backend) place(ctx context.Context, s *session) error {
	if err := b.api.ContainerRename(ctx, s.id, s.name); err != nil {
		if errdefs.IsConflict(err) {
			return err
		}
		return b.fail("making a sandbox", err)
	}
	if err := b.checkGone(ctx, s.name); err != nil {
		return err
	}
	_, err := s.hello(ctx, true)
	return err
}

func volumeName(name, set, part string) string { return name + "-" + set + "-" + part }

// createVolume makes a volume with a quota, where the engine's disk has quotas.
func (b *Backend) createVolume(ctx context.Context, volumeName, part string, common map[string]string) error {
	labels := map[string]string{labelPart: part}
	for k, v := range common {
		labels[k] = v
	}
	opts := volume.CreateOptions{Name: volumeName, Labels: labels}
	if b.cfg.Disk > 0 && part != "execs" {
		opts.DriverOpts = map[string]string{"size": strconv.FormatInt(b.cfg.Disk, 10)}
	}
	_, err := b.api.VolumeCreate(ctx, opts)
	if err != nil && opts.DriverOpts != nil && strings.Contains(err.Error(), "quota") {
		opts.DriverOpts = nil
		_, err = b.api.VolumeCreate(ctx, opts)
	}
	return b.fail("making a sandbox's volumes", err)
}

// createContainer makes a container on the volumes of a set.
func (b *Backend) createContainer(ctx context.Context, img, name, set string, labels map[string]string, spec sandbox.Spec) (*session, error) {
	c, err := b.api.ContainerCreate(ctx, &container.Config{
		Image: img, Hostname: "sandbox", User: "0:0", WorkingDir: "/", Labels: labels,
		Entrypoint: []string{"sleep"}, Cmd: []string{"2147483647"}, StopSignal: "SIGTERM",
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
	}, b.hostConfig(name, set), name+newMark+set)
	if err != nil {
		if b.cfg.Runtime != "" && strings.Contains(strings.ToLower(err.Error()), "runtime") {
			return nil, sandbox.Refuse(fmt.Sprintf("The Docker engine has no container runtime called %q: %v.", b.cfg.Runtime, err))
		}
		return nil, b.fail("making a sandbox", err)
	}
	for _, w := range c.Warnings {
		b.cfg.Log.WarnContext(ctx, "The Docker engine limits a sandbox less than asked", "container", name, "warning", w)
	}
	return b.newSession(name, c.ID, spec), nil
}

// hostConfig is what confines a sandbox. The engine's default seccomp and
// AppArmor profiles apply, as nothing is said of them.
func (b *Backend) hostConfig(name, set string) *container.HostConfig {
	yes := true
	h := &container.HostConfig{
		NetworkMode: "none", ReadonlyRootfs: true, Init: &yes, Runtime: b.cfg.Runtime,
		CapDrop: []string{"ALL"}, CapAdd: []string{"SETUID", "SETGID", "KILL"},
		SecurityOpt: []string{"no-new-privileges"},
		IpcMode:     "private",
		Tmpfs: map[string]string{
			"/tmp":     fmt.Sprintf("rw,exec,nosuid,nodev,mode=1777,size=%d", b.cfg.Temp),
			"/var/tmp": fmt.Sprintf("rw,exec,nosuid,nodev,mode=1777,size=%d", b.cfg.Temp),
		},
		LogConfig:     container.LogConfig{Type: "none"},
		RestartPolicy: container.RestartPolicy{Name: "no"},
		Resources: container.Resources{
			Memory: b.cfg.Memory, MemorySwap: b.cfg.Memory, PidsLimit: &b.cfg.PIDs, NanoCPUs: int64(b.cfg.CPUs * 1e9),
		},
	}
	for _, p := range parts {
		h.Mounts = append(h.Mounts, mount.Mount{Type: mount.TypeVolume, Source: volumeName(name, set, p.name), Target: p.at})
	}
	return h
}

// discard removes what create could not finish.
func (b *Backend) discard(ctx context.Context, name, set string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	err := b.removeContainer(ctx, name+newMark+set)
	for _, p := range parts {
		if verr := b.api.VolumeRemove(ctx, volumeName(name, set, p.name), true); verr != nil && !errdefs.IsNotFound(verr) {
			err = errors.Join(err, verr)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if half := [2]string{name, set}; err == nil {
		delete(b.halves, half)
	} else if !b.halves[half] {
		b.halves[half] = true
		b.cfg.Log.WarnContext(ctx, "Half a sandbox stays in the Docker engine for the time being", "container", name, "error", err)
	}
}

// adopt makes a new container on volumes whose container was removed by somebody
// else: stopped ones are what "docker container prune" is for. It returns nil
// where there are no such volumes.
func (b *Backend) adopt(ctx context.Context, name string, spec sandbox.Spec) (*session, error) {
	vols, err := b.api.VolumeList(ctx, volume.ListOptions{Filters: filters.NewArgs(
		filters.Arg("label", labelSandbox+"="+name), filters.Arg("label", labelPart+"=execs"))})
	if err != nil {
		return nil, b.fail("looking for the sandbox", err)
	}
	for _, v := range vols.Volumes {
		s, err := b.tryAdopt(ctx, name, v.Labels[labelSet], spec)
		if s != nil || err != nil {
			return s, err
		}
	}
	return nil, nil
}

func (b *Backend) tryAdopt(ctx context.Context, name, set string, spec sandbox.Spec) (*session, error) {
	for _, p := range parts {
		if _, err := b.api.VolumeInspect(ctx, volumeName(name, set, p.name)); err != nil {
			if errdefs.IsNotFound(err) {
				return nil, nil
			}
			return nil, b.fail("looking for the sandbox", err)
		}
	}
	img, err := b.image(ctx, spec)
	if err != nil {
		return nil, err
	}
	s, err := b.anew(ctx, img, name, set, spec, func() error { return nil })
	if s != nil {
		b.cfg.Log.InfoContext(ctx, "A sandbox's container was gone and has been made anew on its volumes", "container", name)
	}
	return s, err
}
