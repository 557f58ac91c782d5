package harness

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A shell is halted before its jobs and goes on after them, in whichever order the
// system lists them: 10000 comes before 9999 there, and numbers begin anew.
func TestParentsComeFirst(t *testing.T) {
	t.Parallel()
	functions, _, ok := strings.Cut(Script(), "\nverb=$1 record=$2\n")
	require.True(t, ok)
	const table = `1 0
10000 9999
10001 10000
300 10001
301 2
302 301
9998 1
9999 9998`
	for _, shell := range [][]string{{"sh"}, {"bash"}, {"busybox", "sh"}} {
		if _, err := exec.LookPath(shell[0]); err != nil {
			continue
		}
		for given, want := range map[string]string{
			"10000 10001 9999":     "9999 10000 10001 300", // marked processes, as they are listed
			"9999 10000 10001 300": "9999 10000 10001 300",
			"9999":                 "9999 10000 10001 300",
			"301 9999":             "301 9999 10000 10001 300 302",
			"12345 9999":           "9999 10000 10001 300 12345", // it has ended
		} {
			script := functions + "\ntable() { cat <<-E\n" + table + "\nE\n}\ntree " + given + "\n"
			out, err := exec.Command(shell[0], append(shell[1:], "-c", script)...).CombinedOutput()
			require.NoError(t, err, string(out))
			require.Equal(t, want, strings.TrimSpace(string(out)), "%v: %s", shell, given)
		}
	}
}
