package policy

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxKnownText bounds the text that is followed through variables and pipes.
const maxKnownText = 64 << 10 // 64 KiB

// variable is what is known about a shell variable.
type variable struct {
	class
	val      string
	known    bool
	set      bool // assigned in this command
	exported bool
	assoc    bool     // declared here as an associative array
	nums     bool     // an array without elements, or all of whose elements are numbers
	list     []string // a known array's elements
	flow     flow
}

// variable returns what is known about name.
func (s *scope) variable(name string) variable {
	if f, ok := s.j.unsure[name]; ok {
		return variable{set: true, flow: f}
	}
	if v, ok := s.vars[name]; ok {
		return v
	}
	switch name {
	case "HOME":
		return variable{val: s.j.env.Home, known: s.j.env.Home != "", exported: true, class: class{noDash: true}}
	case "PWD":
		if len(s.cwds) == 1 && !s.cwdUnknown {
			return variable{val: s.cwds[0], known: true, exported: true}
		}
		return variable{class: class{noDash: true}}
	case "OLDPWD":
		if s.oldpwd != "" {
			return variable{val: s.oldpwd, known: true}
		}
		return variable{class: class{noDash: true}}
	case "IFS":
		return variable{val: " \t\n", known: true}
	case "!":
		return variable{class: class{num: true, noDash: true, job: true}}
	case "?", "#", "$", "RANDOM", "SECONDS", "LINENO", "UID", "EUID", "PPID", "BASHPID", "SHLVL",
		"EPOCHSECONDS", "OPTIND", "COLUMNS", "LINES", "SRANDOM":
		return variable{class: class{num: true, noDash: true}}
	case "USER", "LOGNAME", "HOSTNAME", "HOSTTYPE", "MACHTYPE", "OSTYPE", "SHELL", "BASH", "BASH_VERSION", "TMPDIR":
		return variable{class: class{noDash: true}}
	}
	if secretName(name) {
		return variable{flow: flow{secret: true, from: "$" + name}}
	}
	return variable{}
}

// param expands a parameter expansion.
func (s *scope) param(p *syntax.ParamExp, quoted bool) piece {
	unknown := piece{unknown: true, quoted: quoted}
	if p.Param == nil || p.Flags != nil || p.NestedParam != nil || p.Width || p.IsSet || len(p.Modifiers) > 0 {
		s.raise(Risky, "`%s` is not understood", clip(s.source(p), 60))
		return unknown
	}
	name := p.Param.Value
	if p.Index != nil && !isAll(p.Index) {
		s.arithmIndex(name, p.Index)
	}
	if p.Excl {
		return s.indirect(p, unknown)
	}
	if p.Slice != nil {
		s.arithm(p.Slice.Offset)
		s.arithm(p.Slice.Length)
	}
	if name == "@" || name == "*" || isAll(p.Index) {
		return s.positional(p, name, unknown)
	}
	v := s.variable(name)
	if n, err := strconv.Atoi(name); err == nil {
		v = s.position(n)
	}
	if p.Index != nil {
		v = variable{class: v.class, nums: v.nums, flow: v.flow}
	}
	switch {
	case p.Length:
		unknown.num, unknown.noDash = true, true
		return unknown
	case p.Exp != nil:
		return s.expansion(p, v, quoted)
	case p.Repl != nil:
		return s.replaced(p, v, unknown)
	case p.Slice != nil:
		return slice(p, v, unknown)
	}
	if v.known && s.j.charge(len(v.val)) {
		return piece{text: v.val, quoted: quoted, value: true, flow: v.flow}
	}
	unknown.class, unknown.flow, unknown.sum = v.class, v.flow, v.nums
	return unknown
}

