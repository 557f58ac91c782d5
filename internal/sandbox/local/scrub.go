package local

import (
	"errors"
	"io/fs"
	"regexp"
	"strings"
)

var (
	gitSection  = regexp.MustCompile(`^\s*\[\s*([A-Za-z0-9.-]+)`)
	gitUserInfo = regexp.MustCompile(`(https?://)[^/@\s"]*@`)
	gitWorktree = regexp.MustCompile(`(?i)^\s*worktree\s*=`)
	gitHeader   = regexp.MustCompile(`(?i)^\s*(extraheader|proxy|cookiefile|sslkey)\s*=`)
)

// scrub takes out of the copied repository's configuration what signs in
// somewhere: helpers, headers, names and passwords in addresses.
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
	section := ""
	for line := range strings.Lines(text) {
		if m := gitSection.FindStringSubmatch(line); m != nil {
			section = strings.ToLower(m[1])
		}
		switch {
		case section == "credential", section == "http" && gitHeader.MatchString(line):
			continue
		case section == "core" && gitWorktree.MatchString(line):
			continue // points into the user's own repository
		}
		out.WriteString(gitUserInfo.ReplaceAllString(line, "$1"))
	}
	return out.String()
}
