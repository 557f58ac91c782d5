package slack

import (
	"bytes"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest"
	"github.com/countersign/countersign/internal/chat/chattest/slackfake"
	"github.com/countersign/countersign/internal/workflows"
)

// Files go with their message as references; their content is fetched later, with
// the bot's token, from Slack alone.
func TestAttachedFilesAreFetched(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	th := w.session()
	_, ds := w.fake.Attach(ada, general, th.ID, bot+" look at this",
		slackfake.File{Name: "a.log", Content: []byte("line\n")},
		slackfake.File{Name: "elsewhere", Content: []byte("x"), Link: "http://127.0.0.2:9/secret"},
		slackfake.File{Name: "doc", Content: []byte("x"), External: true},
		slackfake.File{Name: "gone", Content: []byte("x")},
		slackfake.File{Name: "big", Content: make([]byte, workflows.MaxFileBytes+1)},
	)
	settled(w, ds...)
	m := one[workflows.Message](w, "SendMessage") // of a message event and a mention
	require.Contains(t, m.Text.Text, "look at this")
	require.Contains(t, m.Text.Text, `"big" (8.0 MB) is larger than 8.0 MB`)
	require.Len(t, m.Attachments, 4)
	require.Empty(t, w.fake.Downloads(), "nothing is downloaded before the event is acknowledged")
	w.fake.DeleteFile("gone")

	d := &chat.Delivery{Poster: &poster{app: w.app}, Views: w.sessions, Blobs: w.blobs, Log: w.app.log}
	res, err := chattest.Fetch(t, d, workflows.FetchFilesInput{Thread: th, Message: m.ID, Attachments: m.Attachments})
	require.NoError(t, err)
	require.Len(t, res.Files, 4)
	data, err := w.blobs.Get(t.Context(), res.Files[0].Ref)
	require.NoError(t, err)
	require.Equal(t, "line\n", string(data))
	for i, want := range []string{"", "its address is none of the platform's own", "it is a link to a file outside Slack", "Slack does not have it any more"} {
		require.Equal(t, want, res.Files[i].Problem)
	}
	require.Len(t, w.fake.Downloads(), 1)
}

// Without the scope people are told, and nothing is taken for the file's content.
func TestAttachedFilesWithoutTheScope(t *testing.T) {
	t.Parallel()
	scopes := slices.DeleteFunc(slackfake.AllScopes(), func(s string) bool { return s == "files:read" })
	w := start(t, setup{fake: slackfake.Options{Scopes: scopes}})
	th := w.session()
	_, ds := w.fake.Attach(ada, general, th.ID, "", slackfake.File{Name: "a.log", Content: []byte("line\n")})
	settled(w, ds...)
	m := one[workflows.Message](w, "SendMessage")
	require.Equal(t, "(Files without a text.)", m.Text.Text)
	_, err := (&poster{app: w.app}).Fetch(t.Context(), th, m.ID, m.Attachments[0], 1<<20)
	var never *chat.FetchError
	require.ErrorAs(t, err, &never)
	require.Contains(t, never.Why, "files:read")
}

func TestOwnFile(t *testing.T) {
	t.Parallel()
	a := &App{cfg: Config{APIURL: SlackAPI}}
	for address, own := range map[string]bool{
		"https://files.slack.com/files-pri/T1-F1/download/a.txt": true,
		"http://files.slack.com/a":                               false,
		"https://files.slack.com.evil.example/a":                 false,
		"https://user@files.slack.com/a":                         false,
		"https://files.slack.com:8443/a":                         false,
		"https://169.254.169.254/latest":                         false,
		"file:///etc/passwd":                                     false,
	} {
		u, err := url.Parse(address)
		require.NoError(t, err)
		require.Equal(t, own, a.ownFile(u), address)
	}
}

// A file that is asked for is in the thread once, also when the bot dies after it
// was shared; asked for again it comes again.
func TestFilesAreSentOnce(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	th := w.session()
	p := &poster{app: w.app}
	content := func(n string) chat.Content {
		return chat.Content{
			WorkflowID: th.WorkflowID(), Thread: th, Text: "`a.bin`, 3 bytes.",
			View: workflows.MessageView{Key: "files-" + n, Kind: workflows.KindNotice, Version: 1, File: &workflows.FileRef{Name: "a.bin"}},
			File: &chat.File{Name: "a.bin", Data: []byte{0, 1, 0xff}},
		}
	}
	for _, n := range []string{"1", "2"} {
		ref, err := p.Post(t.Context(), content(n))
		require.NoError(t, err)
		again, err := p.Post(t.Context(), content(n))
		require.NoError(t, err)
		require.Equal(t, ref, again)
		found, err := p.Find(t.Context(), th, "files-"+n, time.Time{})
		require.NoError(t, err)
		require.Len(t, found, 1)
	}
	files := w.fake.Files()
	require.Len(t, files, 2)
	for _, f := range files {
		require.True(t, bytes.Equal([]byte{0, 1, 0xff}, f.Content))
		require.True(t, strings.HasPrefix(f.Name, "a.bin"))
	}
}
