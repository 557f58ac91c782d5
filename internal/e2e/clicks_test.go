package e2e_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// together clicks from several hands at the same time.
func together(clicks ...func() clicked) []string {
	out := make([]string, len(clicks))
	var all sync.WaitGroup
	for i, click := range clicks {
		all.Go(func() { out[i] = click().Outcome })
	}
	all.Wait()
	return out
}

// clickAs clicks under an ID, and again under it where that was not confirmed.
func (c *client) clickAs(t testing.TB, m message, button, id string) clicked {
	t.Helper()
	return await(t, within, "the click is answered", func() (clicked, bool) {
		out := c.clickOnce(t, m, button, id, nil)
		return out, out.Outcome != "unconfirmed"
	})
}

// Whoever clicks at the same moment: one of them decides, the command runs at most
// once, and everybody is told what became of it.
func TestClicksAtOnce(t *testing.T) {
	t.Parallel()
	d := sharedDev(t)
	ada, grace, linus := d.as("ada"), d.as("grace"), d.as("linus")

	// The same click, sent again before it is answered, and others by the same person.
	id := ada.opens(t, "`rm -rf build; echo once >> ran`")
	m := ada.sees(t, id, "a request", waiting).pending()[0]
	same := func() clicked { return grace.clickAs(t, m, "approve", "double") }
	got := together(same, same, same, func() clicked { return grace.click(t, m, "approve", nil) })
	require.NotContains(t, got, "not_yours")
	th := ada.sees(t, id, "the answer", answered(1))
	require.Equal(t, "once\n", th.inWorkspace(t, "ran"))
	once(t, th)
	require.Len(t, ada.sees(t, id, "it is approved", decided("approved")).all("approval")[0].Approval.Votes, 1)

	// One approves while another denies.
	id = ada.opens(t, "`rm -rf build; echo once >> ran`")
	m = ada.sees(t, id, "a request", waiting).pending()[0]
	got = together(func() clicked { return grace.click(t, m, "approve", nil) }, func() clicked { return linus.click(t, m, "deny", nil) })
	require.ElementsMatch(t, []string{"recorded", "already_decided"}, got)
	th = ada.sees(t, id, "the answer", answered(1))
	if got[0] == "recorded" {
		require.Equal(t, "once\n", th.inWorkspace(t, "ran"))
	} else {
		require.Equal(t, "denied", th.calls(1)[0].State)
		require.Empty(t, th.inWorkspace(t, "ran"))
	}

	// One person is one vote, however often and fast they click.
	id = ada.opens(t, "`git push --force origin main`")
	m = ada.sees(t, id, "a request", waiting).pending()[0]
	vote := func() clicked { return grace.click(t, m, "approve", nil) }
	require.ElementsMatch(t, []string{"recorded", "already_decided", "already_decided"}, together(vote, vote, vote))
	require.Equal(t, "not_yours", ada.click(t, m, "approve", nil).Outcome)
	require.Len(t, ada.thread(t, id).pending(), 1, "it still waits for another one")
	require.Equal(t, "recorded", linus.click(t, m, "deny", nil).Outcome)
}

// A click counts for the request that it was made on, in the thread that it was made
// in: nothing that a client sends with it makes it another's.
func TestClicksMeanWhatTheyWereMadeOn(t *testing.T) {
	t.Parallel()
	d := sharedDev(t)
	ada, grace, linus := d.as("ada"), d.as("grace"), d.as("linus")
	one, two := ada.opens(t, "`rm -rf build`"), grace.opens(t, "`rm -rf build src`")
	a, b := ada.sees(t, one, "a request", waiting).pending()[0], ada.sees(t, two, "another", waiting).pending()[0]
	require.Equal(t, "changed", linus.click(t, a, "approve", map[string]any{"digest": b.Approval.Digest}).Outcome)
	for _, id := range []string{a.Approval.ID, b.Approval.ID, a.ID + "x", "..", "%2e%2e%2f" + b.ID} {
		status, data, err := linus.request(http.MethodPost, "/messages/"+id+"/click", map[string]any{"button": "approve", "values": map[string]any{}})
		require.NoError(t, err)
		require.Contains(t, []int{http.StatusNotFound, http.StatusBadRequest, http.StatusMethodNotAllowed}, status, "%q: %s", id, data)
	}
	for _, button := range []string{"withdraw", "run_again", "leave", "destroy", "stop", "revoke:g1"} {
		linus.refusal(t, http.StatusConflict, http.MethodPost, "/messages/"+a.ID+"/click", map[string]any{"button": button})
	}
	require.Equal(t, "not_yours", linus.click(t, a, "approve", map[string]any{"break_glass": "now"}).Outcome)
	require.Equal(t, "recorded", linus.clickAs(t, b, "deny", "mine").Outcome)
	require.Equal(t, "recorded", linus.clickAs(t, a, "deny", "mine").Outcome, "the same ID on another message is another click")
	for _, id := range []string{one, two} {
		th := ada.sees(t, id, "the answer", answered(1))
		require.Equal(t, "denied", th.calls(1)[0].State)
		require.Equal(t, "made\n", th.inWorkspace(t, "build/out"))
	}
}

