package mask_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/mask"
)

// fill is n characters that look random. Tokens are put together here so that no
// scanner takes this file for a leak.
func fill(n int) string {
	return strings.Repeat("a1B2c3D4e5F6g7H8j9K0", n/20+1)[:n]
}

const m = mask.Mark

var (
	b32  = "Q2W3E4R5T6Y7U2I3"
	line = strings.Repeat("MIIEvQIBADANBgkq", 4)
	jwt  = "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0." + fill(43)
)

func TestMasked(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`curl -H "Authorization: Bearer xoxb-` + fill(40) + `" https://slack.com/api/x`: `curl -H "Authorization: Bearer ` + m + `" https://slack.com/api/x`,
		"xoxb-" + fill(30):                                 "xoxb-" + m,
		"it is xoxp-" + fill(30) + ".":                     "it is xoxp-" + m + ".",
		"xapp-1-" + fill(30):                               "xapp-" + m,
		"ghp_" + fill(36):                                  "ghp_" + m,
		"gho_" + fill(36) + " ghs_" + fill(36):             "gho_" + m + " ghs_" + m,
		"github_pat_" + fill(82):                           "github_pat_" + m,
		"glpat-" + fill(20):                                "glpat-" + m,
		"id AKIA" + b32 + ",":                              "id AKIA" + m + ",",
		"ASIA" + b32:                                       "ASIA" + m,
		"aws_secret_access_key = " + fill(40):              "aws_secret_access_key = " + m,
		"AWS_SECRET_ACCESS_KEY=" + fill(40) + " aws s3 ls": "AWS_SECRET_ACCESS_KEY=" + m + " aws s3 ls",
		"sk-" + fill(48):                                   "sk-" + m,
		"sk-proj-" + fill(100):                             "sk-proj-" + m,
		"sk-ant-api03-" + fill(90):                         "sk-ant-" + m,
		"AIza" + fill(35):                                  "AIza" + m,
		"ya29." + fill(60):                                 "ya29." + m,
		"sk_live_" + fill(24):                              "sk_live_" + m,
		"rk_live_" + fill(24):                              "rk_live_" + m,
		"npm_" + fill(36):                                  "npm_" + m,
		"pypi-AgE" + fill(60):                              "pypi-AgE" + m,
		"hf_" + fill(34):                                   "hf_" + m,
		"M" + fill(23) + ".GaBc1d." + fill(38):             "M" + m,
		"session " + jwt + ";":                             "session eyJ" + m + ";",
		"git clone https://me:" + fill(12) + "@h":          "git clone https://me:" + m + "@h",
		"postgres://app:s3cret@db:5432/x":                  "postgres://app:" + m + "@db:5432/x",
		"Authorization: Basic dXNlcjpwYXNz":                "Authorization: Basic " + m,
		`{"authorization":"token abcdef123"}`:              `{"authorization":"token ` + m + `"}`,
		"Bearer " + fill(30):                               "Bearer " + m,
		"PRIVATE-TOKEN: " + fill(20):                       "PRIVATE-TOKEN: " + m,
		"X_TOKEN=value ./deploy":                           "X_TOKEN=" + m + " ./deploy",
		`export DB_PASSWORD='pa$w0rd!' && make`:            `export DB_PASSWORD='` + m + `' && make`,
		`API_KEY="abc-123"; ls`:                            `API_KEY="` + m + `"; ls`,
		"mysql --password=hunter2 db":                      "mysql --password=" + m + " db",
		"login --password hunter2 --yes":                   "login --password " + m + " --yes",
		`{"password": "hunter2x"}`:                         `{"password": "` + m + `"}`,
		`say "{\"api_key\":\"abcd1234\"}"`:                 `say "{\"api_key\":\"` + m + `\"}"`,
		"client_secret: abc12345":                          "client_secret: " + m,
		"https://h/x?access_token=abc123&page=2":           "https://h/x?access_token=" + m + "&page=2",
		"curl -u ada:s3cret https://h":                     "curl -u ada:" + m + " https://h",
		`PASSWORD="abc\"def1"; ls`:                         `PASSWORD="` + m + `"; ls`,
		`TOKEN="a1\\b2\$c3" x`:                             `TOKEN="` + m + `" x`,
		"DB_PASS=hunter2 ./x":                              "DB_PASS=" + m + " ./x",
		"AccountKey=" + fill(40) + "==;Endpoint=x":         "AccountKey=" + m + ";Endpoint=x",
		"SECRET_KEY_BASE=" + fill(64):                      "SECRET_KEY_BASE=" + m,
		"AWS_CREDENTIALS=abcd1234":                         "AWS_CREDENTIALS=" + m,
		"-----BEGIN PRIVATE KEY-----\n" + line + "\nAbC123==\n-----END PRIVATE KEY-----": "-----BEGIN PRIVATE KEY-----\n" + m + "\n-----END PRIVATE KEY-----",
		`"-----BEGIN PRIVATE KEY-----\n` + line + `\nAbCd\n-----END PRIVATE KEY-----\n"`: `"-----BEGIN PRIVATE KEY-----\n` + m + `\n-----END PRIVATE KEY-----\n"`,
		// A command between a key's lines stays to be seen.
		"-----BEGIN PRIVATE KEY-----\n" + line + "\nhalt\n-----END PRIVATE KEY-----":                                                     "-----BEGIN PRIVATE KEY-----\n" + m + "\nhalt\n-----END PRIVATE KEY-----",
		"-----BEGIN PRIVATE KEY-----\n" + line + "\n/tmp/Ab1\n-----END PRIVATE KEY-----":                                                 "-----BEGIN PRIVATE KEY-----\n" + m + "\n/tmp/Ab1\n-----END PRIVATE KEY-----",
		"-----BEGIN PRIVATE KEY-----\n" + line + "\nAbC123==\n":                                                                          "-----BEGIN PRIVATE KEY-----\n" + m + "\nAbC123==\n",
		`TOKEN='a1b2\'; rm -rf /; '`:                                                                                                     `TOKEN='` + m + `\'; rm -rf /; '`,
		`echo "TOKEN="a1b2\"; rm -rf /`:                                                                                                  `echo "TOKEN="` + m + `\"; rm -rf /`,
		"https://hooks.slack.com/services/T00000000/B00000000/" + fill(24):                                                               "https://hooks.slack.com/services/" + m,
		"-----BEGIN RSA PRIVATE KEY-----\n" + line + "\n" + line + "\n-----END RSA PRIVATE KEY-----":                                     "-----BEGIN RSA PRIVATE KEY-----\n" + m + "\n-----END RSA PRIVATE KEY-----",
		`"-----BEGIN PRIVATE KEY-----\n` + line + `\n-----END PRIVATE KEY-----\n"`:                                                       `"-----BEGIN PRIVATE KEY-----\n` + m + `\n-----END PRIVATE KEY-----\n"`,
		"-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,12\n\n" + line + "\n-----END EC PRIVATE KEY-----": "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,12\n\n" + m + "\n-----END EC PRIVATE KEY-----",
	} {
		got := mask.New().Text(in)
		require.Equal(t, want, got)
		require.Equal(t, got, mask.New().Text(got))
		require.Equal(t, want, string(mask.New().Bytes([]byte(in))))
	}
}

