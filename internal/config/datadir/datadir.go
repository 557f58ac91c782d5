// Package datadir is the data directory of one machine: who holds it, and the
// small files by which cmd/dev, cmd/worker and cmd/bot on it find each other.
//
//	dev.lock       held by the cmd/dev that runs on it, with its pid
//	worker.lock    held by the worker that serves this host's sandboxes
//	dev.json       where that cmd/dev is reached (see Dev); only while it is up
//	settings.json  its effective settings, without secrets (config.Snapshot)
//	host_id        the host's name in task queues, made once
//	web_token      the web chat's token, made once
//	.gitignore     keeps all of it out of a project's repository
//
// All files are mode 0600 and written under another name first, so a reader
// sees a whole file or none.
package datadir

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/countersign/countersign/internal/config"
	"github.com/countersign/countersign/internal/telemetry"
)

const (
	devLock      = "dev.lock"
	workerLock   = "worker.lock"
	devFile      = "dev.json"
	settingsFile = "settings.json"
	hostFile     = "host_id"
	tokenFile    = "web_token"
)

// Dir is an existing, writable data directory.
type Dir struct{ path string }

// Open makes the directory, mode 0700, where there is none, and checks that
// files can be written in it. path is absolute, as config.Load leaves it. One that
// it makes git ignores: by default it lies in somebody's project.
func Open(path string) (*Dir, error) {
	_, missing := os.Stat(path)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("the data directory %s cannot be made (%w); name another one with --data-dir", path, reason(err))
	}
	probe, err := os.CreateTemp(path, ".probe-*")
	if err != nil {
		return nil, fmt.Errorf("the data directory %s cannot be written to (%w); name another one with --data-dir", path, reason(err))
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return nil, fmt.Errorf("checking the data directory %s: %w", path, err)
	}
	if errors.Is(missing, fs.ErrNotExist) {
		if err := os.WriteFile(filepath.Join(path, ".gitignore"), []byte("*\n"), 0o600); err != nil {
			return nil, fmt.Errorf("making the data directory %s: %w", path, err)
		}
	}
	return &Dir{path: path}, nil
}

// reason strips operation and path from err: the sentence around it has them.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// Path is the directory itself.
func (d *Dir) Path() string { return d.path }

// Join is a path inside the directory.
func (d *Dir) Join(name ...string) string { return filepath.Join(append([]string{d.path}, name...)...) }

// Dev is what dev.json holds: how to reach a running cmd/dev. Its fields are
// public, see the settings' documentation.
type Dev struct {
	PID             int    `json:"pid"`
	WebURL          string `json:"web_url"`
	Token           string `json:"token"`
	TemporalAddress string `json:"temporal_address"`
	Namespace       string `json:"namespace"`
	UIURL           string `json:"ui_url"`
}

// WriteDev publishes dev.json.
func (d *Dir) WriteDev(v Dev) error { return d.writeJSON(devFile, v) }

// ReadDev returns dev.json; ok is false when there is none. One may be left by
// a cmd/dev that was killed.
func (d *Dir) ReadDev() (v Dev, ok bool, err error) {
	data, ok, err := d.read(devFile)
	if !ok || err != nil {
		return Dev{}, false, err
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return Dev{}, false, fmt.Errorf("reading %s: %w", d.Join(devFile), err)
	}
	return v, true, nil
}

// RemoveDev takes dev.json away; it may be gone already.
func (d *Dir) RemoveDev() error {
	if err := os.Remove(d.Join(devFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing dev.json: %w", err)
	}
	return nil
}

// WriteSettings publishes a cmd/dev's effective settings.
func (d *Dir) WriteSettings(s config.Snapshot) error { return d.writeJSON(settingsFile, s) }

// ReadSettings returns the settings of the last cmd/dev on the directory, or
// nil when there was none.
func (d *Dir) ReadSettings() (*config.Snapshot, error) {
	data, ok, err := d.read(settingsFile)
	if !ok || err != nil {
		return nil, err
	}
	s, err := config.ParseSnapshot(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Join(settingsFile), err)
	}
	return s, nil
}

// HostID is the host's name in task queues: random, made at the first call and
// the same ever after.
func (d *Dir) HostID() (string, error) { return d.once(hostFile, 8) }

// WebToken is the web chat's token: given when that is set, else the one kept
// here, which is made at the first call. It is kept either way, so that another
// process on the directory knows it.
func (d *Dir) WebToken(given config.Secret) (config.Secret, error) {
	if given.IsSet() {
		return given, d.write(tokenFile, []byte(given.Reveal()))
	}
	token, err := d.once(tokenFile, 24)
	return telemetry.NewSecret(token), err
}

// once returns the file's text, after it has written n random bytes in
// hexadecimal to it where there is none. Of two processes that do so at once
// both get the winner's.
func (d *Dir) once(name string, n int) (string, error) {
	for {
		data, ok, err := d.read(name)
		if err != nil {
			return "", err
		}
		if text := strings.TrimSpace(string(data)); ok && text != "" {
			return text, nil
		}
		random := make([]byte, n)
		if _, err := rand.Read(random); err != nil {
			return "", fmt.Errorf("making %s: %w", name, err)
		}
		draft, err := d.draft(name, []byte(hex.EncodeToString(random)))
		if err != nil {
			return "", err
		}
		err = os.Link(draft, d.Join(name))
		_ = os.Remove(draft)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("making %s: %w", d.Join(name), err)
		}
		if ok { // An empty file, which nothing here writes.
			return "", fmt.Errorf("%s is empty; remove it", d.Join(name))
		}
	}
}

func (d *Dir) read(name string) (data []byte, ok bool, err error) {
	data, err = os.ReadFile(d.Join(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("reading %s: %w", d.Join(name), reason(err))
	}
	return data, true, nil
}

func (d *Dir) writeJSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", name, err)
	}
	return d.write(name, append(data, '\n'))
}

// write replaces the file as a whole.
func (d *Dir) write(name string, data []byte) error {
	draft, err := d.draft(name, data)
	if err != nil {
		return err
	}
	if err := os.Rename(draft, d.Join(name)); err != nil {
		_ = os.Remove(draft)
		return fmt.Errorf("writing %s: %w", d.Join(name), err)
	}
	return nil
}

// draft writes data to a new file of mode 0600 beside name.
func (d *Dir) draft(name string, data []byte) (string, error) {
	f, err := os.CreateTemp(d.path, "."+name+"-*")
	if err != nil {
		return "", fmt.Errorf("writing %s: %w", d.Join(name), reason(err))
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(f.Name())
		return "", fmt.Errorf("writing %s: %w", d.Join(name), err)
	}
	return f.Name(), nil
}
