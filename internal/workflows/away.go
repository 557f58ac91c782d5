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

// away says in the thread, once, that what a session needs does not answer and what
// to do; it is tried on meanwhile.
func (s *session) away(ctx workflow.Context, err error) {
	if !s.st.Away {
		s.st.Away = true
		text := sentenceOf(err) + " The session and its files are safe. It goes on by itself when that is over"
		if s.st.Turn != nil {
			text += "; Stop ends the turn"
		}
		s.notice(text + ".")
		s.step(ctx)
	}
	s.watchAway(ctx)
}

// back says that it goes on.
func (s *session) back() {
	if !s.st.Away {
		return
	}
	s.st.Away = false
	text := "The sandbox answers again"
	if s.st.Turn != nil {
		text += "; the turn goes on"
	}
	s.notice(text + ".")
}

// watchAway looks whether what is away is back, as long as something waits for it;
// the next run and the next turn look anew.
func (s *session) watchAway(ctx workflow.Context) {
	if !s.st.Away || s.st.Sandbox == nil || s.watching {
		return
	}
	sb := *s.st.Sandbox
	s.watching = true
	s.following++
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { s.watching = false; s.following-- }()
		pctx, cancel := workflow.WithCancel(s.onHost(probeOptions(ctx, sb.Queue), sb.Queue))
		defer cancel()
		f := workflow.ExecuteActivity(pctx, ActivityOpenSandbox, OpenInput{WorkflowID: s.id, Current: &sb})
		_ = workflow.Await(ctx, func() bool {
			waited := s.st.Turn != nil || len(s.running(0)) > 0
			return f.IsReady() || !s.st.Away || !waited || s.draining || s.st.Destroy != nil
		})
		switch {
		case !f.IsReady():
		case f.Get(ctx, nil) == nil:
			s.back()
		default:
			s.st.Away = false // what is wrong the command's own activity says
		}
	})
}

// patience is how often a command's activity is tried until the thread is told why
// it fails.
type patience struct {
	// inVain is how often the sandbox answered at once and the activity failed all the
	// same; forGood is set when nothing more is to be told.
	inVain  int
	forGood bool
}

func (p patience) attempts() int32 {
	if p.forGood || p.inVain >= mostInVain {
		return 0
	}
	return runAttempts
}

// mostInVain bounds what is said, and history, where something else than the sandbox
// is wrong.
const mostInVain = 3

// waitFor tells the thread why a command's activity has failed so often, and waits
// until the sandbox answers or it is not wanted any more. An attempt also ends with a
// killed worker: nobody is told of that.
func (s *session) waitFor(ctx workflow.Context, err error, p *patience, wanted func() bool) {
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) {
		return
	}
	began := workflow.Now(ctx)
	s.away(ctx, err)
	_ = workflow.Await(ctx, func() bool { return !s.st.Away || !wanted() })
	if p.inVain++; workflow.Now(ctx).Sub(began) > probeShort {
		p.inVain = 0
	}
}
