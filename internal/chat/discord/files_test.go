package discord

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
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

// Files that come with a command are kept before the task is recorded, reach the
// session as those of messages do, and no address that lets anybody read them is in
// what is recorded.
func TestFilesOfCommands(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	i := w.use(ada, general, "agent run", map[string]any{
		"task": "why does it fail?", "file": discordfake.File{Name: "build log.txt", Content: []byte("line\n")}, "file3": discordfake.File{Name: "b.bin", Content: []byte{0, 1}},
	})
	require.Contains(t, w.said(i), "Accepted")
	r := one[workflows.SessionRequest](w, "RequestSession")
	require.Equal(t, "why does it fail?", r.Task.Text.Text)
	require.Len(t, r.Task.Attachments, 2)
	require.Equal(t, "build_log.txt", r.Task.Attachments[0].Name)
	require.EqualValues(t, 5, r.Task.Attachments[0].Bytes)
	recorded, err := json.Marshal(r)
	require.NoError(t, err)
	require.NotContains(t, string(recorded), "http")

	d := &chat.Delivery{Poster: &poster{app: w.app}, Views: w.sessions, Blobs: w.blobs, Log: w.app.log}
	res, err := chattest.Fetch(t, d, workflows.FetchFilesInput{Thread: r.Thread, Message: r.Task.ID, Attachments: r.Task.Attachments})
	require.NoError(t, err)
	data, err := w.blobs.Get(t.Context(), res.Files[0].Ref)
	require.NoError(t, err)
	require.Equal(t, "line\n", string(data))
	data, err = w.blobs.Get(t.Context(), res.Files[1].Ref)
	require.NoError(t, err)
	require.Equal(t, []byte{0, 1}, data)

	// In a thread they come with a message, and everybody sees which.
	s := w.session()
	w.use(ada, s.ID, "agent run", map[string]any{"task": "and this?", "file": discordfake.File{Name: "_a_.log", Content: []byte("x")}})
	w.until("the message", func() bool { return len(w.sessions.Asked("SendMessage")) == 1 })
	m := w.sessions.Asked("SendMessage")[0].Arg.(workflows.Message)
	require.Equal(t, "and this?", m.Text.Text)
	require.Equal(t, "_a_.log", m.Attachments[0].Name)
	w.until("the task is shown to all", func() bool {
		return strings.Contains(w.last(s.ID).Content, "> and this?\nAttached: \\_a\\_.log (under 0.1 MB)")
	})
}

// What is too large is left out and said to the agent, as with messages; what cannot
// be had, and what somebody may not do, starts nothing.
func TestFilesOfCommandsThatAreNotTaken(t *testing.T) {
	t.Parallel()
	w := start(t, setup{config: func(c *Config) { c.Starters = []string{ada} }})
	i := w.use(ada, general, "agent run", map[string]any{"task": "read it", "file": discordfake.File{Name: "big.bin", Content: make([]byte, workflows.MaxFileBytes+1)}})
	require.Contains(t, w.said(i), "Accepted")
	r := one[workflows.SessionRequest](w, "RequestSession")
	require.Empty(t, r.Task.Attachments)
	require.Contains(t, r.Task.Text.Text, "read it\n\n(Attached and not passed on: \"big.bin\" (8.0 MB) is larger than 8.0 MB.)")

	_, err := w.fake.Slash(ada, general, "agent run", map[string]any{"task": "read it", "file": "no file"})
	require.ErrorContains(t, err, "no file")
	i = w.use(grace, general, "agent run", map[string]any{"task": "read it", "file": discordfake.File{Name: "a", Content: []byte("a")}})
	require.Contains(t, w.said(i), "none of the roles")

	w.fake.NextFile(http.StatusNotFound)
	i = w.use(ada, general, "agent run", map[string]any{"task": "read it", "file": discordfake.File{Name: "gone.txt", Content: []byte("a")}})
	require.Equal(t, "“gone.txt” cannot be taken: the platform does not give it (status 404). Nothing was recorded.", w.said(i))
	w.fake.NextFile(http.StatusBadGateway) // once: it is asked for again
	i = w.use(ada, general, "agent run", map[string]any{"task": "read it", "file": discordfake.File{Name: "late.txt", Content: []byte("a")}})
	require.Contains(t, w.said(i), "Accepted")
	require.Len(t, w.sessions.Asked("RequestSession"), 2)
	require.Equal(t, "late.txt", w.sessions.Asked("RequestSession")[1].Arg.(workflows.SessionRequest).Task.Attachments[0].Name)
}

// An address in an interaction that is not Discord's own is never asked.
func TestFilesOfCommandsComeFromDiscordOnly(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	asked := make(chan struct{}, 1)
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{} }))
	t.Cleanup(other.Close)
	c := &call{app: w.app, i: interaction{Guild: guild, In: general}}
	c.i.Data.Options = []option{{Name: "run", Options: []option{{Name: "file", Type: 11, Value: "7"}}}}
	c.i.Data.Resolved.Attachments = map[string]attached{"7": {ID: "7", Name: "a.txt", Size: 1, URL: other.URL + "/attachments/1/a.txt"}}
	ev := chat.Event{By: workflows.Actor{ID: ada}, Thread: w.app.thread(guild, general, ""), Text: "read it"}
	require.Equal(t, "“a.txt” cannot be taken: its address is none of the platform's own. Nothing was recorded.", c.bring(t.Context(), &ev))
	require.Empty(t, asked)
}
