package chat

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAFaultEndsOneTaskAlone(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	tasks := Tasks{Log: slog.New(slog.NewTextHandler(&log, nil))}
	released := make(chan struct{}, 1)
	tasks.Go(func() {
		defer func() { released <- struct{}{} }()
		var room []rune
		_ = room[:-len(room)-1] //nolint:gosec // the fault
	})
	tasks.Wait()
	require.Len(t, released, 1, "what it held is given back")
	require.Contains(t, log.String(), "level=ERROR")
	require.Contains(t, log.String(), "slice bounds out of range")
	require.Contains(t, log.String(), "tasks_test.go", "where the fault is")
}
