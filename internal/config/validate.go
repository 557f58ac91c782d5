package config

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/telemetry"
)

// Backends are the kinds of sandbox that this version has.
func (c *Config) Backends() []string {
	if c.Sandbox.Docker.Image != "" {
		return []string{"local", "docker"}
	}
	return []string{"local"}
}

// planned are backends that the product's design names and this version does
// not have: they are refused by name, not as a typing mistake.
var planned = []string{"e2b", "daytona", "modal"}

// blobDir is the blob store's directory below data_dir.
const blobDir = "blobs"

// finish makes paths absolute, fills in what depends on other settings, and
// checks what can be checked without touching anything outside.
func (c *Config) finish() Faults {
	k := &checker{}
	c.paths(k)
	if _, err := telemetry.ParseLevel(c.Log.Level); err != nil {
		k.fault("log.level", "%v", err)
	}
	if c.Blob.URL == "" {
		c.Blob.URL = (&url.URL{Scheme: "file", Path: filepath.Join(c.DataDir, blobDir)}).String()
	}
	if u, err := url.Parse(c.Blob.URL); err != nil || u.Scheme == "" {
		k.fault("blob.url", "is not a URL with a scheme such as file:///path")
	}
	k.atLeastOne("worker.cached_sessions", c.Worker.CachedSessions)
	if b := c.Worker.BuildID; b != "" && !buildID.MatchString(b) {
		k.fault("worker.build_id", "%q is not 1 to 100 letters, digits, dots, dashes and underscores", b)
	}
	k.atLeastOne("worker.model_calls", c.Worker.ModelCalls)
	c.checkModel(k)
	c.checkMCP(k)
	c.checkSandbox(k)
	for _, f := range c.Workspaces.Check(c.Backends()) {
		k.fault("workspaces."+f.Key, "%s", f.Problem)
	}
	c.checkApprovals(k)
	c.checkWeb(k)
	c.checkSlack(k)
	c.checkDiscord(k)
	c.warnings = k.warnings
	return k.faults
}

type checker struct {
	faults   Faults
	warnings []string
}

func (k *checker) fault(key, format string, args ...any) {
	k.faults = append(k.faults, Fault{Key: key, Problem: fmt.Sprintf(format, args...)})
}

func (k *checker) warn(format string, args ...any) {
	k.warnings = append(k.warnings, fmt.Sprintf(format, args...))
}

func (k *checker) oneOf(key, got string, allowed ...string) {
	if !slices.Contains(allowed, got) {
		k.fault(key, "%q is not one of %s", got, strings.Join(allowed, ", "))
	}
}

func (k *checker) positive(key string, d time.Duration) {
	if d <= 0 {
		k.fault(key, "must be longer than 0, not %s", d)
	}
}

func (k *checker) hostPort(key, addr string) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		k.fault(key, "%q is not host:port", addr)
		return
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		k.fault(key, "%q has no port between 0 and 65535", addr)
	}
}

// reached checks an address that others must know.
func (k *checker) reached(key, addr string) {
	k.hostPort(key, addr)
	if _, port, err := net.SplitHostPort(addr); err == nil && strings.Trim(port, "0") == "" && port != "" {
		k.fault(key, "%q has port 0, a free one that nobody outside would know; name a port, such as %s", addr, net.JoinHostPort("127.0.0.1", "3000"))
	}
}

func (k *checker) httpURL(key, text string) {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		k.fault(key, "%q is not an http or https URL", text)
	}
}

func (k *checker) absolute(key string, path *string) {
	if *path == "" {
		return
	}
	abs, err := filepath.Abs(*path)
	if err != nil {
		k.fault(key, "cannot be made absolute: %v", err)
		return
	}
	*path = abs
}

func (k *checker) atLeastOne(key string, n int) {
	if n < 1 {
		k.fault(key, "must be at least 1, not %d", n)
	}
}

// paths makes the path settings absolute: another process that reads them from
// a snapshot has another working directory.
func (c *Config) paths(k *checker) {
	if c.DataDir == "" {
		k.fault("data_dir", "must not be empty")
	}
	k.absolute("data_dir", &c.DataDir)
	k.absolute("policy.file", &c.Policy.File)
	k.absolute("sandbox.workspace", &c.Sandbox.Workspace)
	for i := range c.Sandbox.Local.Roots {
		k.absolute("sandbox.local.roots", &c.Sandbox.Local.Roots[i])
	}
	if err := c.Workspaces.Absolute(filepath.Abs); err != nil {
		k.fault("workspaces", "%v", err)
	}
}

