package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/internal/config"
	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/docker"
)

// benchDockerExec compares `true` in a Docker sandbox with docker exec in the same
// container, one after the other.
func benchDockerExec(ctx context.Context, e *process.Env, _ benchOptions) (m measurement, err error) {
	m.what = "docker_exec_command"
	cfg, err := config.Load(config.Sources{Embedded: true, Environ: e.Environ})
	if err != nil {
		return m, err
	}
	d := cfg.Sandbox.Docker
	if m.note = noDocker(ctx, d); m.note != "" {
		return m, nil
	}
	owner := "bench-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	backend, err := docker.New(docker.Config{Host: d.Host, Owner: owner, Image: d.Image, Runtime: d.Runtime})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	s, err := backend.Open(ctx, sandbox.Spec{ID: "bench", Generation: 1})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, s.Destroy(context.WithoutCancel(ctx))) }()
	list, err := dockerCommand(ctx, d, "ps", "-q", "--filter", "label=countersign.owner="+owner)
	if err != nil {
		return m, err
	}
	for i := range benchCalls + benchWarm {
		began := time.Now()
		id := "x" + strconv.Itoa(i)
		if err := s.Start(ctx, sandbox.ExecSpec{ID: id, Command: "true", Limits: sandbox.Limits{Timeout: time.Minute}}); err != nil {
			return m, err
		}
		if err := s.Attach(ctx, id, sandbox.Stdout, 0, discard{}); err != nil {
			return m, err
		}
		m.samples = append(m.samples, milliseconds(time.Since(began)))
		began = time.Now()
		if _, err := dockerCommand(ctx, d, "exec", strings.TrimSpace(list), "true"); err != nil {
			return m, err
		}
		m.yardstick = append(m.yardstick, milliseconds(time.Since(began)))
	}
	m.samples, m.yardstick = m.samples[benchWarm:], m.yardstick[benchWarm:]
	return m, nil
}

// noDocker says why nothing can be measured; empty where it can.
func noDocker(ctx context.Context, d config.Docker) string {
	const not = "not measured: "
	if d.Image == "" {
		return not + "no image is set for Docker sandboxes (sandbox.docker.image)"
	}
	if _, err := exec.LookPath("docker"); err != nil {
		return not + "there is no docker command to compare with"
	}
	if _, err := dockerCommand(ctx, d, "version"); err != nil {
		return not + "no Docker Engine answers"
	}
	return ""
}

func dockerCommand(ctx context.Context, d config.Docker, args ...string) (string, error) {
	if d.Host != "" {
		args = append([]string{"--host", d.Host}, args...)
	}
	out, err := exec.CommandContext(ctx, "docker", args...).Output()
	if err != nil {
		return "", fmt.Errorf("docker %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}
