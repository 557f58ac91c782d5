package web

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/countersign/countersign/internal/chat"
)

// schema is version 1. IDs are decimal numbers of one width, so they sort as
// texts. A message with seq 0 is pending: not shown to anybody.
const schema = `
CREATE TABLE IF NOT EXISTS channels (id TEXT PRIMARY KEY, title TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS threads (
	id TEXT PRIMARY KEY, channel TEXT NOT NULL, session INTEGER NOT NULL DEFAULT 0,
	title TEXT NOT NULL DEFAULT '', backend TEXT NOT NULL DEFAULT '', workspace_path TEXT NOT NULL DEFAULT '',
	liveness TEXT NOT NULL DEFAULT 'active', parent TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS messages (
	id TEXT PRIMARY KEY, channel TEXT NOT NULL, thread TEXT NOT NULL, key TEXT, kind TEXT NOT NULL,
	author TEXT NOT NULL, client_id TEXT, at INTEGER NOT NULL, text TEXT NOT NULL,
	view TEXT NOT NULL DEFAULT '', view_version INTEGER NOT NULL DEFAULT 0,
	question TEXT NOT NULL DEFAULT '', reply TEXT NOT NULL DEFAULT '', opens TEXT NOT NULL DEFAULT '',
	version INTEGER NOT NULL DEFAULT 1, seq INTEGER NOT NULL DEFAULT 0,
	UNIQUE (thread, key), UNIQUE (author, client_id));
CREATE INDEX IF NOT EXISTS messages_by_thread ON messages (thread, id);
CREATE UNIQUE INDEX IF NOT EXISTS messages_by_seq ON messages (seq) WHERE seq > 0;
CREATE INDEX IF NOT EXISTS messages_pending ON messages (id) WHERE seq = 0;
CREATE TABLE IF NOT EXISTS calls (id TEXT PRIMARY KEY, exec TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS attached (
	message TEXT NOT NULL, n INTEGER NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, bytes INTEGER NOT NULL, PRIMARY KEY (message, n));
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, n INTEGER NOT NULL);
INSERT OR IGNORE INTO channels (id, title) VALUES ('general', 'general');
INSERT OR IGNORE INTO counters (name, n) VALUES ('seq', 0);
PRAGMA user_version = 1;
`

// schemaVersion is what user_version says of a file that this program can read.
const schemaVersion = 1

var errNotFound = errors.New("not found")

// store is the chat's file. It is safe for concurrent use; writes go one after
// the other.
type store struct {
	write, read *sql.DB

	mu     sync.Mutex
	lastID int64
	// changed is closed and replaced when something visible has changed.
	changed chan struct{}
}

// openStore opens or makes the file dir/chat.db.
func openStore(ctx context.Context, dir string) (*store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the web chat's directory: %w", err)
	}
	path := filepath.Join(dir, "chat.db")
	s := &store{changed: make(chan struct{})}
	var err error
	if s.write, err = openDB(path, "immediate", 1); err == nil {
		err = s.migrate(ctx)
	}
	if err == nil {
		s.read, err = openDB(path, "deferred", 8)
	}
	if err == nil {
		err = s.write.QueryRowContext(ctx, `SELECT coalesce(max(id), '0') FROM (SELECT id FROM messages UNION ALL SELECT id FROM threads)`).Scan(&s.lastID)
	}
	if err != nil {
		_ = s.close()
		return nil, fmt.Errorf("opening the web chat's store %s: %w", path, err)
	}
	return s, nil
}

func openDB(path, txlock string, conns int) (*sql.DB, error) {
	q := url.Values{"_txlock": {txlock}, "_pragma": {
		"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(NORMAL)", "foreign_keys(ON)",
	}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	return db, nil
}

func (s *store) migrate(ctx context.Context) error {
	var v int
	if err := s.write.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&v); err != nil {
		return err
	}
	if v > schemaVersion {
		return fmt.Errorf("the file has version %d, this program knows up to %d: use a newer one", v, schemaVersion)
	}
	return s.tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, schema)
		return err
	})
}

func (s *store) close() error {
	var errs []error
	for _, db := range []*sql.DB{s.read, s.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// tx runs f in a write transaction. On a full disk its error says so, in words.
func (s *store) tx(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return full(err)
	}
	defer func() { _ = tx.Rollback() }() // done, unless f panicked
	if err := f(tx); err != nil {
		return full(errors.Join(err, ignoreDone(tx.Rollback())))
	}
	return full(tx.Commit())
}

// full puts a full disk into words; other errors stay as they are.
func full(err error) error {
	var sqliteErr *sqlite.Error
	if !errors.Is(err, syscall.ENOSPC) && !(errors.As(err, &sqliteErr) && sqliteErr.Code()&0xff == sqlite3.SQLITE_FULL) {
		return err
	}
	return &chat.Error{
		Kind: chat.KindUnavailable, Code: "disk_full", Message: "The disk that holds the web chat is full. Nothing was taken.",
		Hint: "Free space in the data directory, then send it again.", Err: err,
	}
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// newID gives out message IDs: microseconds since 1970, always greater than all
// before.
func (s *store) newID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID = max(time.Now().UnixMicro(), s.lastID+1)
	return fmt.Sprintf("%016d", s.lastID)
}

// timeOf is when a message ID was given out; one that was given out while the clock
// stood before the last one's time is a microsecond later than that.
func timeOf(id string) time.Time {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

// nextSeq numbers a visible change.
func nextSeq(ctx context.Context, tx *sql.Tx) (int64, error) {
	var n int64
	err := tx.QueryRowContext(ctx, `UPDATE counters SET n = n + 1 WHERE name = 'seq' RETURNING n`).Scan(&n)
	return n, err
}

// lastSeq is the number of the newest visible change.
func (s *store) lastSeq(ctx context.Context) (int64, error) {
	var n int64
	err := s.read.QueryRowContext(ctx, `SELECT n FROM counters WHERE name = 'seq'`).Scan(&n)
	return n, err
}

// announce wakes those who wait for changes.
func (s *store) announce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// wait returns a channel that is closed at the next change.
func (s *store) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// isID reports whether id has the form of IDs here.
func isID(id string) bool {
	if len(id) != 16 {
		return false
	}
	_, err := strconv.ParseUint(id, 10, 64)
	return err == nil
}
