package policy

import (
	"strings"
)

// langTable holds interpreters of other languages. Code given to them asks,
// however it is given.
const langTable = `
python python2 python3 pypy pypy3 | raw python | v* |
perl ruby php lua luajit Rscript R julia groovy scala elixir erl ghci runghc runhaskell tclsh wish expect guile racket
	sbcl clisp ocaml jshell octave gnuplot jsc qjs pry irb iex raku perl6 osascript crystal nim | raw interp | v* |
node nodejs bun deno ts-node tsx | raw node | v* |
vi vim nvim view vimdiff rvim ex ed emacs nano pico joe micro kak helix hx | raw editor | v* |
sqlite3 sqlite duckdb | raw sql | v* |
java | raw java | v* |
jar | raw jar | v* |
bc dc | calc | R* | -l,--mathlib -q,--quiet -s,--standard -w,--warn -e,--expression: -f,--file! -i! -x
`

// runInterp judges an interpreter of another language.
func runInterp(c *call, _ *spec, _ parsed) {
	if len(c.args) == 1 && c.args[0].is("--version", "-v", "-V", "-version", "--help", "-h") {
		return
	}
	if len(c.args) == 2 && (c.name == "ruby" && c.args[0].is("-c", "-wc", "-cw") || c.name == "php" && c.args[0].is("-l")) {
		c.read(c.args[1], false) // they only check the syntax
		return
	}
	c.interpreter()
}

// interpreter judges code in options, in a script, or sent in.
func (c *call) interpreter() {
	given := false
	for i := 0; i < len(c.args); i++ {
		w := c.args[i]
		t := w.script()
		if w.flow.net || (w.psub != nil && w.psub.net) {
			c.raise(Critical, "%s runs what `%s` downloaded", c.by(), orElse(w.flow.from, "a substitution"))
		}
		if w.lit && len(t) > 1 && t[0] == '-' {
			if strings.HasPrefix(t, "--eval") || strings.HasPrefix(t, "--print") || strings.HasPrefix(t, "--command") || (t[1] != '-' && strings.ContainsAny(t[1:], "ecrE")) {
				given = true
			}
			c.code(t)
			continue
		}
		if given {
			c.code(t)
			continue
		}
		given = true
		c.raise(Risky, "%s runs `%s`", c.by(), w.show())
		c.scriptOperand(w)
	}
	if !given {
		c.inputCode()
		return
	}
	c.raise(Risky, "%s runs code that the policy does not read", c.by())
	c.afterCode()
}

// scriptOperand judges a file that an interpreter runs.
func (c *call) scriptOperand(w word) {
	if w.psub != nil {
		if w.psub.net {
			c.raise(Critical, "%s runs what `%s` downloaded", c.by(), w.psub.from)
		}
		c.code(w.psub.text)
		return
	}
	if w.is("-", "/dev/stdin") {
		c.inputCode()
		return
	}
	if !w.lit || w.glob {
		return
	}
	if strings.HasPrefix(w.text, "http://") || strings.HasPrefix(w.text, "https://") {
		c.raise(Critical, "%s runs what it downloads", c.by())
		c.host(w)
		return
	}
	for _, p := range c.s.resolve(w.text) {
		c.operand(p)
		f := c.s.readContent(p)
		if f.net {
			c.raise(Critical, "%s runs `%s`, which was downloaded", c.by(), w.show())
		}
		if f.known {
			c.code(f.text)
		}
	}
}

// inputCode judges an interpreter that reads its program from standard input.
func (c *call) inputCode() {
	c.raise(Risky, "%s runs whatever it is sent", c.by())
	if c.in.file != "" {
		c.operand(c.in.file)
		if f := c.s.readContent(c.in.file); f.known {
			c.code(f.text)
		}
	}
	if c.in.net {
		c.raise(Critical, "%s runs what `%s` downloaded", c.by(), c.in.from)
	}
	c.code(c.in.text)
	c.afterCode()
}

