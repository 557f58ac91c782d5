package chat

// Check is one thing about a chat service's set-up that was looked at.
type Check struct {
	// Name is short: "bot token", "scopes".
	Name string `json:"name"`
	// State is ok, warning or failed.
	State string `json:"state"`
	// Text says what was found, Fix what to do about it; empty where all is well.
	Text string `json:"text"`
	Fix  string `json:"fix,omitempty"`
}

// States of a [Check].
const (
	CheckOK      = "ok"
	CheckWarning = "warning"
	CheckFailed  = "failed"
)
