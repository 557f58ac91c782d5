// Package config reads Countersign's settings.
//
// A setting has one key, such as approvals.ttl. It is read, strongest first,
// from a flag, from the environment (COUNTERSIGN_APPROVALS_TTL), from the YAML
// file (nested or dotted) and from the program's default. Unknown keys are
// refused everywhere, and all faults are reported at once, each with its full
// key and where it stands. [Fields] lists the keys; docs/configuration.md is
// made from it.
//
// The package reads settings and nothing else: it opens no connection and
// creates no directory.
package config

import (
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/contrib/envconfig"

	"github.com/countersign/countersign/internal/manifest"
	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/telemetry"
)

// Secret is a setting whose value is never printed.
type Secret = telemetry.Secret

// NewSecret wraps value.
func NewSecret(value string) Secret { return telemetry.NewSecret(value) }

// DefaultFile is read from the working directory when no file is named; it may
// be absent.
const DefaultFile = "countersign.yaml"

// EnvPrefix begins the name of every environment variable that is a setting.
const EnvPrefix = "COUNTERSIGN_"

// ModelOffline is the value of openai.model that selects the built-in offline
// model.
const ModelOffline = "offline"

// Config is one process's settings after [Load]: defaults filled in, paths
// absolute, checked. It holds secrets in [Secret] only, so it may be logged.
type Config struct {
	DataDir   string    `key:"data_dir" default:"./.countersign" doc:"All state of a single machine: Temporal's SQLite file, blobs, web chat, local sandboxes. Relative to the working directory."`
	Log       Log       `key:"log"`
	Blob      Blob      `key:"blob"`
	Temporal  Temporal  `key:"temporal"`
	Worker    Worker    `key:"worker"`
	Drain     Drain     `key:"drain"`
	OpenAI    OpenAI    `key:"openai"`
	Budget    Budget    `key:"budget"`
	MCP       MCP       `key:"mcp"`
	Sandbox   Sandbox   `key:"sandbox"`
	Policy    Policy    `key:"policy"`
	Approvals Approvals `key:"approvals"`

	Workspaces manifest.Workspaces `key:"workspaces" default:"" shown:"none" doc:"Named workspaces: what a session started with --workspace NAME finds and may do. See docs/workspaces.md."`

	Web     Web     `key:"web"`
	Slack   Slack   `key:"slack"`
	Discord Discord `key:"discord"`

	// profile is what temporal.* came to, with keys and headers in clear: behind
	// a pointer, so that printing a Config prints an address.
	profile  *envconfig.ClientConfigProfile
	warnings []string
	// file is the settings file; see File.
	file string
}

// File is the absolute path of the settings file that was read; empty where there is
// none.
func (c *Config) File() string { return c.file }

// Log is how the process logs, as JSON lines on stderr.
type Log struct {
	Level string `key:"level" default:"info" doc:"debug, info, warn or error. Logs are JSON lines on stderr."`
}

// Blob is where transcripts, long outputs and snapshots are kept.
type Blob struct {
	URL string `key:"url" default:"" shown:"file:// below data_dir" doc:"gocloud.dev/blob URL of the blob store."`
}

// Worker bounds what one cmd/worker holds.
type Worker struct {
	BuildID        string `key:"build_id" default:"" shown:"none: workers are not told apart" doc:"Version of the worker's code, such as a release or a commit. With it a session finishes its turn on the version that began it and goes on on the current one, which “worker versions use” sets (upgrading.md)."`
	CachedSessions int    `key:"cached_sessions" default:"500" doc:"Sessions that a worker keeps in memory at most; one that is not there is replayed from its history when it is needed, within milliseconds."`
	ModelCalls     int    `key:"model_calls" default:"200" doc:"Calls of models and of MCP servers' tools that a worker makes at once at most; more of them wait for a place, on this worker or another. Commands and all else that a session does have places of their own."`
}

// Drain is how a worker or bot stops.
type Drain struct {
	Within time.Duration `key:"within" default:"10s" doc:"How long a worker or bot that is asked to stop (SIGTERM) may take: what ends within half of it is finished, the rest is handed over to others. Commands go on either way."`
}

