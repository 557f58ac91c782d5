package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/countersign/countersign/internal/audit"
)

// maxGrants bounds the standing permissions of a session.
const maxGrants = 50

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
		ID: "g" + itoa(s.st.Granted), Shape: c.Judgement.Shape, Command: c.Shown, By: by, At: now, Until: now.Add(a.GrantFor),
		PolicyVersion: c.Judgement.PolicyVersion,
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
	s.st.Grants = slices.DeleteFunc(s.st.Grants, func(g Grant) bool {
		return !workflow.Now(ctx).Before(g.Until) || g.PolicyVersion != j.PolicyVersion
	})
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

// revokeGrant ends a permission at once.
func (s *session) revokeGrant(ctx workflow.Context, r RevokeGrant) (Outcome, error) {
	n := len(s.st.Grants)
	s.st.Grants = slices.DeleteFunc(s.st.Grants, func(g Grant) bool { return g.ID == r.GrantID })
	if len(s.st.Grants) == n {
		return Outcome{OutcomeRefused, "No permission " + r.GrantID + " stands in this session."}, nil
	}
	s.audit(ctx, audit.Entry{Kind: audit.KindGrantEnded, Actor: r.By.ID, Text: r.GrantID + " revoked"})
	s.flush = true
	s.step(ctx)
	return Outcome{OutcomeRecorded, "Revoked: it is asked about again."}, nil
}
