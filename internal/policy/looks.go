package policy

import "strings"

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
		"pr view", "pr list", "pr diff", "pr checks", "pr status", "issue view", "issue list", "issue status", "run list", "run view", "run watch", "repo view", "repo list",
		"release list", "release view", "workflow list", "workflow view", "search", "label list", "auth status",
	},
	"aws":      {"* describe-*", "* list-*", "* get-*", "* head-*", "* filter-*", "* lookup-*", "* batch-get-*", "s3 ls", "logs tail"},
	"gcloud":   {"logging read", "* list", "* describe", "* * list", "* * describe"},
	"az":       {"* list", "* show", "* * list", "* * show"},
	"nomad":    {"* status", "status", "alloc logs"},
	"temporal": {"* list", "* describe", "* show", "* count"},
	"docker": {
		"ps", "images", "logs", "inspect", "stats", "top", "port", "diff", "events", "version", "info", "history", "search", "system df", "system info", "system events",
		"compose ps", "compose logs", "compose config", "compose images", "compose top", "compose ls", "container ls", "container logs", "container inspect",
		"container stats", "container top", "image ls", "image inspect", "image history", "volume ls", "volume inspect", "network ls", "network inspect", "context ls", "context show",
	},
}

// sameTool are tools that take the words of others.
var sameTool = map[string]string{"oc": "kubectl", "tofu": "terraform", "podman": "docker", "nerdctl": "docker"}

// looks reports whether a tool for what is elsewhere is told only to look: a word
// further on that would destroy is then a name or a filter.
func (c *call) looks() bool {
	name := c.name
	if same, ok := sameTool[name]; ok {
		name = same
	}
	for _, form := range remoteLooks[name] {
		if c.begins(strings.Fields(form)) {
			return true
		}
	}
	return false
}

// begins reports whether the arguments begin with these words.
func (c *call) begins(words []string) bool {
	if len(c.args) < len(words) {
		return false
	}
	for i, want := range words {
		w := c.args[i]
		if !w.lit || w.glob || strings.HasPrefix(w.text, "-") {
			return false
		}
		if begin, ok := strings.CutSuffix(want, "*"); ok && strings.HasPrefix(w.text, begin) || w.text == want {
			continue
		}
		return false
	}
	return true
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
