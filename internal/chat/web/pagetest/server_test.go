package pagetest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/countersign/countersign/internal/chat/web/page"
)

const token = "t0k-en_for.tests"

// The API's shapes, as packages web and page describe them.
type (
	message struct {
		ID        string     `json:"id"`
		ThreadID  string     `json:"thread_id"`
		ChannelID string     `json:"channel_id,omitempty"`
		At        time.Time  `json:"at"`
		Key       string     `json:"key"`
		Kind      string     `json:"kind"`
		Author    string     `json:"author"`
		Text      string     `json:"text"`
		Version   int        `json:"version"`
		ToolCalls []toolCall `json:"tool_calls,omitempty"`
		Approval  *approval  `json:"approval,omitempty"`
		Buttons   []button   `json:"buttons,omitempty"`
		Header    any        `json:"header,omitempty"`
		Turn      any        `json:"turn,omitempty"`
		Deleted   bool       `json:"deleted,omitempty"`
	}
	toolCall struct {
		ID         string     `json:"id"`
		Tool       string     `json:"tool"`
		Command    string     `json:"command"`
		State      string     `json:"state"`
		ExitCode   *int       `json:"exit_code"`
		DurationMS *int64     `json:"duration_ms"`
		Tail       string     `json:"tail"`
		StartedAt  *time.Time `json:"started_at,omitempty"`
		Note       string     `json:"note,omitempty"`
	}
	approval struct {
		ID        string    `json:"id"`
		State     string    `json:"state"`
		Tier      string    `json:"tier"`
		Command   string    `json:"command"`
		Cwd       string    `json:"cwd"`
		Backend   string    `json:"backend"`
		Reasons   []string  `json:"reasons"`
		Why       []string  `json:"why"`
		Digest    string    `json:"digest"`
		ExpiresAt time.Time `json:"expires_at"`
		Votes     []vote    `json:"votes"`

		Required            int      `json:"required,omitempty"`
		Workspace           string   `json:"workspace,omitempty"`
		Approvers           []string `json:"approvers,omitempty"`
		RequestedBy         []any    `json:"requested_by,omitempty"`
		RequesterMayApprove *bool    `json:"requester_may_approve,omitempty"`
		CallID              string   `json:"call_id,omitempty"`
		CallState           string   `json:"call_state,omitempty"`
		ExitCode            *int     `json:"exit_code,omitempty"`
		DurationMS          int64    `json:"duration_ms,omitempty"`
		UnknownRun          bool     `json:"unknown_run,omitempty"`
		Queued              int      `json:"queued,omitempty"`

		BreakGlass []string `json:"break_glass,omitempty"`
		Original   string   `json:"original,omitempty"`
		EditedBy   string   `json:"edited_by,omitempty"`
		BrokeGlass bool     `json:"broke_glass,omitempty"`
		Widened    bool     `json:"widened,omitempty"`
		Remark     string   `json:"remark,omitempty"`
		Text       string   `json:"text,omitempty"`
		Outcome    string   `json:"outcome,omitempty"`
	}
	grant struct {
		ID      string    `json:"id"`
		Command string    `json:"command"`
		By      string    `json:"by"`
		Until   time.Time `json:"until"`
	}
	vote struct {
		By      string    `json:"by"`
		Verdict string    `json:"verdict"`
		At      time.Time `json:"at"`
		Reason  string    `json:"reason,omitempty"`
	}
	button struct {
		ID    string `json:"id"`
		Label string `json:"label"`
	}
	session struct {
		ID         string `json:"id"`
		WorkflowID string `json:"workflow_id"`
		Title      string `json:"title"`
		Backend    string `json:"backend"`
		Liveness   string `json:"liveness"`
		Parent     string `json:"parent"`
	}
	post struct {
		Text     string   `json:"text"`
		ClientID string   `json:"client_id"`
		Files    []upload `json:"files,omitempty"`
	}
	upload struct {
		ID    string `json:"id"`
		Name  string `json:"name"`
		Bytes int64  `json:"bytes"`
	}
	click struct {
		Button string            `json:"button"`
		Values map[string]string `json:"values"`
	}
	// seenClick is a click as the server saw it.
	seenClick struct {
		click
		Message, By string
	}
	clickAnswer struct {
		Outcome string `json:"outcome"`
		Text    string `json:"text"`
		Review  any    `json:"review,omitempty"`
		Details any    `json:"details,omitempty"`
	}
)

