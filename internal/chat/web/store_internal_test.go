package web

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAPanicLocksNothing: a message that cannot be rendered leaves the store open for
// the others.
func TestAPanicLocksNothing(t *testing.T) {
	t.Parallel()
	st, err := openStore(t.Context(), t.TempDir())
	require.NoError(t, err)
	defer func() { require.NoError(t, st.close()) }()
	require.Panics(t, func() { _ = st.tx(t.Context(), func(*sql.Tx) error { panic("slice bounds out of range") }) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, st.tx(ctx, func(*sql.Tx) error { return nil }))
}
