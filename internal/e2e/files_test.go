package e2e_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// upload is a file that a message may bring.
type upload struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

func (c *client) uploads(t *testing.T, name, content string) upload {
	t.Helper()
	status, data, err := c.request(http.MethodPost, "/files?name="+url.QueryEscape(name), []byte(content))
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, status, "%.300s", data)
	var u upload
	require.NoError(t, json.Unmarshal(data, &u))
	require.EqualValues(t, len(content), u.Bytes)
	return u
}

// brings sends a message with files; the same clientID is one message.
func (c *client) brings(t *testing.T, thread, clientID, text string, files ...upload) {
	t.Helper()
	await(t, within, "the message is taken", func() (string, bool) {
		status, data, err := c.request(http.MethodPost, "/threads/"+thread+"/messages", map[string]any{"text": text, "client_id": clientID, "files": files})
		require.NoError(t, err)
		require.Contains(t, []int{http.StatusAccepted, http.StatusServiceUnavailable}, status, "%.300s", data)
		return string(data), status == http.StatusAccepted
	})
}

// Files that come with a message are in the workspace before the model sees it,
// once, under safe names, and it is told where.
func TestAttachedFiles(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	id := ada.opens(t, "`true`")
	ada.sees(t, id, "the answer", answered(1))
	report := ada.uploads(t, "../../re`port.txt", "from ada\n")
	again := ada.uploads(t, "re_port.txt", "another\n")
	for range 2 {
		ada.brings(t, id, "attached-1", "look at `cat attachments/*` and `ls attachments`", report, again)
	}
	th := ada.sees(t, id, "the second answer", answered(2))
	require.Contains(t, th.answer(2).Text, "another\nfrom ada\n")
	require.Contains(t, th.answer(2).Text, "re_port-2.txt\nre_port.txt\n")
	require.Equal(t, "from ada\n", th.inWorkspace(t, "attachments/re_port.txt"))

	// In a session whose sandbox is released.
	ada.says(t, id, "/agent pause")
	ada.sees(t, id, "the pause", func(th thread) bool { return th.Liveness == "paused" })
	ada.brings(t, id, "attached-2", "`true`", ada.uploads(t, "late.bin", "\x00\x01late"))
	th = ada.sees(t, id, "the third answer", answered(3))
	require.Equal(t, "\x00\x01late", th.inWorkspace(t, "attachments/late.bin"))

	for _, bad := range []any{
		map[string]any{"text": "x", "files": []upload{{ID: "messages/" + strings.Repeat("0", 64), Name: "x"}}},
		map[string]any{"text": "x", "files": []upload{{ID: "uploads/../" + strings.Repeat("0", 64), Name: "x"}}},
		map[string]any{"text": "x", "files": make([]upload, 11)},
	} {
		ada.refusal(t, http.StatusBadRequest, http.MethodPost, "/threads/"+id+"/messages", bad)
	}
	ada.refusal(t, http.StatusRequestEntityTooLarge, http.MethodPost, "/files?name=big", make([]byte, 8_000_001))
	ada.refusal(t, http.StatusBadRequest, http.MethodPost, "/files", []byte("x"))
}

