package policy

import "strings"

// gitDiff are the options that git's commands share for showing differences.
const gitDiff = `
	-p,-u,--patch -s,--no-patch -U,--unified: --raw --patch-with-raw --minimal --patience --histogram --diff-algorithm:
	--stat? --numstat --shortstat --summary --name-only --name-status --compact-summary --dirstat? --submodule? --color?
	--no-color --color-moved? --color-words? --word-diff? --word-diff-regex: --no-renames --check --full-index --binary
	--abbrev? --no-abbrev -B,--break-rewrites? -M,--find-renames? -C,--find-copies? --find-copies-harder
	-D,--irreversible-delete -l: --diff-filter: -S: -G: --pickaxe-all --pickaxe-regex -O:r -R --relative? --no-relative
	-a,--text --ignore-cr-at-eol --ignore-space-at-eol -b,--ignore-space-change -w,--ignore-all-space
	--ignore-blank-lines -I: --inter-hunk-context: -W,--function-context --no-ext-diff --no-textconv
	--ignore-submodules? --src-prefix: --dst-prefix: --no-prefix --default-prefix --line-prefix:
	--ita-invisible-in-index --exit-code -q,--quiet -z --no-indent-heuristic --indent-heuristic --anchored:
	--patch-with-stat --skip-to: --rotate-to: --ext-diff! --textconv! --output:w -t -r -m -c --cc`

// gitLog are the options that git's commands share for choosing commits.
const gitLog = `
	-n,--max-count: --skip: --since,--after: --until,--before: --since-as-filter: --author: --committer: --grep:
	--all-match --invert-grep -i,--regexp-ignore-case --basic-regexp -E,--extended-regexp -F,--fixed-strings
	-P,--perl-regexp --remove-empty --merges --no-merges --min-parents: --max-parents: --first-parent --not --all
	--branches? --tags? --remotes? --glob: --exclude: --reflog --alternate-refs --stdin --cherry-mark --cherry-pick
	--left-only --right-only --cherry -g,--walk-reflogs --boundary --simplify-by-decoration --full-history --dense
	--sparse --simplify-merges --ancestry-path? --show-pulls --date-order --author-date-order --topo-order --reverse
	--no-walk? --do-walk --pretty? --format: --abbrev-commit --no-abbrev-commit --oneline --encoding: --expand-tabs?
	--no-expand-tabs --notes? --no-notes --show-notes? --show-signature --relative-date --date: --parents --children
	--left-right --graph --show-linear-break? --decorate? --no-decorate --decorate-refs: --decorate-refs-exclude:
	--source --use-mailmap --no-mailmap --mailmap --log-size -L: --follow --full-diff --count --objects --no-color
	--clear-decorations --combined-all-paths --diff-merges: --no-diff-merges --remerge-diff`

