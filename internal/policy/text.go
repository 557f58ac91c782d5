package policy

import (
	"bytes"
	"compress/gzip"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"io"
	"strings"
)

// What a few text tools make of known text is followed, so that a command put
// together or decoded on the way into a shell is still read.

// runTr follows tr over known text, for plain sets.
func runTr(c *call, _ *spec, p parsed) {
	f := c.in
	c.out = f.unread()
	if !f.known || len(p.operands) == 0 || !p.operands[0].lit {
		return
	}
	from, ok := trSet(p.operands[0].text)
	if !ok {
		return
	}
	switch {
	case p.has("-d") && len(p.hits) == 1 && len(p.operands) == 1:
		text := strings.Map(func(r rune) rune {
			if r < 256 && bytes.IndexByte(from, byte(r)) >= 0 {
				return -1
			}
			return r
		}, f.text)
		c.out = f
		c.out.text = text
	case len(p.hits) == 0 && len(p.operands) == 2 && p.operands[1].lit:
		to, ok := trSet(p.operands[1].text)
		if !ok || len(to) == 0 {
			return
		}
		text := strings.Map(func(r rune) rune {
			if i := bytes.LastIndexByte(from, byte(r)); r < 128 && i >= 0 {
				return rune(to[min(i, len(to)-1)])
			}
			return r
		}, f.text)
		c.out = f
		c.out.text = text
	}
}

// trSet expands a set: ranges, escapes and a few classes.
func trSet(s string) ([]byte, bool) {
	for name, set := range map[string]string{"[:lower:]": "a-z", "[:upper:]": "A-Z", "[:digit:]": "0-9", "[:space:]": " \t\n\r\v\f"} {
		s = strings.ReplaceAll(s, name, set)
	}
	if strings.Contains(s, "[:") || strings.Contains(s, "[=") {
		return nil, false
	}
	s = unescapeANSI(s)
	var out []byte
	for i := 0; i < len(s); i++ {
		if i+2 < len(s) && s[i+1] == '-' && s[i+2] >= s[i] {
			for b := int(s[i]); b <= int(s[i+2]); b++ {
				out = append(out, byte(b))
			}
			i += 2
			continue
		}
		out = append(out, s[i])
	}
	return out, len(out) <= 1024
}

func runRev(c *call, _ *spec, p parsed) {
	if len(p.operands) > 0 || !c.in.known {
		return
	}
	lines := strings.Split(c.in.text, "\n")
	for i, l := range lines {
		b := []byte(l)
		for x, y := 0, len(b)-1; x < y; x, y = x+1, y-1 {
			b[x], b[y] = b[y], b[x]
		}
		lines[i] = string(b)
	}
	c.out = c.in
	c.out.text = strings.Join(lines, "\n")
}

// runDecode follows base64 and base32 over known text.
func runDecode(c *call, _ *spec, p parsed) {
	in := c.in
	if len(p.operands) > 0 {
		in = c.contentOf(p.operands[0])
	}
	if !p.has("-d") {
		c.out = c.out.and(in).unread()
		return
	}
	c.out = in.unread()
	c.out.opaque, c.out.from = true, orElse(in.from, c.name)
	if !in.known {
		return
	}
	text := strings.Join(strings.Fields(in.text), "")
	enc := base64.StdEncoding.WithPadding(base64.NoPadding)
	trimmed := strings.TrimRight(text, "=")
	var out []byte
	var err error
	switch {
	case c.name == "base32" || p.has("--base32"):
		out, err = base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(trimmed)
	case p.has("--base64url"):
		out, err = base64.RawURLEncoding.DecodeString(trimmed)
	case p.has("--base16"):
		out, err = hex.DecodeString(strings.ToLower(text))
	default:
		out, err = enc.DecodeString(trimmed)
	}
	if err == nil || len(out) > 0 {
		c.out = literal(string(out))
		c.out.net, c.out.secret, c.out.from = in.net, in.secret, in.from
	}
}

