package discord

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest"
	"github.com/countersign/countersign/internal/chat/chattest/discordfake"
	"github.com/countersign/countersign/internal/workflows"
)

// TestAnyCardIsShown: Discord takes whatever card a session has, and its edit to any
// other state; nobody is pinged who was not meant; no block is torn, no form and no line
// is forged; a command is shown byte for byte where it can be approved; and what the
// card is for stands on it.
func TestAnyCardIsShown(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	s := w.session()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		kind := rapid.SampledFrom([]string{workflows.KindHeader, workflows.KindTurn, workflows.KindTurn, workflows.KindApproval, workflows.KindApproval}).Draw(rt, "kind")
		ref, version, meant := "", 0, map[string]bool{}
		for _, step := range []string{"post", "edit", "edit", "edit"} {
			v := chattest.AnyView(rt, s, fmt.Sprint("any-", n), kind, []string{ada, grace})
			v.Version += version
			version = v.Version
			c := chat.Content{WorkflowID: s.WorkflowID(), Thread: s, View: v}
			var err error
			if step == "post" {
				meant = pinged(v)
				ref, err = w.app.Poster().Post(t.Context(), c)
			} else {
				err = w.app.Poster().Edit(t.Context(), ref, c)
			}
			require.NoError(rt, err)
			for _, r := range w.fake.Refused(50035, 50006) {
				require.Fail(rt, "it is taken only in a simpler form", "%s: %s", step, r.Body)
			}
			m, _ := w.fake.Message(s.ID, ref)
			for _, p := range m.Pings {
				require.True(rt, meant[p], "%s is pinged by the %s", p, step)
			}
			checkCard(rt, m, v)
		}
	})
}

// pinged are those whom a card notifies when it is posted.
func pinged(v workflows.MessageView) map[string]bool {
	meant := map[string]bool{}
	if v.Approval == nil {
		return meant
	}
	for _, p := range chat.Pings(*v.Approval) {
		if meant[p] = true; p == "platform-oncall" {
			meant[oncall] = true
		}
	}
	return meant
}

// checkCard checks what a card shows.
func checkCard(t *rapid.T, m discordfake.Message, v workflows.MessageView) {
	text, _, ok := strings.Cut(m.Content, string(markSign))
	require.True(t, ok, "it is found again by its mark")
	require.LessOrEqual(t, size(m.Content), maxContent)
	require.True(t, balanced(text), "a block is torn:\n%s", text)
	require.NotContains(t, text, "\uE000", "half a mark of ours")
	prose, blocks := apartFromCode(text)
	lines := strings.Split(prose, "\n")
	if v.Header != nil {
		lines = nil // a title is a line of its own, and so is a notice
	}
	for _, line := range lines {
		require.False(t, strings.HasPrefix(strings.Trim(line, "*# >_"), chattest.Forged), "a line is forged:\n%s", text)
	}
	require.NotContains(t, prose, "__zap", "Markdown from outside has form:\n%s", text)
	switch {
	case v.Header != nil:
		require.Contains(t, prose, "by @")
	case v.Turn != nil:
		calls, _ := chat.VisibleCalls(*v.Turn)
		if len(calls) > 0 {
			word, _, _ := strings.Cut(calls[len(calls)-1].Command, " ")
			require.Contains(t, text, word, "the newest call is not shown")
		}
		says, _, _ := strings.Cut(chat.PlainStyle(time.UTC).TurnSummary(*v.Turn), " ")
		require.Contains(t, prose, says)
	case v.Approval != nil:
		checkRequest(t, m, *v.Approval, prose, blocks)
	}
}

func checkRequest(t *rapid.T, m discordfake.Message, a workflows.ApprovalView, prose string, blocks []string) {
	require.Len(t, blocks, 1, "the command has a block of its own")
	if strings.Contains(string(m.Components), `"Approve once"`) {
		require.True(t, a.Displayable)
		require.Equal(t, strings.TrimSpace(chat.ShownLines(a.Command.Text)), strings.TrimSpace(strings.ReplaceAll(blocks[0], joint, "")))
	} else if a.State == workflows.ApprovalPending && !a.UnknownRun {
		require.Regexp(t, `Review shows|use Review`, blocks[0]+prose, "that it is cut is said")
		require.Contains(t, string(m.Components), "Review")
		require.Contains(t, string(m.Components), "Deny")
	}
	if a.State == workflows.ApprovalPending {
		require.Regexp(t, `May approve: |Nobody may approve it here`, prose)
	} else {
		outcome := chat.PlainStyle(time.UTC).ApprovalOutcome(a)
		words := strings.Fields(outcome)
		require.Contains(t, prose, strings.Join(words[:2], " "), "what came of it is not said")
	}
}

// inlineCode is code within a line as Discord's client reads it.
var inlineCode = regexp.MustCompile("(?:`[^`\n]+`|`` (?:[^`]|`[^`])*?`? ``)")

// apartFromCode takes a text apart: what is not code, escaped characters left out, and
// the blocks of code.
func apartFromCode(text string) (prose string, blocks []string) {
	for i, part := range strings.Split(text, "```") {
		if i%2 == 1 {
			blocks = append(blocks, strings.TrimSuffix(strings.TrimPrefix(part, "\n"), "\n"))
			continue
		}
		prose += regexp.MustCompile(`\\.`).ReplaceAllString(inlineCode.ReplaceAllString(part, "code"), "x")
	}
	return prose, blocks
}
