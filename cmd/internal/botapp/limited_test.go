package botapp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat/chattest/slackfake"
	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/workflows"
)

// limitedTurns are the turns of the session whose chat takes nothing.
const limitedTurns = 4

// TestRateLimitedChat: Slack answers 429 to every post and edit, for as long as it
// takes a session there to be approved and to come to the end of its turns, and one
// in the browser, through the same bot, to be asked and answered. Then Slack relents,
// and its thread becomes what the session has to show, each message once.
func TestRateLimitedChat(t *testing.T) {
	t.Parallel()
	const token = "a-token-of-sixteen-or-more"
	w := startPaced(t, "COUNTERSIGN_WEB_TOKENS=ada="+token, "COUNTERSIGN_WEB_LISTEN=127.0.0.1:0")
	sessions := control.New(w.env.Client, nil)
	channel := quietChannel(0)
	w.command(channel, `run --title "Limited" rm -rf build`)
	card := w.message(channel, "the request", func(m slackfake.Message) bool { return m.HasAction(workflows.ButtonApprove) })
	id := workflows.Thread{Platform: workflows.PlatformSlack, Team: slackfake.Team, Channel: channel, ID: card.ThreadTS}.WorkflowID()
	w.still(id)
	before := keys(w.fake.Thread(channel, card.ThreadTS))

	for _, method := range []string{"chat.postMessage", "chat.update"} {
		w.fake.Fail(method, slackfake.Failure{RetryAfter: 3, Times: 1 << 30})
	}
	ended := func(turns int) func() bool {
		return func() bool {
			st, err := sessions.TurnState(t.Context(), id)
			return err == nil && st.Turns == turns && st.Turn == nil
		}
	}
	w.approve(card, "it was approved, and its turn has ended", ended(1))
	for n := 2; n <= limitedTurns; n++ {
		w.fake.Say(ada, channel, card.ThreadTS, fmt.Sprint("echo ", n))
		w.until(fmt.Sprint("turn ", n, " has ended"), ended(n))
	}
	w.browse(token)
	w.until("Slack was asked more than once", func() bool { return len(w.fake.Refused("429")) >= 4 })
	require.Equal(t, before, keys(w.fake.Thread(channel, card.ThreadTS)), "all that was while Slack took nothing")

	for _, method := range []string{"chat.postMessage", "chat.update"} {
		w.fake.Recover(method)
	}
	w.until("the last answer", func() bool {
		return keys(w.fake.Thread(channel, card.ThreadTS))[fmt.Sprint("answer-", limitedTurns)] > 0
	})
	w.still(id)
	want := map[string]int{"header": 1, "approval-1": 1}
	for n := 1; n <= limitedTurns; n++ {
		want[fmt.Sprint("turn-", n)], want[fmt.Sprint("answer-", n)] = 1, 1
	}
	require.Equal(t, want, keys(w.fake.Thread(channel, card.ThreadTS)))
	for _, m := range w.fake.Thread(channel, card.ThreadTS) {
		switch key := keyOf(m); {
		case key == "approval-1":
			require.Contains(t, string(m.Blocks), "Approved by")
		case strings.HasPrefix(key, "turn-"):
			require.Contains(t, string(m.Blocks), "Done · 1 command", key)
		}
	}
	require.Empty(t, w.fake.Complaints())
}

// still waits until nothing is on its way from a session: its thread shows all.
func (w *paced) still(id string) {
	w.t.Helper()
	w.until("nothing is on its way", func() bool {
		d, err := w.env.Client.DescribeWorkflowExecution(w.t.Context(), id, "")
		return err == nil && len(d.PendingActivities) == 0 && d.PendingWorkflowTask == nil
	})
}

// keys counts a thread's messages of the bot by their keys.
func keys(thread []slackfake.Message) map[string]int {
	count := map[string]int{}
	for _, m := range thread {
		if m.User == slackfake.BotUser {
			count[keyOf(m)]++
		}
	}
	return count
}

func keyOf(m slackfake.Message) string {
	var meta struct {
		Payload struct {
			Key string `json:"key"`
		} `json:"event_payload"`
	}
	if json.Unmarshal(m.Metadata, &meta) != nil {
		return ""
	}
	return meta.Payload.Key
}

// browse is a session in the browser, from the question to the answer.
func (w *paced) browse(token string) {
	w.t.Helper()
	var posted struct {
		Thread string `json:"thread_id"`
	}
	w.call(http.MethodPost, "/channels/general/messages", token, map[string]string{"text": "/agent echo hello", "client_id": "1"}, &posted)
	w.until("the browser shows the answer", func() bool {
		var thread struct {
			Messages []struct{ Kind, Text string }
		}
		w.call(http.MethodGet, "/threads/"+posted.Thread, token, nil, &thread)
		for _, m := range thread.Messages {
			if m.Kind == workflows.KindAnswer && m.Text == "Done." {
				return true
			}
		}
		return false
	})
}

// call asks the web chat; it must be answered.
func (w *paced) call(method, path, token string, in, out any) {
	w.t.Helper()
	data, err := json.Marshal(in)
	require.NoError(w.t, err)
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.app.WebURL()+"/api/v1"+path, bytes.NewReader(data))
	require.NoError(w.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	require.NoError(w.t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	require.NoError(w.t, res.Body.Close())
	require.Less(w.t, res.StatusCode, 300, "%s", body)
	require.NoError(w.t, json.Unmarshal(body, out), "%s", body)
}
