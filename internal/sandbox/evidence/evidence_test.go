package evidence_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox/evidence"
)

// look plans for a command, expands its globs and runs its script in dir.
func look(t *testing.T, dir, command string) []string {
	t.Helper()
	p := evidence.Of(command, true, dir, filepath.Join(dir, "home"))
	found := map[string][]string{}
	for _, g := range p.Patterns() {
		list, err := filepath.Glob(g)
		require.NoError(t, err)
		found[g] = list
	}
	script := p.Script(found)
	if script == "" {
		return p.Sentences("", found)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return p.Sentences(string(out), found)
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	big := strings.Repeat("x", 3<<20)
	write(t, dir, map[string]string{
		"build/a": big, "build/b": big, "build/deep/c\nd": "", "a.log": "", "b.log": "", "c.log": "", "d.log": "", "it's `x` *": "", "home/x": "",
		"sub/build/one": "",
	})
	require.NoError(t, os.Symlink("/usr", filepath.Join(dir, "build", "link")))
	for command, want := range map[string][]string{
		"rm -rf build":                       {"4 files, 6.3 MB"},
		"rm -rf -- build":                    {"4 files, 6.3 MB"},
		"sudo rm -rf 'build'":                {"4 files, 6.3 MB"},
		"rm -rf build nothing":               {"4 files, 6.3 MB"},
		"rm -rf ~/x":                         {"1 file, under 0.1 MB"},
		"rm *.log":                           {"`*.log` is `a.log`, `b.log`, `c.log` and 1 more", "4 files, under 0.1 MB"},
		"rm -rf build/* a.log":               {"`build/*` is `a`, `b`, `deep` and 1 more", "5 files, 6.3 MB"},
		"rm [ab].log":                        {"`[ab].log` is `a.log` and `b.log`", "2 files, under 0.1 MB"},
		"rm it*":                             {"`it*` is `it's \\x60x\\x60 *`", "1 file, under 0.1 MB"},
		"rm *.none":                          {"`*.none` matches nothing"},
		"rm a.log # old \\\nrm -rf build":    nil,
		"cd sub && rm -rf build":             {"1 file, under 0.1 MB"},
		"(cd sub && rm -rf build); rm a.log": {"`build`: 1 file, under 0.1 MB", "`a.log`: 1 file, under 0.1 MB"},
		"mv *.log sub/":                      {"`*.log` is `a.log`, `b.log`, `c.log` and 1 more"},
		"rm -rf nothing":                     {"nothing is there"},
		// What cannot be read with certainty is left out.
		`rm -rf "$X"`: nil, "rm -rf build $X": nil, "rm -rf {a,b}": nil, `rm -rf "*.log"`: nil, `rm \*`: nil, "cd $D; rm -rf build": nil,
		"rm() { :; }; rm -rf build": nil, "for i in 1 2; do rm -rf build; done": nil, "alias ls=rm; rm a.log": nil, "if": nil, "ls": nil, "": nil,
		"pushd sub; rm -rf build": nil, "rm": nil, "X=1 rm -rf build": nil, "rm -rf ~root": nil,
	} {
		require.Equal(t, want, look(t, dir, command), command)
	}
}

func TestGit(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	write(t, dir, map[string]string{"a": "1\nchanged\n3\nfour\n", "new": "", "deep/new": "", "ignored": ""})
	for command, want := range map[string][]string{
		"git reset --hard":                         {"uncommitted changes are lost: 1 file, +2 −1"},
		"git reset --hard HEAD~2":                  {"uncommitted changes are lost: 1 file, +2 −1; 2 commits after `HEAD~2` are left behind"},
		"git reset --hard -q HEAD~1":               {"uncommitted changes are lost: 1 file, +2 −1; 1 commit after `HEAD~1` is left behind"},
		"git reset --hard nothing":                 {"uncommitted changes are lost: 1 file, +2 −1"},
		"git checkout -- a":                        {"uncommitted changes are lost: 1 file, +2 −1"},
		"git checkout .":                           {"uncommitted changes are lost: 1 file, +2 −1"},
		"git checkout -- b":                        {"no changes are lost"},
		"git restore a":                            {"uncommitted changes are lost: 1 file, +2 −1"},
		"git clean -fd":                            {"2 files and directories that git does not know are deleted"},
		"git clean -fdx":                           {"3 files and directories that git does not know are deleted"},
		"git clean -f":                             {"1 file or directory that git does not know is deleted"},
		"git push":                                 {"2 commits are published on `origin/main`, which has 1 commit that is not here, as last fetched"},
		"git push --force origin main":             {"2 commits are published on `origin/main`, 1 commit there is lost, as last fetched"},
		"git push origin +main":                    {"2 commits are published on `origin/main`, 1 commit there is lost, as last fetched"},
		"git push -f origin HEAD":                  {"2 commits are published on `origin/main`, 1 commit there is lost, as last fetched"},
		"git push origin HEAD:fresh":               {"2 commits are published on `origin/fresh`, which is new, as last fetched"},
		"git push --force . main:copy":             {"3 commits are published on `copy`, which is new"},
		"cd . && git clean -f && git reset --hard": {"1 file or directory that git does not know is deleted", "uncommitted changes are lost: 1 file, +2 −1"},
		"git reset":                                nil, "git reset --soft HEAD~1": nil, "git checkout main": nil, "git push --mirror": nil, "git -C /x reset --hard": nil,
		"GIT_DIR=/x git reset --hard": nil, "git push origin :main": nil, "git clean -n": nil, "git push nowhere main": nil, "git restore --staged a": nil,
		"git reset --hard $X": nil, "git push origin main extra": nil, "git reset --hard -- a": nil,
	} {
		require.Equal(t, want, look(t, dir, command), command)
	}
}

// Whatever the workspace has set up for git, a look runs none of it.
func TestRunsNothingOfTheWorkspace(t *testing.T) {
	t.Parallel()
	for _, config := range []string{
		"[filter \"x\"]\n\tclean = touch %s; cat\n\tsmudge = touch %s; cat\n\trequired = true\n", "[filter \"x\"]\n\tprocess = touch %s\n",
		"[diff \"x\"]\n\ttextconv = touch %s; cat\n", "[diff \"x\"]\n\tcommand = touch %s\n", "[diff]\n\texternal = touch %s\n",
		"[core]\n\tfsmonitor = touch %s\n\tpager = touch %s\n", "[core]\n\talternateRefsCommand = touch %s\n\tsshCommand = touch %s\n\tgitProxy = touch %s\n",
		"[log]\n\tshowSignature = true\n[gpg]\n\tprogram = touch %s\n", "[alias]\n\tdiff = !touch %s\n\tconfig = !touch %s\n",
		"[extensions]\n\tpartialClone = origin\n[remote \"origin\"]\n\tpromisor = true\n\tuploadpack = touch %s;\n",
	} {
		dir := repository(t)
		ran := filepath.Join(t.TempDir(), "ran")
		f, err := os.OpenFile(filepath.Join(dir, ".git", "config"), os.O_APPEND|os.O_WRONLY, 0o644)
		require.NoError(t, err)
		_, err = f.WriteString(strings.ReplaceAll(config, "%s", ran))
		require.NoError(t, err)
		require.NoError(t, f.Close())
		for _, h := range []string{"post-index-change", "post-checkout", "reference-transaction", "fsmonitor-watchman", "pre-push"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, ".git", "hooks", h), []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o755))
		}
		for _, tool := range []string{"git", "find", "du", "wc", "tr", "grep"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, tool), []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o755))
		}
		write(t, dir, map[string]string{"a": "other\n", ".gitattributes": "* filter=x diff=x\n", ".git/info/attributes": "* filter=x diff=x\n"})
		for _, command := range []string{"git reset --hard HEAD~1", "git checkout -- .", "git clean -fdx", "git push --force origin main", "rm -rf *", "git push origin HEAD:new"} {
			look(t, dir, command)
			require.NoFileExists(t, ran, "%s with %s", command, config)
		}
	}
}

