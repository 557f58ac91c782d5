package web_test

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest"
	"github.com/countersign/countersign/internal/workflows"
)

const general = "/api/v1/channels/general/messages"

func TestTaskOpensAThread(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.post(general, text("/agent look around with `ls -la`", "c1"))
	require.Equal(t, p.MessageID, p.ThreadID)

	asked := s.sessions.Asked("RequestSession")
	require.Len(t, asked, 1)
	req := asked[0].Arg.(workflows.SessionRequest)
	require.Equal(t, "look around with `ls -la`", req.Task.Text.Text)
	require.Equal(t, p.MessageID, req.ID)
	require.Equal(t, "agent/web/main/"+p.ThreadID, req.Thread.WorkflowID())
	require.Equal(t, "session-manager/web/main", asked[0].ID)
	require.Equal(t, "ada", req.By.ID)

	th := s.thread(p.ThreadID)
	require.Equal(t, "agent/web/main/"+p.ThreadID, th.WorkflowID)
	require.Equal(t, "active", th.Liveness)
	require.Equal(t, "local", th.Backend)
	require.Len(t, th.Messages, 1)
	require.Equal(t, "user", th.Messages[0].Kind)
	require.Equal(t, "ada", th.Messages[0].Author)
	require.Equal(t, "/agent look around with `ls -la`", th.Messages[0].Text)

	r := s.post("/api/v1/threads/"+p.ThreadID+"/messages", text("and go on", "c2"))
	require.Equal(t, p.ThreadID, r.ThreadID)
	require.Greater(t, r.MessageID, p.MessageID)
	sent := s.sessions.Asked("SendMessage")
	require.Len(t, sent, 1)
	require.Equal(t, "and go on", sent[0].Arg.(workflows.Message).Text.Text)

	status, data := s.do("GET", "/api/v1/channels/general/threads", "")
	require.Equal(t, http.StatusOK, status)
	list := decode[[]threadDoc](t, data)
	require.Len(t, list, 1)
	require.Equal(t, p.ThreadID, list[0].ID)
}

func TestOneClientIDIsOneMessage(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	s := openIn(t, t.TempDir(), &chattest.Sessions{Fail: func(chattest.Call) error { <-gate; return nil }})
	time.AfterFunc(300*time.Millisecond, func() { close(gate) }) // all five are at it by then
	var wg sync.WaitGroup
	replies := make([]posted, 5)
	for i := range replies {
		wg.Go(func() { replies[i] = s.post(general, text("/agent hello", "same")) })
	}
	wg.Wait()
	for _, r := range replies {
		require.Equal(t, replies[0], r)
	}
	require.Len(t, s.sessions.Asked("RequestSession"), 1)
	require.Equal(t, replies[0], s.post(general, text("/agent hello", "same")))
	// Another person's client_id is another message.
	status, data := s.do("POST", general, text("/agent hello", "same"), as("grace"))
	require.Equal(t, http.StatusAccepted, status)
	require.NotEqual(t, replies[0].MessageID, decode[posted](t, data).MessageID)
}

func TestBadInputIsRefusedInWords(t *testing.T) {
	t.Parallel()
	s := open(t)
	for name, c := range map[string]struct {
		status int
		body   string
	}{
		"empty":        {400, text("", "")},
		"blank":        {400, text(" \n ", "")},
		"no text":      {400, `{}`},
		"plain":        {400, text("hello", "")},
		"only agent":   {400, text("/agent", "")},
		"agent blank":  {400, text("/agent   ", "")},
		"json":         {400, `{"text":`},
		"not object":   {400, `"x"`},
		"number":       {400, `{"text": 5}`},
		"invalid utf8": {400, "{\"text\": \"/agent \xff\xfe\"}"},
		"half a char":  {400, `{"text": "/agent \ud83d x"}`},
		"other half":   {400, `{"text": "/agent \udE00"}`},
		"two halves":   {400, `{"text": "/agent \ud83d\u0041"}`},
		"nul":          {400, `{"text": "/agent a\u0000b"}`},
		"unknown flag": {400, text("/agent --nope x", "")},
		"docker":       {400, text("/agent run --backend docker x", "")},
		"a typo":       {400, text("/agent switch dokcer", "")},
		"long":         {413, text("/agent "+strings.Repeat("x", 1<<20), "")},
		"very long":    {413, text("/agent "+strings.Repeat("x", 8<<20), "")},
	} {
		code := s.refused(c.status, "POST", general, c.body)
		require.NotEqual(t, "internal", code, name)
	}
	require.Empty(t, s.sessions.Asked("RequestSession"))
	status, data := s.do("GET", "/api/v1/channels/general/threads", "")
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, "[]", string(data))
}