// gitTable holds git's subcommands; the name is "git" and the subcommand.
const gitTable = `
status | full gitread | v* | -s,--short -b,--branch --show-stash --porcelain? --long -v,--verbose -u,--untracked-files?
	--ignore-submodules? --ignored? -z --column? --no-column --ahead-behind --no-ahead-behind --renames --no-renames
	--find-renames?
log show whatchanged | gitread numbers gitcontent | v* | -v` + gitLog + gitDiff + `
diff | gitread numbers gitcontent | v* | --cached,--staged --merge-base --no-index -1,--base -2,--ours -3,--theirs -0` + gitDiff + `
diff-tree diff-index diff-files range-diff | gitread gitcontent | v* | --cached --root --stdin --no-commit-id -v
	--pretty? --creation-factor: --left-only --right-only --no-dual-color` + gitDiff + `
shortlog | gitread | v* | -n,--numbered -s,--summary -e,--email -w? -c,--committer --group: --format:` + gitLog + `
rev-list | gitread numbers | v* | -n` + gitLog + ` --disk-usage? --header --timestamp --quiet --use-bitmap-index
blame annotate | gitread gitcontent | v* | -b --root --show-stats -L: -l -t -S:r -p,--porcelain --line-porcelain -c
	--encoding: --date: -M? -C? -e,--show-email -f,--show-name -n,--show-number -s --score-debug -w --abbrev:
	--ignore-rev: --ignore-revs-file:r --reverse --first-parent --incremental --color-lines --color-by-age -h
grep | gitread gitcontent numbers | v* | --cached --untracked --no-index --no-exclude-standard --exclude-standard
	--recurse-submodules -v,--invert-match -i,--ignore-case -w,--word-regexp -a,--text -I -r,--recursive --no-recursive
	--max-depth: -m,--max-count: -E,--extended-regexp -G,--basic-regexp -P,--perl-regexp -F,--fixed-strings
	-n,--line-number --column -h -H --full-name -l,--files-with-matches,--name-only -L,--files-without-match -z,--null
	-c,--count -o,--only-matching --heading --break -p,--show-function -W,--function-context --color? --no-color
	-C,--context: -A,--after-context: -B,--before-context: -e: -f:r --and --or --not --all-match -q,--quiet --threads:
	--textconv! --no-textconv -O,--open-files-in-pager?!
ls-files | gitread | v* | -z -t -v -f -c,--cached -d,--deleted -m,--modified -o,--others -i,--ignored -s,--stage
	--directory --no-empty-directory -u,--unmerged -k,--killed --resolve-undo -x,--exclude: -X,--exclude-from:r
	--exclude-per-directory: --exclude-standard --full-name --recurse-submodules --error-unmatch --with-tree: --abbrev?
	--debug --eol --deduplicate --sparse --format:
ls-tree | gitread | v* | -d -r -t -l,--long -z --name-only --name-status --object-only --full-name --full-tree --abbrev?
	--format:
rev-parse | gitread | v* | --abbrev-ref? --show-toplevel --show-prefix --show-cdup --git-dir --absolute-git-dir
	--git-common-dir --is-inside-work-tree --is-inside-git-dir --is-bare-repository --is-shallow-repository --short?
	--verify -q,--quiet --symbolic --symbolic-full-name --all --branches? --tags? --remotes? --not --default:
	--show-superproject-working-tree --show-object-format? --git-path: --path-format: --local-env-vars --sq --revs-only
	--no-revs --flags --no-flags --parseopt! --sq-quote! --since: --until: --disambiguate: --exclude: --glob:
	--resolve-git-dir:r --shared-index-path --end-of-options
describe | gitread | v* | --all --tags --contains --abbrev? --candidates: --exact-match --debug --long --match:
	--exclude: --always --first-parent --dirty? --broken?
branch | gitread gitlist | v* | -a,--all -r,--remotes -l,--list -v,--verbose -vv -q,--quiet --show-current --contains?
	--no-contains? --merged? --no-merged? --points-at: --sort: --format: --color? --no-color --column? --no-column
	--abbrev? --no-abbrev -i,--ignore-case -d! -D! -m! -M! -c! -C! -f! -u:! --set-upstream-to:! --unset-upstream!
	--edit-description! -t! --track! --delete! --move! --copy! --force!
tag | gitread gitlist | v* | -l,--list -n? --contains? --no-contains? --merged? --no-merged? --points-at: --sort:
	--format: --color? --column? --no-column -i,--ignore-case -v! -d! -a! -s! -f! -m:! -F:! -u:!
remote | gitread gitremote | v* | -v,--verbose
stash | gitread gitstash gitcontent | v* | --date: -n,--max-count: --numstat --shortstat -p,--patch --stat? --name-only
	--name-status -u,--include-untracked --only-untracked --oneline --format: --pretty?
config | gitread gitconfig | v* | --get: --get-all: --get-regexp: --get-urlmatch: -l,--list --local --global --system
	--worktree --name-only --show-origin --show-scope -z,--null --type: --bool --int --path --includes --no-includes
	--default: --bool-or-int -f:! --file:! --blob:! -e! --edit! --unset! --unset-all! --add! --replace-all!
	--rename-section! --remove-section!
cat-file | gitread gitcontent | v* | -t -s -p -e --batch? --batch-check? --batch-all-objects --unordered --buffer
	--textconv! --filters! --follow-symlinks
merge-base | gitread | v* | -a,--all --octopus --independent --is-ancestor --fork-point
name-rev | gitread | v* | --tags --refs: --name-only --always --no-undefined --all --exclude:
for-each-ref show-ref show-branch | gitread | v* | --count: --sort: --format: --color? --points-at: --merged?
	--no-merged? --contains? --no-contains? --head --heads,--branches --tags -d,--dereference -s,--hash? --verify
	-q,--quiet --abbrev? --exists: -a,--all -r,--remotes --current --topo-order --date-order --list --more: --no-name
	--sha1-name --topics --exclude: --ignore-case
symbolic-ref | gitread gitsymref | v v | -q,--quiet --short --no-recurse --recurse -d! -m:!
reflog | gitread gitreflog numbers | v* |` + gitLog + ` -p --stat?
count-objects | gitread | - | -v,--verbose -H,--human-readable
check-ignore check-attr check-ref-format check-mailmap | gitread | v* | -q,--quiet -v,--verbose --stdin -z
	-n,--non-matching --no-index -a,--all --cached --branch --normalize --allow-onelevel
cherry | gitread | v* | -v --abbrev?
var | gitread gitvar | v | -l!
version | safe | - | --build-options
help | gitread | v* | -a,--all -g,--guides -c,--config -w! -m! -i!
worktree | gitread gitworktree | v* | --porcelain -z -v,--verbose
submodule | gitread gitsub | v* | --recursive --cached -q,--quiet
notes | gitread gitnotes | v* | --ref:
bisect | gitread gitbisect | v* |
verify-commit verify-tag verify-pack | gitread | v* | -v,--verbose --raw -s,--stat-only
fsck | gitread | v* | --full --strict --no-dangling --unreachable --connectivity-only --no-progress --verbose
add stage | gitadd | r* | -A,--all,--no-ignore-removal -u,--update -v,--verbose -n,--dry-run -f,--force
	-N,--intent-to-add --refresh --ignore-errors --ignore-missing --chmod: -i! -p! -e! --interactive! --patch! --edit!
	--pathspec-from-file:!
mv | gitadd | w* | -v,--verbose -n,--dry-run -k
archive | gitread gitarchive gitcontent | v* | --format: -l,--list -v,--verbose --prefix: -o,--output:w --add-file:r
	--worktree-attributes -0 -1 -9 --remote:! --exec:!
`

