package discordfake

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

// Gateway intents (Gateway, List of Intents).
const (
	intentGuilds         = 1 << 0
	intentGuildMembers   = 1 << 1
	intentPresences      = 1 << 8
	intentGuildMessages  = 1 << 9
	intentDirectMessages = 1 << 12
	intentMessageContent = 1 << 15
	allIntents           = 1<<26 - 1
)

// Opcodes (Opcodes and Status Codes, Gateway Opcodes).
const (
	opDispatch       = 0
	opHeartbeat      = 1
	opIdentify       = 2
	opPresence       = 3
	opVoice          = 4
	opResume         = 6
	opReconnect      = 7
	opMembers        = 8
	opInvalidSession = 9
	opHello          = 10
	opAck            = 11
)

// Limits of the gateway (Gateway, Rate Limiting, Identifying and Sending Events).
const (
	identifyLimit = 1000
	sendLimit     = 120
	maxPayload    = 4096
)

// dispatch is an event: for sessions with its intent, of a channel that the bot
// sees.
type dispatch struct {
	name    string
	intent  int
	channel string
	data    object
	// render makes the data for a session's intents, where it depends on them.
	render func(intents int) object
}

// Gateway is the gateway's side of the fake: its sessions, and faults on them.
type Gateway struct {
	s *Server
	// The fields below are the server's: under its lock.
	conns      []*conn
	sessions   map[string]*session
	identifies []time.Time
	opened     int
	resumed    int
	closes     []int
	faults     []openFault
	noResume   []bool
	muted      bool
	twice      bool
	holding    bool
	held       []func()
}

type session struct {
	id      string
	intents int
	seq     int
	sent    []frame
	at      *conn
}

type frame struct {
	seq  int
	data []byte
}

func newGateway(s *Server) *Gateway { return &Gateway{s: s, sessions: map[string]*session{}} }

// serve is a connection from Hello to its end.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	ws, err := (&websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}).Upgrade(w, r, nil)
	if err != nil {
		return
	}
	c := &conn{ws: ws, wake: make(chan struct{}, 1), done: make(chan struct{})}
	g.s.mu.Lock()
	g.conns = append(g.conns, c)
	g.opened++
	var fault openFault
	if len(g.faults) > 0 {
		fault, g.faults = g.faults[0], g.faults[1:]
	}
	g.s.mu.Unlock()
	c.fault = fault
	go c.pump()
	defer g.drop(c)
	if q.Get("encoding") != "json" || q.Get("v") != "9" && q.Get("v") != "10" {
		c.close(4012)
	} else if fault == dropAtOnce {
		c.abort()
	} else {
		c.send(object{"op": opHello, "d": object{"heartbeat_interval": g.s.opt.Heartbeat.Milliseconds(), "_trace": []string{}}, "s": nil, "t": nil})
		if fault == reconnectSecond {
			c.send(object{"op": opReconnect, "d": nil, "s": nil, "t": nil})
		}
		g.read(c)
		return
	}
	<-c.done
}

// read takes what the client sends until the connection ends.
func (g *Gateway) read(c *conn) {
	for {
		// Discord closes a connection without heartbeats.
		_ = c.ws.SetReadDeadline(time.Now().Add(2*g.s.opt.Heartbeat + time.Second))
		_, data, err := c.ws.ReadMessage()
		if err != nil {
			code := 0
			var closed *websocket.CloseError
			if errors.As(err, &closed) {
				code = closed.Code
			}
			g.left(c, code)
			return
		}
		if c.isFrozen() {
			continue
		}
		var p struct {
			Op int             `json:"op"`
			D  json.RawMessage `json:"d"`
		}
		switch {
		case len(data) > maxPayload || json.Unmarshal(data, &p) != nil:
			c.close(4002)
		case !g.within(c):
			c.close(4008)
		default:
			g.take(c, p.Op, p.D)
		}
	}
}

// within counts what a connection sends.
func (g *Gateway) within(c *conn) bool {
	now := time.Now()
	c.sends = append(slices.DeleteFunc(c.sends, func(t time.Time) bool { return now.Sub(t) >= time.Minute }), now)
	return len(c.sends) <= sendLimit
}

func (g *Gateway) take(c *conn, op int, d json.RawMessage) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	switch op {
	case opHeartbeat:
		if !g.muted {
			c.send(object{"op": opAck, "d": nil, "s": nil, "t": nil})
		}
	case opIdentify:
		g.identify(c, d)
	case opResume:
		g.resume(c, d)
	case opPresence, opVoice, opMembers:
		if c.session == nil {
			c.close(4003)
		}
	default:
		c.close(4001)
	}
}

// identify starts a session (Gateway Events, Identify).
func (g *Gateway) identify(c *conn, d json.RawMessage) {
	var in struct {
		Token      string         `json:"token"`
		Properties map[string]any `json:"properties"`
		Compress   bool           `json:"compress"`
		Intents    *int           `json:"intents"`
		Shard      []int          `json:"shard"`
	}
	fault := c.fault
	c.fault = noFault
	g.identifies = append(g.identifies, g.s.now())
	switch err := json.Unmarshal(d, &in); {
	case err != nil || in.Properties == nil:
		c.close(4002)
	case c.session != nil:
		c.close(4005)
	case strings.TrimPrefix(in.Token, "Bot ") != g.s.opt.Token || g.identified() > identifyLimit:
		c.close(4004)
	case in.Intents == nil || *in.Intents < 0 || *in.Intents > allIntents:
		c.close(4013)
	case *in.Intents&(intentGuildMembers|intentPresences) != 0, g.s.opt.NoMessageContent && *in.Intents&intentMessageContent != 0:
		c.close(4014)
	case len(in.Shard) == 2 && (in.Shard[1] < 1 || in.Shard[0] >= in.Shard[1]):
		c.close(4010)
	case fault == invalidFirst:
		c.send(object{"op": opInvalidSession, "d": false, "s": nil, "t": nil})
	case fault > closeBase:
		c.close(int(fault - closeBase))
	default:
		s := &session{id: fmt.Sprintf("session-%s", g.s.snowflake()), intents: *in.Intents, at: c}
		c.session = s
		c.mu.Lock()
		c.compress = in.Compress
		c.mu.Unlock()
		g.sessions[s.id] = s
		g.ready(s)
	}
}

