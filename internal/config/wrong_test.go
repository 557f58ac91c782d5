package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/config"
)

// TestValuesThatMakeNoSense: a value that would be taken for another one, or with which
// nothing would work, is refused with a sentence that says what would be right.
func TestValuesThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ key, value, want string }{
		{"slack.earlier", "-1", "must be at least 0, not -1; 0 reads none"},
		{"slack.channels", "C012ABCDEF,#general", `"#general" is not a channel's ID, such as C012ABCDEF`},
		{"slack.listen", "0.0.0.0:0", `"0.0.0.0:0" has port 0`},
		{"discord.listen", ":00", `":00" has port 0`},
		{"discord.listen", "localhost", `"localhost" is not host:port`},
		{"discord.guilds", "My server", `"My server" is not a server's ID, digits`},
		{"discord.channels", "general", `"general" is not a channel's ID, digits`},
		{"discord.application_id", "Countersign", `"Countersign" is no ID: those are digits`},
		{"temporal.address", "localhost", `"localhost" is not host:port, such as 127.0.0.1:7233`},
		{"temporal.address", "temporal:", `"temporal:" is not host:port`},
		{"temporal.address", "temporal:frontend", `"temporal:frontend" is not host:port`},
		{"temporal.address", "temporal:0", `"temporal:0" is not host:port`},
		{"temporal.address", "http://temporal:7233", `"http://temporal:7233" is not host:port`},
		{"temporal.address", "https://temporal", `"https://temporal" is not host:port`},
		{"temporal.address", "::1", `"::1" is not host:port`},
		{"temporal.tls.enabled", "on", `"on" is neither true nor false`},
		{"sandbox.docker.host", "127.0.0.1:2375", `"127.0.0.1:2375" is no URL such as unix:///var/run/docker.sock`},
		{"sandbox.docker.host", "tcp://", `"tcp://" is no URL`},
		{"sandbox.docker.disk_mb", "0", "must be at least 1, or -1 for no limit, not 0"},
		{"sandbox.docker.idle", "-1s", "must be at least 1s, or 0 for never, not -1s"},
		{"sandbox.docker.pids", "0", "must be at least 1, not 0"},
		{"sandbox.local.pids", "-2", "must be at least 16, or -1 for no limit, not -2"},
		{"sandbox.timeout.shell", "0", "must be longer than 0, not 0s"},
		{"drain.within", "-5s", "must be longer than 0, not -5s"},
		{"worker.cached_sessions", "0", "must be at least 1, not 0"},
		{"openai.compact_at", "0", "must be from 10 to 95, not 0"},
		{"openai.base_url", "api.example.com/v1", `"api.example.com/v1" is not an http or https URL`},
		{"budget.turn", "NaN", `"NaN" is not an amount of dollars`},
		{"budget.session", "-1", `"-1" is not an amount of dollars`},
		{"approvals.ttl", "0s", "must be longer than 0, not 0s"},
		{"approvals.risky.ttl", "-1m", "must not be below 0, as -1m0s is"},
		{"approvals.critical.required", "0", "must be at least 1, not 0"},
		{"approvals.risky.widen_after", "48h", "must be shorter than the request lives (24h0m0s), not 48h0m0s"},
	} {
		t.Run(c.key+"="+c.value, func(t *testing.T) {
			t.Parallel()
			flags := map[string]string{c.key: c.value, "discord.public_key": zeros}
			_, err := config.Load(config.Sources{Environ: quiet(t), Flags: flags})
			require.ErrorContains(t, err, c.key+": "+c.want)
		})
	}
}

// zeros is a public key.
const zeros = "0000000000000000000000000000000000000000000000000000000000000000"

func TestValuesThatMakeSense(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ key, value string }{
		{"slack.earlier", "0"}, {"slack.backfill", "0"}, {"slack.backfill", "-1s"}, {"discord.backfill", "0s"},
		{"slack.channels", "C012ABCDEF,G012ABCDEF"}, {"slack.listen", ":3000"},
		{"temporal.address", "[::1]:7233"}, {"temporal.address", ":7233"}, {"temporal.address", "dns:///temporal:7233"},
		{"temporal.address", "unix:/run/temporal.sock"}, {"temporal.address", "ns.acct.tmprl.cloud:7233"}, {"temporal.tls.enabled", "1"},
		{"sandbox.docker.host", "tcp://127.0.0.1:2375"}, {"sandbox.docker.idle", "0"}, {"sandbox.docker.disk_mb", "-1"}, {"web.listen", "127.0.0.1:0"},
	} {
		t.Run(c.key+"="+c.value, func(t *testing.T) {
			t.Parallel()
			_, err := config.Load(config.Sources{Environ: quiet(t), Flags: map[string]string{c.key: c.value}})
			require.NoError(t, err)
		})
	}
	// A cmd/dev brings its own server.
	_, err := config.Load(config.Sources{Environ: quiet(t), Flags: map[string]string{"temporal.address": "localhost"}, Embedded: true})
	require.NoError(t, err)
}

func TestWideningWithoutATime(t *testing.T) {
	t.Parallel()
	c, err := config.Load(config.Sources{Environ: quiet(t), Flags: map[string]string{"approvals.approvers": "ada", "approvals.risky.widen_to": "grace"}})
	require.NoError(t, err)
	require.Contains(t, c.Warnings(), "approvals.risky.widen_to is set and approvals.risky.widen_after is not: nobody else is asked")
}
