package chaos

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// patience is how long a person waits for what should happen before going on
	// to something else. What never happens is the checker's to find.
	patience = 25 * time.Second
	// quietFor is how long nothing happens in a thread where nothing is to come.
	quietFor = 8 * time.Second
	// turnsEach bounds the turns of a thread: a session tells its last 20.
	turnsEach = 14
	// threadsEach bounds the threads of a run by the number of people at once.
	threadsEach = 4
)

var names = []string{"ada", "grace", "linus", "ken"}

// script is what the people do.
type script struct {
	seed uint64
	web  web
	rec  *recorder
	// docker: there is a backend to move to and from.
	docker bool
	// hitting reports whether a part is hit, for as long as nobody leaves.
	hitting func() bool

	mu      sync.Mutex
	actors  int
	limit   int
	running sync.WaitGroup
}

// run keeps so many people busy until day ends, and returns when they have tidied
// up or ctx ends.
func (s *script) run(ctx, day context.Context, people int) {
	s.limit = people * threadsEach
	for range people {
		s.running.Go(func() {
			for day.Err() == nil {
				a := s.actor()
				if a == nil {
					return
				}
				a.live(ctx, day)
			}
		})
	}
	s.running.Wait()
}

// actor is somebody new, with dice of their own; nil when there are enough.
func (s *script) actor() *actor {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.actors == s.limit {
		return nil
	}
	s.actors++
	return &actor{s: s, n: s.actors, dice: rand.New(rand.NewPCG(s.seed, uint64(s.actors)))}
}

// actor is one person in one thread, with others looking in.
type actor struct {
	s      *script
	n      int
	dice   *rand.Rand
	thread string
	tokens int
	turns  int
	ending bool
}

func (a *actor) who() string { return names[a.n%len(names)] }

func (a *actor) another() string { return names[(a.n+1+a.dice.IntN(len(names)-1))%len(names)] }

// move is something a person does.
type move struct {
	weight int
	do     func(*actor, context.Context, context.Context)
}

func moves(docker bool) []move {
	all := []move{
		{30, (*actor).chat}, {12, (*actor).chatOn}, {14, (*actor).runLong}, {10, (*actor).stopIt}, {20, (*actor).decide},
		{6, (*actor).parallel}, {5, (*actor).fork}, {5, (*actor).pause}, {3, (*actor).rename}, {5, (*actor).destroy},
	}
	if docker {
		all = append(all, move{18, (*actor).switchOver})
	}
	return all
}

// live opens a thread, if the person has none, and uses it until the day ends.
func (a *actor) live(ctx, day context.Context) {
	if a.thread == "" && !a.open(ctx) {
		return
	}
	all := moves(a.s.docker)
	total := 0
	for _, m := range all {
		total += m.weight
	}
	for day.Err() == nil && ctx.Err() == nil && a.turns < turnsEach && !a.ending {
		roll := a.dice.IntN(total)
		for _, m := range all {
			if roll -= m.weight; roll < 0 {
				m.do(a, ctx, day)
				break
			}
		}
	}
	a.tidy(ctx, day)
}

// tidy leaves nothing that waits for a person, and stays until the last message
// is answered: as long as parts are hit, and then as long as something moves.
func (a *actor) tidy(ctx, day context.Context) {
	token := fmt.Sprintf("tok_%d_%d_", a.n, a.tokens)
	quiet := time.Now()
	done, moved := false, -1
	for !done && ctx.Err() == nil {
		over := day.Err() != nil && !a.s.hitting()
		last := a.until(ctx, ctx, func(t thread) bool {
			for _, m := range t.pending() {
				if !m.Approval.UnknownRun {
					a.click(ctx, m, "deny", a.who())
				}
			}
			card, busy := t.working()
			if busy {
				quiet = time.Now()
			}
			// What was to be stopped may have begun when nobody looked any more.
			if busy && card.has("stop") && slices.ContainsFunc(card.ToolCalls, func(c toolCall) bool {
				return c.State == "running" && strings.HasSuffix(c.Command, endless)
			}) {
				a.click(ctx, card, "stop", a.who())
			}
			// A stop may have come before the command of a message.
			done = !busy && (a.tokens == 0 || mentions(t, token) || time.Since(quiet) > quietFor)
			return done
		})
		now := last.moves()
		if over && now == moved {
			return
		}
		moved = now
	}
}

// token marks one message, so that it is found wherever it went.
func (a *actor) token() string {
	a.tokens++
	return fmt.Sprintf("tok_%d_%d_", a.n, a.tokens)
}

// note is a command that leaves a line in the journal.
func note(token, word string) string {
	return fmt.Sprintf("echo %s %s $COUNTERSIGN_EXEC >> %s", token, word, journal)
}

func (a *actor) open(ctx context.Context) bool {
	token := a.token()
	a.say(ctx, said{Token: token, Text: "/agent begin with `" + note(token, "one") + "`", Commands: []string{"one"}})
	return a.thread != ""
}

