// Package mcptools reaches tools of MCP servers: it keeps a connection to each
// server that the settings name, lists its tools for the model and calls them. It
// judges nothing; the gate does.
package mcptools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/countersign/countersign/internal/telemetry"
)

const (
	// DefaultTimeout bounds a call where the settings say nothing.
	DefaultTimeout = time.Minute
	// connectWithin bounds connecting and listing.
	connectWithin = 20 * time.Second
	// retryAfter is how long a server that was not reached is left alone.
	retryAfter = 30 * time.Second
	// What of a server's tools the model is told.
	maxTools       = 128
	maxDescription = 1024 // bytes
	maxSchema      = 16 << 10
	// maxName is the longest name of a function that the model's API takes.
	maxName = 64
	// MaxResult is how much of a result is read, in bytes.
	MaxResult = 1 << 20
)

// ErrNotSent says that the server was not reached: the tool was not called.
var ErrNotSent = errors.New("the tool's server cannot be reached")

// Server is one MCP server of the settings: a command that speaks over its
// standard streams, or the address of a streamable HTTP endpoint.
type Server struct {
	Name string
	// Command and its arguments; Env names the variables of the worker's
	// environment that it gets, beside PATH, HOME, LANG and TMPDIR.
	Command []string
	Env     []string
	URL     string
	// Token is sent to URL as a bearer token.
	Token telemetry.Secret
	// Timeout bounds a call; 0 takes DefaultTimeout.
	Timeout time.Duration
}

// Tool is a tool as the model gets it.
type Tool struct {
	// Function is its name for the model, Server and Name those of the server.
	Function, Server, Name string
	Description            string
	Schema                 map[string]any
	// Digest names what the server says of the tool: when that changes, an approval
	// given before no longer fits.
	Digest  string
	Timeout time.Duration
	// Where says what runs it: the command or address.
	Where string
}

// Hub keeps the connections. It is safe for concurrent use.
type Hub struct {
	servers []*connection
	log     *slog.Logger
}

// New returns a hub; nothing is connected before it is needed.
func New(servers []Server, log *slog.Logger) *Hub {
	h := &Hub{log: log}
	for _, s := range servers {
		if s.Timeout == 0 {
			s.Timeout = DefaultTimeout
		}
		h.servers = append(h.servers, &connection{server: s, log: log})
	}
	slices.SortFunc(h.servers, func(a, b *connection) int { return strings.Compare(a.server.Name, b.server.Name) })
	return h
}

// Close ends the connections and the servers' processes.
func (h *Hub) Close() {
	for _, c := range h.servers {
		c.drop(nil)
	}
}

// Tools are those of all servers, in a stable order. A server that is away keeps
// those that it had; one that was never reached has none.
func (h *Hub) Tools(ctx context.Context) []Tool {
	if h == nil {
		return nil
	}
	var all []Tool
	for _, c := range h.servers {
		if _, err := c.session(ctx); err != nil {
			h.log.WarnContext(ctx, "MCP server is not reached", "server", c.server.Name, telemetry.KeyError, err)
		}
		all = append(all, c.known()...)
	}
	return all
}

// Find returns a tool by its name for the model.
func (h *Hub) Find(ctx context.Context, function string) (Tool, bool) {
	return h.find(ctx, func(t Tool) bool { return t.Function == function })
}

// Lookup returns a tool by its server's names.
func (h *Hub) Lookup(ctx context.Context, server, name string) (Tool, bool) {
	return h.find(ctx, func(t Tool) bool { return t.Server == server && t.Name == name })
}

func (h *Hub) find(ctx context.Context, is func(Tool) bool) (Tool, bool) {
	tools := h.Tools(ctx)
	if i := slices.IndexFunc(tools, is); i >= 0 {
		return tools[i], true
	}
	return Tool{}, false
}

// Result is what a call gave.
type Result struct {
	Text string
	// Failed: the tool says that it failed.
	Failed bool
}

// Refused is a server's definite answer that a call was not carried out.
type Refused struct{ Message string }

func (r *Refused) Error() string { return r.Message }

// Call calls a tool once. [ErrNotSent] and [*Refused] say that it did nothing;
// after any other error it may have done its work.
func (h *Hub) Call(ctx context.Context, t Tool, arguments json.RawMessage) (Result, error) {
	i := slices.IndexFunc(h.servers, func(c *connection) bool { return c.server.Name == t.Server })
	if i < 0 {
		return Result{}, ErrNotSent
	}
	c := h.servers[i]
	s, err := c.session(ctx)
	if err == nil {
		err = s.Ping(ctx, nil) // a process that has died is found before anything is sent
		if err != nil && !isAnswer(err) {
			c.drop(s)
			s, err = c.session(ctx)
		} else {
			err = nil
		}
	}
	if err != nil {
		return Result{}, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: t.Name, Arguments: arguments})
	if err != nil {
		var refused *jsonrpc.Error
		if errors.As(err, &refused) && ctx.Err() == nil {
			return Result{}, &Refused{Message: refused.Message}
		}
		c.drop(s)
		return Result{}, fmt.Errorf("calling the tool: %w", err)
	}
	return Result{Text: textOf(res), Failed: res.IsError}, nil
}

func isAnswer(err error) bool {
	var refused *jsonrpc.Error
	return errors.As(err, &refused)
}

