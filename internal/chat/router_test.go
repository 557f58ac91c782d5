package chat_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest"
	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/workflows"
)

func newRouter() (*chat.Router, *chattest.Sessions) {
	s := &chattest.Sessions{}
	return &chat.Router{
		Sessions: s, Blobs: &chattest.Blobs{}, Backends: []string{"local"}, Style: plain,
		Link: func(t workflows.Thread) string { return "#/t/" + t.ID },
	}, s
}

func inRoom(text string) chat.Event {
	return chat.Event{ID: "20", Thread: room, New: workflows.Thread{Platform: room.Platform, Team: room.Team, Channel: room.Channel, ID: "21"}, By: ada, At: at("15:04:00"), Text: text}
}

func inChannel(text string) chat.Event {
	ev := inRoom(text)
	ev.New.ID, ev.Thread.ID = "20", ""
	return ev
}

func row(id, parent, title, liveness string) workflows.SessionRow {
	t := room
	t.ID = id
	if parent != "" {
		parent = "agent/web/main/" + parent
	}
	return workflows.SessionRow{WorkflowID: t.WorkflowID(), Thread: t, Title: title, Backend: "local", Liveness: liveness, Parent: parent, By: ada}
}

func TestShownCommandsGolden(t *testing.T) {
	t.Parallel()
	r, s := newRouter()
	s.Rows = []workflows.SessionRow{
		row("31", "17", "fix the flaky test (fork #1)", workflows.LivenessActive),
		row("30", "99", "a fork of one that is not listed", workflows.LivenessPaused),
		row("25", "31", "a fork's fork", workflows.LivenessDestroyed),
		row("17", "", "fix the *flaky* test", workflows.LivenessWaiting),
	}
	s.State = map[string]workflows.TurnState{room.WorkflowID(): {
		Header: workflows.HeaderView{
			Title: "fix the *flaky* test", Backend: "local", Model: "offline", By: ada, Liveness: workflows.LivenessWaiting, Waiting: 1,
			Usage: workflows.Usage{Input: 1800, Output: 200}, Notice: "Commands run on this machine without isolation.",
		},
		Turn:  &workflows.TurnView{Number: 3, State: workflows.TurnWorking, StartedAt: at("15:04:10"), Calls: calls()},
		Turns: 3, Approvals: []string{"17.a1"}, Queued: 2, StartedAt: at("14:00:00"),
		Sandbox: &workflows.SandboxRef{Backend: "local", Generation: 2, Root: "/workspace", WorkspacePath: "/data/w/17"},
	}}
	s.Past = workflows.History{Turns: []workflows.HistoryTurn{
		{Number: 1, At: at("14:00:00"), State: workflows.TurnDone, Messages: []string{"fix *it*", "and more"}, Commands: []string{"go test ./...", "echo `x`"}, Answer: "It was a <race>."},
		{Number: 2, At: at("14:30:00"), State: workflows.TurnStopped},
	}}
	var texts [][2]string
	add := func(name string, ev chat.Event) {
		reply, err := r.Command(t.Context(), ev)
		require.NoError(t, err)
		text := reply.Text
		for _, b := range reply.Buttons {
			text += "\n[" + b.ID + ": " + b.Label + "]"
		}
		texts = append(texts, [2]string{name, text})
	}
	add("list", inRoom("list"))
	add("stop in a channel", inChannel("stop"))
	add("status", inRoom("status"))
	add("history", inRoom("history"))
	add("destroy", inRoom("destroy"))
	add("done", inRoom("done"))
	add("switch", inRoom("switch"))
	st := s.State[room.WorkflowID()]
	st.Grants = []workflows.Grant{{ID: "g1", Command: "rm -rf build", By: grace, Until: at("14:00:00")}}
	s.State[room.WorkflowID()] = st
	add("grants that have ended", inRoom("grants"))
	for _, id := range []string{"g2", "g3"} {
		st.Grants = append(st.Grants, workflows.Grant{ID: id, Command: "rm -rf `" + id + "`", By: grace, Until: at("14:00:00").AddDate(100, 0, 0)})
	}
	s.State[room.WorkflowID()] = st
	add("grants", inRoom("grants"))
	add("status with grants", inRoom("status"))
	add("files", inRoom("files"))
	add("fork", inRoom("fork"))
	add("help", inChannel("help"))
	s.Rows = nil
	add("list of none", inChannel("list"))
	add("stop in a channel without sessions", inChannel("stop"))
	golden(t, "commands", texts...)
}

