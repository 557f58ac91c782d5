package web_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat/chattest"
	"github.com/countersign/countersign/internal/workflows"
)

func TestEventsCarryWholeMessagesAndResume(t *testing.T) {
	t.Parallel()
	s := open(t)
	ev := s.events("0")
	p := s.post(general, text("/agent hello", ""))
	first := next(t, ev)
	require.Equal(t, p.MessageID, first.m.ID)
	require.Equal(t, "user", first.m.Kind)
	require.Equal(t, p.ThreadID, first.m.ThreadID)

	turn := workflows.MessageView{Key: "turn-1", Kind: workflows.KindTurn, Version: 1, Turn: &workflows.TurnView{Number: 1, State: workflows.TurnWorking}}
	id := s.show(p.ThreadID, turn)
	created := next(t, ev)
	require.Equal(t, id, created.m.ID)
	require.Equal(t, 1, created.m.Version)
	turn.Version = 2
	turn.Turn = &workflows.TurnView{Number: 1, State: workflows.TurnWorking, Calls: []workflows.CallView{{ID: p.ThreadID + ".1.1", Command: "ls", State: workflows.CallRunning}}}
	s.show(p.ThreadID, turn)
	edited := next(t, ev)
	require.Equal(t, id, edited.m.ID)
	require.Greater(t, edited.m.Version, created.m.Version)
	require.Equal(t, "running", edited.m.ToolCalls[0].State)
	require.Nil(t, edited.m.ToolCalls[0].ExitCode)

	// A reader that comes back gets what changed since, in its newest state.
	again := next(t, s.events(first.id))
	require.Equal(t, edited.id, again.id)
	require.Equal(t, edited.m, again.m)
	all := s.events("0")
	require.Equal(t, first.id, next(t, all).id)
	require.Equal(t, edited.id, next(t, all).id)
	status, data := s.do("GET", "/api/v1/meta", "")
	require.Equal(t, http.StatusOK, status)
	last := decode[struct {
		LastEvent int64 `json:"last_event"`
	}](t, data).LastEvent
	require.Equal(t, edited.id, strconv.FormatInt(last, 10))
	s.refused(410, "GET", "/api/v1/events?after="+strconv.FormatInt(last+1000, 10), "")
	s.refused(400, "GET", "/api/v1/events?after=x", "")
}

// What is stored but not known to be Temporal's is nobody's to see.
func TestPendingMessagesAreInvisible(t *testing.T) {
	t.Parallel()
	s := openIn(t, t.TempDir(), &chattest.Sessions{Fail: func(c chattest.Call) error {
		if r, ok := c.Arg.(workflows.SessionRequest); ok && r.Task.Text.Text == "slow" {
			return workflows.ErrUnconfirmed
		}
		if c.Method == "SendMessage" {
			return workflows.ErrUnconfirmed
		}
		return nil
	}})
	ev := s.events("0")
	s.refused(503, "POST", general, text("/agent slow", "c1"))
	p := s.post(general, text("/agent fast", "c2"))
	require.Equal(t, p.MessageID, next(t, ev).m.ID)
	s.refused(503, "POST", "/api/v1/threads/"+p.ThreadID+"/messages", text("slow too", "c3"))
	require.Len(t, s.thread(p.ThreadID).Messages, 1)
	_, data := s.do("GET", "/api/v1/channels/general/threads", "")
	require.Len(t, decode[[]threadDoc](t, data), 1)
}

func TestEventStreamEndsWithTheServer(t *testing.T) {
	t.Parallel()
	s := open(t)
	ev := s.events("0")
	s.post(general, text("/agent hello", ""))
	next(t, ev)
	started := time.Now()
	s.stop()
	require.Less(t, time.Since(started), 20*time.Second, "an open stream does not hold the server up")
	_, open := <-ev
	require.False(t, open)
}

// An edit that was overtaken does not bring back what is older.
func TestOlderViewsDoNotOverwrite(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.post(general, text("/agent hello", ""))
	view := func(version int, text string) workflows.MessageView {
		return workflows.MessageView{Key: "notice-1", Kind: workflows.KindNotice, Version: version, Text: workflows.TextRef{Text: text}}
	}
	s.show(p.ThreadID, view(3, "new"))
	s.show(p.ThreadID, view(2, "old"))
	require.Equal(t, "new", s.thread(p.ThreadID).Messages[1].Text)
}

func TestHeaderIsWhatTheThreadListShows(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.post(general, text("/agent hello", ""))
	s.show(p.ThreadID, workflows.MessageView{Key: "header", Kind: workflows.KindHeader, Version: 1, Header: &workflows.HeaderView{
		Title: "A better name", Backend: "local", WorkspacePath: "/w", Liveness: workflows.LivenessWaiting, Parent: "agent/web/main/1764459690123456",
	}})
	th := s.thread(p.ThreadID)
	require.Equal(t, "A better name", th.Title)
	require.Equal(t, "/w", th.WorkspacePath)
	require.Equal(t, "waiting", th.Liveness)
	require.Equal(t, "1764459690123456", th.Parent)
}
