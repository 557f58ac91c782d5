package web

import (
	"database/sql"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A full disk is an answer in words, and what was stored before stays.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	s, err := openStore(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.close()) })
	insert := func() error {
		return s.tx(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(t.Context(), `CREATE TABLE IF NOT EXISTS filler (text TEXT)`)
			if err == nil {
				_, err = tx.ExecContext(t.Context(), `INSERT INTO filler VALUES (?)`, strings.Repeat("x", 64<<10))
			}
			return err
		})
	}
	require.NoError(t, insert())
	var pages int
	require.NoError(t, s.write.QueryRowContext(t.Context(), `PRAGMA page_count`).Scan(&pages))
	_, err = s.write.ExecContext(t.Context(), `PRAGMA max_page_count = 60`)
	require.NoError(t, err)
	for range 20 {
		if err = insert(); err != nil {
			break
		}
	}
	require.Error(t, err)
	e := refusal(err)
	require.Equal(t, http.StatusServiceUnavailable, e.status)
	require.Equal(t, "disk_full", e.code)
	require.Contains(t, e.message, "full")
	require.NotContains(t, e.message+e.hint, "SQLITE")

	require.Equal(t, http.StatusInternalServerError, refusal(full(errors.New("something else"))).status)
}
