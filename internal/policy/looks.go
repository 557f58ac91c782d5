package policy

import (
	"slices"
	"strings"
)

// remoteLooks are the first words with which tools for machines and services
// elsewhere only look, whatever names and filters follow. "*" ends one that stands
// for all that begin so.
var remoteLooks = map[string][]string{
	"kubectl": {
		"get", "describe", "logs", "top", "explain", "diff", "events", "api-resources", "api-versions", "cluster-info", "wait", "auth can-i", "auth whoami",
		"rollout status", "rollout history", "config get-contexts", "config current-context", "config view", "config get-clusters",
	},
	"helm":      {"list", "ls", "status", "history", "get", "search", "show", "env", "repo list"},
	"terraform": {"plan", "show", "output", "state list", "state show", "providers", "graph", "workspace list", "workspace show"},
	"gh": {
		"pr view", "pr list", "pr diff", "pr checks", "pr status", "issue view", "issue list", "issue status",
		"run list", "run view", "run watch", "repo view", "repo list",
		"release list", "release view", "workflow list", "workflow view", "search", "label list", "auth status",
	},
	"aws":      {"* describe-*", "* list-*", "* get-*", "* head-*", "* filter-*", "* lookup-*", "* batch-get-*", "s3 ls", "logs tail"},
	"gcloud":   {"logging read", "* list", "* describe", "* * list", "* * describe"},
	"az":       {"* list", "* show", "* * list", "* * show"},
	"nomad":    {"* status", "status", "alloc logs"},
	"temporal": {"* list", "* describe", "* show", "* count"},
	"docker": {
		"ps", "images", "logs", "inspect", "stats", "top", "port", "diff", "events", "version", "info", "history",
		"search", "system df", "system info", "system events",
		"compose ps", "compose logs", "compose config", "compose images", "compose top", "compose ls", "container ls", "container logs", "container inspect",
		"container stats", "container top", "image ls", "image inspect", "image history", "volume ls", "volume inspect",
		"network ls", "network inspect", "context ls", "context show",
	},
}

// sameTool are tools that take the words of others.
var sameTool = map[string]string{"oc": "kubectl", "tofu": "terraform", "podman": "docker", "nerdctl": "docker"}

// looks reports whether a tool for what is elsewhere is told only to look: a word
// further on that would destroy is then a name or a filter.
func (c *call) looks() bool {
	words := make([]string, 0, 3)
	for _, w := range c.args[:min(3, len(c.args))] {
		if !w.lit || w.glob {
			break
		}
		words = append(words, w.text)
	}
	return remoteLook(c.name, words)
}

// remoteLook is looks for the words after a tool's name.
func remoteLook(name string, words []string) bool {
	if same, ok := sameTool[name]; ok {
		name = same
	}
	return slices.ContainsFunc(remoteLooks[name], func(form string) bool { return beginsAs(words, strings.Fields(form)) })
}

func beginsAs(words, form []string) bool {
	if len(words) < len(form) {
		return false
	}
	for i, want := range form {
		begin, any := strings.CutSuffix(want, "*")
		if w := words[i]; strings.HasPrefix(w, "-") || w != want && !(any && strings.HasPrefix(w, begin)) {
			return false
		}
	}
	return true
}

// lookOptions choose what a look at clusters or containers shows, and read no file.
var lookOptions = []string{
	"-n", "--namespace", "-A", "--all-namespaces", "-o", "--output", "-l", "--selector", "--field-selector",
	"--sort-by", "--context", "-c", "--container", "--containers", "-p", "--previous",
	"--since", "--since-time", "--until", "--tail", "--timestamps", "-t", "-f", "--follow", "-w", "--watch",
	"--no-headers", "--show-labels", "-a", "--all", "-q", "--quiet", "--format", "--filter", "--no-stream",
	"--no-trunc",
}

