package manifest

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Fault is one thing wrong with a manifest.
type Fault struct {
	// Key is the place, such as api.files[0].path.
	Key string
	// Problem is one sentence without a final stop.
	Problem string
}

var (
	nameForm    = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,39}$`)
	envForm     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	refForm     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/+@-]*$`)
	scpForm     = regexp.MustCompile(`^(?:[A-Za-z0-9._-]+@)?[A-Za-z0-9][A-Za-z0-9.-]*:[^:/].*$`)
	commandSize = 16 << 10 // 16 KiB: far more than a line of configuration
)

// reserved are variables that are the sandbox's affair.
var reserved = []string{"HOME", "USER", "LOGNAME", "TMPDIR", "PWD", "SHELL", "BASH_ENV", "ENV"}

// Check returns everything that is wrong, in a fixed order. backends are the
// kinds of sandbox that exist. It looks at nothing but the manifests.
func (w Workspaces) Check(backends []string) []Fault {
	var c checker
	for _, name := range w.Names() {
		c.at = name
		if !nameForm.MatchString(name) {
			c.fault("", "a workspace's name has lower-case letters, digits, dots, dashes and underscores, at most 40")
		}
		c.workspace(w[name], backends)
	}
	return c.faults
}

type checker struct {
	at     string
	faults []Fault
}

func (c *checker) fault(key, format string, args ...any) {
	k := c.at
	if key != "" {
		k += "." + key
	}
	c.faults = append(c.faults, Fault{Key: k, Problem: fmt.Sprintf(format, args...)})
}

func (c *checker) workspace(w Workspace, backends []string) {
	if w.Backend != "" && !slices.Contains(backends, w.Backend) {
		c.fault("backend", "%q is not a backend; there is: %s", w.Backend, strings.Join(backends, ", "))
	}
	if strings.ContainsAny(w.Image, " \t\n") {
		c.fault("image", "%q is no name of an image", w.Image)
	}
	taken := map[string]string{}
	for i, r := range w.Repositories {
		c.repository(fmt.Sprintf("repositories[%d]", i), r, taken)
	}
	for i, d := range w.Directories {
		key := fmt.Sprintf("directories[%d]", i)
		c.place(key+".path", d.Path, d.From != "")
		c.source(key+".from", d.From)
	}
	for i, f := range w.Files {
		key := fmt.Sprintf("files[%d]", i)
		c.place(key+".path", f.Path, false)
		c.unique(key+".path", f.Path, taken)
		c.source(key+".from", f.From)
		if f.Text != "" && f.From != "" {
			c.fault(key, "has both text and from")
		}
	}
	c.environment(w)
	for i, s := range w.Setup {
		if key := fmt.Sprintf("setup[%d]", i); strings.TrimSpace(s) == "" || strings.ContainsRune(s, 0) || len(s) > commandSize {
			c.fault(key, "is no command")
		}
	}
	for i, h := range w.Network {
		if _, err := ParseHost(h); err != nil {
			c.fault(fmt.Sprintf("network[%d]", i), "%v", err)
		}
	}
}

// place checks a path below the workspace; root says whether the workspace
// itself will do.
func (c *checker) place(key, p string, root bool) {
	clean := path.Clean(p)
	switch {
	case p == "" || strings.ContainsRune(p, 0):
		c.fault(key, "is missing")
	case !filepath.IsLocal(p):
		c.fault(key, "%q leaves the workspace", p)
	case clean == "." && !root:
		c.fault(key, "%q is the workspace itself", p)
	}
}

func (c *checker) unique(key, p string, taken map[string]string) {
	clean := path.Clean(p)
	if other, ok := taken[clean]; ok {
		c.fault(key, "%q is the path of %s too", p, other)
		return
	}
	taken[clean] = strings.TrimSuffix(key, ".path")
}

func (c *checker) source(key, p string) {
	if p != "" && !filepath.IsAbs(p) {
		c.fault(key, "%q is not an absolute path", p)
	}
}

