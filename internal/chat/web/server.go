package web

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// Sessions is what the web chat asks of Temporal.
type Sessions interface {
	chat.Sessions
	ToolCall(ctx context.Context, workflowID, callID string) (workflows.ToolCallInfo, error)
}

// Backend is a backend that the page offers.
type Backend struct {
	Name     string `json:"name"`
	Isolated bool   `json:"isolated"`
}

// Options configure [New].
type Options struct {
	// Dir holds chat.db and, when no token is set, the token that is made.
	Dir string
	// Listen is host:port; port 0 takes a free one. The host must be a loopback
	// address unless AnyHost is set.
	Listen  string
	AnyHost bool
	// ActAs lets one token speak for everybody, by X-Act-As; Token is that token,
	// random and kept in Dir when it is not set.
	ActAs bool
	Token telemetry.Secret
	// People are tokens by person, where ActAs is not set.
	People map[string]telemetry.Secret

	Sessions Sessions
	Blobs    chat.Blobs
	// Mask is [chat.Router.Mask].
	Mask *mask.Masker
	// Outputs opens the outputs of the session with a workflow ID.
	Outputs func(workflowID string) chat.OutputReader
	// Allow is [chat.Router.Allow].
	Allow func(ctx context.Context, by workflows.Actor, verb chat.Verb, t workflows.Thread) *chat.Error

	// Backends are those that can be used, the default first. Models are offered
	// for completion only.
	Backends []Backend
	Models   []string
	// Workspaces is [chat.Router.Workspaces].
	Workspaces []string
	Version    string
	// Offline says that the built-in offline model answers; Notices are honest
	// sentences about this installation, such as that commands are not isolated.
	Offline bool
	Notices []string

	// Page holds index.html and its files; PagePolicy is its
	// Content-Security-Policy. Without a page "/" says what the API is.
	Page       fs.FS
	PagePolicy string
	Log        *slog.Logger
}

// Server is the web chat. Make it with [New], run it with [Server.Run].
type Server struct {
	opt      Options
	store    *store
	router   *chat.Router
	listener net.Listener
	auth     *auth
	token    telemetry.Secret
	locks    keyedLocks
	retry    retries
	// ended is closed when the server shuts down, to end event streams.
	ended chan struct{}
}

// New opens the store and the port. Its errors are sentences.
func New(ctx context.Context, opt Options) (*Server, error) {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	st, err := openStore(ctx, opt.Dir)
	if err != nil {
		return nil, err
	}
	s := &Server{opt: opt, store: st, ended: make(chan struct{})}
	if err := s.setUp(ctx); err != nil {
		return nil, errors.Join(err, st.close())
	}
	return s, nil
}

func (s *Server) setUp(ctx context.Context) error {
	token := s.opt.Token
	if s.opt.ActAs && !token.IsSet() {
		var err error
		if token, err = keptToken(s.opt.Dir); err != nil {
			return err
		}
	}
	s.token = token
	s.auth = newAuth(s.opt.ActAs, token, s.opt.People)
	var names []string
	for _, b := range s.opt.Backends {
		names = append(names, b.Name)
	}
	s.router = &chat.Router{
		Sessions: s.opt.Sessions, Blobs: s.opt.Blobs, Backends: names, Workspaces: s.opt.Workspaces, Style: style, Allow: s.opt.Allow, Mask: s.opt.Mask, Outputs: s.opt.Outputs,
		Link: func(t workflows.Thread) string { return "#/t/" + t.ID },
	}
	l, err := listen(ctx, s.opt.Listen, s.opt.AnyHost)
	s.listener = l
	return err
}

// keptToken returns the token of the directory, made at the first start: so that
// an open page goes on after a restart.
func keptToken(dir string) (telemetry.Secret, error) {
	path := filepath.Join(dir, "token")
	if data, err := os.ReadFile(path); err == nil {
		if t := strings.TrimSpace(string(data)); len(t) >= 32 {
			return telemetry.NewSecret(t), nil
		}
	}
	var b [24]byte
	_, _ = rand.Read(b[:]) // never fails
	t := hex.EncodeToString(b[:])
	if err := os.WriteFile(path, []byte(t+"\n"), 0o600); err != nil {
		return telemetry.Secret{}, fmt.Errorf("keeping the web chat's token: %w", err)
	}
	return telemetry.NewSecret(t), nil
}

func listen(ctx context.Context, addr string, anyHost bool) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("web.listen %q is not host:port", addr)
	}
	if !anyHost && !isLoopback(host) {
		return nil, fmt.Errorf("web.listen %q is not a loopback address: the web chat serves the machine it runs on", addr)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("port %s on %s is taken: stop what uses it, or set web.listen to another port (0 takes a free one)", port, host)
	case err != nil:
		return nil, fmt.Errorf("listening on web.listen %q: %w", addr, err)
	}
	return l, nil
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Poster is what the sessions' messages are delivered through.
func (s *Server) Poster() chat.Poster { return poster{s.store, s.opt.Blobs} }

// URL is the base address, without token.
func (s *Server) URL() string {
	host, port, _ := net.SplitHostPort(s.listener.Addr().String())
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// Token is the token that speaks for everybody; not set when each person has
// one.
func (s *Server) Token() telemetry.Secret { return s.token }

// Link is the address to open in a browser. The token is in the fragment, which
// browsers send to nobody.
func (s *Server) Link() string {
	if !s.token.IsSet() {
		return s.URL() + "/"
	}
	return s.URL() + "/#token=" + s.token.Reveal()
}

// shutdownGrace is how long requests in flight may take when the server ends.
const shutdownGrace = 5 * time.Second

// Run serves until ctx ends, then lets requests in flight finish and closes the
// store. It may be called once.
func (s *Server) Run(ctx context.Context) error {
	srv := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10, // 64 KiB
		ErrorLog:          slog.NewLogLogger(s.opt.Log.Handler(), slog.LevelDebug),
	}
	rctx, stopRetries := context.WithCancel(ctx)
	retried := make(chan struct{})
	go func() { defer close(retried); s.forwardPending(rctx) }()
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(s.listener) }()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	stopRetries()
	close(s.ended)
	sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if serr := srv.Shutdown(sctx); serr != nil {
		_ = srv.Close()
	}
	<-retried
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, s.store.close())
}

// Close releases port and store of a server that is not run.
func (s *Server) Close() error { return errors.Join(s.listener.Close(), s.store.close()) }
