package policy_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/policy"
)

func TestFactsDecideWherePathsLead(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	link := func(from, to string) policy.Facts {
		return policy.Facts{Files: map[string]policy.FileFact{from: {Exists: true, IsDir: true, Resolved: to}}}
	}
	gitConfig := func(text string) policy.Facts {
		return gitFacts("/workspace/.git/config", text)
	}
	gitDir := func(path, text string) policy.Facts {
		return gitFacts("/workspace/.git/config", "[core]\n\tbare = false\n", path, text)
	}
	const evil = "[filter \"x\"]\n\tclean = ./x\n"
	for _, tc := range []struct {
		name, command string
		facts         policy.Facts
		want          policy.Tier
	}{
		{"a plain file", "echo x > out/f", policy.Facts{}, policy.Write},
		{"a link to the system", "echo x > out/f", link("/workspace/out", "/etc"), policy.Critical},
		{"a link into .git", "echo x > out/config", link("/workspace/out", "/workspace/.git"), policy.Risky},
		{"a link to credentials", "cat notes", policy.Facts{Files: map[string]policy.FileFact{"/workspace/notes": {Exists: true, Resolved: "/home/agent/.ssh/id_rsa"}}}, policy.Risky},
		{"cd through a link", "cd out && echo x > f", link("/workspace/out", "/tmp/elsewhere"), policy.Risky},
		{"deleting below a link", "rm -rf out/x", link("/workspace/out", "/"), policy.Risky},
		{"deleting what a link leads to", "rm -rf out/etc", link("/workspace/out", "/"), policy.Forbidden},
		{"a directory that is not there", "cd missing; rm -rf ../x", policy.Facts{Files: map[string]policy.FileFact{"/workspace/missing": {}}}, policy.Risky},
		{"a glob that matches a device", "cat d*", policy.Facts{Globs: map[string][]string{"/workspace/d*": {"/workspace/disk"}}, Files: map[string]policy.FileFact{"/workspace/disk": {Exists: true, Resolved: "/dev/sda"}}}, policy.Risky},
		{"a glob that matches an option", "sort *", policy.Facts{Globs: map[string][]string{"/workspace/*": {"/workspace/--compress-program=sh"}}}, policy.Risky},
		{"a glob that matches files", "sort *", policy.Facts{Globs: map[string][]string{"/workspace/*": {"/workspace/a", "/workspace/b"}}}, policy.Safe},
		{"a glob not looked at", "sort *", policy.Facts{}, policy.Risky},
		{"a script that is harmless", "bash s.sh", policy.Facts{Files: map[string]policy.FileFact{"/workspace/s.sh": {Exists: true, Head: []byte("ls\n")}}}, policy.Risky},
		{"a script that destroys", "bash s.sh", policy.Facts{Files: map[string]policy.FileFact{"/workspace/s.sh": {Exists: true, Head: []byte("rm -rf /\n")}}}, policy.Forbidden},
		{"a program that destroys", "./s.sh", policy.Facts{Files: map[string]policy.FileFact{"/workspace/s.sh": {Exists: true, Head: []byte("#!/bin/sh\nrm -rf /\n")}}}, policy.Forbidden},
		{"a script sent in", "sh < s.sh", policy.Facts{Files: map[string]policy.FileFact{"/workspace/s.sh": {Exists: true, Head: []byte("curl x | sh\n")}}}, policy.Critical},
		{"python that destroys", "python3 s.py", policy.Facts{Files: map[string]policy.FileFact{"/workspace/s.py": {Exists: true, Head: []byte("import shutil\nshutil.rmtree('/')\n")}}}, policy.Critical},
		{"a downloaded script", "bash i.sh", policy.Facts{Downloaded: map[string]bool{"/workspace/i.sh": true}}, policy.Critical},
		{"a downloaded directory", "./repo/install.sh", policy.Facts{Downloaded: map[string]bool{"/workspace/repo": true}}, policy.Critical},
		{"reading a downloaded file", "cat i.sh", policy.Facts{Downloaded: map[string]bool{"/workspace/i.sh": true}}, policy.Safe},
		{"a downloaded file into a shell", "cat i.sh | sh", policy.Facts{Downloaded: map[string]bool{"/workspace/i.sh": true}}, policy.Critical},
		{"make by its default target", "make", policy.Facts{Files: map[string]policy.FileFact{"/workspace/Makefile": {Exists: true, Head: []byte("build:\n\tgo build ./...\n")}}}, policy.Write},
		{"make by another default target", "make", policy.Facts{Files: map[string]policy.FileFact{"/workspace/Makefile": {Exists: true, Head: []byte("deploy:\n\t./deploy\n")}}}, policy.Risky},
		{"git with plain settings", "git diff", gitConfig("[core]\n\tbare = false\n[remote \"origin\"]\n\turl = x\n[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n"), policy.Safe},
		{"git with an external diff", "git diff", gitConfig("[diff]\n\texternal = ./x\n"), policy.Risky},
		{"git with a driver", "git log -p", gitConfig("[diff \"img\"]\n\ttextconv = ./x\n"), policy.Risky},
		{"git with an extension of LFS", "git diff", gitConfig("[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n[lfs \"extension.x\"]\n\tclean = ./x\n"), policy.Risky},
		{"a patch looked at with an extension of LFS", "git apply --stat x.patch", gitConfig("[lfs \"extension.x\"]\n\tclean = ./x\n"), policy.Risky},
		{"git with a filter", "git status", gitConfig("[filter \"x\"] clean = ./x\n"), policy.Risky},
		{"git with a monitor", "git status && echo x > f", gitConfig("[core]\n\tfsmonitor = \\\n./x\n"), policy.Risky},
		{"git with another file", "git log", gitConfig("[include]\n\tpath = ../x\n"), policy.Risky},
		{"git with a signer", "git log", gitConfig("[gpg \"ssh\"]\n\tprogram = ./x\n"), policy.Risky},
		{"git with a pager", "git log", gitConfig("[pager]\n\tlog = ./x\n"), policy.Risky},
		{"git below such a repository", "cd sub/dir && git diff", gitConfig("[diff]\n\texternal = ./x\n"), policy.Risky},
		{"git in such a directory", "git -C sub diff", gitConfig("[diff]\n\texternal = ./x\n"), policy.Risky},
		{"a new branch in such a repository", "git switch -c x", gitConfig("[core]\n\tpager = ./x\n"), policy.Risky},
		{"git with two sections in a line", "git diff", gitConfig("[a][filter \"x\"]clean = ./x\n"), policy.Risky},
		{"git with a section after an odd one", "git diff", gitConfig("[a \"]\"][filter \"x\"]clean = ./x\n"), policy.Risky},
		{"git with a comment that seems to go on", "git diff", gitConfig("# x \\\n" + evil), policy.Risky},
		{"git with a value that seems to go on", "git diff", gitConfig("[a]\nb = c\\\\\n" + evil), policy.Risky},
		{"git with a mark at the file's beginning", "git diff", gitConfig("\ufeff" + evil), policy.Risky},
		{"git with settings that git refuses", "git diff", gitConfig("[core]\n\tx = \"\n"), policy.Risky},
		{"git with long settings", "git diff", gitConfig("#" + strings.Repeat("x", 64<<10)), policy.Risky},
		{"git with a tool at the other end", "git log", gitConfig("[remote \"origin\"]\n\tuploadpack = ./x\n"), policy.Risky},
		{"git with merges done again", "git show", gitConfig("[log]\n\tdiffMerges = remerge\n"), policy.Risky},
		{"git with plain words in quotes", "git diff", gitConfig("[core]\r\n\tpager = \"less\" ; as ever\r\n\tbare\n[user]\n\tname = \"A # B\" \\\n\tC"), policy.Safe},
		{"git with settings for one tree", "git diff", gitDir("/workspace/.git/config.worktree", evil), policy.Risky},
		{"git with harmless settings for one tree", "git diff", gitDir("/workspace/.git/config.worktree", "[core]\n\tsparseCheckout = true\n"), policy.Safe},
		{"git with settings elsewhere", "git diff", gitDir("/workspace/.git/commondir", "../g\n"), policy.Risky},
		{"git in a repository that is elsewhere", "git diff", gitFacts("/workspace/.git", "gitdir: g\n", "/workspace/g/config", ""), policy.Risky},
		{"git in a submodule", "cd sub && git diff", gitFacts("/workspace/sub/.git", "gitdir: ../.git/modules/sub\n", "/workspace/.git/modules/sub/config", "[core]\n"), policy.Safe},
		{"git in a submodule with a filter", "cd sub && git diff", gitFacts("/workspace/sub/.git", "gitdir: ../.git/modules/sub\n", "/workspace/.git/modules/sub/config", evil), policy.Risky},
		{"git in a submodule of another name", "cd sub && git diff", gitFacts("/workspace/sub/.git", "gitdir: ../.git/modules/x\n", "/workspace/.git/modules/x/config", "[core]\n"), policy.Risky},
		{"git in a submodule that is not there", "cd sub && git diff", gitFacts("/workspace/sub/.git", "gitdir: ../.git/modules/sub\n"), policy.Risky},
		{"git in a repository without a tree", "cd x && git show", gitFacts("/workspace/x/HEAD", "ref: refs/heads/main\n", "/workspace/x/config", evil), policy.Risky},
		{"git by a link that leads out", "git diff", policy.Facts{Files: map[string]policy.FileFact{"/workspace/.git": {Exists: true, IsDir: true, Resolved: "/tmp/g"}}}, policy.Risky},
		{"git above a submodule with a filter", "git status", withModules("/workspace/.git/modules/sub/config", evil), policy.Risky},
		{"git above a submodule", "git status", withModules("/workspace/.git/modules/sub/config", "[core]\n\tworktree = ../../../sub\n"), policy.Safe},
		{"git above a submodule of a tree elsewhere", "git status", withModules("/workspace/.git/modules/sub/config", "[core]\n\tworktree = /etc\n"), policy.Risky},
		{"git above a submodule with more settings", "git status", withModules("/workspace/.git/modules/sub/config", "[extensions]\n\tworktreeConfig\n"), policy.Risky},
		{"git above submodules that were not looked at", "git status", gitFacts("/workspace/.git/modules", ""), policy.Risky},
		{"git above one whose repository is elsewhere", "git status", gitFacts("/workspace/.gitmodules", "[submodule \"x\"]\n\tpath = in\n", "/workspace/.git/modules/x/config", "", "/workspace/in/.git", "gitdir: ../g\n", "/workspace/g/config", ""), policy.Risky},
		{"git where a link stands for a head", "cd x && git show", linked(gitFacts(), "/workspace/x/HEAD", "/workspace/x/refs/heads/main"), policy.Risky},
		{"git with another viewer", "git help log", gitConfig("[man \"x\"]\n\tcmd = ./x\n[man]\n\tviewer = x\n"), policy.Risky},
		{"git help by an option", "git --help log", gitConfig("[help]\n\tformat = web\n"), policy.Risky},
		{"git in every directory", "for d in */; do (cd \"$d\" && git log -1); done", linked(gitFacts(), "/workspace/x/HEAD", ""), policy.Risky},
		{"git in every directory, one of which is a repository", "for d in */; do (cd \"$d\" && git status -s); done", inEvery("[core]\n"), policy.Safe},
		{"git in every directory, one of which has a filter", "for d in */; do (cd \"$d\" && git status -s); done", inEvery(evil), policy.Risky},
		{"git in every directory below another", "for d in lib/*/; do (cd \"$d\" && git status -s); done", inEvery(evil), policy.Risky},
		{"git where nothing was looked at", "git diff", policy.Facts{Files: map[string]policy.FileFact{"/workspace/a": {Exists: true}}}, policy.Risky},
		{"git where nothing is", "git diff", gitFacts(), policy.Safe},
		{"git beside a repository that it does not look into", "git status", embedded(evil), policy.Safe},
		{"git into a repository inside", "git describe --always --dirty", embedded("[core]\n"), policy.Safe},
		{"git into a repository inside with a filter", "git describe --always --dirty", embedded(evil), policy.Risky},
		{"git's index into a repository inside with a filter", "git diff-index --name-only HEAD", embedded(evil), policy.Risky},
		{"git told to look into a repository with a filter", "git diff --ignore-submodules=none", embedded(evil), policy.Risky},
		{"git told not to look into a repository with a filter", "git diff-files --ignore-submodules=dirty", embedded(evil), policy.Safe},
		{"git into repositories that were not looked at", "git describe --dirty", gitFacts(), policy.Risky},
		{"a mode that closes a file", "chmod a-x run", policy.Facts{Files: map[string]policy.FileFact{"/workspace/run": {Exists: true}}}, policy.Write},
		{"a mode that closes a directory", "chmod 644 src", policy.Facts{Files: map[string]policy.FileFact{"/workspace/src": {Exists: true, IsDir: true}}}, policy.Risky},
		{"a patch that is known", "patch -p1 < fix.diff", policy.Facts{Files: map[string]policy.FileFact{"/workspace/fix.diff": {Exists: true, Head: []byte("--- a/x.go\n+++ b/x.go\n@@ -1 +1 @@\n-a\n+b\n")}}}, policy.Write},
		{"a patch of protected files", "patch -p1 < fix.diff", policy.Facts{Files: map[string]policy.FileFact{"/workspace/fix.diff": {Exists: true, Head: []byte("--- /dev/null\n+++ b/.git/hooks/pre-commit\n@@ -0,0 +1 @@\n+id\n")}}}, policy.Risky},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			v := p.Judge(tc.command, sandbox(), tc.facts)
			require.Equal(t, tc.want, v.Tier, "%q: %s", tc.command, v.Summary())
		})
	}
}

