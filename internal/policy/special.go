package policy

import "strings"

// A special variable changes what runs: the loader, the shell, or a program
// that everything calls reads it. Setting one asks, unless its value is known
// to change nothing.

// specialNames maps a variable, or a prefix ending in "*", to what it does.
var specialNames = map[string]string{
	"PATH": "which programs are found", "CDPATH": "where `cd` goes", "IFS": "how words are split",
	"BASH_ENV": "what every bash runs at its start", "ENV": "what every sh runs at its start",
	"PS4": "what tracing runs", "PS0": "what a prompt runs", "PS1": "what a prompt runs", "PS2": "what a prompt runs",
	"PROMPT_COMMAND": "what a prompt runs", "SHELLOPTS": "the shell's options", "BASHOPTS": "the shell's options",
	"GLOBIGNORE": "what patterns match", "EXECIGNORE": "which programs are found", "FPATH": "where functions are loaded from",
	"HOME": "where programs find their settings", "ZDOTDIR": "what every zsh runs at its start",
	"XDG_*": "where programs find their settings", "SHELL": "which shell programs start", "HISTFILE": "the shell's record",
	"PAGER": "what programs run to show text", "MANPAGER": "what programs run to show text",
	"EDITOR": "what programs run to edit", "VISUAL": "what programs run to edit", "BROWSER": "what programs run to browse",
	"SUDO_*": "what sudo runs", "LESS": "what less runs", "LESSOPEN": "what less runs", "LESSCLOSE": "what less runs",
	"MANOPT": "what man runs", "TERMINFO": "where terminals are described", "INPUTRC": "how the shell reads keys",
	"MAIL*": "how mail is watched", "TMPDIR": "where programs put files", "LOCPATH": "where locales are loaded from",
	"NLSPATH": "where messages are loaded from", "HOSTALIASES": "where hosts are found", "RES_OPTIONS": "where hosts are found",
	"GIT_*": "what git runs", "SSH_*": "what ssh runs", "SSHPASS": "a password", "RSYNC_*": "what rsync runs",
	"CVS_RSH": "what cvs runs", "SVN_SSH": "what svn runs", "HGRCPATH": "what hg runs",
	"PYTHON*": "what python loads", "PERL*": "what perl loads", "RUBY*": "what ruby loads", "GEM_*": "what ruby loads",
	"BUNDLE_*": "what ruby loads", "NODE_OPTIONS": "what node loads", "NODE_PATH": "what node loads",
	"NPM_CONFIG_*": "what npm runs", "npm_config_*": "what npm runs", "YARN_*": "what yarn runs",
	"JAVA_TOOL_OPTIONS": "what java loads", "_JAVA_OPTIONS": "what java loads", "JDK_JAVA_OPTIONS": "what java loads",
	"CLASSPATH": "what java loads", "MAVEN_*": "what maven loads", "GRADLE_*": "what gradle loads",
	"PHPRC": "what php loads", "PHP_*": "what php loads", "LUA_*": "what lua loads", "R_*": "what R loads",
	"JULIA_*": "what julia loads", "AWKPATH": "what awk loads", "AWKLIBPATH": "what awk loads",
	"MAKE*": "what make runs", "GNUMAKEFLAGS": "what make runs", "MFLAGS": "what make runs",
	"CFLAGS": "what compilers load", "CXXFLAGS": "what compilers load", "CPPFLAGS": "what compilers load",
	"LDFLAGS": "what linkers load", "FFLAGS": "what compilers load", "LDLIBS": "what linkers load",
	"CC": "which compiler runs", "CXX": "which compiler runs", "LD": "which linker runs", "AR": "which tools run",
	"AS": "which tools run", "CPP": "which tools run", "RUSTC*": "which compiler runs", "RUSTFLAGS": "which tools run",
	"CARGO_*": "what cargo runs", "GOFLAGS": "what go runs", "GOENV": "what go runs", "GOTOOLCHAIN": "which go runs",
	"GOROOT": "which go runs", "GOPATH": "where go finds code", "GOBIN": "where go puts programs", "GOPROXY": "where go finds code",
	"GOPRIVATE": "where go finds code", "GONOSUMDB": "which code go trusts", "GONOSUMCHECK": "which code go trusts",
	"GOINSECURE": "which code go trusts", "GOSUMDB": "which code go trusts", "GOVCS": "what go runs", "GOWORK": "where go finds code",
	"CGO_*": "what go runs", "GOCACHEPROG": "what go runs", "GCC_EXEC_PREFIX": "which compiler runs", "COMPILER_PATH": "which compiler runs",
	"LIBRARY_PATH": "what is linked", "C_INCLUDE_PATH": "what is compiled", "CPATH": "what is compiled", "PKG_CONFIG*": "what is linked",
	"PIP_*": "what pip installs", "UV_*": "what uv installs", "POETRY_*": "what poetry installs", "CONDA_*": "what conda runs",
	"VIRTUAL_ENV": "which python runs", "PYTEST_*": "what pytest loads", "TOX_*": "what tox runs",
	"GREP_OPTIONS": "what grep does", "TAR_OPTIONS": "what tar does", "RIPGREP_CONFIG_PATH": "what rg runs",
	"FZF_*": "what fzf runs", "BAT_*": "what bat runs", "JQ_LIBRARY_PATH": "what jq loads",
	"VIMINIT": "what vim runs", "EXINIT": "what vim runs", "VIM": "what vim runs", "VIMRUNTIME": "what vim runs", "MYVIMRC": "what vim runs",
	"DOCKER_*": "which docker is meant", "CONTAINER_HOST": "which docker is meant", "BUILDX_*": "which docker is meant", "COMPOSE_*": "which docker is meant",
	"KUBECONFIG": "which cluster is meant", "KUBE_*": "which cluster is meant", "HELM_*": "which cluster is meant",
	"AWS_*": "which account is meant", "GOOGLE_*": "which account is meant", "CLOUDSDK_*": "which account is meant",
	"AZURE_*": "which account is meant", "TF_*": "what terraform does", "VAULT_*": "which vault is meant",
	"PGHOST": "which database is meant", "PGHOSTADDR": "which database is meant", "PGSERVICE": "which database is meant",
	"PGPASSWORD": "a password", "MYSQL_*": "which database is meant", "DATABASE_URL": "which database is meant",
	"http_proxy": "where traffic goes", "https_proxy": "where traffic goes", "all_proxy": "where traffic goes", "ftp_proxy": "where traffic goes",
	"HTTP_PROXY": "where traffic goes", "HTTPS_PROXY": "where traffic goes", "ALL_PROXY": "where traffic goes",
	"SSL_CERT_*": "which servers are trusted", "REQUESTS_CA_BUNDLE": "which servers are trusted", "CURL_*": "what curl does",
	"WGETRC": "what wget does", "NODE_TLS_REJECT_UNAUTHORIZED": "which servers are trusted", "NODE_EXTRA_CA_CERTS": "which servers are trusted",
	"OPENSSL_*": "what openssl loads", "GNUPGHOME": "which keys are used", "SYSTEMD_*": "what systemd runs", "PYENV_*": "what pyenv runs", "RBENV_*": "what rbenv runs", "GOENV_*": "what goenv runs", "NODENV_*": "what nodenv runs",
	"DBUS_*":    "what is talked to, and may be a command",
	"ANSIBLE_*": "what ansible runs", "COMP_*": "what completion runs", "COMPREPLY": "what completion runs", "READLINE_*": "the shell's input",
	"MALLOC_*": "how memory is handled", "GLIBC_TUNABLES": "how programs are loaded", "GTK_*": "what programs load", "QT_*": "what programs load",
	"LD_*": "what every program loads", "DYLD_*": "what every program loads", "GCONV_PATH": "what every program loads",
	"DOTNET_*": "what dotnet loads", "CORECLR_*": "what dotnet loads", "JAVA_HOME": "which java runs",
	"JAVACMD": "which java runs", "JAVA_OPTS": "what java loads", "SBT_*": "what sbt runs",
	"RUSTDOC*": "what cargo runs", "RUSTUP_*": "what cargo runs", "CARGO": "what cargo runs",
	"CC_*": "which compiler runs", "CXX_*": "which compiler runs", "HOST_*": "which compiler runs",
	"TARGET_*": "which compiler runs", "FC": "which compiler runs",
	"CMAKE_*": "what cmake runs", "CCACHE_*": "what ccache runs", "LLVM_*": "what tools load",
	"ASAN_*": "what tools load", "TSAN_*": "what tools load", "UBSAN_*": "what tools load", "LSAN_*": "what tools load",
	"MSAN_*": "what tools load",
	"BUN_*":  "what bun runs", "TS_NODE_*": "what node loads", "NODE_V8_*": "where node writes",
	"SPEC_OPTS": "what rspec loads", "MIX_*": "what mix runs", "ERL_*": "what erlang loads",
	"ELIXIR_*": "what elixir loads",
	"JUST_*":   "what just runs", "COVERAGE_*": "what coverage loads", "M2_*": "what maven loads", "STACK_*": "what stack runs",
	"GOCOVERDIR": "where go writes", "GOCACHE": "what go trusts as built", "GOTMPDIR": "where go writes", "GOMODCACHE": "where go finds code",
	"GROFF_*": "what groff runs", "MANPATH": "what man shows", "MANROFFOPT": "what man runs", "LESSKEY*": "what less runs", "PARALLEL": "what parallel runs",
	"OLDPWD": "where `cd -` goes", "PWD": "where the shell says that it is", "DIRSTACK": "where `popd` goes",
	"BASH_FUNC_*": "what a command's name runs", "BASH_LOADABLES_PATH": "what the shell loads",
	"BASH_ALIASES": "what a command's name runs", "BASH_CMDS": "what a command's name runs",
}

