package workflows

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A fork's title tells it from its siblings, however long the first one's is and however
// often it was forked.
func TestForkTitles(t *testing.T) {
	t.Parallel()
	require.Equal(t, "ls (fork #3)", forkOf(baseTitle("ls (fork #1)"), 3))
	require.Equal(t, "ls (fork #4)", forkOf(baseTitle("ls (fork #1) (fork #12)"), 4))
	for _, own := range []string{"fix (fork #x)", "(fork #1) of it", "fork #1", "a (fork #1", ""} {
		require.Equal(t, own, baseTitle(own))
	}
	long := TitleOf(strings.Repeat("ö", 200))
	for range 3 {
		title := forkOf(baseTitle(long), 10)
		require.Equal(t, title, TitleOf(title), "it is kept whole")
		require.True(t, strings.HasSuffix(title, "ö… (fork #10)"), title)
		long = title
	}
}