// withModules are the facts of a workspace with one submodule.
func withModules(config, text string) policy.Facts {
	f := gitFacts("/workspace/.git/modules", "", config, text)
	for _, pat := range []string{"/*", "/*/*", "/*/*/*", "/*/*/*/*"} {
		f.Globs["/workspace/.git/modules"+pat+"/config"] = nil
	}
	f.Globs["/workspace/.git/modules/*/config"] = []string{config}
	return f
}

// embedded are the facts of a repository with another inside, of which it says nothing.
func embedded(text string) policy.Facts {
	f := gitFacts("/workspace/lib/.git", "", "/workspace/lib/.git/config", text)
	f.Files["/workspace/lib/.git"] = policy.FileFact{Exists: true, IsDir: true, Resolved: "/workspace/lib/.git"}
	for _, name := range []string{"config.worktree", "commondir"} {
		f.Files["/workspace/lib/.git/"+name] = policy.FileFact{Resolved: "/workspace/lib/.git/" + name}
	}
	f.Globs = map[string][]string{"/workspace/*/.git": {"/workspace/lib/.git"}, "/workspace/.[!.]*/.git": nil, "/workspace/*/*/.git": nil}
	return f
}

// inEvery are the facts of directories of which two are repositories.
func inEvery(text string) policy.Facts {
	f := embedded(text)
	for _, dir := range []string{"/workspace/x", "/workspace/lib", "/workspace/lib/deep"} {
		for _, name := range []string{".git", ".git/config", ".git/config.worktree", ".git/commondir", ".git/modules", ".gitmodules", "HEAD"} {
			p := dir + "/" + name
			if _, ok := f.Files[p]; !ok {
				f.Files[p] = policy.FileFact{Resolved: p}
			}
		}
		for _, up := range []string{"/workspace", "/workspace/lib"} {
			for _, name := range []string{"config", "config.worktree", "commondir"} {
				p := up + "/.git/modules" + strings.TrimPrefix(dir, up) + "/" + name
				f.Files[p] = policy.FileFact{Resolved: p}
			}
		}
	}
	f.Files["/workspace/lib/deep/.git"] = policy.FileFact{Exists: true, IsDir: true, Resolved: "/workspace/lib/deep/.git"}
	f.Files["/workspace/lib/deep/.git/config"] = policy.FileFact{Exists: true, Resolved: "/workspace/lib/deep/.git/config", Head: []byte(text)}
	f.Globs["/workspace/*"], f.Globs["/workspace/*/*/*/.git"] = []string{"/workspace/lib"}, nil
	f.Globs["/workspace/lib/*"], f.Globs["/workspace/lib/*/.git"] = []string{"/workspace/lib/deep"}, []string{"/workspace/lib/deep/.git"}
	f.Globs["/workspace/lib/*/*/.git"], f.Globs["/workspace/lib/*/*/*/.git"] = nil, nil
	return f
}

