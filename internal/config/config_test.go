package config_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/config"
)

// write puts text into a settings file and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "countersign.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// quiet keeps the Temporal CLI's own file of this machine out of the tests.
func quiet(t *testing.T, env ...string) []string {
	t.Helper()
	return append([]string{"TEMPORAL_CONFIG_FILE=" + filepath.Join(t.TempDir(), "none.toml")}, env...)
}

func TestDefaultsAreTheContracts(t *testing.T) {
	t.Parallel()
	c, err := config.Load(config.Sources{Environ: quiet(t)})
	require.NoError(t, err)
	abs, err := filepath.Abs(".countersign")
	require.NoError(t, err)
	require.Equal(t, abs, c.DataDir)
	require.Equal(t, "info", c.Log.Level)
	require.Equal(t, "file://"+abs+"/blobs", c.Blob.URL)
	require.Equal(t, "127.0.0.1:7233", c.Temporal.Address)
	require.Equal(t, "default", c.Temporal.Namespace)
	require.Equal(t, "stateless", c.OpenAI.State)
	require.True(t, c.OpenAI.Offline(), "no key and no base URL: the offline model")
	require.Equal(t, "local", c.Sandbox.Backend)
	require.Equal(t, 120*time.Second, c.Sandbox.Timeout.Shell)
	require.Equal(t, 24*time.Hour, c.Approvals.TTL)
	require.Empty(t, c.Approvals.Approvers)
	require.Equal(t, 1, c.Approvals.Risky.Required)
	require.Equal(t, 2, c.Approvals.Critical.Required)
	require.False(t, c.Approvals.Critical.RequesterMayApprove)
	require.Equal(t, "127.0.0.1:8466", c.Web.Listen)
	require.Equal(t, "socket", c.Slack.Mode)
	require.Empty(t, c.Secrets())
	require.Contains(t, strings.Join(c.Warnings(), "\n"), "approvals.approvers is empty")
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	file := write(t, "approvals:\n  ttl: 1h\n  approvers: [ada, grace]\nlog.level: warn\nopenai:\n  model: from-file\n")
	src := config.Sources{
		File: file, Environ: quiet(t),
		Defaults: map[string]string{"approvals.approvers": "*", "approvals.risky.requester_may_approve": "true", "approvals.ttl": "9h"},
	}
	c, err := config.Load(src)
	require.NoError(t, err)
	require.Equal(t, time.Hour, c.Approvals.TTL, "the file wins over a program's default")
	require.Equal(t, []string{"ada", "grace"}, c.Approvals.Approvers)
	require.Equal(t, "warn", c.Log.Level, "dotted keys are keys")
	require.True(t, c.Approvals.Risky.RequesterMayApprove)

	src.Environ = append(src.Environ, "COUNTERSIGN_APPROVALS_TTL=2h", "COUNTERSIGN_APPROVALS_APPROVERS= linus , ken,", "COUNTERSIGN_LOG_LEVEL=", "OTHER=1")
	c, err = config.Load(src)
	require.NoError(t, err)
	require.Equal(t, 2*time.Hour, c.Approvals.TTL, "the environment wins over the file")
	require.Equal(t, []string{"linus", "ken"}, c.Approvals.Approvers, "lists are comma-separated")
	require.Equal(t, "warn", c.Log.Level, "an empty variable counts as not set")

	src.Flags = map[string]string{"approvals.ttl": "3h"}
	c, err = config.Load(src)
	require.NoError(t, err)
	require.Equal(t, 3*time.Hour, c.Approvals.TTL, "flags win over all")
}

