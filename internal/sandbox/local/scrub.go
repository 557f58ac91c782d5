package local

import (
	"errors"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

var (
	gitSection  = regexp.MustCompile(`^(\s*\[\s*([A-Za-z0-9.-]+)[^\]]*\])(.*)$`)
	gitUserInfo = regexp.MustCompile(`(https?://)[^/@\s"]*@`)
	gitKey      = regexp.MustCompile(`^\s*([A-Za-z][A-Za-z0-9-]*)`)
)

// dropped are the keys, by section, that a copied configuration must not have:
// what signs in somewhere, what points back into the user's own repository, and
// what makes git's reading commands run a program. An empty list is the whole
// section.
var dropped = map[string][]string{
	"credential": nil, "alias": nil, "pager": nil, "include": nil, "includeif": nil, "filter": nil, "gpg": nil,
	"http": {"extraheader", "proxy", "cookiefile", "sslkey"},
	"core": {
		"worktree", "fsmonitor", "hookspath", "pager", "editor", "sshcommand", "askpass", "gitproxy", "alternaterefscommand",
		"attributesfile",
	},
	"diff": {"external", "command", "textconv"}, "merge": {"driver"}, "interactive": {"difffilter"},
	"sequence": {"editor"}, "uploadpack": {"packobjectshook"}, "difftool": nil, "mergetool": nil, "man": nil, "browser": nil,
}

// scrub takes out of the copied repository's configuration what signs in
// somewhere, names and passwords in addresses included, and what would run a
// program when somebody only looks.
func (c *copier) scrub() error {
	const name = ".git/config"
	data, err := c.to.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	info, err := c.to.Lstat(name)
	if err != nil {
		return err
	}
	clean := scrubConfig(string(data))
	if clean == string(data) {
		return nil
	}
	return c.to.WriteFile(name, []byte(clean), info.Mode().Perm())
}

func scrubConfig(text string) string {
	var out strings.Builder
	section, goesOn := "", false // goesOn: the line before was dropped and is continued
	for line := range strings.Lines(text) {
		header, rest := "", strings.TrimRight(line, "\r\n")
		end := line[len(rest):]
		if m := gitSection.FindStringSubmatch(rest); m != nil && !goesOn {
			section, _, _ = strings.Cut(strings.ToLower(m[2]), ".") // [diff.x] is the old way to write [diff "x"]
			header, rest = m[1], m[3]
			if keys, ok := dropped[section]; ok && keys == nil {
				goesOn = strings.HasSuffix(rest, "\\")
				continue
			}
		}
		if goesOn || drops(section, rest) {
			goesOn = strings.HasSuffix(rest, "\\")
			rest = ""
			if header == "" {
				continue
			}
		}
		out.WriteString(gitUserInfo.ReplaceAllString(header+rest, "$1") + end)
	}
	return out.String()
}

// drops reports whether a line of a section holds a key to be dropped.
func drops(section, line string) bool {
	keys, ok := dropped[section]
	key := gitKey.FindStringSubmatch(line)
	return ok && key != nil && (keys == nil || slices.Contains(keys, strings.ToLower(key[1])))
}
