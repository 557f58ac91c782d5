package policy

import (
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

const (
	maxBraceWords = 128 // words that one brace expansion is followed to
	maxFields     = 512 // fields that one known value is split into
)

// piece is a part of a word during expansion.
type piece struct {
	class
	text    string
	quoted  bool // not split, not a pattern
	unknown bool
	value   bool     // a known value: split at blanks unless quoted
	array   bool     // "$@" and kin: several words even when quoted
	list    []string // the words of a known "$@" or array, each whole
	alt     string   // when unknown: what it is if a variable is unset
	sum     bool     // when unknown: a number, or nothing
	flow    flow
}

// words expands command arguments: braces, parameters, substitutions, splitting.
func (s *scope) words(ws []*syntax.Word) []word {
	out := make([]word, 0, len(ws))
	for _, w := range ws {
		out = s.expandArg(out, w)
	}
	return out
}

func (s *scope) expandArg(out []word, w *syntax.Word) []word {
	if len(w.Parts) == 1 {
		if l, ok := w.Parts[0].(*syntax.Lit); ok && !strings.ContainsAny(l.Value, "\\{*?[~") {
			return append(out, word{text: l.Value, lit: true})
		}
	}
	differs := s.lang == ShellSh && mayMultiply(w)
	if syntax.SplitBraces(w) || hasBraces(w) {
		if differs {
			s.raise(Risky, "a word's braces are expanded by some shells and not by others")
		}
		n := 0
		for bw, err := range expand.BracesSeq(&expand.Config{}, w) {
			if n++; n > maxBraceWords || err != nil {
				s.raise(Risky, "a brace expansion makes too many words to follow")
				return append(out, word{tmpl: unknownVar, sample: "x", split: true})
			}
			out = s.fields(out, s.pieces(nil, bw.Parts, true, true))
		}
		return out
	}
	return s.fields(out, s.pieces(nil, w.Parts, true, true))
}

// mayMultiply reports whether braces in a word may make several of it: {} and {a} stand
// for themselves in every shell.
func mayMultiply(w *syntax.Word) bool {
	var b strings.Builder
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.BraceExp:
			return true
		case *syntax.Lit:
			b.WriteString(p.Value)
		}
	}
	return strings.Contains(b.String(), ",") || strings.Contains(b.String(), "..")
}

func hasBraces(w *syntax.Word) bool {
	for _, p := range w.Parts {
		if _, ok := p.(*syntax.BraceExp); ok {
			return true
		}
	}
	return false
}

// word expands w to exactly one word: assignments, case, redirections, [[ ]].
func (s *scope) word(w *syntax.Word) word {
	if w == nil {
		return word{lit: true}
	}
	ps := s.pieces(nil, w.Parts, true, true)
	for i := range ps {
		ps[i].quoted = true
	}
	return join(ps)
}

// hdoc expands an unquoted here-document's body.
func (s *scope) hdoc(w *syntax.Word) word {
	if w == nil {
		return word{lit: true}
	}
	var ps []piece
	for _, p := range w.Parts {
		if l, ok := p.(*syntax.Lit); ok {
			ps = append(ps, piece{text: unescapeQuoted(l.Value, false), quoted: true})
			continue
		}
		ps = s.part(ps, p, true)
	}
	return join(ps)
}

// pieces expands the parts of one word. start says that the first part stands
// at the word's start, where a tilde counts.
func (s *scope) pieces(ps []piece, parts []syntax.WordPart, start, tilde bool) []piece {
	for i, p := range parts {
		if q, ok := p.(*syntax.SglQuoted); ok && s.lang == ShellSh && i > 0 && len(ps) > 0 {
			// Some shells called sh decode this, and some do not.
			if last := &ps[len(ps)-1]; !last.quoted && !last.unknown && strings.HasSuffix(last.text, "$") {
				last.text = strings.TrimSuffix(last.text, "$")
				s.raise(Risky, "`$'…'` is read differently by different shells")
				ps = append(ps, piece{text: unescapeANSI(q.Value), quoted: true})
				continue
			}
		}
		if l, ok := p.(*syntax.Lit); ok {
			v := l.Value
			if i == 0 && start && tilde {
				if name, rest, ok := strings.Cut(v, "=~"); ok && isName(name) && s.lang == ShellBash {
					ps, v = append(ps, piece{text: name + "="}), "~"+rest
				}
				if strings.HasPrefix(v, "~") {
					ps, v = s.tilde(ps, v, len(parts) == 1)
				}
			}
			ps = appendLit(ps, v)
			continue
		}
		ps = s.part(ps, p, false)
	}
	return ps
}

