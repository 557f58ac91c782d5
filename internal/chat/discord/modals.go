package discord

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/workflows"
)

// Modals about a request, and their inputs.
const (
	modalDeny  = "deny"
	modalEdit  = "edit"
	modalAlone = "alone"
	modalNote  = "note"

	inputReason  = "reason"
	inputVerdict = "verdict"
	inputCommand = "command"
)

// modalID is the custom ID of a modal about a request: it carries the button's.
func modalID(kind string, r ref) string {
	return strings.Join([]string{idModal, kind, r.encode()}, "|")
}

// label puts a modal's input under its label.
func label(text, hint string, input component) component {
	return component{Type: componentLabel, Label: cut(text, maxTitle), Description: cut(hint, 100), Component: &input}
}

func textInput(id string, style, most int, required bool) component {
	return component{Type: componentInput, CustomID: id, Style: style, MaxLength: most, Required: &required}
}

func selectInput(id string, required bool, options ...choice) component {
	c := component{Type: componentSelect, CustomID: id, Required: &required, Options: options[:min(len(options), maxOptions)]}
	if !required {
		none := 0
		c.MinValues = &none
	}
	return c
}

// denyModal asks why, and whether the agent is to try another way.
func denyModal(r ref) modal {
	return modal{CustomID: modalID(modalDeny, r), Title: "Deny", Components: []component{
		label("Verdict", "The command will not run. The agent is told why and goes on.", selectInput(inputVerdict, true,
			choice{Label: "Deny", Value: workflows.VerdictDeny, Default: true},
			choice{Label: "Ask for changes", Value: workflows.VerdictChanges})),
		label("Reason, or what should change", "", textInput(inputReason, inputLong, maxTyped, false)),
	}}
}

// commandModal is the box to change a command in.
func commandModal(r ref, command string) modal {
	in := textInput(inputCommand, inputLong, maxInput, true)
	in.Value = command
	return modal{CustomID: modalID(modalEdit, r), Title: "Change and approve", Components: []component{
		label("Command", "It is judged again; votes for the old one are void.", in),
		label("Note", "It goes on record and on the card.", textInput(inputReason, inputLong, maxTyped, false)),
	}}
}

// noteModal asks for a note to an approval.
func noteModal(r ref) modal {
	return modal{CustomID: modalID(modalNote, r), Title: "Approve with a note", Components: []component{
		label("Note", "It goes on record and on the card.", textInput(inputReason, inputLong, maxTyped, true)),
	}}
}

// aloneModal asks why somebody approves alone.
func aloneModal(r ref) modal {
	return modal{CustomID: modalID(modalAlone, r), Title: "Approve alone", Components: []component{
		label("Why this cannot wait for others", "It goes on record.", textInput(inputReason, inputLong, maxTyped, true)),
	}}
}

// hasForm reports the commands that ask for more before they are carried out.
func hasForm(v chat.Verb) bool {
	return slices.Contains([]chat.Verb{chat.VerbSwitch, chat.VerbFork, chat.VerbTitle, chat.VerbModel}, v)
}

// form is the modal that asks for what a command needs; problem says why there is
// nothing to choose from.
func (a *App) form(verb chat.Verb, t workflows.Thread, st workflows.TurnState) (m modal, problem string) {
	m = modal{CustomID: strings.Join([]string{idModal, string(verb), t.ID}, "|"), Title: title(verb)}
	switch verb {
	case chat.VerbSwitch:
		others := slices.DeleteFunc(slices.Clone(a.dep.Backends), func(b string) bool { return b == st.Header.Backend })
		if len(others) == 0 && len(a.cfg.Roots) == 0 {
			return m, "This session runs on " + st.Header.Backend + ", the only backend that is available here."
		}
		if len(others) == 0 {
			others = a.dep.Backends
		}
		m.Components = append(m.Components, label("Backend", "", selectInput(optionBackend, true, choices(others)...)))
		if len(a.cfg.Roots) > 0 {
			m.Components = append(m.Components, label("Root (local only)", "", selectInput(optionRoot, false, choices(a.cfg.Roots)...)))
		}
	case chat.VerbFork:
		m.Components = append(m.Components,
			label("Title of the new session", "", textInput(optionTitle, inputShort, 200, false)),
			label("Backend", "", selectInput(optionBackend, false, choices(a.dep.Backends)...)))
	case chat.VerbTitle:
		m.Title = "Change title"
		in := textInput(optionTitle, inputShort, 200, true)
		in.Value = cut(a.dep.Mask.Text(st.Header.Title), 200)
		m.Components = append(m.Components, label("New title", "", in))
	case chat.VerbModel:
		m.Title = "Change model"
		m.Components = append(m.Components, label("Model", "From the next turn on.", textInput(optionModel, inputShort, 200, true)))
	}
	return m, ""
}

func choices(values []string) []choice {
	var out []choice
	for _, v := range values {
		if v != "" && length(v) <= maxChoice {
			out = append(out, choice{Label: v, Value: v})
		}
	}
	return out
}

// inputs are what was typed and chosen in a modal, by custom ID, however its
// components are nested.
func inputs(raw json.RawMessage) map[string]string {
	out := map[string]string{}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			id, _ := v["custom_id"].(string)
			if text, ok := v["value"].(string); ok && id != "" {
				out[id] = strings.TrimSpace(text)
			}
			if list, ok := v["values"].([]any); ok && id != "" && len(list) > 0 {
				out[id], _ = list[0].(string)
			}
			walk(v["component"])
			walk(v["components"])
		}
	}
	var v any
	if json.Unmarshal(raw, &v) == nil {
		walk(v)
	}
	return out
}