// gitGlobals are the options before the subcommand that change nothing.
var gitGlobals = []string{
	"--no-pager", "-P", "--no-optional-locks", "--no-replace-objects", "--literal-pathspecs", "--glob-pathspecs",
	"--noglob-pathspecs", "--icase-pathspecs", "--no-advice", "--no-lazy-fetch",
}

// gitConfigSafe are settings that only change how output looks.
var gitConfigSafe = []string{
	"color.ui", "color.diff", "color.status", "color.branch", "core.quotepath", "core.pager=cat", "pager.log=false",
	"pager.diff=false", "log.showsignature", "diff.renames", "diff.mnemonicprefix", "core.abbrev", "log.date",
	"core.fsmonitor=false", "advice.detachedhead", "core.hookspath=/dev/null", "diff.algorithm", "status.short",
	"grep.linenumber", "core.pager=",
}

// runGit judges git by its subcommand.
func runGit(c *call, _ *spec, _ parsed) {
	args, ok := c.gitGlobal()
	if !ok {
		return
	}
	if len(args) == 0 {
		c.raise(Risky, "%s is given no command", c.by())
		return
	}
	if !args[0].lit || args[0].glob {
		c.raise(Risky, "git's command, `%s`, is only known when it runs", args[0].show())
		return
	}
	sub := args[0].text
	c.sub = sub
	c.name = "git " + clip(sub, 40)
	c.args = args[1:]
	if sp, ok := c.s.j.p.tables.git[sub]; ok {
		c.out = flow{known: true}
		p := c.parse(sp, c.args)
		c.byRole(sp, p.operands)
		c.gitCommand(sp, p)
		return
	}
	if c.onlyLooks() {
		c.sub = sub
		c.gitRead()
		return
	}
	c.gitChange(sub)
}

