// Package agenttest holds a strict fake of the Responses API: it refuses what the
// API refuses, streams as it does, keeps responses where it is asked to, counts
// tokens and cached tokens, and has faults on demand.
package agenttest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/agent/wire"
)

// Key is the API key that a [Server] takes.
const Key = "sk-test-key-that-must-not-leak-0123456789"

// Request is one request as it came.
type Request struct {
	// Path is below the base URL: "responses", "responses/compact", …
	Path         string            `json:"-"`
	At           time.Time         `json:"-"`
	Body         []byte            `json:"-"`
	Model        string            `json:"model"`
	Instructions string            `json:"instructions"`
	Input        []json.RawMessage `json:"input"`
	Previous     string            `json:"previous_response_id"`
	Store        *bool             `json:"store"`
	Stream       bool              `json:"stream"`
	Background   bool              `json:"background"`
	Include      []string          `json:"include"`
	CacheKey     string            `json:"prompt_cache_key"`
	Tools        []json.RawMessage `json:"tools"`
	ToolChoice   json.RawMessage   `json:"tool_choice"`
	Reasoning    json.RawMessage   `json:"reasoning"`
	// Refused is the code and message of the refusal it got, where it got one.
	Refused string `json:"-"`
}

// Server is the fake. Its base URL is URL + "/v1".
type Server struct {
	*httptest.Server
	// Answer says what to answer to a request that is in order. It is called for
	// one request at a time.
	Answer func(Request) Answer
	// Window is how many tokens the model takes; 0 is no bound.
	Window int
	// NoCompact takes /responses/compact away,
	// NoSummary refuses to summarise reasoning, NoStore to keep responses.
	NoCompact, NoSummary, NoStore bool

	mu       sync.Mutex
	asking   sync.Mutex
	requests []Request
	stored   map[string]*kept
	// needs is the reasoning item that an item came with; sealed what was
	// encrypted, by its ciphertext: the model that may read it.
	needs  map[string]string
	sealed map[string]string
	prefix map[string]string // by cache key: what the last request began with
	given  int
	open   int
	ended  chan struct{}
}

// kept is a stored response.
type kept struct {
	response map[string]any
	items    []wire.Item // all before it and its own
	done     chan struct{}
	cancel   func()
}

// New starts a server that answers as answers say, the last one again and again;
// without any, set Answer.
func New(t testing.TB, answers ...Answer) *Server {
	t.Helper()
	s := &Server{
		stored: map[string]*kept{}, needs: map[string]string{}, sealed: map[string]string{}, prefix: map[string]string{},
		ended: make(chan struct{}),
	}
	if len(answers) > 0 {
		s.Script(answers...)
	}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() { close(s.ended); s.CloseClientConnections(); s.Close() })
	return s
}

// Script sets what the next requests get, the last one again and again.
func (s *Server) Script(answers ...Answer) {
	s.asking.Lock()
	defer s.asking.Unlock()
	next := 0
	s.Answer = func(Request) Answer {
		a := answers[min(next, len(answers)-1)]
		next++
		return a
	}
}

// Base is the base URL of the API.
func (s *Server) Base() string { return s.URL + "/v1" }

// Requests are those that came so far, refused ones included.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Refusals are the refusals that were given because a request was not in order.
func (s *Server) Refusals() []string {
	var all []string
	for _, r := range s.Requests() {
		if r.Refused != "" {
			all = append(all, r.Refused)
		}
	}
	return all
}

// Forget drops all stored responses, as the API does after their time.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.stored)
}

// Open is how many streams are being read now.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

func (s *Server) opened(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open += n
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	req := Request{Path: strings.TrimPrefix(r.URL.Path, "/v1/"), At: time.Now(), Body: body}
	_ = json.Unmarshal(body, &req) // what is no request is refused below
	if r.Header.Get("Authorization") != "Bearer "+Key {
		s.refuse(w, req, &wire.Error{Status: http.StatusUnauthorized, Message: "Incorrect API key provided.", Type: wire.TypeInvalid, Code: ptr("invalid_api_key")})
		return
	}
	id, action, _ := strings.Cut(strings.TrimPrefix(req.Path, "responses/"), "/")
	switch {
	case r.Method == http.MethodPost && req.Path == "responses":
		s.create(w, r, req)
	case r.Method == http.MethodPost && req.Path == "responses/compact" && !s.NoCompact:
		s.compact(w, req)
	case r.Method == http.MethodGet && req.Path == "responses/"+id:
		s.retrieve(w, r, req, id)
	case r.Method == http.MethodPost && action == "cancel":
		s.cancel(w, req, id)
	default:
		s.refuse(w, req, &wire.Error{Status: http.StatusNotFound, Message: "Invalid URL (" + r.Method + " " + r.URL.Path + ")", Type: wire.TypeInvalid})
	}
}

