package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"syscall"

	"github.com/countersign/countersign/internal/policy"
)

const (
	// What one verdict may make the sandbox look at, each time that it is asked what
	// it needs: as often as what was found leads on.
	maxFacts   = 400
	maxMatches = 1000
	maxLooks   = 4 // a repository, its submodules, their settings, and what a link leads to
)

// looker gathers what the gate wants to know. What cannot be looked at stays
// unknown, which the gate judges as such.
type looker struct {
	s     Session
	facts policy.Facts
	paths map[string]bool // that were looked at, and whether their content was
	globs map[string]bool
}

func newLooker(s Session) *looker {
	return &looker{
		s: s, facts: policy.Facts{Files: map[string]policy.FileFact{}, Globs: map[string][]string{}},
		paths: map[string]bool{}, globs: map[string]bool{},
	}
}

// gather looks at what is needed.
func gather(ctx context.Context, s Session, needs policy.Needs) (policy.Facts, error) {
	l := newLooker(s)
	_, err := l.look(ctx, needs)
	return l.facts, err
}

// factsFor looks at what a verdict on a command rests on.
func (a *Activities) factsFor(ctx context.Context, s Session, command string, env policy.Env) (policy.Facts, error) {
	l := newLooker(s)
	needs := a.cfg.Gate.Needs(command, env, policy.Facts{})
	for range maxLooks {
		more, err := l.look(ctx, needs)
		if err != nil || !more {
			return l.facts, err
		}
		needs = a.cfg.Gate.Needs(command, env, l.facts)
		needs.Paths = nil // where all that the command names leads is known
	}
	return l.facts, nil
}

// look looks at what has not been looked at yet, and reports whether there was any.
func (l *looker) look(ctx context.Context, needs policy.Needs) (more bool, err error) {
	heads := map[string]bool{}
	for _, p := range needs.Heads {
		heads[p] = true
	}
	for _, p := range sorted(append(needs.Paths[:len(needs.Paths):len(needs.Paths)], needs.Heads...)) {
		read, seen := l.paths[p]
		if seen && (read || !heads[p]) {
			continue
		}
		more, l.paths[p] = true, heads[p]
		fact, ok, err := factOf(ctx, l.s, p, heads[p])
		if err != nil {
			return false, err
		}
		if ok {
			l.facts.Files[p] = fact
		}
	}
	for _, pattern := range sorted(needs.Globs) {
		if l.globs[pattern] {
			continue
		}
		more, l.globs[pattern] = true, true
		found, err := l.s.Glob(ctx, pattern, maxMatches+1)
		if fatal(ctx, err) {
			return false, err
		}
		if err == nil && len(found) <= maxMatches {
			l.facts.Globs[pattern] = found
		}
	}
	return more, nil
}

func factOf(ctx context.Context, s Session, p string, head bool) (policy.FileFact, bool, error) {
	info, err := s.Stat(ctx, p)
	if err != nil {
		if fatal(ctx, err) {
			return policy.FileFact{}, false, err
		}
		return policy.FileFact{}, false, nil
	}
	fact := policy.FileFact{Exists: info.Exists, IsDir: info.Mode.IsDir(), Resolved: info.Resolved}
	if info.Outside {
		// Whether it exists is not known; that it leads elsewhere is.
		return fact, info.Resolved != p, nil
	}
	if head && info.Exists && info.Mode.IsRegular() {
		if fact.Head, _, err = s.ReadFile(ctx, p, headBytes); err == nil {
			fact.Digest, err = s.Hash(ctx, p)
		}
		if fatal(ctx, err) {
			return fact, false, err
		}
	}
	return fact, true, nil
}

// fatal tells a sandbox that fails from a path that cannot be looked at.
func fatal(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || errors.Is(err, ErrGone) || errors.Is(err, ErrUnavailable))
}

// pathFaults are what fails for what a path is, or leads to: trying again mends none
// of it.
var pathFaults = []error{
	ErrOutside, ErrNotFile, ErrNotDir, fs.ErrNotExist, fs.ErrExist, fs.ErrPermission,
	syscall.ENOTDIR, syscall.EISDIR, syscall.ENAMETOOLONG, syscall.ELOOP, syscall.EINVAL, syscall.EROFS, syscall.ETXTBSY,
}

// ofPath tells that something failed for its path's sake.
func ofPath(err error) bool {
	return slices.ContainsFunc(pathFaults, func(fault error) bool { return errors.Is(err, fault) })
}

// unfit says what is the matter with a path.
func unfit(err error) string {
	switch {
	case errors.Is(err, ErrOutside):
		return "it leads out of the workspace"
	case errors.Is(err, ErrNotFile):
		return "it is no regular file"
	case errors.Is(err, ErrNotDir), errors.Is(err, syscall.ENOTDIR):
		return "what it goes through is no directory"
	case errors.Is(err, syscall.ENAMETOOLONG):
		return "a name in it is too long"
	case errors.Is(err, syscall.ELOOP):
		return "its symbolic links lead in a circle"
	case errors.Is(err, fs.ErrPermission):
		return "the workspace does not allow it"
	}
	return firstLine(err.Error())
}