// linked is facts with a link more.
func linked(f policy.Facts, path, to string) policy.Facts {
	f.Files[path] = policy.FileFact{Resolved: to}
	return f
}

// gitFacts are those of a workspace where of all that git looks at only these files
// are there, each with its content.
func gitFacts(files ...string) policy.Facts {
	f := policy.Facts{Files: map[string]policy.FileFact{}, Globs: map[string][]string{}}
	for _, command := range []string{"git diff", "cd sub/dir && git diff", "cd x && git show"} {
		for _, p := range policy.Default().Needs(command, sandbox(), policy.Facts{}).Heads {
			f.Files[p] = policy.FileFact{Resolved: p}
		}
	}
	for i := 0; i < len(files); i += 2 {
		f.Files[files[i]] = policy.FileFact{Exists: true, Resolved: files[i], Head: []byte(files[i+1])}
	}
	return f
}

func TestNeedsNameWhatMatters(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	n := p.Needs("cd sub && bash ../s.sh < in; sort *.txt > out; . ./env; ./run; python3 -u app.py; make test; npm test", sandbox(), policy.Facts{})
	require.Subset(t, n.Paths, []string{"/workspace/sub", "/workspace/s.sh", "/workspace/sub/out", "/workspace/sub/env", "/workspace/sub/run"})
	require.Subset(t, n.Heads, []string{"/workspace/s.sh", "/workspace/sub/env", "/workspace/sub/run", "/workspace/sub/app.py", "/workspace/sub/Makefile", "/workspace/sub/package.json"})
	require.Subset(t, n.Globs, []string{"/workspace/sub/*.txt"})
}

