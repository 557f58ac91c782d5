package evidence

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// discard is what throws changes away that no commit holds.
type discard struct {
	cwd string
	// since is what changes are counted from: HEAD, or empty for the index.
	since string
	paths []string
	// rev is where a reset goes; empty where it stays.
	rev string
}

// clean is the deletion of files that git does not know.
type clean struct {
	cwd   string
	flags []string
	paths []string
}

// push is what is published, and what it takes the place of.
type push struct {
	cwd, remote, src, dst string
	force                 bool
}

// refWord are names of branches, remotes and revisions that are looked at.
var refWord = regexp.MustCompile(`^[A-Za-z0-9._][A-Za-z0-9._/~^@-]{0,200}$`)

// git plans for a git command. What it does not know in full it leaves out:
// options before the command may move it to another repository.
func (p *planner) git(args []word, cwd string) {
	if len(args) == 0 || cwd == "" || len(p.plan.steps) == maxSteps {
		return
	}
	var words []string
	for _, w := range args {
		if w.glob {
			return
		}
		words = append(words, w.text)
	}
	var s step
	ok := false
	switch rest := words[1:]; words[0] {
	case "reset":
		s, ok = planReset(rest, cwd)
	case "checkout", "restore":
		s, ok = planCheckout(words[0], rest, cwd)
	case "clean":
		s, ok = planClean(rest, cwd)
	case "push":
		s, ok = planPush(rest, cwd)
	}
	if ok {
		p.plan.steps = append(p.plan.steps, s)
	}
}

func planReset(args []string, cwd string) (step, bool) {
	s, hard := discard{cwd: cwd, since: "HEAD"}, false
	for _, a := range args {
		switch {
		case a == "--hard":
			hard = true
		case a == "-q" || a == "--quiet":
		case refWord.MatchString(a) && s.rev == "":
			s.rev = a
		default:
			return nil, false
		}
	}
	return s, hard
}

// planCheckout: of the two only what names paths throws changes away.
func planCheckout(verb string, args []string, cwd string) (step, bool) {
	s := discard{cwd: cwd}
	for i, a := range args {
		switch {
		case a == "--":
			s.paths = args[i+1:]
			return s, len(s.paths) > 0 && (verb == "restore" || i == 0)
		case a == "-q" || a == "--quiet" || verb == "restore" && (a == "-W" || a == "--worktree"):
		case strings.HasPrefix(a, "-") || strings.HasPrefix(a, ":"):
			return nil, false
		case verb == "checkout" && a != ".":
			return nil, false // a branch, or a file: git decides which
		default:
			s.paths = append(s.paths, a)
		}
	}
	return s, len(s.paths) > 0
}

func planClean(args []string, cwd string) (step, bool) {
	s, force := clean{cwd: cwd}, false
	for i, a := range args {
		switch {
		case a == "--":
			s.paths = append(s.paths, args[i+1:]...)
			return s, force
		case a == "--force":
			force = true
		case a == "--quiet":
		case strings.HasPrefix(a, "--"):
			return nil, false
		case strings.HasPrefix(a, "-"):
			for _, c := range a[1:] {
				switch c {
				case 'f':
					force = true
				case 'q':
				case 'd', 'x', 'X':
					s.flags = append(s.flags, "-"+string(c))
				default:
					return nil, false
				}
			}
		default:
			s.paths = append(s.paths, a)
		}
	}
	return s, force
}

func planPush(args []string, cwd string) (step, bool) {
	s := push{cwd: cwd}
	var names []string
	for _, a := range args {
		switch {
		case a == "-f" || a == "--force" || a == "--force-with-lease" || strings.HasPrefix(a, "--force-with-lease="):
			s.force = true
		case slices.Contains([]string{"-u", "--set-upstream", "-q", "--quiet", "-v", "--verbose", "--progress", "--no-verify", "--atomic"}, a):
		case strings.HasPrefix(a, "-"):
			return nil, false
		default:
			names = append(names, a)
		}
	}
	if len(names) > 2 {
		return nil, false
	}
	if len(names) > 0 {
		s.remote = names[0]
	}
	if len(names) > 1 {
		ref, plus := strings.CutPrefix(names[1], "+")
		s.force = s.force || plus
		src, dst, both := strings.Cut(ref, ":")
		if !both {
			dst = src
		}
		s.src, s.dst = src, strings.TrimPrefix(dst, "refs/heads/")
		if !refWord.MatchString(s.src) || !refWord.MatchString(s.dst) || strings.HasPrefix(s.dst, "refs/") {
			return nil, false
		}
	}
	return s, s.remote == "" || refWord.MatchString(s.remote)
}

