package discordfake

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

type object map[string]any

// refusal is an error answer.
type refusal struct {
	Status, Code int
	Message      string
	// Errors say what is wrong where in a form body.
	Errors object
	// RetryAfter makes it a rate limit's, of Scope.
	RetryAfter time.Duration
	Scope      string
	// bare answers are no JSON.
	bare bool
}

func refuse(status, code int, message string) *refusal {
	return &refusal{Status: status, Code: code, Message: message}
}

func limited(after time.Duration, scope string) *refusal {
	return &refusal{Status: http.StatusTooManyRequests, Message: "You are being rate limited.", RetryAfter: after, Scope: scope}
}

// The answers that several routes give (Opcodes and Status Codes, JSON).
func unknownChannel() *refusal { return refuse(404, 10003, "Unknown Channel") }
func unknownMessage() *refusal { return refuse(404, 10008, "Unknown Message") }
func missingAccess() *refusal  { return refuse(403, 50001, "Missing Access") }
func missingRights() *refusal  { return refuse(403, 50013, "Missing Permissions") }
func archived() *refusal       { return refuse(400, 50083, "Thread is archived") }
func locked() *refusal         { return refuse(403, 160005, "Thread is locked") }

// request is a call that passed token, rate and schema.
type request struct {
	path  func(string) string
	query url.Values
	// body is the decoded JSON; raw its bytes; files a multipart body's.
	body  any
	raw   []byte
	files map[string]upload
	major string
}

type upload struct {
	name, kind string
	content    []byte
}

// fields is the body where it is an object.
func (r *request) fields() object {
	if m, ok := r.body.(map[string]any); ok {
		return m
	}
	return object{}
}

// route is one of the API's.
type route struct {
	// open routes take no bot token: the path's token is enough.
	open bool
	// status is a success's; 0 is 200, and 204 where there is nothing to answer.
	status int
	// shape is what the body must be; without, there must be none.
	shape func() *schema
	do    func(*Server, *request) (any, *refusal)
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, rt := range apiRoutes() {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" /api/{version}"+path, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, pattern, rt) })
	}
	mux.HandleFunc("GET /attachments/{id}/{name}", s.attachment)
	mux.HandleFunc("GET /ephemeral-attachments/"+AppID+"/{id}/{name}", s.attachment)
	mux.HandleFunc("GET /gateway", s.gateway.serve)
	mux.HandleFunc("GET /gateway/{$}", s.gateway.serve)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.complain("no such route: %s %s", r.Method, r.URL.Path)
		s.calls = append(s.calls, Call{Route: r.Method + " ?", Path: r.URL.Path, At: s.now(), Status: 404})
		s.mu.Unlock()
		writeJSON(w, http.StatusNotFound, object{"message": "404: Not Found", "code": 0})
	})
	return mux
}

// serve is a call: version, ban, token, rate, fault, schema, then the route.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, pattern string, rt route) {
	version := r.PathValue("version")
	path := strings.TrimPrefix(r.URL.Path, "/api/"+version)
	q := &request{path: r.PathValue, query: r.URL.Query(), major: majorOf(r)}
	data, readErr := io.ReadAll(io.LimitReader(r.Body, maxRequest+1))
	s.mu.Lock()
	call := Call{Route: pattern, Path: path, At: s.now(), Body: data}
	if version != "v9" && version != "v10" {
		s.finish(w, &call, refuse(400, 50041, "Invalid API version"))
		return
	}
	if ua := r.Header.Get("User-Agent"); !strings.HasPrefix(ua, "DiscordBot (") {
		s.complain("the User-Agent %q is not of the form DiscordBot ($url, $version)", ua) // Reference, User Agent
	}
	if no := s.admit(w, r, pattern, q.major, rt.open); no != nil {
		s.finish(w, &call, no)
		return
	}
	fault := s.failure(pattern)
	if fault != nil && fault.Delay > 0 {
		s.mu.Unlock()
		wait(r, fault.Delay)
		s.mu.Lock()
	}
	if fault != nil && !fault.After && fault.fails() {
		call.Failed = true
		s.finishFault(w, &call, fault)
		return
	}
	out, no := s.run(r, q, rt, data, readErr)
	if len(q.raw) > 0 {
		call.Body = q.raw
	}
	if fault != nil && fault.After && fault.fails() && no == nil {
		s.finishFault(w, &call, fault)
		return
	}
	if no != nil {
		s.finish(w, &call, no)
		return
	}
	call.Status = rt.status
	if out == nil {
		call.Status = http.StatusNoContent
	}
	if call.Status == 0 {
		call.Status = http.StatusOK
	}
	s.calls = append(s.calls, call)
	// Rendered under the lock: the answer is of this moment.
	body, err := json.Marshal(out)
	s.mu.Unlock()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if call.Status == http.StatusNoContent {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(call.Status)
	_, _ = w.Write(body) // the client may be gone
}

// wait holds an answer back, unless the client leaves.
func wait(r *http.Request, d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	}
}

