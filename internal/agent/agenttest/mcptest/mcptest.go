// Package mcptest is an MCP server for tests, made with the protocol's own SDK, as
// a process or over HTTP.
package mcptest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Word is the first argument with which a test's binary serves instead of testing.
const Word = "serve-mcp"

// Main serves, where the binary was started to: Word and a file's path. Call it
// first in TestMain.
func Main() {
	if len(os.Args) != 3 || os.Args[1] != Word {
		return
	}
	if err := server(os.Args[2]).Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Handler serves over streamable HTTP to who has the token.
func Handler(file, token string) http.Handler {
	s := server(file)
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

type in struct {
	Text string `json:"text" jsonschema:"what to say"`
}

// server has the tools say (claims to only read), note (adds a line to file), fail,
// huge, env, slow (notes, then takes 20 s) and die (notes, then ends the process).
func server(file string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "mcptest", Version: "1"}, nil)
	add := func(name string, hint *mcp.ToolAnnotations, f func(ctx context.Context, text string) (string, error)) {
		mcp.AddTool(s, &mcp.Tool{Name: name, Description: "The tool " + name + ".", Annotations: hint},
			func(ctx context.Context, _ *mcp.CallToolRequest, a in) (*mcp.CallToolResult, any, error) {
				text, err := f(ctx, a.Text)
				if err != nil {
					return nil, nil, err
				}
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
			})
	}
	note := func(text string) error {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("opening the notes: %w", err)
		}
		_, err = fmt.Fprintln(f, text)
		return errors.Join(err, f.Close())
	}
	add("say", &mcp.ToolAnnotations{ReadOnlyHint: true}, func(_ context.Context, text string) (string, error) { return "said " + text, nil })
	add("note", nil, func(_ context.Context, text string) (string, error) { return "noted", note(text) })
	add("fail", nil, func(context.Context, string) (string, error) { return "", errors.New("it never works") })
	add("huge", nil, func(context.Context, string) (string, error) { return strings.Repeat("much ", 1<<19), nil })
	add("env", nil, func(context.Context, string) (string, error) { return strings.Join(os.Environ(), "\n"), nil })
	add("slow", nil, func(ctx context.Context, text string) (string, error) {
		err := note(text)
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Second):
		}
		return "at last", err
	})
	add("die", nil, func(_ context.Context, text string) (string, error) {
		_ = note(text) // it ends either way
		os.Exit(3)
		return "", nil
	})
	return s
}
