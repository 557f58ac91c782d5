package discordfake

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestThreads(t *testing.T) {
	t.Parallel()
	s := fake(t, Options{NoRates: true, MaxThreads: 1})
	root := s.Say(Ada, General, "a task")
	open := "/channels/" + General + "/messages/" + root + "/threads"
	require.Equal(t, 50035, call(t, s, "POST", open, `{"name":"x","auto_archive_duration":30}`).code())
	require.Equal(t, 50035, call(t, s, "POST", open, `{"name":"`+x(101)+`"}`).code())
	made := call(t, s, "POST", open, `{"name":"a task","auto_archive_duration":60}`)
	require.Equal(t, 201, made.status, made.raw)
	require.Equal(t, root, made.body["id"])
	require.Equal(t, 160004, call(t, s, "POST", open, `{"name":"again"}`).code())
	other := s.Say(Ada, General, "another task")
	require.Equal(t, 160006, call(t, s, "POST", "/channels/"+General+"/messages/"+other+"/threads", `{"name":"x"}`).code())

	in := "/channels/" + root
	ours := call(t, s, "POST", in+"/messages", `{"content":"working"}`).body["id"].(string)
	s.Advance(time.Hour)
	c, _ := s.Channel(root)
	require.True(t, c.Archived, "after its time without activity")
	require.Equal(t, 50083, call(t, s, "PATCH", in+"/messages/"+ours, `{"content":"done"}`).code())
	require.Equal(t, 50083, call(t, s, "PATCH", in, `{"name":"x"}`).code())
	_, err := s.Slash(Ada, root, "agent", nil)
	require.ErrorContains(t, err, "archived")
	require.Equal(t, 200, call(t, s, "PATCH", in, `{"archived":false}`).status)
	require.Equal(t, 200, call(t, s, "PATCH", in+"/messages/"+ours, `{"content":"done"}`).status)
	s.SetThread(root, true, false)
	require.Equal(t, 200, call(t, s, "POST", in+"/messages", `{"content":"more"}`).status)
	c, _ = s.Channel(root)
	require.False(t, c.Archived, "a message opens it again")

	s.SetThread(root, true, true)
	for _, got := range []reply{
		call(t, s, "POST", in+"/messages", `{"content":"more"}`), call(t, s, "PATCH", in, `{"archived":false}`),
	} {
		require.Equal(t, []int{403, 160005}, []int{got.status, got.code()}, got.raw)
	}
	require.Equal(t, 50083, call(t, s, "PATCH", in+"/messages/"+ours, `{"content":"done"}`).code())
	require.Panics(t, func() { s.Say(Ada, root, "hello") })
	s.SetThread(root, false, true)
	require.Equal(t, 160005, call(t, s, "PATCH", in+"/messages/"+ours, `{"content":"done"}`).code())
	s.AddRole(Guild, Role{ID: BotRole, Name: BotName, Permissions: Invited | ManageThreads})
	require.Equal(t, 200, call(t, s, "PATCH", in, `{"archived":false,"locked":false}`).status)

	require.Equal(t, 200, call(t, s, "GET", "/guilds/"+Guild+"/threads/active", "").status)
	require.Len(t, call(t, s, "GET", "/guilds/"+Guild+"/threads/active", "").at("threads"), 1)
	s.Remove(General, root)
	_, ok := s.Channel(root)
	require.True(t, ok, "a thread outlives its message")
	s.RemoveChannel(root)
	require.Equal(t, 10003, call(t, s, "POST", in+"/messages", `{"content":"more"}`).code())
}

func TestSendingInThreadsIsARightOfItsOwn(t *testing.T) {
	t.Parallel()
	s := fake(t, Options{NoRates: true, Permissions: ViewChannel | SendMessages})
	s.AddRole(Guild, Role{ID: Guild, Name: "@everyone", Permissions: ViewChannel | SendMessages})
	root := s.Say(Ada, General, "a task")
	s.OpenThread(Ada, General, root, "a task")
	require.Equal(t, 50013, call(t, s, "POST", "/channels/"+root+"/messages", `{"content":"x"}`).code())
	require.Equal(t, 200, call(t, s, "POST", "/channels/"+General+"/messages", `{"content":"x"}`).status)
}

func TestOldMessagesTakeFewEdits(t *testing.T) {
	t.Parallel()
	s := fake(t, Options{NoRates: true, OldEdits: 2})
	path := "/channels/" + General + "/messages"
	id := call(t, s, "POST", path, `{"content":"x"}`).body["id"].(string)
	for range 5 {
		require.Equal(t, 200, call(t, s, "PATCH", path+"/"+id, `{"content":"y"}`).status)
	}
	s.Advance(time.Hour)
	for range 2 {
		require.Equal(t, 200, call(t, s, "PATCH", path+"/"+id, `{"content":"y"}`).status)
	}
	got := call(t, s, "PATCH", path+"/"+id, `{"content":"y"}`)
	require.Equal(t, []int{429, 30046}, []int{got.status, got.code()})
	s.Advance(time.Hour)
	require.Equal(t, 200, call(t, s, "PATCH", path+"/"+id, `{"content":"y"}`).status)
}

func TestListing(t *testing.T) {
	t.Parallel()
	s := fake(t, Options{NoRates: true})
	var ids []string
	for range 5 {
		ids = append(ids, s.Say(Ada, General, "x"))
	}
	list := func(query string) []string {
		var out []string
		got := send(t, s, "GET", "/channels/"+General+"/messages"+query, "", nil)
		require.Equal(t, 200, got.status, got.raw)
		for _, m := range decodeList(t, got.raw) {
			out = append(out, m["id"].(string))
		}
		return out
	}
	require.Equal(t, []string{ids[4], ids[3]}, list("?limit=2"))
	require.Equal(t, []string{ids[2], ids[1]}, list("?limit=2&after="+ids[0]))
	require.Equal(t, []string{ids[1], ids[0]}, list("?before="+ids[2]))
	require.Equal(t, 50035, send(t, s, "GET", "/channels/"+General+"/messages?limit=101", "", nil).code())
}
