package policy

import (
	"path"
	"strings"
)

// runCurl judges curl: what it fetches, where it puts it, what it sends.
func runCurl(c *call, _ *spec, _ parsed) {
	if len(c.args) == 1 && c.args[0].is("--version", "-V", "--help", "-h", "--manual") {
		return
	}
	c.raise(Risky, "%s talks to another machine", c.by())
	outs, send := []word{}, false
	p := c.parse(curlSpec, c.args)
	remoteName := p.has("-O") || p.has("--remote-name-all")
	for _, h := range p.hits {
		switch h.key() {
		case "-o":
			outs = append(outs, *h.val)
			c.write(*h.val)
		case "-d", "-F", "-T", "--data-binary", "--data-raw", "--data-urlencode", "--json", "-H", "-u", "-b", "--url-query":
			send = true
			c.uploads(h.key(), *h.val)
		case "-X":
			if h.val.is("DELETE", "delete") {
				c.raise(Critical, "%s deletes on another machine", c.by())
			}
		case "--unix-socket", "--abstract-unix-socket":
			c.socket(*h.val)
		case "-x", "--preproxy":
			c.raise(Risky, "%s goes through the proxy `%s`", c.by(), h.val.show())
		}
	}
	if send || p.bad {
		c.sendsIn()
	}
	for _, u := range append(p.operands, p.values("--url")...) {
		c.host(u)
		if remoteName && u.lit {
			outs = append(outs, lit(path.Base(strings.SplitN(u.text, "?", 2)[0])))
		}
	}
	if p.bad {
		c.anyHost()
	}
	for _, o := range outs {
		c.download(o)
	}
	c.out = flow{net: true, from: c.name}
	if len(outs) > 0 && !remoteName {
		c.out = flow{net: true, from: c.name}
	}
}

// anyHost looks for hosts in every word, when the options are not understood.
func (c *call) anyHost() {
	for _, w := range c.args {
		t := w.text
		if _, v, ok := strings.Cut(t, "="); ok && strings.HasPrefix(t, "-") {
			t = v
		}
		if metadataHost(hostOf(t)) {
			c.raise(Critical, "%s asks the cloud's metadata service, which gives out credentials", c.by())
		}
		if w.flow.secret {
			c.raise(Critical, "%s sends out what `%s` read, which may hold credentials", c.by(), w.flow.from)
		}
	}
}

// download remembers that a file was downloaded.
func (c *call) download(w word) {
	if !w.lit {
		return
	}
	for _, p := range c.s.resolve(w.text) {
		c.s.setFile(p, flow{net: true, from: c.name}, false)
	}
}

var curlSpec = mustSpec("curl | full | v* | -s,--silent -S,--show-error -L,--location --location-trusted -f,--fail --fail-with-body --fail-early -k,--insecure -i,--include,--show-headers -I,--head -v,--verbose -N,--no-buffer -g,--globoff -G,--get -q,--disable -#,--progress-bar --no-progress-meter -4,--ipv4 -6,--ipv6 -0,--http1.0 --http1.1 --http2 --http3 --compressed --tlsv1.2 --tlsv1.3 -j,--junk-session-cookies -n,--netrc --create-dirs -J,--remote-header-name -O,--remote-name --remote-name-all -R,--remote-time -a,--append -l,--list-only -Z,--parallel --no-keepalive --retry-connrefused --retry-all-errors -o,--output: --output-dir: -d,--data,--data-ascii: --data-binary: --data-raw: --data-urlencode: --json: --url-query: -F,--form,--form-string: -T,--upload-file: -X,--request: -H,--header: -u,--user: -b,--cookie: -c,--cookie-jar:w -A,--user-agent: -e,--referer: -m,--max-time: --connect-timeout: --retry: --retry-delay: --retry-max-time: -r,--range: -C,--continue-at: -w,--write-out: -x,--proxy: --preproxy: --resolve: --connect-to: --interface: --limit-rate: --max-redirs: --max-filesize: --url: --unix-socket: --abstract-unix-socket: -D,--dump-header:w --trace:w --trace-ascii:w --stderr:w -K,--config:! --cacert:r --cert: -E: --key: --doh-url: --oauth2-bearer: --aws-sigv4: -t,--telnet-option: -Q,--quote:! -y,--speed-time: -Y,--speed-limit: -z,--time-cond: -Z --proto: --proto-default: --proto-redir: --noproxy: -h,--help? --netrc-file:r --engine:! --libcurl:w --hsts:w --alt-svc:w --etag-save:w --etag-compare:r --ciphers: --ssl-reqd --anyauth --basic --digest --negotiate --ntlm -M,--manual --raw --tr-encoding --path-as-is --variable: --expand-url: --expand-data: --rate: --no-clobber --remove-on-error --skip-existing")

