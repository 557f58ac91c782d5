package slackfake

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// sockets are the open Socket Mode connections and the faults made on them.
type sockets struct {
	mu       sync.Mutex
	tickets  map[string]bool
	conns    []*conn
	next     int
	serial   int
	opened   int
	dropAcks int
	twice    bool
	holding  bool
	held     []func()
}

// conn is one connection. Writes are serialised; a frozen one neither reads nor
// writes, while its TCP connection stays open.
type conn struct {
	ws      *websocket.Conn
	mu      sync.Mutex
	frozen  chan struct{}
	once    sync.Once
	acks    map[string]chan json.RawMessage
	closed  chan struct{}
	closing sync.Once
}

func (c *conn) end() { c.closing.Do(func() { close(c.closed); _ = c.ws.Close() }) }

func (c *conn) write(v any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.frozen:
		return nil // the bytes go nowhere
	default:
	}
	_ = c.ws.SetWriteDeadline(time.Now().Add(5 * time.Second))
	return c.ws.WriteJSON(v)
}

func (s *Server) connectionsOpen(url.Values) (object, refusal) {
	ticket := s.nextID("X")
	s.sockets.mu.Lock()
	defer s.sockets.mu.Unlock()
	s.sockets.tickets[ticket] = true
	return object{"url": "ws" + strings.TrimPrefix(s.srv.URL, "http") + "/socket?ticket=" + ticket}, refusal{}
}

// socket is a Socket Mode connection, of which an app may hold ten.
func (s *Server) socket(w http.ResponseWriter, r *http.Request) {
	k := &s.sockets
	k.mu.Lock()
	ok := k.tickets[r.URL.Query().Get("ticket")]
	delete(k.tickets, r.URL.Query().Get("ticket"))
	k.mu.Unlock()
	if !ok {
		http.Error(w, "no such ticket", http.StatusNotFound)
		return
	}
	ws, err := (&websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}).Upgrade(w, r, nil)
	if err != nil {
		return
	}
	c := &conn{ws: ws, frozen: make(chan struct{}), closed: make(chan struct{}), acks: map[string]chan json.RawMessage{}}
	k.mu.Lock()
	k.opened++
	k.conns = append(k.conns, c)
	n := len(k.conns)
	k.mu.Unlock()
	if n > 10 {
		_ = c.write(object{"type": "disconnect", "reason": "too_many_websockets"})
		s.drop(c)
		return
	}
	_ = c.write(object{
		"type": "hello", "num_connections": n, "connection_info": object{"app_id": AppID},
		"debug_info": object{"host": "fake", "approximate_connection_time": 18060},
	})
	go s.ping(c)
	s.read(c)
}

func (s *Server) ping(c *conn) {
	tick := time.NewTicker(s.opt.PingEvery)
	defer tick.Stop()
	for {
		_ = c.ping()
		select {
		case <-c.frozen:
			return
		case <-c.closed:
			return
		case <-tick.C:
		}
	}
}

func (c *conn) ping() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ws.WriteControl(websocket.PingMessage, []byte("Ping from fake"), time.Now().Add(time.Second))
}

// read takes acknowledgements until the connection ends.
func (s *Server) read(c *conn) {
	defer s.drop(c)
	for {
		var a struct {
			ID      string          `json:"envelope_id"`
			Payload json.RawMessage `json:"payload"`
		}
		_, data, err := c.ws.ReadMessage()
		if err != nil {
			return
		}
		select {
		case <-c.frozen:
			continue
		default:
		}
		if len(data) > 20<<10 || json.Unmarshal(data, &a) != nil {
			continue // Slack drops these without a word
		}
		if s.ackLost() {
			continue
		}
		c.mu.Lock()
		ch := c.acks[a.ID]
		delete(c.acks, a.ID)
		c.mu.Unlock()
		if ch != nil {
			ch <- a.Payload
		}
	}
}

func (s *Server) ackLost() bool {
	k := &s.sockets
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dropAcks > 0 {
		k.dropAcks--
		return true
	}
	return false
}

func (s *Server) drop(c *conn) {
	c.end()
	k := &s.sockets
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, o := range k.conns {
		if o == c {
			k.conns = append(k.conns[:i:i], k.conns[i+1:]...)
			return
		}
	}
}

func (k *sockets) closeAll() {
	k.mu.Lock()
	conns := k.conns
	k.mu.Unlock()
	for _, c := range conns {
		c.end()
	}
}

// pick is the connection that gets the next envelope; nil when none is open.
func (k *sockets) pick() *conn {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.conns) == 0 {
		return nil
	}
	k.next++
	return k.conns[k.next%len(k.conns)]
}

