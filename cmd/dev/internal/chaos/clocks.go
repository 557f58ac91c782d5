package chaos

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"time"

	"github.com/countersign/countersign/cmd/dev/internal/chaos/wallclock"
)

const (
	// leastWrong and mostWrong bound by how much a clock is set wrong.
	leastWrong = time.Minute
	mostWrong  = 12 * time.Hour
	// wrongFor is how long a clock is wrong that is set right again, at least, and
	// wrongMore by how much it may be more.
	wrongFor  = 2 * time.Second
	wrongMore = 10 * time.Second
)

// wrong is a clock that somebody sets: ahead of the machine's, or behind it where
// that is negative, and after a while right again, or for good where that is 0.
type wrong struct{ ahead, after time.Duration }

// wrongClock is how the roll of the dice sets a clock: minutes are as likely as hours,
// forwards as backwards, and every other clock stays as it is.
func wrongClock(share float64) wrong {
	dice := rand.New(rand.NewPCG(math.Float64bits(share), 0))
	most := float64(mostWrong) / float64(leastWrong)
	w := wrong{ahead: time.Duration(float64(leastWrong) * math.Pow(most, dice.Float64())).Truncate(time.Second)}
	if dice.IntN(2) == 0 {
		w.ahead = -w.ahead
	}
	if dice.IntN(2) == 0 {
		w.after = wrongFor + time.Duration(dice.Int64N(int64(wrongMore)))
	}
	return w
}

func (w wrong) String() string {
	text := w.ahead.Abs().String() + " ahead"
	if w.ahead < 0 {
		text = w.ahead.Abs().String() + " behind"
	}
	if w.after > 0 {
		return fmt.Sprintf("%s, for %v", text, w.after.Round(10*time.Millisecond))
	}
	return text + ", to stay"
}

// launch starts a part's process, with the part's clock where that may be set; p.mu
// is held.
func (p *part) launch(cmd *exec.Cmd) error {
	if !p.clocked {
		return cmd.Start()
	}
	var err error
	p.clock, err = wallclock.Start(cmd, p.ahead)
	return err
}

// setClock sets the clock of a part, also for the processes that it is started as
// from now on.
func (p *part) setClock(ahead time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ahead = ahead
	if p.clock != nil {
		_ = p.clock.Set(ahead) // the process may have ended; the next one starts so
	}
}

// jump sets the part's clock, and right again after a while, or not.
func (p *part) jump(ctx context.Context, w wrong) error {
	p.setClock(w.ahead)
	if w.after > 0 {
		_ = pause(ctx, w.after) // it is right afterwards, whatever else ends
		p.setClock(0)
	}
	return nil
}
