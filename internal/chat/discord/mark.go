package discord

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/countersign/countersign/internal/workflows"
)

// mark says which message of the session one of ours is. Discord gives a nonce
// back only with the message's creation and remembers it for minutes, so each
// message carries its key itself: as characters that nobody sees, behind the text.
type mark struct {
	key [4]byte // of the key's digest
	// part counts the messages of one content from 0; parts is how many there are.
	part, parts byte
}

func markOf(key string, part, parts int) mark {
	sum := sha256.Sum256([]byte(key))
	return mark{key: [4]byte(sum[:4]), part: byte(part), parts: byte(parts)}
}

const (
	// markSign begins a mark; markDigits are its digits to the base 4.
	markSign   = '\u2063'
	markLength = 1 + 4*6
)

func markDigits() []rune { return []rune{'\u200b', '\u200c', '\u200d', '\u2060'} }

func (m mark) String() string {
	digits := markDigits()
	out := []rune{markSign}
	for _, b := range []byte{m.key[0], m.key[1], m.key[2], m.key[3], m.part, m.parts} {
		for shift := 6; shift >= 0; shift -= 2 {
			out = append(out, digits[b>>shift&3])
		}
	}
	return string(out)
}

// readMark finds the mark at a text's end.
func readMark(s string) (mark, bool) {
	r := []rune(s)
	if len(r) < markLength || r[len(r)-markLength] != markSign {
		return mark{}, false
	}
	var data [6]byte
	for i, c := range r[len(r)-markLength+1:] {
		digit := strings.IndexRune(string(markDigits()), c)
		if digit < 0 {
			return mark{}, false
		}
		data[i/4] = data[i/4]<<2 | byte(digit/len("\u200b"))
	}
	return mark{key: [4]byte(data[:4]), part: data[4], parts: data[5]}, true
}

// unmarked is a text without any mark's beginning: nothing from outside is one.
func unmarked(s string) string {
	return strings.ReplaceAll(s, string(markSign), "")
}

// nonce names one message of a thread for Discord's own check, which looks a few
// minutes back. again tells an attempt after the message was deleted from the
// first one: the deleted one would be found.
func nonce(t workflows.Thread, key string, part int, again bool) string {
	h := sha256.New()
	for _, s := range []string{t.Team, t.Channel, t.ID, key, string(rune('0' + part))} {
		_, _ = h.Write([]byte(s + "\x00")) // a hash takes everything
	}
	if again {
		_, _ = h.Write([]byte("again"))
	}
	return hex.EncodeToString(h.Sum(nil))[:maxNonce-1]
}