// identified is how many sessions were begun in the last day.
func (g *Gateway) identified() int {
	n := 0
	for _, t := range g.identifies {
		if g.s.now().Sub(t) < 24*time.Hour {
			n++
		}
	}
	return n
}

func (g *Gateway) ready(s *session) {
	var guilds []object
	var ids []string
	for id, one := range g.s.guilds {
		if one.members[BotUser] != nil {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, compareIDs)
	for _, id := range ids {
		guilds = append(guilds, object{"id": id, "unavailable": true})
	}
	flags := flagMessageContentLimited
	if g.s.opt.NoMessageContent {
		flags = 0
	}
	g.to(s, "READY", object{
		"v": 10, "user": g.s.userObject(BotUser), "guilds": guilds, "session_id": s.id, "session_type": "normal", "shard": []int{0, 1},
		"resume_gateway_url": "ws" + strings.TrimPrefix(g.s.srv.URL, "http") + "/gateway", "application": object{"id": AppID, "flags": flags},
		"private_channels": []any{}, "presences": []any{}, "relationships": []any{},
	})
	if s.intents&intentGuilds == 0 {
		return
	}
	for _, id := range ids {
		g.to(s, "GUILD_CREATE", g.s.guildCreate(g.s.guilds[id]))
	}
}

// resume goes on with a session: what was missed, then RESUMED (Gateway,
// Resuming).
func (g *Gateway) resume(c *conn, d json.RawMessage) {
	var in struct {
		Token   string `json:"token"`
		Session string `json:"session_id"`
		Seq     int    `json:"seq"`
	}
	if err := json.Unmarshal(d, &in); err != nil {
		c.close(4002)
		return
	}
	if strings.TrimPrefix(in.Token, "Bot ") != g.s.opt.Token {
		c.close(4004)
		return
	}
	fault := c.fault
	c.fault = noFault
	if fault > closeBase {
		c.close(int(fault - closeBase))
		return
	}
	s := g.sessions[in.Session]
	if fault == invalidFirst || len(g.noResume) > 0 {
		again := len(g.noResume) > 0 && g.noResume[0]
		if fault != invalidFirst {
			g.noResume = g.noResume[1:]
		}
		if !again {
			delete(g.sessions, in.Session)
		}
		c.send(object{"op": opInvalidSession, "d": again, "s": nil, "t": nil})
		return
	}
	switch {
	case s == nil:
		c.send(object{"op": opInvalidSession, "d": false, "s": nil, "t": nil})
		return
	case in.Seq > s.seq:
		delete(g.sessions, s.id)
		c.close(4007)
		return
	}
	g.resumed++
	s.at, c.session = c, s
	for _, f := range s.sent {
		if f.seq > in.Seq {
			c.push(f.data)
		}
	}
	g.to(s, "RESUMED", object{"_trace": []string{}})
}

// left ends a client's part: after 1000 and 1001 its session is gone, else it can
// be resumed (Gateway, Disconnecting).
func (g *Gateway) left(c *conn, code int) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.closes = append(g.closes, code)
	if c.session == nil || c.session.at != c {
		return
	}
	c.session.at = nil
	if code == websocket.CloseNormalClosure || code == websocket.CloseGoingAway {
		delete(g.sessions, c.session.id)
	}
}

func (g *Gateway) drop(c *conn) {
	c.abort()
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.conns = slices.DeleteFunc(g.conns, func(o *conn) bool { return o == c })
}

// dispatch sends an event to all sessions that want it.
func (s *Server) dispatch(e dispatch) {
	g := s.gateway
	if e.channel != "" {
		if c := s.channels[e.channel]; c == nil || !s.can(BotUser, c).has(ViewChannel) {
			return
		}
	}
	for _, one := range g.sessions {
		if e.intent != 0 && one.intents&e.intent == 0 {
			continue
		}
		data := e.data
		if e.render != nil {
			data = e.render(one.intents)
		}
		send := func() { g.to(one, e.name, data) }
		if g.holding {
			g.held = append(g.held, send)
			continue
		}
		send()
		if g.twice {
			send()
		}
	}
}

// to sends an event to a session, or keeps it until it is resumed.
func (g *Gateway) to(s *session, name string, data object) {
	s.seq++
	raw, err := json.Marshal(object{"op": opDispatch, "t": name, "s": s.seq, "d": data})
	if err != nil {
		panic(fmt.Sprintf("discordfake: an event does not encode: %v", err))
	}
	s.sent = append(s.sent, frame{s.seq, raw})
	if s.at != nil {
		s.at.push(raw)
	}
}

func (g *Gateway) closeAll() {
	g.s.mu.Lock()
	conns := slices.Clone(g.conns)
	g.s.mu.Unlock()
	for _, c := range conns {
		c.abort()
	}
}
