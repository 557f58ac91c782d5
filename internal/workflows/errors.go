package workflows

import "errors"

var (
	// ErrNoSession: no session runs under that workflow ID.
	ErrNoSession = errors.New("no session runs in this thread")
	// ErrUnconfirmed: the server did not answer in time; what was asked for may
	// have been recorded.
	ErrUnconfirmed = errors.New("the server did not answer in time")
	// ErrUnavailable: the server cannot be reached; nothing was recorded.
	ErrUnavailable = errors.New("the server cannot be reached")
)
