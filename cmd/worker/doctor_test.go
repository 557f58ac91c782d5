package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/cmd/internal/process"
)

// Whatever the machine can do, it is said, of each limit that is set.
func TestDoctor(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	e := &process.Env{Stdout: &out, Stderr: &out}
	c := doctorCmd{JSON: true, Flags: process.Flags{DataDir: t.TempDir(), Set: []string{"sandbox.local.memory_mb=100", "sandbox.local.pids=-1", "sandbox.local.cpus=0.5"}}}
	err := c.Run(t.Context(), e)
	var found []process.Check
	require.NoError(t, json.Unmarshal(out.Bytes(), &found))
	require.Len(t, found, 4)
	for i, want := range []struct{ name, text string }{{"isolation", "Commands"}, {"memory", "100 MiB"}, {"processes", "No limit is set."}, {"processors", "0.5 processors"}} {
		require.Equal(t, want.name, found[i].Name)
		require.Contains(t, found[i].Text, want.text)
		require.Contains(t, []string{"ok", "warning", "failed"}, found[i].State)
	}
	var exit process.ExitError
	require.Equal(t, found[0].State == "failed", errors.As(err, &exit), "%v", err)
}
