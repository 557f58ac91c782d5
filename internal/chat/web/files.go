package web

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/blob/owned"
	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/workflows"
)

// uploadID is what an upload is named: nothing else of the blob store can be
// attached.
var uploadID = regexp.MustCompile(`^` + owned.Uploads + `/[0-9a-f]{64}$`)

// upload is a file that may be attached to a message.
type upload struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// postFile keeps the request's body for a message to attach: its name is the
// query's. The same content has the same ID.
func (s *Server) postFile(w http.ResponseWriter, r *http.Request, _ workflows.Actor) error {
	name := r.URL.Query().Get("name")
	if name == "" || len(name) > 1000 || !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
		return refuse(&apiError{http.StatusBadRequest, "bad_name", "The file has no usable name.", "Send it as ?name=…"})
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, workflows.MaxFileBytes))
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return refuse(&apiError{http.StatusRequestEntityTooLarge, "too_large", "The file is larger than " + chat.Size(workflows.MaxFileBytes) + ".", "Send a smaller one, or let the agent fetch it."})
	case err != nil:
		return refuse(&apiError{http.StatusBadRequest, "unreadable", "The request broke off.", "Send it again."})
	}
	key, err := s.opt.Blobs.Put(r.Context(), owned.Uploads, data)
	if err != nil {
		return fmt.Errorf("keeping an upload: %w", err)
	}
	answer(w, http.StatusCreated, upload{ID: key, Name: name, Bytes: int64(len(data))})
	return nil
}

// checkFiles refuses what was never uploaded, and more than a message brings.
func checkFiles(files []upload) *apiError {
	if len(files) > workflows.MaxAttached {
		return &apiError{http.StatusBadRequest, "too_many_files", fmt.Sprintf("A message brings at most %d files.", workflows.MaxAttached), "Send the others with another message."}
	}
	for _, f := range files {
		if !uploadID.MatchString(f.ID) || f.Name == "" || len(f.Name) > 1000 || f.Bytes < 0 || strings.ContainsRune(f.Name, 0) {
			return &apiError{http.StatusBadRequest, "bad_file", "A file of the message is no upload.", "Use what POST /api/v1/files answered."}
		}
	}
	return nil
}

// getFile answers the file that a message of ours shows.
func (s *Server) getFile(w http.ResponseWriter, r *http.Request, _ workflows.Actor) error {
	m, err := s.store.message(r.Context(), r.PathValue("message"))
	if errors.Is(err, errNotFound) || (err == nil && (m.view == nil || m.view.File == nil)) {
		return refuse(notFound("file"))
	}
	if err != nil {
		return err
	}
	data, err := s.opt.Blobs.Get(r.Context(), m.view.File.Ref)
	if errors.Is(err, blob.ErrNotFound) {
		return refuse(&apiError{http.StatusNotFound, "not_kept", "The file is no longer kept.", "Ask for it again with /agent files."})
	}
	if err != nil {
		return fmt.Errorf("reading a file: %w", err)
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream") // whatever it is, no browser runs it here
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": m.view.File.Name}))
	h.Set("Content-Length", strconv.Itoa(len(data)))
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "sandbox")
	_, _ = w.Write(data) // the client is gone
	return nil
}

// attach keeps which files a message brings.
func attach(ctx context.Context, tx *sql.Tx, id string, files []upload) error {
	for i, f := range files {
		if _, err := tx.ExecContext(ctx, `INSERT INTO attached (message, n, id, name, bytes) VALUES (?, ?, ?, ?, ?)`, id, i, f.ID, f.Name, f.Bytes); err != nil {
			return err
		}
	}
	return nil
}

// attached returns the files that a message brings.
func (s *store) attached(ctx context.Context, id string) ([]workflows.Attachment, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT id, name, bytes FROM attached WHERE message = ? ORDER BY n`, id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []workflows.Attachment
	for rows.Next() {
		var a workflows.Attachment
		if err := rows.Scan(&a.ID, &a.Name, &a.Bytes); err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, rows.Err()
}

var _ chat.Fetcher = poster{}

// Fetch returns an upload's content.
func (p poster) Fetch(ctx context.Context, _ workflows.Thread, _ string, a workflows.Attachment, limit int64) ([]byte, error) {
	if !uploadID.MatchString(a.ID) {
		return nil, &chat.FetchError{Why: "it was never uploaded"}
	}
	data, err := p.blobs.Get(ctx, a.ID)
	switch {
	case errors.Is(err, blob.ErrNotFound), errors.Is(err, blob.ErrBadKey):
		return nil, &chat.FetchError{Why: "it was never uploaded"}
	case err == nil && int64(len(data)) > limit:
		return nil, &chat.FetchError{Why: "it is larger than " + chat.Size(limit)}
	}
	return data, err
}

// withNames is a message's text with the names of the files that it brings, as
// people see it.
func withNames(text string, files []upload) string {
	if len(files) == 0 {
		return text
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Name
	}
	return strings.TrimSpace(text + "\n\n" + attachedLine(names))
}

// withoutNames is what was typed of a text that [withNames] made.
func withoutNames(text string, files []workflows.Attachment) string {
	if len(files) == 0 {
		return text
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Name
	}
	return strings.TrimSpace(strings.TrimSuffix(text, attachedLine(names)))
}

func attachedLine(names []string) string {
	shown := make([]string, len(names))
	for i, n := range names {
		shown[i] = strings.ReplaceAll(chat.Cut(chat.Shown(n), 200), "`", "'")
	}
	return "Attached: " + strings.Join(shown, ", ")
}
