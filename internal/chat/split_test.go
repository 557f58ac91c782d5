package chat

import (
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
		for _, p := range SplitMarkdown(s, size) {
			require.LessOrEqual(t, utf8.RuneCountInString(p), size)
			got = append(got, lines(p)...)
		}
		require.Equal(t, lines(s), got)
	})
}

func TestSplitKeepsFences(t *testing.T) {
	t.Parallel()
	parts := SplitMarkdown("before\n\n```go\n"+strings.Repeat("a line of code\n", 20)+"```\n\nafter", 120)
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
