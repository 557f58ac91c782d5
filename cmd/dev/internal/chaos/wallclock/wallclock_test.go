package wallclock_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/cmd/dev/internal/chaos/wallclock"
)

// asked makes this program one that tells the time whenever it is asked.
const asked = "WALLCLOCK_TEST_TELLS"

func TestMain(m *testing.M) {
	if os.Getenv(asked) == "" {
		os.Exit(m.Run())
	}
	began := time.Now()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		now := time.Now()
		fmt.Println(now.Unix(), now.Sub(began).Milliseconds())
	}
}

// teller is a process that tells its time.
type teller struct {
	t   *testing.T
	in  *os.File
	out *bufio.Reader
}

// ask returns how far its wall clock is ahead, and what its monotonic clock says it
// has lived for.
func (c teller) ask() (ahead, lived time.Duration) {
	c.t.Helper()
	_, err := c.in.WriteString("\n")
	require.NoError(c.t, err)
	line, err := c.out.ReadString('\n')
	require.NoError(c.t, err)
	sec, ms, ok := strings.Cut(strings.TrimSpace(line), " ")
	require.True(c.t, ok)
	n, err := strconv.ParseInt(sec, 10, 64)
	require.NoError(c.t, err)
	l, err := strconv.ParseInt(ms, 10, 64)
	require.NoError(c.t, err)
	return time.Until(time.Unix(n, 0)), time.Duration(l) * time.Millisecond
}

func start(t *testing.T, ahead time.Duration) (teller, *wallclock.Clock) {
	t.Helper()
	if why := wallclock.Cannot(); why != "" {
		t.Skip(why)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asked+"=yes")
	theirs, in, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdin = theirs
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	c, err := wallclock.Start(cmd, ahead)
	require.NoError(t, err)
	require.NoError(t, theirs.Close())
	t.Cleanup(func() {
		require.NoError(t, in.Close())
		require.NoError(t, cmd.Wait())
		c.Close()
	})
	return teller{t, in, bufio.NewReader(out)}, c
}

// roughly is more than a busy machine takes to tell the time, and far less than
// clocks are set by.
const roughly = 20 * time.Minute

// A process has its own wall clock from its start on, and it can be set while it
// runs; its monotonic clock goes on.
func TestClock(t *testing.T) {
	t.Parallel()
	p, c := start(t, 5*time.Hour)
	ahead, _ := p.ask()
	require.InDelta(t, 5*time.Hour, ahead, float64(roughly))
	for _, want := range []time.Duration{-26 * time.Hour, 0, 90 * time.Minute} {
		require.NoError(t, c.Set(want))
		ahead, lived := p.ask()
		require.InDelta(t, want, ahead, float64(roughly))
		require.Less(t, lived, roughly)
		require.GreaterOrEqual(t, lived, time.Duration(0))
	}
}

// Another process has the machine's clock.
func TestClockIsOnesOwn(t *testing.T) {
	t.Parallel()
	one, _ := start(t, 5*time.Hour)
	other, _ := start(t, 0)
	ahead, _ := one.ask()
	require.InDelta(t, 5*time.Hour, ahead, float64(roughly))
	ahead, _ = other.ask()
	require.InDelta(t, 0, ahead, float64(roughly))
}