// chat is a message and its answer.
func (a *actor) chat(ctx, day context.Context) {
	token := a.token()
	a.say(ctx, said{Token: token, Text: "now `" + note(token, "one") + "`", Commands: []string{"one"}})
	a.answered(ctx, day, token)
}

// chatOn is several messages at once, without waiting for answers.
func (a *actor) chatOn(ctx, day context.Context) {
	token := ""
	for range 2 + a.dice.IntN(3) {
		token = a.token()
		by := a.who()
		if a.dice.IntN(2) == 0 {
			by = a.another()
		}
		a.say(ctx, said{By: by, Token: token, Text: "and `" + note(token, "one") + "`", Commands: []string{"one"}})
	}
	if a.dice.IntN(3) > 0 {
		a.answered(ctx, day, token)
	}
}

// runLong is a command of some seconds, which outlives its worker.
func (a *actor) runLong(ctx, day context.Context) {
	token := a.token()
	text := fmt.Sprintf("`%s; sleep %d; %s`", note(token, "begin"), 1+a.dice.IntN(4), note(token, "end"))
	a.say(ctx, said{Token: token, Text: text, Commands: []string{"begin", "end"}})
	a.answered(ctx, day, token)
}

// endless ends a command that runs for longer than anybody stays.
const endless = "; sleep 300"

// stopIt stops a command that would run for long.
func (a *actor) stopIt(ctx, day context.Context) {
	token := a.token()
	a.say(ctx, said{Token: token, Text: "`" + note(token, "begin") + endless + "`", Commands: []string{"begin"}})
	a.until(ctx, day, func(t thread) bool {
		card, busy := t.working()
		return busy && slices.ContainsFunc(card.ToolCalls, func(c toolCall) bool {
			return strings.Contains(c.Command, token) && c.State == "running"
		})
	})
	// Whatever was seen: it must not run on.
	a.until(ctx, ctx, func(t thread) bool {
		card, busy := t.working()
		if busy && card.has("stop") {
			a.click(ctx, card, "stop", a.another())
		}
		return !busy && mentions(t, token)
	})
}

// decide is a command that has to be approved, and what people make of it.
func (a *actor) decide(ctx, day context.Context) {
	token := a.token()
	a.say(ctx, said{Token: token, Text: "`" + note(token, "one") + "; rm -rf build`", Commands: []string{"one"}, Risky: true})
	t := a.until(ctx, day, func(t thread) bool {
		return slices.ContainsFunc(t.pending(), func(m message) bool { return !m.Approval.UnknownRun })
	})
	for _, m := range t.pending() {
		switch roll := a.dice.IntN(10); {
		case roll < 5:
			a.click(ctx, m, "approve", a.another())
		case roll < 7:
			a.click(ctx, m, "deny", a.another())
		case roll < 9: // two at once
			var both sync.WaitGroup
			x, y := a.another(), a.who()
			both.Go(func() { a.click(ctx, m, "approve", x) })
			both.Go(func() { a.click(ctx, m, "deny", y) })
			both.Wait()
		default: // another message comes first
			later := a.token()
			a.say(ctx, said{Token: later, Text: "also `" + note(later, "one") + "`", Commands: []string{"one"}})
			a.click(ctx, m, "approve", a.who())
		}
	}
	a.answered(ctx, day, token)
}

// parallel is two commands side by side.
func (a *actor) parallel(ctx, day context.Context) {
	token := a.token()
	text := "```parallel\n" + note(token, "left") + "; sleep 1\n" + note(token, "right") + "\n```"
	a.say(ctx, said{Token: token, Text: text, Commands: []string{"left", "right"}})
	a.answered(ctx, day, token)
}

// fork copies the session into a thread of its own, which somebody else goes on
// with.
func (a *actor) fork(ctx, day context.Context) {
	p, err := a.command(ctx, "fork")
	if err != nil || p.Opened == "" {
		return
	}
	a.s.rec.sawThread(p.Opened)
	if other := a.s.actor(); other != nil {
		other.thread = p.Opened
		a.s.running.Go(func() { other.live(ctx, day) })
	}
}

func (a *actor) pause(ctx, day context.Context) {
	_, _ = a.command(ctx, "pause") // refused or not: the session goes on
	a.chat(ctx, day)
}

// accepted finds what a session says to a switch that it takes.
var accepted = regexp.MustCompile(`^(Moving to|It moves to) `)

// switchOver moves the session to the backend where it is not, sometimes in the
// middle of a turn, and goes on there.
func (a *actor) switchOver(ctx, day context.Context) {
	t, err := a.s.web.thread(ctx, a.thread)
	if err != nil {
		return
	}
	to := "docker"
	if t.Backend == to {
		to = "local"
	}
	if a.dice.IntN(3) == 0 {
		token := a.token()
		a.say(ctx, said{Token: token, Text: "`" + note(token, "one") + "; sleep 1`", Commands: []string{"one"}})
	}
	p, err := a.command(ctx, "switch "+to)
	a.s.rec.sawMove(moved{Thread: a.thread, To: to, At: time.Now(), Unsure: err != nil || !accepted.MatchString(p.Text)})
	if err != nil {
		return
	}
	a.until(ctx, day, func(t thread) bool {
		for _, m := range t.pending() {
			if !m.Approval.UnknownRun && m.Approval.CallID == "" { // less isolation is asked for
				a.click(ctx, m, "approve", a.another())
			}
		}
		return t.Backend == to
	})
	a.chat(ctx, day)
}

