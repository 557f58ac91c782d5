package policy

import "strings"

// class is what is known about a value whose text is not.
type class struct {
	num    bool     // a number
	noDash bool     // does not start with "-", so it is never an option
	job    bool     // the process ID of something that this command started
	inside bool     // a relative path without ".." or a leading dot
	temp   bool     // a temporary file that this command made, or a path in it
	roots  []string // a path below one of these, spelled like them
	nul    bool     // names that each end in NUL, so that none runs on into the next
	maybe  []string // some of the values that it may have, as far as they are known
}

// maxMaybe is how many values that something may have are followed.
const maxMaybe = 16

// meet is what holds for a value that may be either.
func (c class) meet(o class) class {
	out := class{num: c.num && o.num, noDash: c.noDash && o.noDash, inside: c.inside && o.inside, job: c.job && o.job, temp: c.temp && o.temp, nul: c.nul && o.nul}
	if len(c.roots) > 0 && len(o.roots) > 0 && len(c.roots)+len(o.roots) <= 32 {
		out.roots = append(append(out.roots, c.roots...), o.roots...)
	}
	out.maybe = either(c.maybe, o.maybe)
	return out
}

// either is the values of two lists, at most maxMaybe of them.
func either(a, b []string) []string {
	if len(a) == 0 || len(b) == 0 {
		return append(a, b...)[:min(len(a)+len(b), maxMaybe)]
	}
	out := append(make([]string, 0, len(a)+len(b)), a...)
	for _, v := range b {
		if !in(out, v) {
			out = append(out, v)
		}
	}
	return out[:min(len(out), maxMaybe)]
}

// flow is what a stream or an unknown value carries.
type flow struct {
	class
	text   string // all of it, when known
	known  bool
	none   bool   // nothing is connected
	names  bool   // names files where credentials are kept
	sent   bool   // is what a running shell reads its own commands from
	net    bool   // comes from the network
	secret bool   // may hold credentials
	opaque bool   // was decoded or decrypted from something unreadable
	shell  bool   // is the output of a shell that runs what it is sent
	from   string // the command that net, secret or opaque data came from
	file   string // the file that it was read from, absolute
}

func literal(s string) flow { return flow{text: s, known: true} }

// and is the flow of one stream after, or mixed with, another.
func (f flow) and(o flow) flow {
	if f.none || f.silent() {
		return o
	}
	if o.none || o.silent() {
		return f
	}
	out := flow{
		class: f.meet(o.class),
		names: f.names || o.names,
		net:   f.net || o.net, secret: f.secret || o.secret, opaque: f.opaque || o.opaque, shell: f.shell || o.shell,
		from: f.from,
	}
	if f.known && o.known {
		out.text, out.known = f.text+o.text, true
	}
	if out.from == "" || (o.net && !f.net) || (o.secret && !f.secret) {
		out.from = o.from
	}
	return out
}

func (f flow) silent() bool { return f.known && f.text == "" }

// unread is the flow when its text has been changed in a way not followed.
func (f flow) unread() flow {
	if f.silent() {
		return f
	}
	f.text, f.known, f.file, f.class, f.none = "", false, "", class{}, false
	return f
}

// lines is the flow when only some of its lines, in some order, are left.
func (f flow) lines() flow {
	c := f.class
	c.roots, c.nul = nil, false
	f = f.unread()
	f.class = c
	return f
}

// first is the flow when only its first lines are left.
func (f flow) first() flow {
	roots := f.roots
	f = f.lines()
	f.roots = roots
	return f
}

// word is one argument as far as it is known before it runs.
type word struct {
	class
	text   string // exact when lit; else the known parts, the unknown ones left out
	lit    bool
	sample string // when not lit: text with each unknown part replaced by "x"
	tmpl   string // when not lit: text with each unknown part as a variable
	alt    string // when not lit: text with defaults for unset variables put in
	prefix string // when not lit: what is known before the first unknown part
	flat   bool   // when not lit: no unknown part can lead out of its directory
	glob   bool   // holds unquoted pattern characters
	pat    string // the pattern when glob, quoted characters escaped
	nums   bool   // when not lit: every unknown part is a number
	split  bool   // unquoted and unknown: may be none or several words
	loose  bool   // unquoted and unknown after the start: more words, options too
	flow   flow   // what the unknown parts carry
	psub   *flow  // a <(...), and what reading it gives
	out    bool   // a >(...)
}

// unknownVar stands for an unknown part in a script's template.
const unknownVar = "${__unknown}"

func lit(s string) word { return word{text: s, lit: true} }

func lits(ss ...string) []word {
	ws := make([]word, len(ss))
	for i, s := range ss {
		ws[i] = lit(s)
	}
	return ws
}

// show is the word for people, bounded.
func (w word) show() string {
	switch {
	case w.psub != nil:
		return "<(…)"
	case w.out:
		return ">(…)"
	case w.lit:
		return clip(w.text, 80)
	case w.text == "" && w.glob:
		return clip(w.pat, 80)
	}
	return clip(strings.ReplaceAll(w.tmpl, unknownVar, "…"), 80)
}

// is reports whether the word is exactly one of ss.
func (w word) is(ss ...string) bool {
	if !w.lit || w.glob {
		return false
	}
	for _, s := range ss {
		if w.text == s {
			return true
		}
	}
	return false
}

// mayBeOption reports whether the word could start with "-" when it runs.
func (w word) mayBeOption() bool {
	if w.psub != nil || w.out {
		return false
	}
	if w.glob {
		return strings.HasPrefix(w.pat, "-") || strings.HasPrefix(w.pat, "*") ||
			strings.HasPrefix(w.pat, "?") || strings.HasPrefix(w.pat, "[") || (!w.lit && w.prefix == "")
	}
	if w.lit {
		return strings.HasPrefix(w.text, "-")
	}
	if w.loose {
		return true
	}
	if w.prefix != "" {
		return w.prefix[0] == '-'
	}
	return !w.noDash && !w.num && (len(w.roots) == 0 || w.split)
}

// numbered is the word with each unknown part that is a number as one, where
// every unknown part is.
func (w word) numbered() word {
	if w.lit || !w.nums || w.glob {
		return w
	}
	return lit(strings.ReplaceAll(w.tmpl, unknownVar, "1"))
}

// script is the word's text as a script: unknown parts as a variable.
func (w word) script() string {
	if w.lit {
		return w.text
	}
	return w.tmpl
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	cut := n
	for cut > 0 && s[cut]&0xC0 == 0x80 {
		cut--
	}
	return s[:cut] + "…"
}
