package chattest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/workflows"
)

// Platform is a platform's adapter in front of a real or fake service.
type Platform struct {
	Poster chat.Poster
	// Thread is a thread that nothing was posted in, opened by a person.
	Thread workflows.Thread
	// New is a thread for a session that starts by itself, such as a fork: without
	// an ID where the platform gives it.
	New workflows.Thread
	// Approver is the ID or group of an approver whom the platform can notify;
	// empty where it notifies nobody.
	Approver string
	// Lose, where the platform is across a network, loses the answer to the next
	// message that is posted: it is there, and the adapter is not told.
	Lose func()
	// Drawn says that a page of its own draws the texts as they are read here, and
	// leaves out itself what does not show.
	Drawn bool
	// Live, where people can delete messages, lets the adapter receive what they do
	// from now on.
	Live func() Live
	// Read returns our messages in a thread, in order, as people see them.
	Read func(t *testing.T, thread workflows.Thread) []Shown
}

// Shown is a message as people see it. One that was posted in parts, or as a
// file, is one Shown with the whole text.
type Shown struct {
	Ref  string
	Text string
	// Buttons are the labels of its buttons.
	Buttons []string
	// Pings are those whom the message notifies.
	Pings []string
}

// Conform runs the suite that every platform's adapter passes. open makes a
// platform of its own for each test.
func Conform(t *testing.T, open func(t *testing.T) Platform) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Platform){
		"posts once, though the bot dies before it is recorded": postsOnce,
		"posts once, though many attempts race":                 postsOnceAmongMany,
		"posts once, though an answer is lost":                  postsOnceUnheard,
		"posts an answer in parts once":                         postsPartsOnce,
		"keeps messages in the order of their posts":            keepsOrder,
		"shows the newest view after edits":                     showsNewest,
		"reports a deleted message":                             reportsDeleted,
		"opens a thread once":                                   opensOnce,
		"opens a thread of any title":                           opensAnyTitle,
		"shows long answers whole":                              showsLong,
		"pings nobody with the model's words":                   pingsNobody,
		"shows what a command hides, and hides it in prose":     showsHidden,
		"shows buttons and takes them away":                     showsButtons,
		"pings the approvers once, when a request is posted":    pingsApprovers,
		"posts a card again that was deleted while it waits":    restoresCards,
		"ends what waits where its session was cut short":       endsWhatWaits,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func delivery(p chat.Poster, s *Sessions) *chat.Delivery {
	return &chat.Delivery{Poster: p, Views: s, Blobs: &Blobs{}, Log: slog.New(slog.DiscardHandler)}
}

// Fetch runs [chat.Delivery.FetchFiles] as a bot would.
func Fetch(t *testing.T, d *chat.Delivery, in workflows.FetchFilesInput) (res workflows.FetchFilesResult, err error) {
	t.Helper()
	var s testsuite.WorkflowTestSuite
	s.SetLogger(quiet{})
	env := s.NewTestActivityEnvironment()
	env.RegisterActivity(d)
	v, err := env.ExecuteActivity(d.FetchFiles, in)
	if err == nil {
		err = v.Get(&res)
	}
	return res, err
}

// Deliver runs one of a delivery's activities as a workflow would, with up to 20
// attempts.
func Deliver(t *testing.T, d *chat.Delivery, name string, in any, tune ...func(*testsuite.TestWorkflowEnvironment)) (workflows.PostResult, error) {
	t.Helper()
	var s testsuite.WorkflowTestSuite
	s.SetLogger(quiet{})
	env := s.NewTestWorkflowEnvironment()
	env.RegisterActivity(d)
	env.SetTestTimeout(time.Minute)
	// A busy machine is no deadlock.
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute})
	for _, f := range tune {
		f(env)
	}
	env.ExecuteWorkflow(func(ctx workflow.Context) (workflows.PostResult, error) {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: time.Minute, HeartbeatTimeout: 10 * time.Second,
			RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Millisecond, BackoffCoefficient: 1, MaximumAttempts: 20},
		})
		var res workflows.PostResult
		err := workflow.ExecuteActivity(ctx, name, in).Get(ctx, &res)
		return res, err
	})
	require.True(t, env.IsWorkflowCompleted())
	if err := env.GetWorkflowError(); err != nil {
		return workflows.PostResult{}, err
	}
	var res workflows.PostResult
	require.NoError(t, env.GetWorkflowResult(&res))
	return res, nil
}

