package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// seq is what `seq n` prints.
func seq(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, i+1)
	}
	return b.String()
}

// A command survives kill -9 of the worker, twice: it runs once, and no byte of
// its output is lost or repeated.
func TestWorkerKilledTwice(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--without", "worker")
	ada := d.as("ada")
	w := d.worker(t)
	id := ada.opens(t, "count: ``for i in $(seq 30); do echo $i | tee -a log; sleep 1; done``")
	th := ada.sees(t, id, "the command runs", running(1))
	c := th.calls(1)[0]
	counted := func(n int) {
		await(t, within, fmt.Sprintf("it has counted to %d", n), func() (string, bool) {
			s := ada.thread(t, id).inWorkspace(t, "log")
			return s, strings.Count(s, "\n") >= n
		})
	}
	for _, n := range []int{4 + rand.IntN(4), 14 + rand.IntN(4)} {
		counted(n)
		w.kill()
		time.Sleep(time.Duration(rand.IntN(2500)) * time.Millisecond) // nobody watches for a while
		w = d.worker(t)
	}
	await(t, within, "the output is readable while it runs", func() (string, bool) {
		s := ada.output(t, c.ID, "stdout", 0)
		return s, strings.HasPrefix(seq(30), s) && strings.Count(s, "\n") > 18
	})
	th = ada.sees(t, id, "the turn ends", answered(1))
	require.Len(t, th.calls(1), 1)
	ran(t, th.calls(1)[0])
	require.Equal(t, seq(30), th.inWorkspace(t, "log"))
	require.Equal(t, seq(30), ada.output(t, c.ID, "stdout", 0))
	require.Equal(t, seq(30)[10:], ada.output(t, c.ID, "stdout", 10))
	require.Empty(t, ada.output(t, c.ID, "stderr", 0))
	once(t, th)
}

// Stop ends the whole process group, whatever it has started.
func TestStopEndsTheGroup(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	all := []string{nap(5000), nap(5000), nap(5000), nap(5000)}
	id := ada.opens(t, "``"+all[0]+" & ("+all[1]+" & "+all[2]+") & echo up; "+all[3]+"``")
	th := ada.sees(t, id, "the command runs", func(th thread) bool {
		return running(1)(th) && asleep(t, all...) && ada.output(t, th.calls(1)[0].ID, "stdout", 0) == "up\n"
	})
	clicked := time.Now()
	require.Equal(t, "recorded", ada.click(t, th.turn(1), "stop", nil).Outcome)
	gone(t, all...)
	took := time.Since(clicked)
	t.Logf("stopped after %v", took)
	require.Less(t, took, stretched(2*time.Second))
	th = ada.sees(t, id, "the card is over", over(1))
	require.Equal(t, "cancelled", th.calls(1)[0].State)
	require.Contains(t, th.turn(1).Text, "Stopped by @ada")
	require.Equal(t, "up\n", ada.output(t, th.calls(1)[0].ID, "stdout", 0))

	ada.says(t, id, "`echo on`")
	th = ada.sees(t, id, "the session goes on", answered(2))
	require.Contains(t, th.answer(2).Text, "exit code 0")
}

// A command that ignores the polite signal is ended all the same; `stop` as a
// command does what the button does.
func TestStopEndsTheStubborn(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	short := nap(5)
	id := ada.opens(t, "``trap '' TERM INT HUP; echo up; until [ -e never ]; do "+short+"; done``")
	ada.sees(t, id, "it is up", func(th thread) bool { return running(1)(th) && asleep(t, short) })
	began := time.Now()
	ada.says(t, id, "/agent stop")
	gone(t, short)
	took := time.Since(began)
	t.Logf("stopped after %v", took)
	require.Less(t, took, stretched(2*time.Second))
	th := ada.sees(t, id, "the card is over", over(1))
	require.Equal(t, "cancelled", th.calls(1)[0].State)
}

// The calls of a parallel block run side by side, each as soon as its own verdict
// is in.
func TestParallelBlock(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	// Each ends when the others have begun.
	const meet = "; until [ -e a ] && [ -e b ] && [ -e c ]; do sleep 0.1; done; echo "
	id := ada.opens(t, "all at once\n```parallel\ntouch a"+meet+"one\nrm -rf build\ntouch b"+meet+"two\ntouch c"+meet+"three\n```")
	th := ada.sees(t, id, "three have run while one waits", func(th thread) bool {
		done := 0
		for _, c := range th.calls(1) {
			if c.State == "completed" {
				done++
			}
		}
		return done == 3 && waiting(th)
	})
	calls := th.calls(1)
	require.Len(t, calls, 4)
	require.Equal(t, "awaiting_approval", calls[1].State)
	for _, i := range []int{0, 2, 3} {
		ran(t, calls[i])
	}
	c := ada.approves(t, id, 1)
	ran(t, c)
	th = ada.thread(t, id)
	require.Len(t, th.calls(1), 4)
	for _, word := range []string{"one", "two", "three", "rm -rf build"} {
		require.Contains(t, th.answer(1).Text, word)
	}
}

// Long output is cut in the answer and whole in the log; both streams stay apart.
func TestOutputs(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	id := ada.opens(t, "`echo out; echo err >&2; exit 3`")
	th := ada.sees(t, id, "the answer", answered(1))
	c := th.calls(1)[0]
	require.Equal(t, "completed", c.State)
	require.Equal(t, 3, *c.ExitCode)
	require.Equal(t, "out\n", ada.output(t, c.ID, "stdout", 0))
	require.Equal(t, "err\n", ada.output(t, c.ID, "stderr", 0))

	c = ada.does(t, id, 2, "seq 200000")
	ran(t, c)
	require.Equal(t, seq(200000), ada.output(t, c.ID, "stdout", 0))
	require.Less(t, len(ada.thread(t, id).answer(2).Text), 10000)
}
