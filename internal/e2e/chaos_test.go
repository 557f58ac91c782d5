package e2e_test

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox/docker/ownengine"
)

type chaosReport struct {
	OK     bool   `json:"ok"`
	Seed   uint64 `json:"seed"`
	Broken []struct {
		Rule   string `json:"rule"`
		Thread string `json:"thread"`
		What   string `json:"what"`
	} `json:"broken"`
	Counts  map[string]int `json:"counts"`
	Kills   map[string]int `json:"kills"`
	Faults  map[string]int `json:"faults"`
	Without []string       `json:"without"`
	Dir     string         `json:"dir"`
}

func chaos(t testing.TB, args ...string) (int, chaosReport) {
	t.Helper()
	code, out, problem := runs(t, "dev", t.TempDir(), nil, append([]string{"chaos", "--json"}, args...)...)
	var r chaosReport
	require.NoError(t, json.Unmarshal([]byte(out), &r), "%s\n%s", out, problem)
	require.Contains(t, problem, "chaos: seed ", "the seed is printed before anything can hang")
	t.Cleanup(func() { // what is kept of a run that broke a rule is for whom this test tells
		if !t.Failed() {
			require.NoError(t, os.RemoveAll(r.Dir))
		}
	})
	return code, r
}

// A short run: nothing is lost and nothing happens twice while parts are killed and
// frozen and what connects them is cut. Where a Docker engine can be started,
// sessions move to it and back, and it is hit too.
func TestChaos(t *testing.T) {
	t.Parallel()
	// On a machine with more to do the same takes longer.
	lasts := stretched(25*time.Second) / machines
	// The blob store's going away is for longer runs: TestStoreAway is about it alone.
	code, r := chaos(t, "--seed", "11", "--for", lasts.String(), "--people", "4", "--faults", "kill,freeze,cut,stall,clock")
	require.Equal(t, 0, code, "seed %d: %+v; what was recorded is in %s", r.Seed, r.Broken, r.Dir)
	require.True(t, r.OK)
	require.Empty(t, r.Broken)
	require.Greater(t, r.Counts["messages"], 5)
	require.Greater(t, r.Counts["journal_lines"], 5)
	require.Greater(t, r.Kills["bot"]+r.Kills["worker-1"]+r.Kills["worker-2"]+r.Kills["server"], 1, "kills take turns with other faults")
	require.Positive(t, r.Faults["freeze"]+r.Faults["cut"]+r.Faults["stall"])
}

// The checker finds what is planted, and calls it by its name. These are tests of their
// own as they mostly wait, which subtests would do when all others have ended.

func TestChaosFindsDoubleExec(t *testing.T) {
	t.Parallel()
	finds(t, "double-exec", "exec-twice", "--no-docker")
}

func TestChaosFindsLostMessage(t *testing.T) {
	t.Parallel()
	finds(t, "lost-message", "message-lost", "--no-docker")
}

func TestChaosFindsDoublePost(t *testing.T) {
	t.Parallel()
	finds(t, "double-post", "post-twice", "--no-docker")
}

func TestChaosFindsStaleSave(t *testing.T) {
	t.Parallel()
	if why := ownengine.Cannot(); why != "" {
		t.Skip(why) // it is found where sessions move
	}
	finds(t, "stale-save", "work-lost", "--faults", "kill,cut", "--people", "5")
}

func TestChaosKnowsItsDefects(t *testing.T) {
	t.Parallel()
	code, _, _ := runs(t, "dev", t.TempDir(), nil, "chaos", "--defect", "none-such")
	require.Equal(t, 2, code)
}

// finds makes runs with a defect until one breaks the rule that it is to break.
func finds(t *testing.T, defect, rule string, more ...string) {
	t.Helper()
	lasts := stretched(12*time.Second) / machines
	args := append([]string{"--for", lasts.String(), "--people", "3", "--defect", defect}, more...)
	code, r := 0, chaosReport{}
	for seed := 2; code == 0 && seed < 6; seed++ { // a short run need not meet it
		code, r = chaos(t, append(args, "--seed", strconv.Itoa(seed))...)
	}
	require.Equal(t, 1, code)
	require.False(t, r.OK)
	var rules []string
	for _, b := range r.Broken {
		rules = append(rules, b.Rule)
	}
	require.Contains(t, rules, rule, "%+v", r)
}
