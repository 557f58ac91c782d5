package workflows

import (
	"slices"
	"strings"
)

const (
	// maxSeen bounds the IDs kept in state; above it the older half goes to the blob
	// store.
	maxSeen = 1000
	// maxDoubts bounds the messages that one look into the blob store is about.
	maxDoubts = 500
)

// Seen is the set of message identities that a session has taken. It crosses
// continue-as-new. It is exact, and bounded: the oldest are in the blob store, where
// a message is looked for that is not among those here and not newer than those
// there. Back-fill may bring an old one after any number of newer ones.
type Seen struct {
	// Watermark: no identity above it is in the blob store.
	Watermark string `json:"watermark,omitempty"`
	// IDs are identities in order, most of them above the watermark.
	IDs []string `json:"ids,omitempty"`
	// Older is the reference of those in the blob store.
	Older string `json:"older,omitempty"`
}

// identity is what makes a message one: its ID and its edit's time.
func (m Message) identity() string {
	if m.EditedAt != "" {
		return m.ID + "@" + m.EditedAt
	}
	return m.ID
}

// has reports whether a message was taken; unsure, that only the blob store knows.
func (s *Seen) has(m Message) (seen, unsure bool) {
	id := m.identity()
	if _, found := slices.BinarySearchFunc(s.IDs, id, CompareIDs); found {
		return true, false
	}
	return false, s.Older != "" && CompareIDs(id, s.Watermark) <= 0
}

// add records a message and reports whether it was not among those here.
func (s *Seen) add(m Message) bool {
	id := m.identity()
	i, found := slices.BinarySearchFunc(s.IDs, id, CompareIDs)
	if !found {
		s.IDs = slices.Insert(s.IDs, i, id)
	}
	return !found
}

// oldest are the identities that should go to the blob store now, if any.
func (s *Seen) oldest() []string {
	if len(s.IDs) <= maxSeen {
		return nil
	}
	return slices.Clone(s.IDs[:len(s.IDs)-maxSeen/2])
}

// stored forgets identities that are in the blob store, in order.
func (s *Seen) stored(older string, ids []string) {
	s.Older = older
	if last := ids[len(ids)-1]; s.Watermark == "" || CompareIDs(last, s.Watermark) > 0 {
		s.Watermark = last
	}
	s.IDs = slices.DeleteFunc(s.IDs, func(id string) bool {
		_, found := slices.BinarySearchFunc(ids, id, CompareIDs)
		return found
	})
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
