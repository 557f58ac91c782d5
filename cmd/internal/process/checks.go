package process

import (
	"encoding/json"
	"fmt"
)

// Check is one thing that a doctor command has looked at.
type Check struct {
	// Name is short: "bot token", "memory".
	Name string `json:"name"`
	// State is ok, warning or failed.
	State string `json:"state"`
	// Text says what was found, Fix what to do about it.
	Text string `json:"text"`
	Fix  string `json:"fix,omitempty"`
}

// States of a [Check].
const (
	CheckOK      = "ok"
	CheckWarning = "warning"
	CheckFailed  = "failed"
)

// Report prints checks, as one JSON array where that is asked for. One that failed is
// an [ExitError].
func (e *Env) Report(checks []Check, asJSON bool) error {
	failed := false
	for _, x := range checks {
		failed = failed || x.State == CheckFailed
		if asJSON {
			continue
		}
		_, _ = fmt.Fprintf(e.Stdout, "%-8s %s: %s\n", x.State, x.Name, x.Text)
		if x.Fix != "" {
			_, _ = fmt.Fprintf(e.Stdout, "         %s\n", x.Fix)
		}
	}
	if asJSON {
		if err := json.NewEncoder(e.Stdout).Encode(checks); err != nil {
			return fmt.Errorf("writing the checks: %w", err)
		}
	}
	if failed {
		return ExitError{Code: ExitFailed}
	}
	return nil
}
