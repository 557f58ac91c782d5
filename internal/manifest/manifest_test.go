package manifest_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/manifest"
)

const whole = `
api:
  backend: docker
  image: golang:1.26
  repositories:
    - {url: "https://git.example.com/team/api.git", ref: main, depth: 1, credentials: {env: GIT_TOKEN, user: bot}}
    - {path: vendor/lib, url: "git@git.example.com:team/lib.git", credentials: {file: /run/keys/lib}}
  directories: [{path: fixtures, from: /srv/fixtures}, {path: out}]
  files:
    - {path: notes.md, text: "# Notes\n"}
    - {path: bin/tool, from: /srv/tool, executable: true}
  environment: {GOFLAGS: -mod=mod}
  secrets: {API_TOKEN: {env: API_TOKEN}, OTHER: {file: /run/secrets/other}}
  setup: [go mod download]
  network: [proxy.golang.org, "*.example.com:8443"]
`

func TestParse(t *testing.T) {
	t.Parallel()
	w, err := manifest.Parse(whole)
	require.NoError(t, err)
	require.Empty(t, w.Check([]string{"local", "docker"}))
	api := w["api"]
	require.Equal(t, "bot", api.Repositories[0].Credentials.User)
	require.Equal(t, "GIT_TOKEN", api.Repositories[0].Credentials.Env)
	require.Len(t, api.References(), 4)
	require.NotEmpty(t, api.Fingerprint())
	again, err := manifest.Parse(w.String())
	require.NoError(t, err)
	require.Equal(t, w, again)
	empty, err := manifest.Parse("")
	require.NoError(t, err)
	require.Empty(t, empty.String())
	for text, want := range map[string]string{
		"api:\n  imagee: x\n":              "line 2: unknown field",
		"api:\n  setup: {a: b}\n":          "line 2: ",
		"api: [\n":                         "line ",
		"api:\n  secrets: {T: {evn: X}}\n": "unknown field",
		"a: {}\n---\nb: {}\n":              "more than one document",
	} {
		_, err := manifest.Parse(text)
		require.ErrorContains(t, err, want, text)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Api: {}":                                                           "Api: a workspace's name",
		"a: {backend: modal}":                                               `a.backend: "modal" is not a backend`,
		"a: {files: [{path: ../x}]}":                                        `a.files[0].path: "../x" leaves the workspace`,
		"a: {files: [{path: /x}]}":                                          "leaves the workspace",
		"a: {files: [{path: .}]}":                                           "is the workspace itself",
		"a: {files: [{text: x}]}":                                           "a.files[0].path: is missing",
		"a: {files: [{path: x, text: y, from: /z}]}":                        "has both text and from",
		"a: {files: [{path: x}, {path: ./x}]}":                              "is the path of files[0] too",
		"a: {directories: [{path: x, from: y}]}":                            `"y" is not an absolute path`,
		"a: {repositories: [{path: x}]}":                                    "a.repositories[0].url: is missing",
		"a: {repositories: [{url: 'https://u:p@h/x'}]}":                     "holds a password",
		"a: {repositories: [{url: 'https://token@h/x'}]}":                   "holds a user or token",
		"a: {repositories: [{url: 'ext::sh -c x'}]}":                        "is neither a URL nor",
		"a: {repositories: [{url: 'ftp://h/x'}]}":                           `"ftp" is not https`,
		"a: {repositories: [{url: 'ssh://-oProxyCommand=x/y'}]}":            "has no host",
		"a: {repositories: [{url: 'https://h/x', ref: '--upload-pack=x'}]}": "is no branch, tag or commit",
		"a: {repositories: [{url: 'http://h/x', credentials: {env: T}}]}":   "are sent over https and ssh only",
		"a: {repositories: [{url: 'git@h:x', credentials: {env: T}}]}":      "takes the file of a private key",
		"a: {repositories: [{url: 'https://h/x', credentials: {}}]}":        "takes one of env",
		"a: {repositories: [{url: 'https://h/x'}, {url: 'https://h/y'}]}":   "is the path of repositories[0] too",
		"a: {secrets: {T: {env: 'hunter2-is-no-name'}}}":                    "a.secrets.T.env: is no name of an environment variable",
		"a: {secrets: {HOME: {env: T}}}":                                    "is the sandbox's own variable",
		"a: {secrets: {T: {env: T}}, environment: {T: x}}":                  "stands in environment too",
		"a: {environment: {'A B': x}}":                                      "is no name of an environment variable",
		"a: {setup: ['']}":                                                  "a.setup[0]: is no command",
		"a: {network: ['http://x']}":                                        "a.network[0]: ",
		"a: {network: ['169.254.169.254']}":                                 "may not be reached",
		"a: {network: ['[::ffff:169.254.169.254]:80']}":                     "may not be reached",
		"a: {network: ['*.com']}":                                           "is not HOST",
		"a: {network: ['2852039166']}":                                      "is not HOST",
		"a: {network: ['0x7f.1']}":                                          "is not HOST",
		"a: {network: ['x:0']}":                                             "is not HOST",
	} {
		w, err := manifest.Parse(text)
		require.NoError(t, err, text)
		faults := w.Check([]string{"local"})
		require.NotEmpty(t, faults, text)
		require.Contains(t, faults[0].Key+": "+faults[0].Problem, want, text)
		require.NotContains(t, faults[0].Problem, "hunter2")
	}
}

