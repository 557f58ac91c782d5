package keeper

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTimeOutThatIsLate does nothing to whatever is the working directory by then.
func TestTimeOutThatIsLate(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("run", 0o700))
	late := newRound(nil, Order{Script: "no-such-script"})
	require.NoError(t, late.end())
	late.timeOut()
	require.NoFileExists(t, "run/reason")
	require.False(t, late.finished)

	timely := newRound(nil, Order{Script: "no-such-script"})
	timely.timeOut()
	reason, err := os.ReadFile("run/reason")
	require.NoError(t, err)
	require.Equal(t, "timed_out\n", string(reason))
	require.True(t, timely.finished, "such a keeper takes no other order")
}
