package docker_test

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/docker"
)

// linked builds the program that goes into containers as it is built where nobody
// says otherwise, which is against this machine's libraries.
func linked(t *testing.T) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "linked")
	cmd := exec.Command("go", "build", "-o", exe, "../egress/testdata/forward")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("nothing can be linked against libraries here: %v\n%s", err, out)
	}
	f, err := elf.Open(exe)
	require.NoError(t, err)
	defer f.Close()
	if !slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Skip("it is not linked against libraries here")
	}
	return exe
}

// A worker that needs its machine's libraries takes them along into containers that
// have none.
func TestLinkedHelper(t *testing.T) {
	t.Parallel()
	needImage(t, imageBusybox)
	exe := linked(t)
	r := newRig(t, func(c *docker.Config) { c.Image, c.Forwarder = imageBusybox, exe })
	s := r.open(t, sandbox.Spec{ID: newID(), Network: []string{"127.0.0.1:1"}})
	require.True(t, s.Info().Network)
	for range 2 {
		got := run(t, s, "test -t 0 && test -t 1 && echo on a terminal; ls /proc/self/fd", func(spec *sandbox.ExecSpec) { spec.TTY = true })
		require.Equal(t, 0, got.ExitCode, "%+v", got)
		require.Contains(t, got.Stdout, "on a terminal\r\n")
		require.NotContains(t, got.Stdout, "5", "the command has none of what was opened for it")
	}
	require.NotEqual(t, 0, run(t, s, "ls /countersign/").ExitCode, "nor does it come where that lies")
}

func TestUnfitHelper(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755))
	for _, program := range []string{"", script, script + ".none"} {
		r := newRig(t, func(c *docker.Config) { c.Forwarder = program })
		_, err := r.Open(t.Context(), sandbox.Spec{ID: "x", Network: []string{"example.com"}})
		var refused *sandbox.RefusedError
		require.ErrorAs(t, err, &refused, program)
		require.Contains(t, refused.Text, "nothing can carry them there")
	}
}
