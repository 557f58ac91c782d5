package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// collect runs `worker gc` with no time of grace.
func (d *dev) collect(t testing.TB, args ...string) (blobs, kept int) {
	t.Helper()
	code, out, errs := runs(t, "worker", d.home, d.env, append([]string{"gc", "--data-dir", d.dir, "--grace=0s", "--json"}, args...)...)
	require.Zero(t, code, "%s", errs)
	var res struct{ Blobs, Kept int }
	require.NoError(t, json.Unmarshal([]byte(out), &res), "%s", out)
	return res.Blobs, res.Kept
}

// What no session needs of the snapshots is removed, and nothing else: live
// sessions, their forks and destroyed ones go on from theirs.
func TestSnapshotsAreCollected(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	ada := d.as("ada")
	id := ada.opens(t, "`echo one > f`")
	ada.sees(t, id, "turn 1", answered(1))
	// Twice the one before the newest: a fork may be on its way with it.
	for turn, word := range []string{"two", "three", "four"} {
		ada.says(t, id, "`echo "+word+" > f`")
		ada.sees(t, id, "a turn", answered(turn+2))
	}
	ada.says(t, id, "/agent pause") // the snapshot is on record by then
	ada.sees(t, id, "it is paused", func(th thread) bool { return th.Liveness == "paused" })

	blobs, _ := d.collect(t, "--dry-run")
	require.Positive(t, blobs)
	again, kept := d.collect(t)
	require.Equal(t, blobs, again, "the dry run said so")
	require.Positive(t, kept)
	blobs, _ = d.collect(t)
	require.Zero(t, blobs)

	forked := ada.says(t, id, `/agent fork "copy"`).Opened
	require.NotEmpty(t, forked)
	ada.says(t, forked, "`cat f`")
	require.Contains(t, ada.sees(t, forked, "the fork answers", answered(1)).answer(1).Text, "four")

	// The image that tools read.
	out := filepath.Join(d.home, "image")
	code, ref, errs := runs(t, "worker", d.home, d.env, "snapshot", "export", "--data-dir", d.dir, id, out)
	require.Zero(t, code, "%s", errs)
	require.FileExists(t, filepath.Join(out, "index.json"))
	require.FileExists(t, filepath.Join(out, "blobs", "sha256", strings.TrimPrefix(strings.TrimSpace(ref), "sha256:")))

	// A damaged one is said to be, and harms nobody else.
	layers, err := filepath.Glob(filepath.Join(d.dir, "blobs", "snapshots", "blobs", "sha256", "*"))
	require.NoError(t, err)
	for _, file := range layers {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.HasPrefix(string(data), "\x28\xb5\x2f\xfd") { // zstd
			data[len(data)-1] ^= 1
			require.NoError(t, os.WriteFile(file, data, 0o600))
		}
	}
	broken := ada.says(t, id, `/agent fork "broken"`).Opened
	require.NotEmpty(t, broken)
	ada.says(t, broken, "`cat f`")
	ada.sees(t, broken, "the reason", func(th thread) bool {
		for _, m := range th.Messages {
			if strings.Contains(m.Text, "The snapshot is damaged") {
				return true
			}
		}
		return false
	})
	ada.says(t, id, "`cat f`")
	require.Contains(t, ada.sees(t, id, "the source goes on", answered(5)).answer(5).Text, "four")
}
