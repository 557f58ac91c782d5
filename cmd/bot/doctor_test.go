package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/internal/chat/chattest/discordfake"
	"github.com/countersign/countersign/internal/chat/chattest/slackfake"
)

// TestDoctorOfTwoServices: each check says of which one it is.
func TestDoctorOfTwoServices(t *testing.T) {
	t.Parallel()
	one, other := slackfake.New(slackfake.Options{}), discordfake.New(discordfake.Options{})
	t.Cleanup(one.Close)
	t.Cleanup(other.Close)
	var out bytes.Buffer
	c := doctorCmd{JSON: true}
	c.DataDir = t.TempDir()
	require.NoError(t, c.Run(t.Context(), &process.Env{Stdout: &out, Environ: []string{
		"COUNTERSIGN_SLACK_BOT_TOKEN=xoxb-fake", "COUNTERSIGN_SLACK_APP_TOKEN=xapp-fake", "COUNTERSIGN_SLACK_API_URL=" + one.URL(),
		"COUNTERSIGN_DISCORD_TOKEN=" + other.Token(), "COUNTERSIGN_DISCORD_API_URL=" + other.URL(), "COUNTERSIGN_DISCORD_GATEWAY_URL=" + other.GatewayURL(),
	}}))
	var checks []process.Check
	require.NoError(t, json.Unmarshal(out.Bytes(), &checks))
	named := map[string]int{}
	for _, x := range checks {
		named[x.Name]++
	}
	for name, n := range named {
		require.Equal(t, 1, n, name)
	}
	require.Contains(t, named, "slack bot token")
	require.Contains(t, named, "discord bot token")
}
