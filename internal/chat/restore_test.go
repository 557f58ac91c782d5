package chat_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
)

// TestRerun: what is asked for while somebody looks is looked for after that, once.
func TestRerun(t *testing.T) {
	t.Parallel()
	var r chat.Rerun
	var looks, others int
	r.Do("a", func() {
		if looks++; looks > 1 {
			return
		}
		var asking sync.WaitGroup
		for range 5 {
			asking.Go(func() { r.Do("a", func() { t.Error("two look at once") }) })
		}
		asking.Go(func() { r.Do("b", func() { others++ }) })
		asking.Wait()
	})
	require.Equal(t, 2, looks)
	require.Equal(t, 1, others, "other keys do not wait")
	r.Do("a", func() { looks++ })
	require.Equal(t, 3, looks)
}
