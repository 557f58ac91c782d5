package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/audit"
)

const id = "agent/web/main/1"

type store map[string][]byte

func (s store) PutNew(_ context.Context, key string, data []byte) error {
	if _, ok := s[key]; ok {
		return errors.New("taken")
	}
	s[key] = data
	return nil
}

func (s store) Get(_ context.Context, key string) ([]byte, error) {
	if data, ok := s[key]; ok {
		return data, nil
	}
	return nil, errors.New("no such blob")
}

func written(t *testing.T, n int) (store, audit.Chain, []audit.Entry) {
	var c audit.Chain
	var entries []audit.Entry
	for range n {
		entries = append(entries, c.Add(audit.Entry{
			At: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Kind: audit.KindVote, WorkflowID: id, Actor: "grace",
			Evidence: []string{"oncall"}, Command: "rm -rf build",
		}))
	}
	s := store{}
	require.NoError(t, audit.Record(t.Context(), s, entries))
	require.NoError(t, audit.Record(t.Context(), s, entries), "a retry writes the same")
	return s, c, entries
}

func TestWhole(t *testing.T) {
	t.Parallel()
	s, c, _ := written(t, 12)
	r := audit.Verify(t.Context(), s, id, c)
	require.True(t, r.OK(), r.Problems)
	require.Equal(t, 12, r.Entries)
	require.True(t, audit.Verify(t.Context(), store{}, id, audit.Chain{}).OK())
}

func TestDamageShows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage func(store)
		seq    int
	}{
		"changed":  {func(s store) { k := audit.Key(id, 3); s[k] = bytes.Replace(s[k], []byte("grace"), []byte("heidi"), 1) }, 3},
		"missing":  {func(s store) { delete(s, audit.Key(id, 2)) }, 2},
		"cut off":  {func(s store) { delete(s, audit.Key(id, 5)) }, 5},
		"replayed": {func(s store) { s[audit.Key(id, 4)] = s[audit.Key(id, 3)] }, 4},
		"rewritten with a new hash": {func(s store) {
			var e audit.Entry
			_ = json.Unmarshal(s[audit.Key(id, 3)], &e)
			e.Actor = "heidi"
			e.Hash = e.Sum()
			s[audit.Key(id, 3)], _ = json.Marshal(e)
		}, 4},
		"last one rewritten with a new hash": {func(s store) {
			var e audit.Entry
			_ = json.Unmarshal(s[audit.Key(id, 5)], &e)
			e.Actor = "heidi"
			e.Hash = e.Sum()
			s[audit.Key(id, 5)], _ = json.Marshal(e)
		}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, head, _ := written(t, 5)
			c.damage(s)
			r := audit.Verify(t.Context(), s, id, head)
			require.NotEmpty(t, r.Problems)
			require.Equal(t, c.seq, r.Problems[0].Seq, r.Problems)
		})
	}
}

func TestAnotherEntryUnderTheSameNumberIsRefused(t *testing.T) {
	t.Parallel()
	s, _, entries := written(t, 2)
	other := entries[1]
	other.Actor = "mallory"
	require.ErrorContains(t, audit.Record(t.Context(), s, []audit.Entry{other}), "with other content")
}

// Every field is covered: a field that a later version adds and forgets to hash
// fails here.
func TestEveryFieldCounts(t *testing.T) {
	t.Parallel()
	full := audit.Entry{
		Seq: 1, Prev: "p", At: time.Unix(1, 2), Kind: "k", WorkflowID: "w", RunID: "r", EventID: 7, Actor: "a",
		Evidence: []string{"e"}, Interaction: "i", ToolCall: "t", Exec: "x", Approval: "ap", Tier: "ti", Digest: "d",
		PolicyVersion: "pv", Command: "c", Whole: "wh", Reasons: []string{"re"}, Outcome: "o", Text: "te", ExitCode: new(int), Millis: 8,
	}
	data, err := json.Marshal(full)
	require.NoError(t, err)
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(data, &fields))
	require.Len(t, fields, 24)
	for name := range fields {
		if name == "hash" {
			continue
		}
		less := map[string]json.RawMessage{}
		for k, v := range fields {
			if k != name {
				less[k] = v
			}
		}
		data, err := json.Marshal(less)
		require.NoError(t, err)
		var e audit.Entry
		require.NoError(t, json.Unmarshal(data, &e))
		require.NotEqual(t, full.Sum(), e.Sum(), name)
	}
}
