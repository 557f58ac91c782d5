package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// run gives go test -json of a module with these files to a sum.
func run(t *testing.T, files map[string]string, args ...string) (*sum, string, bool) {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module example.test/m\n\ngo 1.26\n"
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"test", "-json"}, append(args, "./...")...)...)
	cmd.Dir = dir
	events, _ := cmd.Output()
	var out bytes.Buffer
	s := newSum(&out)
	require.NoError(t, s.read(bytes.NewReader(events)))
	ok := s.finish()
	return s, out.String(), ok
}

func counts(s *sum) [3]int { return [3]int{s.passed, s.failed, s.skipped} }

func TestCountsWhatTheRunnerReports(t *testing.T) {
	t.Parallel()
	s, out, ok := run(t, map[string]string{
		"a/a_test.go": `package a
import "testing"
func TestPass(t *testing.T) {}
func TestSkip(t *testing.T) { t.Skip("no reason") }
func TestSubs(t *testing.T) {
	t.Run("one", func(t *testing.T) {})
	t.Run("two", func(t *testing.T) { t.Log("the cause"); t.Fail() })
}
func TestParentFails(t *testing.T) {
	t.Run("fine", func(t *testing.T) {})
	t.Fatal("after its subtests")
}
`,
		"b/b_test.go": "package b\nimport \"testing\"\nfunc TestB(t *testing.T) {}\n",
		"c/c.go":      "package c\n",
	})
	require.False(t, ok)
	require.Equal(t, [3]int{4, 2, 1}, counts(s), out)
	require.Contains(t, out, "the cause")
	require.Contains(t, out, "after its subtests")
	require.Contains(t, out, "ok   example.test/m/b")
}

func TestFailuresWithoutATest(t *testing.T) {
	t.Parallel()
	s, out, ok := run(t, map[string]string{
		"broken/b_test.go": "package broken\nimport \"testing\"\nfunc TestX(t *testing.T) { undefined() }\n",
		"fine/f_test.go":   "package fine\nimport \"testing\"\nfunc TestF(t *testing.T) {}\n",
		"exits/e_test.go":  "package exits\nimport (\"os\"; \"testing\")\nfunc TestMain(m *testing.M) { m.Run(); os.Exit(3) }\nfunc TestE(t *testing.T) {}\n",
		"hangs/h_test.go":  "package hangs\nimport \"testing\"\nfunc TestH(t *testing.T) { select {} }\nfunc TestI(t *testing.T) {}\n",
	}, "-timeout=2s")
	require.False(t, ok)
	require.Equal(t, 3, s.failed, out)
	require.Contains(t, out, "undefined: undefined")
}

func TestNothingPassedIsNoSuccess(t *testing.T) {
	t.Parallel()
	_, out, ok := run(t, map[string]string{"a/a.go": "package a\n"})
	require.False(t, ok)
	require.Equal(t, "0 passed, 0 failed, 0 skipped", last(out))
}

func TestAllPassed(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := newSum(&out)
	require.NoError(t, s.read(strings.NewReader(`{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Elapsed":1.5}
a line of something else
{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Elapsed":0.5}
`)))
	require.True(t, s.finish())
	require.Equal(t, "2 passed, 0 failed, 0 skipped", last(out.String()))
	require.Contains(t, out.String(), "a line of something else")
}

func TestCutShort(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := newSum(&out)
	require.NoError(t, s.read(strings.NewReader(`{"Action":"start","Package":"p"}`)))
	require.False(t, s.finish())
	require.Equal(t, "0 passed, 1 failed, 0 skipped", last(out.String()))
}

func TestRunnerFailed(t *testing.T) {
	t.Parallel()
	passed := `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}
`
	var out bytes.Buffer
	s := newSum(&out)
	require.NoError(t, s.read(strings.NewReader(passed+`{"Action":"runner-failed"}`)))
	require.False(t, s.finish())
	require.Equal(t, "1 passed, 1 failed, 0 skipped", last(out.String()))
}

func last(out string) string {
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	return lines[len(lines)-1]
}
