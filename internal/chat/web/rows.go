package web

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/workflows"
)

// ours is the author of the sessions' messages.
const ours = "countersign"

const (
	kindUser = "user"
	// kindDeleted is what is left of a message that was removed: its ID, so that
	// readers who have it take it away.
	kindDeleted = "deleted"
)

// row is a message as it is stored.
type row struct {
	id, channel, thread string
	key                 string // empty for a person's
	kind, author        string
	clientID            string
	at                  time.Time
	text                string
	view                *workflows.MessageView // nil for a person's and for replies to commands
	viewVersion         int
	question            string
	buttons             []workflows.Button // of a reply
	reply               string             // what the author alone was told
	opens               string             // the thread that a command opened
	version             int
	seq                 int64
	files               []upload // that a new message brings
}

func (r row) pending() bool { return r.seq == 0 }

func (r row) deleted() bool { return r.kind == kindDeleted }

const rowColumns = `id, channel, thread, coalesce(key, ''), kind, author, coalesce(client_id, ''), at, text,
	view, view_version, question, reply, opens, version, seq`

type scanner interface{ Scan(dest ...any) error }

func scanRow(sc scanner) (row, error) {
	var r row
	var at int64
	var view string
	err := sc.Scan(&r.id, &r.channel, &r.thread, &r.key, &r.kind, &r.author, &r.clientID, &at, &r.text,
		&view, &r.viewVersion, &r.question, &r.reply, &r.opens, &r.version, &r.seq)
	if errors.Is(err, sql.ErrNoRows) {
		return r, errNotFound
	}
	if err != nil {
		return r, err
	}
	r.at = time.UnixMicro(at).UTC()
	if view != "" {
		var v workflows.MessageView
		if err := json.Unmarshal([]byte(view), &v); err != nil {
			return r, fmt.Errorf("reading message %s: %w", r.id, err)
		}
		if v.Key == "" { // a reply to a command: only its buttons are kept
			r.buttons = v.Buttons
		} else {
			r.view, r.buttons = &v, v.Buttons
		}
	}
	return r, nil
}

// message returns one message.
func (s *store) message(ctx context.Context, id string) (row, error) {
	r, err := scanRow(s.read.QueryRowContext(ctx, `SELECT `+rowColumns+` FROM messages WHERE id = ?`, id))
	if err == nil && r.deleted() {
		return row{}, errNotFound
	}
	return r, err
}

// byClient returns the message that an author has sent under a client_id.
func byClient(ctx context.Context, tx *sql.Tx, author, clientID string) (row, error) {
	return scanRow(tx.QueryRowContext(ctx, `SELECT `+rowColumns+` FROM messages WHERE author = ? AND client_id = ?`, author, clientID))
}

