package slackfake

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Identities of the fake workspace and its bot.
const (
	Team    = "T0FAKE0001"
	AppID   = "A0FAKE0001"
	BotUser = "U0FAKEBOT1"
	BotID   = "B0FAKEBOT1"
	BotName = "countersign"
)

// Options configure [New]. The zero value is strict, and as slow as Slack.
type Options struct {
	// BotToken and AppToken are the only tokens taken; empty is "xoxb-fake" and
	// "xapp-fake".
	BotToken, AppToken string
	// Scopes are the bot token's; nil is [AllScopes].
	Scopes []string
	// NoTiers switches the rate limits off.
	NoTiers bool
	// AckWithin is how long an envelope waits for its acknowledgement; 0 is 3 s.
	AckWithin time.Duration
	// RetryAfter is the time before each repetition of an event; nil is at once,
	// after a minute, after five.
	RetryAfter []time.Duration
	// PingEvery is the time between two pings; 0 is 5 s.
	PingEvery time.Duration
	// Ahead is by how much Slack's clock is ahead of this machine's, which may be wrong.
	Ahead time.Duration
	// OrgWide makes the installation one for a whole organisation.
	OrgWide bool
}

// AllScopes are the bot scopes that the fake knows.
func AllScopes() []string {
	return []string{
		"app_mentions:read", "assistant:write", "channels:history", "channels:read", "chat:write", "commands", "files:read", "files:write",
		"groups:history", "groups:read", "im:history", "im:read", "mpim:history", "mpim:read", "usergroups:read", "users:read",
	}
}

// User is a person or bot.
type User struct {
	ID, Name, Team            string
	Restricted, Stranger, Bot bool
	Deleted, UltraRestricted  bool
}

// Channel is a conversation.
type Channel struct {
	ID, Name string
	// Private, IM and MPIM say which kind; none is a public channel.
	Private, IM, MPIM bool
	Archived          bool
	// Members are user IDs; the bot is a member if it is among them.
	Members []string
}

func (c *Channel) has(user string) bool { return slices.Contains(c.Members, user) }

// Group is a user group.
type Group struct {
	ID, Handle string
	Users      []string
	Disabled   bool
}

// Message is a message as it stands.
type Message struct {
	Channel, TS, ThreadTS, User, BotID string
	Text                               string
	Blocks                             json.RawMessage
	Metadata                           json.RawMessage
	EditedTS                           string
	Files                              []File
	// Deleted roots stay, because replies to them are posted into the channel.
	Deleted bool
	// Attachments are what unfurling left.
	Attachments json.RawMessage
	// Args are what chat.postMessage was called with.
	Args url.Values
}

// File is an uploaded file.
type File struct {
	ID, Name, Title string
	Content         []byte
	// External is a link to a file elsewhere: Slack has no content of it.
	External bool
	// Link, if set, is where Slack says that the content is.
	Link string
}

// Ephemeral is a message that one person saw.
type Ephemeral struct {
	Channel, User, ThreadTS, Text string
	Blocks                        json.RawMessage
}

// Failure is what a method answers instead of doing anything.
type Failure struct {
	// Code is an error code; RetryAfter makes it a 429 in its stead; Status an
	// HTTP status without a body.
	Code       string
	RetryAfter int
	Status     int
	// Times is how often; 0 is once.
	Times int
	// After lets the call do its work before it fails: the answer is lost.
	After bool
}

// Server is a running fake. Its methods are safe for concurrent use.
type Server struct {
	opt Options
	srv *httptest.Server

	// away: an outage.
	away atomic.Bool

	mu         sync.Mutex
	users      map[string]*User
	channels   map[string]*Channel
	groups     []Group
	messages   map[string][]*Message
	views      map[string]*View
	homes      map[string]*View
	agents     map[string]AgentSession
	viewOrder  []string
	files      map[string]*File
	downloads  []string
	ephemerals []Ephemeral
	responses  map[string]*responseURL
	triggers   map[string]*trigger
	failures   map[string][]*Failure
	revoked    string
	calls      []Call
	complaints []string
	windows    map[string][]time.Time
	lastTS     int64
	lastID     int
	sockets    sockets
}