// Every key must be settable from each source, through one and the same name.
func TestEveryKeyFromEverySource(t *testing.T) {
	t.Parallel()
	samples := map[string]string{
		"data_dir": "/d", "log.level": "debug", "blob.url": "mem://b", "openai.base_url": "http://h/v1", "openai.state": "server",
		"sandbox.backend": "local", "sandbox.workspace": "/w", "policy.file": "/p.yaml", "web.listen": "127.0.0.1:0",
		"web.tokens": "ada=one-token-of-adas", "slack.bot_token": "xoxb-1", "slack.app_token": "xapp-1", "slack.mode": "http",
		"slack.listen": "127.0.0.1:1", "slack.api_url": "http://h/api/", "discord.api_url": "http://h/v10",
		"discord.gateway_url": "ws://h/", "temporal.tls.enabled": "true", "temporal.address": "h:7", "sandbox.docker.host": "unix:///d", "slack.channels": "C012ABCDEF",
		"discord.application_id": "71", "discord.guilds": "71", "discord.channels": "71",
		"discord.message_content": "false", "discord.public_key": strings.Repeat("0a", 32), "discord.listen": "127.0.0.1:1",
		"mcp.servers": "docs.command=docs-server", "mcp.tokens": "docs=one",
		"openai.windows": "m=9000", "openai.prices": "m.input=1,m.output=2", "openai.compact_at": "50",
		"sandbox.local.landlock": "false", "sandbox.local.memory_mb": "99", "sandbox.local.pids": "99", "sandbox.local.cpus": "0.5", "sandbox.local.cgroup": "/sys/fs/cgroup/mine", "sandbox.docker.cpus": "0.5", "sandbox.docker.memory_mb": "99", "budget.turn": "1", "budget.session": "2", "budget.person_day": "3",
		"workspaces":     "{api: {setup: [make]}}",
		"approvals.sets": "oncall=grace", "approvals.channels": "C1=grace", "approvals.access": "destroy=starter",
	}
	seen := map[string]string{}
	for _, f := range config.Fields() {
		require.Equal(t, "COUNTERSIGN_"+strings.ToUpper(strings.ReplaceAll(f.Key, ".", "_")), f.Env)
		require.NotContains(t, seen, f.Env, "two keys share a variable")
		seen[f.Env] = f.Key
		require.NotEmpty(t, f.Doc, f.Key)
		sample, ok := samples[f.Key]
		if !ok {
			sample = map[string]string{"duration": "7m", "number": "5", "true or false": "true"}[f.Type]
			if sample == "" {
				sample = "text-of-" + f.Key
			}
		}
		extra := map[string]string{}
		if f.Key == "slack.bot_token" {
			extra["slack.app_token"] = "xapp-1"
		}
		if f.Key == "mcp.tokens" {
			extra["mcp.servers"] = "docs.url=http://h/mcp"
		}
		if f.Key == "discord.listen" {
			extra["discord.public_key"] = samples["discord.public_key"]
		}
		nested := ""
		parts := strings.Split(f.Key, ".")
		for i, part := range parts {
			nested += strings.Repeat("  ", i) + part + ":\n"
		}
		nested = strings.TrimSuffix(nested, "\n") + " " + sample + "\n"
		file := write(t, nested)
		byFile, err := config.Load(config.Sources{File: file, Environ: quiet(t), Flags: extra})
		require.NoError(t, err, "%s", nested)
		require.Equal(t, file, byFile.File())
		byFile.ForgetFile()
		byEnv, err := config.Load(config.Sources{Environ: quiet(t, f.Env+"="+sample), Flags: extra})
		require.NoError(t, err, f.Key)
		flags := map[string]string{f.Key: sample}
		for k, v := range extra {
			flags[k] = v
		}
		byFlag, err := config.Load(config.Sources{Environ: quiet(t), Flags: flags})
		require.NoError(t, err, f.Key)
		require.Equal(t, byFile, byEnv, f.Key)
		require.Equal(t, byFile, byFlag, f.Key)
		unset, err := config.Load(config.Sources{Environ: quiet(t), Flags: extra})
		require.NoError(t, err)
		if f.Key != "sandbox.backend" { // one value exists
			require.NotEqual(t, unset, byFile, "%s=%s changed nothing", f.Key, sample)
		}
	}
}

func TestAllFaultsAtOnceWithKeyAndPlace(t *testing.T) {
	t.Parallel()
	file := write(t, `log:
  level: loud
aprovals:
  ttl: 1h
approvals:
  tll: 1h
  ttl: one day
  risky: yes
slack:
  bot_token: xoxb-not-to-be-shown
  mode: smoke
  api_url: https://slack.com/
sandbox: {backend: modal}
web.listen: nowhere
`)
	_, err := config.Load(config.Sources{
		File: file,
		Environ: quiet(t, "COUNTERSIGN_APPROVALS_APROVERS=ada", "COUNTERSIGN_WEB_TOKENS=hunter2secret",
			"COUNTERSIGN_APPROVALS_CRITICAL_REQUIRED=two"),
		Flags: map[string]string{"sandbox.timeout.shell": "-1s", "no.such": "x"},
	})
	var faults config.Faults
	require.ErrorAs(t, err, &faults)
	text := err.Error()
	for _, want := range []string{
		`log.level: unknown log level "loud"`,
		`countersign.yaml:3: aprovals: unknown setting`,
		`countersign.yaml:6: approvals.tll: unknown setting; did you mean approvals.ttl?`,
		`countersign.yaml:7: approvals.ttl: "one day" is not a duration such as 90s, 30m or 24h`,
		`countersign.yaml:8: approvals.risky: must hold settings`,
		`slack.mode: "smoke" is not one of socket, http`,
		`slack.api_url: "https://slack.com/" does not end in /api/`,
		`sandbox.backend: modal does not exist in this version; there is: local`,
		`web.listen: "nowhere" is not host:port`,
		`COUNTERSIGN_APPROVALS_APROVERS: no setting has this variable; did you mean COUNTERSIGN_APPROVALS_APPROVERS?`,
		`COUNTERSIGN_APPROVALS_CRITICAL_REQUIRED: approvals.critical.required: "two" is not a whole number`,
		`web.tokens: item 1 is not name=token`,
		`sandbox.timeout.shell: must be longer than 0`,
		`flag: no.such: unknown setting`,
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "not-to-be-shown")
	require.NotContains(t, text, "hunter2secret")
}

func TestFileFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"not a mapping": {"- a\n", "countersign.yaml:1: must hold settings"},
		"syntax":        {"log:\n  level: [a\n", "countersign.yaml:2: "},
		"twice":         {"log:\n  level: info\nlog.level: warn\n", "countersign.yaml:3: log.level: is set twice"},
		"duplicate key": {"log:\n  level: info\n  level: warn\n", "countersign.yaml:3: "},
		"list":          {"log:\n  level: [info]\n", "countersign.yaml:2: log.level: takes one value, not a list"},
		"map for value": {"web:\n  token:\n    a: b\n", "countersign.yaml:2: web.token: takes plain text"},
		"two documents": {"log.level: info\n---\nlog.level: warn\n", "more than one document"},
		"anchor":        {"log: &x\n  level: info\n", "log: must hold settings"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Load(config.Sources{File: write(t, c.text), Environ: quiet(t)})
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := config.Load(config.Sources{File: filepath.Join(t.TempDir(), "absent.yaml"), Environ: quiet(t)})
	require.ErrorContains(t, err, "no such file")
	_, err = config.Load(config.Sources{File: t.TempDir(), Environ: quiet(t)})
	require.ErrorContains(t, err, "is a directory")
	for _, empty := range []string{"", "# nothing\n", "---\n", "log:\n", "web:\n  token:\n"} {
		_, err := config.Load(config.Sources{File: write(t, empty), Environ: quiet(t)})
		require.NoError(t, err, "%q", empty)
	}
}

func TestNumbersKeepTheirDigits(t *testing.T) {
	t.Parallel()
	c, err := config.Load(config.Sources{
		File: write(t, "discord:\n  application_id: 0012345678901234567890\nweb:\n  token: 1e3\n"), Environ: quiet(t),
	})
	require.NoError(t, err)
	require.Equal(t, "0012345678901234567890", c.Discord.ApplicationID)
	require.Equal(t, "1e3", c.Web.Token.Reveal())
}

func TestOpenAIVariables(t *testing.T) {
	t.Parallel()
	c, err := config.Load(config.Sources{
		File:    write(t, "openai: {api_key: sk-file}\n"),
		Environ: quiet(t, "OPENAI_API_KEY=sk-their", "OPENAI_BASE_URL=http://127.0.0.1:1/v1"),
	})
	require.NoError(t, err)
	require.Equal(t, "sk-their", c.OpenAI.APIKey.Reveal(), "an environment wins over the file")
	require.Equal(t, "http://127.0.0.1:1/v1", c.OpenAI.BaseURL)
	require.False(t, c.OpenAI.Offline())
	c, err = config.Load(config.Sources{Environ: quiet(t, "COUNTERSIGN_OPENAI_API_KEY=sk-our", "OPENAI_API_KEY=sk-their")})
	require.NoError(t, err)
	require.Equal(t, "sk-our", c.OpenAI.APIKey.Reveal(), "our own variable wins")
	c, err = config.Load(config.Sources{Environ: quiet(t, "OPENAI_API_KEY=sk"), Flags: map[string]string{"openai.model": "offline"}})
	require.NoError(t, err)
	require.True(t, c.OpenAI.Offline())
}

func TestTemporalLayers(t *testing.T) {
	t.Parallel()
	toml := filepath.Join(t.TempDir(), "temporal.toml")
	require.NoError(t, os.WriteFile(toml, []byte("[profile.default]\naddress = \"toml:1\"\nnamespace = \"toml\"\n"), 0o600))
	env := []string{"TEMPORAL_CONFIG_FILE=" + toml}
	load := func(s config.Sources) *config.Config {
		c, err := config.Load(s)
		require.NoError(t, err)
		return c
	}
	require.Equal(t, "toml:1", load(config.Sources{Environ: env}).Temporal.Address)
	file := write(t, "temporal: {address: 'file:1'}\n")
	require.Equal(t, "file:1", load(config.Sources{File: file, Environ: env}).Temporal.Address)
	env = append(env, "TEMPORAL_ADDRESS=sdk:1", "TEMPORAL_API_KEY=key-value")
	c := load(config.Sources{File: file, Environ: env})
	require.Equal(t, "sdk:1", c.Temporal.Address)
	require.Equal(t, "toml", c.Temporal.Namespace)
	require.Equal(t, "true", c.Temporal.TLS.Enabled, "an API key turns TLS on")
	require.Len(t, c.Secrets(), 1)
	env = append(env, "COUNTERSIGN_TEMPORAL_ADDRESS=our:1", "COUNTERSIGN_TEMPORAL_TLS_ENABLED=false")
	c = load(config.Sources{File: file, Environ: env})
	require.Equal(t, "our:1", c.Temporal.Address)
	require.Equal(t, "false", c.Temporal.TLS.Enabled)
	c = load(config.Sources{File: file, Environ: env, Flags: map[string]string{"temporal.address": "flag:1"}})
	opts, err := c.TemporalOptions()
	require.NoError(t, err)
	require.Equal(t, "flag:1", opts.HostPort)
	require.Equal(t, "toml", opts.Namespace)
	require.True(t, opts.ConnectionOptions.TLSDisabled)

	embedded := load(config.Sources{Environ: []string{"TEMPORAL_CONFIG_FILE=" + t.TempDir()}, Embedded: true})
	require.Empty(t, embedded.Temporal.Address, "cmd/dev reads nothing of another server, nor fails over it")
	_, err = config.Load(config.Sources{Environ: []string{"TEMPORAL_CONFIG_FILE=" + t.TempDir()}})
	require.ErrorContains(t, err, "temporal: ")
}

