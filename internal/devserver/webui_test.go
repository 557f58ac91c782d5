package devserver_test

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/countersign/countersign/internal/devserver/devservertest"
	"github.com/countersign/countersign/internal/devserver/webui"
)

func request(t *testing.T, method, url, host string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("{}"))
	require.NoError(t, err)
	req.Host = host
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func TestWebUI(t *testing.T) {
	t.Parallel()
	env := devservertest.New(t)
	_, err := env.Client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "agent/web/main/1", TaskQueue: "q"}, "AgentWorkflow")
	require.NoError(t, err)

	s, err := webui.Start(webui.Options{TemporalAddress: env.Address, Namespace: env.Namespace})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop(t.Context())) })
	status, body := request(t, http.MethodGet, s.URL()+"/namespaces/"+env.Namespace+"/workflows", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "<!doctype html>")
	workflow := s.URL() + "/api/v1/namespaces/" + env.Namespace + "/workflows/agent%2Fweb%2Fmain%2F1"
	status, body = request(t, http.MethodGet, workflow, "")
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, "AgentWorkflow")

	status, _ = request(t, http.MethodPost, workflow+"/terminate", "")
	require.Equal(t, http.StatusMethodNotAllowed, status, "the Web UI must not change a session")
	status, _ = request(t, http.MethodPost, workflow+"/update/decide_approval", "")
	require.Equal(t, http.StatusMethodNotAllowed, status)
	status, _ = request(t, http.MethodGet, workflow, "evil.example")
	require.Equal(t, http.StatusForbidden, status)
	status, _ = request(t, http.MethodGet, s.URL()+"/", "localhost:8080")
	require.Equal(t, http.StatusOK, status)

	_, port, err := net.SplitHostPort(strings.TrimPrefix(s.URL(), "http://"))
	require.NoError(t, err)
	n, err := strconv.Atoi(port)
	require.NoError(t, err)
	_, err = webui.Start(webui.Options{TemporalAddress: env.Address, Port: n})
	require.ErrorIs(t, err, webui.ErrPortTaken)
}
