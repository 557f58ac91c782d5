package slack

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest"
	"github.com/countersign/countersign/internal/chat/chattest/slackfake"
	"github.com/countersign/countersign/internal/workflows"
)

// TestAnyCardIsShown: Slack takes whatever card a session has, and its edit to any
// other state; nobody is pinged who was not meant; no line is forged; a command is
// shown byte for byte where it can be approved; and what the card is for stands on it.
func TestAnyCardIsShown(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true, before: func(w *world) {
		w.fake.AddGroup(slackfake.Group{ID: "S0ONCALL01", Handle: "platform-oncall", Users: []string{grace}})
	}})
	s := w.session()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		kind := rapid.SampledFrom([]string{workflows.KindHeader, workflows.KindTurn, workflows.KindTurn, workflows.KindApproval, workflows.KindApproval}).Draw(rt, "kind")
		ref, version := "", 0
		for _, step := range []string{"post", "edit", "edit", "edit"} {
			v := chattest.AnyView(rt, s, fmt.Sprint("any-", n), kind, []string{ada, grace})
			v.Version += version
			version = v.Version
			c := chat.Content{WorkflowID: s.WorkflowID(), Thread: s, View: v}
			var err error
			meant := map[string]bool{}
			if step == "post" {
				if v.Approval != nil {
					for _, p := range chat.Pings(*v.Approval) {
						meant[strings.Replace(p, "platform-oncall", "S0ONCALL01", 1)] = true
					}
				}
				ref, err = w.app.Poster().Post(t.Context(), c)
			} else {
				err = w.app.Poster().Edit(t.Context(), ref, c)
			}
			require.NoError(rt, err)
			m, _ := w.fake.Message(general, ref)
			require.NotContains(rt, string(m.Blocks), "\uE000", "a mark of ours")
			require.NotContains(rt, m.Text, "\uE000", "a mark of ours")
			for _, p := range mentioned(m.Text) {
				require.True(rt, meant[p], "%s is pinged by the %s", p, step)
			}
			checkCard(rt, m, v)
		}
		require.Empty(rt, w.fake.Complaints())
	})
}

// cardOf takes a card's blocks apart: lines that are no code, and boxes. simple reports
// the form for when Slack refuses the real one.
func cardOf(raw json.RawMessage) (lines, boxes []string, simple bool) {
	var blocks []struct {
		Type     string
		Elements []struct {
			Type     string
			Elements []struct {
				Type, Text, Fallback string
				Style                struct{ Code bool }
			}
		}
	}
	if json.Unmarshal(raw, &blocks) != nil {
		return nil, nil, true
	}
	simple = true
	var text strings.Builder
	for _, b := range blocks {
		if b.Type != "rich_text" {
			continue
		}
		simple = false
		for _, e := range b.Elements {
			whole := ""
			for _, part := range e.Elements {
				if part.Style.Code {
					part.Text = "code"
				}
				whole += part.Text + part.Fallback
			}
			if e.Type == "rich_text_preformatted" {
				boxes = append(boxes, whole)
			} else {
				text.WriteString(whole + "\n")
			}
		}
	}
	return strings.Split(text.String(), "\n"), boxes, simple
}

func checkCard(t *rapid.T, m slackfake.Message, v workflows.MessageView) {
	lines, boxes, simple := cardOf(m.Blocks)
	if v.Header != nil {
		require.Contains(t, blockText(m.Blocks), "by @")
		require.Contains(t, string(m.Blocks), `"header"`)
		return
	}
	require.False(t, simple, "it is taken only in a simpler form")
	for _, line := range lines {
		require.False(t, strings.HasPrefix(strings.TrimSpace(line), chattest.Forged), "a line is forged:\n%s", strings.Join(lines, "\n"))
	}
	prose := strings.Join(lines, "\n")
	if v.Turn != nil {
		calls, _ := chat.VisibleCalls(*v.Turn)
		if len(calls) > 0 {
			word, _, _ := strings.Cut(calls[len(calls)-1].Command, " ")
			require.Contains(t, blockText(m.Blocks), word, "the newest call is not shown")
		}
		says, _, _ := strings.Cut(chat.PlainStyle(time.UTC).TurnSummary(*v.Turn), " ")
		require.Contains(t, prose, says)
		return
	}
	a := v.Approval
	require.Len(t, boxes, 1, "the command has a box of its own")
	buttons := labels(m.Blocks)
	switch {
	case slices.Contains(buttons, "Approve once"):
		want := chat.ShownLines(a.Command.Text)
		if want == "" {
			want = " "
		}
		require.True(t, a.Displayable)
		require.Equal(t, want, boxes[0])
	case a.State == workflows.ApprovalPending && !a.UnknownRun:
		require.Regexp(t, `Review shows|use Review`, boxes[0]+prose, "that it is cut is said")
		require.Subset(t, buttons, []string{"Review…", "Deny…"})
	}
	if a.State == workflows.ApprovalPending {
		require.Regexp(t, `May approve: |Nobody may approve it here`, prose)
	} else {
		words := strings.Fields(chat.PlainStyle(time.UTC).ApprovalOutcome(*a))
		require.Contains(t, prose, strings.Join(words[:2], " "), "what came of it is not said")
	}
}
