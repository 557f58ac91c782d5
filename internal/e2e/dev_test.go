package e2e_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/ports"
)

// published is dev.json.
type published struct {
	PID             int    `json:"pid"`
	WebURL          string `json:"web_url"`
	Token           string `json:"token"`
	TemporalAddress string `json:"temporal_address"`
	Namespace       string `json:"namespace"`
	UIURL           string `json:"ui_url"`
}

// dev is a data directory with its cmd/dev, and perhaps a worker and a bot of
// their own. It may be killed and started again.
type dev struct {
	*process
	published
	home      string // working directory of the processes
	dir       string // data directory
	workspace string // what sessions get a copy of
	listen    string // web.listen
	env       []string
	args      []string
}

// newDev makes directories for a cmd/dev with the given flags.
func newDev(t testing.TB, args ...string) *dev {
	t.Helper()
	home := t.TempDir()
	d := &dev{home: home, dir: filepath.Join(home, "data"), workspace: filepath.Join(home, "project"), listen: "127.0.0.1:0", args: args}
	require.NoError(t, os.MkdirAll(filepath.Join(d.workspace, "build"), 0o755))
	for name, content := range map[string]string{"README.md": "A project.\n", "build/out": "made\n", "s.sh": "echo one > ran\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(d.workspace, name), []byte(content), 0o644))
	}
	return d
}

// startDev makes a cmd/dev and waits for it.
func startDev(t testing.TB, args ...string) *dev {
	t.Helper()
	d := newDev(t, args...)
	d.up(t)
	return d
}

// up starts cmd/dev and waits until it says that all is up.
func (d *dev) up(t testing.TB) {
	t.Helper()
	args := append([]string{"--data-dir", d.dir, "--workspace", d.workspace, "--web-listen", d.listen}, d.args...)
	d.process = start(t, "dev", d.home, d.env, args...)
	d.published = await(t, within, "cmd/dev is up", func() (published, bool) {
		require.True(t, d.process.running(), "cmd/dev ended:\n%s", d.process.printed())
		p, ok := readPublished(d.dir)
		return p, ok && p.PID == d.process.cmd.Process.Pid
	})
}

func readPublished(dir string) (published, bool) {
	var p published
	data, err := os.ReadFile(filepath.Join(dir, "dev.json"))
	return p, err == nil && json.Unmarshal(data, &p) == nil
}

// worker starts a cmd/worker of its own on the data directory.
func (d *dev) worker(t testing.TB, args ...string) *process {
	t.Helper()
	return start(t, "worker", d.home, d.env, append([]string{"--data-dir", d.dir}, args...)...)
}

// bot starts a cmd/bot of its own on the data directory and waits until the web
// chat answers.
func (d *dev) bot(t testing.TB) *process {
	t.Helper()
	p := start(t, "bot", d.home, d.env, "--data-dir", d.dir)
	ada := d.as("ada")
	await(t, within, "the bot answers", func() (int, bool) {
		require.True(t, p.running(), "cmd/bot ended:\n%s", p.printed())
		status, _, err := ada.request(http.MethodGet, "/meta", nil)
		return status, err == nil && status == http.StatusOK
	})
	return p
}

// as returns a client that speaks for a person.
func (d *dev) as(name string) *client { return &client{dev: d, name: name} }

// shared is one cmd/dev for all tests that kill nothing; a worker's secret is in
// its environment.
var shared struct {
	once sync.Once
	t    *standIn
	dev  *dev
}

// secretVariable is in the environment of the shared cmd/dev.
const secretVariable = "SECRET_X=1"

// sharedDev returns the cmd/dev that the tests share.
func sharedDev(t testing.TB) *dev {
	t.Helper()
	shared.once.Do(func() {
		home, err := os.MkdirTemp("", "countersign-e2e-shared-")
		require.NoError(t, err)
		shared.t = &standIn{TB: t, home: home}
		d := newDev(shared.t)
		d.env = []string{secretVariable}
		d.up(shared.t)
		shared.dev = d
	})
	require.NotNil(t, shared.dev, "the shared cmd/dev did not start")
	require.True(t, shared.dev.running(), "the shared cmd/dev has ended:\n%s", tail(shared.dev.printed(), 4000))
	return shared.dev
}

// stopShared ends the shared cmd/dev when all tests have ended.
func stopShared() {
	if shared.t == nil {
		return
	}
	for _, f := range shared.t.undo {
		f()
	}
	_ = os.RemoveAll(shared.t.home)
}

// standIn is the test that starts what outlives it.
type standIn struct {
	testing.TB
	home string
	undo []func()
}

func (s *standIn) Cleanup(f func())    { s.undo = append(s.undo, f) }
func (s *standIn) TempDir() string     { return s.home }
func (s *standIn) Failed() bool        { return false }
func (s *standIn) Logf(string, ...any) {}

// inProject reads a file of the directory that sessions got a copy of.
func (d *dev) inProject(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(d.workspace, name))
	require.NoError(t, err)
	return string(data)
}

func lines(s string) []string { return strings.Split(strings.TrimRight(s, "\n"), "\n") }

// freePort is one that stays free when a process of the test's has died.
func freePort(t testing.TB) string {
	t.Helper()
	port, err := ports.Free()
	require.NoError(t, err)
	return strconv.Itoa(port)
}