func ptr(s string) *string { return &s }

func (s *Server) note(req Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, req)
}

func (s *Server) refuse(w http.ResponseWriter, req Request, err error) {
	var e *wire.Error
	if !errors.As(err, &e) {
		e = wire.Invalid("", "", err.Error())
	}
	code := ""
	if e.Code != nil {
		code = *e.Code
	}
	req.Refused = strings.TrimSpace(code + " " + e.Message)
	s.note(req)
	wire.WriteError(w, e)
}

// check reads a request as the API does, and what it may hold of this server's.
func (s *Server) check(req Request) (*wire.Request, error) {
	if s.NoStore && req.Previous != "" {
		return nil, wire.Invalid("previous_response_id", "unsupported_parameter", "Previous response cannot be used for this organization due to Zero Data Retention.")
	}
	read, err := wire.Read(req.Body, s.past)
	if err != nil {
		return nil, err
	}
	if s.NoSummary && strings.Contains(string(req.Reasoning), "summary") {
		return nil, wire.Invalid("reasoning.summary", "unsupported_parameter", "Unsupported parameter: 'reasoning.summary' is not supported with this model.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	have := map[string]bool{}
	for i, it := range slices.Concat(read.Past, read.Items) {
		at := fmt.Sprintf("input[%d]", i)
		if it.Encrypted != "" && s.sealed[it.Encrypted] != req.Model {
			return nil, wire.Invalid("input", "invalid_encrypted_content", "The encrypted content for item "+it.ID+" could not be verified.")
		}
		if it.Type == "compaction" && it.Encrypted == "" {
			return nil, wire.Invalid(at+".encrypted_content", "missing_required_parameter", "Missing required parameter: '"+at+".encrypted_content'.")
		}
		if need := s.needs[it.ID]; it.ID != "" && need != "" && !have[need] {
			return nil, wire.Invalid("input", "", "Item '"+it.ID+"' of type '"+it.Type+"' was provided without its required 'reasoning' item: '"+need+"'.")
		}
		have[it.ID] = true
	}
	if n := s.tokens(req, read); s.Window > 0 && n > s.Window {
		return nil, wire.Invalid("input", "context_length_exceeded", "Your input exceeds the context window of this model.")
	}
	return read, nil
}

func (s *Server) past(id string) ([]wire.Item, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.stored[id]
	if !ok {
		return nil, false
	}
	return k.items, true
}

// imageTokens is what an image takes, whatever its bytes.
const imageTokens = 765

// tokens are those of a request's input: a token for every four bytes.
func (s *Server) tokens(req Request, read *wire.Request) int {
	n := len(req.Instructions)
	for _, t := range req.Tools {
		n += len(t)
	}
	for _, it := range read.Past {
		n += len(it.Text) + len(it.Encrypted) + 20
		if it.Arguments != nil {
			n += len(*it.Arguments)
		}
	}
	for _, raw := range req.Input {
		n += len(raw)
	}
	images := 0
	for _, it := range read.Items {
		for _, img := range it.Images {
			n -= img.Encoded
			images++
		}
	}
	return n/4 + images*imageTokens
}

// cached are the tokens of a request that began as the last one with its key.
func (s *Server) cached(req Request) int {
	var b strings.Builder
	b.WriteString(req.Model + req.Instructions)
	for _, raw := range append(slices.Clone(req.Tools), req.Input...) {
		b.Write(raw)
	}
	now := b.String()
	before := s.prefix[req.CacheKey]
	s.prefix[req.CacheKey] = now
	n := 0
	for n < min(len(now), len(before)) && now[n] == before[n] {
		n++
	}
	if n /= 4; n < 1024 {
		return 0
	}
	return n / 128 * 128
}
