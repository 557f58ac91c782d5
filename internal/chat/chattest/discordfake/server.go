package discordfake

import (
	"crypto/ed25519"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Identities that every fake has. The application's ID is not its bot's, as with
// older applications, so that mixing them up shows.
const (
	AppID   = "1000000000000000001"
	BotUser = "1000000000000000002"
	BotName = "countersign"
	BotRole = "1000000000000000003"
	Guild   = "1000000000000000010"
	General = "1000000000000000011"
	Ada     = "1000000000000000021"
	Grace   = "1000000000000000022"
)

// Times and sizes of the documentation: Receiving and Responding; Message;
// Reference, Uploading Files.
const (
	answerWithin   = 3 * time.Second
	tokenLives     = 15 * time.Minute
	maxRequest     = 25 << 20
	maxFile        = 10 << 20
	discordEpochMS = 1420070400000
)

// Options configure [New]. The zero value is strict, and as slow as Discord.
type Options struct {
	// Token is the only bot token taken; empty is "fake-token".
	Token string
	// Permissions are the bot's in the guild; 0 is [Invited].
	Permissions Permissions
	// NoMessageContent is an application without the message content intent:
	// identifying with it is refused, and REST empties others' messages too.
	NoMessageContent bool
	// PublicBot is an application that anybody may invite.
	PublicBot bool
	// NoRates switches the buckets and the global limit off.
	NoRates bool
	// Buckets replace limits by route, such as "POST /channels/{channel}/messages".
	Buckets map[string]Bucket
	// TakeUnknown ignores unknown fields as Discord does; they are complaints then.
	TakeUnknown bool
	// Drops says which further characters vanish from contents.
	Drops func(rune) bool
	// AnswerWithin is how long an interaction waits for its first answer; 0 is 3 s.
	AnswerWithin time.Duration
	// Heartbeat is the interval that the gateway asks for; 0 is 41.25 s.
	Heartbeat time.Duration
	// OldEdits is how many edits of messages older than an hour a channel takes in
	// an hour; 0 is 5. Discord does not publish its own.
	OldEdits int
	// MaxThreads is how many active threads a guild may have; 0 is 1,000.
	MaxThreads int
	// InvalidRequests is how many answers 401, 403 and 429 in ten minutes get the
	// sender banned; 0 is 10,000.
	InvalidRequests int
}

// Server is a running fake. Its methods are safe for concurrent use.
type Server struct {
	opt Options
	srv *httptest.Server

	mu           sync.Mutex
	ahead        time.Duration
	lastID       int64
	users        map[string]*User
	guilds       map[string]*guild
	channels     map[string]*Channel
	messages     map[string][]*Message
	nonces       []nonce
	interactions map[string]*Interaction
	order        []*Interaction
	commands     map[string][]*Command
	created      map[string][]time.Time
	upserts      int
	oldEdits     map[string][]time.Time
	failures     map[string][]*Failure
	calls        []Call
	complaints   []string
	windows      map[string]*window
	invalid      []time.Time
	files        map[string]File
	fileStatus   int
	key          ed25519.PrivateKey
	endpoint     string
	moved        chan struct{}
	gateway      *Gateway
	// away: an outage, and turned how many requests it has turned away.
	away   atomic.Bool
	turned atomic.Int64
}

// New starts a fake with one guild of the people ada and grace and the bot, and
// its text channel general.
func New(o Options) *Server {
	if o.Token == "" {
		o.Token = "fake-token"
	}
	if o.Permissions == 0 {
		o.Permissions = Invited
	}
	if o.AnswerWithin == 0 {
		o.AnswerWithin = answerWithin
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = 41250 * time.Millisecond
	}
	if o.OldEdits == 0 {
		o.OldEdits = 5
	}
	if o.MaxThreads == 0 {
		o.MaxThreads = 1000
	}
	if o.InvalidRequests == 0 {
		o.InvalidRequests = 10000
	}
	s := &Server{
		opt: o, users: map[string]*User{}, guilds: map[string]*guild{}, channels: map[string]*Channel{}, messages: map[string][]*Message{},
		interactions: map[string]*Interaction{}, commands: map[string][]*Command{}, created: map[string][]time.Time{},
		oldEdits: map[string][]time.Time{}, failures: map[string][]*Failure{}, windows: map[string]*window{},
		files: map[string]File{}, moved: make(chan struct{}),
	}
	s.key = ed25519.NewKeyFromSeed([]byte("a fake application's private key"))
	s.gateway = newGateway(s)
	s.AddUser(User{ID: BotUser, Name: BotName, Bot: true})
	s.AddUser(User{ID: Ada, Name: "ada"})
	s.AddUser(User{ID: Grace, Name: "grace"})
	s.AddGuild(Guild, "Fake")
	s.AddRole(Guild, Role{ID: BotRole, Name: BotName, Permissions: o.Permissions, Managed: true})
	s.AddMember(Guild, BotUser, BotRole)
	s.AddMember(Guild, Ada)
	s.AddMember(Guild, Grace)
	s.AddChannel(Channel{ID: General, Guild: Guild, Name: "general"})
	routes := s.routes()
	s.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.away.Load() {
			s.turned.Add(1)
			panic(http.ErrAbortHandler) // net/http closes the connection
		}
		routes.ServeHTTP(w, r)
	}))
	return s
}