// uploads judges one thing that curl sends.
func (c *call) uploads(opt string, w word) {
	if w.flow.secret {
		c.raise(Critical, "%s sends out what `%s` read, which may hold credentials", c.by(), w.flow.from)
	}
	t := w.text
	file := ""
	switch opt {
	case "-T":
		file = t
	case "-d", "--data-binary", "--json", "--data-urlencode", "--url-query", "-H", "-b":
		if i := strings.IndexByte(t, '@'); i == 0 || (i > 0 && (opt == "--data-urlencode" || opt == "--url-query")) {
			file = t[i+1:]
		}
	case "-F":
		if _, v, ok := strings.Cut(t, "="); ok && (strings.HasPrefix(v, "@") || strings.HasPrefix(v, "<")) {
			file, _, _ = strings.Cut(v[1:], ";")
		}
	}
	if file == "" {
		return
	}
	if file == "-" || file == "." {
		c.sendsIn()
		return
	}
	v := w
	v.text = file
	if f := c.read(v, true); f.secret {
		c.raise(Critical, "%s sends out `%s`, which may hold credentials", c.by(), clip(file, 60))
	}
}

// socket judges talking to a local socket: a container engine's is the host.
func (c *call) socket(w word) {
	if strings.Contains(w.text, "docker") || strings.Contains(w.text, "containerd") || strings.Contains(w.text, "podman") || strings.Contains(w.text, "crio") {
		c.raise(Forbidden, "%s talks to the container engine, which controls the host", c.by())
		return
	}
	c.raise(Risky, "%s talks to the socket `%s`", c.by(), w.show())
}

// runWget judges wget and its like.
func runWget(c *call, _ *spec, _ parsed) {
	if len(c.args) == 1 && c.args[0].is("--version", "-V", "--help", "-h") {
		return
	}
	c.raise(Risky, "%s talks to another machine", c.by())
	stdout, named, method := false, false, ""
	var urls []word
	for i := 0; i < len(c.args); i++ {
		w := c.args[i]
		t := w.text
		next := func() word {
			if i+1 < len(c.args) {
				i++
				return c.args[i]
			}
			return lit("")
		}
		name, val, attached := strings.Cut(t, "=")
		switch {
		case w.flow.secret:
			c.raise(Critical, "%s sends out what `%s` read, which may hold credentials", c.by(), w.flow.from)
		case strings.HasPrefix(t, "-") && !strings.HasPrefix(t, "--") && strings.HasSuffix(t, "O") && len(t) < 8:
			named = true
			if v := next(); v.is("-") {
				stdout = true
			} else {
				c.write(v)
				c.download(v)
			}
		case strings.HasPrefix(t, "-O") && len(t) > 2:
			named = true
			if stdout = t == "-O-"; !stdout {
				c.write(lit(t[2:]))
				c.download(lit(t[2:]))
			}
		case strings.HasPrefix("--output-document", name) && len(name) > 8:
			named = true
			v := lit(val)
			if !attached {
				v = next()
			}
			if stdout = v.is("-"); !stdout {
				c.write(v)
				c.download(v)
			}
		case strings.HasPrefix(name, "--post-file"), strings.HasPrefix(name, "--body-file"):
			v := lit(val)
			if !attached {
				v = next()
			}
			if f := c.read(v, false); f.secret {
				c.raise(Critical, "%s sends out `%s`, which may hold credentials", c.by(), v.show())
			}
			if v.is("-", "/dev/stdin") {
				c.sendsIn()
			}
		case strings.HasPrefix(name, "--use-askpass"), name == "--config", strings.HasPrefix(name, "--pre"), name == "--execute", t == "-e", strings.HasPrefix(name, "--on-download"):
			if !attached {
				val = next().script()
			}
			c.raise(Risky, "%s runs or reads settings given by `%s`", c.by(), clip(name, 40))
			c.s.worst(val, c.by())
		case name == "-P", name == "--directory-prefix", name == "-o", name == "--output-file", name == "-a", name == "-d", name == "--dir":
			if v := lit(val); attached {
				c.write(v)
			} else {
				c.write(next())
			}
		case strings.HasPrefix(t, "-"):
			if strings.EqualFold(val, "delete") {
				method = "DELETE"
			}
		case w.is("DELETE"):
			method = "DELETE"
		default:
			c.host(w)
			urls = append(urls, w)
		}
	}
	if method == "DELETE" {
		c.raise(Critical, "%s deletes on another machine", c.by())
	}
	c.sendsIn()
	if !named && c.name != "http" && c.name != "https" {
		for _, u := range urls {
			if u.lit {
				n := lit(path.Base(strings.SplitN(u.text, "?", 2)[0]))
				c.write(n)
				c.download(n)
			}
		}
	}
	c.out = flow{net: true, from: c.name}
}

