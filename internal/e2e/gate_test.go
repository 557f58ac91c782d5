package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What changes while it waits does not run, and is asked about anew.
func TestScriptChangedWhileItWaits(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	id := ada.opens(t, "`sh s.sh`")
	ada.sees(t, id, "the script asks", waiting)
	th := ada.sees(t, id, "the workspace is known", func(th thread) bool { return th.WorkspacePath != "" })
	m := th.pending()[0]
	require.NoError(t, os.WriteFile(filepath.Join(th.WorkspacePath, "s.sh"), []byte("echo two > ran; echo evil > evil\n"), 0o644))

	require.Equal(t, "changed", ada.click(t, m, "approve", nil).Outcome)
	th = ada.sees(t, id, "the request is changed, another one waits", func(th thread) bool {
		all := th.all("approval")
		return len(all) == 2 && all[0].Approval.State == "changed" && all[1].Approval.State == "pending"
	})
	require.Empty(t, th.inWorkspace(t, "ran"), "nothing ran")
	require.Empty(t, th.inWorkspace(t, "evil"))
	fresh := th.pending()[0]
	require.NotEqual(t, m.Approval.Digest, fresh.Approval.Digest)
	require.NotEqual(t, m.Approval.ID, fresh.Approval.ID)
	require.Equal(t, "changed", ada.click(t, m, "approve", nil).Outcome, "the old card stays changed")
	require.Equal(t, "changed", ada.click(t, fresh, "approve", map[string]any{"digest": m.Approval.Digest}).Outcome, "a digest of something else does not count")

	ran(t, ada.approves(t, id, 1))
	th = ada.thread(t, id)
	require.Equal(t, "two\n", th.inWorkspace(t, "ran"), "what was approved the second time")
	once(t, th)
}

// Deny, with a reason that the model is told; then a click is too late.
func TestDenied(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	id := ada.opens(t, "`rm -rf build`, then `ls`")
	m := ada.sees(t, id, "a request", waiting).pending()[0]
	require.Equal(t, "recorded", ada.click(t, m, "deny", map[string]any{"reason": "not during the freeze"}).Outcome)
	th := ada.sees(t, id, "the answer", answered(1))
	require.Equal(t, "denied", th.calls(1)[0].State)
	ran(t, th.calls(1)[1])
	require.Contains(t, th.answer(1).Text, "not during the freeze")
	require.Equal(t, "made\n", th.inWorkspace(t, "build/out"))
	m = ada.sees(t, id, "the request is denied", decided("denied")).all("approval")[0]
	require.Contains(t, m.Text, "Denied by @ada")
	require.Equal(t, "already_decided", ada.click(t, m, "approve", nil).Outcome)
}

// A request that nobody decides in time expires, and is not somebody's denial.
func TestExpired(t *testing.T) {
	t.Parallel()
	d := newDev(t, "--set", "approvals.ttl=3s")
	d.up(t)
	ada := d.as("ada")
	id := ada.opens(t, "`rm -rf build`")
	th := ada.sees(t, id, "the answer", answered(1))
	require.Equal(t, "expired", th.calls(1)[0].State)
	m := ada.sees(t, id, "the request", func(th thread) bool { return len(th.all("approval")) > 0 }).all("approval")[0]
	ada.sees(t, id, "the request has expired", decided("expired"))
	require.Equal(t, "expired", ada.click(t, m, "approve", nil).Outcome)
	require.Equal(t, "made\n", th.inWorkspace(t, "build/out"))
}

// A message behind a request is shown as queued, with a button to withdraw.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	id := ada.opens(t, "`rm -rf build`")
	m := ada.sees(t, id, "a request", waiting).pending()[0]
	require.False(t, m.has("withdraw"))
	ada.refusal(t, http.StatusConflict, http.MethodPost, "/messages/"+m.ID+"/click", map[string]string{"button": "withdraw"})
	ada.says(t, id, "rather `echo instead`")
	th := ada.sees(t, id, "the button to withdraw", func(th thread) bool { return waiting(th) && th.pending()[0].has("withdraw") })
	require.Equal(t, "recorded", ada.click(t, th.pending()[0], "withdraw", nil).Outcome)
	th = ada.sees(t, id, "the answer", answered(1))
	require.Contains(t, th.answer(1).Text, "instead")
	th = ada.sees(t, id, "the request is withdrawn", decided("withdrawn"))
	require.Equal(t, "made\n", th.inWorkspace(t, "build/out"))
}

// The short list of what is never allowed is refused without asking.
func TestForbidden(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	id := ada.opens(t, "`rm -rf /`, then `echo on`")
	th := ada.sees(t, id, "the answer", answered(1))
	require.Equal(t, "denied", th.calls(1)[0].State)
	require.Empty(t, th.all("approval"))
	ran(t, th.calls(1)[1])
	require.Contains(t, th.answer(1).Text, "policy")
}
