package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/countersign/countersign/internal/audit"
)

const (
	// maxGrants bounds the standing permissions of a session.
	maxGrants = 50
	// maxEnded bounds what is kept of those that have ended.
	maxEnded = 50
)

// grantable reports whether a request may be answered with a standing
// permission: only a risky command whose exact shape the gate gives.
func grantable(j *Judgement) bool { return j != nil && j.Tier == "risky" && j.Shape != "" }

// grant gives the permission that came with the deciding vote.
func (s *session) grant(ctx workflow.Context, c *Call, a *Approval, by Actor) {
	if a.GrantFor <= 0 || !grantable(c.Judgement) || len(s.st.Grants) >= maxGrants {
		return
	}
	s.st.Granted++
	now := workflow.Now(ctx)
	g := Grant{
		ID: "g" + itoa(s.st.Granted), Shape: c.Judgement.Shape, Command: cutText(c.Judgement.Command.Text, MaxShownCommand), By: by,
		At: now, Until: now.Add(a.GrantFor), PolicyVersion: c.Judgement.PolicyVersion, Approval: a.ID,
	}
	s.st.Grants = append(s.st.Grants, g)
	if p := s.approvalPost(a.ID); p != nil {
		p.View.Approval.GrantedUntil = g.Until
	}
	s.audit(ctx, audit.Entry{Kind: audit.KindGranted, Approval: a.ID, Actor: by.ID, Evidence: by.Groups, Command: g.Command, Text: g.ID + " until " + g.Until.UTC().Format("2006-01-02 15:04:05 UTC")})
}

// granted finds a permission that allows what was judged, and drops those that
// have ended.
func (s *session) granted(ctx workflow.Context, j *Judgement) *Grant {
	now := workflow.Now(ctx)
	s.endGrants(ctx, func(g Grant) bool { return !now.Before(g.Until) }, Actor{}, "")
	s.endGrants(ctx, func(g Grant) bool { return g.PolicyVersion != j.PolicyVersion }, Actor{}, "a newer policy")
	if !grantable(j) {
		return nil
	}
	for i := range s.st.Grants {
		if s.st.Grants[i].Shape == j.Shape {
			return &s.st.Grants[i]
		}
	}
	return nil
}

// endGrants ends the permissions that match, before their time where why says
// so, and shows it on the cards that gave them.
func (s *session) endGrants(ctx workflow.Context, match func(Grant) bool, by Actor, why string) int {
	var left []Grant
	n := len(s.st.Grants)
	for _, g := range s.st.Grants {
		if !match(g) {
			left = append(left, g)
			continue
		}
		end := GrantEnd{ID: g.ID, At: workflow.Now(ctx), Why: why}
		if by.ID != "" {
			end.By = &by
		}
		s.st.Ended = append(s.st.Ended, end)
		if why != "" {
			s.audit(ctx, audit.Entry{Kind: audit.KindGrantEnded, Approval: g.Approval, Actor: by.ID, Evidence: by.Groups, Text: g.ID + " ended by " + why})
			s.flush = true
		}
		if p := s.approvalPost(g.Approval); p != nil {
			if why != "" {
				p.View.Approval.GrantEnd = &end
				s.changed(p)
			}
			p.Final = true
		}
	}
	if over := len(s.st.Ended) - maxEnded; over > 0 {
		s.st.Ended = slices.Delete(s.st.Ended, 0, over)
	}
	s.st.Grants = left
	return n - len(left)
}

// gives reports whether the card of a request shows a permission that stands: it
// is kept, to show when that ends.
func (s *session) gives(approval string) bool {
	return slices.ContainsFunc(s.st.Grants, func(g Grant) bool { return g.Approval == approval })
}

// revokeGrant ends a permission at once.
func (s *session) revokeGrant(ctx workflow.Context, r RevokeGrant) (Outcome, error) {
	now := workflow.Now(ctx)
	s.endGrants(ctx, func(g Grant) bool { return !now.Before(g.Until) }, Actor{}, "")
	if s.endGrants(ctx, func(g Grant) bool { return g.ID == r.GrantID }, r.By, "revocation") == 0 {
		return s.notGranted(r.GrantID), nil
	}
	s.step(ctx)
	return Outcome{OutcomeRecorded, "Revoked: it is asked about again."}, nil
}

// notGranted answers who revokes what does not stand any more.
func (s *session) notGranted(id string) Outcome {
	i := slices.IndexFunc(s.st.Ended, func(e GrantEnd) bool { return e.ID == id })
	if i < 0 {
		return Outcome{OutcomeRefused, "No permission " + id + " stands in this session."}
	}
	e := s.st.Ended[i]
	at := e.At.UTC().Format("15:04 UTC")
	switch {
	case e.Why == "":
		return Outcome{OutcomeAlreadyDecided, "The time of " + id + " was over already."}
	case e.By != nil:
		return Outcome{OutcomeAlreadyDecided, id + " was ended by " + e.By.Label() + " at " + at + " already."}
	}
	return Outcome{OutcomeAlreadyDecided, id + " was ended by " + e.Why + " at " + at + " already."}
}