// appendLit adds unquoted literal text, its backslash escapes removed.
func appendLit(ps []piece, v string) []piece {
	for {
		i := strings.IndexByte(v, '\\')
		if i < 0 {
			break
		}
		if i > 0 {
			ps = append(ps, piece{text: v[:i]})
		}
		if i+1 >= len(v) {
			return append(ps, piece{text: "\\", quoted: true})
		}
		if v[i+1] != '\n' {
			ps = append(ps, piece{text: v[i+1 : i+2], quoted: true})
		}
		v = v[i+2:]
	}
	if v != "" {
		ps = append(ps, piece{text: v})
	}
	return ps
}

// tilde expands a leading tilde and returns the rest of the literal.
func (s *scope) tilde(ps []piece, v string, whole bool) ([]piece, string) {
	user, rest := v[1:], ""
	if i := strings.IndexAny(user, "/:"); i >= 0 {
		user, rest = user[:i], user[i:]
	} else if !whole {
		return append(ps, piece{text: "~" + user, quoted: true}), ""
	}
	switch user {
	case "":
		if home := s.variable("HOME"); home.known && home.val != "" {
			return append(ps, piece{text: home.val, quoted: true}), rest
		}
		return append(ps, piece{unknown: true, quoted: true, class: class{noDash: true}}), rest
	case "+":
		if len(s.cwds) == 1 && !s.cwdUnknown {
			return append(ps, piece{text: s.cwds[0], quoted: true}), rest
		}
	case "root":
		return append(ps, piece{text: "/root", quoted: true}), rest
	}
	if strings.ContainsAny(user, "\\'\"$`*?[") {
		return ps, v
	}
	return append(ps, piece{unknown: true, quoted: true, class: class{noDash: true}}), rest
}

// unescapeQuoted removes the backslashes that count inside double quotes.
func unescapeQuoted(v string, inQuotes bool) string {
	if !strings.Contains(v, "\\") {
		return v
	}
	var b strings.Builder
	for i := 0; i < len(v); i++ {
		if v[i] == '\\' && i+1 < len(v) {
			switch c := v[i+1]; {
			case c == '$' || c == '`' || c == '\\' || (c == '"' && inQuotes):
				b.WriteByte(c)
				i++
				continue
			case c == '\n':
				i++
				continue
			}
		}
		b.WriteByte(v[i])
	}
	return b.String()
}

func (s *scope) part(ps []piece, p syntax.WordPart, quoted bool) []piece {
	switch p := p.(type) {
	case *syntax.Lit:
		if quoted {
			return append(ps, piece{text: unescapeQuoted(p.Value, true), quoted: true})
		}
		return appendLit(ps, p.Value)
	case *syntax.SglQuoted:
		if p.Dollar {
			return append(ps, piece{text: unescapeANSI(p.Value), quoted: true})
		}
		return append(ps, piece{text: p.Value, quoted: true})
	case *syntax.DblQuoted:
		if len(p.Parts) == 0 {
			return append(ps, piece{quoted: true})
		}
		for _, q := range p.Parts {
			ps = s.part(ps, q, true)
		}
		return ps
	case *syntax.ParamExp:
		return append(ps, s.param(p, quoted))
	case *syntax.CmdSubst:
		return append(ps, s.cmdSubst(p, quoted))
	case *syntax.ArithmExp:
		s.arithm(p.X)
		return append(ps, piece{unknown: true, quoted: true, class: class{num: true, noDash: true}})
	case *syntax.ProcSubst:
		return append(ps, s.procSubst(p))
	case *syntax.ExtGlob:
		return append(ps, piece{text: "*", unknown: true, quoted: quoted})
	}
	s.raise(Risky, "`%s` is not understood", clip(s.source(p), 60))
	return append(ps, piece{unknown: true, quoted: quoted})
}

