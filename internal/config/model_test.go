package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Rows of a table come from every source, and a stronger one wins row by row.
func TestPricesWindowsAndBudgets(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "c.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
openai:
  prices:
    gpt-5.6-mini:
      input: 1.25
      cached: 0.125
      output: 10
    other.input: 2
    other.output: 3
  windows: {gpt-5.6-mini: 400000}
budget.turn: 0.5
`), 0o600))
	src := Sources{
		File:    file,
		Environ: []string{"COUNTERSIGN_OPENAI_PRICES=other.output=4, x.input=1,x.output=1", "COUNTERSIGN_BUDGET_PERSON_DAY=20"},
		Flags:   map[string]string{"openai.prices.gpt-5.6-mini.output": "12", "openai.windows": "small=8000"},
	}
	c, err := Load(src)
	require.NoError(t, err)
	require.Equal(t, map[string]Price{
		"gpt-5.6-mini": {Input: 1_250_000, Cached: 125_000, Output: 12_000_000},
		"other":        {Input: 2_000_000, Cached: 2_000_000, Output: 4_000_000},
		"x":            {Input: 1_000_000, Cached: 1_000_000, Output: 1_000_000},
	}, c.OpenAI.ModelPrices())
	require.Equal(t, map[string]int64{"gpt-5.6-mini": 400_000, "small": 8000}, c.OpenAI.ModelWindows())
	require.Equal(t, Limits{Turn: 500_000, PersonDay: 20_000_000}, c.Budget.Limits())

	snap := c.Snapshot("127.0.0.1:1", "default")
	again, err := Load(Sources{File: file, Snapshot: &snap})
	require.NoError(t, err)
	require.Equal(t, c.OpenAI.ModelPrices(), again.OpenAI.ModelPrices())
	require.Equal(t, c.Budget, again.Budget)

	for flag, value := range map[string]string{
		"openai.prices.m.input": "1", "openai.prices.m.thought": "1", "openai.prices": "nonsense", "openai.windows.m": "few",
		"budget.turn": "lots", "budget.session": "0", "openai.compact_at": "99", "budget.turn_steps": "0",
	} {
		_, err := Load(Sources{File: file, Flags: map[string]string{flag: value}})
		require.ErrorContains(t, err, flag[:6], flag)
	}
	_, err = Load(Sources{Flags: map[string]string{"budget.turn": "1", "openai.base_url": "http://127.0.0.1:1/v1"}})
	require.ErrorContains(t, err, "no price")
}