// Temporal is the connection to the Temporal server, resolved as the SDK's
// envconfig does. cmd/dev embeds a server and reads none of it. Use
// [Config.TemporalOptions] to dial.
type Temporal struct {
	Address   string      `key:"address" default:"" shown:"127.0.0.1:7233" doc:"host:port of the Temporal frontend. TEMPORAL_ADDRESS is read too."`
	Namespace string      `key:"namespace" default:"" shown:"default" doc:"Temporal namespace. TEMPORAL_NAMESPACE is read too."`
	APIKey    Secret      `key:"api_key" doc:"API key; turns TLS on. TEMPORAL_API_KEY is read too."`
	TLS       TemporalTLS `key:"tls"`
}

// TemporalTLS is the TLS half of [Temporal]. Setting any of it turns TLS on.
type TemporalTLS struct {
	Enabled                 string `key:"enabled" default:"" shown:"on when another temporal.tls key or the API key is set" doc:"true or false. TEMPORAL_TLS is read too."`
	ServerName              string `key:"server_name" default:"" doc:"Server name to verify instead of the address. TEMPORAL_TLS_SERVER_NAME is read too."`
	ServerCACertPath        string `key:"server_ca_cert_path" default:"" doc:"PEM file of the server's CA. TEMPORAL_TLS_SERVER_CA_CERT_PATH is read too."`
	ClientCertPath          string `key:"client_cert_path" default:"" doc:"PEM file of the client certificate. TEMPORAL_TLS_CLIENT_CERT_PATH is read too."`
	ClientKeyPath           string `key:"client_key_path" default:"" doc:"PEM file of the client key. TEMPORAL_TLS_CLIENT_KEY_PATH is read too."`
	DisableHostVerification bool   `key:"disable_host_verification" default:"false" doc:"Accept any server certificate; for tests only. TEMPORAL_TLS_DISABLE_HOST_VERIFICATION is read too."`
}

// OpenAI is the model side.
type OpenAI struct {
	APIKey  Secret `key:"api_key" doc:"API key. OPENAI_API_KEY is read too. Without a key and without a base URL the offline model answers."`
	BaseURL string `key:"base_url" default:"" shown:"the API's" doc:"Base URL of a Responses API. OPENAI_BASE_URL is read too."`
	Model   string `key:"model" default:"gpt-5.6-terra" doc:"Model name; 'offline' is the built-in offline model."`
	State   string `key:"state" default:"stateless" doc:"'stateless' replays the transcript with each request; 'server' uses previous_response_id."`

	Background bool  `key:"background" default:"false" doc:"With state 'server': responses go on without their reader, so that a retry fetches what was paid for."`
	Windows    Table `key:"windows" default:"" shown:"built in by family; else 128000" doc:"Input tokens that a model takes, by model."`
	CompactAt  int   `key:"compact_at" default:"80" doc:"Percent of the window at which a conversation is condensed for the model. The transcript stays whole."`
	Prices     Table `key:"prices" default:"" shown:"none: no money is shown" doc:"Dollars for a million tokens, by model: MODEL.input, MODEL.cached (as input where it is missing) and MODEL.output."`
}

// Offline says whether the built-in offline model answers: it was asked for,
// or there is neither a key nor another base URL to call.
func (o OpenAI) Offline() bool {
	return o.Model == ModelOffline || (!o.APIKey.IsSet() && o.BaseURL == "")
}

// MCP are servers whose tools the model may call, each call judged by the gate.
type MCP struct {
	Servers Table    `key:"servers" default:"" shown:"none" doc:"Tool servers: NAME.command (run by the worker, words divided and quoted as for a shell) or NAME.url (streamable HTTP); NAME.env lists variables of the worker that the command gets, NAME.timeout bounds a call (60s)."`
	Tokens  []Secret `key:"tokens" shown:"none" doc:"NAME=token for each server that wants a bearer token."`
}

// Budget is what turns may take before an approver is asked to raise it.
type Budget struct {
	Turn      string `key:"turn" default:"" shown:"none" doc:"Dollars that a turn may cost before an approver is asked to raise it."`
	Session   string `key:"session" default:"" shown:"none" doc:"Dollars that a session may cost before an approver is asked."`
	PersonDay string `key:"person_day" default:"" shown:"none" doc:"Dollars that the turns which one person began may cost in a day (UTC), over all sessions, before an approver is asked."`
	TurnSteps int    `key:"turn_steps" default:"200" doc:"Model calls that a turn may make; then it ends and says so."`
}

