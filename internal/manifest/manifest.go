// Package manifest says what a fresh workspace holds and may do: files,
// directories, git repositories, environment, secrets, set-up commands, network.
//
// A manifest is configuration: it names secrets and never holds one, so it may
// be logged, shown and passed between processes. The package reads and checks
// manifests; filling a workspace from one is package sandbox's affair.
package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// Workspaces are manifests by name.
type Workspaces map[string]Workspace

// Names are the workspaces' names, sorted.
func (w Workspaces) Names() []string { return slices.Sorted(maps.Keys(w)) }

// Workspace is one manifest.
type Workspace struct {
	// Backend is the kind of sandbox that a session of this workspace gets which
	// names none; empty is the default one.
	Backend string `yaml:"backend" json:"backend,omitempty"`
	// Image is what the docker backend makes this workspace's sandboxes from;
	// empty is the configured one.
	Image string `yaml:"image" json:"image,omitempty"`
	// Repositories are cloned first, then directories are copied over them, then
	// files written.
	Repositories []Repository `yaml:"repositories" json:"repositories,omitempty"`
	Directories  []Directory  `yaml:"directories" json:"directories,omitempty"`
	Files        []File       `yaml:"files" json:"files,omitempty"`
	// Environment is added to that of every command.
	Environment map[string]string `yaml:"environment" json:"environment,omitempty"`
	// Secrets are environment variables whose values the worker looks up when a
	// command starts.
	Secrets map[string]Reference `yaml:"secrets" json:"secrets,omitempty"`
	// Setup are commands that run once, in the workspace, before the first turn.
	Setup []string `yaml:"setup" json:"setup,omitempty"`
	// Network are the hosts that commands may reach, through a proxy: HOST,
	// *.DOMAIN, or either with :PORT. Without any there is no network.
	Network []string `yaml:"network" json:"network,omitempty"`
}

// File is one file of a fresh workspace: Text, or a copy of the worker's From.
type File struct {
	Path string `yaml:"path" json:"path"`
	Text string `yaml:"text" json:"text,omitempty"`
	From string `yaml:"from" json:"from,omitempty"`
	// Executable gives it mode 755 instead of 644.
	Executable bool `yaml:"executable" json:"executable,omitempty"`
}

// Directory is one directory of a fresh workspace: empty, or a copy of the
// worker's From without what git or a .countersignignore file ignores there.
type Directory struct {
	Path string `yaml:"path" json:"path"`
	From string `yaml:"from" json:"from,omitempty"`
}

// Repository is a git repository, cloned by the worker.
type Repository struct {
	// Path is where it goes; empty is the workspace itself.
	Path string `yaml:"path" json:"path,omitempty"`
	// URL is https, http, ssh, git or file, or [USER@]HOST:PATH. It holds no password.
	URL string `yaml:"url" json:"url"`
	// Ref is a branch, a tag or a whole commit ID; empty is the remote's default
	// branch.
	Ref string `yaml:"ref" json:"ref,omitempty"`
	// Depth is how many commits of history are fetched; 0 is all.
	Depth int `yaml:"depth" json:"depth,omitempty"`
	// Credentials are used for the clone alone and reach neither the sandbox nor
	// the clone's configuration: for http and https a token or password, for ssh
	// a private key's file.
	Credentials *Credentials `yaml:"credentials" json:"credentials,omitempty"`
}

// Credentials name what a clone signs in with.
type Credentials struct {
	Reference `yaml:",inline"`
	// User goes with a token or password; empty is "git".
	User string `yaml:"user" json:"user,omitempty"`
}

// Reference names a secret of the worker: an environment variable or a file,
// whose final line break does not count.
type Reference struct {
	Env  string `yaml:"env" json:"env,omitempty"`
	File string `yaml:"file" json:"file,omitempty"`
}

// maxSecret bounds a secret's file, in bytes: an environment holds no more.
const maxSecret = 64 << 10 // 64 KiB

// Value looks the secret up. The error is a sentence that names the reference.
func (r Reference) Value(getenv func(string) string) (string, error) {
	if r.Env != "" {
		if v := getenv(r.Env); v != "" {
			return v, nil
		}
		return "", fmt.Errorf("the worker's environment variable %s is not set", r.Env)
	}
	info, err := os.Stat(r.File)
	switch {
	case err != nil:
		return "", fmt.Errorf("the worker's file %s cannot be read", r.File)
	case !info.Mode().IsRegular() || info.Size() > maxSecret:
		return "", fmt.Errorf("the worker's file %s is no file of at most %d bytes", r.File, maxSecret)
	}
	data, err := os.ReadFile(r.File)
	if err != nil {
		return "", fmt.Errorf("the worker's file %s cannot be read", r.File)
	}
	v := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if v == "" || strings.ContainsRune(v, 0) {
		return "", fmt.Errorf("the worker's file %s holds no secret", r.File)
	}
	return v, nil
}

// References are all secrets that the manifest names.
func (w Workspace) References() []Reference {
	var all []Reference
	for _, name := range slices.Sorted(maps.Keys(w.Secrets)) {
		all = append(all, w.Secrets[name])
	}
	for _, r := range w.Repositories {
		if r.Credentials != nil {
			all = append(all, r.Credentials.Reference)
		}
	}
	return all
}

// Environ is the environment of the workspace's commands, secrets looked up. The
// error is a sentence.
func (w Workspace) Environ(getenv func(string) string) (map[string]string, error) {
	env := maps.Clone(w.Environment)
	if env == nil {
		env = map[string]string{}
	}
	for name, ref := range w.Secrets {
		v, err := ref.Value(getenv)
		if err != nil {
			return nil, fmt.Errorf("the secret %s is missing: %w", name, err)
		}
		env[name] = v
	}
	return env, nil
}

// Fingerprint is of what a command's verdict rests on beside the command: the
// environment, and where secrets come from. It is empty where there is neither.
func (w Workspace) Fingerprint() string {
	if len(w.Environment) == 0 && len(w.Secrets) == 0 && len(w.Network) == 0 {
		return ""
	}
	data, err := json.Marshal([]any{w.Environment, w.Secrets, w.Network})
	if err != nil {
		return "unreadable"
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Absolute makes the worker's paths absolute by abs, which may be filepath.Abs.
func (w Workspaces) Absolute(abs func(string) (string, error)) error {
	for name, one := range w {
		var paths []*string
		for i := range one.Directories {
			paths = append(paths, &one.Directories[i].From)
		}
		for i := range one.Files {
			paths = append(paths, &one.Files[i].From)
		}
		for i := range one.Repositories {
			if c := one.Repositories[i].Credentials; c != nil {
				paths = append(paths, &c.File)
			}
		}
		for _, p := range paths {
			if err := absolute(abs, p); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		for key, ref := range one.Secrets {
			if err := absolute(abs, &ref.File); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			one.Secrets[key] = ref
		}
	}
	return nil
}

func absolute(abs func(string) (string, error), p *string) error {
	if *p == "" {
		return nil
	}
	full, err := abs(*p)
	if err == nil {
		*p = full
	}
	return err
}