// runNc judges raw connections.
func runNc(c *call, _ *spec, _ parsed) {
	c.raise(Risky, "%s opens a connection", c.by())
	c.sendsIn()
	for i, w := range c.args {
		t := w.script()
		up := strings.ToUpper(t)
		switch {
		case w.flow.secret:
			c.raise(Critical, "%s sends out what `%s` read, which may hold credentials", c.by(), w.flow.from)
		case c.name != "socat" && w.lit && len(t) > 1 && t[0] == '-' && t[1] != '-' && strings.ContainsAny(t[1:], "ec"):
			c.raise(Critical, "%s joins a connection to a command", c.by())
		case c.name != "socat" && (strings.HasPrefix(t, "--e") || strings.HasPrefix(t, "--sh") || strings.HasPrefix(t, "--lua")):
			c.raise(Critical, "%s joins a connection to a command", c.by())
		case strings.HasPrefix(up, "EXEC:"), strings.HasPrefix(up, "SYSTEM:"), strings.HasPrefix(up, "SHELL:"):
			c.raise(Critical, "%s joins a connection to a command", c.by())
			c.s.worst(t[strings.IndexByte(t, ':')+1:], c.by())
		case strings.Contains(up, "DOCKER.SOCK"):
			c.socket(w)
		case c.name == "socat" && (strings.HasPrefix(up, "FILE:") || strings.HasPrefix(up, "OPEN:") || strings.HasPrefix(up, "GOPEN:")):
			f, _, _ := strings.Cut(t[strings.IndexByte(t, ':')+1:], ",")
			if r := c.read(lit(f), false); r.secret {
				c.raise(Critical, "%s sends out `%s`, which may hold credentials", c.by(), clip(f, 60))
			}
		case w.lit && (i == 0 || !strings.HasPrefix(t, "-")):
			h := t
			if c.name == "socat" {
				if parts := strings.Split(t, ":"); len(parts) > 1 {
					h = parts[1]
				}
			}
			c.host(lit(h))
		}
	}
	c.out = flow{net: true, from: c.name}
}

// runCopyOut judges copying between machines.
func runCopyOut(c *call, _ *spec, _ parsed) {
	c.raise(Risky, "%s copies between machines or directories", c.by())
	remoteDst := false
	var ops []word
	for i := 0; i < len(c.args); i++ {
		w := c.args[i]
		t := w.script()
		switch {
		case w.is("-e", "--rsh", "-S", "--rsync-path", "-o") && i+1 < len(c.args):
			i++
			v := c.args[i].script()
			if _, cmd, ok := strings.Cut(v, "="); ok && w.is("-o") {
				v = cmd
			}
			c.s.worst(v, c.by())
		case strings.HasPrefix(t, "-e") && len(t) > 2:
			c.s.worst(t[2:], c.by())
		case strings.HasPrefix(t, "--rsh="), strings.HasPrefix(t, "--rsync-path="), strings.HasPrefix(t, "-o"):
			if _, v, ok := strings.Cut(t, "="); ok {
				c.s.worst(v, c.by())
			}
		case strings.HasPrefix(t, "--del"), strings.HasPrefix(t, "--remove-source"), w.is("delete", "purge", "deletefile", "sync", "cleanup", "rmdirs") && c.name == "rclone":
			c.raise(Critical, "%s deletes what it does not find on the other side", c.by())
		case strings.HasPrefix(t, "-"):
		default:
			ops = append(ops, w)
		}
	}
	for i, w := range ops {
		colon := strings.Index(w.text, ":")
		remote := colon > 0 && !strings.Contains(w.text[:colon], "/")
		if remote {
			c.host(w)
			remoteDst = remoteDst || i == len(ops)-1
		}
	}
	c.sendsIn()
	for i, w := range ops {
		if i == len(ops)-1 && len(ops) > 1 {
			if !remoteDst {
				c.write(w)
			}
			break
		}
		if f := c.read(w, true); f.secret {
			if remoteDst || c.name == "rclone" || c.name == "sftp" || c.name == "ftp" {
				c.raise(Critical, "%s sends out `%s`, which may hold credentials", c.by(), w.show())
			}
		}
	}
	c.out = flow{net: true, from: c.name}
}