// server is a strict web chat: what the contract does not have, it refuses.
type server struct {
	t   *testing.T
	url string

	// onPost, onClick and output may be set before the page is opened.
	onPost  func(channel, thread string, p post, by string) (status int, text string)
	onFile  func(name string) (status int, text string)
	onClick func(c seenClick) clickAnswer
	output  func(w http.ResponseWriter, id, stream string, offset int)

	mu       sync.Mutex
	sessions []session
	messages []message
	events   []message
	posts    map[string]string // client ID to message ID
	tries    []post            // every post that came in, retries too
	clicks   []seenClick
	grants   []grant
	faults   []string
	changed  chan struct{}
	uploads  []upload
	down     bool
	cuts     int
	token    string
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, posts: map[string]string{}, changed: make(chan struct{}), token: token}
	s.onClick = func(seenClick) clickAnswer { return clickAnswer{Outcome: "recorded", Text: "Recorded."} }
	mux := http.NewServeMux()
	files := http.FileServerFS(page.FS)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", page.ContentSecurityPolicy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		files.ServeHTTP(w, r)
	})
	for pattern, h := range map[string]http.HandlerFunc{
		"GET /api/v1/meta":                   s.meta,
		"GET /api/v1/channels":               s.channels,
		"GET /api/v1/channels/{c}/messages":  s.said,
		"GET /api/v1/channels/{c}/threads":   s.threads,
		"POST /api/v1/channels/{c}/messages": s.post,
		"GET /api/v1/threads/{t}":            s.thread,
		"POST /api/v1/threads/{t}/messages":  s.post,
		"POST /api/v1/files":                 s.file,
		"GET /api/v1/threads/{t}/grants":     s.granted,
		"POST /api/v1/messages/{id}/click":   s.click,
		"GET /api/v1/tool_calls/{id}/output": s.toolOutput,
		"GET /api/v1/events":                 s.follow,
		"POST /api/v1/{rest...}":             s.unknown,
		"GET /api/v1/{rest...}":              s.unknown,
	} {
		mux.HandleFunc(pattern, s.guard(h))
	}
	ts := httptest.NewServer(mux)
	s.url = ts.URL
	t.Cleanup(func() {
		s.mu.Lock()
		s.down = true
		s.signal()
		s.mu.Unlock()
		ts.CloseClientConnections()
		ts.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, f := range s.faults {
			t.Error("the page asked for something that the API lacks: " + f)
		}
	})
	return s
}

func (s *server) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

func (s *server) guard(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		down, want := s.down, s.token
		s.mu.Unlock()
		if down {
			panic(http.ErrAbortHandler)
		}
		if r.Header.Get("Authorization") != "Bearer "+want {
			refuse(w, 401, "unauthorized", "The token is missing or wrong.", "Open the printed link.")
			return
		}
		if strings.Contains(r.URL.RawQuery, want) {
			s.fault("token in a query: %s", r.URL)
		}
		h(w, r)
	}
}

func refuse(w http.ResponseWriter, status int, code, text, hint string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"code": code, "message": text, "hint": hint}})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (s *server) unknown(w http.ResponseWriter, r *http.Request) {
	s.fault("%s %s", r.Method, r.URL)
	refuse(w, 404, "not_found", "There is no such call.", "")
}

func actor(r *http.Request) string {
	if by := r.Header.Get("X-Act-As"); by != "" {
		return by
	}
	return "dev"
}

func (s *server) meta(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer(w, 200, map[string]any{
		"you": actor(r), "act_as": true, "people": []string{"ada", "grace", "linus"},
		"backends":        []map[string]any{{"name": "local", "isolated": false}, {"name": "docker", "isolated": true}},
		"default_backend": "local", "models": []string{"offline"}, "notices": []string{"Commands run as you, on `this machine`."}, "last_event": len(s.events),
		"attach": map[string]int{"file_bytes": 1000, "files": 3, "bytes": 1500},
	})
}

// file keeps an upload, as the API does.
func (s *server) file(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	data, err := io.ReadAll(r.Body)
	if err != nil || name == "" || len(r.URL.Query()) != 1 || len(data) > 1000 {
		s.fault("upload %s of %d bytes: %v", r.URL, len(data), err)
	}
	s.mu.Lock()
	onFile := s.onFile
	s.mu.Unlock()
	if onFile != nil {
		if status, text := onFile(name); status != 0 {
			refuse(w, status, "refused", text, "")
			return
		}
	}
	sum := sha256.Sum256(data)
	u := upload{ID: "uploads/" + hex.EncodeToString(sum[:]), Name: name, Bytes: int64(len(data))}
	s.mu.Lock()
	s.uploads = append(s.uploads, u)
	s.mu.Unlock()
	answer(w, 201, u)
}

