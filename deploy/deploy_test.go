package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/config"
)

// compose is what the tests look at of compose.yaml.
type compose struct {
	Services map[string]struct {
		Image string `yaml:"image"`
		Build struct {
			Context    string `yaml:"context"`
			Dockerfile string `yaml:"dockerfile"`
		} `yaml:"build"`
		Environment map[string]string `yaml:"environment"`
		Volumes     []string          `yaml:"volumes"`
		Ports       []string          `yaml:"ports"`
		CapDrop     []string          `yaml:"cap_drop"`
		ReadOnly    bool              `yaml:"read_only"`
		SecurityOpt []string          `yaml:"security_opt"`
		DependsOn   map[string]any    `yaml:"depends_on"`
	} `yaml:"services"`
	Volumes map[string]any `yaml:"volumes"`
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(data)
}

func load(t *testing.T) compose {
	t.Helper()
	var c compose
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "compose.yaml")), &c))
	return c
}

// pinned is an image with at least a major and a minor version in its tag.
var pinned = regexp.MustCompile(`^[a-z0-9./-]+:v?\d+\.\d+[\w.-]*$`)

func TestComposeServices(t *testing.T) {
	t.Parallel()
	c := load(t)
	for _, name := range []string{"postgresql", "temporal", "temporal-schema", "temporal-namespace", "temporal-ui", "bot", "worker"} {
		require.Contains(t, c.Services, name)
	}
	for name, s := range c.Services {
		if s.Image != "" {
			require.Regexp(t, pinned, s.Image, name)
		}
		for _, port := range s.Ports {
			require.True(t, strings.HasPrefix(port, "127.0.0.1:"), "%s publishes %s beyond this machine", name, port)
		}
		for dependency := range s.DependsOn {
			require.Contains(t, c.Services, dependency, "%s waits for it", name)
		}
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			if strings.HasPrefix(source, ".") {
				require.DirExists(t, source, "%s mounts it", name)
				continue
			}
			require.Contains(t, c.Volumes, source, "%s mounts it", name)
		}
	}
	for _, name := range []string{"bot", "worker"} {
		s := c.Services[name]
		require.FileExists(t, filepath.Join(s.Build.Context, s.Build.Dockerfile))
		require.Equal(t, []string{"ALL"}, s.CapDrop, name)
		require.True(t, s.ReadOnly, name)
	}
}

// The local backend refuses to start where bubblewrap can make no namespaces, which
// is so under Docker's default profiles. Of the programs the worker alone needs them.
func TestComposeLetsTheWorkerIsolate(t *testing.T) {
	t.Parallel()
	c := load(t)
	require.ElementsMatch(t, []string{"seccomp=unconfined", "apparmor=unconfined", "systempaths=unconfined"}, c.Services["worker"].SecurityOpt)
	require.Contains(t, read(t, "worker.Dockerfile"), "bubblewrap")
	for name, s := range c.Services {
		require.True(t, name == "worker" || len(s.SecurityOpt) == 0, name)
	}
}

// What Compose sets must be settings that the programs know, and load.
func TestComposeSettingsLoad(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, f := range config.Fields() {
		known[f.Env] = true
	}
	example := read(t, "example.env")
	variable := regexp.MustCompile(`\$\{(\w+):[-?]([^}]*)\}`)
	c := load(t)
	for name, s := range c.Services {
		env := []string{"TEMPORAL_CONFIG_FILE=" + filepath.Join(t.TempDir(), "none.toml")}
		for key, value := range s.Environment {
			for _, m := range variable.FindAllStringSubmatch(value, -1) {
				require.Regexp(t, `(?m)^`+m[1]+`=`, example, "%s of %s is not in example.env", m[1], name)
			}
			require.True(t, !strings.HasPrefix(key, config.EnvPrefix) || known[key], "%s sets %s, which is no setting", name, key)
			env = append(env, key+"="+variable.ReplaceAllString(value, ""))
		}
		if name != "bot" && name != "worker" {
			continue
		}
		cfg, err := config.Load(config.Sources{Environ: env})
		require.NoError(t, err, name)
		require.Equal(t, "temporal:7233", cfg.Temporal.Address)
		require.Equal(t, "countersign", cfg.Temporal.Namespace)
	}
	require.Contains(t, read(t, "temporal/namespace.sh"), "--namespace countersign ")
}

func TestDockerfiles(t *testing.T) {
	t.Parallel()
	goMod := read(t, "../go.mod")
	version := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(goMod)[1]
	for _, name := range []string{"bot", "worker"} {
		text := read(t, name+".Dockerfile")
		require.Contains(t, text, "FROM golang:"+version+"-", "the toolchain must be go.mod's")
		require.Contains(t, text, "./cmd/"+name)
		require.Regexp(t, `(?m)^USER 10001:10001$`, text)
		lines := strings.Split(text, "\n")
		require.Less(t, slices.Index(lines, "USER 10001:10001"), slices.Index(lines, `ENTRYPOINT ["/usr/local/bin/`+name+`"]`))
		for _, m := range regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(text, -1) {
			if m[1] != "scratch" {
				require.Regexp(t, pinned, m[1])
			}
		}
	}
}

// Where Compose is installed it must accept the file; .ci/run installs it.
func TestComposeAcceptsTheFile(t *testing.T) {
	t.Parallel()
	for _, command := range [][]string{{"docker", "compose"}, {"docker-compose"}} {
		if exec.CommandContext(t.Context(), command[0], append(command[1:], "version")...).Run() != nil {
			continue
		}
		env := filepath.Join(t.TempDir(), "env")
		require.NoError(t, os.WriteFile(env, []byte("POSTGRES_PASSWORD=x\n"), 0o600))
		args := append(command[1:], "-f", "compose.yaml", "--env-file", env, "config")
		cmd := exec.CommandContext(t.Context(), command[0], args...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "temporalio/server")
		require.NoError(t, os.WriteFile(env, nil, 0o600))
		out, err = exec.CommandContext(t.Context(), command[0], args...).CombinedOutput()
		require.Error(t, err, "without a password it must not start")
		require.Contains(t, string(out), "deploy/.env")
		return
	}
	t.Skip("neither docker compose nor docker-compose is installed")
}

func TestScriptsParse(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("temporal/*.sh")
	require.NoError(t, err)
	require.NotEmpty(t, scripts)
	for _, s := range scripts {
		out, err := exec.CommandContext(t.Context(), "sh", "-n", s).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}
