package config

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"

	"github.com/countersign/countersign/internal/telemetry"
)

// Where and in what namespace Temporal is looked for when nothing says else:
// the defaults of the SDK, the address as a number so that it is loopback for
// certain.
const (
	DefaultTemporalAddress   = "127.0.0.1:7233"
	DefaultTemporalNamespace = "default"
)

// TemporalOptions returns the options to dial the Temporal server with. It
// fails when a certificate or key file cannot be read. The caller sets logger,
// identity and interceptors.
func (c *Config) TemporalOptions() (client.Options, error) {
	if c.profile == nil {
		return client.Options{}, errors.New("temporal settings were not read: this process embeds its server")
	}
	opts, err := c.profile.ToClientOptions(envconfig.ToClientOptionsRequest{})
	if err != nil {
		return client.Options{}, fmt.Errorf("temporal settings: %w", err)
	}
	opts.HostPort = c.Temporal.Address
	opts.Namespace = c.Temporal.Namespace
	if onThisMachine(opts.HostPort) {
		opts.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	}
	return opts, nil
}

// onThisMachine tells addresses on which compressing requests costs processor time
// and saves nothing.
func onThisMachine(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// temporal resolves temporal.*, weakest first: the profile of the Temporal
// CLI's own file, ours, TEMPORAL_ variables, COUNTERSIGN_TEMPORAL_ variables,
// flags. layers are in that order too (defaults, file, environment, …).
func (l *loader) temporal(c *Config, layers []layer, environ []string) {
	env := environment(environ)
	profile, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{
		DisableEnv: true, EnvLookup: env,
	})
	if err != nil {
		l.fault("", "temporal", "%v", err)
		return
	}
	for i, from := range layers[1:] {
		if v := from["temporal.tls.enabled"]; len(v.items) == 1 && v.items[0] != "" {
			if _, err := strconv.ParseBool(v.items[0]); err != nil {
				l.fault(v.source, "temporal.tls.enabled", "%q is neither true nor false", v.items[0])
			}
		}
		overlay(&profile, from)
		if i == 0 {
			if err := profile.ApplyEnvVars(env); err != nil {
				l.fault("", "temporal", "%v", err)
			}
		}
	}
	first := func(key, last string) string {
		if v := strings.Join(layers[0]["temporal."+key].items, ","); v != "" {
			return v
		}
		return last
	}
	if profile.Address == "" {
		profile.Address = first("address", DefaultTemporalAddress)
	}
	if profile.Namespace == "" {
		profile.Namespace = first("namespace", DefaultTemporalNamespace)
	}
	if problem := targetProblem(profile.Address); problem != "" {
		l.fault("", "temporal.address", "%s", problem)
	}
	c.profile = &profile
	c.Temporal.Address = profile.Address
	c.Temporal.Namespace = profile.Namespace
	c.Temporal.APIKey = telemetry.NewSecret(profile.APIKey)
	c.Temporal.TLS = shownTLS(profile)
}

// target is an address with a resolver of gRPC's own: dns:///host:port, unix:/path.
var target = regexp.MustCompile(`^(unix|unix-abstract|vsock):|^[a-z][a-z0-9+.-]*:///`)

// targetProblem says what is wrong with a server's address; empty where nothing is.
// Without a port gRPC would take 443, and look for the server there for ever.
func targetProblem(address string) string {
	if target.MatchString(address) {
		return ""
	}
	_, port, err := net.SplitHostPort(address)
	if n, perr := strconv.Atoi(port); err != nil || perr != nil || n < 1 || n > 65535 || strings.Contains(address, "/") {
		return fmt.Sprintf("%q is not host:port, such as %s", address, DefaultTemporalAddress)
	}
	return ""
}

// overlay sets in p what from has of temporal.*. Values that do not parse were
// reported when the fields were set.
func overlay(p *envconfig.ClientConfigProfile, from layer) {
	text := func(key string) (string, bool) {
		v, ok := from["temporal."+key]
		return strings.Join(v.items, ","), ok && !v.list
	}
	set := func(key string, to *string) {
		if s, ok := text(key); ok {
			*to = s
		}
	}
	set("address", &p.Address)
	set("namespace", &p.Namespace)
	set("api_key", &p.APIKey)
	t := envconfig.ClientConfigTLS{}
	if p.TLS != nil {
		t = *p.TLS
	}
	before := t
	set("tls.server_name", &t.ServerName)
	set("tls.server_ca_cert_path", &t.ServerCACertPath)
	set("tls.client_cert_path", &t.ClientCertPath)
	set("tls.client_key_path", &t.ClientKeyPath)
	if s, ok := text("tls.disable_host_verification"); ok {
		t.DisableHostVerification, _ = strconv.ParseBool(s)
	}
	changed := tlsDiffers(before, t)
	if s, ok := text("tls.enabled"); ok && s != "" {
		on, err := strconv.ParseBool(s)
		t.Disabled, changed = err == nil && !on, true
	}
	if changed {
		p.TLS = &t
	}
}

func tlsDiffers(a, b envconfig.ClientConfigTLS) bool {
	return a.ServerName != b.ServerName || a.ServerCACertPath != b.ServerCACertPath ||
		a.ClientCertPath != b.ClientCertPath || a.ClientKeyPath != b.ClientKeyPath ||
		a.DisableHostVerification != b.DisableHostVerification
}

func shownTLS(p envconfig.ClientConfigProfile) TemporalTLS {
	on := p.APIKey != "" || p.TLS != nil
	if p.TLS == nil {
		return TemporalTLS{Enabled: strconv.FormatBool(on)}
	}
	return TemporalTLS{
		Enabled:                 strconv.FormatBool(!p.TLS.Disabled),
		ServerName:              p.TLS.ServerName,
		ServerCACertPath:        p.TLS.ServerCACertPath,
		ClientCertPath:          p.TLS.ClientCertPath,
		ClientKeyPath:           p.TLS.ClientKeyPath,
		DisableHostVerification: p.TLS.DisableHostVerification,
	}
}

// environment is os.Environ's form as envconfig wants to look it up. Empty
// variables count as not set, as everywhere here.
type environment []string

func (e environment) Environ() []string { return e }

func (e environment) LookupEnv(name string) (string, bool) {
	for _, entry := range e {
		if n, v, _ := strings.Cut(entry, "="); n == name && v != "" {
			return v, true
		}
	}
	return "", false
}