// What somebody changes under Review runs byte for byte, is judged anew, and is
// nobody's who approved what it was before.
func TestEditedFromOutside(t *testing.T) {
	t.Parallel()
	d := sharedDev(t)
	ada, grace, linus := d.as("ada"), d.as("grace"), d.as("linus")
	id := ada.opens(t, "`rm -rf build`")
	m := ada.sees(t, id, "a request", waiting).pending()[0]
	edit := "printf '%s\\n' 'a  b\tc' \"$((1+1))\" é # x\necho \"two   blanks\""
	require.Equal(t, "recorded", grace.click(t, m, "approve", map[string]any{"digest": m.Approval.Digest, "command": edit}).Outcome)
	th := ada.sees(t, id, "the answer", answered(1))
	c := th.calls(1)[0]
	require.Equal(t, edit, c.Command)
	require.Equal(t, "a  b\tc\n2\né\ntwo   blanks\n", ada.output(t, c.ID, "stdout", 0))
	require.Equal(t, "made\n", th.inWorkspace(t, "build/out"))

	id = ada.opens(t, "`rm -rf build`")
	m = ada.sees(t, id, "a request", waiting).pending()[0]
	change := func(command string) string {
		return grace.click(t, m, "approve", map[string]any{"digest": m.Approval.Digest, "command": command}).Outcome
	}
	require.Equal(t, "not_yours", change("rm -rf /"))
	require.Equal(t, "recorded", change("git push --force origin main"))
	th = ada.sees(t, id, "it is critical now", func(th thread) bool { return waiting(th) && th.pending()[0].Approval.Tier == "critical" })
	now := th.pending()[0]
	require.Equal(t, m.ID, now.ID)
	require.Equal(t, "changed", linus.click(t, now, "approve", map[string]any{"digest": m.Approval.Digest}).Outcome, "who still sees the old one")
	require.Equal(t, "changed", linus.click(t, now, "approve", nil).Outcome, "who does not say what they see")
	require.Len(t, ada.thread(t, id).pending(), 1)
	require.Equal(t, "recorded", linus.click(t, now, "approve", map[string]any{"digest": now.Approval.Digest}).Outcome)
	ada.sees(t, id, "the answer", answered(1))
}

// A standing permission is for one command, word for word, in one thread.
func TestAGrantFromOutside(t *testing.T) {
	t.Parallel()
	d := sharedDev(t)
	ada, grace := d.as("ada"), d.as("grace")
	id := ada.opens(t, "`rm -rf build`")
	m := ada.sees(t, id, "a request", waiting).pending()[0]
	require.Equal(t, "recorded", grace.click(t, m, "grant", map[string]any{"digest": m.Approval.Digest}).Outcome)
	ada.sees(t, id, "the answer", answered(1))
	ada.says(t, id, "`rm -rf build`")
	require.Len(t, ada.sees(t, id, "it ran", answered(2)).all("approval"), 1, "it is not asked about again")
	ada.says(t, id, "`rm -rf build/`")
	ada.sees(t, id, "another one asks", waiting)
	fork := ada.says(t, id, "/agent fork").Opened
	require.NotEmpty(t, fork)
	ada.says(t, fork, "`rm -rf build`")
	ada.sees(t, fork, "it asks in another thread", waiting)
}
