package local

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/keeper"
)

// keeperEnd is how long the end of a keeper may take on a machine under load.
const keeperEnd = 10 * time.Second

// keeping is a process that keeps the record of one namespace after another, all of
// one session. It ends when it is given up, and when this process ends, but never
// before its exec.
type keeping struct {
	orders *os.File      // its end says, too, that nothing more is to be done
	gone   chan struct{} // closed when it has ended
	timer  *time.Timer   // of one that is idle

	mu     sync.Mutex
	serves *spare // nil while it is idle
	dead   bool
}

// startKeeper starts one, with nothing to do.
func (s *session) startKeeper() (*keeping, error) {
	ordered, orders, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	defer ordered.Close()
	told, tells, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a pipe: %w", err), orders.Close())
	}
	defer tells.Close()
	cmd := detached(keeper.Command(s.dir))
	cmd.Env = append(cmd.Env, keeper.Environ()...)
	cmd.ExtraFiles = []*os.File{ordered, tells}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a keeper of execs: %w: %w", sandbox.ErrUnavailable, err), orders.Close(), told.Close())
	}
	k := &keeping{orders: orders, gone: make(chan struct{})}
	go s.hear(k, told)
	go func() { _ = cmd.Wait() }()
	return k, nil
}

// serve has the keeper make and keep the spare, or another where that has ended.
func (s *session) serve(k *keeping, sp *spare, order keeper.Order) error {
	if k != nil && k.serve(sp, order) == nil {
		return nil
	}
	k, err := s.startKeeper()
	if err != nil {
		return err
	}
	return k.serve(sp, order)
}

// serve gives it a spare to make, and to keep.
func (k *keeping) serve(sp *spare, order keeper.Order) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead {
		return errors.New("giving a keeper of execs an order: it has ended")
	}
	if _, err := k.orders.Write(order.Encode()); err != nil {
		return fmt.Errorf("giving a keeper of execs an order: %w", err)
	}
	k.serves, sp.keeper = sp, k
	return nil
}

// claim tells it that the spare's record has its name. Where it does not hear that,
// the end of its orders says the same.
func (k *keeping) claim(sp *spare) {
	if _, err := k.orders.Write(keeper.Claim(sp.dir)); err != nil {
		k.giveUp()
	}
}

// giveUp lets it end: at once, or with its exec. A nil one has ended.
func (k *keeping) giveUp() {
	if k != nil {
		_ = k.orders.Close()
	}
}

// end lets it end and waits for that, not for ever.
func (k *keeping) end() {
	k.giveUp()
	select {
	case <-k.gone:
	case <-time.After(keeperEnd):
	}
}

// hear hears what a keeper tells.
func (s *session) hear(k *keeping, told *os.File) {
	defer close(k.gone)
	defer told.Close()
	for word := make([]byte, 1); ; {
		if n, _ := told.Read(word); n == 0 {
			s.lose(k)
			return
		}
		done := word[0] == keeper.Done
		sp := k.served(done)
		if !done {
			sp.begins()
			continue
		}
		s.park(k) // before anybody asks for the next spare
		sp.over()
	}
}

// lose sees to what a keeper leaves that has ended.
func (s *session) lose(k *keeping) {
	k.mu.Lock()
	k.dead = true
	sp := k.serves
	k.mu.Unlock()
	s.retire(k)
	if sp != nil {
		sp.discard()
		sp.over()
	}
}

// served is the spare that it serves, and serves no longer where that is done.
func (k *keeping) served(done bool) *spare {
	k.mu.Lock()
	defer k.mu.Unlock()
	sp := k.serves
	if done {
		k.serves = nil
	}
	return sp
}

// park keeps a keeper whose exec is done for the next one, not for long.
func (s *session) park(k *keeping) {
	p := &s.spares
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= mostSpares || !s.b.countSpare() {
		k.giveUp()
		return
	}
	k.timer = time.AfterFunc(spareFor, func() { s.retire(k) })
	p.idle = append(p.idle, k)
}

// pop takes the keeper that was parked last; nil where there is none. Whoever calls it
// holds mu, and has it counted.
func (p *spares) pop() *keeping {
	last := len(p.idle) - 1
	if last < 0 {
		return nil
	}
	k := p.idle[last]
	p.idle = p.idle[:last]
	k.timer.Stop()
	return k
}

// retire gives up a keeper that nobody has needed within its time, or that has ended.
func (s *session) retire(k *keeping) {
	p := &s.spares
	p.mu.Lock()
	if i := slices.Index(p.idle, k); i >= 0 {
		p.idle = slices.Delete(p.idle, i, i+1)
		k.timer.Stop()
		s.b.spares.Add(-1)
	}
	p.mu.Unlock()
	k.giveUp()
}