// Connections is how many are open now; Opened how many ever were.
func (s *Server) Connections() int {
	s.sockets.mu.Lock()
	defer s.sockets.mu.Unlock()
	return len(s.sockets.conns)
}

// Opened is how many connections were ever opened.
func (s *Server) Opened() int {
	s.sockets.mu.Lock()
	defer s.sockets.mu.Unlock()
	return s.sockets.opened
}

// Freeze makes the open connections half-open: nothing comes from them and
// nothing that is sent to them arrives, and their TCP connections stay. Slack
// still counts them, and sends events to them.
func (s *Server) Freeze() {
	s.sockets.mu.Lock()
	defer s.sockets.mu.Unlock()
	for _, c := range s.sockets.conns {
		c.once.Do(func() { close(c.frozen) })
	}
}

// Refresh asks the open connections to reconnect, as Slack does every few hours.
func (s *Server) Refresh() {
	s.sockets.mu.Lock()
	conns := append([]*conn(nil), s.sockets.conns...)
	s.sockets.mu.Unlock()
	for _, c := range conns {
		_ = c.write(object{"type": "disconnect", "reason": "refresh_requested", "debug_info": object{"host": "fake"}})
	}
}

// DropAcks loses the next n acknowledgements.
func (s *Server) DropAcks(n int) {
	s.sockets.mu.Lock()
	defer s.sockets.mu.Unlock()
	s.sockets.dropAcks = n
}

// Duplicate sends every envelope twice from now on.
func (s *Server) Duplicate(on bool) {
	s.sockets.mu.Lock()
	defer s.sockets.mu.Unlock()
	s.sockets.twice = on
}

// Hold keeps events back until [Server.Release].
func (s *Server) Hold() {
	s.sockets.mu.Lock()
	defer s.sockets.mu.Unlock()
	s.sockets.holding = true
}

// Release sends the events that were held, the last one first.
func (s *Server) Release() {
	s.sockets.mu.Lock()
	held := s.sockets.held
	s.sockets.held, s.sockets.holding = nil, false
	s.sockets.mu.Unlock()
	for i := len(held) - 1; i >= 0; i-- {
		held[i]()
	}
}

// envelope sends one envelope over one connection and waits for its
// acknowledgement.
func (s *Server) envelope(kind string, payload any, id string, attempt int) (json.RawMessage, bool) {
	c := s.sockets.pick()
	if c == nil {
		return nil, false
	}
	ch := make(chan json.RawMessage, 2)
	c.mu.Lock()
	c.acks[id] = ch
	c.mu.Unlock()
	env := object{"type": kind, "envelope_id": id, "payload": payload, "accepts_response_payload": kind != "events_api"}
	if kind == "events_api" {
		env["retry_attempt"], env["retry_reason"] = attempt, ""
		if attempt > 0 {
			env["retry_reason"] = "timeout"
		}
	}
	s.sockets.mu.Lock()
	twice := s.sockets.twice
	s.sockets.mu.Unlock()
	if c.write(env) != nil {
		return nil, false
	}
	if twice {
		if other := s.sockets.pick(); other != nil {
			_ = other.write(env)
		}
	}
	select {
	case p := <-ch:
		return p, true
	case <-c.closed:
		return nil, false
	case <-time.After(s.opt.AckWithin):
		return nil, false
	}
}

func (s *Server) envelopeID() string {
	s.sockets.mu.Lock()
	defer s.sockets.mu.Unlock()
	s.sockets.serial++
	return fmt.Sprintf("env-%d", s.sockets.serial)
}

// Delivery is how an event fared.
type Delivery struct {
	done     chan struct{}
	acked    bool
	attempts int
}

// Wait waits until the event was acknowledged or given up.
func (d *Delivery) Wait() (acked bool, attempts int) {
	<-d.done
	return d.acked, d.attempts
}

// event delivers an event, again and again until it is acknowledged.
func (s *Server) event(inner object) *Delivery {
	d := &Delivery{done: make(chan struct{})}
	payload := object{
		"type": "event_callback", "team_id": Team, "api_app_id": AppID, "event_id": "Ev" + s.envelopeID(),
		"event_time": time.Now().Unix(), "event": inner, "authorizations": []object{{"team_id": Team, "user_id": BotUser, "is_bot": true}},
	}
	send := func() {
		defer close(d.done)
		for attempt := 0; ; attempt++ {
			d.attempts++
			if _, d.acked = s.envelope("events_api", payload, s.envelopeID(), attempt); d.acked || attempt >= len(s.opt.RetryAfter) {
				return
			}
			time.Sleep(s.opt.RetryAfter[attempt])
		}
	}
	k := &s.sockets
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.holding {
		k.held = append(k.held, func() { go send() })
		return d
	}
	go send()
	return d
}