func (a *actor) rename(ctx, _ context.Context) {
	_, _ = a.command(ctx, fmt.Sprintf(`title "thread %d, %d"`, a.n, a.dice.IntN(1000)))
}

// destroy ends the session, sometimes with a command still running.
func (a *actor) destroy(ctx, day context.Context) {
	if a.turns < 2 {
		a.chat(ctx, day)
		return
	}
	if a.dice.IntN(2) == 0 {
		token := a.token()
		a.say(ctx, said{Token: token, Ending: true, Commands: []string{"begin"}, Text: "`" + note(token, "begin") + "; sleep 30`"})
	}
	a.ending = true
	p, err := a.command(ctx, "destroy")
	if err != nil {
		a.ending = false
		return
	}
	a.until(ctx, ctx, func(t thread) bool {
		for _, m := range t.Messages {
			if m.Question == "destroy" && m.has("destroy") {
				a.click(ctx, m, "destroy", a.who())
			}
		}
		return t.Liveness == "destroyed"
	})
	_ = p
}

// command gives a command in the thread.
func (a *actor) command(ctx context.Context, text string) (posted, error) {
	return a.post(ctx, a.who(), "/threads/"+a.thread+"/messages", "/agent "+text)
}

// say sends a message and records what became of it.
func (a *actor) say(ctx context.Context, s said) {
	s.Thread, s.At = a.thread, time.Now()
	if s.By == "" {
		s.By = a.who()
	}
	path := "/threads/" + a.thread + "/messages"
	if a.thread == "" {
		path = "/channels/general/messages"
	}
	p, err := a.post(ctx, s.By, path, s.Text)
	var r *refused
	switch {
	case err == nil:
		s.Accepted, s.MessageID, s.Thread, a.thread = true, p.MessageID, p.ThreadID, p.ThreadID
		a.turns++
	case errors.As(err, &r):
		s.Refused = err.Error()
	default:
		s.Unsure = true
	}
	a.s.rec.saw(s)
}

// post goes on until the chat has taken or refused a message, always under the
// same client_id, as the page does.
func (a *actor) post(ctx context.Context, by, path, text string) (posted, error) {
	body := map[string]string{"text": text, "client_id": crand.Text()}
	for {
		var p posted
		err := a.s.web.call(ctx, by, http.MethodPost, path, body, &p)
		if !passing(err) {
			return p, err
		}
		if pause(ctx, 300*time.Millisecond) != nil {
			return p, err
		}
	}
}

// click goes on until a click is answered: it is sent again where no answer came,
// and made anew, as people do, where the answer is that it was not confirmed. One
// that came too late is answered so for ever.
func (a *actor) click(ctx context.Context, m message, button, by string) {
	c := decided{Thread: a.thread, Message: m.ID, Button: button, By: by, At: time.Now()}
	if m.Approval != nil {
		c.Approval = m.Approval.ID
	}
	body := map[string]string{"button": button, "client_id": crand.Text()}
	for {
		var out clicked
		err := a.s.web.call(ctx, by, http.MethodPost, "/messages/"+m.ID+"/click", body, &out)
		if c.Outcome = out.Outcome; err != nil {
			c.Outcome = err.Error()
		}
		anew := err == nil && out.Outcome == "unconfirmed"
		if anew {
			body["client_id"] = crand.Text()
		}
		if !anew && !passing(err) || pause(ctx, 300*time.Millisecond) != nil {
			break
		}
	}
	a.s.rec.sawClick(c)
}

// answered waits until the turn that took the token has ended.
func (a *actor) answered(ctx, day context.Context, token string) {
	a.until(ctx, day, func(t thread) bool {
		_, busy := t.working()
		return !busy && mentions(t, token)
	})
}

// mentions: a turn of the thread has a command with the token, or was ended
// before it came to it.
func mentions(t thread, token string) bool {
	for _, m := range t.of("turn") {
		for _, c := range m.ToolCalls {
			if strings.Contains(c.Command, token) {
				return true
			}
		}
	}
	return false
}

// until looks at the thread until it is as expected, patience or the day are
// over, and returns what was seen last. What asks whether an interrupted command
// should be run again is answered on the way.
func (a *actor) until(ctx, day context.Context, ok func(thread) bool) thread {
	var last thread
	for end := time.Now().Add(patience); time.Now().Before(end) && ctx.Err() == nil && day.Err() == nil; {
		if t, err := a.s.web.thread(ctx, a.thread); err == nil {
			last = t
			for _, m := range t.pending() {
				if m.Approval.UnknownRun {
					a.click(ctx, m, "leave", a.who())
				}
			}
			if ok(t) {
				return t
			}
		}
		_ = pause(ctx, pollEvery) // the loop looks at ctx
	}
	return last
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
