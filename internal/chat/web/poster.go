package web

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/workflows"
)

// headerKey is the key under which sessions show their header; the root of a
// thread that we start is the header.
const headerKey = "header"

// poster writes the sessions' messages into the store. All of it is idempotent:
// a message is found by thread and key.
type poster struct {
	store *store
	blobs chat.Blobs
}

var (
	_ chat.Poster  = poster{}
	_ chat.Members = poster{}
)

// Limits: an edit costs a local write, so a running command is followed closely.
func (poster) Limits() chat.Limits {
	return chat.Limits{MinRefresh: 500 * time.Millisecond, MaxRefresh: 2 * time.Second}
}

// OpenThread makes the thread. Its root is a person's message, which Temporal
// evidently has and which is shown from now on; or, for a fork, ours.
func (p poster) OpenThread(ctx context.Context, in workflows.OpenThreadInput) (workflows.Thread, error) {
	t := in.Thread
	if t.Channel == "" {
		t.Channel = "general"
	}
	parent := ""
	if src, err := workflows.ParseWorkflowID(in.Parent); err == nil {
		parent = src.ID
	}
	err := p.store.tx(ctx, func(tx *sql.Tx) error {
		if t.ID == "" {
			old, err := byClient(ctx, tx, ours, in.Key)
			switch {
			case err == nil:
				t.ID = old.thread
			case errors.Is(err, errNotFound):
				t.ID = p.store.newID()
			default:
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO threads (id, channel, session, title, parent) VALUES (?1, ?2, 1, ?3, ?4)
			ON CONFLICT (id) DO UPDATE SET session = 1, title = CASE WHEN title = '' THEN ?3 ELSE title END,
				parent = CASE WHEN parent = '' THEN ?4 ELSE parent END`, t.ID, t.Channel, in.Title, parent); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO messages (id, channel, thread, key, client_id, kind, author, at, text)
			VALUES (?1, ?2, ?1, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING`,
			t.ID, t.Channel, headerKey, in.Key, workflows.KindHeader, ours, time.Now().UnixMicro(), chat.Shown(in.Title))
		if err != nil {
			return err
		}
		return show(ctx, tx, t.ID)
	})
	if err != nil {
		return t, err
	}
	p.store.announce()
	return t, nil
}

// Find returns the message under the key.
func (p poster) Find(ctx context.Context, t workflows.Thread, key string, _ time.Time) ([]chat.Found, error) {
	var f chat.Found
	err := p.store.read.QueryRowContext(ctx, `SELECT id, view_version FROM messages WHERE thread = ? AND key = ?`, t.ID, key).Scan(&f.Ref, &f.Version)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []chat.Found{f}, nil
}

// Members returns the people as they are: the web chat has no groups that they
// could have left.
func (poster) Members(_ context.Context, _ workflows.Thread, people []workflows.Actor) ([]workflows.Actor, error) {
	return people, nil
}

// Post stores a message under its key, or brings the one that is there up to
// date.
func (p poster) Post(ctx context.Context, c chat.Content) (string, error) {
	id := ""
	err := p.store.tx(ctx, func(tx *sql.Tx) error {
		t, err := scanThread(tx.QueryRowContext(ctx, `SELECT `+threadColumns+` FROM threads t WHERE t.id = ?`, c.Thread.ID))
		if errors.Is(err, errNotFound) {
			return chat.ErrThreadGone
		}
		if err != nil {
			return err
		}
		err = tx.QueryRowContext(ctx, `SELECT id FROM messages WHERE thread = ? AND key = ?`, t.id, c.View.Key).Scan(&id)
		switch {
		case err == nil:
			return update(ctx, tx, id, c)
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		id = p.store.newID()
		if _, err := tx.ExecContext(ctx, `INSERT INTO messages (id, channel, thread, key, kind, author, at, text, version)
			VALUES (?, ?, ?, ?, ?, ?, ?, '', 0)`, id, t.channel, t.id, c.View.Key, c.View.Kind, ours, time.Now().UnixMicro()); err != nil {
			return err
		}
		return update(ctx, tx, id, c)
	})
	if err != nil {
		return "", err
	}
	p.store.announce()
	return id, nil
}

// Edit makes the message show c, unless it shows something newer already.
func (p poster) Edit(ctx context.Context, ref string, c chat.Content) error {
	err := p.store.tx(ctx, func(tx *sql.Tx) error { return update(ctx, tx, ref, c) })
	if err == nil {
		p.store.announce()
	}
	return err
}

// Delete removes a message. Its row stays, empty, so that readers learn of it.
func (p poster) Delete(ctx context.Context, _ workflows.Thread, ref string) error {
	err := p.store.tx(ctx, func(tx *sql.Tx) error {
		seq, err := nextSeq(ctx, tx)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE messages SET kind = ?, key = NULL, client_id = NULL, text = '', view = '', question = '', reply = '',
			version = version + 1, seq = ? WHERE id = ? AND author = ? AND id != thread AND kind != ?`, kindDeleted, seq, ref, ours, kindDeleted)
		return err
	})
	if err == nil {
		p.store.announce()
	}
	return err
}

// update writes a view into its message. What changes nothing, and what is older
// than what stands there, is left.
func update(ctx context.Context, tx *sql.Tx, id string, c chat.Content) error {
	old, err := scanRow(tx.QueryRowContext(ctx, `SELECT `+rowColumns+` FROM messages WHERE id = ? AND thread = ?`, id, c.Thread.ID))
	if errors.Is(err, errNotFound) || (err == nil && old.deleted()) {
		return chat.ErrMessageGone
	}
	if err != nil || (old.view != nil && old.viewVersion > c.View.Version) {
		return err
	}
	view, err := json.Marshal(c.View)
	if err != nil {
		return err
	}
	text := style.Text(c.View, c.Text)
	if old.view != nil && old.text == text && equalJSON(*old.view, view) {
		return nil
	}
	seq, err := nextSeq(ctx, tx)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE messages SET kind = ?, text = ?, view = ?, view_version = ?, version = version + 1, seq = ? WHERE id = ?`,
		c.View.Kind, text, string(view), c.View.Version, seq, id); err != nil {
		return err
	}
	return project(ctx, tx, c)
}

func equalJSON(v workflows.MessageView, data []byte) bool {
	old, err := json.Marshal(v)
	return err == nil && string(old) == string(data)
}

// project keeps what the API answers about threads and tool calls.
func project(ctx context.Context, tx *sql.Tx, c chat.Content) error {
	if h := c.View.Header; h != nil {
		parent := ""
		if src, err := workflows.ParseWorkflowID(h.Parent); err == nil {
			parent = src.ID
		}
		_, err := tx.ExecContext(ctx, `UPDATE threads SET title = ?, backend = ?, workspace_path = ?, liveness = ?, parent = ? WHERE id = ?`,
			h.Title, h.Backend, h.WorkspacePath, h.Liveness, parent, c.Thread.ID)
		return err
	}
	if c.View.Turn == nil {
		return nil
	}
	for _, call := range c.View.Turn.Calls {
		if _, err := tx.ExecContext(ctx, `INSERT INTO calls (id, exec) VALUES (?1, ?2)
			ON CONFLICT (id) DO UPDATE SET exec = ?2 WHERE ?2 != ''`, call.ID, call.ExecID); err != nil {
			return err
		}
	}
	return nil
}
