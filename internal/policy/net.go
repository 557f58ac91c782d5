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

var curlSpec = mustSpec(`curl | full | v* | -s,--silent -S,--show-error -L,--location --location-trusted -f,--fail
	--fail-with-body --fail-early -k,--insecure -i,--include,--show-headers -I,--head -v,--verbose -N,--no-buffer
	-g,--globoff -G,--get -q,--disable -#,--progress-bar --no-progress-meter -4,--ipv4 -6,--ipv6 -0,--http1.0 --http1.1
	--http2 --http3 --compressed --tlsv1.2 --tlsv1.3 -j,--junk-session-cookies -n,--netrc --create-dirs
	-J,--remote-header-name -O,--remote-name --remote-name-all -R,--remote-time -a,--append -l,--list-only -Z,--parallel
	--no-keepalive --retry-connrefused --retry-all-errors -o,--output: --output-dir: -d,--data,--data-ascii:
	--data-binary: --data-raw: --data-urlencode: --json: --url-query: -F,--form,--form-string: -T,--upload-file:
	-X,--request: -H,--header: -u,--user: -b,--cookie: -c,--cookie-jar:w -A,--user-agent: -e,--referer: -m,--max-time:
	--connect-timeout: --retry: --retry-delay: --retry-max-time: -r,--range: -C,--continue-at: -w,--write-out:
	-x,--proxy: --preproxy: --resolve: --connect-to: --interface: --limit-rate: --max-redirs: --max-filesize: --url:
	--unix-socket: --abstract-unix-socket: -D,--dump-header:w --trace:w --trace-ascii:w --stderr:w -K,--config:!
	--cacert:r --cert: -E: --key: --doh-url: --oauth2-bearer: --aws-sigv4: -t,--telnet-option: -Q,--quote:!
	-y,--speed-time: -Y,--speed-limit: -z,--time-cond: -Z --proto: --proto-default: --proto-redir: --noproxy: -h,--help?
	--netrc-file:r --engine:! --libcurl:w --hsts:w --alt-svc:w --etag-save:w --etag-compare:r --ciphers: --ssl-reqd
	--anyauth --basic --digest --negotiate --ntlm -M,--manual --raw --tr-encoding --path-as-is --variable: --expand-url:
	--expand-data: --rate: --no-clobber --remove-on-error --skip-existing`)

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

// wgetLine is a wget command line while it is read.
type wgetLine struct {
	c     *call
	i     int
	named bool // the output has a name
	urls  []word
}

// runWget judges wget and its like.
func runWget(c *call, _ *spec, _ parsed) {
	if len(c.args) == 1 && c.args[0].is("--version", "-V", "--help", "-h") {
		return
	}
	c.raise(Risky, "%s talks to another machine", c.by())
	l := &wgetLine{c: c}
	for ; l.i < len(c.args); l.i++ {
		l.word(c.args[l.i])
	}
	c.sendsIn()
	if !l.named && c.name != "http" && c.name != "https" {
		for _, u := range l.urls {
			if u.lit {
				n := lit(path.Base(strings.SplitN(u.text, "?", 2)[0]))
				c.write(n)
				c.download(n)
			}
		}
	}
	c.out = flow{net: true, from: c.name}
}

// next is an option's value: attached, or the next word.
func (l *wgetLine) next(val string, attached bool) word {
	if attached || l.i+1 >= len(l.c.args) {
		return lit(val)
	}
	l.i++
	return l.c.args[l.i]
}

func (l *wgetLine) word(w word) {
	c, t := l.c, w.text
	if w.flow.secret {
		c.raise(Critical, "%s sends out what `%s` read, which may hold credentials", c.by(), w.flow.from)
	}
	name, val, attached := strings.Cut(t, "=")
	short := strings.HasPrefix(t, "-") && !strings.HasPrefix(t, "--")
	switch {
	case strings.EqualFold(val, "delete"), w.is("DELETE"):
		c.raise(Critical, "%s deletes on another machine", c.by())
	case short && strings.HasSuffix(t, "O") && len(t) < 8:
		l.output(l.next("", false))
	case strings.HasPrefix(t, "-O"):
		l.output(lit(t[2:]))
	case strings.HasPrefix("--output-document", name) && len(name) > 8:
		l.output(l.next(val, attached))
	case short || strings.HasPrefix(t, "--"):
		l.option(name, val, attached)
	default:
		c.host(w)
		l.urls = append(l.urls, w)
	}
}

// output is where the one download goes.
func (l *wgetLine) output(w word) {
	l.named = true
	if !w.is("-") {
		l.c.write(w)
		l.c.download(w)
	}
}

func (l *wgetLine) option(name, val string, attached bool) {
	c := l.c
	starts := func(names ...string) bool {
		for _, n := range names {
			if strings.HasPrefix(name, n) {
				return true
			}
		}
		return false
	}
	switch {
	case starts("--post-file", "--body-file"):
		v := l.next(val, attached)
		if f := c.read(v, false); f.secret {
			c.raise(Critical, "%s sends out `%s`, which may hold credentials", c.by(), v.show())
		}
	case starts("--use-askpass", "--pre", "--on-download", "--execute"), name == "--config", name == "-e":
		v := l.next(val, attached)
		c.raise(Risky, "%s runs or reads settings given by `%s`", c.by(), clip(name, 40))
		c.s.worst(v.script(), c.by())
	case in([]string{"-P", "--directory-prefix", "-o", "--output-file", "-a", "-d", "--dir"}, name):
		c.write(l.next(val, attached))
	}
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
			c.copyOption(c.args[i].script())
		case strings.HasPrefix(t, "-e") && len(t) > 2:
			c.s.worst(t[2:], c.by())
		case strings.HasPrefix(t, "--rsh="), strings.HasPrefix(t, "--rsync-path="), strings.HasPrefix(t, "-o"):
			c.copyOption(t)
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

// copyOption judges an option's value that is a command, or names one.
func (c *call) copyOption(v string) {
	c.s.j.open = true
	if _, cmd, ok := strings.Cut(v, "="); ok {
		c.s.worst(cmd, c.by())
	}
	c.s.worst(v, c.by())
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

// runNetLook judges tools that ask other machines for facts: what they ask can
// carry anything out.
func runNetLook(c *call, _ *spec, _ parsed) {
	c.raise(Risky, "%s asks other machines", c.by())
	for _, w := range c.args {
		if w.flow.secret {
			c.raise(Critical, "%s sends out what `%s` read, which may hold credentials", c.by(), w.flow.from)
		}
	}
	c.out = flow{net: true, from: c.name}
}
