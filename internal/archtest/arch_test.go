package archtest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/countersign/countersign"

// layers are the rooms, from those that everybody may import upwards. A package
// imports packages of lower layers and of its own room, nothing else of ours.
var layers = [][]string{
	{"internal/mask", "internal/picture", "internal/ports"},
	{"internal/telemetry", "internal/manifest"},
	{"internal/blob", "internal/audit", "internal/config"},
	{"internal/policy"},
	{"internal/workflows"},
	{"internal/chat", "internal/sandbox", "internal/agent", "internal/control"},
	{"internal/devserver"},
	{"cmd"},
}

// adapters are rooms inside a room: the platforms and the backends. They may
// import their room, and never each other.
var adapters = []string{
	"internal/chat/slack", "internal/chat/discord", "internal/chat/web",
	"internal/sandbox/local", "internal/sandbox/docker", "internal/sandbox/e2b", "internal/sandbox/daytona", "internal/sandbox/modal",
}

// onlyInTests are for tests, and must not reach an executable.
var onlyInTests = []string{
	"internal/agent/agenttest", "internal/chat/chattest", "internal/chat/web/pagetest", "internal/sandbox/sandboxtest", "internal/sandbox/docker/dockertest", "internal/devserver/devservertest", "internal/archtest", "internal/e2e",
}

// noRoom are packages outside the layers, which import nothing of ours.
var noRoom = []string{"internal/archtest", "internal/ci", "internal/e2e", "deploy"}

// banned are packages that a room must not reach, not even through others.
var banned = []struct{ from, to, reason string }{
	{"internal/workflows", "go.temporal.io/sdk/client", "workflow code is deterministic and calls no server"},
	{"internal/workflows", "github.com/openai/openai-go", "workflow code is deterministic and calls no model"},
	{"internal/workflows", "gocloud.dev", "workflow code is deterministic and opens no blob"},
	{"internal/workflows", "github.com/docker", "workflow code is deterministic and runs no sandbox"},
	{"internal/workflows", "github.com/slack-go", "workflow code is deterministic and calls no chat service"},
	{"internal/workflows", "github.com/bwmarrin/discordgo", "workflow code is deterministic and calls no chat service"},
	{"internal/workflows", "mvdan.cc/sh", "the verdict comes from an activity and is recorded"},
	{"internal/workflows", module + "/internal/config", "workflows get their settings as recorded input"},
	{"internal/workflows", "github.com/modelcontextprotocol", "workflow code is deterministic and calls no server"},
	{"internal/policy", "net", "policy is pure functions over facts passed in"},
	{"internal/policy", "go.temporal.io", "policy is pure functions over facts passed in"},
	{"internal/chat", "github.com/openai/openai-go", "the chat side never calls the model"},
	{"internal/agent", "github.com/slack-go", "the model side knows no chat service"},
	{"cmd/bot", "go.temporal.io/server", "only cmd/dev and tests link the server"},
	{"cmd/worker", "go.temporal.io/server", "only cmd/dev and tests link the server"},
	{"cmd/bot", "github.com/temporalio/ui-server", "only cmd/dev serves the Web UI"},
	{"cmd/worker", "github.com/temporalio/ui-server", "only cmd/dev serves the Web UI"},
	{"cmd/bot", module + "/internal/devserver", "only cmd/dev and tests link the server"},
	{"cmd/worker", module + "/internal/devserver", "only cmd/dev and tests link the server"},
}

// notDirectly are packages that a room's own files must not import, though what
// it builds on may.
var notDirectly = []struct{ from, to, reason string }{
	{"internal/policy", "os", "policy is pure functions over facts passed in"},
	{"internal/workflows", "net", "workflow code does no I/O"},
	{"internal/workflows", "os", "workflow code does no I/O"},
	{"internal/workflows", "log/slog", "workflow code logs by workflow.GetLogger, which replay silences"},
	{"internal/workflows", "math/rand", "workflow code must replay"},
	{"internal/workflows", "crypto/rand", "workflow code must replay"},
}

// commands are packages that hold a program's command and stand beside what it
// is about; the rules for their room do not hold for them.
var commands = []string{"internal/policy/policycmd"}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir                 string
	GoFiles, Imports                []string
	Deps, TestImports, XTestImports []string
}

func (p listed) name() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

func list(t *testing.T) []listed {
	t.Helper()
	all, err := listOnce()
	require.NoError(t, err)
	return all
}

// listOnce asks once for all tests: go list reads the whole module.
var listOnce = sync.OnceValues(func() ([]listed, error) {
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,GoFiles,Imports,Deps,TestImports,XTestImports", "./...")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("go list: %s", exit.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading go list's output: %w", err)
		}
		all = append(all, p)
	}
})

