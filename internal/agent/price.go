package agent

import (
	"strings"

	"github.com/openai/openai-go/v3/responses"

	"github.com/countersign/countersign/internal/workflows"
)

// Price is what a model costs, in millionths of the currency's unit for a
// million tokens: 1.25 dollars for a million tokens are 1_250_000.
type Price struct {
	Input int64
	// Cached is for input tokens that the server had in its cache.
	Cached int64
	Output int64
}

// usage counts a response's tokens and its cost.
func (a *Activities) usage(r responses.ResponseUsage, model string) workflows.Usage {
	u := workflows.Usage{
		Input:     max(0, r.InputTokens),
		Cached:    max(0, r.InputTokensDetails.CachedTokens),
		Output:    max(0, r.OutputTokens),
		Reasoning: max(0, r.OutputTokensDetails.ReasoningTokens),
		Calls:     1,
	}
	u.Cached = min(u.Cached, u.Input)
	p, ok := forModel(a.prices, model)
	if !ok {
		return u
	}
	const million = 1_000_000
	sum := (u.Input-u.Cached)*p.Input + u.Cached*p.Cached + u.Output*p.Output
	u.Micros = (sum + million/2) / million
	return u
}

// forModel finds what holds for a model, or for the family that its dated name
// belongs to: "gpt-5.6-mini-2026-08-01" has the price of "gpt-5.6-mini".
func forModel[T any](by map[string]T, model string) (T, bool) {
	if v, ok := by[model]; ok {
		return v, true
	}
	best := ""
	for name := range by {
		if strings.HasPrefix(model, name+"-20") && len(name) > len(best) {
			best = name
		}
	}
	v, ok := by[best]
	return v, ok
}
