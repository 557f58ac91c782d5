package agent

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/mask"
)

// What is shown of a text that grows is its end, whole lines, without secrets.
func TestTailOfWhatIsSaid(t *testing.T) {
	t.Parallel()
	const key = "a-secret-that-is-known-0123456789"
	m := mask.New(key)
	var text tail
	text.add("Look")
	require.Equal(t, "Look", text.shown(m))
	for range 400 {
		text.add("ing at\nthe router.")
		require.LessOrEqual(t, len(text), 2*tellKeep)
		shown := text.shown(m)
		require.LessOrEqual(t, len(shown), tellBytes)
		require.Less(t, strings.Count(shown, "\n"), tellLines)
		require.True(t, strings.HasSuffix(shown, "the router."))
	}
	text.add(" " + key + " is\x00 it" + strings.Repeat(" and so on", 200))
	require.NotContains(t, text.shown(m), key)
	require.True(t, strings.HasPrefix(text.shown(m), "…"), "cut inside a line")
	text.add(" €"[:2])
	require.NotPanics(t, func() { text.shown(m) })
}
