package slack

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHarmless(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"<!channel>", "<!HERE>", "<@U0ADA00001>", "<!subteam^S1>", "<#C1>", "<@W012A3CDE>"} {
		require.NotContains(t, harmless("a "+s+" b"), s)
	}
	for _, s := range []string{"a < b", "<div>", "<!-- comment -->", "x <- y", "vector<int>"} {
		require.Equal(t, s, harmless(s))
	}
}