func TestHosts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		entry, name string
		port        int
		want        bool
	}{
		{"Example.com.", "example.com", 443, true}, {"example.com", "example.com", 80, true}, {"example.com", "example.com", 8080, false},
		{"example.com", "a.example.com", 443, false}, {"example.com:8080", "example.com", 8080, true}, {"example.com:8080", "example.com", 443, false},
		{"*.example.com", "a.b.example.com", 443, true}, {"*.example.com", "example.com", 443, false}, {"*.example.com", "evilexample.com", 443, false},
		{"127.0.0.1:99", "127.0.0.1", 99, true}, {"[::1]:99", "::1", 99, true}, {"10.0.0.1", "10.0.0.2", 80, false},
	} {
		h, err := manifest.ParseHost(c.entry)
		require.NoError(t, err, c.entry)
		require.Equal(t, c.want, h.Allows(c.name, c.port), "%v", c)
	}
	require.True(t, manifest.Metadata(netip.MustParseAddr("::ffff:169.254.169.254")))
	require.False(t, manifest.Metadata(netip.MustParseAddr("10.0.0.1")))
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte("from-a-file\n"), 0o600))
	getenv := func(name string) string { return map[string]string{"HAVE": "from-env"}[name] }
	w := manifest.Workspace{
		Environment: map[string]string{"A": "b"},
		Secrets:     map[string]manifest.Reference{"X": {Env: "HAVE"}, "Y": {File: file}},
	}
	env, err := w.Environ(getenv)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"A": "b", "X": "from-env", "Y": "from-a-file"}, env)
	require.Len(t, w.Environment, 1, "the manifest itself holds no secret")
	w.Secrets["Z"] = manifest.Reference{Env: "LACKS"}
	_, err = w.Environ(getenv)
	require.EqualError(t, err, "the secret Z is missing: the worker's environment variable LACKS is not set")
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("x", 70<<10)), 0o600))
	_, err = manifest.Reference{File: file}.Value(getenv)
	require.ErrorContains(t, err, "is no file of at most")
}

func TestAbsolute(t *testing.T) {
	t.Parallel()
	w, err := manifest.Parse("a: {files: [{path: x, from: f}], secrets: {T: {file: s}}}")
	require.NoError(t, err)
	require.NoError(t, w.Absolute(func(p string) (string, error) { return filepath.Join("/at", p), nil }))
	require.Equal(t, "/at/f", w["a"].Files[0].From)
	require.Equal(t, "/at/s", w["a"].Secrets["T"].File)
}