// textOf is a result as text; what is no text is named.
func textOf(res *mcp.CallToolResult) string {
	var parts []string
	for _, c := range res.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			parts = append(parts, c.Text)
		case *mcp.ImageContent:
			parts = append(parts, fmt.Sprintf("[an image, %s, %d bytes, not shown]", c.MIMEType, len(c.Data)))
		case *mcp.AudioContent:
			parts = append(parts, fmt.Sprintf("[audio, %s, %d bytes, not shown]", c.MIMEType, len(c.Data)))
		case *mcp.ResourceLink:
			parts = append(parts, "[a resource: "+c.URI+"]")
		case *mcp.EmbeddedResource:
			if c.Resource != nil && c.Resource.Text != "" {
				parts = append(parts, c.Resource.Text)
			} else {
				parts = append(parts, "[a resource, not shown]")
			}
		}
	}
	if len(parts) == 0 && res.StructuredContent != nil {
		if data, err := json.Marshal(res.StructuredContent); err == nil {
			parts = append(parts, string(data))
		}
	}
	text := strings.Join(parts, "\n")
	return text[:min(len(text), MaxResult)]
}

// connection is one server and what is known of it.
type connection struct {
	server Server
	log    *slog.Logger

	mu      sync.Mutex
	current *mcp.ClientSession
	tools   []Tool
	failed  error
	until   time.Time // no new try before
}

func (c *connection) known() []Tool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.tools)
}

// session is the connection to the server, made where there is none.
func (c *connection) session(ctx context.Context) (*mcp.ClientSession, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.current != nil:
		return c.current, nil
	case time.Now().Before(c.until):
		return nil, c.failed
	}
	s, tools, err := c.connect(ctx)
	if err != nil {
		c.failed, c.until = err, time.Now().Add(retryAfter)
		return nil, err
	}
	c.current, c.tools = s, tools
	return s, nil
}

// drop forgets a connection; nil is whatever there is.
func (c *connection) drop(s *mcp.ClientSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil || (s != nil && c.current != s) {
		return
	}
	old := c.current
	c.current = nil
	go func() { _ = old.Close() }() // may take seconds, and there is nothing to do about it
}

func (c *connection) connect(ctx context.Context) (*mcp.ClientSession, []Tool, error) {
	// The connection outlives the call that it was made for.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectWithin)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "countersign", Version: "1"}, nil)
	s, err := client.Connect(ctx, c.transport(), nil)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting: %w", err)
	}
	var tools []Tool
	for t, err := range s.Tools(ctx, nil) {
		if err != nil {
			_ = s.Close() // the listing's error says more
			return nil, nil, fmt.Errorf("listing tools: %w", err)
		}
		if one, ok := c.tool(t); ok && len(tools) < maxTools {
			tools = append(tools, one)
		}
	}
	slices.SortFunc(tools, func(a, b Tool) int { return strings.Compare(a.Function, b.Function) })
	return s, slices.CompactFunc(tools, func(a, b Tool) bool { return a.Function == b.Function }), nil
}

func (c *connection) transport() mcp.Transport {
	if c.server.URL != "" {
		return &mcp.StreamableClientTransport{
			Endpoint: c.server.URL, HTTPClient: &http.Client{Transport: bearer{c.server.Token}}, DisableStandaloneSSE: true,
		}
	}
	cmd := exec.Command(c.server.Command[0], c.server.Command[1:]...)
	for _, name := range append([]string{"PATH", "HOME", "LANG", "TMPDIR"}, c.server.Env...) {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	return &mcp.CommandTransport{Command: cmd, TerminateDuration: time.Second}
}

// bearer adds the server's token.
type bearer struct{ token telemetry.Secret }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token.IsSet() {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token.Reveal())
	}
	return http.DefaultTransport.RoundTrip(r)
}

var odd = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// tool is a server's tool as the model gets it; one without a usable schema is
// left out.
func (c *connection) tool(t *mcp.Tool) (Tool, bool) {
	data, err := json.Marshal(t.InputSchema)
	schema := map[string]any{}
	if err != nil || len(data) > maxSchema || json.Unmarshal(data, &schema) != nil || schema["type"] != "object" {
		c.log.Warn("MCP tool is left out: its schema is not usable", "server", c.server.Name, "tool", t.Name)
		return Tool{}, false
	}
	if schema["properties"] == nil {
		schema["properties"] = map[string]any{}
	}
	where := c.server.URL
	if where == "" {
		where = strings.Join(c.server.Command, " ")
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%s", where, t.Name, t.Description, data))
	description := t.Description
	if len(description) > maxDescription {
		description = strings.ToValidUTF8(description[:maxDescription], "") + "…"
	}
	return Tool{
		Function: function(c.server.Name, t.Name), Server: c.server.Name, Name: t.Name, Description: description, Schema: schema,
		Digest: hex.EncodeToString(sum[:16]), Timeout: c.server.Timeout, Where: where,
	}, true
}

// function makes a name that the model's API takes; one that had to be changed
// ends in a digest, so that two stay two.
func function(server, tool string) string {
	name := "mcp__" + server + "__" + tool
	plain := odd.ReplaceAllString(name, "_")
	if plain == name && len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return plain[:min(len(plain), maxName-9)] + "_" + hex.EncodeToString(sum[:4])
}