type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}

func postOf(thread workflows.Thread, key string) workflows.PostInput {
	return workflows.PostInput{WorkflowID: thread.WorkflowID(), Thread: thread, Key: key, First: time.Now().Add(-time.Second)}
}

func editOf(thread workflows.Thread, key, ref string) workflows.EditInput {
	return workflows.EditInput{WorkflowID: thread.WorkflowID(), Thread: thread, Key: key, Ref: ref}
}

func note(key, text string, version int) workflows.MessageView {
	return workflows.MessageView{Key: key, Kind: workflows.KindNotice, Version: version, Text: workflows.TextRef{Text: text, Bytes: len(text)}}
}

// dying posts, and dies before it can say so, the first time.
type dying struct {
	chat.Poster
	mu   sync.Mutex
	died bool
}

func (d *dying) Post(ctx context.Context, c chat.Content) (string, error) {
	ref, err := d.Poster.Post(ctx, c)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil && !d.died {
		d.died = true
		return "", errors.New("killed after posting")
	}
	return ref, err
}

func postsOnce(t *testing.T, p Platform) {
	s := &Sessions{}
	s.SetView(note("notice-1", "hello", 1))
	res, err := Deliver(t, delivery(&dying{Poster: p.Poster}, s), workflows.ActivityPostMessage, postOf(p.Thread, "notice-1"))
	require.NoError(t, err)
	got := p.Read(t, p.Thread)
	require.Len(t, got, 1)
	require.Equal(t, res.Ref, got[0].Ref)
	require.Contains(t, got[0].Text, "hello")
}

func postsOnceAmongMany(t *testing.T, p Platform) {
	s := &Sessions{}
	s.SetView(note("notice-1", "hello", 1))
	var wg sync.WaitGroup
	refs := make([]string, 4)
	for i := range refs {
		wg.Go(func() {
			res, err := Deliver(t, delivery(&dying{Poster: p.Poster}, s), workflows.ActivityPostMessage, postOf(p.Thread, "notice-1"))
			if err == nil {
				refs[i] = res.Ref
			}
		})
	}
	wg.Wait()
	got := p.Read(t, p.Thread)
	require.Len(t, got, 1)
	for _, ref := range refs {
		require.Equal(t, got[0].Ref, ref)
	}
}

func postsOnceUnheard(t *testing.T, p Platform) {
	if p.Lose == nil {
		t.Skip("no answer can be lost")
	}
	s := &Sessions{}
	s.SetView(note("notice-1", "hello", 1))
	p.Lose()
	res, err := Deliver(t, delivery(p.Poster, s), workflows.ActivityPostMessage, postOf(p.Thread, "notice-1"))
	require.NoError(t, err)
	got := p.Read(t, p.Thread)
	require.Len(t, got, 1)
	require.Equal(t, res.Ref, got[0].Ref)
}

// postsPartsOnce posts an answer that is too long for one message on some
// platforms, and loses the answer to one of its parts.
func postsPartsOnce(t *testing.T, p Platform) {
	s := &Sessions{}
	text := ""
	for i := range 40 {
		text += fmt.Sprintf("## Step %d\n\n```sh\nmake step-%d # %s\n```\n\n", i, i, strings.Repeat("x", 80))
	}
	v := workflows.MessageView{Key: "answer-1", Kind: workflows.KindAnswer, Version: 1, Text: workflows.TextRef{Text: text, Bytes: len(text)}}
	s.SetView(v)
	if p.Lose != nil {
		p.Lose()
	}
	res, err := Deliver(t, delivery(&dying{Poster: p.Poster}, s), workflows.ActivityPostMessage, postOf(p.Thread, v.Key))
	require.NoError(t, err)
	got := p.Read(t, p.Thread)
	require.Len(t, got, 1)
	require.Equal(t, res.Ref, got[0].Ref)
	for i := range 40 {
		require.Equal(t, 1, strings.Count(got[0].Text, fmt.Sprintf("make step-%d #", i)), "step %d", i)
	}
}

func keepsOrder(t *testing.T, p Platform) {
	s := &Sessions{}
	d := delivery(p.Poster, s)
	for i := range 5 {
		key := fmt.Sprint("notice-", i)
		s.SetView(note(key, "text of "+key, 1))
		_, err := Deliver(t, d, workflows.ActivityPostMessage, postOf(p.Thread, key))
		require.NoError(t, err)
	}
	got := p.Read(t, p.Thread)
	require.Len(t, got, 5)
	for i := range got {
		require.Contains(t, got[i].Text, fmt.Sprint("text of notice-", i))
	}
}

