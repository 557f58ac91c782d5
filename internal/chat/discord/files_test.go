package discord

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest"
	"github.com/countersign/countersign/internal/chat/chattest/discordfake"
	"github.com/countersign/countersign/internal/workflows"
)

// Files go with their message as references; their content is fetched later, from
// Discord alone and without the token.
func TestAttachedFilesAreFetched(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	th := w.session()
	id := w.fake.Say(ada, th.ID, "look at this", discordfake.File{Name: "a.log", Content: []byte("line\n")}, discordfake.File{Name: "b.log", Content: []byte("more\n")})
	m := one[workflows.Message](w, "SendMessage")
	require.Equal(t, id, m.ID)
	require.Len(t, m.Attachments, 2)
	m.Attachments[1].ID = "1" // as if it had been taken off the message

	d := &chat.Delivery{Poster: &poster{app: w.app}, Views: w.sessions, Blobs: w.blobs, Log: w.app.log}
	res, err := chattest.Fetch(t, d, workflows.FetchFilesInput{Thread: th, Message: m.ID, Attachments: m.Attachments})
	require.NoError(t, err)
	require.Len(t, res.Files, 2)
	data, err := w.blobs.Get(t.Context(), res.Files[0].Ref)
	require.NoError(t, err)
	require.Equal(t, "line\n", string(data))
	require.Equal(t, "it was removed from its message", res.Files[1].Problem)

	_, err = (&poster{app: w.app}).Fetch(t.Context(), th, "1000000000000000999", m.Attachments[0], 1<<20)
	var never *chat.FetchError
	require.ErrorAs(t, err, &never)
	require.Contains(t, never.Why, "deleted")
}

func TestOwnFile(t *testing.T) {
	t.Parallel()
	a := &App{cfg: Config{APIURL: DiscordAPI}}
	for address, own := range map[string]bool{
		"https://cdn.discordapp.com/attachments/1/2/a.txt?ex=1": true,
		"https://media.discordapp.net/attachments/1/2/a.png":    true,
		"http://cdn.discordapp.com/a":                           false,
		"https://cdn.discordapp.com.evil.example/a":             false,
		"https://u@cdn.discordapp.com/a":                        false,
		"https://10.0.0.1/a":                                    false,
	} {
		u, err := url.Parse(address)
		require.NoError(t, err)
		require.Equal(t, own, a.ownFile(u), address)
	}
}

// A file that is asked for comes with its message, once.
func TestFilesAreSentOnce(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	th := w.session()
	p := &poster{app: w.app}
	c := chat.Content{
		WorkflowID: th.WorkflowID(), Thread: th, Text: "`a.bin`, 3 bytes.",
		View: workflows.MessageView{Key: "files-1", Kind: workflows.KindNotice, Version: 1, File: &workflows.FileRef{Name: "a.bin"}},
		File: &chat.File{Name: "a.bin", Data: []byte{0, 1, 0xff}},
	}
	ref, err := p.Post(t.Context(), c)
	require.NoError(t, err)
	again, err := p.Post(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, ref, again)
	m := w.last(th.ID)
	require.Len(t, m.Files, 1)
	require.Equal(t, "a.bin", m.Files[0].Name)
	require.Equal(t, []byte{0, 1, 0xff}, m.Files[0].Content)
}
