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