func TestOperandsAreWhatTheCommandLineRuns(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	for command, want := range map[string][]string{
		"./run.sh arg":                       {"/workspace/run.sh"},
		"bin/tool":                           {"/workspace/bin/tool"},
		"bash s.sh":                          {"/workspace/s.sh"},
		"sudo timeout 5 sh -e s.sh":          {"/workspace/s.sh"},
		". ./lib.sh":                         {"/workspace/lib.sh"},
		"source lib.sh":                      {"/workspace/lib.sh"},
		"awk -f prog.awk data":               {"/workspace/prog.awk"},
		"sed -f prog.sed data":               {"/workspace/prog.sed"},
		"bash < s.sh":                        {"/workspace/s.sh"},
		"python3 < s.py":                     {"/workspace/s.py"},
		"python3 app.py data.csv":            {"/workspace/app.py"},
		"node x.js":                          {"/workspace/x.js"},
		"make deploy":                        {"/workspace/Makefile"},
		"make -C sub test":                   {"/workspace/sub/Makefile"},
		"make -f other.mk test":              {"/workspace/other.mk"},
		"npm run build":                      {"/workspace/package.json"},
		"cd a && ./b":                        {"/workspace/a/b"},
		"cat file":                           nil,
		"/usr/bin/ls":                        nil,
		"bash -c './x && bash y'":            {"/workspace/x", "/workspace/y"},
		"find . -exec ./x {} ';'":            {"/workspace/x"},
		"if true; then ./x; else ./y; fi":    {"/workspace/x", "/workspace/y"},
		"env -C sub ./x":                     {"/workspace/sub/x"},
		"bash --rcfile rc -i":                {"/workspace/rc"},
		"f() { ./x; }; f":                    {"/workspace/x"},
		"xargs ./x < list":                   {"/workspace/x"},
		"python3 -m pytest tests/test_a.py":  nil,
		"gradle test":                        nil,
		"./gradlew test":                     {"/workspace/gradlew"},
		"perl script.pl && ruby other.rb -v": {"/workspace/other.rb", "/workspace/script.pl"},
	} {
		v := p.Judge(command, sandbox(), policy.Facts{})
		require.Equal(t, want, v.Operands, command)
	}
}

