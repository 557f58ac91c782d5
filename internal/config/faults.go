package config

import (
	"fmt"
	"strings"
)

// Fault is one thing wrong with the settings.
type Fault struct {
	// Source is where it stands: "countersign.yaml:12", "COUNTERSIGN_WEB_LISTEN"
	// or "flag". Empty for a fault of the settings as a whole.
	Source string
	// Key is the full key of the setting, empty where there is none (a file
	// that cannot be read).
	Key string
	// Problem is one sentence without a final stop. It never holds a secret.
	Problem string
}

func (f Fault) String() string {
	var parts []string
	for _, p := range []string{f.Source, f.Key, f.Problem} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, ": ")
}

// Faults is the error of [Load]: everything that is wrong, at once.
type Faults []Fault

// Error lists the faults, one a line.
func (f Faults) Error() string {
	if len(f) == 1 {
		return "settings: " + f[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "settings: %d faults", len(f))
	for _, one := range f {
		b.WriteString("\n  " + one.String())
	}
	return b.String()
}

// nearest returns the candidate that is most like s, or "" when none is alike
// enough to be meant.
func nearest(s string, candidates []string) string {
	best, bestDistance := "", 1+len(s)/3
	for _, c := range candidates {
		if d := distance(s, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance is the Levenshtein distance in bytes; keys are ASCII.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(row[j+1]+1, row[j]+1, diagonal+cost)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
