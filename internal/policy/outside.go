package policy

import "strings"

// toolAttrs mark the table lines of build and test tools.
var toolAttrs = []string{"build", "cmake", "meson", "mvn", "gradle", "dotnet", "swift", "zig", "mix", "targets", "ninja", "bazel", "coverage", "cargofmt"}

// toolStops are first words with which build and test tools do something else:
// download, serve, clean.
var toolStops = []string{"install", "uninstall", "codegen", "open", "start", "stop", "restart", "clean", "cache", "migrate", "clear-result-cache", "self", "self-update", "server", "show-report", "merge-reports", "init", "upgrade", "update", "publish", "deploy", "explain-cache"}

// toolPaths judges what a build or test tool is pointed at: code outside the
// workspace is others' code, and a protected file may be rewritten.
func (c *call) toolPaths(sp *spec, p parsed) {
	tool := false
	for _, a := range toolAttrs {
		tool = tool || sp.attr(a)
	}
	if !tool {
		return
	}
	for i, w := range p.operands {
		if i == 0 && w.is(toolStops...) && sp.attr("build") && !strings.HasPrefix(c.name, "go ") && (!strings.HasPrefix(c.name, "cargo ") || c.name == "cargo nextest") {
			c.raise(Risky, "%s %s does more than build or test", c.by(), w.text)
		}
		c.toolPath(w, true)
	}
	for _, h := range p.hits {
		if h.val != nil && h.role != roleWrite {
			c.toolPath(*h.val, false)
		}
	}
}

func (c *call) toolPath(w word, operand bool) {
	t, _, _ := strings.Cut(w.text, "::")
	if operand && strings.HasPrefix(t, "@") && len(t) > 1 {
		c.raise(Risky, "%s takes options from `%s`", c.by(), w.show())
	}
	if !w.lit || w.glob || t == "" {
		return
	}
	far := strings.HasPrefix(t, "/") && !strings.HasPrefix(t, "//")
	for _, part := range strings.Split(t, "/") {
		far = far || part == ".."
	}
	if !far && !operand {
		return
	}
	for _, p := range c.s.resolve(strings.TrimSuffix(t, "...")) {
		switch pl := c.s.placeOf(p); {
		case pl == placeProtected && operand:
			c.raise(Risky, "%s is given `%s`, which is protected", c.by(), c.s.rel(p))
		case pl != placeWorkspace && pl != placeRoot && pl != placeProtected && pl != placeNull && pl != placeScratch:
			c.raise(Risky, "%s is given `%s`, outside the workspace", c.by(), p)
		}
	}
}

// runYq judges yq's program: it may load files and read the environment.
func runYq(c *call, _ *spec, p parsed) {
	for _, w := range p.operands {
		t := w.script()
		for _, f := range []string{"load", "load_str", "load_xml", "load_props", "load_base64", "env", "strenv", "envsubst", "system"} {
			if identifier(t, f) && strings.Contains(t, f+"(") || f == "envsubst" && identifier(t, f) || strings.Contains(t, "$ENV") {
				c.raise(Risky, "%s loads files or reads environment variables", c.by())
				c.out.secret, c.out.from = true, c.name
				return
			}
		}
	}
}