// A shell reads its script while it runs; other programs read what they run whole.
func TestScriptsAreWhatShellsRead(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	for command, want := range map[string][]string{
		"bash s.sh": {"/workspace/s.sh"}, "./s.sh": {"/workspace/s.sh"}, ". ./lib.sh": {"/workspace/lib.sh"}, "sh < s.sh": {"/workspace/s.sh"}, "busybox sh s.sh": {"/workspace/s.sh"},
		"python3 app.py": nil, "make test": nil, "npm test": nil, "awk -f p.awk x": nil,
	} {
		require.Equal(t, want, p.Judge(command, sandbox(), policy.Facts{}).Scripts, command)
	}
}

func TestEnvChangesAreListed(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	v := p.Judge("PATH=/x:$PATH GIT_PAGER=cat CI=1 env LD_PRELOAD=./x.so ls; export BASH_ENV=y", sandbox(), policy.Facts{})
	require.Equal(t, policy.Critical, v.Tier)
	require.Equal(t, []string{"PATH=…", "LD_PRELOAD=./x.so", "BASH_ENV=y"}, v.EnvChanges)
}

// TestIsolationIsAnInputInOnePlace: on a bare host, building and git's reads
// ask; everything else has the tier it has in a sandbox.
func TestIsolationIsAnInputInOnePlace(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	for _, c := range []string{"go test ./...", "npm test", "make build", "cargo check", "pytest", "go vet ./...", "git status", "git log -p", "git diff", "npm run test:unit", "make fmt", "git add x.go"} {
		require.Equal(t, policy.Risky, p.Judge(c, bareHost(), policy.Facts{}).Tier, c)
		require.LessOrEqual(t, p.Judge(c, sandbox(), policy.Facts{}).Tier, policy.Write, c)
	}
	for _, c := range allCommands(t) {
		in, out := p.Judge(c, sandbox(), policy.Facts{}), p.Judge(c, bareHost(), policy.Facts{})
		if in.Tier == out.Tier {
			continue
		}
		require.Equal(t, policy.Risky, out.Tier, c)
		confined := strings.Contains(out.Summary(), "nothing confines it here") || strings.Contains(out.Summary(), "repository's index")
		require.True(t, confined, "%q is %s, and %s on a bare host: %s", c, in.Tier, out.Tier, out.Summary())
	}
}