// afterCode: an interpreter's output may be anything it was sent.
func (c *call) afterCode() {
	c.out = flow{net: c.in.net, secret: c.in.secret, from: c.in.from, shell: true}
	if c.out.from == "" {
		c.out.from = c.name
	}
}

// code looks for what would be critical in code of another language: a shell
// command in a string, a connection joined to a shell, everything deleted. It
// never makes code less than risky: that is for whoever runs it to say.
func (c *call) code(text string) {
	if text == "" || c.s.j.quiet >= maxQuiet {
		return
	}
	if len(text) > maxCommand {
		text = text[:maxCommand]
	}
	if !c.s.j.charge(len(text)) {
		return
	}
	low := strings.ToLower(text)
	for i, s := range stringsIn(text) {
		if i >= 200 {
			break
		}
		c.codeString(s, low)
	}
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(low, p) {
				return true
			}
		}
		return false
	}
	shell := has(
		"dup2", "/bin/sh", "/bin/bash", "subprocess", "pty.spawn", "os.system", "child_process", "exec(", "exec \"",
		"exec '", "popen", "spawn", "process.start", "cmd.exe", "powershell", "shell_exec", "proc_open", "backtick",
	)
	if has(
		"socket", "fsockopen", "tcpsocket", "net.connect", "net.createconnection", "new net.", "io.socket",
		"create_connection", "/inet/tcp", "tcpclient", "/dev/tcp/",
	) && shell {
		c.raise(Critical, "%s joins a connection to a shell", c.by())
	}
	if has("fork") && has("while", "for(", "for (", "loop", "fork while", "forever", ":(") {
		c.raise(Forbidden, "%s starts copies of itself without end", c.by())
	}
	if has("kill(-1", "kill -1", "kill 9, -1", "kill(9, -1", "kill('term', -1", "kill 'kill', -1") {
		c.raise(Forbidden, "%s signals every process it may", c.by())
	}
	if has(
		"urlopen", "urlretrieve", "requests.get", "http.get", "fetch(", "file_get_contents('http",
		"file_get_contents(\"http", "open-uri", "lwp::simple", "net::http", "open('http", "open(\"http", "uri.open",
		"http.client",
	) && has("exec(", "eval", "os.system", "subprocess", "compile(", "child_process", "instance_eval", "runpy") {
		c.raise(Critical, "%s runs what it downloads", c.by())
	}
}

// codeString judges one string in code.
func (c *call) codeString(s, low string) {
	s = strings.TrimSpace(s)
	if s == "" {
		return
	}
	t := strings.TrimPrefix(strings.TrimPrefix(s, ":"), "!")
	if strings.ContainsAny(t, " |;&<>$`") || t == "reboot" || t == "halt" || t == "poweroff" {
		c.s.worst(t, c.by())
	}
	if h := hostOf(t); metadataHost(h) && strings.Contains(t, ".") {
		c.raise(Critical, "%s asks the cloud's metadata service, which gives out credentials", c.by())
	}
	if strings.HasPrefix(t, "~/") {
		t = c.s.j.env.Home + t[1:]
	}
	if !strings.HasPrefix(t, "/") {
		return
	}
	pl := c.s.placeOf(cleanPath(t))
	deletes := false
	for _, p := range []string{"rmtree", "rm_rf", "rm_r", "rmsync", "unlink", "remove", "rmdir", "rimraf", "truncate", "deltree", "remove_dir_all", "delete"} {
		deletes = deletes || strings.Contains(low, p)
	}
	sendsOut := false
	for _, p := range []string{"urlopen", "requests.", "http", "socket", "fetch(", "curl", "smtp", "ftp"} {
		sendsOut = sendsOut || strings.Contains(low, p)
	}
	switch {
	case deletes && (pl == placeSystemTop || pl == placeHome || pl == placeAbove || pl == placeSystem || pl == placeKeys):
		c.raise(Critical, "%s deletes `%s`", c.by(), clip(t, 60))
	case pl == placeDevice && !strings.Contains(t, " "):
		c.raise(Critical, "%s opens the device `%s`", c.by(), clip(t, 60))
	case sendsOut && c.s.secret(cleanPath(t)):
		c.raise(Critical, "%s may send out `%s`, which may hold credentials", c.by(), clip(t, 60))
	case strings.HasPrefix(t, "/proc/sys"):
		c.raise(Critical, "%s changes the running kernel through `%s`", c.by(), clip(t, 60))
	}
}