// replaced is ${name/pattern/with}, followed for plain text.
func (s *scope) replaced(p *syntax.ParamExp, v variable, unknown piece) piece {
	orig, with := s.word(p.Repl.Orig), s.word(p.Repl.With)
	unknown.flow = v.flow
	if !v.known || !orig.lit || !with.lit || strings.ContainsAny(orig.text, "*?[#%") || len(v.val)+len(v.val)*len(with.text) > maxKnownText {
		return unknown
	}
	n := 1
	if p.Repl.All {
		n = -1
	}
	return piece{text: strings.Replace(v.val, orig.text, with.text, n), quoted: unknown.quoted, value: true, flow: v.flow}
}

// indirect is ${!name}, which takes a variable's content as a name.
func (s *scope) indirect(p *syntax.ParamExp, unknown piece) piece {
	if p.Names != 0 {
		unknown.noDash = true
		return unknown
	}
	if isAll(p.Index) {
		return unknown
	}
	v := s.variable(p.Param.Value)
	if v.known && isName(v.val) {
		t := s.variable(v.val)
		if t.known {
			return piece{text: t.val, quoted: unknown.quoted, value: true, flow: t.flow}
		}
		unknown.class, unknown.flow = t.class, t.flow
		return unknown
	}
	s.raise(Risky, "`%s` takes a variable's content as a name, which can run commands", clip(s.source(p), 60))
	return unknown
}

// positional is $@, $* or a whole array.
func (s *scope) positional(p *syntax.ParamExp, name string, unknown piece) piece {
	if p.Length {
		unknown.num, unknown.noDash = true, true
		return unknown
	}
	if p.Exp != nil {
		s.word(p.Exp.Word)
	}
	if p.Repl != nil {
		s.word(p.Repl.Orig)
		s.word(p.Repl.With)
	}
	unknown.array = true
	list, known := s.args, s.argsKnown
	unknown.flow = s.argsAll.flow
	if name != "@" && name != "*" {
		v := s.variable(name)
		list, known = v.list, v.list != nil
		unknown.class, unknown.flow = v.class, v.flow
	}
	if known && p.Exp == nil && p.Repl == nil && p.Slice == nil {
		if whole := name == "@" || isAt(p.Index); whole && unknown.quoted && len(list) > 0 {
			return piece{text: strings.Join(list, " "), quoted: true, list: list, flow: unknown.flow}
		}
		for _, a := range list {
			if a == "" || strings.ContainsAny(a, " \t\n*?[\\") {
				return unknown
			}
		}
		// Split again at blanks: the same words, quoted or not.
		return piece{text: strings.Join(list, " "), value: true, flow: unknown.flow}
	}
	return unknown
}

// position is $0, $1 and so on.
func (s *scope) position(n int) variable {
	if n == 0 {
		return s.arg0
	}
	if s.argsKnown && n > 0 {
		if n <= len(s.args) {
			return variable{val: s.args[n-1], known: true}
		}
		return variable{known: true}
	}
	return variable{class: s.argsAll.class, flow: s.argsAll.flow}
}

// expansion is ${name op word}.
func (s *scope) expansion(p *syntax.ParamExp, v variable, quoted bool) piece {
	arg := s.word(p.Exp.Word)
	out := piece{unknown: true, quoted: quoted, flow: v.flow.with(arg.flow)}
	switch p.Exp.Op {
	case syntax.OtherParamOps:
		if !arg.is("Q", "U", "u", "L", "E", "A", "a", "K", "k") {
			s.raise(Risky, "`%s` expands a variable's content as a prompt, which runs commands in it", clip(s.source(p), 60))
		}
		if v.known && arg.is("U", "L") {
			return piece{text: changeCase(v.val, arg.text == "U"), quoted: quoted, value: true, flow: v.flow}
		}
		return out
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
		if v.known && v.val == "" && p.Exp.Op == syntax.AlternateUnsetOrNull {
			return piece{quoted: quoted, value: true}
		}
		if v.known && arg.lit {
			return piece{text: arg.text, quoted: quoted, value: true, flow: arg.flow}
		}
		out.flow = arg.flow // of what it holds nothing is left
		return out
	case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
		return s.defaulted(p, v, arg, out)
	case syntax.ErrorUnset, syntax.ErrorUnsetOrNull:
		if v.known {
			return piece{text: v.val, quoted: quoted, value: true, flow: v.flow}
		}
		out.class = v.class
		return out
	case syntax.UpperAll, syntax.LowerAll:
		if v.known && arg.lit && arg.text == "" {
			return piece{text: changeCase(v.val, p.Exp.Op == syntax.UpperAll), quoted: quoted, value: true, flow: v.flow}
		}
		return out
	case syntax.RemSmallPrefix, syntax.RemLargePrefix, syntax.RemSmallSuffix, syntax.RemLargeSuffix:
		return s.trimmed(p.Exp.Op, v, arg, out)
	}
	return out
}