func TestInstallsAreRecognised(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	for _, c := range []string{"npm ci", "npm install", "pip install -r requirements.txt", "apt-get install -y jq", "sudo apt-get update && sudo apt-get install -y jq", "go get example.com/x", "cargo install x", "bundle install", "poetry install", "uv sync", "yarn", "pnpm i", "python3 -m pip install x", "brew install x", "apk add jq", "timeout 600 npm ci"} {
		v := p.Judge(c, sandbox(), policy.Facts{})
		require.True(t, v.PackageInstall, c)
		require.Equal(t, policy.Risky, v.Tier, c)
	}
	require.False(t, p.Judge("npm test", sandbox(), policy.Facts{}).PackageInstall)
}

func TestWritesByFileTools(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	for path, want := range map[string]policy.Tier{
		"/workspace/main.go": policy.Write, "main.go": policy.Write, "a/../b.go": policy.Risky, "/workspace/.git/config": policy.Risky, ".github/workflows/ci.yml": policy.Risky,
		"../x": policy.Risky, "/etc/passwd": policy.Critical, "/home/agent/.bashrc": policy.Risky, "/home/agent/.ssh/authorized_keys": policy.Critical, "": policy.Risky, "a\x00b": policy.Risky,
		"a\u202eb": policy.Risky, "sub/.env": policy.Risky, ".env.example": policy.Write, "/dev/sda": policy.Forbidden, "/tmp/x": policy.Risky, "*": policy.Write, "-rf": policy.Write, "~/x": policy.Write,
		"/proc/sys/kernel/core_pattern": policy.Forbidden,
	} {
		require.Equal(t, want, p.JudgeWrite(path, []byte("x"), sandbox(), policy.Facts{}).Tier, "%q", path)
	}
	v := p.JudgeWrite("docs/x", nil, sandbox(), policy.Facts{Files: map[string]policy.FileFact{"/workspace/docs": {Exists: true, IsDir: true, Resolved: "/workspace/.git/hooks"}}})
	require.Equal(t, policy.Risky, v.Tier)
	require.Equal(t, []string{"/workspace/.git/hooks/x", "/workspace/docs/x"}, v.Paths)

	v = p.JudgeWrite(".envrc", []byte("export A=1\n\u202eb"), sandbox(), policy.Facts{})
	require.Equal(t, "write_file .envrc (15 bytes)\nexport A=1\n\\u202eb", v.Display, "what is asked about is shown")
	require.True(t, v.Displayable)
	require.False(t, p.JudgeWrite(".envrc", []byte(strings.Repeat("x\n", 40_000)), sandbox(), policy.Facts{}).Displayable)
}