// gitGlobal reads the options before the subcommand.
func (c *call) gitGlobal() ([]word, bool) {
	args := c.args
	for len(args) > 0 {
		w := args[0]
		if !w.lit || w.glob || len(w.text) < 2 || w.text[0] != '-' {
			if w.mayBeOption() {
				c.raise(Risky, "%s is given `%s`, which may be an option", c.by(), w.show())
			}
			return args, true
		}
		t := w.text
		args = args[1:]
		next := func() word {
			if len(args) == 0 {
				return lit("")
			}
			n := args[0]
			args = args[1:]
			return n
		}
		switch {
		case in(gitGlobals, t):
		case (t == "--help" || t == "-h") && len(args) > 0:
			return append(lits("help"), args...), true
		case t == "--version", t == "-v", t == "--help", t == "-h", t == "--exec-path", t == "--html-path", t == "--man-path", t == "--info-path":
			return nil, false
		case t == "-C":
			c.gitDir(next())
		case t == "-c":
			c.gitConfigArg(next())
		case strings.HasPrefix(t, "-c") && len(t) > 2:
			c.gitConfigArg(lit(t[2:]))
		case t == "--git-dir", t == "--work-tree", t == "--namespace", t == "--super-prefix", t == "--config-env", t == "--attr-source":
			next()
			c.badOption(&parsed{}, t)
		default:
			c.badOption(&parsed{}, t)
		}
	}
	return args, true
}

// gitDir judges -C: another repository has its own settings, which name commands.
func (c *call) gitDir(w word) {
	paths, known := c.s.targets(w)
	if !known {
		c.raise(Risky, "git works in `%s`, which is only known when it runs", w.show())
	}
	for _, p := range paths {
		c.s.touch(p)
		if pl := c.s.placeOf(p); pl != placeWorkspace && pl != placeRoot {
			c.raise(Risky, "git works in `%s`, outside the workspace", p)
		}
	}
	sub := &call{s: c.s.child(), name: "cd", args: []word{w}}
	runCd(sub)
	c.s = sub.s
}

func (c *call) gitConfigArg(w word) {
	t := strings.ToLower(w.text)
	key, _, _ := strings.Cut(t, "=")
	if w.lit && (in(gitConfigSafe, key) || in(gitConfigSafe, t)) {
		return
	}
	c.raise(Risky, "git is given the setting `%s`, which may name a command", w.show())
	val := strings.TrimPrefix(w.script()[min(len(key)+1, len(w.script())):], "!")
	c.s.worst(val, "git")
}

// gitCommand judges a subcommand that the table knows.
func (c *call) gitCommand(sp *spec, p parsed) {
	c.out = flow{}
	c.deep = c.looksInside(p)
	switch {
	case sp.attr("gitread"):
		c.gitRead()
	case sp.attr("gitadd"):
		c.raise(Risky, "%s changes the repository's index", c.by())
	}
	for attr, f := range gitForms {
		if sp.attr(attr) {
			f(c, p)
		}
	}
	if p.has("--remerge-diff") {
		c.raise(Risky, "%s merges once more, by programs that the repository's settings name", c.by())
	}
	for _, w := range p.values("--diff-merges") {
		if !w.lit || in(gitRemerge, w.text) {
			c.raise(Risky, "%s shows merges by `%s`, by which programs of the repository's settings may run", c.by(), w.show())
		}
	}
	keys := sp.attr("gitcontent") && c.gitContent(p)
	c.gitOut(p)
	if keys {
		c.out.secret, c.out.from = true, c.name
	}
}

// inCommit is the name of a file in a word such as HEAD:file, what is not known of it
// replaced.
func inCommit(w word) string {
	t := strings.ReplaceAll(w.script(), unknownVar, "x")
	i := strings.LastIndexByte(t, ':')
	t = t[i+1:]
	if magic, name, found := strings.Cut(t, ")"); found && strings.HasPrefix(magic, "(") && !strings.Contains(magic, "exclude") {
		if t = name; strings.Contains(magic, "icase") { // as in :(icase)FILE
			t = strings.ToLower(name)
		}
	}
	if i == 0 {
		t = strings.TrimPrefix(t, "/") // :/FILE is below the top
	}
	return t
}

