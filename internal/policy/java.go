package policy

import "strings"

// runJava judges the Java launcher: it runs a program, unless it only says what
// it is.
func runJava(c *call, _ *spec, _ parsed) {
	if len(c.args) == 1 && c.args[0].is("-version", "--version", "-fullversion", "--full-version", "-help", "--help", "-h", "-?", "-X", "--help-extra", "--list-modules") {
		return
	}
	c.interpreter()
}

// jarSpec are jar's options with which it lists an archive.
var jarSpec = mustSpec("jar | | r* | -t,--list -v,--verbose -f,--file:r --help -h --version")

// runJar judges jar: listing reads, all else makes or unpacks archives.
func runJar(c *call, _ *spec, _ parsed) {
	args := c.args
	if len(args) == 0 {
		return
	}
	if t := args[0].text; args[0].lit && in([]string{"tf", "tvf", "vtf", "ft"}, t) {
		args = append(lits("-t"), args[1:]...)
	}
	p := c.parse(jarSpec, args)
	c.byRole(jarSpec, p.operands)
	for _, w := range p.operands {
		if strings.HasPrefix(w.text, "@") {
			c.raise(Risky, "%s takes options from `%s`", c.by(), w.show())
		}
	}
	if !p.has("-t", "--help", "--version") {
		c.raise(Risky, "%s makes, changes or unpacks an archive", c.by())
	}
}
