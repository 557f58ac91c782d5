package docker_test

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
)

// BenchmarkExec runs a command from start to status; BenchmarkPlainExec is what
// the engine itself needs for one.
func BenchmarkExec(b *testing.B) {
	s := openBench(b)
	for b.Loop() {
		id := newID()
		require.NoError(b, s.Start(b.Context(), sandbox.ExecSpec{ID: id, Command: "echo hello"}))
		var out bytes.Buffer
		require.NoError(b, s.Attach(b.Context(), id, sandbox.Stdout, 0, &out))
		require.Equal(b, "hello\n", out.String())
		_, err := s.Status(b.Context(), id)
		require.NoError(b, err)
	}
}

func BenchmarkPlainExec(b *testing.B) {
	api := newClient(b, engine.host)
	s := openBench(b)
	require.NotNil(b, s)
	list, err := api.ContainerList(b.Context(), container.ListOptions{})
	require.NoError(b, err)
	for b.Loop() {
		e, err := api.ContainerExecCreate(b.Context(), list[0].ID, container.ExecOptions{
			AttachStdout: true, AttachStderr: true, Cmd: []string{"bash", "-c", "echo hello"}})
		require.NoError(b, err)
		c, err := api.ContainerExecAttach(b.Context(), e.ID, container.ExecAttachOptions{})
		require.NoError(b, err)
		_, _ = io.Copy(io.Discard, c.Reader)
		c.Close()
		_, err = api.ContainerExecInspect(b.Context(), e.ID)
		require.NoError(b, err)
	}
}

func BenchmarkStat(b *testing.B) {
	s := openBench(b)
	for b.Loop() {
		_, err := s.Stat(b.Context(), "a/b")
		require.NoError(b, err)
	}
}

func BenchmarkStatus(b *testing.B) {
	s := openBench(b)
	require.NoError(b, s.Start(b.Context(), sandbox.ExecSpec{ID: "x", Command: "sleep 30"}))
	for b.Loop() {
		_, err := s.Status(b.Context(), "x")
		require.NoError(b, err)
	}
}

func openBench(b *testing.B) sandbox.Session {
	needImage(b, imageBash)
	be, err := open(b.Context(), "bash-bench-"+newID())
	require.NoError(b, err)
	s, err := be.Open(b.Context(), sandbox.Spec{ID: newID()})
	require.NoError(b, err)
	b.Cleanup(func() { _ = s.Destroy(context.WithoutCancel(b.Context())) })
	return s
}
