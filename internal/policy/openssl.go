package policy

import "strings"

// opensslTable holds the commands of openssl that look at certificates and requests,
// or digest files. Signing, with whatever key, is not among them.
const opensslTable = `
x509 | single | - | -in:r -inform: -outform: -out:w -noout -text -nameopt: -certopt: -serial -subject -issuer -dates
	-startdate -enddate -fingerprint -modulus -pubkey -hash -subject_hash -issuer_hash -email -ocspid -ocsp_uri -purpose
	-ext: -checkend: -checkhost: -checkemail: -checkip: -alias -nocert -sha1 -sha256 -sha384 -sha512 -md5
req | single | - | -in:r -inform: -outform: -out:w -noout -text -nameopt: -reqopt: -subject -pubkey -modulus -verify
crl | single | - | -in:r -inform: -outform: -out:w -noout -text -nameopt: -hash -fingerprint -issuer -lastupdate
	-nextupdate -crlnumber -verify -CAfile:r -CApath:r -sha1 -sha256
verify | single | r* | -CAfile:r -CApath:r -untrusted:r -trusted:r -CRLfile:r -crl_check -crl_check_all -show_chain
	-purpose: -verbose -verify_hostname: -verify_depth: -partial_chain -attime: -no-CAfile -no-CApath -x509_strict
	-no_check_time -nameopt:
pkcs7 | single | - | -in:r -inform: -outform: -out:w -noout -text -print -print_certs
crl2pkcs7 | single | - | -in:r -inform: -outform: -out:w -nocrl -certfile:r
asn1parse | single | - | -in:r -inform: -out:w -noout -offset: -length: -i -dump -dlimit: -strparse:
dgst md5 sha1 sha224 sha256 sha384 sha512 | single | r* | -md5 -sha1 -sha224 -sha256 -sha384 -sha512 -r -c -hex
	-binary -out:w -list -verify:r -signature:r
version | single | - | -a -v -b -o -f -p -d -r -c
list | single | - | -1 -commands -digest-commands -digest-algorithms -cipher-commands -cipher-algorithms
	-public-key-algorithms -providers -disabled -verbose
ciphers | single | v | -v -V -s -tls1_2 -tls1_3 -stdname -convert:
rand | single | v | -out:w -base64 -hex
prime | single | v* | -generate -bits: -hex -checks: -safe
errstr help | single | v* |
`

// runOpenssl judges openssl by its command.
func runOpenssl(c *call, _ *spec, _ parsed) {
	if len(c.args) == 0 {
		c.raise(Risky, "%s takes its commands from its input", c.by())
		return
	}
	sub, rest := c.args[0], c.args[1:]
	c.sub = sub.text
	if sp := c.s.j.p.tables.openssl[sub.text]; sp != nil && sub.lit {
		c.opensslLook(sp, rest)
		return
	}
	dec := false
	for i, w := range rest {
		if i > 0 && rest[i-1].is("-in", "-CAfile", "-inkey", "-key") {
			c.out = c.out.and(c.read(w, false))
		}
		if i > 0 && rest[i-1].is("-out", "-keyout", "-writerand") {
			c.write(w)
		}
		if w.is("-engine", "-provider", "-provider-path", "-config") {
			c.raise(Risky, "%s loads code or settings given by `%s`", c.by(), w.text)
		}
		dec = dec || w.is("-d")
	}
	switch {
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

// opensslLook judges a command that looks, by its options. What it is given to read
// may be an address.
func (c *call) opensslLook(sp *spec, args []word) {
	c.out = flow{}
	p := c.parse(sp, args)
	c.byRole(sp, p.operands)
	words := p.operands
	for _, h := range p.hits {
		if h.val != nil {
			words = append(words[:len(words):len(words)], *h.val)
		}
	}
	for _, w := range words {
		if t := w.script(); strings.Contains(t, "://") || strings.HasPrefix(t, "http") && strings.Contains(t, ":") {
			c.raise(Risky, "%s talks to another machine", c.by())
			c.host(w)
		}
	}
	c.out = flow{secret: c.out.secret, net: c.out.net || c.in.net, from: c.out.from}
	if c.in.net && c.out.from == "" {
		c.out.from = c.in.from
	}
}