// diff prints git's short statistics of changes in files, of which only what git
// itself compares is counted.
func diff(since string, paths []string) string {
	return "g diff --shortstat --no-ext-diff --no-textconv --no-renames --ignore-submodules=all " + since + " -- " + quoted(paths)
}

func (s discard) script(map[string][]string) string {
	text := "cd " + quote(s.cwd) + " && quiet && { " + diff(s.since, s.paths) + "; echo changes"
	if s.rev != "" {
		text += fmt.Sprintf("; g rev-parse -q --verify %s >/dev/null && g rev-list --count %s", quote(s.rev+"^{commit}"), quote(s.rev+"..HEAD"))
	}
	return text + "; }"
}

// sentence reads " 3 files changed, 10 insertions(+), 4 deletions(-)", which git
// leaves out where there is nothing, then "changes", then the commits.
func (s discard) sentence(words []string, _ bool) string {
	end := slices.Index(words, "changes")
	if end < 0 {
		return ""
	}
	text := "no uncommitted changes are lost"
	if s.since == "" {
		text = "no changes are lost"
	}
	if end > 0 {
		text = "uncommitted changes are lost: " + shortstat(words[:end])
	}
	if len(words) > end+1 {
		if n, err := strconv.ParseInt(words[end+1], 10, 64); err == nil && n == 1 {
			text += "; 1 commit after " + name(s.rev) + " is left behind"
		} else if err == nil {
			text += fmt.Sprintf("; %d commits after %s are left behind", n, name(s.rev))
		}
	}
	return text
}

// shortstat is "3 files, +10 −4".
func shortstat(words []string) string {
	var files, plus, minus int64
	for i, w := range words[:max(0, len(words)-1)] {
		n, err := strconv.ParseInt(w, 10, 64)
		if err != nil {
			continue
		}
		switch next := words[i+1]; {
		case strings.HasPrefix(next, "file"):
			files = n
		case strings.HasPrefix(next, "insertion"):
			plus = n
		case strings.HasPrefix(next, "deletion"):
			minus = n
		}
	}
	return fmt.Sprintf("%s, +%d −%d", count(files, "file", "files"), plus, minus)
}

func (s clean) script(map[string][]string) string {
	return "cd " + quote(s.cwd) + " && quiet && { g clean -n " + strings.Join(s.flags, " ") + " -- " + quoted(s.paths) + " | grep -c '^Would remove'; echo there; }"
}

func (s clean) sentence(words []string, _ bool) string {
	if len(words) != 2 || words[1] != "there" {
		return ""
	}
	n, err := strconv.ParseInt(words[0], 10, 64)
	switch {
	case err != nil:
		return ""
	case n == 0:
		return "nothing is there to clean"
	}
	return count(n, "file or directory that git does not know is", "files and directories that git does not know are") + " deleted"
}

func (s push) script(map[string][]string) string {
	return "cd " + quote(s.cwd) + " && quiet && " + fmt.Sprintf(`{
b=$(g symbolic-ref -q --short HEAD); r=%s; s=%s; d=%s
[ -n "$r" ] || r=$(g config "branch.$b.remote") || r=origin
[ "$d" != HEAD ] || d=$b; [ -n "$s" ] || { s="refs/heads/$b"; d=$b; }
t="refs/remotes/$r/$d"; [ "$r" != . ] || t="refs/heads/$d"
[ -n "$d" ] && g rev-parse -q --verify "$s^{commit}" >/dev/null && {
if g rev-parse -q --verify "$t^{commit}" >/dev/null; then g rev-list --left-right --count "$t...$s"; echo "$r/$d"
elif g config "remote.$r.url" >/dev/null || [ "$r" = . ]; then echo new; g rev-list --count "$s" --not --remotes="$r"; echo "$r/$d"; fi; }; }`,
		quote(s.remote), quote(s.src), quote(s.dst))
}

func (s push) sentence(words []string, _ bool) string {
	if len(words) != 3 {
		return ""
	}
	there, at := strings.TrimPrefix(words[2], "./"), ""
	if there == words[2] {
		at = ", as last fetched"
	}
	ahead, err := strconv.ParseInt(words[1], 10, 64)
	if err != nil {
		return ""
	}
	if words[0] == "new" {
		return count(ahead, "commit is", "commits are") + " published on " + name(there) + ", which is new" + at
	}
	behind, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		return ""
	}
	text := count(ahead, "commit is", "commits are") + " published on " + name(there)
	switch {
	case behind > 0 && s.force:
		text += ", " + count(behind, "commit there is", "commits there are") + " lost"
	case behind > 0:
		text += ", which has " + count(behind, "commit that is", "commits that are") + " not here"
	}
	return text + at
}