// trimmed is ${name#pattern} and kin.
func (s *scope) trimmed(op syntax.ParExpOperator, v variable, arg word, out piece) piece {
	if pat := arg.text; v.known && arg.lit && len(v.val) <= maxTrim && s.j.charge(16*len(v.val)*(1+strings.Count(pat, "*"))) {
		return piece{text: trimPattern(v.val, pat, op), quoted: out.quoted, value: true, flow: v.flow}
	}
	if op == syntax.RemSmallSuffix || op == syntax.RemLargeSuffix {
		out.class = class{noDash: v.noDash, inside: v.inside, num: v.num, roots: v.roots}
	} else if arg.lit && (arg.text == "*/" || arg.text == "./") {
		out.inside = v.inside
	}
	return out
}

// defaulted is ${name:-word} and kin.
func (s *scope) defaulted(p *syntax.ParamExp, v variable, arg word, out piece) piece {
	if v.known && (v.val != "" || p.Exp.Op == syntax.DefaultUnset || p.Exp.Op == syntax.AssignUnset) {
		return piece{text: v.val, quoted: out.quoted, value: true, flow: v.flow}
	}
	assign := p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull
	if v.known && arg.lit {
		if assign {
			s.assign(p.Param.Value, variable{val: arg.text, known: true, flow: arg.flow})
		}
		return piece{text: arg.text, quoted: out.quoted, value: true, flow: arg.flow}
	}
	if assign {
		s.assign(p.Param.Value, variable{flow: out.flow})
	}
	if arg.lit {
		// The value may be unset: what stands here then is the default.
		out.alt = arg.text
		if arg.text != "" {
			out.maybe = either(v.asClass().maybe, []string{arg.text})
		}
		out.noDash = v.noDash && !strings.HasPrefix(arg.text, "-")
		if _, err := strconv.Atoi(arg.text); err == nil {
			out.num, out.sum = v.num, v.nums
		}
	}
	return out
}

func slice(p *syntax.ParamExp, v variable, unknown piece) piece {
	off, ok := arithInt(p.Slice.Offset)
	unknown.flow = v.flow
	if !v.known || !ok {
		return unknown
	}
	n := len(v.val)
	if off < 0 {
		off += n
	}
	if off < 0 || off > n {
		return piece{quoted: unknown.quoted, value: true}
	}
	end := n
	if p.Slice.Length != nil {
		l, ok := arithInt(p.Slice.Length)
		if !ok {
			return unknown
		}
		if l < 0 {
			end = n + l
		} else {
			end = min(n, off+l)
		}
		if end < off {
			return unknown
		}
	}
	return piece{text: v.val[off:end], quoted: unknown.quoted, value: true, flow: v.flow}
}

func arithInt(x syntax.ArithmExpr) (int, bool) {
	switch x := x.(type) {
	case *syntax.Word:
		n, err := strconv.Atoi(x.Lit())
		return n, err == nil
	case *syntax.ParenArithm:
		return arithInt(x.X)
	case *syntax.UnaryArithm:
		n, ok := arithInt(x.X)
		if x.Op == syntax.Minus {
			return -n, ok
		}
	}
	return 0, false
}