func TestNotMasked(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", m, "‹", "git show 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"9b2d7f9e-3a51-4a0e-8f4e-1c2d3e4f5a6b", "01ARZ3NDEKTSV4RRFFQ69G5FAV",
		"/home/ada/projects/countersign/internal/sandbox/local/testdata/very/long/path/file_test.go",
		"https://github.com/countersign/countersign/blob/main/internal/policy/judge.go#L120-L140",
		"http://127.0.0.1:8233/namespaces/default/workflows?query=x", "http://localhost:8080/@scope/pkg",
		"ssh://git@github.com:22/x.git", "git@github.com:ada/x.git", "see https://a.b/c: it is @ada",
		"github.com/stretchr/testify v1.11.1 h1:7s2iGBzp5EwR7/aIZr8ao5+dra3wiQyKjjFuvgVKu7U=",
		"aGVsbG8gd29ybGQ=", "echo aGVsbG8= | base64 -d", "sk-learn", "task-sk-estonia-is-a-long-branch-name", "risk-0123456789012345678901",
		"AKIAlowercase123456", "xoxb-…", "xoxb-your-token-here", "ghp_short", "npm_config_registry=https://r", "hf_hub_download",
		"PASSWORD=$(pass show db)", `TOKEN="$(evil; rm -rf /)"`, "TOKEN=`cat t`", "TOKEN=$OTHER", "TOKEN=${OTHER}", `export TOKEN="${A}"`,
		`echo "TOKEN=" ; rm -rf / ; echo "x"`, "TOKEN=;reboot", "TOKEN= reboot now", "--token-file /run/secrets/t", "--password-stdin",
		"PWD=/srv/space ls", "max_tokens=4096", "tokens: 1234567a", "if token == want1234 {", "token := nextToken12()", "token=next()",
		"the token is what it prints", "Password: ", "password: required", "secret: true", "kubectl get secret db-1", "sort -u a:b", "docker run -u 1000:1000 x",
		`-H "Authorization: Bearer $TOKEN"`, "Authorization: required", "bearer of good news about something",
		"-----BEGIN CERTIFICATE-----\n" + line + "\n-----END CERTIFICATE-----", "-----BEGIN PRIVATE KEY-----\nrm -rf /\n-----END PRIVATE KEY-----",
		"BYPASS=true1", "compass: north12x", "pass: 12345678 tests", "--- PASS: TestX (0.00s)", "go test ./... PASS=ok", "git log --pretty=pass",
		"https://u:$P@h", "https://u:$(id)@h", "eyJ.eyJ.x", "eyJhbGciOiJIUzI1NiJ9", "a.b.c", "MessageBrokerConfiguration.method.Something",
		"docker pull x@sha256:" + strings.Repeat("ab", 32), "diff --git a/token.go b/token.go", "type Token struct{ secret string }",
	} {
		require.Equal(t, s, mask.New().Text(s))
	}
}