// specialSafe lists special variables with values that change nothing: a fixed
// list, or "*" for any value.
var specialSafe = map[string][]string{
	"PAGER": {"cat", ""}, "GIT_PAGER": {"cat", ""}, "MANPAGER": {"cat"}, "SYSTEMD_PAGER": {"cat", ""}, "BAT_PAGER": {"", "cat"}, "AWS_PAGER": {"", "cat"},
	"GIT_TERMINAL_PROMPT": {"0", "1"}, "GIT_OPTIONAL_LOCKS": {"0", "1"}, "GIT_EDITOR": {"true", ":"}, "GIT_CONFIG_NOSYSTEM": {"1"},
	"EDITOR": {"true", ":", "cat"}, "VISUAL": {"true", ":", "cat"},
	"PYTHONDONTWRITEBYTECODE": {"*"}, "PYTHONUNBUFFERED": {"*"}, "PYTHONHASHSEED": {"*"}, "PYTHONIOENCODING": {"*"}, "PYTHONUTF8": {"*"},
	"PYTHONFAULTHANDLER": {"*"}, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": {"1"}, "PYTHONWARNINGS": {"ignore", "default", "error", "always"},
	"CGO_ENABLED": {"0", "1"}, "GOFLAGS": {"", "-mod=mod", "-mod=vendor", "-mod=readonly", "-count=1", "-race", "-v", "-trimpath", "-buildvcs=false"},
	"GOTOOLCHAIN": {"local"}, "GOPROXY": {"off"}, "GOSUMDB": {"off"}, "GOWORK": {"off"},
	"RUSTDOCFLAGS": {"", "-D warnings", "-Dwarnings"}, "DOTNET_CLI_TELEMETRY_OPTOUT": {"*"}, "DOTNET_NOLOGO": {"*"},
	"MIX_ENV": {"test", "dev"}, "NODE_V8_COVERAGE": {""},
	"CARGO_TERM_COLOR": {"*"}, "CARGO_INCREMENTAL": {"0", "1"}, "CARGO_NET_OFFLINE": {"true"}, "LESS": {"", "-R", "-FRX", "FRX", "R"},
	"IFS":     {"", " ", "\n", "\t", ",", ":", ";", "|", "\n\t", "\t\n", " \t\n", "=", "/"},
	"RUBYOPT": {""}, "RUSTFLAGS": {"", "-D warnings", "-Dwarnings", "-C target-cpu=native", "-Awarnings"},
	"NODE_OPTIONS": {"", "--max-old-space-size=4096", "--max-old-space-size=8192", "--trace-warnings"},
}