func TestTextToRunningCommands(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	for _, tc := range []struct {
		program, text string
		want          policy.Tier
	}{
		{"bash", "ls\n", policy.Safe}, {"/bin/bash", "ls\npwd\n", policy.Safe}, {"bash", "ls", policy.Risky}, {"bash", "rm -rf /\n", policy.Forbidden}, {"sh", "rm -rf build\n", policy.Risky},
		{"bash", "echo x > f\n", policy.Risky}, {"bash", "$x\n", policy.Risky}, {"bash", "$1\n", policy.Risky}, {"python3", "print(1)\n", policy.Risky}, {"python3", "import os; os.system('rm -rf /')\n", policy.Forbidden},
		{"psql", "DROP TABLE users;\n", policy.Critical}, {"psql", "select 1;\n", policy.Risky}, {"unknown", "y\n", policy.Risky}, {"bash", "", policy.Safe}, {"bash", "if true\n", policy.Risky}, {"bash", "\x03\n", policy.Risky},
		{"bash -s --norc", "ls\n", policy.Safe}, {"bash -c 'read f; cat \"$f\"'", "ls\n", policy.Risky}, {"bash script", "ls\n", policy.Risky}, {"bash -x", "ls\n", policy.Risky},
		{"./bash", "ls\n", policy.Risky}, {"env bash", "ls\n", policy.Risky}, {"X=1 bash", "ls\n", policy.Risky}, {"bash; cat", "ls\n", policy.Risky}, {"bash | tee log", "ls\n", policy.Risky},
		{"bash", "ls() { rm -rf ~; }\n", policy.Critical}, {"bash", "alias ls='rm -rf ~'\n", policy.Critical}, {"bash", "python3\n", policy.Risky},
	} {
		v := p.JudgeStdin(p.Reader(tc.program, policy.ShellBash), tc.text, sandbox(), policy.Facts{})
		require.Equal(t, tc.want, v.Tier, "%s %q: %s", tc.program, tc.text, v.Summary())
	}
}

// On a terminal nothing but a rule lets text pass unasked, and that only whole lines
// without keys; what is worse than risky stays so.
func TestTextToTerminals(t *testing.T) {
	t.Parallel()
	p, _, err := policy.Load([]byte("stdin: [{program: psql, tier: write}]"), "policy.yaml")
	require.NoError(t, err)
	for _, tc := range []struct {
		program, text string
		want          policy.Tier
	}{
		{"bash", "ls\n", policy.Risky}, {"sh", "\n", policy.Risky}, {"bash", "rm -rf /\n", policy.Forbidden}, {"bash --noediting --norc", "rm -rf /\n", policy.Forbidden},
		{"cat", "ls\n", policy.Risky}, {"less f", "!ls\n", policy.Risky}, {"bash; cat", "ls\n", policy.Risky},
		{"psql", "select 1;\n", policy.Write}, {"psql", "select 1;\nselect 'ä';\n", policy.Write}, {"psql", "", policy.Write},
		{"psql", "select 1;", policy.Risky}, // what comes next is part of it
		{"psql", "drop\x15select 1;\n", policy.Risky}, {"psql", "droq\x7fp table x;\n", policy.Risky}, {"psql", "droq\bp table x;\n", policy.Risky}, {"psql", "x\x17y\n", policy.Risky},
		{"psql", "\x1b[A\n", policy.Risky}, {"psql", "\u009bA\n", policy.Risky}, {"psql", "\x1b[200~select 1;\x1b[201~\n", policy.Risky}, {"psql", "dr\t\n", policy.Risky},
		{"psql", "select 1;\r", policy.Risky}, {"psql", "\x12drop\n", policy.Risky}, {"psql", "\x10\n", policy.Risky}, {"psql", "\x1a\n", policy.Risky}, {"psql", "\x16\x03\n", policy.Risky},
		{"psql", "select 1;\n\x04", policy.Risky}, {"psql", "a\x00\n", policy.Risky}, {"psql", "a\xff\n", policy.Risky}, {"psql", "\x1e\n", policy.Risky},
	} {
		to := p.Reader(tc.program, policy.ShellBash)
		to.Terminal = true
		v := p.JudgeStdin(to, tc.text, sandbox(), policy.Facts{})
		require.Equal(t, tc.want, v.Tier, "%s %q: %s", tc.program, tc.text, v.Summary())
	}
}

