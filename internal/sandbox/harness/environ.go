package harness

import (
	"maps"
	"slices"
	"strings"
)

// EnvFD is the file descriptor from which [Import] and bubblewrap's --args read.
const EnvFD = "3"

// Import is how a command gets its environment without anybody who lists processes
// seeing it: prefix stands before the command, and script is what it reads from
// [EnvFD]. What a shell cannot set, which is no secret, prefix holds itself. The last
// variables win.
func Import(env map[string]string, last ...string) (prefix []string, script string) {
	if len(env) == 0 {
		return nil, ""
	}
	var b strings.Builder
	assign := func(name, value string) {
		b.WriteString("export " + name + "=" + quote(value) + "\n")
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !isName(name) {
			if prefix == nil {
				prefix = append(prefix, "env")
			}
			prefix = append(prefix, name+"="+env[name])
			continue
		}
		assign(name, env[name])
	}
	for _, kv := range last {
		name, value, _ := strings.Cut(kv, "=")
		assign(name, value)
	}
	return append(prefix, "sh", "-c", `eval "$(cat <&`+EnvFD+`)"; exec `+EnvFD+`<&-; exec "$@"`, "sh"), b.String()
}

// BwrapArgs are options of bubblewrap that set an environment, as its --args reads
// them. The last of two values of a name wins.
func BwrapArgs(env []string) string {
	var b strings.Builder
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		b.WriteString("--setenv\x00" + name + "\x00" + value + "\x00")
	}
	return b.String()
}