func showsNewest(t *testing.T, p Platform) {
	s := &Sessions{}
	d := delivery(p.Poster, s)
	s.SetView(note("notice-1", "version 1", 1))
	res, err := Deliver(t, d, workflows.ActivityPostMessage, postOf(p.Thread, "notice-1"))
	require.NoError(t, err)
	for i := 2; i < 6; i++ {
		s.SetView(note("notice-1", fmt.Sprint("version ", i), i))
		edited, err := Deliver(t, d, workflows.ActivityEditMessage, editOf(p.Thread, "notice-1", res.Ref))
		require.NoError(t, err)
		require.Equal(t, workflows.PostResult{Ref: res.Ref, Version: i}, edited)
	}
	got := p.Read(t, p.Thread)
	require.Len(t, got, 1)
	require.Contains(t, got[0].Text, "version 5")
}

func reportsDeleted(t *testing.T, p Platform) {
	c := chat.Content{WorkflowID: p.Thread.WorkflowID(), Thread: p.Thread, View: note("notice-1", "hello", 1), Text: "hello"}
	ref, err := p.Poster.Post(t.Context(), c)
	require.NoError(t, err)
	require.NoError(t, p.Poster.Delete(t.Context(), p.Thread, ref))
	require.NoError(t, p.Poster.Delete(t.Context(), p.Thread, ref), "deleting what is gone is no error")
	require.Empty(t, p.Read(t, p.Thread))
	require.ErrorIs(t, p.Poster.Edit(t.Context(), ref, c), chat.ErrMessageGone)
}

