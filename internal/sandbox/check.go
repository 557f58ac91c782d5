package sandbox

import (
	"fmt"
	"path"
	"strings"
)

// Check returns a [RefusedError] for a spec that no backend can run.
func (s ExecSpec) Check() error {
	switch {
	case !validExecID(s.ID):
		return Refuse(fmt.Sprintf("%q is no exec ID.", s.ID))
	case s.Command == "":
		return Refuse("The command is empty.")
	case len(s.Command) > MaxCommand:
		return Refuse(fmt.Sprintf("The command is %d bytes long; at most %d can be passed to a shell. Write it to a file and run that.",
			len(s.Command), MaxCommand))
	case strings.ContainsRune(s.Command, 0):
		return Refuse("The command holds a NUL byte, which no shell can be given.")
	case strings.ContainsRune(s.Cwd, 0):
		return Refuse("The working directory holds a NUL byte.")
	case s.Limits.Timeout < 0 || s.Limits.OutputBytes < 0:
		return Refuse("A limit is negative.")
	}
	size := 0
	for k, v := range s.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			return Refuse(fmt.Sprintf("%q cannot be an environment variable.", k))
		}
		size += len(k) + len(v)
	}
	if size > MaxCommand {
		return Refuse(fmt.Sprintf("The environment is %d bytes long; at most %d can be passed.", size, MaxCommand))
	}
	return nil
}

// MaxInput is the longest [Input], in bytes: what one request to a container
// holds with ease.
const MaxInput = 64 << 10 // 64 KiB

// Check returns a [RefusedError] for input that no backend can send.
func (in Input) Check() error {
	switch {
	case !validExecID(in.Key):
		return Refuse(fmt.Sprintf("%q is no key.", in.Key))
	case len(in.Data) > MaxInput:
		return Refuse(fmt.Sprintf("The text is %d bytes long; at most %d can be sent at once.", len(in.Data), MaxInput))
	}
	return nil
}

func validExecID(id string) bool {
	if id == "" || len(id) > 128 || id[0] == '.' || id[0] == '-' {
		return false
	}
	for _, r := range id {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
		default:
			return false
		}
	}
	return true
}

// WithDefaults returns l with its zero values filled in.
func (l Limits) WithDefaults() Limits {
	if l.Timeout == 0 {
		l.Timeout = DefaultTimeout
	}
	if l.OutputBytes == 0 {
		l.OutputBytes = DefaultOutputBytes
	}
	return l
}

// Abs makes p absolute, as commands in the workspace would read it, and clean.
func (i Info) Abs(p string) string {
	switch {
	case p == "~" || strings.HasPrefix(p, "~/"):
		return path.Join(i.Home, p[1:])
	case !path.IsAbs(p):
		return path.Join(i.Workspace, p)
	}
	return path.Clean(p)
}
