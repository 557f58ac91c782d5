package discordfake

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

var fileField = regexp.MustCompile(`^files\[([0-9])\]$`)

// multipart reads payload_json and files[n] (Reference, Uploading Files).
func (q *request) multipart(data []byte, boundary string) *refusal {
	q.files = map[string]upload{}
	r := multipart.NewReader(bytes.NewReader(data), boundary)
	for {
		part, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return refuse(400, 0, "400: Bad Request")
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return refuse(400, 0, "400: Bad Request")
		}
		match := fileField.FindStringSubmatch(part.FormName())
		switch {
		case part.FormName() == "payload_json":
			q.raw = content
		case match == nil:
			return &refusal{Status: 400, Code: 50035, Message: "Invalid Form Body", Errors: tree(problem{
				[]string{part.FormName()}, unknownField, "Files are named files[n], n from 0 to 9; all else belongs into payload_json"})}
		case len(content) > maxFile:
			return refuse(413, 40005, "Request entity too large")
		default:
			kind := part.Header.Get("Content-Type")
			if kind == "" {
				kind = "application/octet-stream"
			}
			q.files[match[1]] = upload{name: part.FileName(), kind: kind, content: content}
		}
	}
}

// attach gives the files that a message has after a call: those kept, and those
// uploaded. An edit without attachments keeps all; with it, only those named
// (Message, Edit Message).
func (s *Server) attach(have []File, body object, files map[string]upload, p *problems) []File {
	var out []File
	listed, given := body["attachments"].([]any)
	described := map[string]map[string]any{}
	for _, item := range listed {
		a, _ := item.(map[string]any)
		described[fmt.Sprint(a["id"])] = a
	}
	for _, f := range have {
		if a := described[f.ID]; !given || a != nil {
			out = append(out, f)
			delete(described, f.ID)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(files)) {
		up, a := files[n], described[n]
		if given && a == nil {
			s.complain("files[%s] is not in attachments; with API v10 an edit's list must hold retained and new ones", n)
		}
		delete(described, n)
		f := File{ID: s.snowflake(), Name: fileName(up.name), Type: up.kind, Content: up.content}
		if name, ok := a["filename"].(string); ok {
			f.Name = fileName(name)
		}
		f.Description, _ = a["description"].(string)
		s.files[f.ID] = f
		out = append(out, f)
	}
	for id := range described {
		p.add([]string{"attachments"}, "ATTACHMENT_NOT_FOUND", "Attachment data for %s was not found", id)
	}
	if len(out) > 10 {
		p.add([]string{"attachments"}, "BASE_TYPE_MAX_LENGTH", "Must be 10 or fewer in length.")
	}
	return out
}

var unusual = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// fileName is a name as Discord keeps it: spaces and unusual characters become
// underscores.
func fileName(name string) string {
	return strings.TrimSpace(unusual.ReplaceAllString(name, "_"))
}

// NextFile answers the next request for a file's content with a status.
func (s *Server) NextFile(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fileStatus = status
}

// attachment serves a file's content, as the content network does: without a
// token.
func (s *Server) attachment(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	f, ok := s.files[r.PathValue("id")]
	if r.Header.Get("Authorization") != "" {
		s.complain("the token went to the content network")
	}
	status := s.fileStatus
	s.fileStatus = 0
	s.mu.Unlock()
	if status != 0 {
		w.WriteHeader(status)
		return
	}
	if !ok || f.Name != r.PathValue("name") {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", f.Type)
	_, _ = w.Write(f.Content) // the client may be gone
}
