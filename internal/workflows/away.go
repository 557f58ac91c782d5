package workflows

import (
	"errors"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// outOfAttempts reports that an activity was tried as often as it may, and might
// succeed later.
func outOfAttempts(err error) bool {
	var failed *temporal.ActivityError
	return errors.As(err, &failed) && failed.RetryState() == enumspb.RETRY_STATE_MAXIMUM_ATTEMPTS_REACHED
}

// away says in the thread, once, that what a call needs does not answer and what to
// do; it is tried on meanwhile.
func (s *session) away(ctx workflow.Context, err error) {
	if s.st.Turn == nil || s.st.Turn.Away {
		return
	}
	s.st.Turn.Away = true
	s.notice(sentenceOf(err) + " The session and its files are safe. It goes on by itself when that is over; Stop ends the turn.")
	s.step(ctx)
}

// back says that it goes on.
func (s *session) back() {
	if s.st.Turn == nil || !s.st.Turn.Away {
		return
	}
	s.st.Turn.Away = false
	s.notice("The sandbox answers again; the turn goes on.")
}
