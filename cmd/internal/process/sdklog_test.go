package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
)

func TestCancelledActivitiesCallNobody(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		message string
		err     error
		logged  bool
	}{
		"a cancelled activity":     {"Activity error.", fmt.Errorf("editing: %w", context.Canceled), false},
		"the SDK's own error":      {"Activity error.", temporal.NewCanceledError(), false},
		"a cancelled heartbeat":    {"RecordActivityHeartbeat with error", temporal.NewCanceledError(), false},
		"an activity that failed":  {"Activity error.", errors.New("no such channel"), true},
		"one that ran out of time": {"Activity error.", context.DeadlineExceeded, true},
		"something else":           {"Failed to poll for task.", context.Canceled, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for level, want := range map[slog.Level]bool{slog.LevelInfo: tt.logged, slog.LevelDebug: true} {
				var out bytes.Buffer
				log := sdklog.NewStructuredLogger(Calm(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level}))))
				log.Error(tt.message, "ActivityType", "EditMessage", "Error", tt.err)
				require.Equal(t, want, out.Len() > 0, "%v: %s", level, out.String())
				if level == slog.LevelDebug && !tt.logged {
					require.Contains(t, out.String(), `"level":"DEBUG"`)
				}
			}
		})
	}
}