func TestEscapedTextArrivesAsItIs(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.post(general, `{"text": "/agent \ud83d\ude00 \\ud83d \u00e9\n<b>&amp;\u2028"}`)
	m := s.sessions.Asked("RequestSession")[0].Arg.(workflows.SessionRequest).Task
	require.Equal(t, "😀 \\ud83d é\n<b>&amp;", m.Text.Text)
}

func TestLongestTextTravelsByReference(t *testing.T) {
	t.Parallel()
	s := open(t)
	task := strings.Repeat("ä", (1<<20-8)/2)
	s.post(general, text("/agent "+task, ""))
	m := s.sessions.Asked("RequestSession")[0].Arg.(workflows.SessionRequest).Task
	require.LessOrEqual(t, len(m.Text.Text), workflows.MaxInlineMessage)
	require.Equal(t, len(task), m.Text.Bytes)
	whole, err := chat.GetText(t.Context(), s.blobs, m.Text)
	require.NoError(t, err)
	require.Equal(t, task, whole)
}

func TestWhatTemporalDoesNotHaveIsNotShown(t *testing.T) {
	t.Parallel()
	down := true
	var mu sync.Mutex
	sessions := &chattest.Sessions{Fail: func(chattest.Call) error {
		mu.Lock()
		defer mu.Unlock()
		if down {
			return fmt.Errorf("dialing: %w", workflows.ErrUnavailable)
		}
		return nil
	}}
	s := openIn(t, t.TempDir(), sessions)
	require.Equal(t, "server_unavailable", s.refused(503, "POST", general, text("/agent hello", "c1")))
	_, data := s.do("GET", "/api/v1/channels/general/threads", "")
	require.JSONEq(t, "[]", string(data))
	mu.Lock()
	down = false
	mu.Unlock()
	p := s.post(general, text("/agent hello", "c1"))
	require.Len(t, s.thread(p.ThreadID).Messages, 1)
	require.Len(t, sessions.Asked("RequestSession"), 1)
}

// What was not confirmed keeps its identity and is handed over again: by its
// author, by the running server, and at the next start.
func TestUnconfirmedIsHandedOverAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var mu sync.Mutex
	slow := true
	var ids []string
	sessions := &chattest.Sessions{Fail: func(c chattest.Call) error {
		mu.Lock()
		defer mu.Unlock()
		if r, ok := c.Arg.(workflows.SessionRequest); ok {
			ids = append(ids, r.ID)
		}
		if slow {
			return workflows.ErrUnconfirmed
		}
		return nil
	}}
	s := openIn(t, dir, sessions)
	require.Equal(t, "unconfirmed", s.refused(503, "POST", general, text("/agent hello", "c1")))
	s.refused(503, "POST", general, text("/agent hello", "c1"))
	s.stop()

	mu.Lock()
	slow = false
	mu.Unlock()
	s = openIn(t, dir, sessions)
	require.Eventually(t, func() bool { return len(sessions.Asked("RequestSession")) == 1 }, time.Minute, 10*time.Millisecond)
	var list []threadDoc
	require.Eventually(t, func() bool {
		_, data := s.do("GET", "/api/v1/channels/general/threads", "")
		list = decode[[]threadDoc](t, data)
		return len(list) == 1
	}, time.Minute, 10*time.Millisecond)
	p := s.post(general, text("/agent hello", "c1"))
	require.Equal(t, list[0].ID, p.ThreadID)
	mu.Lock()
	defer mu.Unlock()
	for _, id := range ids {
		require.Equal(t, p.MessageID, id)
	}
}