func orElse(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// runHex follows xxd -r -p.
func runHex(c *call, _ *spec, p parsed) {
	in := c.in
	if len(p.operands) > 0 {
		in = c.contentOf(p.operands[0])
	}
	c.out = in.unread()
	cluster := false
	for _, h := range p.hits {
		cluster = cluster || h.name == "-r"
	}
	if !cluster {
		return
	}
	c.out.opaque, c.out.from = true, orElse(in.from, c.name)
	if !in.known {
		return
	}
	text := strings.Map(func(r rune) rune {
		if strings.ContainsRune("0123456789abcdefABCDEF", r) {
			return r
		}
		return -1
	}, in.text)
	if b, err := hex.DecodeString(text[:len(text)&^1]); err == nil {
		c.out = literal(string(b))
	}
}

// decompress follows gzip over known bytes.
func (c *call) decompress() {
	c.out.opaque, c.out.from = true, orElse(c.out.from, c.name)
	if !c.in.known {
		return
	}
	r, err := gzip.NewReader(strings.NewReader(c.in.text))
	if err != nil {
		return
	}
	b, err := io.ReadAll(io.LimitReader(r, maxKnownText))
	if err == nil {
		c.out = literal(string(b))
	}
}

// runGrep: which operand is the pattern decides what is read.
func runGrep(c *call, _ *spec, p parsed) {
	ops := p.operands
	if !p.has("-e", "-f", "--files", "--type-list") && len(ops) > 0 {
		ops = ops[1:]
	}
	deep := p.has("-r", "-R") || c.name == "rg" || c.name == "ag" || c.name == "ack"
	out := flow{known: true}
	for _, w := range ops {
		out = out.and(c.read(w, deep))
	}
	if len(ops) == 0 {
		out = c.in
		if deep {
			out = flow{}
		}
	}
	if deep && !p.has("-l", "-L", "-q", "-c", "--count", "--count-matches", "--files", "--files-without-match") {
		for _, w := range append(p.values("--include", "-g"), p.values("--iglob")...) {
			if t := strings.ToLower(w.script()); !strings.HasPrefix(t, "!") && c.memberSecret(t) {
				c.raise(Risky, "%s reads `%s`, which may hold credentials", c.by(), w.show())
			}
		}
	}
	if p.has("-c", "--count", "--count-matches") {
		c.out = flow{class: countClass(p, ops, deep)}
		return
	}
	if p.has("-q") {
		c.out = flow{known: true}
		return
	}
	if p.has("-o") {
		c.out = out.unread()
	} else {
		c.out = out.lines()
	}
	if p.has("-l") {
		c.out = flow{}
	}
	if out.silent() {
		c.out = flow{}
	}
	c.out.names = c.out.names || out.names || picksSecrets(p)
	for _, w := range p.values("-g") {
		c.out.names = c.out.names || namesSecret(w.text)
	}
}

// runEcho makes known text of known words.
func runEcho(c *call) {
	c.silent = false
	args, escapes, newline := c.args, false, true
	for len(args) > 0 && args[0].lit && len(args[0].text) > 1 && args[0].text[0] == '-' && strings.Trim(args[0].text[1:], "neE") == "" {
		for _, f := range args[0].text[1:] {
			switch f {
			case 'n':
				newline = false
			case 'e':
				escapes = true
			case 'E':
				escapes = false
			}
		}
		args = args[1:]
	}
	out := flow{known: true, class: class{noDash: len(args) > 0}}
	parts := make([]string, 0, len(args))
	for _, w := range args {
		out = c.noteWord(out, w)
		parts = append(parts, w.script())
		out.noDash = out.noDash && !w.mayBeOption() && !strings.ContainsAny(w.script(), " \t\n\\")
	}
	out.text = strings.Join(parts, " ")
	if escapes || c.s.lang == ShellSh {
		out.text = unescapeANSI(strings.ReplaceAll(out.text, "\\c", ""))
	}
	if newline {
		out.text += "\n"
	}
	if out.known && isNumber(strings.TrimSpace(out.text)) {
		out.num = true
	}
	if len(args) == 1 && !args[0].lit {
		out.num = args[0].num
	}
	c.out = out
}

// noteWord adds a word's unknowns to a stream that holds it.
func (c *call) noteWord(f flow, w word) flow {
	if !w.lit || w.glob {
		f.known = false
	}
	f.net, f.secret, f.names = f.net || w.flow.net, f.secret || w.flow.secret, f.names || c.s.namesKeys(w)
	if f.from == "" {
		f.from = w.flow.from
	}
	if w.flow.secret && strings.HasPrefix(w.flow.from, "$") {
		c.raise(Risky, "%s prints `%s`, which may hold a credential", c.by(), w.flow.from)
	}
	return f
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// runPrintf makes known text of a known format and words.
func runPrintf(c *call) {
	args := c.args
	var into []word
	defer func() {
		for _, w := range into {
			v := variable{flow: taint(c.out)}
			if c.out.known && len(c.out.text) <= maxKnownText {
				v.val, v.known = c.out.text, true
			}
			c.setName(w, v)
		}
		if len(into) > 0 {
			c.out = flow{known: true}
		}
	}()
	for len(args) > 0 && args[0].lit {
		switch {
		case args[0].is("-v"):
			if len(args) < 2 {
				return
			}
			into = append(into, args[1])
			args = args[2:]
			continue
		case strings.HasPrefix(args[0].text, "-v"):
			into = append(into, lit(args[0].text[2:]))
			args = args[1:]
			continue
		case args[0].is("--"):
			args = args[1:]
		case strings.HasPrefix(args[0].text, "-") && len(args[0].text) > 1 && !strings.ContainsAny(args[0].text, "%\\ "):
			c.badOption(&parsed{}, args[0].text)
		}
		break
	}
	if len(args) == 0 {
		return
	}
	if !args[0].lit && args[0].mayBeOption() {
		c.raise(Risky, "%s is given a format that is only known when it runs", c.by())
	}
	if strings.Contains(args[0].text, "%n") {
		c.raise(Risky, "%s may set a variable through `%%n`", c.by())
	}
	out := flow{known: true}
	for _, w := range args {
		out = c.noteWord(out, w)
	}
	if out.known {
		out.text, out.known = formatPrintf(args[0].text, args[1:])
	} else {
		for _, w := range args {
			out.text += w.script() + " "
		}
		out.text = unescapeANSI(out.text)
	}
	c.out = out
}

// formatPrintf formats with %s, %b, %c, %d and %%; anything else is not followed.
func formatPrintf(format string, args []word) (string, bool) {
	var b strings.Builder
	format = unescapeANSI(format)
	next := 0
	for round := 0; round < 64; round++ {
		used := next
		if b.Len() > maxKnownText {
			return "", false
		}
		for i := 0; i < len(format); i++ {
			if format[i] != '%' {
				b.WriteByte(format[i])
				continue
			}
			i++
			for i < len(format) && strings.IndexByte("-+ 0#", format[i]) >= 0 {
				i++
			}
			if i >= len(format) {
				return "", false
			}
			if format[i] == '%' {
				b.WriteByte('%')
				continue
			}
			val := ""
			if next < len(args) {
				val = args[next].text
				next++
			}
			switch format[i] {
			case 's', 'd', 'i', 'u':
				b.WriteString(val)
			case 'b':
				b.WriteString(unescapeANSI(val))
			case 'c':
				b.WriteString(val[:min(1, len(val))])
			default:
				return "", false
			}
		}
		if next >= len(args) || next == used {
			break
		}
	}
	return b.String(), b.Len() <= maxKnownText
}
