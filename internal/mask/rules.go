package mask

import "strings"

// class is a set of ASCII characters.
type class [256]bool

func chars(set string) *class {
	var c class
	for i := range len(set) {
		c[set[i]] = true
	}
	return &c
}

const (
	digits = "0123456789"
	lower  = "abcdefghijklmnopqrstuvwxyz"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

var (
	alnum    = chars(digits + lower + upper)
	word     = chars(digits + lower + upper + "_-")
	base32   = chars("234567" + upper)
	capnum   = chars(digits + upper)
	hex      = chars(digits + "abcdefABCDEF")
	keyChars = chars(digits + lower + upper + "+/=_-")
	// bearer is RFC 6750's b64token.
	bearer = chars(digits + lower + upper + "-._~+/=")
)

// shape is a token: a prefix and then at least min characters of a class.
type shape struct {
	prefix string
	in     *class
	min    int
	// digit: one of the characters must be a digit, which tells a token from words
	// joined by hyphens.
	digit bool
}

// shapes are the known tokens. The longer of two prefixes that begin alike comes
// first.
var shapes = []shape{
	// Slack, docs.slack.dev/authentication/tokens; xoxe. is token rotation's.
	{"xoxb-", word, 10, true}, {"xoxp-", word, 10, true}, {"xoxa-", word, 10, true}, {"xoxo-", word, 10, true},
	{"xoxs-", word, 10, true}, {"xoxr-", word, 10, true}, {"xoxe-", word, 10, true}, {"xapp-", word, 10, true},
	{"xoxe.xoxb-", word, 10, true}, {"xoxe.xoxp-", word, 10, true},
	// Slack, docs.slack.dev/messaging/sending-messages-using-incoming-webhooks.
	{"hooks.slack.com/services/", chars(digits + lower + upper + "/"), 20, true},
	// GitHub, docs.github.com/authentication/keeping-your-account-and-data-secure/about-authentication-to-github.
	{"github_pat_", word, 22, false},
	{"ghp_", alnum, 30, false}, {"gho_", alnum, 30, false}, {"ghu_", alnum, 30, false}, {"ghs_", word, 30, false}, {"ghr_", alnum, 30, false},
	// GitLab, docs.gitlab.com/security/tokens: token prefixes.
	{"glpat-", chars(digits + lower + upper + "_-."), 20, false}, {"gldt-", word, 20, false}, {"glrt-", word, 20, false},
	{"glptt-", word, 20, false}, {"glcbt-", word, 20, false}, {"gloas-", word, 20, false},
	// AWS, docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html: unique ID prefixes.
	{"AKIA", base32, 16, false}, {"ASIA", base32, 16, false}, {"ABIA", base32, 16, false}, {"ACCA", base32, 16, false},
	// Anthropic, OpenRouter and OpenAI, as their consoles issue them.
	{"sk-ant-", word, 20, true}, {"sk-or-v1-", hex, 32, false},
	{"sk-proj-", word, 20, true}, {"sk-svcacct-", word, 20, true}, {"sk-admin-", word, 20, true}, {"sk-", alnum, 20, true},
	// Google, docs.cloud.google.com: API keys; OAuth access tokens and client secrets.
	{"AIza", word, 35, false}, {"ya29.", word, 20, true}, {"GOCSPX-", word, 24, false},
	// Stripe, docs.stripe.com/keys; webhook secrets, docs.stripe.com/webhooks.
	{"sk_live_", alnum, 16, false}, {"sk_test_", alnum, 16, false}, {"rk_live_", alnum, 16, false}, {"rk_test_", alnum, 16, false},
	{"whsec_", keyChars, 24, false},
	// npm, github.blog/security "npm's new access token format"; PyPI, pypi.org/help/#apitoken.
	{"npm_", alnum, 36, false}, {"pypi-AgE", word, 40, false},
	// Hugging Face, huggingface.co/docs/hub/security-tokens.
	{"hf_", alnum, 30, false},
	// DigitalOcean, docs.digitalocean.com/reference/api/create-personal-access-token.
	{"dop_v1_", hex, 64, false}, {"doo_v1_", hex, 64, false}, {"dor_v1_", hex, 64, false},
	// SendGrid, www.twilio.com/docs/sendgrid/ui/account-and-settings/api-keys.
	{"SG.", chars(digits + lower + upper + "_-."), 60, true},
	// HashiCorp Vault, developer.hashicorp.com/vault/docs/concepts/tokens.
	{"hvs.", word, 24, false}, {"hvb.", word, 24, false}, {"hvr.", word, 24, false},
	// Databricks, Grafana, Linear, Notion, Tailscale and Docker Hub, as their consoles issue them.
	{"dapi", hex, 32, false}, {"glsa_", word, 32, false}, {"lin_api_", alnum, 32, false}, {"ntn_", alnum, 40, false},
	{"tskey-", word, 20, true}, {"dckr_pat_", word, 20, false},
	// age, age-encryption.org/v1: a secret key in Bech32.
	{"AGE-SECRET-KEY-1", capnum, 58, false},
}

// byFirst is shapes by their first byte.
var byFirst = func() (t [256][]shape) {
	for _, s := range shapes {
		t[s.prefix[0]] = append(t[s.prefix[0]], s)
	}
	return t
}()

// What a byte may begin or announce.
const (
	atNothing = iota
	atSign    // an operator or a hyphen
	atWord    // a token, where it begins a word
)

var starts = func() (t [256]uint8) {
	for c := range t {
		if len(byFirst[c]) > 0 {
			t[c] = atWord
		}
	}
	for _, c := range []byte("eMNObB") {
		t[c] = atWord
	}
	t['='], t[':'], t['-'] = atSign, atSign, atSign
	return t
}()

// run returns where the characters of a class end.
func run(s string, i int, in *class) int {
	for i < len(s) && in[s[i]] {
		i++
	}
	return i
}

func hasDigit(s string) bool { return strings.ContainsAny(s, digits) }

// token finds a token that begins at i, which begins a word.
func token(s string, i int) (from, to int, ok bool) {
	for _, sh := range byFirst[s[i]] {
		if !strings.HasPrefix(s[i:], sh.prefix) {
			continue
		}
		from = i + len(sh.prefix)
		to = run(s, from, sh.in)
		if to-from >= sh.min && (!sh.digit || hasDigit(s[from:to])) {
			return from, to, true
		}
	}
	switch s[i] {
	case 'e':
		return jwt(s, i)
	case 'M', 'N', 'O':
		return discord(s, i)
	case 'b', 'B':
		if hasFold(s[i:], "bearer ") {
			from = i + len("bearer ")
			to = run(s, from, bearer)
			return from, to, to-from >= 16 && hasDigit(s[from:to])
		}
	}
	return 0, 0, false
}

// jwt is RFC 7515's compact form: three parts in Base64url, of which the first
// is a JSON object.
func jwt(s string, i int) (from, to int, ok bool) {
	if !strings.HasPrefix(s[i:], "eyJ") {
		return 0, 0, false
	}
	from = i + len("eyJ")
	to = from
	for part := range 3 {
		end := run(s, to, word)
		if end-to < 8 {
			return 0, 0, false
		}
		to = end
		if part == 2 {
			return from, to, true
		}
		if to == len(s) || s[to] != '.' {
			return 0, 0, false
		}
		to++
	}
	return 0, 0, false
}

// discord is a bot token: the bot's ID in Base64 (which begins with M, N or O),
// a time and a MAC; docs.discord.com/developers/reference#authentication.
func discord(s string, i int) (from, to int, ok bool) {
	id := run(s, i, word)
	if id-i < 23 || id-i > 28 || id == len(s) || s[id] != '.' {
		return 0, 0, false
	}
	at := run(s, id+1, word)
	if at-id-1 != 6 || at == len(s) || s[at] != '.' {
		return 0, 0, false
	}
	to = run(s, at+1, word)
	if n := to - at - 1; n < 27 || n > 40 || !hasDigit(s[i:id]) && !hasDigit(s[at:to]) {
		return 0, 0, false
	}
	return i + 1, to, true
}

// hasFold reports whether s begins with prefix, which is in lower case.
func hasFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
