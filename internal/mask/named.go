package mask

import "strings"

// names end the names of what is secret, in lower case and without "_", "-" and
// ".": API_KEY, client-secret, aws_secret_access_key, X-Auth-Token.
var names = []string{
	"password", "passwd", "passphrase", "passcode", "pwd", "secret", "token", "apikey", "secretkey", "accesskey", "accountkey", "privatekey",
	"authkey", "signingkey", "encryptionkey", "masterkey", "secretkeybase", "credential", "credentials",
}

// nameEnds are the last characters of such names.
var nameEnds = chars("delnsty" + "DELNSTY")

// maxName is the longest name that is looked at, in bytes.
const maxName = 64

var nameChars = chars(digits + lower + upper + "_-.")

// secretName reports whether a name says that its value is secret, or is that of
// the Authorization header.
func secretName(name string) (secret, authorization bool) {
	if name == "" || !nameEnds[name[len(name)-1]] {
		return false, false
	}
	var buf [maxName]byte
	n := 0
	for i := 0; i < len(name) && n < maxName; i++ {
		c := name[i]
		switch {
		case c == '_' || c == '-' || c == '.':
			continue
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		buf[n] = c
		n++
	}
	plain := string(buf[:n])
	if strings.HasSuffix(plain, "authorization") {
		return true, true
	}
	if plain == "pwd" || plain == "oldpwd" { // the working directory
		return false, false
	}
	if plain == "pass" || hasFold(name[max(0, len(name)-len("_pass")):], "_pass") { // not bypass, compass
		return true, false
	}
	for _, end := range names {
		if strings.HasSuffix(plain, end) {
			return true, false
		}
	}
	return false, false
}

// assigned is what follows "NAME=", "name: ", `"name": "`, where the name says
// that it is secret. i is at the operator.
func assigned(s string, i, floor int) (from, to int, ok bool) {
	end := i
	if s[i] == '=' && end > floor && s[end-1] == ':' {
		end-- // := was seen at the colon
	}
	spaced := false
	for end > floor && i-end < 3 && s[end-1] == ' ' {
		end--
		spaced = true
	}
	for end > floor && i-end < 6 && (s[end-1] == '"' || s[end-1] == '\'' || s[end-1] == '\\') {
		end--
	}
	start := end
	for start > floor && end-start < maxName && nameChars[s[start-1]] {
		start--
	}
	secret, authorization := secretName(s[start:end])
	if !secret {
		return 0, 0, false
	}
	at := i + 1
	if s[i] == ':' && at < len(s) && s[at] == '=' {
		at++
	}
	if at < len(s) && (s[at] == '=' || s[at] == '~' || s[at] == '>') {
		return 0, 0, false // a comparison
	}
	blanks := run(s, at, blank)
	loose := s[i] == '=' && !spaced && blanks == at
	if authorization {
		return header(s, blanks)
	}
	from, to, ok = value(s, blanks)
	if !ok || !plausible(s[from:to], loose) || strings.EqualFold(s[from:to], s[start:end]) {
		return 0, 0, false
	}
	return from, to, true
}

var blank = chars(" \t")

// plausible tells a secret from a word of prose or code. loose is for what can
// only be an assignment.
func plausible(v string, loose bool) bool {
	if v == Mark {
		return true
	}
	switch strings.ToLower(v) {
	case "true", "false", "null", "none", "undefined":
		return false
	}
	if strings.ContainsRune("/.~-@%", rune(v[0])) && !loose || v[0] == '/' || strings.HasPrefix(v, "./") || strings.HasPrefix(v, "~/") {
		return false // a file, an option, a reference
	}
	if loose {
		return len(v) >= 4
	}
	return len(v) >= 8 && hasDigit(v) && strings.ContainsAny(v, lower+upper)
}

// ends are the bytes before which a value ends. All that a shell acts on is
// among them.
var ends = chars(" \t\r\n\v\f\x00\"'`;|&<>(){}$,\\")

// value reads a value that may stand in quotes. A value that goes on with an
// expansion or a call is none.
func value(s string, i int) (from, to int, ok bool) {
	escaped := i
	for i < len(s) && s[i] == '\\' {
		i++
	}
	single, double := false, false
	if i < len(s) && (s[i] == '"' || s[i] == '\'') {
		single, double = s[i] == '\'', s[i] == '"' && i == escaped
		i++
	}
	for to = i; to < len(s); to++ {
		if !ends[s[to]] {
			continue
		}
		// In double quotes an escaped character is one like others; so it is outside
		// them, should they have been closed here.
		if double && s[to] == '\\' && to+2 < len(s) && strings.IndexByte("\"\\$`", s[to+1]) >= 0 && !ends[s[to+2]] {
			to++
			continue
		}
		// In single quotes a lone dollar is a character like others.
		if single && s[to] == '$' && to+1 < len(s) && s[to+1] != '(' && s[to+1] != '{' && s[to+1] != '\'' {
			continue
		}
		break
	}
	if to == i || to < len(s) && strings.IndexByte("$`({", s[to]) >= 0 {
		return 0, 0, false
	}
	return i, to, true
}

// header is what an Authorization header holds: a scheme and credentials (RFC
// 9110, section 11.6.2), or credentials alone.
func header(s string, i int) (from, to int, ok bool) {
	for i < len(s) && (s[i] == '"' || s[i] == '\'' || s[i] == '\\') {
		i++
	}
	for _, scheme := range []string{"bearer ", "basic ", "token ", "apikey ", "bot ", "digest "} {
		if hasFold(s[i:], scheme) {
			from = run(s, i+len(scheme), blank)
			to = run(s, from, bearer)
			return from, to, to-from >= 6
		}
	}
	to = run(s, i, bearer)
	return i, to, to-i >= 8 && plausible(s[i:to], false)
}

// option is what follows "--password " and its like, "-u name:" of curl, or the
// head of a private key. i is at a hyphen.
func option(s string, i, floor int) (from, to int, ok bool) {
	if strings.HasPrefix(s[i:], pemBegin) {
		return pem(s, i+len(pemBegin))
	}
	if i > floor && strings.IndexByte(" \t\n\"'", s[i-1]) < 0 {
		return 0, 0, false
	}
	if strings.HasPrefix(s[i:], "-u ") || strings.HasPrefix(s[i:], "--user ") {
		return userPassword(s, i, floor)
	}
	if !strings.HasPrefix(s[i:], "--") {
		return 0, 0, false
	}
	end := run(s[:min(len(s), i+2+maxName)], i+2, nameChars)
	at := run(s, end, blank)
	if at == end {
		return 0, 0, false
	}
	if secret, _ := secretName(s[i+2 : end]); !secret {
		return 0, 0, false
	}
	from, to, ok = value(s, at)
	if !ok || to-from < 4 || strings.IndexByte("-/.~@", s[from]) >= 0 {
		return 0, 0, false
	}
	return from, to, to-from >= 8 || strings.ContainsAny(s[from:to], digits+upper)
}

// userPassword is the password in "curl -u name:password".
func userPassword(s string, i, floor int) (from, to int, ok bool) {
	const near = 256 // bytes between the program and its option
	if !strings.Contains(s[max(floor, i-near):i], "curl") {
		return 0, 0, false
	}
	start, to, ok := value(s, i+strings.IndexByte(s[i:], ' ')+1)
	if !ok {
		return 0, 0, false
	}
	colon := strings.IndexByte(s[start:to], ':')
	if colon < 0 || start+colon+1 == to {
		return 0, 0, false
	}
	return start + colon + 1, to, true
}

// userinfo is the password in "scheme://name:password@host" (RFC 3986, section
// 3.2.1). i is after the slashes.
func userinfo(s string, i int) (from, to int, ok bool) {
	const longest = 512 // bytes
	for to = i; to < len(s) && to-i < longest; to++ {
		switch c := s[to]; {
		case c == ':' && from == 0:
			from = to + 1
		case c == '@':
			return from, to, from > 0 && to > from
		case c == '/' || c == '?' || c == '#' || ends[c] && c != ',':
			return 0, 0, false
		}
	}
	return 0, 0, false
}

const pemBegin = "-----BEGIN "

// minKeyLine is the shortest line that is taken for key material, in bytes; the
// usual ones have 64 or 70 (RFC 7468). Of shorter ones only the last is, where it
// is followed by the key's end and cannot be a command.
const minKeyLine = 32

// pem is the material of a private key in PEM. i is after "-----BEGIN ".
func pem(s string, i int) (from, to int, ok bool) {
	const longestLabel = 48
	label, _, found := strings.Cut(s[i:min(len(s), i+longestLabel)], "-----")
	if !found || !strings.HasSuffix(label, "PRIVATE KEY") && label != "PGP PRIVATE KEY BLOCK" {
		return 0, 0, false
	}
	at := keyBreak(s, i+len(label)+len("-----"))
	for strings.HasPrefix(s[at:], "Proc-Type: ") || strings.HasPrefix(s[at:], "DEK-Info: ") {
		line := strings.IndexAny(s[at:], "\n\\")
		if line < 0 {
			return 0, 0, false
		}
		at = keyBreak(s, at+line)
	}
	from, to = at, at
	for {
		end := run(s, at, keyChars)
		if end-at < minKeyLine {
			if to > from && lastKeyLine(s[at:end]) && strings.HasPrefix(s[keyBreak(s, end):], "-----END ") {
				to = end
			}
			break
		}
		to = end
		at = keyBreak(s, end)
	}
	return from, to, to > from
}

// lastKeyLine reports whether what stands between a key's long lines and its end
// is the rest of the Base64: a command that somebody put there is not.
func lastKeyLine(s string) bool {
	if len(s) == 0 || len(s)%4 != 0 || s[0] == '/' {
		return false
	}
	return strings.HasSuffix(s, "=") || hasDigit(s) && strings.ContainsAny(s, upper) || strings.ContainsAny(s, upper) && strings.ContainsAny(s, lower)
}

// keyBreak skips what stands between the lines of a key: blanks, line ends and
// those escaped as in JSON.
func keyBreak(s string, i int) int {
	for i < len(s) {
		switch {
		case strings.IndexByte(" \t\r\n", s[i]) >= 0:
			i++
		case strings.HasPrefix(s[i:], `\n`), strings.HasPrefix(s[i:], `\r`):
			i += 2
		default:
			return i
		}
	}
	return i
}
