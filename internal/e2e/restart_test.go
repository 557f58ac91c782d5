package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// After kill -9 and after Ctrl-C every thread is there and goes on: one at rest,
// one with a request that waits, one with a command that runs.
func TestStoppedAndStartedAgain(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*dev, testing.TB){
		"kill -9": func(d *dev, _ testing.TB) { d.kill() },
		"Ctrl-C":  func(d *dev, t testing.TB) { d.interrupt(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := startDev(t)
			ada := d.as("ada")
			rest := ada.opens(t, "`echo one >> log`")
			ada.sees(t, rest, "the first turn", answered(1))
			asks := ada.opens(t, "`rm -rf build`")
			card := ada.sees(t, asks, "a request", waiting).pending()[0]
			busy := ada.opens(t, "``for i in $(seq 20); do echo $i | tee -a log; sleep 1; done``")
			th := ada.sees(t, busy, "the command runs", running(1))
			c := th.calls(1)[0]
			await(t, within, "it has begun", func() (string, bool) {
				s := ada.output(t, c.ID, "stdout", 0)
				return s, s != ""
			})

			stop(d, t)
			d.up(t)
			var threads []thread
			ada.get(t, "/channels/general/threads", &threads)
			require.Len(t, threads, 3)
			ada.says(t, rest, "`echo two >> log`, `cat log`")
			th = ada.sees(t, rest, "the one at rest goes on", answered(2))
			require.Contains(t, th.answer(2).Text, "one\ntwo\n")
			require.Equal(t, card.ID, ada.thread(t, asks).pending()[0].ID, "the same card")
			approveOne(t, ada, asks)
			ada.sees(t, asks, "the one that waited goes on", answered(1))
			th = ada.sees(t, busy, "the busy one ends", answered(1))
			ran(t, th.calls(1)[0])
			require.Equal(t, seq(20), th.inWorkspace(t, "log"))
			require.Equal(t, seq(20), ada.output(t, c.ID, "stdout", 0))
			for _, id := range []string{rest, asks, busy} {
				th := ada.thread(t, id)
				once(t, th)
				ran(t, th.calls(1)[0])
			}
		})
	}
}

// cmd/dev killed at any moment of two sessions, one of which asks: every command
// runs once, every message is taken once and in order, every approval counts
// once, every message of ours stands there once.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	ada := d.as("ada")
	const rounds = 6
	plain := ada.opens(t, "`echo 1 >> log`")
	asks := ada.opens(t, "`echo 1 >> log; rm -rf build`")
	for n := 2; n <= rounds; n++ {
		ada.write(t, "/threads/"+plain+"/messages", fmt.Sprintf("`echo %d >> log`", n))
		ada.write(t, "/threads/"+asks+"/messages", fmt.Sprintf("`echo %d >> log; rm -rf build`", n))
		for _, m := range ada.thread(t, asks).pending() {
			was := *d
			go was.as("ada").tries(m) // killed while it counts
		}
		time.Sleep(time.Duration(rand.IntN(1500)) * time.Millisecond)
		d.kill()
		d.up(t)
	}
	for _, id := range []string{plain, asks} {
		ada.write(t, "/threads/"+id+"/messages", "`echo end`")
		th := ada.sees(t, id, "the answer to the last", func(th thread) bool {
			for _, m := range th.pending() {
				ada.tries(m)
			}
			answers := th.all("answer")
			for _, m := range th.all("turn") {
				if m.has("stop") {
					return false
				}
			}
			return len(answers) > 0 && contains(answers[len(answers)-1].Text, "echo end") && len(th.all("turn")) == len(answers)
		})
		require.Equal(t, seq(rounds), th.inWorkspace(t, "log"), "each once, in order")
		require.Len(t, th.all("user"), rounds+1)
		once(t, th)
		ended := 0
		for _, m := range th.all("turn") {
			require.False(t, m.has("stop"), "%+v", m)
			for _, c := range m.ToolCalls {
				ran(t, c)
				ended++
			}
		}
		require.Equal(t, rounds+1, ended, "commands")
		if id == asks {
			require.Len(t, th.all("approval"), rounds)
		}
	}
}

// tries clicks approve, always the same click; whether it counted is seen on the
// card.
func (c *client) tries(m message) {
	_, _, _ = c.request(http.MethodPost, "/messages/"+m.ID+"/click", map[string]string{"button": "approve", "client_id": "once"})
}
