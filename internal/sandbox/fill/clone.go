package fill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/countersign/countersign/internal/manifest"
	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/sandbox"
)

// commitForm is a whole commit ID, which git does not take for a branch.
var commitForm = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)

// What the clone's git is told of credentials. Its configuration file never
// holds them: they are in this process's environment, for this one command.
const (
	userEnv   = "COUNTERSIGN_CLONE_USER"
	secretEnv = "COUNTERSIGN_CLONE_SECRET"
	// helper is shell code that git runs as "helper get".
	helper = `!f() { [ "$1" = get ] && printf 'username=%s\npassword=%s\n' "$` + userEnv + `" "$` + secretEnv + `"; }; f`
)

// clone fetches a repository into dir.
func (f Filler) clone(ctx context.Context, r manifest.Repository, dir string) error {
	if _, err := exec.LookPath("git"); err != nil {
		return sandbox.Refuse("The workspace has git repositories, and git is not installed on the worker's machine.")
	}
	g := cloner{url: r.URL, dir: dir, mask: mask.New()}
	if err := g.sign(f, r.Credentials); err != nil {
		return err
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return sandbox.Refuse(fmt.Sprintf("The repository %s cannot be cloned: its path is taken by something else in the manifest.", r.URL))
	}
	return g.fetch(ctx, r)
}

// cloner is one clone.
type cloner struct {
	url, dir string
	config   []string // -c options of each git command: never written down
	env      []string
	mask     *mask.Masker
}

// sign looks the credentials up and tells git of them, or of none: a helper that
// the worker's user has configured is not asked.
func (g *cloner) sign(f Filler, c *manifest.Credentials) error {
	g.config = []string{"-c", "credential.helper=", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0"}
	g.env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "GIT_") })
	g.env = append(g.env, "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS=", "LC_ALL=C", "GIT_SSH_COMMAND=ssh -o BatchMode=yes")
	if c == nil {
		return nil
	}
	if isSSH(g.url) {
		if _, err := os.Stat(c.File); err != nil {
			return sandbox.Refuse(fmt.Sprintf("The repository %s cannot be cloned: the worker's file %s cannot be read.", g.url, c.File))
		}
		g.env = append(g.env, "GIT_SSH_COMMAND=ssh -o BatchMode=yes -o IdentitiesOnly=yes -i '"+strings.ReplaceAll(c.File, "'", `'\''`)+"'")
		return nil
	}
	secret, err := c.Value(f.Getenv)
	if err != nil {
		return sandbox.Refuse(fmt.Sprintf("The repository %s cannot be cloned: %v.", g.url, err))
	}
	if strings.ContainsAny(secret, "\r\n") {
		return sandbox.Refuse(fmt.Sprintf("The repository %s cannot be cloned: its password holds a line break.", g.url))
	}
	user := c.User
	if user == "" {
		user = "git"
	}
	g.mask = mask.New(secret)
	at, err := url.Parse(g.url)
	if err != nil {
		return sandbox.Refuse(fmt.Sprintf("The repository %s cannot be cloned: that is no URL.", g.url))
	}
	// For this server alone, wherever it may redirect to.
	g.config = append(g.config, "-c", "credential."+at.Scheme+"://"+at.Host+".helper="+helper)
	g.env = append(g.env, userEnv+"="+user, secretEnv+"="+secret)
	return nil
}

func isSSH(url string) bool { return strings.HasPrefix(url, "ssh://") || !strings.Contains(url, "://") }

func (g *cloner) fetch(ctx context.Context, r manifest.Repository) error {
	if commitForm.MatchString(r.Ref) {
		return g.fetchCommit(ctx, r)
	}
	args := []string{"clone", "--quiet", "--template=", "--no-recurse-submodules"}
	if r.Depth > 0 {
		args = append(args, "--depth", strconv.Itoa(r.Depth))
	}
	if r.Ref != "" {
		args = append(args, "--branch", r.Ref)
	}
	return g.git(ctx, "", append(args, "--", g.url, g.dir)...)
}

// fetchCommit asks for one commit, which servers may refuse, and else for all.
func (g *cloner) fetchCommit(ctx context.Context, r manifest.Repository) error {
	if err := os.MkdirAll(g.dir, 0o755); err != nil {
		return fmt.Errorf("making a repository's directory: %w", err)
	}
	for _, args := range [][]string{{"init", "--quiet", "--template="}, {"remote", "add", "origin", g.url}} {
		if err := g.git(ctx, g.dir, args...); err != nil {
			return err
		}
	}
	args := []string{"fetch", "--quiet", "--no-recurse-submodules"}
	if r.Depth > 0 {
		args = append(args, "--depth", strconv.Itoa(r.Depth))
	}
	err := g.git(ctx, g.dir, append(args, "origin", r.Ref)...)
	if err != nil && ctx.Err() == nil {
		err = g.git(ctx, g.dir, "fetch", "--quiet", "--no-recurse-submodules", "origin")
	}
	if err != nil {
		return err
	}
	return g.git(ctx, g.dir, "checkout", "--quiet", "--detach", r.Ref)
}

// git runs one command. What it says of a failure is for people, masked.
func (g *cloner) git(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", append(slices.Clone(g.config), args...)...)
	cmd.Dir, cmd.Env = dir, g.env
	if dir == "" {
		cmd.Dir = "/"
	}
	var problem bytes.Buffer
	cmd.Stderr = &problem
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &exit):
		return sandbox.Refuse(fmt.Sprintf("The repository %s cannot be cloned: git says: %s", g.mask.Text(g.url), g.mask.Text(lastLine(problem.String()))))
	}
	return fmt.Errorf("running git: %w", err)
}

// lastLine is what git says in the end, as a sentence.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, l := range lines {
		if strings.HasPrefix(l, "fatal: ") || strings.HasPrefix(l, "remote: ") {
			lines = append(lines, strings.TrimPrefix(l, "fatal: "))
			break
		}
	}
	line := strings.TrimSpace(lines[len(lines)-1])
	return strings.TrimSuffix(line[:min(len(line), 300)], ".") + "."
}