// stringsIn returns the quoted strings in code, and what stands in brackets
// after the ways to quote a command in Perl and Ruby. Adjacent strings in a list
// are returned joined too, as an argument vector is.
func stringsIn(text string) []string {
	var out []string
	var run []string
	last := 0
	for i := 0; i < len(text); i++ {
		q := text[i]
		if q != '"' && q != '\'' && q != '`' {
			continue
		}
		j := i + 1
		for j < len(text) && text[j] != q {
			if text[j] == '\\' {
				j++
			}
			j++
		}
		if j >= len(text) {
			j = len(text)
		}
		s := text[i+1 : min(j, len(text))]
		if strings.IndexByte(s, '\\') >= 0 {
			s = unescapeANSI(s)
		}
		if gap := strings.TrimSpace(text[last:i]); len(run) > 0 && gap != "," {
			if len(run) > 1 {
				out = append(out, strings.Join(run, " "))
			}
			run = nil
		}
		run = append(run, s)
		out = append(out, s)
		// What is quoted may hold quotes of the other kind.
		for k := 0; k < len(s); k++ {
			if o := s[k]; o == '"' || o == '\'' {
				if e := strings.IndexByte(s[k+1:], o); e > 0 {
					out = append(out, s[k+1:k+1+e])
					k += e + 1
				}
			}
		}
		i, last = j, min(j+1, len(text))
	}
	if len(run) > 1 {
		out = append(out, strings.Join(run, " "))
	}
	for _, open := range []string{"qx{", "qx(", "qx/", "%x(", "%x{", "q{", "qq{", "q(", "qq("} {
		for from := 0; ; {
			i := strings.Index(text[from:], open)
			if i < 0 {
				break
			}
			start := from + i + len(open)
			e := strings.IndexAny(text[start:], "})/")
			if e < 0 {
				break
			}
			out = append(out, text[start:start+e])
			from = start + e
		}
	}
	for _, line := range strings.Split(text, "\n") {
		// An editor's or debugger's escape to the shell.
		for _, p := range []string{":!", ":silent !", "!", ":r !", ":w !", "%!"} {
			if cmd, ok := strings.CutPrefix(strings.TrimSpace(line), p); ok {
				out = append(out, cmd)
			}
		}
	}
	return out
}

// runNode knows the subcommands of bun and deno that test and check.
func runNode(c *call, _ *spec, _ parsed) {
	args := c.args
	if len(args) == 1 && args[0].is("--version", "-v", "-V", "--help", "-h") {
		return
	}
	if len(args) > 0 && args[0].is("--test") && c.name == "node" {
		for _, w := range args[1:] {
			name, val, _ := strings.Cut(w.text, "=")
			switch {
			case !w.lit && w.mayBeOption(), w.lit && strings.HasPrefix(w.text, "-") && !in(nodeTests, name):
				c.raise(Risky, "%s is given `%s`, which the policy does not know as harmless", c.by(), w.show())
			case w.lit && strings.HasPrefix(w.text, "-"):
				c.kind(name, lit(val))
			default:
				c.toolPath(w, true)
			}
		}
		c.build()
		return
	}
	if len(args) == 2 && args[0].is("--check", "-c") && c.name == "node" {
		c.read(args[1], false)
		return
	}
	if c.name == "bun" || c.name == "deno" {
		if c.jsTool(args) {
			return
		}
	}
	c.interpreter()
}

// nodeTests are options of node's test runner that only choose and show.
var nodeTests = []string{
	"--test", "--test-name-pattern", "--test-skip-pattern", "--test-only", "--test-timeout", "--test-concurrency",
	"--test-shard", "--test-force-exit", "--test-reporter", "--test-coverage-lines", "--experimental-test-coverage",
}