func (c *Config) checkSandbox(k *checker) {
	switch b := c.Sandbox.Backend; {
	case slices.Contains(c.Backends(), b):
	case b == "docker":
		k.fault("sandbox.backend", "docker needs sandbox.docker.image")
	case slices.Contains(planned, b):
		k.fault("sandbox.backend", "%s does not exist in this version; there is: %s", b, strings.Join(c.Backends(), ", "))
	default:
		k.fault("sandbox.backend", "%q is not a backend; there is: %s", b, strings.Join(c.Backends(), ", "))
	}
	c.checkDocker(k)
	c.checkLocal(k)
	k.positive("drain.within", c.Drain.Within)
	k.positive("sandbox.host_dead_after", c.Sandbox.HostDeadAfter)
	k.positive("sandbox.timeout.read", c.Sandbox.Timeout.Read)
	k.positive("sandbox.timeout.shell", c.Sandbox.Timeout.Shell)
	k.positive("sandbox.timeout.install", c.Sandbox.Timeout.Install)
	k.positive("sandbox.timeout.background", c.Sandbox.Timeout.Background)
}

func (c *Config) checkDocker(k *checker) {
	d := c.Sandbox.Docker
	k.atLeastOne("sandbox.docker.pids", d.PIDs)
	k.atLeastOne("sandbox.docker.temp_mb", d.Temp)
	if d.Memory < minMemory {
		k.fault("sandbox.docker.memory_mb", "must be at least %d, not %d: a shell and what watches it need that", minMemory, d.Memory)
	}
	if d.Disk < 1 && d.Disk != -1 {
		k.fault("sandbox.docker.disk_mb", "must be at least 1, or -1 for no limit, not %d", d.Disk)
	}
	if d.Idle != 0 && d.Idle < time.Second {
		k.fault("sandbox.docker.idle", "must be at least 1s, or 0 for never, not %s", d.Idle)
	}
	if _, addr, ok := strings.Cut(d.Host, "://"); d.Host != "" && (!ok || addr == "") {
		k.fault("sandbox.docker.host", "%q is no URL such as unix:///var/run/docker.sock or tcp://127.0.0.1:2375", d.Host)
	}
	k.processors("sandbox.docker.cpus", d.CPUs)
}

func (c *Config) checkLocal(k *checker) {
	l := c.Sandbox.Local
	if l.Memory < minMemory && l.Memory != -1 {
		k.fault("sandbox.local.memory_mb", "must be at least %d, or -1 for no limit, not %d", minMemory, l.Memory)
	}
	if l.PIDs < minPIDs && l.PIDs != -1 {
		k.fault("sandbox.local.pids", "must be at least %d, or -1 for no limit, not %d", minPIDs, l.PIDs)
	}
	if l.CPUs != "" {
		k.processors("sandbox.local.cpus", l.CPUs)
	}
	if l.Group != "" && !filepath.IsAbs(l.Group) {
		k.fault("sandbox.local.cgroup", "%q is no absolute path", l.Group)
	}
}

// minPIDs is what bubblewrap, a shell and a small pipeline need.
const minPIDs = 16

func (k *checker) processors(key, value string) {
	if n, err := strconv.ParseFloat(value, 64); err != nil || !(n >= 0.01 && n <= 10000) {
		k.fault(key, "%q is not a number of processors such as 2 or 0.5", value)
	}
}

// minMemory is the least memory of a docker sandbox, in MiB; the engine itself
// takes nothing below 6.
const minMemory = 16

// Processors are how many processors a sandbox has.
func (d Docker) Processors() float64 { return processors(d.CPUs) }

// Processors are how many processors a sandbox has; 0 is no limit.
func (l Local) Processors() float64 { return processors(l.CPUs) }

func processors(value string) float64 {
	n, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return 0
	}
	return n
}

func (c *Config) checkWeb(k *checker) {
	k.hostPort("web.listen", c.Web.Listen)
	names, tokens := map[string]int{}, map[string]int{}
	for i, s := range c.Web.Tokens {
		n := i + 1 // which is which is not sure enough to print a name
		name, token, ok := strings.Cut(s.Reveal(), "=")
		switch {
		case !ok:
			k.fault("web.tokens", "item %d is not name=token", n)
			continue
		case !personName.MatchString(name):
			k.fault("web.tokens", "item %d: a name has up to 32 letters, digits, dots, dashes and underscores", n)
		case len(token) < minToken:
			k.fault("web.tokens", "item %d: a token has at least %d characters", n, minToken)
		case names[name] > 0:
			k.fault("web.tokens", "items %d and %d are for the same person", names[name], n)
		case tokens[token] > 0:
			k.fault("web.tokens", "items %d and %d have the same token, which says who speaks", tokens[token], n)
		}
		names[name], tokens[token] = n, n
	}
}

