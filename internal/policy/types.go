package policy

import (
	"fmt"
	"strings"
)

// Shell is the language that a command is run in.
type Shell string

// The shells that the exec contract uses.
const (
	ShellBash Shell = "bash"
	ShellSh   Shell = "sh"
)

// Env is where a command would run.
type Env struct {
	// Backend is the sandbox's kind, such as "docker"; only rules look at it.
	Backend string
	// Isolated says that the sandbox confines what runs in it.
	Isolated bool
	// Network says that the sandbox has a network.
	Network bool
	// Shell is the language of the command; empty means ShellBash.
	Shell Shell
	// Cwd, Home and Workspace are absolute paths inside the sandbox.
	Cwd, Home, Workspace string
}

// FileFact is what the sandbox knows about one path.
type FileFact struct {
	Exists bool
	IsDir  bool
	// Resolved is the path with every symbolic link followed; for a path that
	// does not exist, its longest existing parent followed and the rest kept.
	Resolved string
	// Digest is the hex SHA-256 of a regular file's content.
	Digest string
	// Head is the start of a regular file's content, at most 64 KiB.
	Head []byte
}

// Facts is what only the sandbox knows. Everything is optional.
type Facts struct {
	// Files is keyed by absolute cleaned path.
	Files map[string]FileFact
	// Globs maps an absolute pattern, as [Needs] spells it, to the absolute
	// paths that it matches.
	Globs map[string][]string
	// Downloaded holds the absolute paths of files that this session downloaded.
	Downloaded map[string]bool
}

// Needs is what the sandbox must look at before a command can be judged well.
type Needs struct {
	Paths []string // absolute paths whose FileFact matters
	Globs []string // absolute patterns whose expansion matters
	Heads []string // absolute paths whose content matters too
}

// Reason says why one segment has its tier.
type Reason struct {
	// Segment counts the command's simple commands from 1; 0 is the whole command.
	Segment int
	Tier    Tier
	Text    string
}

// String returns the reason as people read it: "segment 2: ...".
func (r Reason) String() string {
	if r.Segment == 0 {
		return r.Text
	}
	return fmt.Sprintf("segment %d: %s", r.Segment, r.Text)
}

// Verdict is what the gate says about one tool call.
type Verdict struct {
	Tier    Tier
	Reasons []Reason
	// Operands are the absolute paths of the files that the command line itself
	// runs; an approval binds their content.
	Operands []string
	// Scripts are those of the Operands that a shell reads while it runs them.
	Scripts []string
	// Paths are the absolute paths whose resolution the verdict rests on.
	Paths []string
	// EnvChanges are the assignments that change what runs, as NAME=value.
	EnvChanges []string
	// Display is the command with invisible, bidirectional, look-alike and
	// control characters escaped.
	Display string
	// Open says that a command is given code, a program or an option that the policy
	// does not know: what it does is not told by its words.
	Open bool
	// Displayable is false for what is too long or too complex to be shown
	// whole; the tier is then never below Risky.
	Displayable bool
	// PackageInstall marks a recognised package installation, which has a longer
	// time-out.
	PackageInstall bool
}

// maxSummary is how many reasons a summary names.
const maxSummary = 6

// Summary returns the reasons for the verdict's tier as one line for people.
func (v Verdict) Summary() string {
	var parts []string
	more := 0
	for _, r := range v.Reasons {
		switch {
		case r.Tier != v.Tier:
		case len(parts) == maxSummary:
			more++
		default:
			parts = append(parts, r.String())
		}
	}
	if more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}

// Warning is a rule that loads but does not do what it seems to.
type Warning struct {
	Line int
	Text string
}
