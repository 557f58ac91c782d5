package discord

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/workflows"
)

// anyAnswer draws Markdown of all kinds. Each piece of it carries a word of its
// own; n counts them.
func anyAnswer(t *rapid.T) (text string, n int) {
	word := func() string { n++; return fmt.Sprintf("w%dw", n) }
	filler := rapid.SampledFrom([]string{
		" ", "  \n", "é", "漢字", "🙂", "👩‍👩‍👧", "\u200b", "\u202e", "@everyone", "<@123456789012345678>", "`", "``", "```", "*", "_", "~~", "|", "\\", "#", "https://example.com/a_b_c",
		strings.Repeat("x", 300), strings.Repeat("🙂", 150),
	})
	line := func() string {
		return word() + " " + strings.Join(rapid.SliceOfN(filler, 0, 12).Draw(t, "line"), "") + " " + word()
	}
	block := map[string]func() string{
		"paragraph": line,
		"heading":   func() string { return "## " + line() },
		"list":      func() string { return "- " + line() + "\n  - " + line() + "\n1. " + line() },
		"quote":     func() string { return "> " + line() + "\n> " + line() },
		"table":     func() string { return "| a | b |\n| --- | --- |\n| " + word() + " | " + word() + " |" },
		"code": func() string {
			var b strings.Builder
			b.WriteString("```" + rapid.SampledFrom([]string{"", "go", "sh", "c++ title=\"x\""}).Draw(t, "language") + "\n")
			for range rapid.IntRange(0, 60).Draw(t, "lines") {
				b.WriteString(word() + " " + strings.Repeat("=", rapid.IntRange(0, 120).Draw(t, "width")) + "\n")
			}
			return b.String() + "```"
		},
		"long fence": func() string { return "````\n" + word() + "\n```\n" + word() + "\n````" },
		"item fence": func() string {
			return "- ```sh\n  " + word() + "\n  ```\n" + line() + "\n1. ```\n   " + word() + "\n   ```"
		},
		"quoted": func() string { return "> ```\n> " + word() + "\n> ```" },
		"tildes": func() string { return "~~~ a`" + word() + "```b\n" + word() + "\n~~~~" },
		"long info": func() string {
			return "```sh " + word() + strings.Repeat("i", rapid.IntRange(0, 4000).Draw(t, "info")) + "\n" + word() + "\n```"
		},
		"long run": func() string {
			return strings.Repeat("`", 2500) + "\n" + word() + "\n````\n" + word() + "\n" + strings.Repeat("`", 2500)
		},
		"long line":  func() string { return word() + strings.Repeat(" ```x``` "+strings.Repeat("y", 90), 60) + word() },
		"open fence": func() string { return "~~~\n" + word() },
	}
	kinds := []string{"paragraph", "heading", "list", "quote", "table", "code", "code", "long fence", "item fence", "quoted", "tildes", "long info", "long run", "long line"}
	for range rapid.IntRange(1, 14).Draw(t, "blocks") {
		text += block[rapid.SampledFrom(kinds).Draw(t, "kind")]() + "\n\n"
	}
	if rapid.Bool().Draw(t, "ends open") {
		text += block["open fence"]()
	}
	return text, n
}

// TestAnyAnswerIsShown: Discord takes whatever the model writes, each word of it
// once and in order, and no code block is torn.
func TestAnyAnswerIsShown(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	s := w.session()
	key := 0
	rapid.Check(t, func(rt *rapid.T) {
		text, n := anyAnswer(rt)
		key++
		c := chat.Content{
			WorkflowID: s.WorkflowID(), Thread: s, Text: text, View: workflows.MessageView{Key: fmt.Sprint("answer-", key), Kind: workflows.KindAnswer, Version: 1},
		}
		before := len(w.fake.Messages(s.ID))
		_, err := w.app.Poster().Post(t.Context(), c)
		require.NoError(rt, err)
		var whole strings.Builder
		for _, m := range w.fake.Messages(s.ID)[before:] {
			require.Empty(rt, m.Pings)
			content, _, _ := strings.Cut(m.Content, string(markSign))
			require.True(rt, balanced(content), "a code block is torn:\n%s", content)
			whole.WriteString(content + "\n")
			for _, f := range m.Files {
				whole.Reset() // a file holds all of it
				whole.Write(f.Content)
			}
		}
		at, shown := 0, whole.String()
		for i := 1; i <= n; i++ {
			token := fmt.Sprintf("w%dw", i)
			found := strings.Index(shown[at:], token)
			require.GreaterOrEqual(rt, found, 0, "%s is not there, or not in its place:\n%s", token, shown)
			at += found
		}
	})
	require.Empty(t, w.fake.Refused(50035, 50006))
}

// balanced reports whether each code block of a message is closed in it. Discord
// ends a block at the next three backticks, wherever they stand.
func balanced(text string) bool { return strings.Count(text, "```")%2 == 0 }
