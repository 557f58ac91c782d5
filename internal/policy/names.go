package policy

import "strings"

// Listing names where credentials are kept gives nothing away, but whatever reads
// the files that those names lead to does. So text that may hold such a name carries
// that with it (flow.names), wherever it goes.

// namesKeys reports whether a word names a place where credentials are kept, or
// holds the name of one among others.
func (s *scope) namesKeys(w word) bool {
	switch {
	case w.flow.names:
		return true
	case w.psub != nil:
		return w.psub.names
	case w.out:
		return false
	}
	if w.glob || len(w.maybe) > 0 || len(w.roots) > 0 || w.flat {
		paths, _ := s.targets(w)
		for _, p := range paths {
			if s.secret(p) {
				return true
			}
		}
	}
	if !strings.ContainsAny(w.text, "/.") || !s.j.charge(len(w.text)) {
		return false
	}
	for f := range strings.FieldsSeq(w.text) {
		f = strings.Trim(f, `'",;:()`)
		if !strings.ContainsAny(f, "/.") {
			continue
		}
		for _, p := range s.resolve(f) {
			if s.secret(p) {
				return true
			}
		}
	}
	return false
}

// amongKeys reports whether what lies at or below these may hold credentials.
func (c *call) amongKeys(roots []word) bool {
	for _, r := range roots {
		if c.s.namesKeys(r) {
			return true
		}
		paths, _ := c.s.targets(r)
		for _, p := range paths {
			if c.s.secret(p) || c.s.holdsKeys(p) {
				return true
			}
		}
	}
	return false
}

// searchesKeys reports whether find looks for names that credentials have.
func (c *call) searchesKeys() bool {
	for i, w := range c.args {
		if i > 0 && c.args[i-1].is("-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-lname", "-samefile") && namesSecret(w.text) {
			return true
		}
	}
	return false
}

// secretSamples are names of credentials that a pattern is tried on. Those that end as
// many other files do count only where the pattern says more than that.
var secretSamples = []string{
	".env", ".env.local", ".netrc", ".pgpass", ".git-credentials", ".htpasswd", ".pypirc", ".vault-token", "id_rsa",
	"id_dsa", "id_ecdsa", "id_ed25519", "authorized_keys",
	"x.pem", "x.key", "x.p12", "x.pfx", "x.kdbx", "kubeconfig", "wallet.dat",
}

// namesSecret reports whether a pattern for names is one for those of credentials.
func namesSecret(pat string) bool {
	base := pat[strings.LastIndexByte(pat, '/')+1:]
	if strings.Trim(base, "*?.") == "" {
		return false
	}
	for _, n := range secretSamples {
		if globMatch(base, n, false) {
			return true
		}
	}
	for _, n := range keyFiles {
		if base == n || strings.ContainsAny(base, "*?[") && (strings.Contains(base, "secret") || strings.Contains(base, "credential")) {
			return true
		}
	}
	return false
}

// picksSecrets reports whether the lines that grep leaves may be names of credentials.
func picksSecrets(p parsed) bool {
	if p.has("-v", "-c") {
		return false
	}
	for _, w := range append(p.values("-e"), p.operands[:min(1, len(p.operands))]...) {
		if namesSecret(strings.NewReplacer("\\", "", "^", "", "$", "").Replace(w.text)) {
			return true
		}
	}
	return false
}

// listsKeys reports whether a command that prints names may print those of files
// that hold credentials.
func (c *call) listsKeys(sp *spec, p parsed) bool {
	if c.name == "basename" || c.name == "dirname" {
		for _, w := range p.operands {
			if c.s.namesKeys(w) {
				return true
			}
		}
		return false
	}
	if strings.HasPrefix(c.name, "fd") {
		return picksSecrets(p) || c.amongKeys(p.operands)
	}
	if r, ok := sp.roleAt(0, 1); !ok || r != roleRead && r != roleDeep {
		return false
	}
	if len(p.operands) == 0 {
		return c.amongKeys(lits("."))
	}
	return c.amongKeys(p.operands)
}

// readsNamed judges reading the files whose names a stream holds.
func (c *call) readsNamed(f flow) {
	if f.names {
		c.readsKeys()
		return
	}
	if !f.known || len(f.text) > maxKnownText {
		return
	}
	for i, name := range strings.FieldsFunc(f.text, func(r rune) bool { return r == 0 || r == '\n' }) {
		if i == maxFields {
			c.raise(Risky, "%s reads more files than can be followed", c.by())
			return
		}
		c.read(lit(name), false)
	}
}

func (c *call) readsKeys() {
	c.raise(Risky, "%s reads files that were found where credentials are kept", c.by())
}
