package policy

import "fmt"

// Tier is how much a tool call can do, from reading to harm that is never
// allowed. Tiers are ordered: a greater one asks for more.
type Tier int

// The tiers, lowest first. The zero value is Safe; a verdict is only ever built
// by judging, so it does not stand for "not judged".
const (
	// Safe reads, and runs at once.
	Safe Tier = iota
	// Write changes only the workspace, and runs at once.
	Write
	// Risky needs one approval.
	Risky
	// Critical needs a quorum: irreversible harm outside the workspace or to others.
	Critical
	// Forbidden never runs: escaping the sandbox, destroying the host.
	Forbidden
)

var tierNames = [...]string{"safe", "write", "risky", "critical", "forbidden"}

// String returns the tier's public name, such as "risky".
func (t Tier) String() string {
	if t < Safe || t > Forbidden {
		return fmt.Sprintf("tier(%d)", int(t))
	}
	return tierNames[t]
}

// Asks reports whether a call of this tier waits for a person.
func (t Tier) Asks() bool { return t == Risky || t == Critical }

// MarshalText writes the tier's public name.
func (t Tier) MarshalText() ([]byte, error) {
	if t < Safe || t > Forbidden {
		return nil, fmt.Errorf("unknown tier %d", int(t))
	}
	return []byte(tierNames[t]), nil
}

// UnmarshalText reads a tier's public name.
func (t *Tier) UnmarshalText(text []byte) error {
	parsed, err := ParseTier(string(text))
	if err != nil {
		return err
	}
	*t = parsed
	return nil
}

// ParseTier returns the tier with the public name s.
func ParseTier(s string) (Tier, error) {
	for i, name := range tierNames {
		if s == name {
			return Tier(i), nil
		}
	}
	return 0, fmt.Errorf("unknown tier %q: want safe, write, risky, critical or forbidden", s)
}