func runEditor(c *call, _ *spec, _ parsed) {
	if len(c.args) == 1 && c.args[0].is("--version", "--help") {
		return
	}
	c.raise(Risky, "%s edits files and can run commands", c.by())
	for i, w := range c.args {
		t := w.script()
		if strings.HasPrefix(t, "+") {
			c.editorCommand(t[1:])
		}
		if i > 0 && c.args[i-1].is("-c", "--cmd", "--eval", "-eval", "-es", "-s", "--execute") {
			c.editorCommand(t)
		}
	}
	c.editorCommand(c.in.text)
	for _, w := range c.args {
		if w.lit && !strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "+") && strings.HasPrefix(w.text, "/") {
			c.write(w)
		}
	}
}

func (c *call) editorCommand(t string) {
	c.code(t)
	for _, line := range strings.Split(t, "\n") {
		line = strings.TrimLeft(line, ": ")
		for _, p := range []string{"silent!", "silent", "r", "w", "%", "terminal", "term", "."} {
			line = strings.TrimLeft(strings.TrimPrefix(line, p), " ")
		}
		if cmd, ok := strings.CutPrefix(line, "!"); ok {
			c.s.worst(cmd, c.by())
		}
	}
}

// runSQL judges a local database: statements that drop or delete, and the
// shell's dot commands.
func runSQL(c *call, _ *spec, _ parsed) {
	if len(c.args) == 1 && c.args[0].is("--version", "-version", "--help", "-help") {
		return
	}
	if c.sqliteReads() {
		return
	}
	c.raise(Risky, "%s runs statements on a database", c.by())
	for _, w := range append(append([]word(nil), c.args...), word{lit: true, text: c.in.text}) {
		c.sqlText(w.script())
	}
}

func (c *call) sqlText(t string) {
	up := strings.ToUpper(strings.Join(strings.Fields(plainSelect(t)), " "))
	for _, p := range []string{"DROP ", "TRUNCATE ", "DELETE FROM", "FLUSHALL", "FLUSHDB", "DROPDATABASE", "XP_CMDSHELL", "INTO OUTFILE", ".DROP(", ".DELETEMANY(", ".REMOVE("} {
		if strings.Contains(up, p) {
			c.raise(Critical, "%s changes or destroys data: `%s`", c.by(), clip(strings.TrimSpace(p), 40))
			break
		}
	}
	for _, line := range strings.Split(t, "\n") {
		for _, p := range []string{".shell ", ".system ", "\\! ", "! ", "system "} {
			if cmd, ok := strings.CutPrefix(strings.TrimSpace(line), p); ok {
				c.raise(Risky, "%s runs a shell command", c.by())
				c.s.worst(cmd, c.by())
			}
		}
	}
	if i := strings.Index(up, "PROGRAM '"); i >= 0 {
		c.code(t)
	}
}

// plainSelect is a query without what its literals hold, where no database reads it
// otherwise: nothing in it quotes, escapes or comments but single quotes.
func plainSelect(t string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(t), " ")
	if !in([]string{"SELECT", "EXPLAIN", "SHOW", "VALUES"}, strings.ToUpper(first)) || strings.ContainsAny(t, "\\\"`$#;") || strings.Contains(t, "--") || strings.Contains(t, "/*") || strings.Count(t, "'")%2 != 0 {
		return t
	}
	var b strings.Builder
	for i, part := range strings.Split(t, "'") {
		if i%2 == 0 {
			b.WriteString(part + "''")
		}
	}
	return b.String()
}

// runCalc judges bc and dc, whose "!" runs commands.
func runCalc(c *call, _ *spec, p parsed) {
	if c.name == "dc" {
		if len(p.operands) > 0 {
			c.raise(Risky, "%s runs what `%s` holds", c.by(), p.operands[0].show())
		}
		for _, w := range c.args {
			if strings.Contains(w.text, "!") || !w.lit {
				c.raise(Risky, "%s may run a command", c.by())
			}
		}
		if !c.in.none && (!c.in.known || strings.Contains(c.in.text, "!")) {
			c.raise(Risky, "%s may run a command that it is sent", c.by())
		}
	}
}
