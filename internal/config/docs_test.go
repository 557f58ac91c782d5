package config_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/config"
)

var update = flag.Bool("update", false, "rewrite the generated part of docs/configuration.md")

const (
	docsFile = "../../docs/configuration.md"
	begin    = "<!-- settings: made by go test ./internal/config -update -->\n"
	end      = "<!-- end of settings -->\n"
)

// docs/configuration.md must list every setting as the code has it.
func TestDocumentationListsEverySetting(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(docsFile)
	require.NoError(t, err)
	head, rest, ok := strings.Cut(string(data), begin)
	require.True(t, ok, "%s lacks the line %s", docsFile, begin)
	_, tail, ok := strings.Cut(rest, end)
	require.True(t, ok, "%s lacks the line %s", docsFile, end)
	want := head + begin + config.Markdown() + end + tail
	if *update {
		require.NoError(t, os.WriteFile(docsFile, []byte(want), 0o600))
		return
	}
	require.Equal(t, want, string(data), "run: go test ./internal/config -update")
}
