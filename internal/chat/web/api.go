package web

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// maxText is the longest text of a message, in bytes.
	maxText = 1 << 20 // 1 MiB
	// maxBody is the longest request: a text in which every byte is escaped, and
	// what surrounds it.
	maxBody = 6*maxText + 64<<10
)

// apiError is a refusal as the API sends it.
type apiError struct {
	status              int
	code, message, hint string
}

func fail(w http.ResponseWriter, e *apiError) {
	type body struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Hint    string `json:"hint"`
	}
	if e.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	answer(w, e.status, map[string]body{"error": {e.code, e.message, e.hint}})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the client is gone
}

// refusal makes an API error of a refusal in words.
func refusal(err error) *apiError {
	var e *chat.Error
	if !errors.As(err, &e) {
		return &apiError{http.StatusInternalServerError, "internal", "The web chat could not do that.",
			"Nothing is lost; the server's log says more. Try again in a moment."}
	}
	status := http.StatusBadRequest
	switch e.Kind {
	case chat.KindForbidden:
		status = http.StatusForbidden
	case chat.KindNotFound:
		status = http.StatusNotFound
	case chat.KindConflict:
		status = http.StatusConflict
	case chat.KindUnavailable, chat.KindUnconfirmed:
		status = http.StatusServiceUnavailable
	}
	return &apiError{status, e.Code, e.Message, e.Hint}
}

func notFound(what string) *apiError {
	return &apiError{http.StatusNotFound, "not_found", "There is no such " + what + ".", "See GET /api/v1/channels/general/threads for what there is."}
}

// call is an authorised request.
type call func(w http.ResponseWriter, r *http.Request, by workflows.Actor) error

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, f := range map[string]call{
		"GET /api/v1/meta":                         s.getMeta,
		"GET /api/v1/channels":                     s.getChannels,
		"GET /api/v1/channels/{channel}/threads":   s.getThreads,
		"GET /api/v1/channels/{channel}/messages":  s.getChannelMessages,
		"POST /api/v1/channels/{channel}/messages": s.postInChannel,
		"GET /api/v1/threads/{thread}":             s.getThread,
		"POST /api/v1/threads/{thread}/messages":   s.postInThread,
		"GET /api/v1/threads/{thread}/grants":      s.getGrants,
		"POST /api/v1/messages/{message}/click":    s.postClick,
		"GET /api/v1/messages/{message}/file":      s.getFile,
		"POST /api/v1/files":                       s.postFile,
		"GET /api/v1/tool_calls/{call}/output":     s.getOutput,
		"GET /api/v1/events":                       s.getEvents,
	} {
		mux.Handle(pattern, s.authorised(f))
	}
	mux.Handle("/api/", s.authorised(func(http.ResponseWriter, *http.Request, workflows.Actor) error {
		return notFoundError
	}))
	mux.HandleFunc("/", s.getPage)
	return s.guard(mux)
}

// notFoundError answers calls that the API does not have.
var notFoundError = &chat.Error{
	Kind: chat.KindNotFound, Code: "no_such_call", Message: "The API has no such call.", Hint: "See the documentation of the web chat's API.",
}

// authorised checks the token and puts errors into the API's form.
func (s *Server) authorised(f call) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		by, refused := s.auth.person(r)
		if refused != nil {
			fail(w, refused)
			return
		}
		err := f(w, r, by)
		if err == nil {
			return
		}
		var api *wireError
		if errors.As(err, &api) {
			fail(w, api.apiError)
			return
		}
		var e *chat.Error
		if !errors.As(err, &e) || e.Err != nil {
			s.opt.Log.Warn("Request failed", telemetry.KeyActorID, by.ID, "path", r.URL.Path, telemetry.KeyError, err)
		}
		fail(w, refusal(err))
	})
}

// wireError is an apiError on its way up.
type wireError struct{ *apiError }

func (e *wireError) Error() string { return e.message }

func refuse(e *apiError) error { return &wireError{e} }

// decode reads a JSON body strictly enough that nothing is changed silently.
func decode(w http.ResponseWriter, r *http.Request, v any) error {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return refuse(&apiError{http.StatusRequestEntityTooLarge, "too_large", "The request is too long.", "A text may have 1 MiB."})
	case err != nil:
		return refuse(&apiError{http.StatusBadRequest, "unreadable", "The request broke off.", "Send it again."})
	case !utf8.Valid(data) || loneSurrogate(data):
		return refuse(&apiError{http.StatusBadRequest, "invalid_utf8", "The text is not valid UTF-8.", "Send it as UTF-8."})
	}
	if err := json.Unmarshal(data, v); err != nil {
		return refuse(&apiError{http.StatusBadRequest, "malformed_json", "The request is not the JSON that this call takes.", "Send an object such as {\"text\": \"…\", \"client_id\": \"…\"}."})
	}
	return nil
}

// loneSurrogate reports a \uXXXX escape that is half of a character: decoding
// would silently put another in its place.
func loneSurrogate(data []byte) bool {
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		i++
		switch n := unit(data, i); {
		case n >= 0xDC00 && n <= 0xDFFF:
			return true
		case n >= 0xD800 && n <= 0xDBFF:
			if len(data) < i+6 || data[i+5] != '\\' {
				return true
			}
			if low := unit(data, i+6); low < 0xDC00 || low > 0xDFFF {
				return true
			}
			i += 10
		}
	}
	return false
}

// unit reads the uXXXX at i, -1 where there is none.
func unit(data []byte, i int) int64 {
	if i+5 > len(data) || data[i] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(data[i+1:i+5]), 16, 32)
	if err != nil {
		return -1
	}
	return int64(n)
}

// getPage hands out the page's files.
func (s *Server) getPage(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		fail(w, &apiError{http.StatusMethodNotAllowed, "method_not_allowed", "The page can only be read.", "The API is below /api/v1."})
		return
	}
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	if name == "" {
		name = "index.html"
	}
	if s.opt.Page == nil || !fs.ValidPath(name) {
		fail(w, notFound("page"))
		return
	}
	data, err := fs.ReadFile(s.opt.Page, name)
	if err != nil {
		fail(w, notFound("page"))
		return
	}
	h := w.Header()
	if ct := mime.TypeByExtension(path.Ext(name)); ct != "" {
		h.Set("Content-Type", ct)
	}
	h.Set("Content-Security-Policy", s.opt.PagePolicy)
	h.Set("Cache-Control", "no-cache")
	_, _ = w.Write(data) // the client is gone
}