// Sandbox is where commands run.
type Sandbox struct {
	Backend   string   `key:"backend" default:"local" doc:"Default backend of a new session."`
	Workspace string   `key:"workspace" default:"" shown:"an empty directory; in cmd/dev the working directory" doc:"Directory that a new session's workspace is a copy of, its git-ignored files left out. It is never written."`
	Timeout   Timeouts `key:"timeout"`

	HostDeadAfter time.Duration `key:"host_dead_after" default:"2m" doc:"How long no worker may serve a host's sandboxes before sessions there may go on on another host, from their last snapshot, when somebody approves that. It needs a blob store that all hosts share (blob.url)."`
	Local         Local         `key:"local"`
	Docker        Docker        `key:"docker"`
}

// Local is the local backend.
type Local struct {
	Roots      []string `key:"roots" default:"" shown:"none" doc:"Directories below which 'switch local ROOT' may keep a session's workspace, in a directory of its own."`
	Unisolated bool     `key:"allow_unisolated" default:"false" shown:"false; in cmd/dev true" doc:"Whether commands may run where bubblewrap does not work, so that they can read and change what the worker's user can, but for what Landlock denies them. Otherwise the local backend refuses there."`
	Landlock   bool     `key:"landlock" default:"true" doc:"Whether Landlock keeps such commands off all files but their own and the system's, where Linux has it. They get no privileges then: sudo does not work."`
	Memory     int      `key:"memory_mb" default:"4096" doc:"Memory of a local sandbox, in MiB, without swap; -1 is no limit. 'worker doctor' says how it is held on this machine."`
	PIDs       int      `key:"pids" default:"1024" doc:"Processes and threads of a local sandbox; -1 is no limit."`
	CPUs       string   `key:"cpus" default:"" shown:"no limit" doc:"Processors of a local sandbox; 0.5 is half of one."`
	Group      string   `key:"cgroup" default:"" shown:"what is delegated to the worker, or of cgroup v1 its own" doc:"Directory of a control group (v2) below which local sandboxes get theirs; it has no members and may be written by the worker's user."`
}

// Docker is the docker backend, which is offered when it has an image.
type Docker struct {
	Image   string        `key:"image" default:"" shown:"none: docker is not offered" doc:"Image of docker sandboxes; it needs sh, coreutils or busybox, and setpriv, su-exec, gosu or su."`
	Host    string        `key:"host" default:"" shown:"DOCKER_HOST, or the default socket" doc:"Address of the Docker Engine."`
	Runtime string        `key:"runtime" default:"" shown:"the engine's default" doc:"Container runtime, such as runsc."`
	Memory  int           `key:"memory_mb" default:"2048" doc:"Memory of a sandbox, in MiB."`
	Disk    int           `key:"disk_mb" default:"10240" doc:"Disk of a sandbox, in MiB."`
	PIDs    int           `key:"pids" default:"512" doc:"Processes of a sandbox."`
	CPUs    string        `key:"cpus" default:"2" doc:"Processors of a sandbox; 0.5 is half of one."`
	Idle    time.Duration `key:"idle" default:"1m" doc:"How long a container may run for nothing, also while an approval waits, before it is stopped; what needs it starts it. One with files in /tmp or /var/tmp, which are lost by that, may run ten times as long. 0 lets it run."`
	Temp    int           `key:"temp_mb" default:"1024" doc:"Size of each of /tmp and /var/tmp of a sandbox, in MiB; they count as its memory."`
}

// Timeouts are how long a tool call may run before it is ended.
type Timeouts struct {
	Read       time.Duration `key:"read" default:"30s" doc:"Time-out of file tools that read."`
	Shell      time.Duration `key:"shell" default:"120s" doc:"Time-out of a shell command, whatever its tier."`
	Install    time.Duration `key:"install" default:"600s" doc:"Time-out of a recognised package install."`
	Background time.Duration `key:"background" default:"30m" doc:"Time-out of a shell command that may go on in the background (yield_time_ms), from its start."`
}

// Policy is the gate's rules.
type Policy struct {
	File string `key:"file" default:"" shown:"built in" doc:"policy.yaml to use instead of the built-in policy."`
}

// Web is the built-in browser chat.
type Web struct {
	Listen string   `key:"listen" default:"127.0.0.1:8466" doc:"host:port of the web chat; port 0 takes a free one. cmd/dev accepts loopback hosts only."`
	Token  Secret   `key:"token" shown:"random, kept in data_dir" doc:"Bearer token of the web chat in cmd/dev, where one token speaks for everybody (X-Act-As)."`
	Tokens []Secret `key:"tokens" shown:"none" doc:"name=token for each person of the web chat in cmd/bot, which serves it when there is one; a token has at least 16 characters and belongs to one person."`
}