// specialCritical are the variables through which every program can be replaced.
func specialCritical(name string) bool {
	return (strings.HasPrefix(name, "LD_") && name != "LD_LIBRARY_PATH") || strings.HasPrefix(name, "DYLD_INSERT") || name == "GCONV_PATH" ||
		strings.HasPrefix(name, "BASH_FUNC_")
}

// specialVar says what setting name changes, or "".
func specialVar(name string) string {
	if what, ok := specialNames[name]; ok {
		return what
	}
	for i := len(name); i > 1; i-- {
		if what, ok := specialNames[name[:i]+"*"]; ok {
			return what
		}
	}
	if strings.HasSuffix(name, "SAN_OPTIONS") {
		return "what tools load"
	}
	if strings.HasSuffix(name, "_PAGER") {
		return "what programs run to show text"
	}
	if strings.HasSuffix(name, "_EDITOR") {
		return "what programs run to edit"
	}
	return ""
}

// special judges setting a variable that changes what runs.
func (s *scope) special(name string, v variable) {
	what := specialVar(name)
	if what == "" {
		return
	}
	if compilerFlags(name) && v.known && plainFlags(v.val) {
		return
	}
	if v.known {
		for _, ok := range specialSafe[name] {
			if ok == "*" || ok == v.val {
				return
			}
		}
	}
	if name == "PYTHONPATH" && v.known && s.inside(v.val) {
		// What builds and tests the workspace's own code may load it from there.
		(&call{s: s, name: name}).build()
		return
	}
	val := "…"
	if v.known {
		val = v.val
	}
	s.j.changes = appendOnce(s.j.changes, name+"="+clip(val, 1024))
	tier := Risky
	if specialCritical(name) {
		tier = Critical
	}
	s.raise(tier, "sets `%s`, which changes %s", name, what)
	if v.known && (strings.Contains(v.val, " ") || strings.Contains(v.val, "$(")) {
		s.worst(v.val, "`"+name+"`")
	}
}

