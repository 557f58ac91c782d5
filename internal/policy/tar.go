package policy

import "strings"

// tarSpec lists tar's options. Those that run something, or write where names
// in the archive say, are not in it or are marked.
var tarSpec = mustSpec(`tar | full | v* | -A,--catenate,--concatenate! -c,--create --delete! -d,--diff,--compare
	-r,--append --test-label -t,--list -u,--update -x,--extract,--get -g,--listed-incremental:! -G,--incremental
	--ignore-failed-read -n,--seek --occurrence? -S,--sparse --add-file:r -C,--directory: --exclude: --exclude-backups
	--exclude-caches --exclude-caches-all --exclude-ignore: --exclude-tag: --exclude-vcs --exclude-vcs-ignores
	--no-recursion --null --recursion -T,--files-from:! -X,--exclude-from:r --anchored --ignore-case --no-anchored
	--no-ignore-case --no-wildcards --wildcards --wildcards-match-slash --keep-directory-symlink! --keep-newer-files
	-k,--keep-old-files --no-overwrite-dir --one-top-level? --overwrite --overwrite-dir --recursive-unlink!
	--remove-files! --skip-old-files -U,--unlink-first -W,--verify -O,--to-stdout --to-command:x --atime-preserve?
	--clamp-mtime --group: --mode: --mtime: -m,--touch --no-same-owner --no-same-permissions --numeric-owner --owner:
	-p,--preserve-permissions,--same-permissions! --same-owner! --sort: -s,--preserve-order --acls --no-acls --selinux
	--no-selinux --xattrs --no-xattrs --force-local -f,--file: -F,--info-script,--new-volume-script:x -L,--tape-length:
	-M,--multi-volume! --rmt-command:x --rsh-command:x --volno-file:w -b,--blocking-factor: -B,--read-full-records
	-i,--ignore-zeros --record-size: -H,--format: -o --old-archive --portability --pax-option: --posix -V,--label:
	-a,--auto-compress -I,--use-compress-program:x -j,--bzip2 -J,--xz --lzip --lzma --lzop --no-auto-compress --zstd
	-z,--gzip,--gunzip,--ungzip -Z,--compress,--uncompress --backup? --hard-dereference -h,--dereference
	-K,--starting-file: --newer-mtime: -N,--newer,--after-date: --one-file-system -P,--absolute-names! --suffix:
	--strip-components: --transform,--xform:! --checkpoint? --checkpoint-action:x --full-time --index-file:w
	-l,--check-links --no-quote-chars: --quote-chars: --quoting-style: -R,--block-number --show-defaults
	--show-omitted-dirs --show-transformed-names --totals? --utc -v,--verbose --warning: -w,--interactive --help --usage
	--version --restrict -y`)

// runTar judges tar: what it packs, where it unpacks, what it runs.
func runTar(c *call, _ *spec, _ parsed) {
	args := c.args
	if len(args) > 0 && args[0].lit && args[0].text != "" && args[0].text[0] != '-' {
		args = tarOldStyle(args)
	}
	p := c.parse(tarSpec, args)
	for _, h := range p.hits {
		if h.key() == "--checkpoint-action" || h.key() == "--to-command" {
			v := strings.TrimPrefix(h.val.script(), "exec=")
			c.s.worst(v, c.by())
		}
	}
	file, hasFile := p.value("-f")
	s := c.s
	if d, ok := p.value("-C"); ok {
		s = c.s.child()
		runCd(&call{s: s, name: "cd", args: []word{d}})
	}
	remote := hasFile && file.lit && strings.Contains(file.text, ":") && !strings.HasPrefix(file.text, "/") && !p.has("--force-local")
	if remote {
		c.raise(Risky, "%s talks to another machine", c.by())
	}
	switch {
	case p.has("-x"):
		c.tarExtract(s, p, file, hasFile)
	case p.has("-t"), p.has("-d"):
		if hasFile {
			c.read(file, false)
		}
		c.out = flow{}
	case p.has("-c"), p.has("-r"), p.has("-u"):
		c.tarPack(s, p.operands, file, !hasFile || file.is("-"))
	case p.has("--help", "--version", "--usage", "--show-defaults"):
	default:
		c.raise(Risky, "%s is given no command that is understood", c.by())
	}
}

// tarExtract judges unpacking in the directory of s.
func (c *call) tarExtract(s *scope, p parsed, file word, hasFile bool) {
	if hasFile {
		c.out = c.read(file, false)
	}
	if p.has("-O") {
		c.out = c.out.and(c.in).unread()
		c.printsMembers(p.operands)
		return
	}
	dst := lit(".")
	if d, ok := p.value("--one-top-level"); ok {
		dst = d
	}
	saved := c.s
	c.s = s
	c.unpack(dst)
	if !p.has("--strip-components") {
		c.unpackMembers(dst, p.operands)
	}
	c.s = saved
	c.tarDownloaded(s, file, hasFile)
	c.out = flow{known: true}
}

// tarPack judges packing operands, which are named in the directory of s.
func (c *call) tarPack(s *scope, operands []word, file word, stdout bool) {
	packed := flow{known: true}
	saved := c.s
	c.s = s
	for _, w := range operands {
		packed = packed.and(c.read(w, true))
	}
	c.s = saved
	c.out = packed.unread()
	if stdout {
		return
	}
	c.write(file)
	if file.lit {
		for _, path := range c.s.resolve(file.text) {
			c.s.setFile(path, packed.unread(), false)
		}
	}
	c.out = flow{known: true}
}

// tarDownloaded: what is unpacked from a download was downloaded.
func (c *call) tarDownloaded(s *scope, file word, hasFile bool) {
	net := c.in.net && (!hasFile || file.is("-"))
	if hasFile && file.lit {
		for _, p := range c.s.resolve(file.text) {
			net = net || c.s.readContent(p).net
		}
	}
	if !net || s.cwdUnknown {
		return
	}
	for _, cwd := range s.cwds {
		c.s.setFile(cwd, flow{net: true, from: "a download"}, false)
	}
}

// tarOldStyle turns "xzf a.tar" into "-x -z -f a.tar".
func tarOldStyle(args []word) []word {
	var out, vals []word
	rest := args[1:]
	for _, f := range args[0].text {
		name := "-" + string(f)
		out = append(out, lit(name))
		if o := tarSpec.opts[name]; o != nil && o.mode == argRequired && len(rest) > 0 {
			out = append(out, rest[0])
			rest = rest[1:]
		}
	}
	return append(append(out, vals...), rest...)
}
