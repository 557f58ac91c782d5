package policy

import (
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// No character that Unicode calls ignorable, a control or a mark of direction is in
// what people are shown, and a command that has one asks.
func TestNothingHiddenIsShownAsItIs(t *testing.T) {
	t.Parallel()
	n := 0
	for _, table := range []*unicode.RangeTable{unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Bidi_Control} {
		for _, r := range runes(table) {
			if r == '\n' || r == '\t' {
				continue
			}
			text := "a" + string(r) + "b"
			require.NotContains(t, Shown(text), string(r), "%U", r)
			require.True(t, unseen(text), "%U", r)
			n++
		}
	}
	require.Greater(t, n, 400)
	require.Equal(t, "git commit -m '✔\ufe0f done'", Shown("git commit -m '✔\ufe0f done'"), "an emoji's selector is seen")
	require.Equal(t, `rm a\ufe0f`, Shown("rm a\ufe0f"), "behind a letter it is not")
}

func runes(table *unicode.RangeTable) (out []rune) {
	for _, r := range table.R16 {
		for c := rune(r.Lo); c <= rune(r.Hi); c += rune(r.Stride) {
			out = append(out, c)
		}
	}
	for _, r := range table.R32 {
		for c := rune(r.Lo); c <= rune(r.Hi) && len(out) < 5000; c += rune(r.Stride) {
			out = append(out, c)
		}
	}
	return out
}

func TestShownIsWhatTheVerdictShows(t *testing.T) {
	t.Parallel()
	command := "echo a\u2063b; rm " + strings.Repeat(" ", 200) + "x"
	show, _ := display(command)
	require.Equal(t, show, Shown(command))
	require.Equal(t, "echo a\\u2063b; rm⟨201 blanks⟩x", Shown(command))
}