// shown is a message's text as the server stores it.
func (p post) shown() string {
	names := make([]string, len(p.Files))
	for i, f := range p.Files {
		names[i] = f.Name
	}
	if len(names) == 0 {
		return p.Text
	}
	return strings.TrimSpace(p.Text + "\n\nAttached: " + strings.Join(names, ", "))
}

func (s *server) channels(w http.ResponseWriter, _ *http.Request) {
	answer(w, 200, []map[string]string{{"id": "general", "title": "general"}})
}

func (s *server) threads(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("c") != "general" {
		refuse(w, 404, "not_found", "There is no such channel.", "")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answer(w, 200, append([]session{}, s.sessions...))
}

// said answers what was said in the channel itself.
func (s *server) said(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []message{}
	for _, m := range s.messages {
		if m.ChannelID != "" {
			out = append(out, m)
		}
	}
	answer(w, 200, out)
}

func (s *server) thread(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("t")
	s.mu.Lock()
	defer s.mu.Unlock()
	messages := []message{}
	for _, m := range s.messages {
		if m.ThreadID == id {
			messages = append(messages, m)
		}
	}
	for _, x := range s.sessions {
		if x.ID == id {
			answer(w, 200, struct {
				session
				WorkspacePath string    `json:"workspace_path"`
				Messages      []message `json:"messages"`
			}{x, "/workspace", messages})
			return
		}
	}
	refuse(w, 404, "not_found", "There is no such thread.", "")
}

// decode reads a body that has the known fields and no other.
func decode[T any](s *server, w http.ResponseWriter, r *http.Request) (v T, ok bool) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return v, false
	}
	dec := json.NewDecoder(strings.NewReader(string(body)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil || !utf8.Valid(body) {
		s.fault("body of %s: %v: %.200s", r.URL, err, body)
		refuse(w, 400, "bad_json", "The body is not the JSON that this call takes.", "")
		return v, false
	}
	return v, true
}

func (s *server) post(w http.ResponseWriter, r *http.Request) {
	p, ok := decode[post](s, w, r)
	if !ok {
		return
	}
	channel, thread := r.PathValue("c"), r.PathValue("t")
	if p.ClientID == "" {
		s.fault("post without client_id")
	}
	s.mu.Lock()
	for _, f := range p.Files {
		if !slices.Contains(s.uploads, f) {
			s.faults = append(s.faults, fmt.Sprintf("a file that was never uploaded: %+v", f))
		}
	}
	s.tries = append(s.tries, p)
	onPost := s.onPost
	s.mu.Unlock()
	if onPost != nil {
		if status, text := onPost(channel, thread, p, actor(r)); status != 0 {
			refuse(w, status, "refused", text, "")
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id, again := s.posts[p.ClientID]
	opened := ""
	switch {
	case !again && thread == "" && p.Text == "/agent list":
		id = fmt.Sprintf("m%d", len(s.messages)+1)
		s.posts[p.ClientID] = id
		s.putLocked(message{ID: id, ThreadID: id, ChannelID: "general", Kind: "user", Author: actor(r), Text: p.Text})
		s.putLocked(message{ID: id + "r", ThreadID: id, ChannelID: "general", Kind: "notice", Author: "countersign", Text: "- [fix it](#/t/t1) since 2026-01-02T15:04:05Z"})
	case !again:
		id = fmt.Sprintf("m%d", len(s.messages)+1)
		s.posts[p.ClientID] = id
		if thread == "" {
			thread, opened = id, id
			s.sessions = append([]session{{ID: id, WorkflowID: "agent/web/main/" + id, Title: p.Text, Backend: "local", Liveness: "active"}}, s.sessions...)
		}
		s.putLocked(message{ID: id, ThreadID: thread, Kind: "user", Author: actor(r), Text: p.shown()})
	}
	if thread == "" {
		thread = id
	}
	reply := map[string]string{"message_id": id, "thread_id": thread}
	if opened != "" {
		reply["opened"] = opened
	}
	if p.Text == "/agent grants" {
		reply["text"] = "You have **no** grants."
	} else if told := s.revoke(p.Text); told != "" {
		reply["text"] = told
	}
	answer(w, 202, reply)
}

func (s *server) granted(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer(w, 200, append([]grant{}, s.grants...))
}

// revoke ends a permission as `grants revoke` does; the lock is held.
func (s *server) revoke(text string) (told string) {
	id, ok := strings.CutPrefix(text, "/agent grants revoke ")
	if !ok {
		return ""
	}
	for i, g := range s.grants {
		if g.ID == id {
			s.grants = append(s.grants[:i:i], s.grants[i+1:]...)
			return "Revoked: it is asked about again."
		}
	}
	return "No permission " + id + " stands in this session."
}

func (s *server) click(w http.ResponseWriter, r *http.Request) {
	c, ok := decode[click](s, w, r)
	if !ok {
		return
	}
	id := r.PathValue("id")
	m, found := s.get(id)
	if !found {
		refuse(w, 404, "not_found", "There is no such message.", "")
		return
	}
	has := c.Button == "approve" && c.Values["digest"] != "" && m.Approval != nil
	has = has || (c.Button == "review" && m.Approval != nil && m.Approval.EditedBy != "")
	for _, b := range m.Buttons {
		has = has || b.ID == c.Button
	}
	if !has {
		s.fault("click on a button that the message lacks: %v", c)
		refuse(w, 409, "no_button", "This message has no such button now.", "")
		return
	}
	seen := seenClick{click: c, Message: id, By: actor(r)}
	s.mu.Lock()
	s.clicks = append(s.clicks, seen)
	onClick := s.onClick
	s.mu.Unlock()
	answer(w, 200, onClick(seen))
}

func (s *server) toolOutput(w http.ResponseWriter, r *http.Request) {
	stream := r.URL.Query().Get("stream")
	offset, err := strconv.Atoi(r.URL.Query().Get("offset"))
	if err != nil || (stream != "stdout" && stream != "stderr") {
		s.fault("output asked for as %s", r.URL)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if s.output != nil {
		s.output(w, r.PathValue("id"), stream, offset)
	}
}

func (s *server) follow(w http.ResponseWriter, r *http.Request) {
	query, _ := url.ParseQuery(r.URL.RawQuery)
	after := 0
	if query.Has("after") {
		n, err := strconv.Atoi(query.Get("after"))
		if err != nil {
			s.fault("after=%q", query.Get("after"))
		}
		after = n
	}
	s.mu.Lock()
	unknown := after > len(s.events)
	s.mu.Unlock()
	if unknown {
		refuse(w, 410, "unknown_event", "No event has had that number here.", "")
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(200)
	flusher := w.(http.Flusher)
	s.mu.Lock()
	cuts := s.cuts
	s.mu.Unlock()
	fmt.Fprint(w, ": hello\n\n")
	flusher.Flush()
	for {
		s.mu.Lock()
		events, changed, down := s.events, s.changed, s.down || s.cuts != cuts
		s.mu.Unlock()
		if down {
			panic(http.ErrAbortHandler)
		}
		for ; after < len(events); after++ {
			data, _ := json.Marshal(events[after])
			fmt.Fprintf(w, "id: %d\ndata: %s\n\n", after+1, data)
		}
		flusher.Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// put posts or edits a message, as the bot would.
func (s *server) put(m message) message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.putLocked(m)
}

func (s *server) putLocked(m message) message {
	if m.At.IsZero() {
		m.At = time.Now()
	}
	if m.Key == "" {
		m.Key = m.ID
	}
	found := false
	for i := range s.messages {
		if s.messages[i].ID == m.ID {
			m.Version, m.At = s.messages[i].Version+1, s.messages[i].At
			s.messages[i] = m
			found = true
		}
	}
	if !found {
		s.messages = append(s.messages, m)
	}
	if m.Deleted {
		s.messages = s.messages[:len(s.messages)-1]
	}
	s.events = append(s.events, m)
	s.signal()
	return m
}

func (s *server) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *server) get(id string) (message, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.messages {
		if m.ID == id {
			return m, true
		}
	}
	return message{}, false
}

func (s *server) addSession(x session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.WorkflowID == "" {
		x.WorkflowID = "agent/web/main/" + x.ID
	}
	s.sessions = append([]session{x}, s.sessions...)
}

// setDown makes every call fail, and ends the streams.
func (s *server) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
	s.signal()
}

// cut ends the streams that are open.
func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cuts++
	s.signal()
}

func (s *server) setToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
}

func (s *server) seenClicks() []seenClick {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seenClick{}, s.clicks...)
}

func (s *server) seenTries() []post {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]post{}, s.tries...)
}

func (s *server) userMessages() []message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []message
	for _, m := range s.messages {
		if m.Kind == "user" {
			out = append(out, m)
		}
	}
	return out
}
