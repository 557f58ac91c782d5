package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/countersign/countersign/internal/workflows"
)

// answerWithin bounds the wait for one answer on a busy machine.
const answerWithin = 5 * time.Minute

// news counts the answers that threads get, as the web chat tells of them: asking
// for a thread again and again costs what the whole thread holds.
type news struct {
	mu      sync.Mutex
	answers map[string]map[string]bool // message IDs by thread
	ended   error
	changed chan struct{} // closed with each change
	alive   func() error
}

// listen follows the web chat until ctx ends. Answers given before are not counted.
func (s *stack) listen(ctx context.Context) (*news, error) {
	var meta struct {
		LastEvent int64 `json:"last_event"`
	}
	if err := s.chat().call(ctx, http.MethodGet, "/meta", nil, &meta); err != nil {
		return nil, err
	}
	events, err := s.chat().open(ctx, "/events?after="+strconv.FormatInt(meta.LastEvent, 10))
	if err != nil {
		return nil, err
	}
	n := &news{answers: map[string]map[string]bool{}, changed: make(chan struct{}), alive: s.check}
	go func() {
		defer func() { _ = events.Close() }()
		lines := bufio.NewReader(events)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				n.end(fmt.Errorf("following the web chat: %w", err))
				return
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				n.take([]byte(data))
			}
		}
	}()
	return n, nil
}

func (n *news) take(data []byte) {
	var m struct {
		ID     string `json:"id"`
		Thread string `json:"thread_id"`
		Kind   string `json:"kind"`
	}
	if json.Unmarshal(data, &m) != nil || m.Kind != workflows.KindAnswer {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.answers[m.Thread] == nil {
		n.answers[m.Thread] = map[string]bool{}
	}
	n.answers[m.Thread][m.ID] = true
	n.announce()
}

func (n *news) end(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = err
	n.announce()
}

// announce wakes who waits; the lock is held.
func (n *news) announce() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// await waits until a thread has got so many answers.
func (n *news) await(ctx context.Context, thread string, answers int) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	for {
		n.mu.Lock()
		have, ended, changed := len(n.answers[thread]), n.ended, n.changed
		n.mu.Unlock()
		if have >= answers || ended != nil {
			return ended
		}
		if err := n.alive(); err != nil {
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("thread %s has %d of %d answers", thread, have, answers), ctx.Err())
		case <-changed:
		}
	}
}
