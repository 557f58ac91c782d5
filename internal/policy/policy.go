package policy

import (
	"strings"
	"sync"
)

// TourCommand is a harmless everyday command that the default policy asks
// about: it makes an empty directory in the workspace and removes it again.
const TourCommand = "mkdir -p tour && rm -r tour"

// Policy is a compiled set of rules over the built-in tables. It is immutable
// and safe for concurrent use.
type Policy struct {
	version  string
	tables   *tables
	builtins map[string]func(*call)
	bash, sh sync.Pool // of *syntax.Parser

	targets                        []string // task runner targets that build or test
	targetStops                    []string // words in a target's name that make it ask
	protectedName                  map[string]bool
	protectedStarts, protectedEnds []string // of a component's name
	protectedGlob                  []string // by path below the workspace
	scratchDirs                    []string
	stdinPrograms                  map[string]Tier
	rules                          []*rule
	toolRules                      []*rule
}

// Version is a digest of the policy's content: the built-in tables' revision
// and the file it was loaded from.
func (p *Policy) Version() string { return p.version }

func (p *Policy) scratch(path string) bool {
	for _, d := range p.scratchDirs {
		if path == d || strings.HasPrefix(path, d+"/") {
			return true
		}
	}
	return false
}

// protectedPart reports whether one component of a path is protected by its
// name.
func (p *Policy) protectedPart(part string) bool {
	if p.envExample(part) {
		return false
	}
	if p.protectedName[part] {
		return true
	}
	for _, s := range p.protectedStarts {
		if strings.HasPrefix(part, s) {
			return true
		}
	}
	for _, s := range p.protectedEnds {
		if strings.HasSuffix(part, s) {
			return true
		}
	}
	return false
}

func (p *Policy) envExample(part string) bool {
	return part == ".env.example" || part == ".env.sample" || part == ".env.template" || part == ".env.dist"
}

func (p *Policy) protectedPath(rel string) bool {
	for _, g := range p.protectedGlob {
		if globMatch(g, rel, true) {
			return true
		}
	}
	return false
}