// compilerFlags reports whether a variable holds options that makefiles pass to
// compilers and linkers.
func compilerFlags(name string) bool {
	return in([]string{"CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "FFLAGS", "LDLIBS"}, name)
}

// plainFlags reports whether all of a compiler's options in a value are ones
// that load and run nothing.
func plainFlags(val string) bool {
	for _, f := range strings.Fields(val) {
		if !ccHarmless(f) || strings.HasPrefix(f, "-L/") || strings.HasPrefix(f, "-I/") || strings.ContainsAny(f, "$`@") || strings.Contains(f, "..") {
			return false
		}
	}
	return true
}

// secretName reports whether a variable's name says that it holds a credential.
func secretName(name string) bool {
	up := strings.ToUpper(name)
	for _, part := range []string{"SECRET", "TOKEN", "PASSWORD", "PASSWD", "CREDENTIAL", "APIKEY", "API_KEY", "PRIVATE_KEY", "ACCESS_KEY", "PASSPHRASE"} {
		if strings.Contains(up, part) {
			return true
		}
	}
	return up == "SSHPASS" || up == "PGPASSWORD" || strings.HasSuffix(up, "_KEY") || strings.HasSuffix(up, "_PAT")
}

// inside reports whether every entry of a search path lies in the workspace.
func (s *scope) inside(list string) bool {
	for _, e := range strings.Split(list, ":") {
		if e == "" {
			e = "."
		}
		paths := s.resolve(e)
		for _, p := range paths {
			if pl := s.placeOf(p); pl != placeWorkspace && pl != placeRoot {
				return false
			}
		}
		if len(paths) == 0 {
			return false
		}
	}
	return true
}
