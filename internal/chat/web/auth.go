package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// defaultPerson speaks where one token speaks for everybody and nobody is named.
const defaultPerson = "you"

// actAsHeader names who speaks.
const actAsHeader = "X-Act-As"

// personName is what a person may be called: it stands in update IDs and texts.
var personName = regexp.MustCompile(`^[\p{L}\p{N}][\p{L}\p{N}._-]{0,31}$`)

// auth knows the tokens, by their hashes.
type auth struct {
	actAs  bool
	people []string
	hashes [][sha256.Size]byte // of people[i]'s token
}

func newAuth(actAs bool, token telemetry.Secret, people map[string]telemetry.Secret) *auth {
	a := &auth{actAs: actAs}
	add := func(name string, t telemetry.Secret) {
		if t.IsSet() {
			a.people = append(a.people, name)
			a.hashes = append(a.hashes, sha256.Sum256([]byte(t.Reveal())))
		}
	}
	if actAs {
		add(defaultPerson, token)
		return a
	}
	for name, t := range people {
		add(name, t)
	}
	return a
}

// person returns who a request speaks for. All tokens are compared, each in
// constant time.
func (a *auth) person(r *http.Request) (workflows.Actor, *apiError) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	sum := sha256.Sum256([]byte(token))
	name, found := "", 0
	for i := range a.hashes {
		if subtle.ConstantTimeCompare(sum[:], a.hashes[i][:]) == 1 {
			name, found = a.people[i], 1
		}
	}
	if !ok || found == 0 {
		return workflows.Actor{}, &apiError{http.StatusUnauthorized, "unauthorized", "The token is missing or wrong.",
			"Send it as “Authorization: Bearer …”; the link that was printed at start-up has it."}
	}
	if as := r.Header.Get(actAsHeader); as != "" && a.actAs {
		if decoded, err := url.PathUnescape(as); err == nil {
			as = decoded
		}
		if !personName.MatchString(as) {
			return workflows.Actor{}, &apiError{http.StatusBadRequest, "bad_person", "X-Act-As names nobody.",
				"A name has up to 32 letters, digits, dots, dashes and underscores."}
		}
		name = as
	} else if as != "" && as != name {
		return workflows.Actor{}, &apiError{http.StatusForbidden, "act_as_off", "Nobody may speak for others here.", "Leave X-Act-As out."}
	}
	return workflows.Actor{ID: name, Name: name}, nil
}

// names returns those who have a token of their own.
func (a *auth) names() []string {
	if a.actAs {
		return nil
	}
	out := slices.Clone(a.people)
	slices.Sort(out)
	return out
}

// guard refuses requests that a page of another site may have made: by a name
// that was rebound to this address, or with a foreign Origin.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if !s.opt.AnyHost && !isLoopback(hostOnly(r.Host)) {
			fail(w, &apiError{http.StatusForbidden, "wrong_host", "This server answers to loopback names only.", "Open " + s.URL() + "."})
			return
		}
		if o := r.Header.Get("Origin"); o != "" && r.Method != http.MethodGet && r.Method != http.MethodHead && o != "http://"+r.Host && o != "https://"+r.Host {
			fail(w, &apiError{http.StatusForbidden, "wrong_origin", "Another site asked for this.", "Use the page at " + s.URL() + "."})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func hostOnly(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.Trim(hostport, "[]")
}
