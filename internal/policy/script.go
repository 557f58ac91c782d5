package policy

import (
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// scriptOpts is how a script is run.
type scriptOpts struct {
	what   string // the command that runs it, for reasons
	lang   Shell
	name   *word  // $0, where it is given
	args   []word // $1 and on
	stdin  flow
	same   bool   // in this shell: eval, source
	remote string // somewhere else, by this command
}

// runScript judges a script given as text.
func (s *scope) runScript(text string, o scriptOpts) flow {
	if o.lang == "" {
		o.lang = ShellBash
	}
	if o.same {
		o.lang = s.lang
	}
	if len(text) > maxCommand {
		s.raise(Risky, "the script that %s runs is too long to be judged", o.what)
		return flow{}
	}
	if !s.j.charge(len(text)) {
		return flow{}
	}
	if s.j.depth++; s.j.depth > maxDepth {
		s.raise(Risky, "the command is nested too deeply to be judged whole")
		s.j.depth--
		return flow{}
	}
	defer func() { s.j.depth-- }()
	f, err := s.j.p.parse(text, o.lang)
	if err != nil && o.lang == ShellSh {
		if f, err = s.j.p.parse(text, ShellBash); err == nil {
			s.raise(Risky, "the script that %s runs is not plain sh", o.what)
		}
	}
	if err != nil {
		s.raise(Risky, "the script that %s runs does not parse: %s", o.what, parseError(err))
		return flow{}
	}
	sub := s
	if !o.same {
		sub = s.fresh(o)
	}
	if unseen(text) {
		s.raise(Risky, "the script that %s runs holds characters that do not show", o.what)
	}
	if _, found := EndComments(text); found {
		s.raise(Risky, "in the script that %s runs, "+joined, o.what)
	}
	saved := sub.src
	sub.src = text
	defer func() { sub.src = saved }()
	s.j.nested++
	defer func() { s.j.nested-- }()
	return sub.stmts(f.Stmts, o.stdin)
}

// fresh is the state of a new shell that this one starts.
func (s *scope) fresh(o scriptOpts) *scope {
	c := s.child()
	c.lang, c.dotglob, c.stdin = o.lang, false, o.stdin
	c.funcs = nil
	vars := map[string]variable{}
	for k, v := range s.vars {
		if v.exported {
			vars[k] = v
		}
	}
	c.vars = vars
	if c.arg0 = (variable{}); o.name != nil {
		c.arg0 = variable{val: o.name.text, known: o.name.lit && !o.name.glob, flow: o.name.flow}
		c.arg0.flow.names = s.namesKeys(*o.name)
	}
	c.setArgs(o.args)
	c.argsKnown = c.argsKnown && len(o.args) > 0
	c.argsAll.class = class{}
	if o.remote != "" {
		c.remote = o.remote
		c.loseCwd()
	}
	// The maps that were kept are the parent's too.
	c.shared = true
	return c
}

// sub starts a judgement of what a command might run, whose reasons do not count.
func (j *judge) sub() *judge {
	return &judge{p: j.p, env: j.env, facts: j.facts, visits: j.visits, depth: j.depth, quiet: j.quiet + 1, nested: 1, sent: j.sent, files: maps.Clone(j.files), links: slices.Clone(j.links)}
}

// maxQuiet bounds guesses inside guesses.
const maxQuiet = 3

// worst judges text that a command may run as a script, and raises only when
// that would be critical.
func (s *scope) worst(text, by string) {
	if s.j.quiet >= maxQuiet || len(text) > maxCommand || strings.TrimSpace(text) == "" || !s.j.charge(len(text)) {
		return
	}
	f, err := s.j.p.parse(text, ShellBash)
	if err != nil {
		return
	}
	sub := s.j.sub()
	c := s.child()
	c.j, c.src = sub, text
	c.stmts(f.Stmts, flow{})
	c.uncalled()
	s.takeWorst(sub, text, by)
}

// worstWords is worst for a command given as words.
func (s *scope) worstWords(ws []word, by string) {
	if s.j.quiet >= maxQuiet || !s.j.charge(chargeBytes/4*len(ws)) {
		return
	}
	sub := s.j.sub()
	c := s.child()
	c.j = sub
	c.run(ws, flow{}, runOpts{noFuncs: true})
	var text []string
	for _, w := range ws[:min(len(ws), 16)] {
		text = append(text, w.show())
	}
	s.takeWorst(sub, strings.Join(text, " "), by)
}

func (s *scope) takeWorst(sub *judge, text, by string) {
	s.j.visits = sub.visits
	s.j.spend()
	if sub.tier < Critical {
		return
	}
	why := ""
	for _, r := range sub.reasons {
		if r.Tier == sub.tier {
			why = ": " + r.Text
			break
		}
	}
	s.raise(sub.tier, "%s may run `%s`%s", by, clip(strings.TrimSpace(text), 80), why)
}

// parse parses text in a shell's language.
func (p *Policy) parse(text string, lang Shell) (*syntax.File, error) {
	pool := &p.bash
	if lang == ShellSh {
		pool = &p.sh
	}
	parser, ok := pool.Get().(*syntax.Parser)
	if !ok {
		v := syntax.LangBash
		if lang == ShellSh {
			v = syntax.LangPOSIX
		}
		parser = syntax.NewParser(syntax.Variant(v))
	}
	text, _ = EndComments(text)
	f, err := parser.Parse(strings.NewReader(text), "")
	pool.Put(parser)
	return f, err
}

// parseError is a parser's message without its position's file name.
func parseError(err error) string { return clip(err.Error(), 120) }