func opensOnce(t *testing.T, p Platform) {
	in := workflows.OpenThreadInput{Thread: p.New, Key: "root-1", Title: "A copy", Parent: p.Thread.WorkflowID()}
	first, err := p.Poster.OpenThread(t.Context(), in)
	require.NoError(t, err)
	require.NotEmpty(t, first.ID)
	again, err := p.Poster.OpenThread(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Len(t, p.Read(t, first), 1)

	// The root is the header: the session edits it instead of posting another.
	s := &Sessions{}
	s.SetView(workflows.MessageView{Key: "header", Kind: workflows.KindHeader, Version: 1, Header: &workflows.HeaderView{
		Title: "A copy of it", Backend: "local", Liveness: workflows.LivenessActive, By: workflows.Actor{ID: "ada"},
	}})
	d := delivery(p.Poster, s)
	res, err := Deliver(t, d, workflows.ActivityPostMessage, postOf(first, "header"))
	require.NoError(t, err)
	if res.Version == 0 { // it stands there, and an edit shows it
		_, err = Deliver(t, d, workflows.ActivityEditMessage, editOf(first, "header", res.Ref))
		require.NoError(t, err)
	}
	got := p.Read(t, first)
	require.Len(t, got, 1)
	require.Contains(t, got[0].Text, "A copy of it")
}

// opensAnyTitle opens a thread with a title that is longer than names may be, of
// several lines, and that would ping.
func opensAnyTitle(t *testing.T, p Platform) {
	title := "fix\n```go\n" + strings.Repeat("the flaky test ", 30) + "@everyone <@123456789012345678> <!channel>"
	thread, err := p.Poster.OpenThread(t.Context(), workflows.OpenThreadInput{Thread: p.New, Key: "root-1", Title: title, Parent: p.Thread.WorkflowID()})
	require.NoError(t, err)
	got := p.Read(t, thread)
	require.Len(t, got, 1)
	require.Empty(t, got[0].Pings)
	require.Contains(t, got[0].Text, "the flaky test")
}

func showsLong(t *testing.T, p Platform) {
	var b strings.Builder
	b.WriteString("# Result\n\n```go\n")
	for i := range 4000 {
		fmt.Fprintf(&b, "line %d of many\n", i)
	}
	b.WriteString("```\n")
	c := chat.Content{
		WorkflowID: p.Thread.WorkflowID(), Thread: p.Thread, Text: b.String(),
		View: workflows.MessageView{Key: "answer-1", Kind: workflows.KindAnswer, Version: 1},
	}
	_, err := p.Poster.Post(t.Context(), c)
	require.NoError(t, err)
	got := p.Read(t, p.Thread)
	require.Len(t, got, 1)
	for i := range 4000 {
		require.Contains(t, got[0].Text, fmt.Sprintf("line %d of many", i))
	}
}

func pingsNobody(t *testing.T, p Platform) {
	text := "<!channel> <!here> <@U123> <!subteam^S1> @everyone @here <@123456789012345678> <@&987654321098765432> @ada " +
		// Characters that turn the direction of writing, or are not seen, vanish on some platforms.
		"@\u202eeveryone <@\u2066U123> <!ch\u200bannel> @every\u2069one"
	c := chat.Content{
		WorkflowID: p.Thread.WorkflowID(), Thread: p.Thread, Text: text,
		View: workflows.MessageView{Key: "answer-1", Kind: workflows.KindAnswer, Version: 1},
	}
	ref, err := p.Poster.Post(t.Context(), c)
	require.NoError(t, err)
	c.View.Version, c.Text = 2, text+" again"
	require.NoError(t, p.Poster.Edit(t.Context(), ref, c))
	for _, m := range p.Read(t, p.Thread) {
		require.Empty(t, m.Pings)
	}
}

// showsHidden: a command is shown with an escape for each character that does not
// show or turns the direction of writing; in what is only read they are left out.
func showsHidden(t *testing.T, p Platform) {
	const tricks = "\u00ad\u034f\u061c\u115f\u180e\u200b\u200e\u2028\u202a\u202e\u2060\u2061\u2062\u2063\u2064\u2065\u2066\u2069\u206a\u3164\ufeff\ufff0\U000e0041\x1b\x7f"
	const selectors = "\u180b\ufe01" // that belong to the scripts and symbols before them, in prose
	command, escaped, prose := "echo ", "echo ", "echo "
	for _, r := range tricks + selectors {
		command += "a" + string(r)
		escaped += fmt.Sprintf("a\\u{%x}", r)
		if prose += "a"; strings.ContainsRune(selectors, r) {
			prose += string(r)
		}
	}
	for n, v := range []workflows.MessageView{
		{Key: "turn-1", Kind: workflows.KindTurn, Version: 1, Turn: &workflows.TurnView{
			Number: 1, State: workflows.TurnWorking, StartedAt: time.Now(), Calls: []workflows.CallView{{ID: "c1", Tool: workflows.ToolShell, Command: "echo \u202ea\u2063", State: workflows.CallAwaiting}}}},
		{Key: "approval-1", Kind: workflows.KindApproval, Version: 1, Approval: &workflows.ApprovalView{
			ID: "a1", State: workflows.ApprovalPending, Tier: "risky", Displayable: true, Backend: "local", Cwd: "/workspace", Command: workflows.TextRef{Text: command}, Required: 1}},
	} {
		_, err := p.Poster.Post(t.Context(), chat.Content{WorkflowID: p.Thread.WorkflowID(), Thread: p.Thread, View: v})
		require.NoError(t, err)
		got := p.Read(t, p.Thread)[n].Text
		want := escaped
		if n == 0 {
			want = `echo \u{202e}a\u{2063}`
		}
		require.Contains(t, strings.ReplaceAll(got, "\\\\", "\\"), want, "in %s", v.Key)
	}
	if p.Drawn {
		return
	}
	c := chat.Content{WorkflowID: p.Thread.WorkflowID(), Thread: p.Thread, Text: "I ran " + command + "; 👩\u200d👧 می\u200cخواهم.", View: workflows.MessageView{Key: "answer-1", Kind: workflows.KindAnswer, Version: 1}}
	_, err := p.Poster.Post(t.Context(), c)
	require.NoError(t, err)
	got := p.Read(t, p.Thread)[2].Text
	require.Contains(t, got, "I ran "+prose+";")
	require.Contains(t, got, "👩\u200d👧 می\u200cخواهم.", "joiners stay")
}

func showsButtons(t *testing.T, p Platform) {
	v := workflows.MessageView{
		Key: "approval-1", Kind: workflows.KindApproval, Version: 1,
		Buttons: []workflows.Button{{ID: workflows.ButtonApprove, Label: "Approve once"}, {ID: workflows.ButtonDeny, Label: "Deny…"}},
		Approval: &workflows.ApprovalView{
			ID: "a1", State: workflows.ApprovalPending, Tier: "risky", Displayable: true, Backend: "local", Cwd: "/workspace",
			Command: workflows.TextRef{Text: "rm -rf build"}, Reasons: []string{"it deletes"}, Required: 1,
		},
	}
	c := chat.Content{WorkflowID: p.Thread.WorkflowID(), Thread: p.Thread, View: v}
	ref, err := p.Poster.Post(t.Context(), c)
	require.NoError(t, err)
	got := p.Read(t, p.Thread)
	require.Equal(t, []string{"Approve once", "Deny…"}, got[0].Buttons)
	require.Contains(t, got[0].Text, "rm -rf build")
	decided := *v.Approval
	decided.State, decided.DecidedAt = workflows.ApprovalDenied, time.Now()
	c.View.Version, c.View.Buttons, c.View.Approval = 2, nil, &decided
	require.NoError(t, p.Poster.Edit(t.Context(), ref, c))
	got = p.Read(t, p.Thread)
	require.Empty(t, got[0].Buttons)
	require.Contains(t, got[0].Text, "Denied")
	require.Contains(t, got[0].Text, "rm -rf build", "the command stays")
}

func pingsApprovers(t *testing.T, p Platform) {
	if p.Approver == "" {
		t.Skip("the platform notifies nobody")
	}
	a := &workflows.ApprovalView{
		ID: "a1", State: workflows.ApprovalPending, Tier: "critical", Displayable: true, Backend: "local", Cwd: "/workspace",
		Command: workflows.TextRef{Text: "rm -rf build"}, Reasons: []string{"it deletes"}, Required: 2, Approvers: []string{p.Approver},
	}
	c := chat.Content{WorkflowID: p.Thread.WorkflowID(), Thread: p.Thread, View: workflows.MessageView{
		Key: "approval-1", Kind: workflows.KindApproval, Version: 1, Approval: a,
	}}
	ref, err := p.Poster.Post(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, []string{p.Approver}, p.Read(t, p.Thread)[0].Pings)
	voted := *a
	voted.Votes = []workflows.Vote{{By: workflows.Actor{ID: "grace"}, Verdict: workflows.VerdictApprove, At: time.Now()}}
	c.View.Version, c.View.Approval = 2, &voted
	require.NoError(t, p.Poster.Edit(t.Context(), ref, c))
	require.Subset(t, []string{p.Approver}, p.Read(t, p.Thread)[0].Pings, "an edit notifies nobody else")
}

// endsWhatWaits: a card whose session was ended from outside, which did not know whether
// it was posted, loses its buttons. What was never posted, or is gone, is not posted.
func endsWhatWaits(t *testing.T, p Platform) {
	v := workflows.MessageView{
		Key: "approval-1", Kind: workflows.KindApproval, Version: 1,
		Buttons: []workflows.Button{{ID: workflows.ButtonApprove, Label: "Approve once"}, {ID: workflows.ButtonDeny, Label: "Deny…"}},
		Approval: &workflows.ApprovalView{
			ID: "a1", State: workflows.ApprovalPending, Tier: "risky", Displayable: true, Backend: "local", Cwd: "/workspace",
			Command: workflows.TextRef{Text: "rm -rf build"}, Required: 1,
		},
	}
	began := time.Now().Add(-time.Minute)
	ref, err := p.Poster.Post(t.Context(), chat.Content{WorkflowID: p.Thread.WorkflowID(), Thread: p.Thread, View: v})
	require.NoError(t, err)
	end := workflows.CutShort{WorkflowID: p.Thread.WorkflowID(), How: "was terminated", At: time.Now()}
	s := &Sessions{}
	s.SetView(v.CutShort(end))
	never := v
	never.Key = "approval-2"
	s.SetView(never.CutShort(end))
	d := delivery(p.Poster, s)
	for _, key := range []string{"approval-1", "approval-2"} {
		in := editOf(p.Thread, key, "")
		in.First = began
		_, err = Deliver(t, d, workflows.ActivityEditMessage, in)
		require.NoError(t, err)
	}
	got := p.Read(t, p.Thread)
	require.Len(t, got, 1)
	require.Empty(t, got[0].Buttons)
	require.Contains(t, got[0].Text, "Nobody had decided when the session was ended from outside at")

	require.NoError(t, p.Poster.Delete(t.Context(), p.Thread, ref))
	_, err = Deliver(t, d, workflows.ActivityEditMessage, editOf(p.Thread, "approval-1", ref))
	require.NoError(t, err)
	require.Empty(t, p.Read(t, p.Thread))
}
