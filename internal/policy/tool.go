package policy

import (
	"strings"
)

// toolPrefix begins the names of tools that MCP servers offer: "mcp:server/tool".
const toolPrefix = "mcp:"

// JudgeTool judges a call of a tool that runs outside the sandbox, by its name
// "mcp:server/tool"; text is the call as people are shown it. Nothing is known of
// what such a tool does but what its server says of it, so a call is risky unless
// rules name it; of several that do, the strictest counts.
func (p *Policy) JudgeTool(name, text string) Verdict {
	v := Verdict{Tier: Risky}
	v.Display, v.Displayable = display(text)
	var by *rule
	for _, r := range p.toolRules {
		if matchesAny(r.tool, name) && (by == nil || r.tier > by.tier) {
			by = r
		}
	}
	reason := "the tool runs outside the sandbox, and no rule of the policy names it"
	if by != nil {
		v.Tier, reason = by.tier, by.because()
	}
	switch {
	case v.Tier >= Risky:
	case !v.Displayable:
		v.Tier, reason = Risky, "the call is too long to be shown whole"
	case unseen(text), padded(text):
		v.Tier, reason = Risky, "the call holds characters that do not show or look like others, or a long run of blanks"
	}
	v.Reasons = []Reason{{Tier: v.Tier, Text: reason}}
	return v
}

// checkTool refuses rules about tools that say something else too, or that allow
// the tools of servers they do not name.
func (ru *rule) checkTool() string {
	if len(ru.command)+len(ru.sub)+len(ru.flags)+len(ru.path)+len(ru.host)+len(ru.backend)+len(ru.argv) > 0 || ru.isolated != nil {
		return "is about a tool, and so about nothing else"
	}
	for _, t := range ru.tool {
		server, _, ok := strings.Cut(strings.TrimPrefix(t, toolPrefix), "/")
		switch {
		case !strings.HasPrefix(t, toolPrefix) || !ok || server == "":
			return "names a tool as mcp:server/tool"
		case ru.tier < Risky && strings.ContainsAny(server, "*?["):
			return "would allow the tools of a server that it does not name"
		}
	}
	return ""
}