// Covering masks the same, and keeps every other byte where it is.
func TestCover(t *testing.T) {
	t.Parallel()
	mk := mask.New("hunter two three")
	token := "ghp_" + fill(36)
	for in, want := range map[string]string{
		"a " + token + "\nb":             "a ghp_" + strings.Repeat("*", 36) + "\nb",
		"PASSWORD=hunter22 x":            "PASSWORD=******** x",
		"\xff\x00 hunter two three \xfe": "\xff\x00 **************** \xfe",
		"nothing":                        "nothing",
	} {
		got := mk.Cover([]byte(in))
		require.Equal(t, want, string(got))
		require.Equal(t, want, string(mk.Cover(got)))
	}
	require.Equal(t, 23, mk.Open([]byte("x "+token[:23])))
	require.Equal(t, len("hunter two"), mk.Open([]byte("x hunter two")))
	require.Equal(t, len("hunter tw"), mk.Open([]byte("hunter tw")))
	require.Zero(t, mk.Open([]byte("x\n")))
	require.Zero(t, (*mask.Masker)(nil).Open(nil))
	require.Equal(t, 4096, mk.Open([]byte(strings.Repeat("x", 10000))))
}

func TestValues(t *testing.T) {
	t.Parallel()
	mk := mask.New(`swo"rdfish`, "swo", "hunter two", "hunter two three", "masked", "")
	for in, want := range map[string]string{
		`echo swo"rdfish swo`: "echo " + m + " swo",
		`{"x":"swo\"rdfish"}`: `{"x":"` + m + `"}`,
		"hunter two three":    m,
		"q=hunter+two&r":      "q=" + m + "&r",
		"q=hunter%20two&r":    "q=" + m + "&r",
		base64.StdEncoding.EncodeToString([]byte("hunter two")): m,
		"masked": "masked",
	} {
		require.Equal(t, want, mk.Text(in))
		require.Equal(t, want, mk.Text(want))
	}
	var none *mask.Masker
	require.Equal(t, "ghp_"+m, none.Text("ghp_"+fill(36)))
	require.Equal(t, []string{"a", "ghp_" + m}, none.Texts([]string{"a", "ghp_" + fill(36)}))
	require.Nil(t, none.Texts(nil))
}

// Texts made to be slow are not.
func TestTime(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"-----BEGIN PRIVATE KEY-----\n", "--password ", "token=", "://a:", "eyJ", "M", "sk-", "curl -u a:", "=", "a", "TOKEN=\\", "-"} {
		start := time.Now()
		mask.New("known value").Text(strings.Repeat(unit, (4<<20)/len(unit)))
		require.Less(t, time.Since(start), 20*time.Second, "%q", unit)
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{
		"TOKEN=" + fill(8), `"token": "` + fill(9) + `"`, "https://a:b@c", "xoxb-" + fill(20) + "ghp_" + fill(36), "Bearer " + fill(20), jwt,
		"-----BEGIN PRIVATE KEY-----\n" + line, "curl -u a:b", "--password abc1", "\xff=", "Authorization: Basic " + fill(8) + "‹masked›",
	} {
		f.Add(s)
	}
	mk := mask.New("known value", "swordfish")
	f.Fuzz(func(t *testing.T, s string) {
		once := mk.Text(s)
		if twice := mk.Text(once); twice != once {
			t.Fatalf("masking %q gave %q, and again %q", s, once, twice)
		}
		if covered := mk.Cover([]byte(s)); len(covered) != len(s) {
			t.Fatalf("covering %q gave %q", s, covered)
		}
	})
}

func BenchmarkText(b *testing.B) {
	text := strings.Repeat("2026-11-29T10:00:00Z ok   github.com/countersign/countersign/internal/mask 0.012s url=https://a.b/c?d=e&f=g --- PASS: TestX (0.00s)\n", 1<<20/130)[:64<<10]
	mk := mask.New("swordfish-1", "another-secret-value")
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		mk.Text(text)
	}
}

func TestHide(t *testing.T) {
	t.Parallel()
	m := (*mask.Masker)(nil).With("hunter2hunter2")
	b := []byte("a hunter2hunter2 b\x00hunter2hunt")
	require.Equal(t, 11, m.Hide(b))
	require.Equal(t, "a ************** b\x00hunter2hunt", string(b))
	b = append(b[len(b)-11:], "er2!"...)
	require.Zero(t, m.Hide(b))
	require.Equal(t, "**************!", string(b))
	require.NotContains(t, m.Text("x hunter2hunter2"), "hunter2")
	require.Zero(t, (*mask.Masker)(nil).Hide([]byte("x")))
}