// `files` lists and sends what is in the workspace, while a turn runs and while
// the session is paused; what may hold secrets is not sent, or masked.
func TestFilesToTheThread(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	id := ada.opens(t, "`mkdir -p docs; echo hello > docs/a.txt`")
	th := ada.sees(t, id, "the answer", answered(1))
	write := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(th.workspace(t), name), []byte(content), 0o644))
	}
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(th.workspace(t), "out")))
	write(".env", "TOKEN=1")
	write("token.txt", "ghp_"+strings.Repeat("a1B2", 9)+"\n")
	write("empty", "")
	write("big", strings.Repeat("x", 8_000_001))
	sent := 0
	asks := func(path string) message {
		sent++
		ada.says(t, id, strings.TrimSpace("/agent files "+path))
		var found message
		ada.sees(t, id, "what was asked for: "+path, func(th thread) bool {
			n := 0
			for _, m := range th.all("notice") {
				if strings.HasPrefix(m.Key, "files-") {
					n, found = n+1, m
				}
			}
			return n == sent
		})
		return found
	}
	require.Contains(t, asks("").Text, "docs/\n")
	require.Contains(t, asks("docs").Text, "a.txt  6\n")
	m := asks("docs/a.txt")
	require.Equal(t, "`docs/a.txt`, 6 bytes.", m.Text)
	status, data, err := ada.request(http.MethodGet, "/messages/"+m.ID+"/file", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "hello\n", string(data))
	for path, want := range map[string]string{
		".env": "may hold credentials", "out": "outside the workspace", "../x": "outside the workspace", "none": "does not exist",
		"empty": "is empty", "big": "is 8.0 MB; files of at most 8.0 MB can be sent",
	} {
		m = asks(path)
		require.Contains(t, m.Text, want, path)
		ada.refusal(t, http.StatusNotFound, http.MethodGet, "/messages/"+m.ID+"/file", nil)
	}
	m = asks("token.txt")
	require.Contains(t, m.Text, "Secrets in it are masked.")
	_, data, err = ada.request(http.MethodGet, "/messages/"+m.ID+"/file", nil)
	require.NoError(t, err)
	require.Equal(t, "ghp_‹masked›\n", string(data))

	ada.says(t, id, "`until [ -e never ]; do sleep 0.1; done`")
	ada.sees(t, id, "the command runs", running(2))
	require.Contains(t, asks("docs").Text, "a.txt")
	ada.says(t, id, "/agent stop")
	ada.says(t, id, "/agent pause")
	ada.sees(t, id, "the pause", func(th thread) bool { return th.Liveness == "paused" })
	require.Contains(t, asks("docs").Text, "a.txt")
	require.Equal(t, "paused", ada.thread(t, id).Liveness, "looking at files wakes nobody")
}

// blobs are the keys of a kind of blob.
func (d *dev) blobs(t *testing.T, kind string) []string {
	t.Helper()
	var found []string
	root := filepath.Join(d.dir, "blobs")
	err := filepath.WalkDir(filepath.Join(root, kind), func(p string, e os.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err == nil && !e.IsDir() {
			key, rerr := filepath.Rel(root, p)
			found, err = append(found, key), rerr
		}
		return err
	})
	require.NoError(t, err)
	return found
}

// An upload that no message brought is removed, one whose message waits is not, nor
// what was shown in the thread of a session that lives.
func TestFilesAreCollected(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	ada := d.as("ada")
	id := ada.opens(t, "`echo shown > shown.txt`")
	ada.sees(t, id, "the answer", answered(1))
	ada.says(t, id, "/agent files shown.txt")
	isSent := func(m message) bool { return strings.HasPrefix(m.Key, "files-") }
	th := ada.sees(t, id, "the file", func(th thread) bool { return slices.ContainsFunc(th.all("notice"), isSent) })
	sent := th.all("notice")[slices.IndexFunc(th.all("notice"), isSent)]
	ada.says(t, id, "`rm -rf build; true`")
	ada.sees(t, id, "the request", func(th thread) bool { return len(th.pending()) == 1 })
	ada.uploads(t, "draft.txt", "never sent")
	waits := ada.uploads(t, "waits.txt", "it waits")
	ada.brings(t, id, "waits", "`cat attachments/waits.txt`", waits)

	said, _ := d.collect(t, "--dry-run")
	require.Len(t, d.blobs(t, "uploads"), 2, "a dry run removes nothing")
	removed, _ := d.collect(t)
	require.Equal(t, said, removed)
	require.Equal(t, []string{waits.ID}, d.blobs(t, "uploads"))

	ada.approve(t, ada.thread(t, id).pending()[0])
	th = ada.sees(t, id, "the turn's end", answered(2))
	require.Contains(t, th.answer(2).Text, "it waits")
	require.Len(t, d.blobs(t, "attached/agent/web/main/"+id), 1)
	d.collect(t)
	require.Empty(t, d.blobs(t, "uploads"), "its session has it")
	require.Len(t, d.blobs(t, "attached/agent/web/main/"+id), 1)
	status, data, err := ada.request(http.MethodGet, "/messages/"+sent.ID+"/file", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "shown\n", string(data))
}