// A script that was cut off, or printed something else, gives nothing false.
func TestCutOff(t *testing.T) {
	t.Parallel()
	p := evidence.Of("rm -rf a; rm -rf b; git reset --hard", true, "/w", "/h")
	require.Equal(t, []string{"`a`: 1 file, under 0.1 MB"}, p.Sentences("0 1 4\n1 2 ", nil))
	for _, out := range []string{"", "0", "0 1", "0\n", "0 x y\n", "7 1 2\n", "2 rubbish\n", "\n\n\x00"} {
		require.Empty(t, p.Sentences(out, nil), "%q", out)
	}
	require.Empty(t, evidence.Of("rm *", true, "/w", "/h").Script(nil), "a pattern that is not expanded is not looked at")
	require.Empty(t, evidence.Of("rm -rf a", true, "relative", "/h").Script(nil))
	long := make([]string, evidence.MaxMatches+1)
	for i := range long {
		long[i] = "/w/x"
	}
	many := map[string][]string{"/w/*": long}
	p = evidence.Of("rm *", true, "/w", "/h")
	require.Empty(t, p.Script(many))
	require.Equal(t, []string{"`*` matches more than 1000"}, p.Sentences("", many))
}

func FuzzOf(f *testing.F) {
	for _, s := range []string{"rm -rf 'a b' *", "git push -f x y", "cd a && (rm b)", "git clean -fdx -- a", "rm ~"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, command string) {
		p := evidence.Of(command, true, "/w", "/h")
		found := map[string][]string{}
		for _, g := range p.Patterns() {
			found[g] = []string{"/w/a"}
		}
		p.Sentences("0 1 2\n", found)
		if script := p.Script(found); strings.ContainsRune(script, 0) {
			t.Fatalf("NUL in %q", script)
		}
	})
}

// repository has three commits on main, of which origin/main has the first and
// one of its own.
func repository(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	dir := t.TempDir()
	git := func(args ...string) {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%v: %s", args, out)
	}
	git("init", "-q", "-b", "main")
	write(t, dir, map[string]string{"a": "1\n2\n3\n", "b": "", ".gitignore": "ignored\n"})
	git("add", ".")
	git("commit", "-q", "-m", "one")
	git("commit", "-q", "--allow-empty", "-m", "theirs")
	git("remote", "add", "origin", "https://git.example.org/x")
	git("update-ref", "refs/remotes/origin/main", "HEAD")
	git("reset", "-q", "--hard", "HEAD~1")
	git("commit", "-q", "--allow-empty", "-m", "two")
	git("commit", "-q", "--allow-empty", "-m", "three")
	return dir
}
