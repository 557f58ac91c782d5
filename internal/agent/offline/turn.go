package offline

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/countersign/countersign/internal/agent/tooloutput"
	"github.com/countersign/countersign/internal/agent/wire"
)

// speaker is the mark before a message in a thread where several people speak.
var speaker = regexp.MustCompile(`^\[@[^\]\n]*\]: ?`)

// turn is what the model must do until it answers, and what is done of it.
type turn struct {
	first bool // no assistant has spoken in the session yet
	// plan is one group of commands a response.
	plan [][]step
	done []ran
	// tour is true where the plan begins with the tour; idle counts messages
	// that had nothing to run.
	tour bool
	idle int
}

// ran is a call that has ended.
type ran struct {
	command string
	// changedBy, where it is set, changed the command that was asked for.
	changedBy string
	output    tooloutput.Output
	images    []wire.Image
}

func ranOf(call, output wire.Item) ran {
	r := ran{command: commandOf(call), images: output.Images}
	by, command, rest := tooloutput.CutChanged(output.Text)
	if by != "" {
		r.command, r.changedBy = command, by
	}
	r.output, _ = tooloutput.Parse(rest)
	return r
}

// notPersons begins what is given to the model beside the messages of people.
const notPersons = "[countersign]: "

// turn derives the running turn from the input: what came after the last
// answer or end mark.
func (m *Model) turn(items []wire.Item) turn {
	t := turn{first: true}
	start := 0
	for i, it := range items {
		if it.Role == "assistant" {
			t.first = false
			if isAnswer(items[i+1:]) {
				start = i + 1
			}
		}
		if it.Role == "user" && slices.Contains(m.EndMarks, it.Text) {
			start = i + 1
		}
	}
	outputs := map[string]wire.Item{}
	for _, it := range items[start:] {
		if it.Type == "function_call_output" {
			outputs[it.CallID] = it
		}
	}
	for _, it := range items[start:] {
		switch {
		case it.Role == "user" && strings.HasPrefix(it.Text, notPersons):
			// A file of the workspace, or others' talk: nobody asks for it.
		case it.Role == "user":
			t.take(it.Text)
		case it.Type == "function_call":
			t.done = append(t.done, ranOf(it, outputs[it.CallID]))
		}
	}
	return t
}

// isAnswer tells whether an assistant's message that rest follows ended its
// turn: it is no answer when calls came with it.
func isAnswer(rest []wire.Item) bool {
	for _, it := range rest {
		switch {
		case it.Type == "function_call":
			return false
		case it.Role == "user":
			return true
		}
	}
	return true
}

// take adds what a message asks for. The plan only ever grows at its end, so
// that a message taken midway never changes what is done already.
func (t *turn) take(text string) {
	groups := steps(speaker.ReplaceAllString(text, ""))
	switch {
	case len(groups) > 0:
		t.plan = append(t.plan, groups...)
	case len(t.plan) == 0:
		t.tour = true
		for _, c := range Tour() {
			t.plan = append(t.plan, []step{{command: c}})
		}
	default:
		t.idle++
	}
}

// next returns the calls of the next response; none when it is the answer.
func (t *turn) next() []step {
	left := len(t.done)
	for _, group := range t.plan {
		if left <= 0 {
			return group
		}
		left -= len(group)
	}
	return nil
}

// shownKeys shows keys as people write them.
var shownKeys = strings.NewReplacer("\x03", "^C", "\x04", "^D")

// commandOf returns a call's command, whatever model made it.
func commandOf(it wire.Item) string {
	args := struct {
		Command string `json:"command"`
		Path    string `json:"path"`
		Patch   string `json:"patch"`
		Session string `json:"session_id"`
		Chars   string `json:"chars"`
	}{}
	if it.Arguments == nil || json.Unmarshal([]byte(*it.Arguments), &args) != nil {
		return it.Name
	}
	if args.Command != "" {
		return args.Command
	}
	switch {
	case args.Patch != "":
		return args.Patch
	case args.Session != "":
		return strings.TrimRight("to "+args.Session+": "+shownKeys.Replace(args.Chars), " \n")
	}
	return strings.TrimSpace(it.Name + " " + args.Path)
}
