package sandbox

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/countersign/countersign/internal/policy"
	"github.com/countersign/countersign/internal/workflows"
)

// refuser is a backend that may run no commands at all; why is a sentence.
type refuser interface{ Refuses() (why string) }

// JudgeSwitch tells whether commands would be confined less on another backend, and
// who may agree to that. What cannot be is a refusal.
func (a *Activities) JudgeSwitch(ctx context.Context, in workflows.SwitchInput) (workflows.SwitchVerdict, error) {
	to, err := a.offer(in.Backend)
	if err != nil {
		return workflows.SwitchVerdict{}, err
	}
	if in.Root != "" {
		if _, err := a.root(in.Backend, in.Root); err != nil {
			return workflows.SwitchVerdict{}, activityError(ctx, err)
		}
	}
	if r, ok := to.Backend.(refuser); ok && r.Refuses() != "" {
		return workflows.SwitchVerdict{}, activityError(ctx, Refuse(r.Refuses()))
	}
	isolated, why := to.Backend.Isolated()
	if isolated || !a.confined(in) {
		return workflows.SwitchVerdict{}, nil
	}
	tier := policy.Risky.String()
	v := workflows.SwitchVerdict{Less: true, Reasons: []string{
		"On " + in.Backend + " commands are not isolated from the worker's machine, as they are on " + in.From + ". " + why,
	}}
	if a.cfg.Rules != nil {
		v.Rule = a.cfg.Rules(tier, in.Channel)
	}
	return v, nil
}

// confined tells whether a session's commands are isolated now. What is not known
// counts as isolated.
func (a *Activities) confined(in workflows.SwitchInput) bool {
	if in.Current != nil {
		return in.Current.Isolated
	}
	from, err := a.offer(in.From)
	if err != nil {
		return true
	}
	isolated, _ := from.Backend.Isolated()
	return isolated
}

// root accepts a directory only below those that the configuration lists, wherever
// symbolic links lead.
func (a *Activities) root(backend, dir string) (string, error) {
	if backend != "local" {
		return "", Refuse("A root can be named for local only.")
	}
	real, err := filepath.EvalSymlinks(dir)
	if err == nil && filepath.IsAbs(real) {
		for _, root := range a.cfg.Roots {
			if root, err = filepath.EvalSymlinks(root); err != nil {
				continue
			}
			if rel, err := filepath.Rel(root, real); err == nil && filepath.IsLocal(rel) {
				return real, nil
			}
		}
	}
	if len(a.cfg.Roots) == 0 {
		return "", Refuse("No roots are offered here: sandbox.local.roots lists none.")
	}
	return "", Refuse(fmt.Sprintf("%q is no directory at or below one that this worker offers: %s.", dir, strings.Join(a.cfg.Roots, ", ")))
}