func (c *checker) repository(key string, r Repository, taken map[string]string) {
	where := r.Path
	if where == "" {
		where = "."
	}
	c.place(key+".path", where, true)
	c.unique(key+".path", where, taken)
	ssh, ok := c.url(key+".url", r.URL)
	if r.Ref != "" && (!refForm.MatchString(r.Ref) || strings.Contains(r.Ref, "..")) {
		c.fault(key+".ref", "%q is no branch, tag or commit", r.Ref)
	}
	if r.Depth < 0 {
		c.fault(key+".depth", "must not be below 0")
	}
	if r.Credentials == nil || !ok {
		return
	}
	c.reference(key+".credentials", r.Credentials.Reference)
	switch {
	case ssh && r.Credentials.File == "":
		c.fault(key+".credentials", "an ssh URL takes the file of a private key")
	case ssh && r.Credentials.User != "":
		c.fault(key+".credentials.user", "stands in the URL of an ssh repository")
	case !ssh && !strings.HasPrefix(r.URL, "https://") && !loopback(r.URL):
		c.fault(key+".credentials", "are sent over https and ssh only")
	case strings.ContainsAny(r.Credentials.User, "\n\x00"):
		c.fault(key+".credentials.user", "is no name")
	}
}

// loopback tells whether an http URL stays on the worker's machine.
func loopback(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return err == nil && addr.IsLoopback()
}

// url tells whether a repository is reached by ssh, and whether its URL is right.
func (c *checker) url(key, text string) (ssh, ok bool) {
	if text == "" {
		c.fault(key, "is missing")
		return false, false
	}
	if !strings.Contains(text, "://") {
		if !scpForm.MatchString(text) {
			c.fault(key, "%q is neither a URL nor USER@HOST:PATH", text)
			return false, false
		}
		return true, true
	}
	u, err := url.Parse(text)
	if err != nil {
		c.fault(key, "is no URL")
		return false, false
	}
	if _, has := u.User.Password(); has {
		c.fault(key, "holds a password; name it with credentials instead")
		return false, false
	}
	switch u.Scheme {
	case "https", "http", "git":
		if u.User.Username() != "" {
			c.fault(key, "holds a user or token; name it with credentials instead")
			return false, false
		}
		if u.Host == "" {
			c.fault(key, "has no host")
			return false, false
		}
	case "ssh":
		if u.Host == "" || strings.HasPrefix(u.Host, "-") {
			c.fault(key, "has no host")
			return true, false
		}
		return true, true
	case "file":
	default:
		c.fault(key, "%q is not https, http, ssh, git or file", u.Scheme)
		return false, false
	}
	return false, true
}

func (c *checker) reference(key string, r Reference) {
	switch {
	case (r.Env == "") == (r.File == ""):
		c.fault(key, "takes one of env (a variable of the worker) and file (a file of the worker)")
	case r.Env != "" && !envForm.MatchString(r.Env):
		// A secret pasted in place of its name must not be printed.
		c.fault(key+".env", "is no name of an environment variable")
	case r.File != "" && !filepath.IsAbs(r.File):
		c.fault(key+".file", "is not an absolute path")
	}
}

func (c *checker) environment(w Workspace) {
	for _, name := range slices.Sorted(maps.Keys(w.Environment)) {
		c.variable("environment."+name, name)
		if strings.ContainsRune(w.Environment[name], 0) {
			c.fault("environment."+name, "holds a NUL byte")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.Secrets)) {
		c.variable("secrets."+name, name)
		c.reference("secrets."+name, w.Secrets[name])
		if _, twice := w.Environment[name]; twice {
			c.fault("secrets."+name, "stands in environment too")
		}
	}
}

func (c *checker) variable(key, name string) {
	switch {
	case !envForm.MatchString(name):
		c.fault(key, "is no name of an environment variable")
	case slices.Contains(reserved, name) || strings.HasPrefix(name, "COUNTERSIGN_"):
		c.fault(key, "is the sandbox's own variable")
	}
}