// run decodes and checks a body and does what the route does.
func (s *Server) run(r *http.Request, q *request, rt route, data []byte, readErr error) (any, *refusal) {
	if readErr != nil {
		return nil, refuse(400, 0, "400: Bad Request")
	}
	if len(data) > maxRequest {
		return nil, refuse(413, 40005, "Request entity too large")
	}
	if no := q.decode(r, data); no != nil {
		return nil, no
	}
	if rt.shape != nil {
		var p problems
		rt.shape().check(q.body, nil, &p)
		if no := s.verdict(&p); no != nil {
			return nil, no
		}
	} else if q.body != nil {
		s.complain("%s %s takes no body", r.Method, r.URL.Path)
	}
	return rt.do(s, q)
}

// admit checks the ban, the rates and the token.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, pattern, major string, open bool) *refusal {
	if s.banned() {
		return &refusal{Status: http.StatusTooManyRequests, Message: "error code: 1015", RetryAfter: time.Minute, bare: true}
	}
	if no := s.rate(w.Header(), pattern, major, open); no != nil {
		return no
	}
	if !open && r.Header.Get("Authorization") != "Bot "+s.opt.Token {
		return refuse(401, 0, "401: Unauthorized")
	}
	return nil
}

// decode reads JSON, or payload_json and files[n] (Reference, Uploading Files).
func (q *request) decode(r *http.Request, data []byte) *refusal {
	kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // a bad one is no JSON
	switch {
	case len(data) == 0 && kind == "":
		return nil
	case len(data) == 0:
		return refuse(400, 50109, "The request body contains invalid JSON.")
	case kind == "application/json":
		q.raw = data
	case kind == "multipart/form-data":
		if no := q.multipart(data, params["boundary"]); no != nil {
			return no
		}
	default:
		return &refusal{Status: 400, Code: 50035, Message: "Invalid Form Body", Errors: tree(problem{nil, "CONTENT_TYPE_INVALID",
			fmt.Sprintf("Expected \"Content-Type\" header to be one of {'application/json', 'multipart/form-data'}, not %q.", kind)})}
	}
	if len(q.raw) == 0 {
		q.body = map[string]any{}
		return nil
	}
	d := json.NewDecoder(strings.NewReader(string(q.raw)))
	d.UseNumber()
	if err := d.Decode(&q.body); err != nil {
		return refuse(400, 50109, "The request body contains invalid JSON.")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return refuse(400, 50109, "The request body contains invalid JSON.")
	}
	return nil
}

// verdict refuses a body with problems. Unknown fields may be only complaints.
func (s *Server) verdict(p *problems) *refusal {
	var bad []problem
	for _, one := range p.list {
		if one.code == unknownField && s.opt.TakeUnknown {
			s.complain("unknown field %s", strings.Join(one.path, "."))
			continue
		}
		bad = append(bad, one)
	}
	if len(bad) == 0 {
		return nil
	}
	return &refusal{Status: 400, Code: 50035, Message: "Invalid Form Body", Errors: tree(bad...)}
}

// finish unlocks the server and answers with a refusal.
func (s *Server) finish(w http.ResponseWriter, call *Call, no *refusal) {
	call.Status, call.Code = no.Status, no.Code
	s.calls = append(s.calls, *call)
	if no.Status == 401 || no.Status == 403 || no.Status == 429 && no.Scope != "shared" {
		s.invalid = append(s.invalid, s.now())
	}
	s.mu.Unlock()
	if no.RetryAfter > 0 {
		seconds := no.RetryAfter.Seconds()
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(seconds))))
		w.Header().Set("X-RateLimit-Scope", no.Scope)
		if no.Scope == "global" {
			w.Header().Set("X-RateLimit-Global", "true")
		}
		if !no.bare {
			body := object{"message": no.Message, "retry_after": math.Round(seconds*1000) / 1000, "global": no.Scope == "global"}
			if no.Code != 0 {
				body["code"] = no.Code
			}
			writeJSON(w, no.Status, body)
			return
		}
	}
	if no.bare {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(no.Status)
		_, _ = io.WriteString(w, no.Message) // the client may be gone
		return
	}
	body := object{"message": no.Message, "code": no.Code}
	if no.Errors != nil {
		body["errors"] = no.Errors
	}
	writeJSON(w, no.Status, body)
}

// finishFault unlocks the server and answers as a fault says.
func (s *Server) finishFault(w http.ResponseWriter, call *Call, f *Failure) {
	if !f.Cut {
		s.finish(w, call, f.refusal())
		return
	}
	s.calls = append(s.calls, *call)
	s.mu.Unlock()
	panic(http.ErrAbortHandler) // net/http closes the connection
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}

// majorOf is the resource that a bucket is counted for (Rate Limits).
func majorOf(r *http.Request) string {
	if token := r.PathValue("token"); token != "" {
		return r.PathValue("app") + r.PathValue("interaction") + "/" + token
	}
	for _, name := range []string{"channel", "guild"} {
		if id := r.PathValue(name); id != "" {
			return id
		}
	}
	return ""
}
