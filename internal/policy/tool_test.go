package policy_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/policy"
)

// What a rule allows is what people would see.
func TestHiddenTextInACallAsks(t *testing.T) {
	t.Parallel()
	p, _, err := policy.Load([]byte("version: 1\nrules:\n  - id: read\n    tool: [\"mcp:files/read\"]\n    tier: safe\n    reason: only reads\n"), "policy.yaml")
	require.NoError(t, err)
	for text, want := range map[string]policy.Tier{
		`files/read {"path":"notes/ü.md"}`: policy.Safe, "files/read {\"path\":\"a\u202eb\"}": policy.Risky, "files/read {\"path\":\"раypal\"}": policy.Risky,
		"files/read {\"path\":\"a\u200bb\"}": policy.Risky, "files/read {" + strings.Repeat(" ", 400) + `"path":"a"}`: policy.Risky, "files/read {\"path\":\"\x1b[2K\"}": policy.Risky,
	} {
		require.Equal(t, want, p.JudgeTool("mcp:files/read", text).Tier, text)
	}
}

func TestToolsOfServers(t *testing.T) {
	t.Parallel()
	p, _, err := policy.Load([]byte(`
rules:
  - {id: docs, tool: "mcp:docs/*", tier: safe}
  - {id: docs-write, tool: ["mcp:docs/put_*", "mcp:docs/delete_*"], tier: critical, reason: the wiki is public}
  - {id: no-mail, tool: "mcp:*/send_mail", tier: forbidden}
`), "policy.yaml")
	require.NoError(t, err)
	for name, tier := range map[string]policy.Tier{
		"mcp:docs/search": policy.Safe, "mcp:docs/put_page": policy.Critical, "mcp:other/search": policy.Risky,
		"mcp:docs/send_mail": policy.Forbidden, "mcp:docsx/search": policy.Risky,
	} {
		v := p.JudgeTool(name, name+` {"q":"x"}`)
		require.Equal(t, tier, v.Tier, name)
		require.NotEmpty(t, v.Reasons)
		require.True(t, v.Displayable)
	}
	require.Equal(t, policy.Risky, p.JudgeTool("mcp:docs/search", strings.Repeat("x", 1<<20)).Tier, "what cannot be shown is asked about")
	require.Contains(t, p.JudgeTool("mcp:docs/put_page", "x").Reasons[0].Text, "the wiki is public")
	require.Equal(t, policy.Risky, policy.Default().JudgeTool("mcp:docs/search", "x").Tier)
	// A rule about a tool is about no command.
	require.Equal(t, policy.Safe, p.Judge("ls", policy.Env{Cwd: "/w", Workspace: "/w", Isolated: true}, policy.Facts{}).Tier)

	for _, bad := range []string{
		`{id: a, tool: "mcp:*/x", tier: safe}`, `{id: a, tool: "github/x", tier: risky}`, `{id: a, tool: "mcp:github", tier: risky}`,
		`{id: a, tool: "mcp:a/b", command: rm, tier: risky}`,
	} {
		_, _, err := policy.Load([]byte("rules:\n  - "+bad+"\n"), "policy.yaml")
		require.ErrorContains(t, err, "policy.yaml:2", bad)
	}
}
