package slack

import (
	"regexp"
	"strings"

	"github.com/slack-go/slack"

	"github.com/countersign/countersign/internal/chat"
)

// harmless breaks up what Slack might take for a mention that pings, because a
// model wrote it: a word joiner, which nobody sees, goes behind the bracket.
func harmless(markdown string) string {
	if !strings.Contains(markdown, "<") {
		return markdown
	}
	mention := regexp.MustCompile(`(?i)<(!(?:channel|here|everyone|group|subteam|date)|@[UWB]|#[CGD])`)
	return mention.ReplaceAllString(markdown, "<\u2060$1")
}

// content is a text of ours or the model's, made fit for Slack: the messages,
// and the file that holds it whole where it is longer than they may be.
type content struct {
	parts []rendered
	file  string
	whole string
}

// markdownContent renders Markdown under a key.
func markdownContent(key, text string) content {
	text = strings.TrimSpace(chat.Prose(text))
	if text == "" {
		text = "(empty)"
	}
	safe := harmless(text)
	parts := chat.SplitMarkdown(safe, markdownPart, markdownPieces)
	c := content{}
	if len(parts) > maxParts {
		c.file, c.whole = chat.FileName(key), text
		parts = []string{chat.Beginning(safe, markdownPart-500) + "\n\n*This is the beginning; the whole text is in the file " + c.file + ".*"}
	}
	for _, p := range parts {
		c.parts = append(c.parts, rendered{
			text:   plainFallback(p),
			blocks: withIDs(key, []slack.Block{slack.NewMarkdownBlock("", p)}),
		})
	}
	return c
}

// plainFallback is the text beside a markdown block.
func plainFallback(s string) string {
	for n := fallbackText; ; n /= 2 {
		if out := escape(chat.Cut(s, n)); len(out) <= maxText-100 || n < 100 {
			return out
		}
	}
}
