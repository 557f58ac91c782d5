package slack

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/slack-go/slack"
	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat/chattest/slackfake"
)

func readManifest(t *testing.T) slack.Manifest {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "manifest.yaml"))
	require.NoError(t, err)
	var m slack.Manifest
	require.NoError(t, yaml.UnmarshalWithOptions(data, &m, yaml.Strict()), "a field that Slack does not know")
	return m
}

func TestManifestHasTheScopesThatTheCodeUses(t *testing.T) {
	t.Parallel()
	m := readManifest(t)
	require.Equal(t, neededScopes(), slices.Sorted(slices.Values(m.OAuthConfig.Scopes.Bot)))
	require.Empty(t, m.OAuthConfig.Scopes.User)
	events := slices.Sorted(maps.Keys(eventScopes()))
	require.Equal(t, events, slices.Sorted(slices.Values(m.Settings.EventSubscriptions.BotEvents)))
	require.Equal(t, neededScopes(), slackfake.AllScopes(), "the fake grants what the manifest asks for")
}

func TestManifestIsComplete(t *testing.T) {
	t.Parallel()
	m := readManifest(t)
	require.True(t, m.Settings.SocketModeEnabled)
	require.True(t, m.Settings.Interactivity.IsEnabled)
	require.False(t, m.Settings.OrgDeployEnabled)
	require.Len(t, m.Features.SlashCommands, 1)
	require.Equal(t, "/agent", m.Features.SlashCommands[0].Command)
	require.NotEmpty(t, m.Features.SlashCommands[0].UsageHint)
	require.Len(t, m.Features.Shortcuts, 1)
	require.Equal(t, slack.MessageShortcut, m.Features.Shortcuts[0].Type)
	require.NotNil(t, m.Features.AgentView)
	require.NotEmpty(t, m.Features.BotUser.DisplayName)
	require.True(t, m.Features.AppHome.MessagesTabEnabled)
	// Slack's limits on what a manifest says.
	require.LessOrEqual(t, len(m.Display.Name), 35)
	require.LessOrEqual(t, len(m.Display.Description), 140)
	require.GreaterOrEqual(t, len(m.Display.LongDescription), 174)
	require.LessOrEqual(t, len(m.Features.Shortcuts[0].Name), 24)
	require.LessOrEqual(t, len(m.Features.Shortcuts[0].Description), 150)
	require.LessOrEqual(t, len(m.Features.AgentView.AgentDescription), 300)
}

// TestScopesAreExplained: docs/slack.md says of each scope what it is for.
func TestScopesAreExplained(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "slack.md"))
	require.NoError(t, err)
	for _, s := range neededScopes() {
		require.Contains(t, string(data), "| `"+s+"` |")
	}
}

// TestEveryScopeIsNeeded: without any one of them something is refused. What the
// fake cannot refuse, because Slack grants it by the app's settings, is left out.
func TestEveryScopeIsNeeded(t *testing.T) {
	t.Parallel()
	used := map[string]bool{"commands": true, "assistant:write": true}
	for _, table := range []map[string][]string{methods(), eventScopes()} {
		for _, scopes := range table {
			for _, s := range scopes {
				used[s] = true
			}
		}
	}
	for _, s := range readManifest(t).OAuthConfig.Scopes.Bot {
		require.True(t, used[s], s)
	}
}

func TestUndeclaredMethodsAreNotCalled(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	_, err := w.app.api.GetTeamInfoContext(t.Context())
	require.ErrorContains(t, err, "does not declare")
	require.Empty(t, w.fake.Calls("team.info"))
}

// TestMissingScopeIsNamed: where an installation lacks a scope, the log says
// which.
func TestMissingScopeIsNamed(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true, fake: slackfake.Options{Scopes: []string{"chat:write", "channels:history"}}})
	_, err := w.app.people.actor(t.Context(), ada)
	require.ErrorContains(t, err, "users:read")
	require.False(t, strings.Contains(err.Error(), "xoxb"))
}
