package e2e_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	temporal "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
)

// A session that somebody terminates in Temporal, in the middle of a command, is listed
// as destroyed; its sandbox goes, with what ran in it; its saved files are kept and can
// be gone on from.
func TestTerminatedFromOutside(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	ada := d.as("ada")
	id := ada.opens(t, "`echo one > f`")
	th := ada.sees(t, id, "the answer", answered(1))
	other := ada.opens(t, "`echo two > f`")
	ada.sees(t, other, "the answer", answered(1))
	ada.says(t, id, "`echo three > g; sleep 91429`")
	ada.sees(t, id, "the command runs", running(2))
	mine := d.dir + "/sandboxes/agent_" // on the command line of each exec
	t.Cleanup(func() { killAll(t, mine) })

	c, err := temporal.Dial(temporal.Options{HostPort: d.TemporalAddress, Namespace: d.Namespace, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	require.NoError(t, c.TerminateWorkflow(t.Context(), th.WorkflowID, "", "by hand"))

	await(t, within, "its sandbox is gone, with what ran in it", func() ([]string, bool) {
		left, err := filepath.Glob(filepath.Join(d.dir, "sandboxes", "agent_*"+id+"*", "sandbox.json"))
		require.NoError(t, err)
		left = append(left, commandLines(t, mine)...)
		return left, len(left) == 0
	})
	await(t, within, "the list says so", func() (string, bool) {
		p := ada.says(t, other, "@countersign list")
		if p.Text == "" {
			p.Text = ada.sees(t, other, "the list", func(th thread) bool { return th.byKey("reply-"+p.MessageID).ID != "" }).byKey("reply-" + p.MessageID).Text
		}
		return p.Text, strings.Count(p.Text, "■ destroyed") == 1 && strings.Count(p.Text, "● active") == 1
	})
	th = ada.sees(t, id, "so does the thread", func(th thread) bool { return th.Liveness == "destroyed" })
	require.Contains(t, th.byKey("header").Text, "■ destroyed")
	require.Empty(t, th.byKey("header").Buttons)
	th = ada.sees(t, id, "the turn does not go on", func(th thread) bool { return strings.Contains(th.byKey("turn-2").Text, "Could not go on") })
	require.Contains(t, th.byKey("turn-2").Text, "outcome unknown")
	require.NotContains(t, fmt.Sprint(th.byKey("turn-2").Buttons), "Stop")
	r := ada.refusal(t, http.StatusConflict, http.MethodPost, "/threads/"+id+"/messages", map[string]string{"text": "`cat f`", "client_id": "late"})
	require.Equal(t, "session_destroyed", r.Error.Code)

	next := ada.write(t, "/channels/general/messages", "/agent new --from "+id).Opened
	require.NotEmpty(t, next)
	require.Equal(t, "one\n", ada.output(t, ada.does(t, next, 1, "cat f").ID, "stdout", 0))
	_, kept := d.collect(t)
	require.Positive(t, kept)
	ada.does(t, other, 2, "cat f")
}
