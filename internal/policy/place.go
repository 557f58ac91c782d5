package policy

import (
	"path"
	"strings"
)

// place is where a path is, as far as it matters to the gate.
type place int

const (
	placeWorkspace place = iota // in the workspace
	placeRoot                   // the workspace itself
	placeScratch                // a directory that the policy lends to commands
	placeNull                   // /dev/null, /dev/stdout and kin
	placeProtected              // in the workspace, but changes what runs or is checked
	placeOutside                // elsewhere: /tmp, below the home directory, unknown to the table
	placeStartup                // run or read by every shell or login: dotfiles of the home directory
	placeKeys                   // credentials
	placeHome                   // the home directory itself, or somebody's
	placeAbove                  // holds the workspace
	placeSystem                 // in a directory of the system
	placeSystemTop              // a directory of the system itself, or the root
	placeKernel                 // /proc and /sys
	placeDevice                 // a disk, or memory
)

// systemDirs are the system's directories. Deleting one destroys the host.
var systemDirs = []string{
	"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys", "/usr", "/var",
	"/System", "/Library", "/Applications", "/private",
}

// otherDirs hold others' files; deleting one whole is irreversible harm.
var otherDirs = []string{"/home", "/opt", "/srv", "/mnt", "/media", "/tmp", "/Users", "/Volumes", "/usr/local", "/var/tmp", "/var/lib"}

// protectedNames are files and directories that change what runs or is checked
// although they lie in the workspace, by name at any depth. A name that ends in
// "/" is a directory; "*" stands for anything.
var protectedNames = []string{
	".git/", ".git", ".github/", ".gitlab/", ".gitlab-ci.yml", ".circleci/", ".buildkite/", ".woodpecker/", ".woodpecker.yml", ".drone.yml",
	".travis.yml", ".appveyor.yml", "appveyor.yml", "azure-pipelines.yml", "bitbucket-pipelines.yml", "Jenkinsfile", ".jenkins/", ".tekton/", ".teamcity/",
	".env", ".env.*", ".envrc", ".husky/", ".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml", ".lefthook/", ".githooks/",
	".gitattributes", ".gitmodules", ".gitconfig", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".pypirc", ".netrc",
	".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".inputrc", ".vimrc", ".exrc",
	".ssh/", ".gnupg/", ".aws/", ".kube/", ".docker/", ".vscode/", ".idea/", ".devcontainer/", ".cargo/", ".mcp.json", ".claude/", ".cursor/", ".codex/",
	"gradlew", "gradlew.bat", "mvnw", "mvnw.cmd", "gradle-wrapper.properties", "gradle-wrapper.jar", ".mvn/",
	"mise.toml", ".mise.toml", ".mise/", ".mise.*", ".bazelrc", ".bazelversion", ".bazeliskrc", ".yarn/",
	"sitecustomize.py", "usercustomize.py", "*.pth", "rust-toolchain", "rust-toolchain.*", "pip.conf", ".gdbinit",
	".lldbinit", ".nvim.lua", ".nvimrc", ".psqlrc", ".terraformrc", ".hg/", ".hgrc", ".jj/", ".svn/",
	".aider.conf.yml", ".gemini/", ".windsurf/", ".windsurfrules", ".cursorrules", ".zed/", "CLAUDE.md", "AGENTS.md",
	"GEMINI.md", "*.env", ".cirrus.yml", ".gitea/", ".forgejo/", ".semaphore/", "cloudbuild.yaml", "cloudbuild.yml",
	"buildspec.yml", "buildspec.yaml",
	"wercker.yml", ".build.yml", ".builds/", ".sourcehut.yml", ".azure-pipelines/", ".gitlab-ci.d/", "renovate.json",
	".renovaterc", ".renovaterc.json", "dependabot.yml",
	"CODEOWNERS", ".ripgreprc", ".curlrc", ".wgetrc", ".direnv/", ".tool-versions", "policy.yaml", "countersign.yaml", ".countersign/",
}

// protectedPairs are protected by a name in a directory of a name. Where package
// managers put a project's tools, each stands for the tool of its name.
var protectedPairs = []string{"tools/bazel", ".config/git", ".config/mise", ".config/pip", "node_modules/.bin", ".venv/bin", "venv/bin", "vendor/bin"}

// startupNames are read by shells and logins from the home directory.
var startupNames = []string{
	".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout",
	".inputrc", ".vimrc", ".exrc", ".gitconfig", ".config", ".local/bin", ".pam_environment", ".xprofile", ".xinitrc",
	".login", ".cshrc", ".tcshrc", ".emacs", ".npmrc",
}