func runMessage(c *call, _ *spec, _ parsed) {
	c.raise(Risky, "%s sends a message out", c.by())
	c.sendsIn()
	for _, w := range c.args {
		if w.flow.secret {
			c.raise(Critical, "%s sends out what `%s` read, which may hold credentials", c.by(), w.flow.from)
		}
		if w.lit && !strings.HasPrefix(w.text, "-") {
			if f := c.read(w, false); f.secret {
				c.raise(Critical, "%s sends out `%s`, which may hold credentials", c.by(), w.show())
			}
		}
	}
}

func runKeys(c *call, _ *spec, _ parsed) {
	if len(c.args) == 1 && c.args[0].is("--version") {
		return
	}
	c.raise(Risky, "%s reads or changes credentials", c.by())
	c.out = flow{secret: true, from: c.name}
	c.destructive()
}

// destroyWords are commands of remote tools that cannot be undone.
var destroyWords = []string{
	"delete", "destroy", "rm", "rb", "remove", "purge", "prune", "drain", "uninstall", "terminate", "drop", "wipe", "flushall", "flushdb", "nuke", "reset", "undeploy", "deprovision", "unpublish", "revoke", "deregister", "force-delete", "rmi", "down", "kill", "del", "unregister", "decommission", "evict", "cordon", "rollback", "force-unlock", "apply", "deploy", "publish", "terminate-instances",
}

// destructive raises when a word of a remote tool's command line destroys.
func (c *call) destructive() {
	for _, w := range c.args {
		if !w.lit {
			continue
		}
		t := strings.ToLower(w.text)
		if w.flow.secret {
			c.raise(Critical, "%s sends out what `%s` read, which may hold credentials", c.by(), w.flow.from)
		}
		word, _, _ := strings.Cut(strings.TrimLeft(t, "-"), "=")
		for _, d := range destroyWords {
			if t == d || strings.HasPrefix(t, d+"-") || (strings.HasPrefix(t, "--") && word == d && d != "apply" && d != "reset" && d != "deploy") || strings.HasSuffix(t, ":"+d) {
				c.raise(Critical, "%s %s may destroy what cannot be brought back", c.by(), clip(w.text, 40))
				return
			}
		}
	}
}

// runRemote judges tools that manage machines and services elsewhere.
func runRemote(c *call, _ *spec, _ parsed) {
	if len(c.args) == 1 && c.args[0].is("--version", "--help", "-h", "version", "help", "-v") || len(c.args) == 2 && c.args[0].is("version") && c.args[1].is("--client") {
		return
	}
	if len(c.args) > 0 && c.args[0].is("fmt") && in([]string{"terraform", "tofu"}, c.name) {
		c.formatted()
		return
	}
	c.raise(Risky, "%s acts on machines or services elsewhere", c.by())
	if len(c.args) > 0 {
		c.sub = c.args[0].text
	}
	c.destructive()
	c.sendsIn()
	for i, w := range c.args {
		if w.is("scale") && c.argHas("--replicas=0") {
			c.raise(Critical, "%s stops what runs elsewhere", c.by())
		}
		if w.is("--") && i+1 < len(c.args) {
			c.s.run(c.args[i+1:], c.in, runOpts{noFuncs: true, noShell: true})
			return
		}
		if w.lit && (strings.HasPrefix(w.text, "file://") || strings.HasPrefix(w.text, "fileb://")) {
			if f := c.read(lit(w.text[strings.Index(w.text, "://")+3:]), false); f.secret {
				c.raise(Critical, "%s sends out `%s`, which may hold credentials", c.by(), w.show())
			}
		}
		if w.is("cp", "mv", "sync", "put", "upload") && i+1 < len(c.args) {
			if f := c.read(c.args[i+1], true); f.secret {
				c.raise(Critical, "%s sends out `%s`, which may hold credentials", c.by(), c.args[i+1].show())
			}
		}
		if strings.Contains(w.text, "privileged") && strings.Contains(w.text, "true") || strings.Contains(w.text, "hostPID") || strings.Contains(w.text, "hostPath") {
			c.raise(Forbidden, "%s starts a container that controls the host", c.by())
		}
		if strings.Contains(w.script(), "169.254.169.254") {
			c.raise(Critical, "%s asks the cloud's metadata service, which gives out credentials", c.by())
		}
	}
	c.suspicious(append(lits(c.name), c.args...))
	c.out = flow{net: true, from: c.name}
}