func TestSwitchOffersOtherBackends(t *testing.T) {
	t.Parallel()
	r, s := newRouter()
	r.Backends = []string{"local", "docker"}
	s.State = map[string]workflows.TurnState{room.WorkflowID(): {Header: workflows.HeaderView{Backend: "local"}}}
	reply, err := r.Command(t.Context(), inRoom("switch"))
	require.NoError(t, err)
	require.Equal(t, []workflows.Button{{ID: "switch:docker", Label: "docker"}}, reply.Buttons)
	got, err := r.Click(t.Context(), chat.Click{Interaction: "i", Thread: room, Button: "switch:docker", Question: reply.Question, By: ada, At: at("15:04:00")})
	require.NoError(t, err)
	require.Equal(t, "Chosen by @ada at 15:04.", got.Answered)
	sw := s.Asked("SwitchBackend")[0]
	require.Equal(t, "session-manager/web/main", sw.ID)
	require.Equal(t, "docker", sw.Arg.(workflows.SwitchSession).Backend)
}

func TestUnbuiltBackendsAreRefusedByName(t *testing.T) {
	t.Parallel()
	r, s := newRouter()
	for _, name := range []string{"docker", "e2b", "daytona", "modal"} {
		for _, ev := range []chat.Event{inChannel("run --backend " + name + " do it"), inRoom("switch " + name), inRoom("fork --backend " + name)} {
			_, err := r.Command(t.Context(), ev)
			var e *chat.Error
			require.ErrorAs(t, err, &e, ev.Text)
			require.Equal(t, "The backend "+name+" is not available here yet.", e.Message)
			require.Equal(t, "Available: local.", e.Hint)
		}
	}
	require.Empty(t, s.Asked(""))
}

// What a message asks for carries the message's identity, so that it is done
// once however often it comes.
func TestRequestsCarryTheMessagesIdentity(t *testing.T) {
	t.Parallel()
	r, s := newRouter()
	for text, method := range map[string]string{"stop": "CancelTurn", "pause": "Pause", "model x": "SetModel", "switch local": "SwitchBackend"} {
		for range 2 {
			_, err := r.Command(t.Context(), inRoom(text))
			require.NoError(t, err)
		}
		asked := s.Asked(method)
		require.Len(t, asked, 2)
		require.Equal(t, asked[0].UpdateID, asked[1].UpdateID)
		require.Contains(t, asked[0].UpdateID, "/20")
	}
	_, err := r.Command(t.Context(), inRoom(`fork "t"`))
	require.NoError(t, err)
	f := s.Asked("Fork")[0].Arg.(workflows.ForkSession)
	require.Equal(t, "20", f.ID)
	require.Equal(t, "t", f.Title)
	require.False(t, f.OfClosed)
	require.Empty(t, f.Task.Text.Text)
}

func TestNewFromTakesAnySpellingOfASession(t *testing.T) {
	t.Parallel()
	r, s := newRouter()
	for _, name := range []string{"17", "agent/web/main/17"} {
		reply, err := r.Command(t.Context(), inChannel("new --from "+name))
		require.NoError(t, err)
		require.True(t, reply.Opens)
		require.Equal(t, "20", reply.Thread.ID)
		require.Empty(t, reply.Text, "the session itself speaks in its thread")
	}
	for _, c := range s.Asked("Fork") {
		require.Equal(t, "agent/web/main/17", c.Arg.(workflows.ForkSession).Source)
		require.True(t, c.Arg.(workflows.ForkSession).OfClosed)
	}
	for _, name := range []string{"agent/slack/T/C/1.2", "agent/web/other/17", "a/b", "agent/x"} {
		_, err := r.Command(t.Context(), inChannel("new --from "+name))
		require.Error(t, err, name)
	}
	slack := workflows.Thread{Platform: workflows.PlatformSlack, Team: "T", Channel: "C", ID: "1.2"}
	got, ok := chat.FindSession(chat.SessionName(slack), workflows.Thread{Platform: workflows.PlatformSlack, Team: "T", Channel: "D"})
	require.True(t, ok)
	require.Equal(t, slack, got)
}