// plainLook reports whether words are a look at clusters or containers that reads no
// file of the workspace.
func plainLook(words []string) bool {
	if !in([]string{"kubectl", "oc", "docker", "podman", "nerdctl"}, words[0]) || !remoteLook(words[0], words[1:]) || in([]string{"compose", "diff"}, words[1]) {
		return false
	}
	return !slices.ContainsFunc(words[2:], func(w string) bool {
		name, val, _ := strings.Cut(w, "=")
		return strings.HasPrefix(w, "-") && !in(lookOptions, name) || strings.Contains(val, "file") || strings.HasPrefix(w, "custom-columns-file") || strings.Contains(w, "template-file") ||
			words[1] != "logs" && name == "-f" && words[0] != "docker"
	})
}

// sendsSecrets judges what the command's words carry to the other side.
func (c *call) sendsSecrets() {
	for _, w := range c.args {
		if w.flow.secret {
			c.raise(Critical, "%s sends out what `%s` read, which may hold credentials", c.by(), w.flow.from)
		}
	}
}

// onlyLooks judges a command that is given in a form of [lookTable], and reports
// whether it is.
func (c *call) onlyLooks() bool {
	sp := c.s.j.p.tables.looks[strings.ReplaceAll(c.name, " ", "-")]
	if sp == nil || c.byPath {
		return false
	}
	try := *c // whose reasons do not count
	try.s = c.s.child()
	try.s.j = c.s.j.sub()
	p := try.parse(sp, c.args)
	try.byRole(sp, p.operands)
	try.localOperands(sp, p)
	if p.bad || try.s.j.tier >= Risky || !isForm(sp, p) {
		return false
	}
	c.out = flow{}
	c.byRole(sp, c.parse(sp, c.args).operands)
	c.localOperands(sp, p)
	c.out = flow{secret: c.out.secret, net: c.out.net, from: c.out.from}
	if len(p.operands) > 0 {
		c.sub = p.operands[0].text
	}
	switch {
	case sp.attr("HELD"):
		c.raise(Risky, "%s looks at the machine's disks, accounts or planned commands", c.by())
	case sp.attr("BUILD"):
		c.build()
	}
	return true
}

// isForm reports whether a command line is one of the forms that its line of
// [lookTable] names.
func isForm(sp *spec, p parsed) bool {
	var words []string
	for i, w := range p.operands {
		if i < 2 && w.lit && !w.glob {
			words = append(words, w.text)
		}
		if strings.HasPrefix(w.text, "@") || strings.HasPrefix(w.pat, "@") {
			return false // such a file holds options
		}
		if sp.star < 0 && (!w.lit || w.glob) {
			return false // it may be more words than one
		}
	}
	given := slices.ContainsFunc(p.hits, func(h hit) bool { return slices.ContainsFunc(h.names, sp.attr) })
	switch {
	case sp.attr("ANY"), given, len(p.operands) == 0 && sp.attr("-"):
		return true
	case len(words) == 0 || strings.HasPrefix(words[0], "-"):
		return false
	case sp.attr("SHOW") && words[0] == "show":
		return showsNamed(p.values("-p"))
	case sp.attr(words[0]), len(p.operands) == 1 && sp.attr(words[0]+"/"):
		return true
	}
	return len(words) == 2 && sp.attr(words[0]+"/"+words[1])
}

// showsNamed reports whether properties are named, and none of them holds an
// environment.
func showsNamed(names []word) bool {
	return len(names) > 0 && !slices.ContainsFunc(names, func(w word) bool {
		return !w.lit || w.glob || strings.Trim(w.text, ",") == "" || strings.ContainsAny(w.text, "*?[") || strings.Contains(strings.ToLower(w.text), "environ")
	})
}

