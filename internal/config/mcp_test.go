package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/config"
)

func TestMCPCommandIsQuotedAsForAShell(t *testing.T) {
	t.Parallel()
	load := func(command string) (*config.Config, error) {
		return config.Load(config.Sources{Flags: map[string]string{"mcp.servers.docs.command": command}})
	}
	c, err := load(`docs-server --dir "/srv/our docs" 'a $b'`)
	require.NoError(t, err)
	require.Equal(t, []string{"docs-server", "--dir", "/srv/our docs", "a $b"}, c.MCP.All()[0].Command)
	for command, why := range map[string]string{
		`docs-server "open`:   "not quoted",
		`docs-server $HOME/x`: "needs a shell for HOME",
		`docs-server $(date)`: "needs a shell",
	} {
		_, err := load(command)
		require.ErrorContains(t, err, why, command)
	}
}
