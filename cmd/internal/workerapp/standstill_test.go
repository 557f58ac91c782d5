package workerapp

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"
)

// A process that has not moved for longer than a heartbeat may be late has stood
// still, also where its machine slept or somebody set its clock; for a while it
// doubts.
func TestStandstill(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for what, c := range map[string]struct {
		s    *stillness
		want bool
	}{
		"nobody watches":          {&stillness{}, false},
		"it moves":                {&stillness{moved: now.Add(time.Minute)}, false},
		"it stood still":          {&stillness{moved: now.Add(-stillFor - time.Second)}, true},
		"its machine slept":       {&stillness{moved: now.Round(0).Add(-time.Hour)}, true},
		"it stood still before":   {&stillness{moved: now.Add(time.Minute), ended: now}, true},
		"it stood still long ago": {&stillness{moved: now.Add(time.Minute), ended: now.Add(-doubtFor - time.Minute)}, false},
	} {
		require.Equal(t, c.want, c.s.lately(), what)
	}
}

// What the server has given up while its process stood still does not begin; what it
// still waits for does, when it says so, and nobody asks where nothing stood still.
func TestNothingBeginsThatWasGivenUp(t *testing.T) {
	t.Parallel()
	gone, away := serviceerror.NewNotFound("activity task not found"), serviceerror.NewUnavailable("away")
	for what, c := range map[string]struct {
		moves   bool
		answers []error
		want    error
	}{
		"it moves":                    {true, nil, nil},
		"it is waited for":            {false, []error{nil}, nil},
		"it is to be cancelled":       {false, []error{temporal.NewCanceledError()}, nil},
		"it was given up":             {false, []error{gone}, errGivenUp},
		"away, then it is waited for": {false, []error{away, nil}, nil},
		"away, then it was given up":  {false, []error{away, serviceerror.NewDeadlineExceeded("late"), gone}, errGivenUp},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			asked := 0
			s := &stillness{moved: time.Now().Add(time.Hour), ask: func(context.Context, ...any) error {
				asked++
				return c.answers[asked-1]
			}}
			if !c.moves {
				s.ended = time.Now()
			}
			require.ErrorIs(t, s.awaited(t.Context()), c.want)
			require.Equal(t, len(c.answers), asked)
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s := &stillness{moved: time.Now().Add(time.Hour), ended: time.Now(), ask: func(context.Context, ...any) error { return away }}
	require.ErrorIs(t, s.awaited(ended), context.Canceled)
}