func TestSnapshotCarriesDecisionsAndNoSecret(t *testing.T) {
	t.Parallel()
	dev, err := config.Load(config.Sources{
		Environ: quiet(t, "OPENAI_API_KEY=sk-not-shared", "COUNTERSIGN_SLACK_BOT_TOKEN=xoxb-no", "COUNTERSIGN_SLACK_APP_TOKEN=xapp-no"),
		Flags: map[string]string{
			"openai.model": "offline", "approvals.approvers": "ada,@ops", "sandbox.workspace": "/src/app",
			"web.token": "web-no", "data_dir": "/data", "approvals.ttl": "5m",
		},
		Embedded: true,
	})
	require.NoError(t, err)
	data, err := json.Marshal(dev.Snapshot("127.0.0.1:7", "default"))
	require.NoError(t, err)
	for _, secret := range []string{"sk-not", "xoxb", "xapp", "web-no", "data_dir"} {
		require.NotContains(t, string(data), secret)
	}
	snap, err := config.ParseSnapshot(data)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:7", snap.TemporalAddress)
	snap.Settings["not.known"] = []string{"x"}
	data, err = json.Marshal(snap)
	require.NoError(t, err)
	snap, err = config.ParseSnapshot(data)
	require.NoError(t, err)

	worker, err := config.Load(config.Sources{
		File:     write(t, "approvals: {approvers: [mallory]}\n"),
		Environ:  quiet(t, "OPENAI_API_KEY=sk-own", "COUNTERSIGN_OPENAI_MODEL=other", "COUNTERSIGN_DATA_DIR=/data"),
		Snapshot: snap,
		Flags:    map[string]string{"approvals.ttl": "6m"},
	})
	require.NoError(t, err)
	require.Equal(t, "offline", worker.OpenAI.Model)
	require.Equal(t, "sk-own", worker.OpenAI.APIKey.Reveal(), "secrets stay each process's own")
	require.Equal(t, []string{"ada", "@ops"}, worker.Approvals.Approvers)
	require.Equal(t, "/src/app", worker.Sandbox.Workspace)
	require.Equal(t, dev.Blob.URL, worker.Blob.URL)
	require.Equal(t, 6*time.Minute, worker.Approvals.TTL, "a worker's own flag wins")

	noKey, err := config.Load(config.Sources{Environ: quiet(t), Embedded: true})
	require.NoError(t, err)
	require.Equal(t, []string{"offline"}, noKey.Snapshot("a", "b").Settings["openai.model"], "no key is offline for the worker too")
}

func TestConfigPrintsNoSecret(t *testing.T) {
	t.Parallel()
	c, err := config.Load(config.Sources{Environ: quiet(t,
		"OPENAI_API_KEY=hide-me-1", "COUNTERSIGN_WEB_TOKENS=ada=hide-me-2-of-ada,grace=hide-me-3-of-grace", "COUNTERSIGN_TEMPORAL_API_KEY=hide-me-4")})
	require.NoError(t, err)
	require.Len(t, c.Secrets(), 4)
	b, err := json.Marshal(c)
	require.NoError(t, err)
	require.NotContains(t, string(b), "hide-me")
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", c.OpenAI, c.Web, c.Temporal), "hide-me")
	require.NotContains(t, fmt.Sprintf("%v %+v", c, *c), "hide-me", "the Temporal profile holds the key in clear")
}

// cmd/dev's own variable may be set where other programs start, too.
func TestTheVariableThatIsAFlag(t *testing.T) {
	t.Parallel()
	_, err := config.Load(config.Sources{Environ: quiet(t, config.DevDatabase+"=postgres://x")})
	require.NoError(t, err)
}