func (s *store) rows(ctx context.Context, where string, args ...any) ([]row, error) {
	rs, err := s.read.QueryContext(ctx, `SELECT `+rowColumns+` FROM messages WHERE `+where, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rs.Close() }()
	var out []row
	for rs.Next() {
		r, err := scanRow(rs)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rs.Err()
}

// inThread returns a thread's visible messages in order.
func (s *store) inThread(ctx context.Context, thread string) ([]row, error) {
	return s.rows(ctx, `thread = ? AND seq > 0 AND kind != ? ORDER BY id`, thread, kindDeleted)
}

// inChannel returns what was said in a channel without opening a session.
func (s *store) inChannel(ctx context.Context, channel string) ([]row, error) {
	return s.rows(ctx, `channel = ? AND seq > 0 AND kind != ? AND thread IN (SELECT id FROM threads WHERE session = 0) ORDER BY id`, channel, kindDeleted)
}

// since returns the messages that changed after the given number, removed ones
// too, oldest change first, at most limit.
func (s *store) since(ctx context.Context, after int64, limit int) ([]row, error) {
	return s.rows(ctx, `seq > ? ORDER BY seq LIMIT ?`, after, limit)
}

// pendingRows returns the messages that Temporal may not have.
func (s *store) pendingRows(ctx context.Context) ([]row, error) {
	return s.rows(ctx, `seq = 0 ORDER BY id`)
}

func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// begin stores a person's message, pending, unless the author has sent one under
// this client_id already. thread is empty for a message that starts one.
func (s *store) begin(ctx context.Context, r row) (row, error) {
	err := s.tx(ctx, func(tx *sql.Tx) error {
		if r.clientID != "" {
			old, err := byClient(ctx, tx, r.author, r.clientID)
			if err == nil {
				r = old
				return nil
			}
			if !errors.Is(err, errNotFound) {
				return err
			}
		}
		r.id, r.kind = s.newID(), kindUser
		r.at = timeOf(r.id) // in the order in which they came, however the clock is set
		if r.thread == "" {
			r.thread = r.id
			if _, err := tx.ExecContext(ctx, `INSERT INTO threads (id, channel) VALUES (?, ?)`, r.id, r.channel); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO messages (id, channel, thread, kind, author, client_id, at, text) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			r.id, r.channel, r.thread, r.kind, r.author, nullable(r.clientID), r.at.UnixMicro(), r.text)
		if err != nil {
			return err
		}
		return attach(ctx, tx, r.id, r.files)
	})
	return r, err
}

// abandon forgets a pending message that was not taken.
func (s *store) abandon(ctx context.Context, r row) error {
	return s.tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM messages WHERE id = ? AND seq = 0`, r.id); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM attached WHERE message = ?1 AND NOT EXISTS (SELECT 1 FROM messages WHERE id = ?1)`, r.id); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM threads WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM messages WHERE thread = ?1)`, r.id)
		return err
	})
}

// accept shows a message that Temporal has, and beside it what it was answered.
func (s *store) accept(ctx context.Context, r row, reply chat.Reply) (row, error) {
	err := s.tx(ctx, func(tx *sql.Tx) error {
		if err := show(ctx, tx, r.id); err != nil {
			return err
		}
		r.reply, r.opens = "", ""
		if reply.Opens {
			r.opens = reply.Thread.ID
			if err := setSession(ctx, tx, r.channel, reply); err != nil {
				return err
			}
		}
		if reply.Text != "" && reply.Private {
			r.reply = reply.Text
		}
		if _, err := tx.ExecContext(ctx, `UPDATE messages SET reply = ?, opens = ? WHERE id = ?`, r.reply, r.opens, r.id); err != nil {
			return err
		}
		if reply.Text == "" || reply.Private {
			return nil
		}
		return s.answer(ctx, tx, r, reply)
	})
	if err != nil {
		return r, err
	}
	s.announce()
	return r, nil
}

// show makes a pending message visible.
func show(ctx context.Context, tx *sql.Tx, id string) error {
	seq, err := nextSeq(ctx, tx)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE messages SET seq = ? WHERE id = ? AND seq = 0`, seq, id)
	return err
}

func setSession(ctx context.Context, tx *sql.Tx, channel string, reply chat.Reply) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO threads (id, channel, session, title, backend) VALUES (?1, ?2, 1, ?3, ?4)
		ON CONFLICT (id) DO UPDATE SET session = 1,
			title = CASE WHEN title = '' THEN ?3 ELSE title END, backend = CASE WHEN backend = '' THEN ?4 ELSE backend END`,
		reply.Thread.ID, channel, reply.Title, reply.Backend)
	return err
}

// answer stores the reply to a command as a notice of ours.
func (s *store) answer(ctx context.Context, tx *sql.Tx, r row, reply chat.Reply) error {
	view, err := buttonsOnly(reply.Buttons)
	if err != nil {
		return err
	}
	seq, err := nextSeq(ctx, tx)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO messages (id, channel, thread, key, kind, author, at, text, view, question, seq)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (thread, key) DO NOTHING`,
		s.newID(), r.channel, r.thread, "reply-"+r.id, workflows.KindNotice, ours, time.Now().UnixMicro(), reply.Text, view, reply.Question, seq)
	return err
}

// settle takes a question's buttons away, all but those that are left, and adds
// what was answered. It reports false when that has been done already.
func (s *store) settle(ctx context.Context, id, answered string, left []workflows.Button) (bool, error) {
	view, err := buttonsOnly(left)
	if err != nil {
		return false, err
	}
	done := false
	err = s.tx(ctx, func(tx *sql.Tx) error {
		seq, err := nextSeq(ctx, tx)
		if err != nil {
			return err
		}
		res, err := tx.ExecContext(ctx, `UPDATE messages SET text = text || ?, view = ?, version = version + 1, seq = ? WHERE id = ? AND view != ''`,
			"\n\n"+answered, view, seq, id)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		done = n > 0
		return err
	})
	if done {
		s.announce()
	}
	return done, err
}

// buttonsOnly is how the buttons of a reply are stored.
func buttonsOnly(buttons []workflows.Button) (string, error) {
	if len(buttons) == 0 {
		return "", nil
	}
	data, err := json.Marshal(workflows.MessageView{Buttons: buttons})
	return string(data), err
}