// A shell that has run other text keeps what that did: no text runs unasked that
// means something else because of it, or that changes what later text means.
func TestTextMeansWhatItSaysInAnyShell(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	to := p.Reader("bash", policy.ShellBash)
	require.True(t, to.Script)
	for _, text := range []string{
		"find . \\\n", // and "echo -delete" next
		"ls # \\\n", "exec < /workspace/f\n", "exec 0<&3\n", "exec <<<'rm x'\n", "exec 3<&0\n", "command exec < /workspace/f\n",
		"eval 'exec < /workspace/f'\n", "{ exec < /workspace/f; }\n", "exec cat\n", // what reads next is another
		"echo x > /dev/stdin\n", "cat /workspace/f > /dev/fd/0\n", "cat /workspace/f | tee /proc/self/fd/0\n", "echo x 3<>/dev/stdin >&3\n",
		"echo $((x))\n", "(( x ))\n", "[[ x -eq 1 ]]\n", "let x\n", "a[x]=1\n", "echo ${s:x}\n", "echo $((x[0]))\n", // x='a[$(rm y)]' before
		"foo() { ls; }\n", "command_not_found_handle() { ls; }\n",
		"git diff\n", "git status\n", // after cd to another repository
		"echo x > /workspace/f\n", // which may be a link
	} {
		v := p.JudgeStdin(to, text, sandbox(), policy.Facts{})
		require.GreaterOrEqual(t, v.Tier, policy.Risky, "%q", text)
	}
	require.Equal(t, policy.Forbidden, p.JudgeStdin(to, "foo() { rm -rf /; }\n", sandbox(), policy.Facts{}).Tier)
	for _, text := range []string{"ls\n", "cd /workspace/x\n", "x=1; echo $((x+1))\n", "for i in 1 2; do echo $((i)); done\n", "cat x | grep -n y\n", "ls \\\n  -l\n"} {
		v := p.JudgeStdin(to, text, sandbox(), policy.Facts{})
		require.Equal(t, policy.Safe, v.Tier, "%q: %s", text, v.Summary())
	}
	require.False(t, p.Reader("bash -i", policy.ShellBash).Script, "it expands its history: `echo \"!!\"` may run anything")
}

// A patch is as risky as what it does to its riskiest file, by where that leads.
func TestJudgeChanges(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	for path, want := range map[string][2]policy.Tier{ // to write, to remove
		"/workspace/a.go":         {policy.Write, policy.Write},
		"/workspace/.env":         {policy.Risky, policy.Risky},
		"/workspace/.git/hooks/x": {policy.Risky, policy.Risky},
		"/workspace/docs/x":       {policy.Risky, policy.Risky},
		"/workspace/ab\u202ec":    {policy.Risky, policy.Risky},
		"/workspace/nul\x00":      {policy.Risky, policy.Risky},
		"/etc/passwd":             {policy.Critical, policy.Critical},
		"":                        {policy.Risky, policy.Risky},
	} {
		facts := policy.Facts{Files: map[string]policy.FileFact{"/workspace/docs": {Exists: true, IsDir: true, Resolved: "/workspace/.git/hooks"}}}
		for i, remove := range []bool{false, true} {
			v := p.JudgeChanges([]policy.FileChange{{Path: "/workspace/ok"}, {Path: path, Remove: remove}}, "apply_patch x\n+y", sandbox(), facts)
			require.Equal(t, want[i], v.Tier, "%q %v", path, remove)
			require.Equal(t, "apply_patch x\n+y", v.Display)
		}
	}
	long := p.JudgeChanges([]policy.FileChange{{Path: "/workspace/ok"}}, strings.Repeat("x", 100_000), sandbox(), policy.Facts{})
	require.False(t, long.Displayable)
	require.Equal(t, policy.Risky, long.Tier, "what cannot be shown whole is asked about")
}