// Call is one call of the Web API.
type Call struct {
	Method string
	At     time.Time
	Args   url.Values
	// Error is the code that it was refused with; "429" for a rate limit.
	Error string
}

type trigger struct {
	user string
	at   time.Time
	used bool
	// view is the modal in which it came about, if it was one.
	view string
}

type responseURL struct {
	user, channel, threadTS, ts string
	at                          time.Time
	uses                        int
}

// New starts a fake with one public channel, C0GENERAL1, that the bot is in, and
// the people ada (U0ADA00001) and grace (U0GRACE001).
func New(o Options) *Server {
	if o.BotToken == "" {
		o.BotToken = "xoxb-fake"
	}
	if o.AppToken == "" {
		o.AppToken = "xapp-fake"
	}
	if o.Scopes == nil {
		o.Scopes = AllScopes()
	}
	if o.AckWithin == 0 {
		o.AckWithin = 3 * time.Second
	}
	if o.RetryAfter == nil {
		o.RetryAfter = []time.Duration{0, time.Minute, 5 * time.Minute}
	}
	if o.PingEvery == 0 {
		o.PingEvery = 5 * time.Second
	}
	s := &Server{
		opt: o, users: map[string]*User{}, channels: map[string]*Channel{}, messages: map[string][]*Message{},
		views: map[string]*View{}, homes: map[string]*View{}, agents: map[string]AgentSession{}, files: map[string]*File{}, responses: map[string]*responseURL{},
		triggers: map[string]*trigger{}, failures: map[string][]*Failure{}, windows: map[string][]time.Time{},
	}
	s.sockets.tickets = map[string]bool{}
	s.AddUser(User{ID: BotUser, Name: BotName, Bot: true})
	s.AddUser(User{ID: "U0ADA00001", Name: "ada"})
	s.AddUser(User{ID: "U0GRACE001", Name: "grace"})
	s.AddChannel(Channel{ID: "C0GENERAL1", Name: "general", Members: []string{BotUser, "U0ADA00001", "U0GRACE001"}})
	mux := http.NewServeMux()
	mux.HandleFunc("/api/{method}", s.serve)
	mux.HandleFunc("POST /upload/{id}", s.upload)
	mux.HandleFunc("POST /respond/{id}", s.respond)
	mux.HandleFunc("GET /files-pri/{id}", s.download)
	mux.HandleFunc("GET /signin", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>sign in</html>")) })
	mux.HandleFunc("GET /socket", s.socket)
	s.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.away.Load() {
			panic(http.ErrAbortHandler) // net/http closes the connection
		}
		mux.ServeHTTP(w, r)
	}))
	return s
}

// Outage ends all connections, and every further one, until it is over.
func (s *Server) Outage(on bool) {
	s.away.Store(on)
	if on {
		s.sockets.closeAll()
		s.srv.CloseClientConnections()
	}
}

// URL is the base of the Web API, for slack.api_url.
func (s *Server) URL() string { return s.srv.URL + "/api/" }

// Close ends the server and its connections.
func (s *Server) Close() {
	s.sockets.closeAll()
	s.srv.CloseClientConnections()
	s.srv.Close()
}

// AddUser adds or replaces a user; without a team they are of [Team].
func (s *Server) AddUser(u User) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.Team == "" {
		u.Team = Team
	}
	s.users[u.ID] = &u
}

// AddChannel adds or replaces a channel.
func (s *Server) AddChannel(c Channel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.channels[c.ID] = &c
}

// AddGroup adds or replaces a user group.
func (s *Server) AddGroup(g Group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups = slices.DeleteFunc(s.groups, func(o Group) bool { return o.ID == g.ID })
	s.groups = append(s.groups, g)
}

// Fail makes the next calls of a method fail.
func (s *Server) Fail(method string, f Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Times = max(f.Times, 1)
	s.failures[method] = append(s.failures[method], &f)
}