func TestAuthorityIsAskedBeforeAnythingHappens(t *testing.T) {
	t.Parallel()
	r, s := newRouter()
	var asked []chat.Verb
	r.Allow = func(_ context.Context, by workflows.Actor, verb chat.Verb, _ workflows.Thread) *chat.Error {
		asked = append(asked, verb)
		if verb == chat.VerbDestroy || verb == chat.VerbPause {
			return &chat.Error{Kind: chat.KindForbidden, Code: "not_yours", Message: "Only @grace may do that."}
		}
		return nil
	}
	_, err := r.Command(t.Context(), inRoom("destroy"))
	require.Error(t, err)
	reply, err := r.Click(t.Context(), chat.Click{Thread: room, Button: workflows.ButtonDestroy, Question: chat.QuestionDestroy, By: ada})
	require.NoError(t, err)
	require.Equal(t, workflows.OutcomeNotYours, reply.Outcome.Outcome)
	require.Empty(t, reply.Answered)
	_, err = r.Command(t.Context(), inRoom("stop"))
	require.NoError(t, err)
	_, err = r.Message(t.Context(), inRoom("and now this"))
	require.NoError(t, err)
	_, err = r.Command(t.Context(), inRoom("run and that"))
	require.NoError(t, err)
	require.Equal(t, []chat.Verb{chat.VerbDestroy, chat.VerbDestroy, chat.VerbStop, chat.VerbRun, chat.VerbRun}, asked)
	require.Len(t, s.Asked(""), 3)
}

func TestClickThatTheSessionRejects(t *testing.T) {
	t.Parallel()
	r, s := newRouter()
	s.Fail = func(chattest.Call) error {
		return temporal.NewApplicationError("too many clicks that did not count", "")
	}
	_, err := r.Click(t.Context(), chat.Click{Thread: room, Button: workflows.ButtonApprove, ApprovalID: "17.a1", By: ada, At: time.Now()})
	var e *chat.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, chat.KindConflict, e.Kind)
	for _, button := range []string{"", "nonsense", workflows.ButtonStop} {
		_, err := r.Click(t.Context(), chat.Click{Thread: room, Button: button, ApprovalID: "17.a1", By: ada})
		require.ErrorAs(t, err, &e, button)
	}
}

func TestRepliesAndReviewsAreMasked(t *testing.T) {
	t.Parallel()
	r, s := newRouter()
	token := "ghp_" + strings.Repeat("a1B2", 9)
	s.Past = workflows.History{Turns: []workflows.HistoryTurn{{Number: 1, Messages: []string{token}, Commands: []string{token}, Answer: token}}}
	reply, err := r.Command(t.Context(), inRoom("history"))
	require.NoError(t, err)
	require.NotContains(t, reply.Text, "a1B2")
	require.Contains(t, reply.Text, mask.Mark)
	a := request()
	a.Command.Text, a.Original, a.Reasons = "gh "+token, token, []string{token}
	v, err := r.Review(t.Context(), a)
	require.NoError(t, err)
	require.NotContains(t, v.Text(), "a1B2")
	require.Equal(t, a.Digest, v.Digest)
}

func TestTitleOf(t *testing.T) {
	t.Parallel()
	for task, want := range map[string]string{
		"fix it\nsoon":                       "fix it",
		"\n  ```sh\ncd x\nls\n```":           "cd x",
		"```parallel\n\n make  all\nls\n```": "make all",
		"```ls```":                           "```ls```",
		"```":                                "```",
		"~~~\necho\n~~~":                     "echo",
		"":                                   "Untitled",
		strings.Repeat("x", 90):              strings.Repeat("x", 79) + "…",
	} {
		require.Equal(t, want, chat.TitleOf(task), task)
	}
}