// minToken is the least length of a person's token, in bytes.
const minToken = 16

// personName is what a person of the web chat may be called, as package web has it.
var personName = regexp.MustCompile(`^[\p{L}\p{N}][\p{L}\p{N}._-]{0,31}$`)

// People are the tokens of those who may use the web chat of cmd/bot, by name.
func (w Web) People() map[string]Secret {
	people := map[string]Secret{}
	for _, s := range w.Tokens {
		if name, token, ok := strings.Cut(s.Reveal(), "="); ok {
			people[name] = NewSecret(token)
		}
	}
	return people
}

func (c *Config) checkSlack(k *checker) {
	s := c.Slack
	k.oneOf("slack.mode", s.Mode, "socket", "http")
	if s.Earlier < 0 {
		k.fault("slack.earlier", "must be at least 0, not %d; 0 reads none", s.Earlier)
	}
	k.ids("slack.channels", slackChannel, "a channel's ID, such as C012ABCDEF; it stands at the end of the channel's details", s.Channels)
	k.httpURL("slack.api_url", s.APIURL)
	if !strings.HasSuffix(s.APIURL, "/api/") {
		k.fault("slack.api_url", "%q does not end in /api/", s.APIURL)
	}
	if s.Listen != "" {
		k.reached("slack.listen", s.Listen)
	}
	if !s.BotToken.IsSet() {
		return
	}
	if !strings.HasPrefix(s.BotToken.Reveal(), "xoxb-") {
		k.warn("slack.bot_token does not begin with xoxb-, as bot tokens do")
	}
	switch s.Mode {
	case "socket":
		if !s.AppToken.IsSet() {
			k.fault("slack.app_token", "socket mode needs one")
		} else if !strings.HasPrefix(s.AppToken.Reveal(), "xapp-") {
			k.warn("slack.app_token does not begin with xapp-, as app-level tokens do")
		}
	case "http":
		if !s.SigningSecret.IsSet() {
			k.fault("slack.signing_secret", "http mode needs one")
		}
		if s.Listen == "" {
			k.fault("slack.listen", "http mode needs one")
		}
	}
}

func (c *Config) checkDiscord(k *checker) {
	d := c.Discord
	if d.ApplicationID != "" && !snowflake.MatchString(d.ApplicationID) {
		k.fault("discord.application_id", "%q is no ID: those are digits; copy it from the application's page “General Information”", d.ApplicationID)
	}
	k.ids("discord.guilds", snowflake, "a server's ID, digits; copy it from the server's menu in developer mode", d.Guilds)
	k.ids("discord.channels", snowflake, "a channel's ID, digits; copy it from the channel's menu in developer mode", d.Channels)
	k.httpURL("discord.api_url", d.APIURL)
	if g := d.GatewayURL; g != "" {
		if u, err := url.Parse(g); err != nil || (u.Scheme != "ws" && u.Scheme != "wss") || u.Host == "" {
			k.fault("discord.gateway_url", "%q is not a ws or wss URL", g)
		}
	}
	if key, err := hex.DecodeString(d.PublicKey); err != nil || (d.PublicKey != "" && len(key) != ed25519.PublicKeySize) {
		k.fault("discord.public_key", "%q is not a key of %d bytes in hexadecimal", d.PublicKey, ed25519.PublicKeySize)
	}
	if d.Listen == "" {
		return
	}
	k.reached("discord.listen", d.Listen)
	if d.PublicKey == "" {
		k.fault("discord.public_key", "interactions over HTTP need one")
	}
}

// slackChannel and snowflake are the forms of Slack's and Discord's IDs.
var (
	slackChannel = regexp.MustCompile(`^[CDG][A-Z0-9]{2,}$`)
	snowflake    = regexp.MustCompile(`^[0-9]+$`)
)

// ids refuses names where there must be IDs: one that is no ID would match nothing.
func (k *checker) ids(key string, form *regexp.Regexp, want string, list []string) {
	for _, id := range list {
		if !form.MatchString(id) {
			k.fault(key, "%q is not %s", id, want)
		}
	}
}

// buildID is what a worker's version may be called.
var buildID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)
