package sandboxtest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
)

// testEnvironIsNotListed looks at the command lines of all processes of this
// machine, which everybody on it may read, while a command runs that was given a
// secret.
func testEnvironIsNotListed(t *testing.T, b *rig) {
	s := b.open(t)
	secret := "s3cret-" + newID() + " 'quoted' $(id) \"x\"\nsecond line\n"
	id := newID()
	command := `printf %s "$TOKEN"; echo; echo "$UID_LIKE|$COUNTERSIGN_EXEC"; sleep 30 & echo ready >&2; read -r end`
	require.NoError(t, s.Start(t.Context(), sandbox.ExecSpec{
		ID: id, Command: command, Stdin: true, Env: map[string]string{"TOKEN": secret, "UID_LIKE": "7", "COUNTERSIGN_EXEC": "other"},
	}))
	eventually(t, "the command runs", func() bool {
		st, err := s.Status(t.Context(), id)
		return err == nil && st.StderrBytes > 0
	})
	mark := []byte(secret[:len("s3cret-")+8])
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, file := range lines {
		if line, err := os.ReadFile(file); err == nil {
			require.NotContains(t, string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})), string(mark), file)
		}
	}
	require.NoError(t, s.Send(t.Context(), id, sandbox.Input{Key: "end", Data: []byte("\n"), EOF: true}))
	var out bytes.Buffer
	require.NoError(t, s.Attach(t.Context(), id, sandbox.Stdout, 0, &out))
	require.Contains(t, out.String(), secret+"\n7|")
	require.NotContains(t, out.String(), "|other\n", "the exec's mark cannot be overridden")
}