// keyNames hold credentials, below the home directory or anywhere.
var keyNames = []string{
	".ssh", ".aws", ".gnupg", ".kube", ".docker/config.json", ".netrc", ".git-credentials", ".pypirc", ".npmrc",
	".config/gcloud", ".config/gh", ".config/git/credentials",
	".azure", ".vault-token", ".password-store", ".config/op", ".terraform.d/credentials.tfrc.json",
	".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials",
	".m2/settings.xml", ".pgpass", ".my.cnf", ".bash_history", ".zsh_history", ".python_history", ".psql_history",
	".mysql_history", ".config/rclone", ".oci", ".config/hub", ".s3cfg", ".boto", ".mozilla", ".config/google-chrome",
	".local/share/keyrings", ".docker/.token_seed", ".composer/auth.json", ".config/doctl", ".fly/config.yml", ".config/countersign",
}

// keyFiles are base names of credentials wherever they are.
var keyFiles = []string{
	"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "authorized_keys", ".env", ".netrc", ".pgpass", ".git-credentials",
	".htpasswd", "credentials.json", "service-account.json",
	"kubeconfig", "secrets.yaml", "secrets.yml", "secrets.json", "wallet.dat", ".pypirc", ".vault-token",
}

func (s *scope) inWorkspace(p string) bool {
	ws := s.j.env.Workspace
	return ws != "" && ws != "/" && strings.HasPrefix(p, ws) && len(p) > len(ws) && p[len(ws)] == '/'
}

// placeOf classifies an absolute, cleaned path.
func (s *scope) placeOf(p string) place {
	ws, home := s.j.env.Workspace, s.j.env.Home
	if s.remote == "" {
		switch {
		case p == ws && ws != "/" && ws != "":
			return placeRoot
		case s.inWorkspace(p):
			if s.protected(p[len(ws)+1:]) {
				return placeProtected
			}
			return placeWorkspace
		case s.j.p.scratch(p):
			return placeScratch
		}
	}
	if pl, ok := deviceOf(p); ok {
		return pl
	}
	switch {
	case p == "/":
		return placeSystemTop
	case ws != "" && strings.HasPrefix(ws, p+"/"):
		if in(systemDirs, p) {
			return placeSystemTop
		}
		return placeAbove
	case home != "" && p == home:
		return placeHome
	case home != "" && strings.HasPrefix(p, home+"/"):
		return homePlace(p[len(home)+1:])
	case strings.HasPrefix(p, "/root/"):
		return homePlace(p[len("/root/"):])
	case in(systemDirs, p):
		return placeSystemTop
	case in(otherDirs, p):
		return placeHome
	}
	return systemPlace(p)
}

// protectedFile reports whether a name is protected as that of a file, and not by a
// leading dot.
func protectedFile(name string) bool { return name != "" && name[0] != '.' && in(protectedNames, name) }

func systemPlace(p string) place {
	switch {
	case strings.HasPrefix(p, "/tmp/"), strings.HasPrefix(p, "/var/tmp/"), strings.HasPrefix(p, "/private/tmp/"):
		return placeOutside
	case strings.HasPrefix(p, "/home/"), strings.HasPrefix(p, "/Users/"):
		rest := p[strings.IndexByte(p[1:], '/')+2:]
		i := strings.IndexByte(rest, '/')
		if i < 0 {
			return placeHome
		}
		return homePlace(rest[i+1:])
	case strings.HasPrefix(p, "/run/secrets"), strings.HasPrefix(p, "/var/run/secrets"):
		return placeKeys
	}
	for _, d := range systemDirs {
		if strings.HasPrefix(p, d+"/") {
			return placeSystem
		}
	}
	return placeOutside
}

func homePlace(rest string) place {
	for _, n := range keyNames {
		if rest == n || strings.HasPrefix(rest, n+"/") {
			return placeKeys
		}
	}
	for _, n := range startupNames {
		if rest == n || strings.HasPrefix(rest, n+"/") {
			return placeStartup
		}
	}
	return placeOutside
}

// deviceOf classifies what lies in /dev, /proc and /sys.
func deviceOf(p string) (place, bool) {
	switch {
	case strings.HasPrefix(p, "/dev/"):
		n := p[len("/dev/"):]
		switch {
		case n == "null", n == "zero", n == "full", n == "stdout", n == "stderr", n == "stdin", n == "tty", n == "random", n == "urandom", strings.HasPrefix(n, "fd/"):
			return placeNull, true
		case n == "shm" || strings.HasPrefix(n, "shm/"), strings.HasPrefix(n, "pts/"), strings.HasPrefix(n, "tcp/"), strings.HasPrefix(n, "udp/"):
			return placeOutside, true
		}
		return placeDevice, true
	case strings.HasPrefix(p, "/proc/"), strings.HasPrefix(p, "/sys/"):
		if strings.HasPrefix(p, "/proc/self/fd/") {
			return placeNull, true
		}
		return placeKernel, true
	}
	return 0, false
}