// Slack is the Slack adapter, which runs when its bot token is set.
type Slack struct {
	BotToken      Secret `key:"bot_token" doc:"Bot token, xoxb-…; Slack runs when it is set."`
	AppToken      Secret `key:"app_token" doc:"App-level token, xapp-…, for socket mode."`
	SigningSecret Secret `key:"signing_secret" doc:"Signing secret, for http mode."`
	Mode          string `key:"mode" default:"socket" doc:"'socket' or 'http'."`
	Listen        string `key:"listen" default:"" shown:"none" doc:"host:port that receives Slack's requests in http mode."`
	APIURL        string `key:"api_url" default:"https://slack.com/api/" doc:"Base of the Web API; ends in /api/."`

	Channels      []string      `key:"channels" default:"" shown:"all" doc:"IDs of the channels where sessions may start."`
	Starters      []string      `key:"starters" default:"" shown:"everybody" doc:"IDs of people, and IDs or handles of groups, who may start sessions."`
	AllowGuests   bool          `key:"allow_guests" default:"false" doc:"Whether guests may start and drive sessions. They never approve."`
	AllowExternal bool          `key:"allow_external" default:"false" doc:"Whether people of other organisations may, in shared channels. They never approve."`
	MentionsOnly  bool          `key:"mentions_only" default:"false" doc:"Whether only replies that mention the bot are messages to a session."`
	Backfill      time.Duration `key:"backfill" default:"6h" doc:"How far back live threads are read after a start; 0 or less reads only what an outage meanwhile has hidden."`
	Earlier       int           `key:"earlier" default:"30" doc:"How many messages of a thread are read, as others' talk, when a mention calls the bot into it; 0 reads none."`
}

// Discord is the Discord adapter, which runs when its token is set.
type Discord struct {
	Token         Secret `key:"token" doc:"Bot token; Discord runs when it is set."`
	ApplicationID string `key:"application_id" default:"" shown:"asked of the API" doc:"Application ID; another one than the token's is refused."`
	PublicKey     string `key:"public_key" default:"" shown:"none" doc:"Public key, hexadecimal, for interactions over HTTP."`
	Listen        string `key:"listen" default:"" shown:"none: interactions come over the gateway" doc:"host:port that receives interactions over HTTP; needs public_key."`
	APIURL        string `key:"api_url" default:"https://discord.com/api/v10" doc:"Base of the REST API, with its version."`
	GatewayURL    string `key:"gateway_url" default:"" shown:"asked of the API" doc:"Gateway to connect to instead of the one that the API names."`

	Guilds         []string      `key:"guilds" default:"" shown:"all" doc:"IDs of the servers that are served; the commands are registered there, at once, instead of globally."`
	MessageContent bool          `key:"message_content" default:"true" doc:"Whether messages without a mention are read, which needs the Message Content intent. Without it only mentions and commands reach a session."`
	Channels       []string      `key:"channels" default:"" shown:"all" doc:"IDs of the channels where sessions may start."`
	Starters       []string      `key:"starters" default:"" shown:"everybody" doc:"IDs of people, and IDs or names of roles, who may start sessions."`
	AllowGuests    bool          `key:"allow_guests" default:"false" doc:"Whether guests, and members whom a server's screening has not let in, may start and drive sessions. They never approve."`
	MentionsOnly   bool          `key:"mentions_only" default:"false" doc:"Whether only messages that mention the bot are messages to a session."`
	Backfill       time.Duration `key:"backfill" default:"6h" doc:"How far back live threads are read after a start; 0 or less reads only what an outage meanwhile has hidden."`
}

// Warnings are sentences about settings that are accepted but probably not
// meant, for the start-up log.
func (c *Config) Warnings() []string { return c.warnings }

// Secrets lists every secret that is set, for the logger to cut from its lines.
func (c *Config) Secrets() []Secret {
	var all []Secret
	for _, f := range fieldsOf(c) {
		switch p := f.ptr.(type) {
		case *Secret:
			if p.IsSet() {
				all = append(all, *p)
			}
		case *[]Secret:
			all = append(all, *p...)
		}
	}
	return all
}

// Mask masks every secret that is set, others that the caller knows, and the
// shapes of more, in what people read. Of name=token it masks the token.
func (c *Config) Mask(values ...string) *mask.Masker {
	values = slices.Clone(values)
	for _, s := range c.Secrets() {
		values = append(values, s.Reveal())
		if _, token, ok := strings.Cut(s.Reveal(), "="); ok {
			values = append(values, token)
		}
	}
	return mask.New(values...)
}