// Outage ends all connections and sessions, and every further connection, until it is
// over.
func (s *Server) Outage(on bool) {
	s.away.Store(on)
	if on {
		s.gateway.Cut()
		s.gateway.Forget()
		s.srv.CloseClientConnections()
	}
}

// Turned is how many requests outages have turned away.
func (s *Server) Turned() int { return int(s.turned.Load()) }

// SetToken makes the bot's token this one.
func (s *Server) SetToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opt.Token = token
}

// URL is the base of the REST API with its version, for discord.api_url.
func (s *Server) URL() string { return s.srv.URL + "/api/v10" }

// GatewayURL is where the gateway is, for discord.gateway_url.
func (s *Server) GatewayURL() string {
	return "ws" + strings.TrimPrefix(s.srv.URL, "http") + "/gateway"
}

// Token is the bot's token, without "Bot ".
func (s *Server) Token() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opt.Token
}

// Gateway is the gateway's side: what was connected, and faults.
func (s *Server) Gateway() *Gateway { return s.gateway }

// Close ends the server and its connections.
func (s *Server) Close() {
	s.gateway.closeAll()
	s.srv.CloseClientConnections()
	s.srv.Close()
}

// Advance moves the fake's time on: interactions become late, tokens die,
// messages age, buckets are full again and threads without activity are archived.
// Connections do not notice.
func (s *Server) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
	s.archiveIdle()
	close(s.moved)
	s.moved = make(chan struct{})
}

// Now is the fake's time.
func (s *Server) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now()
}

func (s *Server) now() time.Time { return time.Now().Add(s.ahead) }

// snowflake is a new ID that holds the time (Reference, Snowflakes).
func (s *Server) snowflake() string {
	s.lastID = max(s.lastID+1, (s.now().UnixMilli()-discordEpochMS)<<22)
	return strconv.FormatInt(s.lastID, 10)
}

// Complaints are what Discord would have taken, though its documentation asks for
// something else.
func (s *Server) Complaints() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.complaints)
}

func (s *Server) complain(format string, args ...any) {
	s.complaints = append(s.complaints, fmt.Sprintf(format, args...))
}

// Call is one call of the REST API.
type Call struct {
	// Route is the method and pattern, such as
	// "POST /channels/{channel}/messages"; Path the path after the version.
	Route, Path string
	At          time.Time
	// Body is the JSON body, or a multipart body's payload_json.
	Body []byte
	// Status is 0 where the connection was cut; Code the error's.
	Status, Code int
	// Nothing was done where Failed is set: [Server.Fail] answered.
	Failed bool
}

// Calls are the calls of a route so far; of all routes when it is empty.
func (s *Server) Calls(route string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Call
	for _, c := range s.calls {
		if route == "" || c.Route == route {
			out = append(out, c)
		}
	}
	return out
}

// Refused are the calls that were answered with one of the codes.
func (s *Server) Refused(codes ...int) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Call
	for _, c := range s.calls {
		if slices.Contains(codes, c.Code) {
			out = append(out, c)
		}
	}
	return out
}

// ResetToken makes the bot's token another, as its owner may at any moment.
func (s *Server) ResetToken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opt.Token += "-reset"
}

// Invalid is how many answers so far count towards the ban: 401, 403, and 429
// except those of shared scope (Rate Limits, Invalid Request Limit).
func (s *Server) Invalid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.invalid)
}

// Failure is what a route answers instead of, or after, doing anything.
type Failure struct {
	// Status and Code are the answer's; without a code the body is no JSON, as a
	// proxy's is. A RetryAfter makes it a 429 of Scope user, shared or global.
	Status, Code int
	RetryAfter   time.Duration
	Scope        string
	// Cut closes the connection instead of answering.
	Cut bool
	// Delay holds the answer back in real time.
	Delay time.Duration
	// After lets the call do its work first: with Cut, the answer is lost. With
	// nothing but a Delay the real answer follows.
	After bool
	// Times is how often; 0 is once.
	Times int
}

// Fail makes the next calls of a route fail.
func (s *Server) Fail(route string, f Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Times = max(f.Times, 1)
	s.failures[route] = append(s.failures[route], &f)
}

func (s *Server) failure(route string) *Failure {
	list := s.failures[route]
	if len(list) == 0 {
		return nil
	}
	f := list[0]
	if f.Times--; f.Times == 0 {
		s.failures[route] = list[1:]
	}
	copied := *f
	return &copied
}

func (f *Failure) fails() bool { return f.Cut || f.Status != 0 || f.RetryAfter > 0 }

func (f *Failure) refusal() *refusal {
	if f.RetryAfter > 0 {
		scope := f.Scope
		if scope == "" {
			scope = "user"
		}
		return limited(f.RetryAfter, scope)
	}
	return &refusal{Status: f.Status, Code: f.Code, Message: http.StatusText(f.Status), bare: f.Code == 0}
}