func changeCase(v string, upper bool) string {
	if upper {
		return strings.ToUpper(v)
	}
	return strings.ToLower(v)
}

// maxTrim is the longest value that patterns are trimmed from.
const maxTrim = 512

// trimPattern removes the shortest or longest match of a pattern at one end.
func trimPattern(v, pat string, op syntax.ParExpOperator) string {
	switch op {
	case syntax.RemSmallPrefix:
		for i := 0; i <= len(v); i++ {
			if globMatch(pat, v[:i], true) {
				return v[i:]
			}
		}
	case syntax.RemLargePrefix:
		for i := len(v); i >= 0; i-- {
			if globMatch(pat, v[:i], true) {
				return v[i:]
			}
		}
	case syntax.RemSmallSuffix:
		for i := len(v); i >= 0; i-- {
			if globMatch(pat, v[i:], true) {
				return v[:i]
			}
		}
	case syntax.RemLargeSuffix:
		for i := 0; i <= len(v); i++ {
			if globMatch(pat, v[i:], true) {
				return v[:i]
			}
		}
	}
	return v
}

// isAll reports whether an index is [@] or [*].
func isAll(x syntax.ArithmExpr) bool {
	w, ok := x.(*syntax.Word)
	if !ok {
		return false
	}
	l := w.Lit()
	return l == "@" || l == "*"
}

// isAt reports whether a subscript is @.
func isAt(x syntax.ArithmExpr) bool {
	w, ok := x.(*syntax.Word)
	return ok && w.Lit() == "@"
}

// isName reports whether v can be a variable's name.
func isName(v string) bool {
	if v == "" || (v[0] >= '0' && v[0] <= '9') {
		return false
	}
	for i := 0; i < len(v); i++ {
		c := v[i]
		if c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// unescapeANSI decodes the inside of $'…'.
func unescapeANSI(v string) string {
	if !strings.Contains(v, "\\") {
		return v
	}
	var b strings.Builder
	for i := 0; i < len(v); i++ {
		if v[i] != '\\' || i+1 >= len(v) {
			b.WriteByte(v[i])
			continue
		}
		i++
		n, used := 0, 0
		switch c := v[i]; c {
		case 'a', 'b', 'e', 'E', 'f', 'n', 'r', 't', 'v':
			b.WriteByte("\a\b\x1b\x1b\f\n\r\t\v"[strings.IndexByte("abeEfnrtv", c)])
		case 'x':
			n, used = digits(v[i+1:], 16, 2)
			i += used
			if used == 0 {
				b.WriteString("\\x")
			} else if n == 0 {
				return b.String()
			} else {
				b.WriteByte(byte(n))
			}
		case 'u', 'U':
			size := 4
			if c == 'U' {
				size = 8
			}
			n, used = digits(v[i+1:], 16, size)
			i += used
			if used == 0 {
				b.WriteByte('\\')
				b.WriteByte(c)
			} else {
				b.WriteRune(rune(n))
			}
		case '0', '1', '2', '3', '4', '5', '6', '7':
			n, used = digits(v[i:], 8, 3)
			i += used - 1
			if n&0xff == 0 {
				return b.String()
			}
			b.WriteByte(byte(n))
		case 'c':
			if i+1 < len(v) {
				i++
				b.WriteByte(v[i] & 0x1f)
			}
		case '\\', '\'', '"', '?':
			b.WriteByte(c)
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String()
}

// digits reads up to n digits of a base and says how many it took.
func digits(s string, base, n int) (value, used int) {
	for used < n && used < len(s) {
		d := strings.IndexByte("0123456789abcdef", s[used]|0x20)
		if s[used] >= '0' && s[used] <= '9' {
			d = int(s[used] - '0')
		}
		if d < 0 || d >= base {
			break
		}
		value = value*base + d
		used++
	}
	return value, used
}
