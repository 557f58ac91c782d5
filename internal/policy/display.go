package policy

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Runs of blanks longer than these are taken for hiding what follows.
const (
	maxBlankLines = 24
	maxBlanks     = 160
)

// display is text as people see it: what does not show, or looks like something
// else, is escaped, and long runs of blanks are counted. whole is false when it
// is too long to be read.
func display(text string) (show string, whole bool) {
	whole = len(text) <= maxCommand && strings.Count(text, "\n") <= maxDisplayLines
	if len(text) > maxCommand {
		text = clip(text, maxCommand)
	}
	if !needsEscape(text) && !padded(text) {
		return text, whole
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == '\n' || r == ' ' {
			run := i
			for run < len(text) && text[run] == text[i] {
				run++
			}
			if count := run - i; (r == '\n' && count > maxBlankLines) || (r == ' ' && count > maxBlanks) {
				name := "blanks"
				if r == '\n' {
					name = "newlines"
				}
				fmt.Fprintf(&b, "⟨%d %s⟩", count, name)
				i = run
				continue
			}
		}
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, "\\x%02x", text[i])
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case Hidden(r) || lookalike(r) || mixed(text, i, r) || selector(text, i, r):
			if r < 0x10000 {
				fmt.Fprintf(&b, "\\u%04x", r)
			} else {
				fmt.Fprintf(&b, "\\U%08x", r)
			}
		default:
			b.WriteRune(r)
		}
		i += n
	}
	return b.String(), whole
}

func needsEscape(text string) bool {
	for i := 0; i < len(text); i++ {
		if b := text[i]; b >= 0x7f || (b < 0x20 && b != '\n' && b != '\t') {
			return true
		}
	}
	return false
}

// unseen reports whether text holds a character that does not show, or that
// looks like an ASCII one where it can be taken for it.
func unseen(text string) bool {
	for i := 0; i < len(text); {
		b := text[i]
		if b < utf8.RuneSelf {
			if (b < 0x20 && b != '\n' && b != '\t') || b == 0x7f {
				return true
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 || Hidden(r) || lookalike(r) || mixed(text, i, r) || selector(text, i, r) {
			return true
		}
		i += n
	}
	return false
}

// Shown is a command as people see it, on the card that asks as on that of its turn.
func Shown(command string) string {
	show, _ := display(command)
	return show
}

// Hidden reports whether a character does not show, moves others, or looks like the
// blank that it is not. Of the emoji's own selector its place decides.
func Hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r == ' ' || r == emojiSelector:
		return false
	case unicode.IsControl(r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r), unicode.Is(unicode.Co, r), unicode.Is(unicode.Cs, r):
		return true
	case unicode.Is(unicode.Zs, r): // no-break and other spaces that do not separate
		return true
	case unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
		return true
	}
	return r == 0x2800 // the braille pattern without a dot
}

// emojiSelector asks for the coloured form of the character before it.
const emojiSelector = 0xFE0F

// selector reports an emoji's selector behind what is no symbol: there it changes
// the text and nothing that is seen.
func selector(text string, i int, r rune) bool {
	if r != emojiSelector {
		return false
	}
	before, _ := utf8.DecodeLastRuneInString(text[:i])
	return before < utf8.RuneSelf || !unicode.In(before, unicode.So, unicode.Sm, unicode.Po)
}

// lookalike reports whether a character looks like ASCII wherever it stands.
func lookalike(r rune) bool {
	switch {
	case r < 0x80:
		return false
	case r >= 0xFF01 && r <= 0xFF5E: // full-width forms
		return true
	case r >= 0x1D400 && r <= 0x1D7FF: // mathematical letters and digits
		return true
	case r >= 0x2010 && r <= 0x2012, r == 0x2212, r == 0xFE58, r == 0xFE63: // hyphens and minus
		return true
	case strings.ContainsRune("∕⁄∖⧵﹨∣ǀ❘꞉：；‚，․﹒＇`´ˋ＂″‶’‛", r) && r != '’' && r != '`':
		return true
	case r == 0x037E || r == 0x1FEF || r == 0x2236 || r == 0x05F3 || r == 0x05F4:
		return true
	}
	return false
}

// mixed reports whether a letter of another script stands in one word with
// ASCII letters, as in "rм".
func mixed(text string, i int, r rune) bool {
	if !unicode.In(r, unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Cherokee, unicode.Coptic, unicode.Lisu) && !latinTwin(r) {
		return false
	}
	for j := i; j > 0; {
		p, n := utf8.DecodeLastRuneInString(text[:j])
		if !unicode.IsLetter(p) && !unicode.IsDigit(p) {
			break
		}
		if p < 0x80 && unicode.IsLetter(p) {
			return true
		}
		j -= n
	}
	for j := i; j < len(text); {
		p, n := utf8.DecodeRuneInString(text[j:])
		if !unicode.IsLetter(p) && !unicode.IsDigit(p) {
			break
		}
		if p < 0x80 && unicode.IsLetter(p) {
			return true
		}
		j += n
	}
	return false
}

// latinTwin are letters outside ASCII that look like ASCII ones.
func latinTwin(r rune) bool { return strings.ContainsRune("ıȷɑɡɩʟɪʀɴ", r) }

// padded reports whether a long run of blanks or empty lines stands in text.
func padded(text string) bool {
	blanks, lines := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ' ', '\t':
			blanks++
		case '\n':
			lines++
			blanks = 0
		default:
			blanks, lines = 0, 0
		}
		if blanks > maxBlanks || lines > maxBlankLines {
			return true
		}
	}
	return false
}
