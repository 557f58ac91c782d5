package policy

import "strings"

// allPlain reports whether words can bring neither a dash at a field's start
// nor further fields into what a command prints of them.
func allPlain(ws []word) bool {
	for _, w := range ws {
		if !w.num && (!w.lit || w.glob || w.mayBeOption() || strings.ContainsAny(w.text, " \t\n\\")) {
			return false
		}
	}
	return true
}

// only reports whether every option given is one of names.
func (p parsed) only(names ...string) bool {
	for _, h := range p.hits {
		ok := false
		for _, n := range names {
			ok = ok || in(h.names, n)
		}
		if !ok {
			return false
		}
	}
	return true
}

// goEnvPlain are the variables of "go env" that hold no flags.
var goEnvPlain = []string{
	"GOPATH", "GOROOT", "GOOS", "GOARCH", "GOVERSION", "GOMOD", "GOCACHE", "GOMODCACHE", "GOBIN", "GOWORK", "GOHOSTOS",
	"GOHOSTARCH", "GOEXE", "GOTMPDIR", "GOTOOLDIR",
}

// printsPlain reports whether no field that the command prints starts with a
// dash, for commands whose table line says so of their usual form.
func (c *call) printsPlain(sp *spec, p parsed) bool {
	if !sp.attr("nodash") || !allPlain(p.operands) && c.name != "date" {
		return false
	}
	for _, h := range p.hits {
		if h.val != nil && !allPlain([]word{*h.val}) && c.name != "date" {
			return false
		}
	}
	switch c.name {
	case "date":
		return plainDate(p)
	case "go version":
		return !p.has("-m")
	case "go env":
		for _, w := range p.operands {
			if !in(goEnvPlain, w.text) {
				return false
			}
		}
		return len(p.operands) > 0
	case "realpath":
		return !p.has("--relative-to", "--relative-base")
	}
	return !p.has("--check") && (!p.has("-c") || !strings.HasSuffix(c.name, "sum"))
}

// dateDigits reports whether date prints digits alone.
func dateDigits(p parsed) bool {
	if p.has("-d", "-f", "-r") || len(p.operands) != 1 {
		return false
	}
	t := strings.TrimPrefix(p.operands[0].text, "+")
	for len(t) > 1 && t[0] == '%' && strings.IndexByte("YymdHMSsjNuwUWVGgCI", t[1]) >= 0 {
		t = t[2:]
	}
	return t == ""
}

// plainDate reports whether date prints one field that does not start with a
// dash: a format of numbers and names, none of which can be empty or negative.
func plainDate(p parsed) bool {
	if len(p.operands) == 0 {
		return p.has("-I") && !p.has("-d", "-f")
	}
	w := p.operands[0]
	t, ok := strings.CutPrefix(w.text, "+%")
	if !ok || !w.lit || len(p.operands) != 1 {
		return false
	}
	first := "YymdHMSsjFTDRNuwUWVGgCaAbBhI"
	if p.has("-d", "-f", "-r") {
		first = "mdHMSjuwUWVaAbBhI" // a year may be negative
	}
	t = strings.TrimPrefix(t, "-")
	if t == "" || strings.IndexByte(first, t[0]) < 0 {
		return false
	}
	for i := 1; i < len(t); i++ {
		switch ch := t[i]; {
		case ch == '%':
			if i++; i < len(t) && t[i] == '-' {
				i++
			}
			if i >= len(t) || strings.IndexByte("YymdHMSsjFTDRNuwUWVGgCaAbBhI", t[i]) < 0 {
				return false
			}
		case !isWordByte(ch) && strings.IndexByte(".:/@+-,=", ch) < 0:
			return false
		}
	}
	return true
}

// printsNumber is the class of the output of commands that usually print a
// number: options may put names and other text into it.
func (c *call) printsNumber(p parsed) class {
	plain := class{num: true, noDash: true}
	switch c.name {
	case "seq":
		if !p.only("-w") {
			return class{}
		}
	case "wc":
		if p.has("--files0-from") || !allPlain(p.operands) {
			return class{}
		}
		plain.num = len(p.operands) == 0
	case "pgrep", "pidof":
		if p.has("-l", "-a", "-d") {
			return class{}
		}
	}
	return plain
}

// countClass is the class of what grep -c prints.
func countClass(p parsed, files []word, deep bool) class {
	one := len(files) < 2 && !deep && !p.has("-H", "--with-filename", "--vimgrep", "--stats", "--json")
	for _, w := range files {
		one = one && !w.glob && !w.split
	}
	return class{num: one, noDash: one || !deep && allPlain(files)}
}
