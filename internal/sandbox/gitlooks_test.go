package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/policy"
	"github.com/countersign/countersign/internal/workflows"
)

// confinedRig is a rig with git, whose sandbox confines what runs in it.
func confinedRig(t *testing.T) *rig {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	r := newRig(t)
	r.restartWith(policy.Default())
	if !r.ref.Isolated {
		t.Skip("nothing confines commands here, so that git's looks ask")
	}
	return r
}

// What runs unasked runs no program that a repository, or a submodule of it, names:
// such a command asks, or git is kept from it.
func TestGitRunsNothingUnasked(t *testing.T) {
	t.Parallel()
	r := confinedRig(t)
	ws, ran := r.ref.WorkspacePath, filepath.Join(r.ref.WorkspacePath, "ran")
	git := gitIn(t)
	madeRepository(t, git, ws)
	program := "echo >> '" + r.ref.Root + "/ran'; cat"

	looks := []string{
		"git status", "git status --ignore-submodules=none", "git diff", "git diff --submodule=diff", "git log -p -2", "git log -p --submodule=diff", "git show", "git blame a.txt",
		"git ls-files -m", "git describe --always --dirty", "git submodule summary", "git submodule status", "git diff-files -p", "git archive HEAD", "git help log", "git -C sub status",
		"git log --show-signature -1", "git range-diff HEAD~1..HEAD HEAD~1..HEAD", "git diff-index HEAD", "git status > status.out", "for d in */; do (cd \"$d\" && git status -s); done",
	}
	check := func(t *testing.T, name string) (asked int) {
		for _, command := range looks {
			require.NoError(t, os.WriteFile(filepath.Join(ws, "a.txt"), []byte("x\n"), 0o644))
			require.NoError(t, os.WriteFile(filepath.Join(ws, "sub/a.txt"), []byte("x\n"), 0o644))
			require.NoError(t, os.WriteFile(filepath.Join(ws, "mute/a.txt"), []byte("x\n"), 0o644))
			tier := r.judge(toolCall(t, workflows.ToolShell, workflows.ShellArgs{Command: command})).Tier
			if tier != "safe" && tier != "write" {
				require.Equal(t, "risky", tier, "%s: %s", name, command)
				asked++
				continue
			}
			r.shell(command)
			require.NoFileExists(t, ran, "%s: `%s` is %s, and ran it", name, command, tier)
		}
		return asked
	}
	require.Zero(t, check(t, "nothing"), "all are looks")
	for _, s := range []struct{ name, at, key, value string }{
		{"a filter", ".", "filter.x.clean", program},
		{"a filter that goes on", ".", "filter.x.process", program},
		{"a filter for what is checked out", ".", "filter.x.smudge", program},
		{"a converter", ".", "diff.x.textconv", program},
		{"a driver", ".", "diff.x.command", program},
		{"an external diff", ".", "diff.external", program},
		{"a viewer of manuals", ".", "man.man.path", program},
		{"a signer", ".", "gpg.program", program},
		{"a monitor", ".", "core.fsmonitor", program},
		{"a pager", ".", "core.pager", program},
		{"hooks", ".", "core.hooksPath", r.ref.Root + "/hooks"},
		{"a submodule's filter", "sub", "filter.x.clean", program},
		{"a submodule's process", "sub", "filter.x.process", program},
		{"a submodule's external diff", "sub", "diff.external", program},
		{"a submodule's converter", "sub", "diff.x.textconv", program},
		{"a submodule's monitor", "sub", "core.fsmonitor", program},
		{"a submodule's other file", "sub", "include.path", r.ref.Root + "/more"},
		{"the filter of one with its repository inside", "inside", "filter.x.clean", program},
		{"the filter of one that nothing speaks of", "mute", "filter.x.clean", program},
		{"the monitor of one that nothing speaks of", "mute", "core.fsmonitor", program},
	} {
		git(filepath.Join(ws, s.at), "config", s.key, s.value)
		asked := check(t, s.name)
		t.Logf("%s: %d of %d ask", s.name, asked, len(looks))
		git(filepath.Join(ws, s.at), "config", "--unset", s.key)
	}
}

// A directory that only looks like a repository is none to what runs unasked.
func TestADirectoryIsNoRepository(t *testing.T) {
	t.Parallel()
	r := confinedRig(t)
	ws := r.ref.WorkspacePath
	git := gitIn(t)
	madeRepository(t, git, ws)
	bare := filepath.Join(ws, "bare")
	git(ws, "clone", "-q", "--bare", ".", bare)
	git(bare, "config", "diff.x.textconv", "echo >> '"+r.ref.Root+"/ran'; cat")
	require.NoError(t, os.WriteFile(filepath.Join(bare, "info/attributes"), []byte("*.txt diff=x\n"), 0o644))
	for _, head := range []string{"as it is", "a link to nothing"} {
		if head != "as it is" {
			require.NoError(t, os.Remove(filepath.Join(bare, "HEAD")))
			require.NoError(t, os.Symlink("refs/heads/main", filepath.Join(bare, "HEAD")))
		}
		for _, command := range []string{"cd bare && git show HEAD~1", "git -C bare log -p", "git --bare -C bare log -p", "for d in */; do (cd \"$d\" && git show HEAD~1); done", "cd bare/refs && git show HEAD~1"} {
			if j := r.judge(toolCall(t, workflows.ToolShell, workflows.ShellArgs{Command: command})); j.Tier == "safe" {
				r.shell(command)
				require.NoFileExists(t, filepath.Join(ws, "ran"), "%s: `%s` is safe, and ran it", head, command)
			}
		}
	}
}

// gitIn runs git itself, with nobody's settings.
func gitIn(t *testing.T) func(dir string, args ...string) {
	home := t.TempDir()
	return func(dir string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main", "-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
		cmd.Dir = dir
		cmd.Env = []string{"HOME=" + home, "GIT_CONFIG_NOSYSTEM=1", "PATH=" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "git %s: %s", strings.Join(args, " "), out)
	}
}

// madeRepository makes a repository with two submodules, of which one has its own
// repository inside it, and a third repository that it has without a word. Their files differ from what is committed, and hooks lie in
// a directory.
func madeRepository(t *testing.T, git func(dir string, args ...string), ws string) {
	t.Helper()
	from := t.TempDir()
	write := func(path, text string, mode os.FileMode) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
	}
	write(filepath.Join(from, "a.txt"), "a\n", 0o644)
	write(filepath.Join(from, ".gitattributes"), "*.txt filter=x diff=x\n", 0o644)
	for _, at := range []string{from, ws} {
		git(at, "init", "-q")
		write(filepath.Join(at, "a.txt"), "a\n", 0o644)
		write(filepath.Join(at, ".gitattributes"), "*.txt filter=x diff=x\n", 0o644)
		git(at, "add", "-A")
		git(at, "commit", "-qm", "one")
		write(filepath.Join(at, "a.txt"), "b\n", 0o644)
		git(at, "commit", "-qam", "two")
	}
	git(ws, "submodule", "--quiet", "add", from, "sub")
	git(ws, "clone", "-q", from, "inside")
	git(ws, "submodule", "--quiet", "add", from, "inside")
	git(ws, "clone", "-q", from, "mute")
	git(ws, "add", "mute")
	git(ws, "commit", "-qam", "three")
	for _, hook := range []string{"post-index-change", "reference-transaction", "fsmonitor-watchman", "pre-auto-gc"} {
		write(filepath.Join(ws, "hooks", hook), "#!/bin/sh\ntouch '"+ws+"/ran' ran\n", 0o755)
	}
}