// Revoke makes the bot's token one that is refused with a code from now on; without a
// code it is valid again.
func (s *Server) Revoke(code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked = code
}

// Recover ends the failures of a method that were still to come.
func (s *Server) Recover(method string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.failures, method)
}

// Calls are the calls of a method so far; of all methods when it is empty.
func (s *Server) Calls(method string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Call
	for _, c := range s.calls {
		if method == "" || c.Method == method {
			out = append(out, c)
		}
	}
	return out
}

// Refused are the calls that were refused with one of the codes.
func (s *Server) Refused(codes ...string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Call
	for _, c := range s.calls {
		if slices.Contains(codes, c.Error) {
			out = append(out, c)
		}
	}
	return out
}

// Complaints are what Slack would have taken, though its documentation asks for
// something else.
func (s *Server) Complaints() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.complaints)
}

func (s *Server) complain(format string, args ...any) {
	s.complaints = append(s.complaints, fmt.Sprintf(format, args...))
}

// Thread is a thread's messages, its root first; deleted ones are left out.
func (s *Server) Thread(channel, ts string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Message
	for _, m := range s.messages[channel] {
		if !m.Deleted && (m.TS == ts || m.ThreadTS == ts) {
			out = append(out, *m)
		}
	}
	return out
}

// Messages are all messages of a channel in order, deleted ones left out.
func (s *Server) Messages(channel string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Message
	for _, m := range s.messages[channel] {
		if !m.Deleted {
			out = append(out, *m)
		}
	}
	return out
}

// Message is one message.
func (s *Server) Message(channel, ts string) (Message, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.find(channel, ts); m != nil && !m.Deleted {
		return *m, true
	}
	return Message{}, false
}

// Ephemerals are what only this person saw.
func (s *Server) Ephemerals(user string) []Ephemeral {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Ephemeral
	for _, e := range s.ephemerals {
		if e.User == user {
			out = append(out, e)
		}
	}
	return out
}

// Files are all files that were shared.
func (s *Server) Files() []File {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []File
	for _, f := range s.files {
		out = append(out, *f)
	}
	return out
}

func (s *Server) find(channel, ts string) *Message {
	for _, m := range s.messages[channel] {
		if m.TS == ts {
			return m
		}
	}
	return nil
}

// nextTS is the time as a timestamp that no other message has.
func (s *Server) nextTS() string {
	s.lastTS = max(s.lastTS+1, time.Now().Add(s.opt.Ahead).UnixMicro())
	return fmt.Sprintf("%d.%06d", s.lastTS/1e6, s.lastTS%1e6)
}

func (s *Server) nextID(kind string) string {
	s.lastID++
	return fmt.Sprintf("%s0%08d", kind, s.lastID)
}

