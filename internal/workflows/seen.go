package workflows

import (
	"slices"
	"strings"
)

// maxSeen bounds the IDs kept above the watermark.
const maxSeen = 1000

// Seen is the bounded set of message identities that a session has taken. It
// crosses continue-as-new.
type Seen struct {
	// Watermark: every identity at or below it counts as seen.
	Watermark string `json:"watermark,omitempty"`
	// IDs are the identities above it, in order.
	IDs []string `json:"ids,omitempty"`
}

// Add records the identity of a message and reports whether it is new.
func (s *Seen) Add(m Message) bool {
	id := m.ID
	if m.EditedAt != "" {
		id += "@" + m.EditedAt
	}
	if s.Watermark != "" && CompareIDs(id, s.Watermark) <= 0 {
		return false
	}
	i, found := slices.BinarySearchFunc(s.IDs, id, CompareIDs)
	if found {
		return false
	}
	s.IDs = slices.Insert(s.IDs, i, id)
	if over := len(s.IDs) - maxSeen; over > 0 {
		s.Watermark = s.IDs[over-1]
		s.IDs = slices.Delete(s.IDs, 0, over)
	}
	return true
}

// CompareIDs orders message IDs as their platform orders the messages: digit
// runs by value (snowflakes and Slack timestamps), the rest by bytes.
func CompareIDs(a, b string) int {
	for a != "" && b != "" {
		na, nb := digits(a), digits(b)
		if na == 0 || nb == 0 {
			if a[0] != b[0] {
				return strings.Compare(a, b)
			}
			a, b = a[1:], b[1:]
			continue
		}
		if c := compareDigits(a[:na], b[:nb]); c != 0 {
			return c
		}
		a, b = a[na:], b[nb:]
	}
	return len(a) - len(b)
}

func compareDigits(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

func digits(s string) int {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return i
		}
	}
	return len(s)
}
