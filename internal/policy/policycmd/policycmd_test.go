package policycmd_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/policy/policycmd"
)

func run(t *testing.T, stdin string, args ...string) (out, errs string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code = policycmd.Main(args, policycmd.Streams{In: strings.NewReader(stdin), Out: &o, Err: &e})
	return o.String(), e.String(), code
}

func TestOneLineOutForEachLineIn(t *testing.T) {
	t.Parallel()
	out, errs, code := run(t, "ls\n\nls␊rm -rf src\nif then\nrm -rf /", "check", "--stdin", "--json")
	require.Zero(t, code, errs)
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	require.Len(t, lines, 5)
	type result struct {
		Command string
		Tier    string
		Reasons []string
	}
	var got []result
	for _, l := range lines {
		var r result
		dec := json.NewDecoder(strings.NewReader(l))
		dec.DisallowUnknownFields()
		require.NoError(t, dec.Decode(&r), l)
		require.NotNil(t, r.Reasons)
		got = append(got, r)
	}
	require.Equal(t, result{"ls", "safe", []string{"segment 1: `ls` only reads"}}, got[0])
	require.Equal(t, result{"", "safe", []string{}}, got[1])
	require.Equal(t, "ls␊rm -rf src", got[2].Command)
	require.Equal(t, "risky", got[2].Tier)
	require.Contains(t, got[2].Reasons, "segment 2: `rm -rf` deletes `src` in the workspace")
	require.Equal(t, "risky", got[3].Tier)
	require.Equal(t, "forbidden", got[4].Tier)
}

func TestTextOutput(t *testing.T) {
	t.Parallel()
	out, _, code := run(t, "", "check", "rm", "-rf", "build")
	require.Zero(t, code)
	require.Equal(t, "risky\tsegment 1: `rm -rf` deletes `build` in the workspace\n", out)
	out, _, code = run(t, "", "check", "--", "ls", "-la")
	require.Zero(t, code)
	require.Equal(t, "safe\tsegment 1: `ls` only reads\n", out)
	out, _, _ = run(t, "a\nb\n", "check", "--stdin")
	require.Equal(t, 2, strings.Count(out, "\n"))
}

func TestBackendAndIsolation(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args []string
		want string
	}{
		{nil, "write"}, {[]string{"--backend", "docker"}, "write"}, {[]string{"--backend", "e2b"}, "write"}, {[]string{"--backend=local"}, "risky"},
		{[]string{"--backend", "local", "--isolated"}, "write"}, {[]string{"--backend", "local", "--isolated=true"}, "write"}, {[]string{"--isolated=false"}, "risky"}, {[]string{"--backend", "docker", "--isolated=false"}, "risky"},
	} {
		out, errs, code := run(t, "", append(append([]string{"check"}, tc.args...), "go test ./...")...)
		require.Zero(t, code, errs)
		require.True(t, strings.HasPrefix(out, tc.want+"\t"), "%v: %s", tc.args, out)
	}
}

func TestShellAndDirectories(t *testing.T) {
	t.Parallel()
	out, _, _ := run(t, "", "check", "--shell", "sh", "diff <(ls) <(ls)")
	require.True(t, strings.HasPrefix(out, "risky\t"), out)
	out, _, _ = run(t, "", "check", "--cwd", "/workspace/.git", "echo x > config")
	require.True(t, strings.HasPrefix(out, "risky\t"), out)
	out, _, _ = run(t, "", "check", "--home", "/home/ada", "cat ~/.ssh/id_rsa")
	require.Contains(t, out, "/home/ada/.ssh/id_rsa")
}

func TestPolicyFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	require.NoError(t, os.WriteFile(good, []byte("rules:\n  - {id: no-ls, command: ls, tier: critical}\n  - {id: odd, command: frob, tier: risky}\n"), 0o600))
	require.NoError(t, os.WriteFile(bad, []byte("rules:\n  - {id: no-ls, command: ls}\n"), 0o600))
	out, errs, code := run(t, "", "check", "--policy", good, "ls")
	require.Zero(t, code)
	require.True(t, strings.HasPrefix(out, "critical\t"), out)
	require.Contains(t, errs, `good.yaml:3: warning: rule "odd" changes nothing`)
	_, errs, code = run(t, "", "check", "--policy", bad, "ls")
	require.Equal(t, 2, code)
	require.Contains(t, errs, `bad.yaml:2: rule "no-ls" has no tier`)
	require.NoError(t, os.WriteFile(bad, []byte("version: 1\nrules: [{\n"), 0o600))
	_, errs, code = run(t, "", "check", "--policy", bad, "ls")
	require.Equal(t, 2, code)
	require.Regexp(t, `bad.yaml:2: [^\n]+\n$`, errs)
	_, _, code = run(t, "", "check", "--policy", filepath.Join(dir, "none.yaml"), "ls")
	require.Equal(t, 2, code)
}

func TestBadFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"check"}, {"check", "--stdin", "ls"}, {"check", "--backend", "moon", "ls"}, {"check", "--backend", "", "ls"}, {"check", "--shell", "fish", "ls"}, {"check", "--cwd", "rel", "ls"}, {"check", "--unknown", "ls"}, {}, {"other"},
		{"check", "--isolated=maybe", "ls"},
	} {
		out, errs, code := run(t, "", args...)
		require.Equal(t, 2, code, "%v: %s%s", args, out, errs)
		require.NotEmpty(t, errs)
		require.Empty(t, out)
	}
	_, _, code := run(t, "", "check", "--help")
	require.Zero(t, code)
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestOutputThatFails(t *testing.T) {
	t.Parallel()
	var e bytes.Buffer
	code := policycmd.Main([]string{"check", "ls"}, policycmd.Streams{In: strings.NewReader(""), Out: broken{}, Err: &e})
	require.Equal(t, 1, code)
	require.Contains(t, e.String(), "writing verdicts: broken pipe")
}