// serve is the Web API: token, rate, scope, then the method.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Date", time.Now().Add(s.opt.Ahead).UTC().Format(http.TimeFormat))
	method := r.PathValue("method")
	args, token, err := arguments(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	call := Call{Method: method, At: time.Now(), Args: args}
	out, e := s.answer(method, token, args)
	if e.RetryAfter > 0 {
		call.Error = "429"
		s.calls = append(s.calls, call)
		w.Header().Set("Retry-After", fmt.Sprint(e.RetryAfter))
		http.Error(w, `{"ok":false,"error":"ratelimited"}`, http.StatusTooManyRequests)
		return
	}
	if e.Status != 0 {
		call.Error = fmt.Sprint(e.Status)
		s.calls = append(s.calls, call)
		w.WriteHeader(e.Status)
		return
	}
	call.Error = e.Code
	s.calls = append(s.calls, call)
	if e.Code != "" {
		out = object{"ok": false, "error": e.Code}
		for k, v := range e.more {
			out[k] = v
		}
	} else {
		if out == nil {
			out = object{}
		}
		out["ok"] = true
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("X-OAuth-Scopes", strings.Join(s.opt.Scopes, ","))
	_ = json.NewEncoder(w).Encode(out)
}

type object map[string]any

// refusal is an error answer.
type refusal struct {
	Code       string
	RetryAfter int
	Status     int
	more       object
}

func refuse(code string) (object, refusal) { return nil, refusal{Code: code} }

// invalid is a refusal with Slack's explanation.
func invalid(code string, why ...string) (object, refusal) {
	return nil, refusal{Code: code, more: object{"response_metadata": object{"messages": why}}}
}

// arguments reads a form or JSON body, and the token from the form or header.
func arguments(r *http.Request) (url.Values, string, error) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		data, err := io.ReadAll(io.LimitReader(r.Body, 4<<20))
		if err != nil {
			return nil, "", err
		}
		args := url.Values{}
		var body map[string]json.RawMessage
		if len(data) > 0 && json.Unmarshal(data, &body) != nil {
			return nil, "", fmt.Errorf("body is no JSON object")
		}
		for k, v := range body {
			var text string
			if json.Unmarshal(v, &text) == nil {
				args.Set(k, text)
			} else {
				args.Set(k, string(v))
			}
		}
		return args, token, nil
	}
	if err := r.ParseMultipartForm(4 << 20); err != nil && err != http.ErrNotMultipart {
		return nil, "", err
	}
	args := url.Values{}
	for k, v := range r.Form {
		args[k] = v
	}
	if t := args.Get("token"); t != "" {
		token = t
	}
	args.Del("token")
	return args, token, nil
}

// answer checks a call and carries it out.
func (s *Server) answer(method, token string, args url.Values) (object, refusal) {
	f := s.failure(method)
	if f != nil && !f.After {
		return nil, refusal{Code: f.Code, RetryAfter: f.RetryAfter, Status: f.Status}
	}
	spec, ok := specs()[method]
	if !ok {
		return refuse("unknown_method")
	}
	switch {
	case token == "":
		return refuse("not_authed")
	case token != s.opt.BotToken && token != s.opt.AppToken:
		return refuse("invalid_auth")
	case token == s.opt.BotToken && s.revoked != "":
		return refuse(s.revoked)
	case spec.app != (token == s.opt.AppToken):
		return refuse("not_allowed_token_type")
	}
	if wait := s.limited(method, spec.tier, args); wait > 0 {
		return nil, refusal{RetryAfter: wait}
	}
	if spec.scope != "" && !slices.Contains(s.opt.Scopes, spec.scope) {
		return s.missing(spec.scope)
	}
	out, e := spec.do(s, args)
	if f != nil && e.Code == "" {
		return nil, refusal{Code: f.Code, RetryAfter: f.RetryAfter, Status: f.Status}
	}
	return out, e
}

func (s *Server) missing(scope string) (object, refusal) {
	return nil, refusal{Code: "missing_scope", more: object{"needed": scope, "provided": strings.Join(s.opt.Scopes, ",")}}
}

func (s *Server) failure(method string) *Failure {
	list := s.failures[method]
	if len(list) == 0 {
		return nil
	}
	f := list[0]
	if f.Times--; f.Times == 0 {
		s.failures[method] = list[1:]
	}
	return f
}

// limited answers how many seconds a call has to wait: its method's tier, counted
// over a minute for the whole workspace, and one post a second in a channel with
// a short burst.
func (s *Server) limited(method string, perMinute int, args url.Values) int {
	if s.opt.NoTiers {
		return 0
	}
	now := time.Now()
	if method == "chat.postMessage" {
		return s.window("post/"+args.Get("channel"), now, 10*time.Second, 13)
	}
	if perMinute == 0 {
		return 0
	}
	return s.window(method, now, time.Minute, perMinute)
}

func (s *Server) window(key string, now time.Time, span time.Duration, most int) int {
	times := slices.DeleteFunc(s.windows[key], func(t time.Time) bool { return now.Sub(t) >= span })
	if len(times) >= most {
		s.windows[key] = times
		return int(times[0].Add(span).Sub(now)/time.Second) + 1
	}
	s.windows[key] = append(times, now)
	return 0
}