// gitContent judges what is shown of files that are named, and reports whether that
// may hold credentials.
func (c *call) gitContent(p parsed) bool {
	keys := false
	ops := p.operands
	if c.sub != "blame" && c.sub != "annotate" {
		ops = append(ops[:len(ops):len(ops)], p.values("-L")...) // a range, and its file
	}
	for i, w := range ops {
		name := inCommit(w)
		if w.lit {
			w = lit(name)
		}
		if (!w.lit || strings.ContainsAny(name, "*?[")) && (i > 0 || c.sub != "grep") && c.memberSecret(name) {
			c.printsMembers([]word{lit(name)})
			keys = true
		}
		keys = c.read(w, false).secret || keys
	}
	return keys
}

// gitForms are the subcommands that read in some forms and change in others, by
// attribute. A subcommand has at most one of them.
var gitForms = map[string]func(*call, parsed){
	"gitlist": func(c *call, p parsed) {
		if len(p.operands) > 0 && !p.has("-l", "--contains", "--merged", "--no-merged", "--no-contains", "--points-at", "-a", "-r", "-n") {
			c.gitChanges()
		}
	},
	"gitremote": func(c *call, p parsed) {
		if len(p.operands) > 0 && !p.first("get-url") {
			c.raise(Risky, "%s changes remotes or asks one", c.by())
		}
	},
	"gitstash": func(c *call, p parsed) {
		if !p.first("list", "show") {
			c.gitChanges()
		}
	},
	"gitconfig": gitConfig,
	"gitsymref": func(c *call, p parsed) {
		if len(p.operands) > 1 {
			c.gitChanges()
		}
	},
	"gitreflog": func(c *call, p parsed) {
		if p.first("expire", "delete", "drop") {
			c.raise(Critical, "%s throws away what only the reflog still holds", c.by())
		}
	},
	"gitworktree": func(c *call, p parsed) {
		if !p.first("list") {
			c.gitChanges()
		}
	},
	"gitsub": func(c *call, p parsed) {
		if len(p.operands) > 0 && !p.first("status", "summary") {
			c.raise(Risky, "%s changes or downloads submodules", c.by())
		}
	},
	"gitnotes": func(c *call, p parsed) {
		if len(p.operands) > 0 && !p.first("list", "show", "get-ref") {
			c.gitChanges()
		}
	},
	"gitarchive": func(c *call, p parsed) {
		for _, w := range p.values("--format") {
			if !w.is("tar", "zip", "tar.gz", "tgz") {
				c.raise(Risky, "%s makes the format `%s` by a command that the repository's settings name", c.by(), w.show())
			}
		}
	},
	"gitbisect": func(c *call, p parsed) {
		if !p.first("log") {
			c.gitChanges()
			c.suspicious(append(lits(c.name), c.args...))
		}
	},
}

// first reports whether the first operand is one of names.
func (p parsed) first(names ...string) bool { return len(p.operands) > 0 && p.operands[0].is(names...) }

func (c *call) gitChanges() { c.raise(Risky, "%s changes the repository", c.by()) }

func gitConfig(c *call, p parsed) {
	reads := p.has("--get", "--get-all", "--get-regexp", "--get-urlmatch", "-l")
	n := len(p.operands)
	switch {
	case p.first("edit"):
		c.gitChanges()
		return
	case p.first("get", "list"), n == 1, reads && n < 2:
		return
	case reads:
		c.gitChanges()
		return
	}
	c.raise(Risky, "%s changes git's settings, which name commands", c.by())
	for _, w := range p.operands {
		c.s.worst(strings.TrimPrefix(w.script(), "!"), c.by())
	}
}

// gitRead judges git's read commands, which run with hooks, pagers, fsmonitor
// and external diff switched off.
func (c *call) gitRead() {
	if c.s.remote != "" || !c.s.j.env.Isolated {
		c.raise(Risky, "%s may run what the repository's settings name, and nothing confines it here", c.by())
	}
	if c.s.ownGit {
		c.raise(Risky, "%s is started without the environment that keeps the repository's settings from running commands", c.by())
	}
	if c.s.cwdUnknown {
		c.raise(Risky, "%s works in a directory that is only known when it runs", c.by())
	}
	for _, cwd := range c.s.cwds {
		if pl := c.s.placeOf(cwd); pl != placeWorkspace && pl != placeRoot && pl != placeProtected {
			c.raise(Risky, "%s works in `%s`, outside the workspace", c.by(), cwd)
		}
	}
	c.gitSettings()
}