func TestMessageToADestroyedSession(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.post(general, text("/agent hello", ""))
	id := "agent/web/main/" + p.ThreadID
	s.sessions.State = map[string]workflows.TurnState{id: {Header: workflows.HeaderView{Liveness: workflows.LivenessDestroyed}}}
	s.sessions.Fail = func(c chattest.Call) error {
		if c.Method == "SendMessage" {
			return workflows.ErrNoSession
		}
		return nil
	}
	require.Equal(t, "session_destroyed", s.refused(409, "POST", "/api/v1/threads/"+p.ThreadID+"/messages", text("more", "")))
	require.Len(t, s.thread(p.ThreadID).Messages, 1)

	s.sessions.State = nil
	require.Equal(t, "no_session", s.refused(409, "POST", "/api/v1/threads/"+p.ThreadID+"/messages", text("more", "")))
}

func TestCommandsInTheThread(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.post(general, text("/agent hello", ""))
	in := "/api/v1/threads/" + p.ThreadID + "/messages"
	id := "agent/web/main/" + p.ThreadID

	r := s.post(in, text("/agent stop", ""))
	require.Equal(t, "Recorded.", r.Text)
	require.Equal(t, id, s.sessions.Asked("CancelTurn")[0].ID)
	require.Contains(t, s.sessions.Asked("CancelTurn")[0].UpdateID, r.MessageID)

	s.post(in, text(`@countersign title "A new name"`, ""))
	require.Equal(t, "A new name", s.sessions.Asked("SetTitle")[0].Arg.(workflows.SetTitle).Title)

	f := s.post(in, text("/agent fork", ""))
	fork := s.sessions.Asked("Fork")[0].Arg.(workflows.ForkSession)
	require.Equal(t, id, fork.Source)
	require.Equal(t, f.Opened, fork.Thread.ID)
	require.NotEqual(t, p.ThreadID, fork.Thread.ID)

	s.post(in, text("/agent what is in `go.mod`", ""))
	sent := s.sessions.Asked("SendMessage")
	require.Equal(t, "what is in `go.mod`", sent[len(sent)-1].Arg.(workflows.Message).Text.Text)

	require.Equal(t, "flags_in_thread", s.refused(400, "POST", in, text("/agent --title x do", "")))
	s.sessions.Answer = workflows.Outcome{Outcome: workflows.OutcomeRefused, Text: "No turn is running."}
	s.post(in, text("/agent stop", ""))
	msgs := s.thread(p.ThreadID).Messages
	require.Equal(t, "No turn is running.", msgs[len(msgs)-1].Text)
	require.Equal(t, "notice", msgs[len(msgs)-1].Kind)
}

func TestCommandInTheChannelIsAnsweredThere(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.post(general, text("/agent help", ""))
	th := s.thread(p.ThreadID)
	require.Empty(t, th.WorkflowID)
	require.Len(t, th.Messages, 2)
	require.Contains(t, th.Messages[1].Text, "fork")
	require.Equal(t, "countersign", th.Messages[1].Author)
	_, data := s.do("GET", "/api/v1/channels/general/threads", "")
	require.JSONEq(t, "[]", string(data))
	_, data = s.do("GET", general, "")
	require.Len(t, decode[[]msg](t, data), 2)
	s.refused(409, "POST", "/api/v1/threads/"+p.ThreadID+"/messages", text("hello", ""))
}

// The page's completion and menu offer all that help lists.
func TestCommandsThatThePageKnows(t *testing.T) {
	t.Parallel()
	s := open(t)
	_, data := s.do("GET", "/api/v1/meta", "")
	var known []string
	for _, c := range decode[struct{ Commands []struct{ Name string } }](t, data).Commands {
		known = append(known, c.Name)
	}
	help := s.thread(s.post(general, text("/agent help", "")).ThreadID).Messages[1].Text
	named := regexp.MustCompile("`([a-z]+)").FindAllStringSubmatch(help, -1)
	require.Greater(t, len(named), 10, help)
	for _, n := range named {
		require.Contains(t, known, n[1])
	}
}

func TestUnexpectedFailureSaysNothingInternal(t *testing.T) {
	t.Parallel()
	s := openIn(t, t.TempDir(), &chattest.Sessions{Fail: func(c chattest.Call) error {
		if c.Method == "List" {
			return errors.New("rpc error: code = Unknown desc = boom at 10.0.0.1")
		}
		return nil
	}})
	status, data := s.do("POST", general, text("/agent list", ""))
	require.Equal(t, 503, status)
	require.NotContains(t, string(data), "10.0.0.1")
}
