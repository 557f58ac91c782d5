package chat

// Kind says what sort of refusal an [Error] is, so that each platform can answer
// in its own way.
type Kind int

// Kinds of refusals.
const (
	// KindInvalid: what was asked for cannot be understood.
	KindInvalid Kind = iota + 1
	// KindForbidden: this person may not ask for it.
	KindForbidden
	// KindNotFound: what it names does not exist.
	KindNotFound
	// KindConflict: it does not fit the present state.
	KindConflict
	// KindUnavailable: nothing was recorded; it may be tried again.
	KindUnavailable
	// KindUnconfirmed: it may have been recorded; trying it again is harmless.
	KindUnconfirmed
)

// Error is a refusal in words for people. Err, which may be nil, is for the log.
type Error struct {
	Kind Kind
	// Code is a stable snake_case name.
	Code string
	// Message is one sentence about what happened, Hint one about what to do.
	Message string
	Hint    string
	Err     error
}

func (e *Error) Error() string {
	if e.Err != nil {
		return e.Message + " (" + e.Err.Error() + ")"
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Err }

// Text is the refusal as one piece of text.
func (e *Error) Text() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + " " + e.Hint
}

func invalid(code, message, hint string) *Error {
	return &Error{Kind: KindInvalid, Code: code, Message: message, Hint: hint}
}
