package policy_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/policy"
)

// TestFoundFilesAreReadWhereTheyAre: who reads files by names that were found where
// credentials are kept reads credentials.
func TestFoundFilesAreReadWhereTheyAre(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	for command, want := range map[string]policy.Tier{
		"find ~/.ssh -type f | xargs cat": policy.Risky, "find ~/.ssh -print0 | xargs -0 cat": policy.Risky, "find ~/.aws | xargs -I{} cat {}": policy.Risky,
		"find ~ -name id_rsa | xargs cat": policy.Risky, "find ~ | grep ssh | head -1 | xargs cat": policy.Risky, "find ~/.ssh | xargs grep x": policy.Risky,
		"find ~/.ssh | while read f; do cat \"$f\"; done": policy.Risky, "for f in $(find ~/.ssh -type f); do cat $f; done": policy.Risky,
		"cd ~/.ssh && ls | xargs cat": policy.Risky, "cd ~/.ssh && find . | xargs cat": policy.Risky, "man ~/.netrc": policy.Risky,
		"find ~/.ssh": policy.Safe, "find / -name x.h": policy.Safe, "find ~ | wc -l": policy.Safe, "find . -name '*.go' | xargs cat": policy.Safe, "find src | xargs wc -l": policy.Safe,
		"for f in $(find . -type f); do cat $f; done": policy.Safe, "man ls": policy.Safe, "man 3 printf": policy.Safe,
	} {
		v := p.Judge(command, sandbox(), policy.Facts{})
		require.Equal(t, want, v.Tier, "%q: %s", command, v.Summary())
	}
}

// TestSentTextIsWhatTheShellReads: a shell that is sent text reads its commands from
// where they read their input. What takes some of it makes another script of the
// rest, and a change of directory another file of a name.
func TestSentTextIsWhatTheShellReads(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	bash := p.Reader("bash", policy.ShellBash)
	for _, text := range []string{
		"ls", "ls -la src; pwd", "cat README.md", "grep -rn x .", "head -3 f", "timeout 5 ls", "ls | cat", "cat f | sort", "cat < f", "cat <<E\na\nE", "cat <<< a",
		"while read x; do echo \"$x\"; done < f", "find . -name x", "cd src", "cd /workspace/src && ls", "pushd src; popd", "echo a; [ -f x ]", "ls $x",
	} {
		v := p.JudgeStdin(bash, text+"\n", sandbox(), policy.Facts{})
		require.Equal(t, policy.Safe, v.Tier, "%q: %s", text, v.Summary())
	}
	for _, text := range []string{
		"read x\ncat <<E\nrm -rf build\nE", "read -r x", "mapfile a", "head -1", "cat", "cat -", "cat f -", "(cat)", "ls && cat", "cat | ls", "echo $(cat)", "x=$(cat)", "[[ $(cat) ]]",
		"for i in 1 2; do cat; done", "while read x; do ls; done", "timeout 5 cat", "env cat", "command read x", "builtin read x", "eval 'read x'", "time cat", "bc", "dc", "xargs ls", "tee",
		"cat < /dev/stdin", "cat <&0", "cat 3<&0 <&3", "cat /dev/fd/0", "cat /proc/self/fd/0", "cat <(cat)", "sort --files0-from=f", "find . -ok ls ';'", "find . -exec cat {} +", "date -f -",
		"cat $x", "cat \"$x\"", "cd ..", "cd", "cd -", "cd ~/.aws", "cd src/../..", "cd $x", "pushd /tmp", "command cd /tmp", "builtin cd ~",
	} {
		v := p.JudgeStdin(bash, text+"\n", sandbox(), policy.Facts{})
		require.GreaterOrEqual(t, v.Tier, policy.Risky, "%q: %s", text, v.Summary())
	}
	// Where nothing confines it, links on the way may lead to anything.
	for text, want := range map[string]policy.Tier{"ls": policy.Safe, "cat f": policy.Risky, "cd src": policy.Risky} {
		v := p.JudgeStdin(bash, text+"\n", bareHost(), policy.Facts{})
		require.Equal(t, want, v.Tier, "%q: %s", text, v.Summary())
	}
	require.Equal(t, policy.Risky, p.Judge("dc program", sandbox(), policy.Facts{}).Tier)
	require.Equal(t, policy.Safe, p.Judge("echo '2 3 + p' | dc", sandbox(), policy.Facts{}).Tier)
	require.False(t, strings.Contains(p.Judge("cat", sandbox(), policy.Facts{}).Summary(), "sent"), "a command of its own is sent nothing")
}
