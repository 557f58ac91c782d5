package landlock

import (
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRulesAsArguments(t *testing.T) {
	t.Parallel()
	r := Rules{Read: []string{"/usr", "/a=b"}, List: []string{"/etc"}, Write: []string{"/w\n"}, Use: []string{"/dev/null"}, Hidden: []string{"/usr/x"}}
	args := r.Command("/helper", []string{"sh", "--", "read=/"})
	require.Equal(t, []string{"/helper", Verb}, args[:2])
	got, argv, err := parse(args[2:])
	require.NoError(t, err)
	require.Equal(t, r, got)
	require.Equal(t, []string{"sh", "--", "read=/"}, argv)
	for _, bad := range [][]string{{}, {"--"}, {"read=/usr"}, {"read=usr", "--", "sh"}, {"all=/", "--", "sh"}, {"read", "--", "sh"}} {
		_, _, err := parse(bad)
		require.Error(t, err, "%q", bad)
	}
}

func TestShown(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, name := range []string{"a/b/c/x", "a/b/d", "a/e", "ab/f", "g"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	require.NoError(t, os.Symlink("a/b/c", filepath.Join(dir, "link")))
	places := func(path string, hidden ...string) []string {
		for i := range hidden {
			hidden[i] = filepath.Join(dir, hidden[i])
		}
		var all []string
		shown(filepath.Join(dir, path), hidden, func(p string) { all = append(all, strings.TrimPrefix(p, dir+"/")) })
		sort.Strings(all)
		return all
	}
	require.Equal(t, []string{"a"}, places("a"))
	require.Equal(t, []string{"a"}, places("a", "ab", "g", "nothing"))
	require.Equal(t, []string{"a/b/d", "a/e", "ab", "g"}, places("", "a/b/c"))
	require.Equal(t, []string{"a/b", "g"}, places("", "ab", "a/e"))
	require.Empty(t, places("a", "a"))
}

// held runs a command held to rules; dir/read, dir/write and dir/shut are there.
func held(t *testing.T, command string) (dir, out string, code int) {
	t.Helper()
	if abi := ABI(); abi < LeastABI {
		t.Skipf("this kernel's Landlock has ABI %d", abi)
	}
	self, err := os.Executable()
	require.NoError(t, err)
	dir = t.TempDir()
	for _, name := range []string{"read", "read/hidden", "write", "shut"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, "file"), []byte("of "+name+"\n"), 0o644))
	}
	r := Rules{
		Read: []string{"/usr", "/bin", "/lib", "/lib64", "/proc", filepath.Join(dir, "read"), filepath.Join(dir, "nothing")}, Write: []string{filepath.Join(dir, "write")},
		Use: []string{"/dev/null"}, Hidden: []string{filepath.Join(dir, "read", "hidden"), dir, "/"},
	}
	args := r.Command(self, []string{"/bin/sh", "-c", command})
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = dir
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		require.NoError(t, err)
	}
	return dir, string(text), cmd.ProcessState.ExitCode()
}

func TestHeld(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"cat read/file":  "of read\n",
		"cat write/file": "of write\n",
		"ls write":       "file\n",
		"cd write && mkdir d && echo x > d/a && mv d/a b && ln b d/c && rm file && mkfifo p && ln -s b l && ls": "b\nd\nl\np\n",
		"printf '#!/bin/sh\necho ran\n' > write/run && chmod +x write/run && write/run":                         "ran\n",
		"echo x > /dev/null && echo y > /dev/stdout":                                                            "y\n",
		"grep NoNewPrivs /proc/self/status":                                                                     "NoNewPrivs:\t1\n",
		"exit 7":                                                                                                "",
	} {
		_, out, code := held(t, command)
		require.Equal(t, want, out, command)
		require.Equal(t, command == "exit 7", code != 0, command)
	}
	for _, command := range []string{
		"cat shut/file", "ls shut", "ls .", "ls /", "cat read/hidden/file", "ls read/hidden", "ls read",
		"echo x > read/file", "echo x > shut/new", "rm shut/file", "mv write/file shut/", "ln shut/file write/", "mv shut/file write/",
		"ln -s ../shut/file write/l; cat write/l", "cat /proc/1/environ", "mknod write/null c 1 3",
	} {
		dir, out, code := held(t, command)
		require.NotEqual(t, 0, code, "%s: %s", command, out)
		require.NotRegexp(t, "(?m)^of ", out, command)
		data, err := os.ReadFile(filepath.Join(dir, "shut", "file"))
		require.NoError(t, err, command)
		require.Equal(t, "of shut\n", string(data), command)
	}
}

// Where the rules cannot be had, or say nothing of the program, nothing runs.
func TestNotHeldDoesNotRun(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	for _, args := range [][]string{
		{"read=relative", "--", "/bin/echo", "ran"}, {"read=/usr", "--"}, {"use=/dev/null", "--", "/bin/echo", "ran"},
	} {
		cmd := exec.CommandContext(t.Context(), self, append([]string{Verb}, args...)...)
		out, _ := cmd.CombinedOutput()
		require.Equal(t, 126, cmd.ProcessState.ExitCode(), "%s", out)
		require.Regexp(t, "^countersign: the command was not begun: ", string(out))
	}
}