// protected reports whether a path below the workspace is protected.
func (s *scope) protected(rel string) bool {
	given := rel
	rel = strings.ToLower(rel)
	for _, part := range strings.Split(rel, "/") {
		if s.j.p.protectedPart(part) {
			return true
		}
	}
	if !strings.Contains(rel, "tools/") && !strings.Contains(rel, ".config/") && !strings.Contains(rel, "bin") {
		return s.j.p.protectedPath(given)
	}
	for _, two := range protectedPairs {
		if strings.Contains("/"+rel+"/", "/"+two+"/") {
			return true
		}
	}
	return s.j.p.protectedPath(given)
}

// secret says whether reading a path gives away credentials.
func (s *scope) secret(p string) bool {
	if c := withoutCopy(p); c != p {
		return s.secret(c)
	}
	base := path.Base(p)
	if strings.HasPrefix(base, ".env.") && !in([]string{".env.example", ".env.sample", ".env.template", ".env.dist"}, base) {
		return true
	}
	if in(keyFiles, base) || (strings.HasSuffix(base, ".pem") && !strings.Contains(base, "cert") && !strings.Contains(base, "ca")) ||
		strings.HasSuffix(base, ".key") || strings.HasSuffix(base, ".p12") || strings.HasSuffix(base, ".pfx") || strings.HasSuffix(base, ".kdbx") {
		return true
	}
	switch {
	case p == "/etc/shadow", p == "/etc/gshadow", p == "/etc/sudoers", strings.HasPrefix(p, "/etc/shadow"), strings.HasPrefix(p, "/etc/sudoers.d"),
		strings.HasPrefix(p, "/etc/ssl/private"), strings.HasPrefix(p, "/etc/ssh/ssh_host_"), strings.HasPrefix(p, "/etc/kubernetes"):
		return true
	case strings.HasPrefix(p, "/proc/"):
		return procSecret(p)
	}
	if s.inWorkspace(p) {
		return keysInside(p[len(s.j.env.Workspace):])
	}
	return s.placeOf(p) == placeKeys
}

// copyEnds are what the names of copies and packed files end in.
var copyEnds = []string{".gz", ".bz2", ".xz", ".zst", ".lz4", ".lzma", ".Z", ".br", ".bak", ".old", ".orig", ".save", ".swp", "~"}

// withoutCopy is the name of the file that one is a copy of, by its own name.
func withoutCopy(p string) string {
	for _, end := range copyEnds {
		if c, ok := strings.CutSuffix(p, end); ok && c != "" && !strings.HasSuffix(c, "/") {
			return c
		}
	}
	return p
}

// keysInside reports whether a path below the workspace is one where programs keep
// credentials in a home directory. Settings of npm are kept in most projects.
func keysInside(rel string) bool {
	if !strings.Contains(rel, "/.") {
		return false
	}
	for _, n := range keyNames {
		if n != ".npmrc" && strings.Contains(rel+"/", "/"+n+"/") {
			return true
		}
	}
	return false
}

// procSecret: a process's environment and memory, and what it can reach.
func procSecret(p string) bool {
	parts := strings.Split(strings.TrimPrefix(p, "/proc/"), "/")
	if len(parts) < 2 {
		return parts[0] == "kcore" || parts[0] == "keys"
	}
	switch parts[len(parts)-1] {
	case "environ", "mem", "auxv", "maps", "stack":
		return true
	}
	for _, q := range parts[1:] {
		if q == "root" || q == "cwd" || q == "fd" || q == "environ" || q == "mem" {
			return parts[0] != "self" || q != "fd"
		}
	}
	return false
}

// openFiles reports whether a path is where a process's open files are listed.
func openFiles(p string) bool {
	ok, _ := path.Match("/proc/*/fd", p)
	return ok
}

func in(list []string, s string) bool {
	for _, have := range list {
		if have == s {
			return true
		}
	}
	return false
}