// formatted judges terraform fmt, which only rewrites the files it is given.
func (c *call) formatted() {
	p := c.parse(terraformFmt, c.args[1:])
	if p.has("-check", "-diff") {
		return
	}
	if len(p.operands) == 0 {
		c.write(lit("."))
	}
	for _, w := range p.operands {
		c.write(w)
	}
}

var terraformFmt = mustSpec("terraform-fmt | single | v* | -check -diff -list: -write: -recursive -no-color")

func (c *call) argHas(names ...string) bool {
	for _, w := range c.args {
		if w.is(names...) {
			return true
		}
	}
	return false
}

func runDatabase(c *call, _ *spec, _ parsed) {
	if len(c.args) == 1 && c.args[0].is("--version", "-V", "--help") {
		return
	}
	c.raise(Risky, "%s runs statements on a database", c.by())
	if in([]string{"dropdb", "dropuser"}, c.name) {
		c.raise(Critical, "%s destroys data", c.by())
	}
	for _, w := range c.args {
		c.sqlText(w.script())
	}
	c.sqlText(c.in.text)
	c.destructive()
	c.sendsIn()
	c.out = flow{net: true, from: c.name}
}

// runDocker judges container engines: some options hand over the host.
func runDocker(c *call, _ *spec, _ parsed) {
	if len(c.args) == 1 && c.args[0].is("--version", "-v", "--help") {
		return
	}
	c.raise(Risky, "%s controls containers outside this one", c.by())
	for i, w := range c.args {
		t := w.script()
		next := ""
		if i+1 < len(c.args) {
			next = c.args[i+1].script()
		}
		name, val, attached := strings.Cut(t, "=")
		if !attached {
			val = next
		}
		switch {
		case name == "--privileged" && (!attached || val != "false"), t == "--cap-add=ALL", name == "--cap-add" && (strings.Contains(strings.ToUpper(val), "ALL") || strings.Contains(strings.ToUpper(val), "SYS_") || strings.Contains(strings.ToUpper(val), "DAC_")),
			in([]string{"--pid", "--ipc", "--uts", "--userns", "--net", "--network", "--cgroupns"}, name) && val == "host",
			name == "--device", name == "--security-opt" && (strings.Contains(val, "unconfined") || strings.Contains(val, "disable")):
			c.raise(Forbidden, "%s starts a container that controls the host: `%s`", c.by(), clip(t, 40))
		case name == "-v" || name == "--volume" || name == "--mount" || (strings.HasPrefix(t, "-v") && len(t) > 2 && t[2] != 'e'):
			if strings.HasPrefix(t, "-v") && len(t) > 2 {
				val = t[2:]
			}
			c.dockerMount(strings.TrimPrefix(val, "="))
		case name == "-H" || name == "--host" || name == "--context" || name == "-c":
			c.raise(Risky, "%s acts on the engine at `%s`", c.by(), clip(val, 60))
		}
	}
	c.dockerCommand()
}

// dockerMount judges a directory of the host that a container sees.
func (c *call) dockerMount(v string) {
	src := v
	for _, part := range strings.Split(v, ",") {
		if k, val, ok := strings.Cut(part, "="); ok && (k == "source" || k == "src") {
			src = val
		}
	}
	src, _, _ = strings.Cut(src, ":")
	if strings.HasSuffix(src, ".sock") {
		c.raise(Forbidden, "%s gives a container the engine's socket", c.by())
		return
	}
	for _, p := range c.s.resolve(src) {
		if !strings.HasPrefix(src, "/") && !strings.HasPrefix(src, ".") && !strings.HasPrefix(src, "~") {
			return // a named volume
		}
		switch c.s.placeOf(p) {
		case placeSystemTop, placeSystem, placeKernel, placeDevice:
			c.raise(Forbidden, "%s gives a container the host's `%s`", c.by(), p)
		case placeAbove, placeHome, placeKeys:
			c.raise(Critical, "%s gives a container `%s`", c.by(), p)
		}
	}
}

