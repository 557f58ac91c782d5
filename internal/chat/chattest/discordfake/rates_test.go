package discordfake

import (
	"net/http"
	"testing"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/stretchr/testify/require"
)

func TestBuckets(t *testing.T) {
	t.Parallel()
	s := fake(t, Options{Buckets: map[string]Bucket{"POST /channels/{channel}/messages": {2, time.Hour}}})
	s.AddChannel(Channel{ID: "2001", Name: "other"})
	post := func(channel string) reply {
		return call(t, s, "POST", "/channels/"+channel+"/messages", `{"content":"x"}`)
	}
	first := post(General)
	require.Equal(t, []string{"2", "1"}, []string{first.header.Get("X-RateLimit-Limit"), first.header.Get("X-RateLimit-Remaining")})
	require.NotEmpty(t, first.header.Get("X-RateLimit-Bucket"))
	require.Equal(t, "0", post(General).header.Get("X-RateLimit-Remaining"))
	got := post(General)
	require.Equal(t, 429, got.status)
	require.Equal(t, "user", got.header.Get("X-RateLimit-Scope"))
	require.NotEmpty(t, got.header.Get("Retry-After"))
	require.InDelta(t, 3600, got.body["retry_after"], 60)
	require.Equal(t, false, got.body["global"])
	require.Equal(t, 200, post("2001").status, "another channel has a bucket of its own")
	require.Equal(t, 1, s.Invalid())
	s.Advance(time.Hour)
	require.Equal(t, 200, post(General).status)
}

func TestTheGlobalLimit(t *testing.T) {
	t.Parallel()
	s := fake(t, Options{})
	limited := func(path string) bool {
		got := call(t, s, "GET", path, "")
		if got.status != 429 {
			return false
		}
		require.Equal(t, "global", got.header.Get("X-RateLimit-Scope"))
		require.Equal(t, "true", got.header.Get("X-RateLimit-Global"))
		require.Equal(t, true, got.body["global"])
		return true
	}
	paths := []string{"/users/@me", "/guilds/" + Guild, "/channels/" + General}
	// 50 a second: a busy machine may need more calls to make them in one.
	for i := range 3000 {
		if limited(paths[i%3]) {
			return
		}
	}
	t.Fatal("no limit")
}

func TestTooManyInvalidRequests(t *testing.T) {
	t.Parallel()
	s := fake(t, Options{NoRates: true, InvalidRequests: 3})
	s.Fail("GET /users/@me", Failure{RetryAfter: time.Second, Scope: "shared"})
	require.Equal(t, "shared", call(t, s, "GET", "/users/@me", "").header.Get("X-RateLimit-Scope"))
	require.Zero(t, s.Invalid(), "shared limits do not count")
	for range 3 {
		require.Equal(t, 403, call(t, s, "PUT", "/applications/1/commands", `[]`).status)
	}
	banned := call(t, s, "GET", "/users/@me", "")
	require.Equal(t, 429, banned.status)
	require.Nil(t, banned.body, "a proxy answers")
	s.Advance(10 * time.Minute)
	require.Equal(t, 200, call(t, s, "GET", "/users/@me", "").status)
}

func TestFaultsOfREST(t *testing.T) {
	t.Parallel()
	s := fake(t, Options{NoRates: true})
	d := library(t, s)
	const post = "POST /channels/{channel}/messages"
	s.Fail(post, Failure{Status: 502})
	_, err := d.ChannelMessageSend(General, "x")
	require.Error(t, err)
	require.Empty(t, s.Messages(General))
	s.Fail(post, Failure{Cut: true})
	_, err = d.ChannelMessageSend(General, "x")
	require.Error(t, err)
	require.Empty(t, s.Messages(General))
	s.Fail(post, Failure{Cut: true, After: true})
	_, err = d.ChannelMessageSend(General, "lost")
	require.Error(t, err)
	require.Len(t, s.Messages(General), 1, "only the answer is lost")
	s.Fail(post, Failure{RetryAfter: 90 * time.Second, Scope: "shared"})
	_, err = d.ChannelMessageSend(General, "x")
	var limited *discordgo.RateLimitError
	require.ErrorAs(t, err, &limited)
	require.Equal(t, 90*time.Second, limited.RetryAfter)
	s.Fail(post, Failure{Status: http.StatusForbidden, Code: 50013})
	_, err = d.ChannelMessageSend(General, "x")
	var refused *discordgo.RESTError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, discordgo.ErrCodeMissingPermissions, refused.Message.Code)
	require.Len(t, s.Calls(post), 5)
}
