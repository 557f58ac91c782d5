package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
)

// maxIgnoreFile bounds an ignore file, in bytes.
const maxIgnoreFile = 64 << 10

// ignore is a compiled ignore file: the last rule that matches wins.
type ignore []ignoreRule

type ignoreRule struct {
	re      *regexp.Regexp
	keep    bool // "!": what it matches is not ignored after all
	dirOnly bool
}

func readIgnore(root *os.Root) (ignore, error) {
	data, err := root.ReadFile(ignoreFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", ignoreFile, err)
	}
	if len(data) > maxIgnoreFile {
		return nil, fmt.Errorf("%s is over %d bytes", ignoreFile, maxIgnoreFile)
	}
	return parseIgnore(string(data)), nil
}

// parseIgnore compiles rules in the language of gitignore.
func parseIgnore(text string) ignore {
	var out ignore
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		var r ignoreRule
		if r.keep = line[0] == '!'; r.keep {
			line = line[1:]
		}
		line = strings.TrimPrefix(line, `\`)
		if r.dirOnly = strings.HasSuffix(line, "/"); r.dirOnly {
			line = strings.TrimSuffix(line, "/")
		}
		prefix := "^(?:.*/)?"
		if strings.Contains(line, "/") {
			prefix, line = "^", strings.TrimPrefix(line, "/")
		}
		re, err := regexp.Compile(prefix + globRegexp(line) + "$")
		if err != nil {
			continue // git ignores what it cannot read, too
		}
		r.re = re
		out = append(out, r)
	}
	return out
}

// globRegexp translates one gitignore pattern.
func globRegexp(glob string) string {
	var b strings.Builder
	for i := 0; i < len(glob); i++ {
		rest := glob[i:]
		switch {
		case strings.HasPrefix(rest, "**/"):
			b.WriteString("(?:.*/)?")
			i += 2
		case rest == "**":
			b.WriteString(".*")
			i++
		case rest[0] == '*':
			b.WriteString("[^/]*")
		case rest[0] == '?':
			b.WriteString("[^/]")
		case rest[0] == '[' && strings.IndexByte(rest, ']') > 1:
			end := strings.IndexByte(rest, ']')
			b.WriteString("[" + strings.Replace(rest[1:end], "!", "^", 1) + "]")
			i += end
		case rest[0] == '\\' && len(rest) > 1:
			b.WriteString(regexp.QuoteMeta(rest[1:2]))
			i++
		default:
			b.WriteString(regexp.QuoteMeta(rest[:1]))
		}
	}
	return b.String()
}

// match tells whether the rules leave rel out. Whoever walks a tree asks for each
// parent first: below an ignored directory nothing is kept.
func (g ignore) match(rel string, dir bool) bool {
	if rel == "." {
		return false
	}
	ignored := false
	for _, r := range g {
		if (dir || !r.dirOnly) && r.re.MatchString(path.Clean(rel)) {
			ignored = !r.keep
		}
	}
	return ignored
}
