// Package mask takes secrets out of texts that leave for a chat, a log or an
// audit record.
//
// What is masked are tokens of well-known shapes (the table in rules.go, each
// with its source), what is assigned to a name that says that it is a secret,
// and values that the caller knows to be secret. What merely looks random (Git
// SHAs, UUIDs, checksums, long paths) stays.
//
// A masked text is for reading only: what is run, hashed or stored as evidence
// is the text itself. People decide by what is left, so nothing that a shell
// would act on is ever masked by its position: a value ends before a blank, an
// operator, a quote or an expansion.
package mask

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// Mark stands where a secret was, whatever its length. Its characters are in no
// token, so it cannot be taken for one.
const Mark = "‹masked›"

// minValue is the shortest known value that is masked, in bytes: shorter ones
// would match ordinary text.
const minValue = 6

// maxPasses bounds how often a text is gone over. One pass can uncover what the
// next masks; the second finds nothing in all but made-up texts.
const maxPasses = 4

// Masker masks. It is safe for concurrent use. The zero value knows the shapes
// and no values.
type Masker struct {
	values []string // the longest first: one may begin with another
}

// New returns a masker that knows the shapes and these values, which are masked
// wherever they stand: as they are, as in JSON, in a URL and in Base64. Values
// shorter than 6 bytes are not.
func New(values ...string) *Masker {
	var forms []string
	for _, v := range values {
		for _, form := range formsOf(v) {
			if len(form) >= minValue && !strings.Contains(Mark, form) && !strings.ContainsAny(form, "‹›") {
				forms = append(forms, form)
			}
		}
	}
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return &Masker{values: slices.Compact(forms)}
}

// With returns a masker that knows these values too.
func (m *Masker) With(values ...string) *Masker {
	more := New(values...)
	if m != nil {
		more.values = append(more.values, m.values...)
		slices.SortFunc(more.values, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
		more.values = slices.Compact(more.values)
	}
	return more
}

// Hide puts asterisks over the known values in b itself, byte for byte, so that its
// length and all offsets stay: for output that is stored as it comes. It returns
// how many bytes at b's end may begin a value that comes with what follows; they
// are left as they are.
func (m *Masker) Hide(b []byte) (open int) {
	if m == nil {
		return 0
	}
	for _, v := range m.values {
		for at := 0; ; {
			i := bytes.Index(b[at:], []byte(v))
			if i < 0 {
				break
			}
			at += i
			for end := at + len(v); at < end; at++ {
				b[at] = '*'
			}
		}
		for n := min(len(v)-1, len(b)); n > open; n-- {
			if string(b[len(b)-n:]) == v[:n] {
				open = n
				break
			}
		}
	}
	return open
}

func formsOf(value string) []string {
	if len(value) < minValue {
		return nil
	}
	forms := []string{value, url.QueryEscape(value), url.PathEscape(value), base64.StdEncoding.EncodeToString([]byte(value))}
	if quoted, err := json.Marshal(value); err == nil {
		forms = append(forms, string(quoted[1:len(quoted)-1]))
	}
	return forms
}

// Text returns s with [Mark] in place of each secret, and s itself where there
// is none. Masking a masked text changes nothing. It takes time in proportion to
// the text's length.
func (m *Masker) Text(s string) string {
	return m.each(s, func(int) string { return Mark })
}

// Cover returns b with an asterisk in place of each byte of a secret, so that
// offsets stay true, and b itself where there is none.
func (m *Masker) Cover(b []byte) []byte {
	s := string(b)
	if out := m.each(s, func(n int) string { return strings.Repeat("*", n) }); out != s {
		return []byte(out)
	}
	return b
}

// Open is how many bytes at the end of b, a text that goes on, may be part of a
// secret that only what follows shows to be one: its last word, at most maxOpen
// bytes, and what a known value begins with.
func (m *Masker) Open(b []byte) int {
	n := 0
	for n < len(b) && n < maxOpen && !blanks[b[len(b)-1-n]] {
		n++
	}
	if m == nil {
		return n
	}
	for _, v := range m.values {
		for k := min(len(v)-1, len(b)); k > n; k-- {
			if strings.HasPrefix(v, string(b[len(b)-k:])) {
				n = k
			}
		}
	}
	return n
}

// maxOpen bounds what is held back, in bytes: longer words are no tokens.
const maxOpen = 4 << 10

var blanks = chars(" \t\r\n\v\f")

// each puts what put makes of its length in place of each secret.
func (m *Masker) each(s string, put func(n int) string) string {
	for range maxPasses {
		out := s
		if m != nil {
			for _, v := range m.values {
				out = strings.ReplaceAll(out, v, put(len(v)))
			}
		}
		if out = pass(out, put); out == s {
			break
		}
		s = out
	}
	return s
}

// Bytes is [Masker.Text] for bytes, which need not be valid UTF-8. It returns b
// itself where there is nothing to mask.
func (m *Masker) Bytes(b []byte) []byte {
	s := string(b)
	if out := m.Text(s); out != s {
		return []byte(out)
	}
	return b
}

// Texts masks each.
func (m *Masker) Texts(list []string) []string {
	if list == nil {
		return nil
	}
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = m.Text(s)
	}
	return out
}

// pass goes over a text once.
func pass(s string, put func(n int) string) string {
	var b strings.Builder
	done := 0 // up to here s is in b
	for i := 0; i < len(s); {
		switch starts[s[i]] {
		case atNothing:
			i++
			continue
		case atWord:
			if i > done && alnum[s[i-1]] {
				i++
				continue
			}
		}
		from, to, ok := find(s, i, done)
		if !ok || s[from:to] == put(to-from) {
			i++
			continue
		}
		b.WriteString(s[done:from])
		b.WriteString(put(to - from))
		done, i = to, max(i+1, to)
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// find returns the secret that what stands at i begins or announces. It looks
// back no further than floor.
func find(s string, i, floor int) (from, to int, ok bool) {
	switch c := s[i]; {
	case c == '=':
		return assigned(s, i, floor)
	case c == ':':
		if strings.HasPrefix(s[i:], "://") {
			return userinfo(s, i+len("://"))
		}
		return assigned(s, i, floor)
	case c == '-':
		return option(s, i, floor)
	}
	return token(s, i)
}
