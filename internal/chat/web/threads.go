package web

import (
	"context"
	"database/sql"
	"errors"

	"github.com/countersign/countersign/internal/workflows"
)

// thread is a thread as it is stored. One without a session holds a command
// given in the channel and its answer.
type thread struct {
	id, channel      string
	session          bool
	title, backend   string
	workspacePath    string
	liveness, parent string
}

func (t thread) workflow() workflows.Thread {
	return workflows.Thread{Platform: workflows.PlatformWeb, Team: workflows.WebTeam, Channel: t.channel, ID: t.id}
}

const threadColumns = `t.id, t.channel, t.session, t.title, t.backend, t.workspace_path, t.liveness, t.parent`

func scanThread(sc scanner) (thread, error) {
	var t thread
	err := sc.Scan(&t.id, &t.channel, &t.session, &t.title, &t.backend, &t.workspacePath, &t.liveness, &t.parent)
	if errors.Is(err, sql.ErrNoRows) {
		return t, errNotFound
	}
	return t, err
}

// thread returns a thread whose starting message is visible.
func (s *store) thread(ctx context.Context, id string) (thread, error) {
	return scanThread(s.read.QueryRowContext(ctx, `SELECT `+threadColumns+` FROM threads t
		JOIN messages m ON m.id = t.id WHERE t.id = ? AND m.seq > 0`, id))
}

// sessions returns a channel's threads that hold a session, newest first.
func (s *store) sessions(ctx context.Context, channel string) ([]thread, error) {
	rs, err := s.read.QueryContext(ctx, `SELECT `+threadColumns+` FROM threads t
		JOIN messages m ON m.id = t.id WHERE t.channel = ? AND t.session = 1 AND m.seq > 0 ORDER BY t.id DESC`, channel)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rs.Close() }()
	var out []thread
	for rs.Next() {
		t, err := scanThread(rs)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, rs.Err()
}

type channel struct {
	ID    string `json:"id"`
	Title string `json:"title"`
}

func (s *store) channels(ctx context.Context) ([]channel, error) {
	rs, err := s.read.QueryContext(ctx, `SELECT id, title FROM channels ORDER BY id`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rs.Close() }()
	out := []channel{}
	for rs.Next() {
		var c channel
		if err := rs.Scan(&c.ID, &c.Title); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, rs.Err()
}

func (s *store) hasChannel(ctx context.Context, id string) (bool, error) {
	var n int
	err := s.read.QueryRowContext(ctx, `SELECT count(*) FROM channels WHERE id = ?`, id).Scan(&n)
	return n > 0, err
}

// people returns everybody who has written, by name.
func (s *store) people(ctx context.Context) ([]string, error) {
	rs, err := s.read.QueryContext(ctx, `SELECT DISTINCT author FROM messages WHERE kind = ? AND seq > 0 ORDER BY author LIMIT 200`, kindUser)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rs.Close() }()
	out := []string{}
	for rs.Next() {
		var p string
		if err := rs.Scan(&p); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, rs.Err()
}

// exec returns the exec of a tool call that was seen on a turn card.
func (s *store) exec(ctx context.Context, callID string) (string, error) {
	var exec string
	err := s.read.QueryRowContext(ctx, `SELECT exec FROM calls WHERE id = ?`, callID).Scan(&exec)
	if errors.Is(err, sql.ErrNoRows) {
		return "", errNotFound
	}
	return exec, err
}
