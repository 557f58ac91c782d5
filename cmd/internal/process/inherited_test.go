package process_test

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/cmd/internal/process"
)

// Not parallel: what other tests run through Main would find the file as well.
func TestInheritedFilesStayHere(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("open files cannot be listed here")
	}
	fd, err := syscall.Dup(1) // which a child would have
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Close(fd)) })
	child := func() error {
		return exec.CommandContext(t.Context(), "test", "-e", fmt.Sprint("/proc/self/fd/", fd)).Run()
	}
	require.NoError(t, child(), "the test is one")
	var cli struct{}
	require.Zero(t, process.Main("x", "", &cli, &process.Env{Args: []string{"--help"}, Stdout: t.Output(), Stderr: t.Output()}))
	require.Error(t, child())
}