// localOperands judges what a tool builds from: files of the workspace, and none that
// it would fetch.
func (c *call) localOperands(sp *spec, p parsed) {
	if !sp.attr("BUILD") {
		return
	}
	for _, h := range p.hits {
		if h.val != nil && strings.Contains(h.val.script(), "://") {
			c.raise(Risky, "%s talks to another machine", c.by())
		}
	}
	chart, dir := sp.attr("CHART"), sp.attr("DIR")
	for i, w := range p.operands {
		if i == 0 && !sp.attr("ANY") || chart && i < len(p.operands)-1 {
			continue // its subcommand, or a name
		}
		if strings.Contains(w.script(), "://") || (chart || dir) && !c.localDir(w, dir) {
			c.raise(Risky, "%s may fetch `%s` from another machine", c.by(), w.show())
		}
		c.toolPath(w, true)
	}
	if chart && len(p.operands) < 2 {
		c.raise(Risky, "%s is given no chart", c.by())
	}
}

// localDir reports whether a word can only be a directory here. loose takes a relative
// path without being told that it exists, for tools that know others by a host's name.
func (c *call) localDir(w word, loose bool) bool {
	if !w.lit || w.glob || w.text == "" || strings.ContainsAny(w.text, ":?@") {
		return false
	}
	first, _, _ := strings.Cut(w.text, "/")
	if in([]string{"", ".", ".."}, first) {
		return true
	}
	for _, p := range c.s.resolve(w.text) {
		c.s.touch(p)
		if !c.s.j.facts.Files[p].IsDir {
			return loose && !strings.Contains(first, ".") && !strings.Contains(w.text, "//")
		}
	}
	return true
}

// hostLooks are the first words with which commands that set up the machine only
// show it; "" is without any.
var hostLooks = map[string][]string{
	"ldconfig": {"-p", "--print-cache", "-V", "--version"}, "update-alternatives": {"--list", "--display", "--get-selections"},
	"timedatectl": {"", "status", "show", "list-timezones"}, "hostnamectl": {"", "status"},
}

// showsHost reports whether such a command only shows.
func (c *call) showsHost() bool {
	looks := hostLooks[c.name]
	if len(c.args) == 0 {
		return in(looks, "")
	}
	if !c.args[0].lit || c.args[0].text == "" || !in(looks, c.args[0].text) {
		return false
	}
	return len(c.args) == 1 || c.name == "update-alternatives" && len(c.args) == 2 && !c.args[1].mayBeOption()
}

// ruleLists are the options with which tools for filters and queues only list what is
// set, each with the words that may go with them; "*" stands for a name.
var ruleLists = map[string]struct{ must, may []string }{
	"iptables":     {[]string{"-L", "-S", "--list", "--list-rules"}, []string{"-n", "-v", "-nv", "-vn", "-x", "-t", "--line-numbers", "*"}},
	"nft":          {[]string{"list"}, []string{"-a", "-n", "-j", "ruleset", "tables", "chains", "sets", "table", "chain", "set", "*"}},
	"ufw":          {[]string{"status"}, []string{"verbose", "numbered"}},
	"firewall-cmd": {[]string{"--list-all", "--list-ports", "--list-services", "--state", "--get-active-zones", "--list-all-zones"}, nil},
	"tc":           {[]string{"show", "ls", "list"}, []string{"-s", "-d", "qdisc", "class", "filter", "dev", "*"}},
}

// listsRules reports whether such a tool only lists.
func (c *call) listsRules() bool {
	name := c.name
	if name == "ip6tables" {
		name = "iptables"
	}
	form, ok := ruleLists[name]
	lists := false
	for _, w := range c.args {
		switch {
		case !w.lit || w.glob:
			return false
		case in(form.must, w.text):
			lists = true
		case in(form.may, w.text):
		case !in(form.may, "*") || !lists && name == "nft" || strings.Trim(w.text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" || in(ruleChanges, w.text):
			return false
		}
	}
	return ok && lists
}

// ruleChanges are words that change what is set.
var ruleChanges = []string{"add", "del", "delete", "change", "replace", "flush", "insert", "create", "destroy", "reset", "rename", "link", "import"}