// cmdSubst judges $(…) and returns its value.
func (s *scope) cmdSubst(p *syntax.CmdSubst, quoted bool) piece {
	if p.TempFile || p.ReplyVar {
		s.raise(Risky, "a substitution form of another shell is used")
	}
	seg := s.j.seg
	sub := s.child()
	out := sub.stmts(p.Stmts, s.stdin)
	s.j.seg = seg
	if out.known && len(out.text) <= maxKnownText {
		return piece{text: strings.TrimRight(out.text, "\n"), quoted: quoted, value: true, flow: taint(out)}
	}
	pc := piece{unknown: true, quoted: quoted, class: out.class, flow: taint(out)}
	pc.temp = out.temp && s.onlyMktemp(p.Stmts)
	return pc
}

// onlyMktemp reports whether a substitution is a call of mktemp and nothing
// else, so that what it gives is the name of a file that it made.
func (s *scope) onlyMktemp(stmts []*syntax.Stmt) bool {
	if len(stmts) != 1 || len(stmts[0].Redirs) > 0 || stmts[0].Negated || stmts[0].Background {
		return false
	}
	c, ok := stmts[0].Cmd.(*syntax.CallExpr)
	return ok && len(c.Args) > 0 && len(c.Assigns) == 0 && plainText(c.Args[0]) == "mktemp" && s.funcs["mktemp"] == nil
}

// taint is what a value made from a stream still carries.
func taint(f flow) flow {
	return flow{names: f.names, net: f.net, secret: f.secret, opaque: f.opaque, from: f.from}
}

// procSubst judges <(…); >(…) is judged when what it is sent is known.
func (s *scope) procSubst(p *syntax.ProcSubst) piece {
	if p.Op == syntax.CmdOut {
		s.pending = append(s.pending, p)
		return piece{text: ">(", unknown: true, quoted: true, class: class{noDash: true}}
	}
	seg := s.j.seg
	out := s.child().stmts(p.Stmts, flow{none: true})
	s.j.seg = seg
	s.psub = &out
	return piece{text: "<(", unknown: true, quoted: true, class: class{noDash: true}, flow: taint(out)}
}

// fields turns the pieces of one word into its words.
func (s *scope) fields(out []word, ps []piece) []word {
	if len(ps) == 1 && ps[0].unknown && (ps[0].text == "<(" || ps[0].text == ">(") {
		w := word{class: ps[0].class, tmpl: unknownVar, sample: "x"}
		if ps[0].text == ">(" {
			w.out = true
		} else {
			w.psub, s.psub = s.psub, nil
		}
		return append(out, w)
	}
	var cur []piece
	have := false
	flush := func() {
		if have {
			out = append(out, join(cur))
		}
		cur, have = nil, false
	}
	ifs, known := s.ifs()
	for _, p := range ps {
		if p.list != nil {
			for k, e := range p.list {
				if k > 0 {
					flush()
				}
				cur, have = append(cur, piece{text: e, quoted: true, flow: p.flow}), true
			}
			continue
		}
		if p.unknown && !p.quoted && (!known || ifs != " \t\n") {
			p.class = class{num: p.num && known && strings.Trim(ifs, " \t\n,:;|=/") == ""}
		}
		if !p.value || p.quoted || p.unknown || (known && !strings.ContainsAny(p.text, ifs)) {
			cur = append(cur, p)
			have = have || p.quoted || p.unknown || p.text != ""
			continue
		}
		if !known {
			cur, have = append(cur, piece{unknown: true, flow: p.flow}), true
			continue
		}
		// A known value outside quotes is split.
		if strings.IndexByte(ifs, p.text[0]) >= 0 {
			flush()
		}
		for k, f := range strings.FieldsFunc(p.text, func(r rune) bool { return strings.ContainsRune(ifs, r) }) {
			if k >= maxFields {
				s.raise(Risky, "a value makes too many words to follow")
				break
			}
			if k > 0 {
				flush()
			}
			cur, have = append(cur, piece{text: f, value: true, flow: p.flow}), true
		}
		if strings.IndexByte(ifs, p.text[len(p.text)-1]) >= 0 {
			flush()
		}
	}
	flush()
	return out
}

// ifs is what values outside quotes are split at, when that is known.
func (s *scope) ifs() (string, bool) {
	v, ok := s.vars["IFS"]
	if !ok {
		return " \t\n", true
	}
	return v.val, v.known
}