func (c *call) dockerCommand() {
	for i, w := range c.args {
		switch {
		case w.is("prune", "rm", "rmi", "kill", "down", "stop", "swarm", "remove"):
			c.raise(Critical, "%s %s ends or deletes what may be in use", c.by(), w.text)
		case w.is("push", "login", "logout", "save", "export"):
			c.raise(Risky, "%s %s sends images or credentials out", c.by(), w.text)
		case w.is("run", "exec", "create", "start", "build", "buildx", "up"):
			// What runs in the container is judged for its worst.
			c.suspicious(c.args[i:])
			return
		}
	}
}

// runSystem judges the system's package managers.
func runSystem(c *call, _ *spec, _ parsed) {
	if len(c.args) == 0 || c.args[0].is("--version", "--help", "-h") {
		return
	}
	for _, w := range c.args {
		if w.is("install", "add", "upgrade", "update", "dist-upgrade", "full-upgrade", "reinstall", "-S", "-Sy", "-Syu", "-i") {
			c.s.j.install = true
		}
	}
	for i, w := range c.args {
		if strings.HasPrefix(w.text, "-o") || (i > 0 && c.args[i-1].is("-o")) {
			if _, v, ok := strings.Cut(w.script(), "="); ok {
				c.s.worst(strings.Trim(v, "\"'"), c.by())
			}
		}
	}
	if c.args[0].is("list", "search", "show", "info", "policy", "depends", "rdepends", "madison", "-l", "-L", "-s", "-S", "--list", "--listfiles", "--search", "--print-architecture", "-p") && in([]string{"apt", "dpkg", "apt-cache", "brew"}, c.name) && c.name != "brew" {
		return
	}
	c.raise(Risky, "%s changes the system's programs", c.by())
}

// runPackages judges language package managers.
func runPackages(c *call, _ *spec, _ parsed) {
	if len(c.args) == 0 {
		return
	}
	first := c.args[0]
	c.sub = first.text
	switch {
	case first.is("--version", "-V", "--help", "-v") && len(c.args) == 1:
		return
	case strings.HasPrefix(c.name, "pip") && first.is("list", "show", "freeze", "check", "inspect") && c.name != "pipx":
		for _, w := range c.args[1:] {
			if w.lit && strings.HasPrefix(w.text, "-") && !w.is("-v", "-q", "--format=json", "--format", "-l", "--local", "--user", "-f", "--files", "--not-required", "--outdated", "-o", "--exclude-editable", "--all") {
				c.badOption(&parsed{}, w.text)
			}
			if w.is("--outdated", "-o") {
				c.raise(Risky, "%s asks the registry", c.by())
			}
		}
		return
	case (c.name == "bundle" || c.name == "bundler") && first.is("exec") && len(c.args) > 1:
		c.silent = true
		c.inner(c.args[1:])
		return
	case (c.name == "bundle" || c.name == "gem") && first.is("list", "show", "info", "check", "env", "environment"):
		return
	case first.is("publish", "upload", "push", "yank", "owner", "trunk"):
		c.raise(Critical, "%s %s changes what others install", c.by(), first.text)
		return
	}
	if first.is("install", "add", "update", "upgrade", "sync", "i", "download", "wheel", "restore") || c.name == "pipx" || c.name == "uvx" || c.name == "bundle" || c.name == "cpanm" || c.name == "cpan" {
		c.s.j.install = true
	}
	c.raise(Risky, "%s downloads packages and runs what they say at installation", c.by())
	c.suspicious(append(lits(c.name), c.args...))
	if c.in.net {
		c.raise(Risky, "%s reads what `%s` downloaded", c.by(), c.in.from)
	}
}

func runCriticalHost(c *call, _ *spec, p parsed) {
	if c.name == "shutdown" && p.has("-c") {
		c.raise(Risky, "%s cancels a planned end of the machine", c.by())
		return
	}
	c.raise(Forbidden, "%s ends the machine", c.by())
}

func runServices(c *call, _ *spec, _ parsed) {
	if c.argHas("poweroff", "reboot", "halt", "kexec", "rescue", "emergency", "suspend", "hibernate", "isolate", "exit", "soft-reboot") {
		c.raise(Forbidden, "%s ends or changes the machine", c.by())
		return
	}
	if c.argHas("enable", "mask", "load", "bootstrap", "link", "edit", "set-default", "defaults", "add", "submit", "set-property") {
		c.raise(Critical, "%s changes what runs at every start", c.by())
		return
	}
	c.raise(Risky, "%s changes or looks at the system's services", c.by())
}

