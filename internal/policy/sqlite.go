package policy

import (
	"strings"
	"unicode"
)

// sqliteSpec are the options of the sqlite3 shell that only change how it shows
// what it finds.
var sqliteSpec = mustSpec(`sqlite3 | single | v* | -header -noheader -csv -json -column -box -table -markdown -line
	-list -quote -tabs -ascii -html -readonly -safe -bail -batch -nullvalue: -separator: -newline: -version -help`)

// sqliteDots are the shell's own commands that only show.
var sqliteDots = []string{
	".tables", ".schema", ".indexes", ".indices", ".databases", ".dbinfo", ".fullschema", ".headers", ".mode", ".width",
	".nullvalue", ".show", ".help",
}

// sqliteFuncs are functions that compute from their arguments alone. The shell
// has others that read and write files and load code.
var sqliteFuncs = []string{
	"count", "sum", "avg", "min", "max", "total", "group_concat", "string_agg", "abs", "round", "ceil", "floor",
	"lower", "upper", "length", "substr", "substring", "trim", "ltrim", "rtrim",
	"replace", "instr", "coalesce", "ifnull", "iif", "nullif", "date", "time", "datetime", "julianday", "strftime",
	"unixepoch", "printf", "format", "hex", "quote", "typeof", "random", "like", "glob",
	"json_extract", "json_array_length", "json_each", "json_type", "json_valid", "row_number", "rank", "dense_rank",
	"lag", "lead", "first_value", "last_value", "ntile", "cast", "in", "over", "exists", "as", "and", "or", "not",
	"from", "select", "where", "values", "by", "on", "join", "when", "then", "else", "using", "distinct", "filter",
	"between",
}

// sqliteReads reports whether a call of sqlite3 only looks at a database in the
// workspace: every word is known, and every statement is a plain query. A view
// in the database may still call the shell's own functions, so that it must be
// confined.
func (c *call) sqliteReads() bool {
	if c.name != "sqlite3" {
		return false
	}
	p := c.parse(sqliteSpec, c.args)
	if p.bad || len(p.operands) < 2 {
		return false
	}
	for i, w := range p.operands {
		if !w.lit || w.glob || i == 0 && (strings.ContainsAny(w.text, ":?*") || strings.HasPrefix(w.text, "-")) || i > 0 && !sqlReads(w.text) {
			return false
		}
	}
	for _, path := range c.s.resolve(p.operands[0].text) {
		if c.s.placeOf(path) != placeWorkspace {
			return false
		}
	}
	if c.s.remote != "" || !c.s.j.env.Isolated {
		c.raise(Risky, "%s may run what the database's views name, and nothing confines it here", c.by())
	}
	c.write(p.operands[0]) // its journal, at most
	return true
}

// sqlReads reports whether text is one of the shell's commands that show, or
// statements that only read.
func sqlReads(text string) bool {
	t := strings.TrimSpace(text)
	if strings.HasPrefix(t, ".") {
		return in(sqliteDots, strings.Fields(t)[0]) && !strings.ContainsAny(t, "|\n;'\"`$")
	}
	if strings.Contains(t, "\n.") || strings.Contains(t, "\n#") || strings.ContainsAny(t, "`[]\\$@#") || strings.Contains(t, "--") || strings.Contains(t, "/*") {
		return false
	}
	for _, st := range strings.Split(t, ";") {
		if st = strings.TrimSpace(st); st != "" && !queryReads(st) {
			return false
		}
	}
	return t != ""
}

// queryReads reports whether a statement is a SELECT whose functions all compute
// only. A semicolon inside a string has split it, and fails.
func queryReads(st string) bool {
	low := strings.Join(strings.Fields(strings.ToLower(st)), " ")
	if !strings.HasPrefix(low, "select ") && !strings.HasPrefix(low, "explain query plan select ") {
		return false
	}
	word := ""
	var quote rune
	for i, r := range low {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '\'':
			quote = r
		case r == '"':
			return false // a name in quotes may be a function's
		case r == '(':
			if w := strings.TrimSpace(word); w != "" && !in(sqliteFuncs, w) {
				return false
			}
			word = ""
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_':
			if i > 0 && low[i-1] == ' ' {
				word = ""
			}
			word += string(r)
		case r != ' ':
			word = ""
		}
		if quote == 0 && in([]string{"into", "attach", "pragma", "vacuum", "returning", "pragma_"}, word) {
			return false
		}
	}
	return quote == 0 && !strings.Contains(low, "pragma_") && !strings.Contains(low, "fsdir") && !strings.Contains(low, "dbstat") && !strings.Contains(low, "zipfile")
}