// join makes one word of pieces.
func join(ps []piece) word {
	if len(ps) == 1 && !ps[0].unknown {
		p := ps[0]
		w := word{text: p.text, lit: true, flow: p.flow}
		if !p.quoted && hasGlob(p.text) {
			w.glob, w.pat = true, p.text
		}
		return w
	}
	j := joiner{w: word{lit: true, flat: true, nums: true, class: class{num: true, noDash: true}}}
	for i, p := range ps {
		j.w.flow = j.w.flow.with(p.flow)
		if p.unknown {
			j.unknown(i, len(ps), p)
		} else {
			j.known(i, p)
		}
	}
	return j.word()
}

// joiner makes one word of pieces.
type joiner struct {
	w                            word
	text, sample, tmpl, pat, alt strings.Builder
	maybe                        []string // what it may be so far, when any part may be something known
}

// maybeNext adds a part's values to what the word may be.
func (j *joiner) maybeNext(vals []string) {
	if j.maybe == nil {
		j.maybe = []string{j.sample.String()}
	}
	var out []string
	for _, have := range j.maybe {
		for _, v := range vals {
			if len(out) < maxMaybe {
				out = append(out, have+v)
			}
		}
	}
	j.maybe = out
}

func (j *joiner) unknown(i, n int, p piece) {
	w := &j.w
	if w.lit {
		w.prefix = j.text.String()
	}
	if i == 0 {
		w.roots, w.noDash = p.roots, p.noDash || p.num
	}
	w.temp = i == 0 && p.temp && p.quoted
	w.lit = false
	w.num, w.nums = w.num && p.num, w.nums && p.num
	w.loose = w.loose || i > 0 && !p.quoted && !p.noDash && !p.num && len(p.roots) == 0
	// A known part before it in the same component could make another name of it.
	at := j.sample.String()
	w.flat = w.flat && (p.inside || p.num) && !strings.HasPrefix(at[strings.LastIndexByte(at, '/')+1:], ".")
	w.job = n == 1 && p.job
	if len(p.maybe) > 0 {
		j.maybeNext(p.maybe)
	} else if j.maybe != nil {
		j.maybeNext([]string{"x"})
	}
	w.split = w.split || !p.quoted || p.array
	j.alt.WriteString(p.alt)
	j.sample.WriteString("x")
	j.tmpl.WriteString(unknownVar)
	j.pat.WriteString("*")
}

func (j *joiner) known(i int, p piece) {
	w := &j.w
	if j.maybe != nil {
		j.maybeNext([]string{p.text})
	}
	j.text.WriteString(p.text)
	j.alt.WriteString(p.text)
	j.sample.WriteString(p.text)
	j.tmpl.WriteString(p.text)
	if p.quoted {
		j.pat.WriteString(quoteGlob(p.text))
	} else {
		j.pat.WriteString(p.text)
		w.glob = w.glob || strings.ContainsAny(p.text, "*?[")
	}
	w.num = w.num && strings.Trim(p.text, "0123456789") == ""
	w.flat = w.flat && !strings.Contains(p.text, "..")
	w.temp = w.temp && !strings.Contains(p.text, "..") && (p.text == "" || p.text[0] == '/' || strings.Contains(j.text.String(), "/"))
	if i == 0 && p.text != "" {
		w.noDash = p.text[0] != '-'
	}
}

func (j *joiner) word() word {
	w := j.w
	w.text = j.text.String()
	if w.glob {
		w.pat = j.pat.String()
		w.glob = hasGlob(w.pat)
	}
	if w.lit {
		w.class, w.flat, w.nums = class{}, false, false
		return w
	}
	w.sample, w.tmpl, w.alt = j.sample.String(), j.tmpl.String(), j.alt.String()
	w.maybe = j.maybe
	w.inside = w.flat && w.sample != "" && w.sample[0] != '/' && w.sample[0] != '.' && !strings.Contains(w.sample, "/.")
	return w
}

// with is the taint of a word that holds both.
func (f flow) with(o flow) flow {
	out := flow{names: f.names || o.names, net: f.net || o.net, secret: f.secret || o.secret, opaque: f.opaque || o.opaque, from: f.from}
	if out.from == "" {
		out.from = o.from
	}
	return out
}

// hasGlob reports whether s holds active pattern characters.
func hasGlob(s string) bool {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '*', '?':
			return true
		case '[':
			if strings.IndexByte(s[i+1:], ']') > 0 {
				return true
			}
		}
	}
	return false
}

func quoteGlob(s string) string {
	if !strings.ContainsAny(s, "*?[]\\") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if strings.IndexByte("*?[]\\", s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