// runDisks judges tools that change disks and file systems.
func runDisks(c *call, _ *spec, _ parsed) {
	if len(c.args) == 1 && c.args[0].is("--version", "--help", "-V", "-h") {
		return
	}
	if c.argHas("-l", "--list", "list", "status", "show", "info", "print") && !strings.HasPrefix(c.name, "mk") {
		c.raise(Risky, "%s looks at disks", c.by())
		return
	}
	for _, w := range c.args {
		for _, p := range c.s.resolve(w.path()) {
			if strings.HasPrefix(w.text, "/") && c.s.placeOf(p) == placeDevice {
				c.raise(Forbidden, "%s changes the disk `%s`", c.by(), p)
			}
		}
	}
	c.raise(Critical, "%s changes disks or file systems", c.by())
}

func runKernel(c *call, _ *spec, _ parsed) {
	if c.name == "sysctl" && len(c.args) > 0 {
		reads := true
		for _, w := range c.args {
			reads = reads && w.lit && !strings.Contains(w.text, "=") && !strings.HasPrefix(w.text, "-w") && !strings.HasPrefix(w.text, "-p") && !strings.HasPrefix(w.text, "--")
		}
		if reads {
			return
		}
	}
	if c.name == "mount" && len(c.args) == 0 || len(c.args) == 1 && c.args[0].is("-L", "-S", "--list", "--version", "-l", "status") {
		return
	}
	c.raise(Critical, "%s changes the kernel, its modules, mounts or filters", c.by())
}

func runAccounts(c *call, _ *spec, _ parsed) {
	c.raise(Critical, "%s changes who may use the machine", c.by())
}

// runKillers judges signals by name.
func runKillers(c *call, _ *spec, _ parsed) {
	if c.name == "fuser" && !c.argHas("-k", "-km", "-mk", "--kill") {
		c.raise(Risky, "%s looks at other processes", c.by())
		return
	}
	c.raise(Risky, "%s signals processes that it finds by name", c.by())
	everything := c.name == "killall5"
	for i, w := range c.args {
		t := w.text
		switch {
		case w.is("-u", "--euid", "--user", "-U", "--uid") || strings.HasPrefix(t, "-u") || strings.HasPrefix(t, "--user="):
			everything = everything || i == len(c.args)-2 || i == len(c.args)-1
		case w.is(".", ".*", "", "init", "systemd") || w.glob && w.pat == "*":
			everything = true
		case w.is("-v", "--inverse"):
			everything = true
		}
	}
	if everything {
		c.raise(Critical, "%s signals every process it may", c.by())
	}
}

func runHostSet(c *call, _ *spec, p parsed) {
	c.raise(Risky, "%s looks at or changes the machine's settings", c.by())
}

func runMiner(c *call, _ *spec, _ parsed) {
	c.raise(Critical, "%s uses the machine for others", c.by())
}

func runScanner(c *call, _ *spec, _ parsed) {
	c.raise(Risky, "%s looks at or attacks networks and other machines", c.by())
	c.suspicious(append(lits(c.name), c.args...))
}

func runSSHKeys(c *call, _ *spec, _ parsed) {
	if c.name == "ssh-keygen" && c.argHas("-l", "-lf") {
		c.raise(Risky, "%s looks at keys", c.by())
		return
	}
	c.raise(Risky, "%s makes, loads or asks for keys", c.by())
	for i, w := range c.args {
		if w.is("-f", "-D") && i+1 < len(c.args) {
			c.s.writeTo(c.args[i+1], c.by())
		}
	}
	if c.name == "ssh-copy-id" {
		c.raise(Critical, "%s opens another machine to a key", c.by())
	}
}

// runNetLook judges tools that ask other machines for facts: what they ask can
// carry anything out.
func runNetLook(c *call, _ *spec, p parsed) {
	c.raise(Risky, "%s asks other machines", c.by())
	for _, w := range c.args {
		if w.flow.secret {
			c.raise(Critical, "%s sends out what `%s` read, which may hold credentials", c.by(), w.flow.from)
		}
	}
	c.out = flow{net: true, from: c.name}
}