// within says whether name is dir or below it.
func within(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// room returns the layer and the room of one of our packages; -1 where it has
// none.
func room(name string) (int, string) {
	for i, rooms := range layers {
		for _, r := range rooms {
			if within(name, r) {
				return i, r
			}
		}
	}
	return -1, ""
}

func adapter(name string) string {
	for _, a := range adapters {
		if within(name, a) {
			return a
		}
	}
	return ""
}

func ours(imports []string) []string {
	var out []string
	for _, i := range imports {
		if strings.HasPrefix(i, module+"/") {
			out = append(out, strings.TrimPrefix(i, module+"/"))
		}
	}
	return out
}

func TestImportsPointOneWay(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		layer, from := room(p.name())
		outside := slices.ContainsFunc(noRoom, func(r string) bool { return within(p.name(), r) })
		if layer < 0 && !outside {
			t.Errorf("%s is in no room; add it to the layers of this test and to docs/architecture.md", p.name())
			continue
		}
		for _, to := range ours(p.Imports) {
			if why := forbidden(p.name(), layer, from, to); why != "" {
				t.Errorf("%s imports %s: %s", p.name(), to, why)
			}
		}
	}
}

// forbidden says why a package of room from in layer must not import to.
func forbidden(name string, layer int, from, to string) string {
	toLayer, toRoom := room(to)
	a, b := adapter(name), adapter(to)
	switch {
	case slices.ContainsFunc(onlyInTests, func(r string) bool { return within(to, r) && !within(name, r) }) && !isTestHelper(name):
		return "that is for tests"
	case layer < 0:
		return "it is outside the rooms and imports none of them"
	case b != "" && a != b && layer != len(layers)-1:
		return "only cmd and tests know adapters"
	case toRoom == from:
		return ""
	case within(to, "internal/devserver") && !within(name, "cmd/dev"):
		return "only cmd/dev and tests link the embedded server"
	case toLayer >= layer:
		return "imports point down the layers, and a room does not import its neighbour"
	}
	return ""
}

func isTestHelper(name string) bool {
	return slices.ContainsFunc(onlyInTests, func(r string) bool { return within(name, r) })
}

func TestBannedDependencies(t *testing.T) {
	t.Parallel()
	packages := list(t)
	for _, rule := range banned {
		found := false
		for _, p := range packages {
			if !within(p.name(), rule.from) || isTestHelper(p.name()) || slices.Contains(commands, p.name()) {
				continue
			}
			found = true
			for _, dep := range p.Deps {
				if within(dep, rule.to) {
					t.Errorf("%s reaches %s: %s", p.name(), dep, rule.reason)
				}
			}
		}
		if !found {
			t.Errorf("the rule about %s covers no package any more: remove it or correct its name", rule.from)
		}
	}
}

func TestBannedImports(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		if slices.Contains(commands, p.name()) {
			continue
		}
		for _, rule := range notDirectly {
			for _, imported := range p.Imports {
				if within(p.name(), rule.from) && within(imported, rule.to) {
					t.Errorf("%s imports %s: %s", p.name(), imported, rule.reason)
				}
			}
		}
	}
}

func TestRoomsExist(t *testing.T) {
	t.Parallel()
	packages := list(t)
	for _, rooms := range layers {
		for _, r := range rooms {
			if !slices.ContainsFunc(packages, func(p listed) bool { return within(p.name(), r) && len(p.GoFiles) > 0 }) {
				t.Errorf("room %s is empty", r)
			}
		}
	}
}

// Every package says once what it is.
func TestEveryPackageHasOneDoc(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		var documented []string
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.PackageClauseOnly|parser.ParseComments)
			require.NoError(t, err)
			if f.Doc == nil {
				continue
			}
			documented = append(documented, name)
			want := "Package " + f.Name.Name + " "
			if f.Name.Name == "main" {
				want = "Command " + path.Base(p.ImportPath) + " "
			}
			if !strings.HasPrefix(f.Doc.Text(), want) {
				t.Errorf("the package comment in %s/%s does not begin with %q", p.name(), name, want)
			}
		}
		if len(p.GoFiles) > 0 && len(documented) != 1 {
			t.Errorf("%s has %d package comments (%s); it must have one", p.name(), len(documented), strings.Join(documented, ", "))
		}
	}
}

// No test but those that are meant to may link the server: each costs a binary
// some nine seconds of linking and 200 MB.
func TestFewTestsLinkTheServer(t *testing.T) {
	t.Parallel()
	allowed := []string{"internal/devserver", "cmd", "internal/workflows", "internal/control"}
	for _, p := range list(t) {
		for _, imported := range ours(append(p.TestImports, p.XTestImports...)) {
			if within(imported, "internal/devserver") && !slices.ContainsFunc(allowed, func(a string) bool { return within(p.name(), a) }) {
				t.Errorf("tests of %s import %s; move them to a package that links the server already", p.name(), imported)
			}
		}
	}
}
