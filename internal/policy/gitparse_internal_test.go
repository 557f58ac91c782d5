package policy

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// gitAlphabet is what files of settings are made of here, and gitRead is how git
// itself reads one.
var gitAlphabet = []string{"[a]", "[A \"b\"]", "[a.c]", "[a \"]\"]", "[", "]", "\"", "\\", "\n", "\n", "\r\n", "\r", " ", "\t", "#", ";", "=", "key", "K-1", "v", "\\\n", "\\n", "\\q", "\ufeff", "\f", "."}

func gitRead(t *testing.T, text string) ([]gitSetting, bool) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	out, err := exec.Command("git", "config", "--no-includes", "-z", "-l", "-f", file).Output()
	if err != nil {
		return nil, false
	}
	var list []gitSetting
	for _, one := range bytes.Split(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		if len(one) == 0 {
			continue
		}
		name, value, ok := strings.Cut(string(one), "\n")
		if !ok {
			value = "true"
		}
		first, last := strings.Index(name, "."), strings.LastIndex(name, ".")
		if first < 0 {
			list = append(list, gitSetting{key: name, value: value})
			continue
		}
		g := gitSetting{section: name[:first], key: name[last+1:], value: value}
		if first != last {
			g.sub = name[first+1 : last]
		}
		list = append(list, g)
	}
	return list, true
}

// name is a setting's name as git writes it.
func (g gitSetting) name() string {
	name := g.section + "." + g.sub + "." + g.key
	return strings.Trim(strings.ReplaceAll(name, "..", "."), ".")
}

// TestGitIsReadAsGitDoes: what git takes as a setting is one here, too, or the file
// counts as unreadable.
func TestGitIsReadAsGitDoes(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git here")
	}
	r := rand.New(rand.NewPCG(1, 2))
	agreed := 0
	for range 400 {
		var b strings.Builder
		if r.IntN(2) == 0 {
			b.WriteString("[core]\nx = y\n")
		}
		for range 1 + r.IntN(12) {
			b.WriteString(gitAlphabet[r.IntN(len(gitAlphabet))])
		}
		theirs, valid := gitRead(t, b.String())
		ours, ok := gitParse(b.String())
		if !ok || !valid {
			continue // asked about, or refused by git
		}
		agreed++
		require.Len(t, ours, len(theirs), "%q", b.String())
		for i, g := range theirs {
			require.Equal(t, g.name(), ours[i].name(), "%q", b.String())
			require.Equal(t, strings.Fields(g.value), strings.Fields(ours[i].value), "%q", b.String())
		}
	}
	require.Greater(t, agreed, 40)
}