// runCrontab judges crontab: anything but listing leaves commands behind.
func runCrontab(c *call, _ *spec, p parsed) {
	if len(p.hits) == 1 && p.has("-l") && len(p.operands) == 0 {
		c.raise(Risky, "%s shows what runs by itself", c.by())
		return
	}
	c.raise(Critical, "%s changes what runs by itself", c.by())
	for _, line := range strings.Split(c.in.text, "\n") {
		if f := strings.Fields(line); len(f) > 5 {
			c.s.worst(strings.Join(f[5:], " "), c.by())
		}
	}
}

// runIP judges ip: show is all that it may do.
func runIP(c *call, _ *spec, p parsed) {
	for i, w := range p.operands {
		switch {
		case i == 0 && w.is("a", "addr", "address", "r", "route", "l", "link", "n", "neigh", "rule", "maddr", "-V"):
		case i > 0 && w.is("show", "list", "ls", "s", "dev", "up", "get") || i > 1 && w.lit && isName(w.text):
			if i == 1 && w.is("up") {
				c.raise(Risky, "%s changes the network", c.by())
			}
		default:
			c.raise(Risky, "%s changes the network", c.by())
		}
	}
}

// runOpenssl judges openssl by its command.
func runOpenssl(c *call, _ *spec, _ parsed) {
	if len(c.args) == 0 {
		return
	}
	sub := c.args[0]
	c.sub = sub.text
	rest := c.args[1:]
	dec := false
	for i, w := range rest {
		if i > 0 && rest[i-1].is("-in", "-CAfile", "-inkey", "-key") {
			c.out = c.out.and(c.read(w, false))
		}
		if i > 0 && rest[i-1].is("-out", "-keyout", "-CAcreateserial", "-writerand") {
			c.write(w)
		}
		if w.is("-engine", "-provider", "-provider-path", "-config") {
			c.raise(Risky, "%s loads code or settings given by `%s`", c.by(), w.text)
		}
		dec = dec || w.is("-d")
	}
	switch {
	case sub.is("version", "list", "ciphers", "rand", "prime", "errstr", "help"):
		c.out = flow{class: class{}}
	case sub.is("base64", "enc"):
		if sub.is("base64") || c.argHas("-base64", "-a", "-A") && !c.argHas("-k", "-pass", "-K") {
			sp := parsed{}
			if dec {
				sp.hits = []hit{{option: &option{names: []string{"-d"}}}}
			}
			runDecode(c, nil, sp)
			return
		}
		c.out = c.in.unread()
		c.out.opaque, c.out.from = dec, c.name
	case sub.is("dgst", "md5", "sha1", "sha256", "sha512", "x509", "asn1parse", "crl", "verify", "crl2pkcs7"):
		for _, w := range rest {
			if w.lit && !strings.HasPrefix(w.text, "-") {
				c.read(w, false)
			}
		}
	case sub.is("s_client", "s_server", "s_time", "ocsp", "ts"):
		c.raise(Risky, "%s opens a connection", c.by())
		c.sendsIn()
		for i, w := range rest {
			if i > 0 && rest[i-1].is("-connect", "-host") {
				c.host(w)
			}
		}
		c.out = flow{net: true, from: c.name}
	default:
		c.raise(Risky, "%s makes or changes keys", c.by())
	}
}

func runRpm(c *call, _ *spec, p parsed) {
	if !p.has("-q", "-V") {
		c.raise(Risky, "%s changes the system's programs", c.by())
	}
}

func runPkgQuery(c *call, _ *spec, p parsed) {
	if len(p.operands) > 0 && p.operands[0].is("info", "list", "search", "policy", "version", "stats") {
		return
	}
	if len(p.operands) > 0 && p.operands[0].is("add", "upgrade", "update", "fix") {
		c.s.j.install = true
	}
	c.raise(Risky, "%s changes the system's programs", c.by())
}

func runMktemp(c *call, _ *spec, p parsed) {
	if d, ok := p.value("-p"); ok {
		c.write(d)
		return
	}
	if len(p.operands) > 0 && strings.Contains(p.operands[0].text, "/") && !strings.HasPrefix(p.operands[0].text, "/tmp/") && !p.has("-t") {
		c.write(p.operands[0])
		return
	}
	if !p.has("-u") {
		c.raise(Write, "%s makes an empty file or directory for itself", c.by())
	}
	c.out = flow{class: class{noDash: true}}
}
