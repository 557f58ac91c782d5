package policy

import "strings"

// toolAttrs mark the table lines of build and test tools.
var toolAttrs = []string{"build", "cmake", "meson", "mvn", "gradle", "dotnet", "swift", "zig", "mix", "targets", "ninja", "bazel", "coverage", "cargofmt"}

// toolStops are first words with which build and test tools do something else:
// download, serve, clean.
var toolStops = []string{
	"install", "uninstall", "codegen", "open", "start", "stop", "restart", "clean", "cache", "migrate",
	"clear-result-cache", "self", "self-update", "server", "show-report", "merge-reports", "init", "upgrade", "update",
	"publish", "deploy", "explain-cache", "custom",
}

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

// toolPath judges one path that a build or test tool is pointed at, as an
// operand or as an option's value.
func (c *call) toolPath(w word, operand bool) {
	t, _, _ := strings.Cut(w.text, "::")
	if operand && strings.HasPrefix(t, "@") && len(t) > 1 {
		c.raise(Risky, "%s takes options from `%s`", c.by(), w.show())
	}
	if !w.lit {
		c.toolUnknown(w, operand)
		return
	}
	if w.glob || t == "" {
		return
	}
	if in(labelTools, c.name) && strings.HasPrefix(t, "//") {
		return // a label, not a path
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

// labelTools name what they build from the workspace's root, as //dir:name.
var labelTools = []string{"bazel", "bazelisk", "buck", "buck2", "pants", "please"}

// nameTools take names of tests and packages, not paths, and find nothing
// outside their module.
func nameTools(name string) bool {
	return strings.HasPrefix(name, "go ") || strings.HasPrefix(name, "cargo ") || in(labelTools, name)
}

// toolUnknown judges a word that is only known when the tool runs: it may name
// code outside the workspace, which the tool would run or rewrite.
func (c *call) toolUnknown(w word, operand bool) {
	if !operand || nameTools(c.name) || w.num || w.psub != nil || w.out || w.flat || w.inside && !w.split {
		return
	}
	paths, _ := c.s.targets(w)
	for _, p := range paths {
		if !c.s.inWorkspace(p) {
			c.raise(Risky, "%s is given what is found below `%s`, outside the workspace", c.by(), p)
			return
		}
	}
	if len(paths) == 0 || w.split && !w.noDash {
		c.raise(Risky, "%s is given `%s`, which may lie outside the workspace", c.by(), w.show())
	}
}

// runYq judges yq's program: it may load files and read the environment.
func runYq(c *call, _ *spec, p parsed) {
	if p.has("-i") {
		for _, w := range p.operands[min(1, len(p.operands)):] {
			c.write(w)
		}
	}
	ops := p.operands
	if p.first("eval", "e", "eval-all", "ea") {
		ops = ops[1:]
	}
	for i, w := range ops {
		if t := w.script(); i == 0 && yqReaches(t) && !yqFile(t) || strings.Contains(t, "$ENV") {
			c.raise(Risky, "%s loads files, reads environment variables or runs what the data says", c.by())
			c.out.secret, c.out.from = true, c.name
			return
		}
	}
}

// yqLoads are the words with which yq's programs load files, read the environment, or
// take more of the program from the data. Brackets may be left out.
var yqLoads = strings.Fields(`load loadstr load_str strload str_load loadxml load_xml xmlload xml_load loadprops
	load_props propsload props_load loadbase64 load_base64 env strenv envsubst system eval`)

// yqReaches reports whether a program of yq uses one of them, as an operator.
func yqReaches(t string) bool {
	for _, name := range yqLoads {
		for rest := t; ; {
			i := strings.Index(rest, name)
			if i < 0 {
				break
			}
			from := i + len(name)
			before, after := i == 0 || !isWordByte(rest[i-1]) && strings.IndexByte(".\"$", rest[i-1]) < 0, from == len(rest) || !isWordByte(rest[from]) && rest[from] != ':'
			if before && after {
				return true
			}
			rest = rest[from:]
		}
	}
	return false
}

// yqFile reports whether what stands in a program's place is a file's name.
func yqFile(t string) bool {
	i := strings.LastIndexByte(t, '.')
	return i > 0 && in([]string{".yaml", ".yml", ".json", ".xml", ".toml", ".properties", ".csv"}, t[i:]) && isName(strings.NewReplacer("/", "", ".", "", "-", "").Replace(t))
}