// globSamples are paths that a pattern is tried on, to find out whether it
// reaches what matters without looking at any file system.
func (s *scope) globSamples() []string {
	env := s.j.env
	out := make([]string, 0, 64)
	out = append(out, systemDirs...)
	out = append(out, otherDirs...)
	out = append(out, "/etc/passwd", "/etc/shadow", "/etc/sudoers", "/etc/hosts", "/etc/profile", "/etc/crontab", "/dev/sda", "/dev/sda1", "/dev/nvme0n1", "/dev/vda", "/dev/mem",
		"/proc/self/environ", "/proc/1/environ", "/proc/sysrq-trigger", "/usr/bin", "/usr/lib", "/bin/sh", "/run/secrets", "/run/secrets/token", "/var/run/docker.sock", "/run/docker.sock")
	for _, home := range []string{env.Home, "/root"} {
		if home == "" || home == "/" {
			continue
		}
		out = append(out, home)
		for _, n := range []string{
			".ssh", ".ssh/id_rsa", ".ssh/id_ed25519", ".ssh/authorized_keys", ".aws", ".aws/credentials", ".bashrc",
			".profile", ".netrc", ".kube/config", ".docker/config.json", ".git-credentials", ".npmrc",
			".config/gh/hosts.yml", ".gnupg",
		} {
			out = append(out, home+"/"+n)
		}
	}
	if ws := env.Workspace; ws != "" && ws != "/" {
		out = append(out, ws)
		for _, n := range []string{
			".git", ".git/config", ".git/hooks", ".git/hooks/pre-commit", ".env", ".env.local", ".github",
			".github/workflows", ".github/workflows/ci.yml", ".gitlab-ci.yml", ".envrc", ".husky", "Jenkinsfile",
			".npmrc", ".gitattributes", "CODEOWNERS", "azure-pipelines.yml", "bitbucket-pipelines.yml", "appveyor.yml",
			"lefthook.yml", "policy.yaml", "countersign.yaml",
		} {
			out = append(out, ws+"/"+n)
		}
	}
	return out
}

// globMatch reports whether a shell pattern matches a string. With slash, "*"
// matches "/" too.
func globMatch(pat, s string, slash bool) bool {
	return globAt(pat, s, slash, 0, new(int))
}

func globAt(pat, s string, slash bool, depth int, steps *int) bool {
	for len(pat) > 0 {
		if *steps++; *steps > 20_000 || depth > 64 {
			return true // too hard to say: taken as a match
		}
		switch pat[0] {
		case '*':
			for len(pat) > 0 && pat[0] == '*' {
				pat = pat[1:]
			}
			for i := 0; ; i++ {
				if globAt(pat, s[i:], slash, depth+1, steps) {
					return true
				}
				if i >= len(s) || (s[i] == '/' && !slash) {
					return false
				}
			}
		case '?':
			if s == "" || (s[0] == '/' && !slash) {
				return false
			}
			pat, s = pat[1:], s[1:]
		case '[':
			n, ok := classMatch(pat, s)
			if n == 0 {
				if s == "" || s[0] != '[' {
					return false
				}
				pat, s = pat[1:], s[1:]
				continue
			}
			if !ok {
				return false
			}
			pat, s = pat[n:], s[1:]
		default:
			if pat[0] == '\\' && len(pat) > 1 {
				pat = pat[1:]
			}
			if s == "" || s[0] != pat[0] {
				return false
			}
			pat, s = pat[1:], s[1:]
		}
	}
	return s == ""
}

// classMatch matches a bracket expression and returns its length, 0 when it is
// not one.
func classMatch(pat, s string) (n int, ok bool) {
	i, not := 1, false
	if i < len(pat) && (pat[i] == '!' || pat[i] == '^') {
		not = true
		i++
	}
	found := false
	for first := true; ; first = false {
		if i >= len(pat) {
			return 0, false
		}
		if pat[i] == ']' && !first {
			break
		}
		if pat[i] == '[' && i+1 < len(pat) && (pat[i+1] == ':' || pat[i+1] == '.' || pat[i+1] == '=') {
			if e := strings.Index(pat[i+2:], string(pat[i+1])+"]"); e >= 0 {
				found = true // a named class: taken as a match
				i += e + 4
				continue
			}
		}
		if pat[i] == '\\' && i+1 < len(pat) {
			i++
		}
		lo := pat[i]
		hi := lo
		if i+2 < len(pat) && pat[i+1] == '-' && pat[i+2] != ']' {
			hi = pat[i+2]
			i += 2
		}
		if s != "" && lo <= s[0] && s[0] <= hi {
			found = true
		}
		i++
	}
	if s == "" || s[0] == '/' {
		return i + 1, false
	}
	return i + 1, found != not
}
