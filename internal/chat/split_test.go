package chat

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestSplitLosesNothing: the lines of the parts are the lines of the whole, but
// for empty ones and the fences that a cut block gets.
func TestSplitLosesNothing(t *testing.T) {
	t.Parallel()
	lines := func(s string) []string {
		var out []string
		for l := range strings.SplitSeq(s, "\n") {
			if strings.TrimSpace(l) != "" && fenceOf(l) == "" && !strings.HasPrefix(strings.TrimSpace(l), "```") {
				out = append(out, l)
			}
		}
		return out
	}
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SampledFrom([]string{"", "", "word", "a longer line of words", "```", "```go", "| a | b |", "世界 é"})
		s := strings.Join(rapid.SliceOfN(line, 0, 80).Draw(t, "lines"), "\n")
		size := rapid.IntRange(60, 300).Draw(t, "size")
		var got []string
		for _, p := range SplitMarkdown(s, size, 0) {
			require.LessOrEqual(t, utf8.RuneCountInString(p), size)
			got = append(got, lines(p)...)
		}
		require.Equal(t, lines(s), got)
	})
}

// TestAnyMarkdownIsSplit: whatever a model writes, each part is no longer than it may
// be and closes the blocks that it opens, and each word of it is there, in its place.
func TestAnyMarkdownIsSplit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := 0
		word := func() string { n++; return fmt.Sprintf("w%dw", n) }
		piece := rapid.SampledFrom([]string{
			" ", "\n", "\n\n", "`", "```", "````", "~~~", "# ", "> ", "    ", "世界 ", strings.Repeat("x", 90), strings.Repeat("`", 200), strings.Repeat("~", 200), strings.Repeat("lorem ", 40),
		})
		var b strings.Builder
		for _, p := range rapid.SliceOfN(piece, 0, 60).Draw(t, "pieces") {
			b.WriteString(p + word())
		}
		size := rapid.IntRange(120, 600).Draw(t, "size")
		parts := SplitMarkdown(b.String(), size, 0)
		for i, p := range parts {
			require.LessOrEqual(t, utf8.RuneCountInString(p), size)
			require.True(t, i == len(parts)-1 || !leftOpen(p), "it leaves a block open:\n%s", p)
		}
		// A cut may fall within a word, and the line that opens a block is in all its parts.
		rest := strings.Join(parts, "")
		for i := 1; i <= n; i++ {
			for _, c := range fmt.Sprintf("w%dw", i) {
				_, after, found := strings.Cut(rest, string(c))
				require.True(t, found, "word %d is not there, or not in its place", i)
				rest = after
			}
		}
	})
}

// leftOpen reports whether a fenced block of a text is not closed in it.
func leftOpen(text string) bool {
	fence := ""
	for line := range strings.SplitSeq(text, "\n") {
		switch mark := fenceOf(line); {
		case fence == "":
			fence = mark
		case closes(line, fence):
			fence = ""
		}
	}
	return fence != ""
}

// TestPiecesAreBounded: a part has so many headings and runs of text, whether empty lines
// stand between them or not, and a list is one.
func TestPiecesAreBounded(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("# Heading\ntext\n\n", 30), strings.Repeat("# Heading\n\ntext\n\n", 30), strings.Repeat("text\n\n---\n\n", 30)} {
		parts := SplitMarkdown(text, 10000, 40)
		require.Len(t, parts, 2)
		require.Equal(t, 40, strings.Count(parts[0], "# Heading")+strings.Count(parts[0], "text")+strings.Count(parts[0], "---"))
	}
	require.Len(t, SplitMarkdown(strings.Repeat("- item\n", 100)+"\n```\n# no heading\n# none\n```", 10000, 2), 1)
}

// TestLongLinesEndBehindWords: prose is not cut within a word.
func TestLongLinesEndBehindWords(t *testing.T) {
	t.Parallel()
	for _, p := range SplitMarkdown(strings.Repeat("boring ", 200), 150, 0) {
		require.Equal(t, strings.Repeat("boring ", len(p)/7), p)
	}
}

func TestSplitKeepsFences(t *testing.T) {
	t.Parallel()
	parts := SplitMarkdown("before\n\n```go\n"+strings.Repeat("a line of code\n", 20)+"```\n\nafter", 120, 0)
	require.Greater(t, len(parts), 2)
	for _, p := range parts {
		require.Zero(t, strings.Count(p, "```")%2, "every part closes what it opens: %q", p)
	}
	require.True(t, strings.HasPrefix(parts[1], "```go\n"))
}

func TestBeginningOfAFile(t *testing.T) {
	t.Parallel()
	head := Beginning("# Result\n\n```go\n"+strings.Repeat("a line\n", 100)+"```\n", 200)
	require.LessOrEqual(t, utf8.RuneCountInString(head), 204)
	require.True(t, strings.HasSuffix(head, "a line\n```"), head)
}
