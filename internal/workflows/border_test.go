package workflows_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A signal that comes with the very event that ends a run is in the next one.
func TestMessageAtTheBorderOfTwoRuns(t *testing.T) {
	t.Parallel()
	const turns = 4
	w := newWorld(t, 1)
	w.atSnapshot = func(turn int) {
		if turn == turns {
			return
		}
		time.Sleep(500 * time.Millisecond) // all else has settled
		w.say(fmt.Sprint(100+turn), "ada", fmt.Sprintf("write %d", turn))
	}
	w.ask("write 0")
	for turn := 1; turn <= turns; turn++ {
		require.Contains(t, w.awaitAnswer(turn), fmt.Sprintf("ok write %d", turn-1))
	}
}

// Messages that are sent as soon as a session was asked for are taken in order,
// by whichever way they came.
func TestMessagesWhileTheSessionOpens(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("echo 0")
		for n := 1; n < 6; n++ {
			w.say(fmt.Sprint(100+n), "ada", fmt.Sprintf("echo %d", n))
		}
		w.eventually("all have run", func() bool { return w.runs("") == 6 })
		w.eventually("in order", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, t := range w.transcripts {
				var texts []string
				for _, e := range t {
					if e.Kind == "message" {
						texts = append(texts, e.Text)
					}
				}
				if len(texts) == 6 {
					return fmt.Sprint(texts) == "[echo 0 echo 1 echo 2 echo 3 echo 4 echo 5]"
				}
			}
			return false
		})
	})
}
