package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/config"
)

// A token says who speaks: it belongs to one person, who has a name and one token.
func TestTokensOfPeople(t *testing.T) {
	t.Parallel()
	load := func(tokens string) (*config.Config, error) {
		return config.Load(config.Sources{Environ: quiet(t, "COUNTERSIGN_WEB_TOKENS="+tokens)})
	}
	c, err := load("ada=0123456789abcdef,zoë=another=0123456789abc")
	require.NoError(t, err)
	require.Len(t, c.Web.People(), 2)
	require.Equal(t, "another=0123456789abc", c.Web.People()["zoë"].Reveal())
	for tokens, want := range map[string]string{
		"ada=short":            "web.tokens: item 1: a token has at least 16 characters",
		"ada=":                 "web.tokens: item 1: a token has at least 16 characters",
		"*=0123456789abcdef":   "web.tokens: item 1: a name has up to 32 letters, digits, dots, dashes and underscores",
		"a b=0123456789abcdef": "web.tokens: item 1: a name has",
		"ada=0123456789abcdef,ada=fedcba9876543210":   "web.tokens: items 1 and 2 are for the same person",
		"ada=0123456789abcdef,grace=0123456789abcdef": "web.tokens: items 1 and 2 have the same token",
	} {
		_, err := load(tokens)
		require.ErrorContains(t, err, want, tokens)
		require.NotContains(t, err.Error(), "0123456789abcdef")
	}
}
