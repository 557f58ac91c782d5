package mcptools_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/agent/agenttest/mcptest"
	"github.com/countersign/countersign/internal/agent/mcptools"
	"github.com/countersign/countersign/internal/telemetry"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	os.Exit(m.Run())
}

func process(t *testing.T) (mcptools.Server, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "notes")
	return mcptools.Server{Name: "test", Command: []string{os.Args[0], mcptest.Word, file}}, file
}

func hub(t *testing.T, servers ...mcptools.Server) *mcptools.Hub {
	t.Helper()
	h := mcptools.New(servers, slog.New(slog.DiscardHandler))
	t.Cleanup(h.Close)
	return h
}

func call(t *testing.T, h *mcptools.Hub, tool, text string) (mcptools.Result, error) {
	t.Helper()
	found, ok := h.Lookup(t.Context(), "test", tool)
	require.True(t, ok, tool)
	arguments, err := json.Marshal(map[string]string{"text": text})
	require.NoError(t, err)
	return h.Call(t.Context(), found, arguments)
}

func TestProcess(t *testing.T) {
	t.Parallel()
	s, file := process(t)
	h := hub(t, s)
	tools := h.Tools(t.Context())
	require.Len(t, tools, 7)
	require.Equal(t, "mcp__test__die", tools[0].Function, "in order")
	require.Equal(t, tools, h.Tools(t.Context()))
	say, ok := h.Find(t.Context(), "mcp__test__say")
	require.True(t, ok)
	require.Equal(t, "object", say.Schema["type"])
	require.NotEmpty(t, say.Digest)

	got, err := call(t, h, "say", "hello")
	require.NoError(t, err)
	require.Equal(t, mcptools.Result{Text: "said hello"}, got)
	got, err = call(t, h, "fail", "")
	require.NoError(t, err)
	require.True(t, got.Failed)
	require.Contains(t, got.Text, "it never works")
	got, err = call(t, h, "huge", "")
	require.NoError(t, err)
	require.Len(t, got.Text, mcptools.MaxResult)
	var refused *mcptools.Refused
	_, err = h.Call(t.Context(), say, json.RawMessage(`{"words":1}`))
	require.True(t, errors.As(err, &refused) || err == nil, "%v", err)

	// A process that dies at it may have done its work; the next call has a new one.
	_, err = call(t, h, "die", "last words")
	require.Error(t, err)
	require.NotErrorIs(t, err, mcptools.ErrNotSent)
	notes, rerr := os.ReadFile(file)
	require.NoError(t, rerr)
	require.Equal(t, "last words\n", string(notes), "once")
	got, err = call(t, h, "say", "again")
	require.NoError(t, err)
	require.Equal(t, "said again", got.Text)
}

// A server's process gets nothing of the worker's environment that is not named.
func TestProcessEnvironment(t *testing.T) {
	t.Setenv("COUNTERSIGN_TEST_SECRET", "must-not-leak")
	t.Setenv("COUNTERSIGN_TEST_GIVEN", "is-given")
	s, _ := process(t)
	s.Env = []string{"COUNTERSIGN_TEST_GIVEN"}
	got, err := call(t, hub(t, s), "env", "")
	require.NoError(t, err)
	require.Contains(t, got.Text, "is-given")
	require.NotContains(t, got.Text, "must-not-leak")
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(mcptest.Handler(filepath.Join(t.TempDir(), "notes"), "a-token"))
	t.Cleanup(web.Close)
	h := hub(t, mcptools.Server{Name: "test", URL: web.URL, Token: telemetry.NewSecret("a-token"), Timeout: time.Second})
	got, err := call(t, h, "say", "over HTTP")
	require.NoError(t, err)
	require.Equal(t, "said over HTTP", got.Text)

	wrong := hub(t, mcptools.Server{Name: "test", URL: web.URL})
	require.Empty(t, wrong.Tools(t.Context()))
}

func TestServersThatAreAway(t *testing.T) {
	t.Parallel()
	h := hub(t, mcptools.Server{Name: "test", Command: []string{"/no/such/program"}}, mcptools.Server{Name: "web", URL: "http://127.0.0.1:1/"})
	require.Empty(t, h.Tools(t.Context()))
	_, err := h.Call(t.Context(), mcptools.Tool{Server: "test", Name: "say"}, nil)
	require.ErrorIs(t, err, mcptools.ErrNotSent)
	require.Empty(t, (*mcptools.Hub)(nil).Tools(t.Context()))
	require.False(t, strings.Contains(err.Error(), "panic"))
}
