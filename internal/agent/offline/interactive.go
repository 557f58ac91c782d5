package offline

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/countersign/countersign/internal/workflows"
)

// defaultYield is yield_time_ms of an interactive block that sets none.
const defaultYield = 1000

// interactive reads a block tagged "interactive": one response a line. The first
// line is a command that goes to the background, each line after it is for that:
//
//	> text   sends text and a newline
//	^C ^D    sends Ctrl-C, Ctrl-D
//	<        reads on
//
// Further words of the tag: "tty", "yield=MS" for all its calls, and
// "session=ID", with which the first line is talk, too.
func interactive(info, body []string) [][]step {
	first := step{yield: defaultYield}
	begun := false
	for _, word := range info {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "tty":
			first.tty = true
		case "yield":
			if n, err := strconv.Atoi(value); err == nil && n > 0 {
				first.yield = n
			}
		case "session":
			first.session, begun = value, true
		}
	}
	var groups [][]step
	for _, line := range body {
		if strings.TrimSpace(line) == "" {
			continue
		}
		st := first
		if st.talk = begun; !begun {
			st.command, begun = line, true
		} else {
			st.chars = charsOf(line)
		}
		groups = append(groups, []step{st})
	}
	return groups
}

func charsOf(line string) string {
	switch strings.TrimSpace(line) {
	case "^C":
		return "\x03"
	case "^D":
		return "\x04"
	case "<":
		return ""
	}
	return strings.TrimPrefix(strings.TrimPrefix(line, ">"), " ") + "\n"
}

// call is the tool call of a step: its name and arguments.
func (st step) call(session string) (name, arguments string) {
	if !st.talk {
		if st.yield > 0 {
			return workflows.ToolShell, st.arguments()
		}
		return toolOf(st.command), st.arguments()
	}
	if st.session != "" {
		session = st.session
	}
	data, _ := json.Marshal(struct { // strings and numbers always marshal
		Session string `json:"session_id"`
		Chars   string `json:"chars"`
		Yield   int    `json:"yield_time_ms"`
	}{session, st.chars, st.yield})
	return workflows.ToolWriteStdin, string(data)
}

// arguments are those of a command, with all that the tool's schema requires.
func (st step) arguments() string {
	args := struct {
		Command string  `json:"command"`
		Cwd     *string `json:"cwd"`
		Timeout *int    `json:"timeout_seconds"`
		Yield   *int    `json:"yield_time_ms"`
		TTY     *bool   `json:"tty"`
	}{Command: st.command}
	var v any = args
	tool := toolOf(st.command)
	switch {
	case st.yield > 0:
		args.Yield, args.TTY = &st.yield, &st.tty
		v = args
	case tool == "apply_patch":
		v = struct {
			Patch string `json:"patch"`
		}{st.command}
	case tool == "view_image":
		_, path, _ := strings.Cut(st.command, " ")
		v = struct {
			Path string `json:"path"`
		}{path}
	case tool == "list_files":
		list := struct {
			Path  *string `json:"path"`
			Depth *int    `json:"depth"`
		}{}
		if _, path, ok := strings.Cut(st.command, " "); ok {
			list.Path = &path
		}
		v = list
	}
	data, _ := json.Marshal(v) // strings and numbers always marshal
	return string(data)
}

// session is that of the command which was begun last.
func (t *turn) session() string {
	for i := len(t.done) - 1; i >= 0; i-- {
		if s := t.done[i].output.Session; s != "" {
			return s
		}
	}
	return ""
}
