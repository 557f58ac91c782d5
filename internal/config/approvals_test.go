package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/config"
)

func TestApproverSets(t *testing.T) {
	t.Parallel()
	c, err := config.Load(config.Sources{Environ: quiet(t), File: write(t, `
approvals:
  approvers: ["set:oncall", linus]
  sets: ["oncall=grace heidi", "leads=ken"]
  channels: ["C0PROD=set:leads @sre"]
  risky: {ttl: 1h}
  critical: {approvers: ["set:leads", "set:oncall"], break_glass: ["set:leads"], widen_after: 30m, widen_to: [judy]}
`)})
	require.NoError(t, err)
	risky := c.Approvals.For("risky", "C1")
	require.Equal(t, []string{"grace", "heidi", "linus"}, risky.Approvers)
	require.Equal(t, time.Hour, risky.TTL)
	critical := c.Approvals.For("critical", "")
	require.Equal(t, []string{"ken", "grace", "heidi"}, critical.Approvers)
	require.Equal(t, []string{"ken"}, critical.BreakGlass)
	require.Equal(t, 24*time.Hour, critical.TTL)
	require.Equal(t, []string{"ken", "@sre"}, c.Approvals.For("critical", "C0PROD").Approvers)
	require.Equal(t, []string{"@sre", "grace", "heidi", "judy", "ken", "linus"}, c.Approvals.All())
}

func TestApproverSetsThatCannotBeResolvedRefuseToStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ yaml, want string }{
		"not defined":     {`approvals: {approvers: ["set:oncall"]}`, "approvals.approvers: set:oncall is not defined in approvals.sets"},
		"empty":           {`approvals: {sets: ["oncall="]}`, `approvals.sets: "oncall=" is not NAME=MEMBER`},
		"twice":           {`approvals: {sets: ["a=x", "a=y"]}`, "approvals.sets: a stands twice"},
		"nested":          {`approvals: {sets: ["a=x", "b=set:a"]}`, "sets hold people and groups"},
		"in a channel":    {`approvals: {channels: ["C1=set:none"]}`, "approvals.channels: set:none is not defined"},
		"in break-glass":  {`approvals: {critical: {break_glass: ["set:none"]}}`, "approvals.critical.break_glass: set:none is not defined"},
		"widens too late": {`approvals: {risky: {widen_after: 25h, widen_to: [x]}}`, "approvals.risky.widen_after: must be shorter"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Load(config.Sources{Environ: quiet(t), File: write(t, c.yaml+"\n")})
			require.ErrorContains(t, err, c.want)
		})
	}
}
