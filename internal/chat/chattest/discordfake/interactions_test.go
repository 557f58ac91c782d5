package discordfake

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/stretchr/testify/require"
)

// registered has one command, "agent", with two subcommands.
const registered = `[{"name":"agent","description":"Work with the agent","options":[
	{"type":1,"name":"run","description":"Start","options":[
		{"type":3,"name":"task","description":"What","required":true,"max_length":10},
		{"type":3,"name":"backend","description":"Where","autocomplete":true},
		{"type":4,"name":"count","description":"How often","choices":[{"name":"one","value":1}]}]},
	{"type":1,"name":"stop","description":"Stop"}]},
	{"name":"Ask the agent","type":3}]`

// withCommands is a fake that knows the commands.
func withCommands(t *testing.T, o Options) *Server {
	t.Helper()
	o.NoRates = true
	s := fake(t, o)
	got := call(t, s, "PUT", "/applications/"+AppID+"/guilds/"+Guild+"/commands", registered)
	require.Equal(t, 200, got.status, got.raw)
	return s
}

// slash uses a command and gives the interaction.
func slash(t *testing.T, s *Server, channel string) *Interaction {
	t.Helper()
	i, err := s.Slash(Ada, channel, "agent stop", nil)
	require.NoError(t, err)
	return i
}

func answer(t *testing.T, s *Server, i *Interaction, body string) reply {
	t.Helper()
	return call(t, s, "POST", "/interactions/"+i.ID+"/"+i.Token+"/callback", body)
}

func edit(t *testing.T, s *Server, i *Interaction, body string) reply {
	t.Helper()
	return call(t, s, "PATCH", "/webhooks/"+AppID+"/"+i.Token+"/messages/@original", body)
}

func TestInteractionsAreAnsweredOnceAndInTime(t *testing.T) {
	t.Parallel()
	s := withCommands(t, Options{})
	i := slash(t, s, General)
	require.Equal(t, 10015, edit(t, s, i, `{"content":"x"}`).code(), "there is no answer yet")
	require.Equal(t, 204, answer(t, s, i, `{"type":5}`).status)
	require.Equal(t, []int{400, 40060}, []int{answer(t, s, i, `{"type":5}`).status, answer(t, s, i, `{"type":4,"data":{"content":"x"}}`).code()})
	m, ok := i.Message()
	require.True(t, ok)
	require.True(t, m.Loading())
	require.Equal(t, 200, edit(t, s, i, `{"content":"done"}`).status)
	m, _ = i.Message()
	require.Equal(t, "done", m.Content)
	require.False(t, m.Loading())
	s.Advance(15*time.Minute + time.Second)
	late := edit(t, s, i, `{"content":"later"}`)
	require.Equal(t, []int{401, 50027}, []int{late.status, late.code()})
	require.Equal(t, 200, call(t, s, "PATCH", "/channels/"+General+"/messages/"+m.ID, `{"content":"later"}`).status, "the bot may edit its message")

	i = slash(t, s, General)
	s.Advance(3*time.Second + time.Millisecond)
	require.Equal(t, 0, i.Answer().Kind)
	late = answer(t, s, i, `{"type":5}`)
	require.Equal(t, []int{404, 10062}, []int{late.status, late.code()})
}

func TestAnswersThatAreRefused(t *testing.T) {
	t.Parallel()
	s := withCommands(t, Options{})
	i := slash(t, s, General)
	for name, body := range map[string]string{
		"no type":              `{}`,
		"choices to a command": `{"type":8,"data":{"choices":[]}}`,
		"an update of nothing": `{"type":7,"data":{"content":"x"}}`,
		"a long title":         `{"type":9,"data":{"custom_id":"m","title":"` + x(46) + `","components":[{"type":1,"components":[{"type":4,"custom_id":"a","label":"a","style":1}]}]}}`,
		"content in a modal":   `{"type":9,"data":{"content":"","custom_id":"m","title":"t","components":[{"type":1,"components":[{"type":4,"custom_id":"a","label":"a","style":1}]}]}}`,
		"no label":             `{"type":9,"data":{"custom_id":"m","title":"t","components":[{"type":1,"components":[{"type":4,"custom_id":"a","style":1}]}]}}`,
		"a long value":         `{"type":9,"data":{"custom_id":"m","title":"t","components":[{"type":1,"components":[{"type":4,"custom_id":"a","label":"a","style":1,"max_length":2,"value":"xxx"}]}]}}`,
		"twins":                `{"type":9,"data":{"custom_id":"m","title":"t","components":[{"type":1,"components":[{"type":4,"custom_id":"a","label":"a","style":1}]},{"type":1,"components":[{"type":4,"custom_id":"a","label":"a","style":1}]}]}}`,
	} {
		got := answer(t, s, i, body)
		require.Equal(t, 50035, got.code(), "%s: %s", name, got.raw)
	}
	require.Equal(t, 50006, answer(t, s, i, `{"type":4,"data":{}}`).code())
	require.Equal(t, 204, answer(t, s, i, `{"type":5,"data":{"flags":64}}`).status, "a refused answer is none")
}

func TestAnswersArePublicOrEphemeral(t *testing.T) {
	t.Parallel()
	s := withCommands(t, Options{})
	i := slash(t, s, General)
	got := call(t, s, "POST", "/interactions/"+i.ID+"/"+i.Token+"/callback?with_response=true", `{"type":4,"data":{"content":"<@`+Grace+`> @everyone"}}`)
	require.Equal(t, 200, got.status, got.raw)
	m := s.Messages(General)[0]
	require.Equal(t, m.ID, got.at("interaction", "response_message_id"))
	require.Equal(t, []string{Grace}, m.Pings, "interactions parse only users")

	follow := call(t, s, "POST", "/webhooks/"+AppID+"/"+i.Token, `{"content":"only you","flags":64}`)
	require.Equal(t, 200, follow.status, follow.raw)
	require.Len(t, s.Messages(General), 1)
	require.Equal(t, "only you", s.Ephemerals(Ada)[0].Content)
	require.Empty(t, s.Ephemerals(Grace))
	id := follow.body["id"].(string)
	require.Equal(t, 10008, call(t, s, "PATCH", "/channels/"+General+"/messages/"+id, `{"content":"x"}`).code(), "no channel has it")
	require.Equal(t, 200, call(t, s, "PATCH", "/webhooks/"+AppID+"/"+i.Token+"/messages/"+id, `{"content":"still only you"}`).status)
	require.Equal(t, 204, call(t, s, "DELETE", "/webhooks/"+AppID+"/"+i.Token+"/messages/"+id, "").status)
	require.Empty(t, s.Ephemerals(Ada))

	deferred := slash(t, s, General)
	require.Equal(t, 204, answer(t, s, deferred, `{"type":5,"data":{"flags":64}}`).status)
	require.Equal(t, 200, call(t, s, "POST", "/webhooks/"+AppID+"/"+deferred.Token, `{"content":"x"}`).status)
	require.Empty(t, deferred.Followups(), "it edits the deferred answer")
	require.Contains(t, strings.Join(s.Complaints(), "\n"), "follow-up to a deferred answer")
}

func TestCommandsAreUsedAsTheyAreDeclared(t *testing.T) {
	t.Parallel()
	s := withCommands(t, Options{})
	for name, options := range map[string]map[string]any{
		"required":    {},
		"too long":    {"task": "eleven char"},
		"no option":   {"task": "x", "model": "m"},
		"no choice":   {"task": "x", "count": 2},
		"no integer":  {"task": "x", "count": "1"},
		"a wrong one": {"task": 7},
	} {
		_, err := s.Slash(Ada, General, "agent run", options)
		require.Error(t, err, name)
	}
	_, err := s.Slash(Ada, General, "agent fly", nil)
	require.ErrorContains(t, err, "subcommand")
	_, err = s.Slash(Ada, General, "other", nil)
	require.ErrorContains(t, err, "registered")
	_, err = s.Autocomplete(Ada, General, "agent run", "task", "x", nil)
	require.ErrorContains(t, err, "autocompletion")
	_, err = s.Slash("1", General, "agent stop", nil)
	require.Error(t, err)

	msg := s.Say(Ada, General, "look")
	i, err := s.OnMessage(Ada, General, msg, "Ask the agent")
	require.NoError(t, err)
	require.Equal(t, msg, i.payload["data"].(object)["target_id"])
}

func TestRegisteringCommands(t *testing.T) {
	t.Parallel()
	s := withCommands(t, Options{})
	path := "/applications/" + AppID + "/guilds/" + Guild + "/commands"
	before := s.Commands(Guild)
	require.Len(t, before, 2)
	require.Equal(t, 200, call(t, s, "PUT", path, registered).status)
	require.Equal(t, before[0].ID, s.Commands(Guild)[0].ID, "the same command keeps its ID")
	require.Equal(t, 2, s.CommandWrites())
	require.Equal(t, 200, call(t, s, "POST", path, `{"name":"agent","description":"Changed"}`).status)
	require.Len(t, s.Commands(Guild), 2, "creating is an upsert")
	option := func(o string) string { return `[{"name":"a","description":"d","options":[` + o + `]}]` }
	for name, body := range map[string]string{
		"capitals":               `[{"name":"Agent","description":"d"}]`,
		"no description":         `[{"name":"agent"}]`,
		"a long description":     `[{"name":"agent","description":"` + x(101) + `"}]`,
		"twice":                  `[{"name":"a","description":"d"},{"name":"a","description":"d"}]`,
		"a described menu":       `[{"name":"a","description":"d","type":3}]`,
		"required last":          option(`{"type":3,"name":"a","description":"d"},{"type":3,"name":"b","description":"d","required":true}`),
		"choices and completion": option(`{"type":3,"name":"a","description":"d","autocomplete":true,"choices":[{"name":"x","value":"x"}]}`),
		"mixed":                  option(`{"type":1,"name":"a","description":"d"},{"type":3,"name":"b","description":"d"}`),
		"an option twice":        option(`{"type":3,"name":"a","description":"d"},{"type":3,"name":"a","description":"d"}`),
		"many options":           option(strings.Repeat(`{"type":3,"name":"a","description":"d"},`, 25) + `{"type":3,"name":"a","description":"d"}`),
		"too large":              option(strings.TrimSuffix(strings.Repeat(`{"type":3,"name":"a","description":"d","choices":[`+strings.TrimSuffix(strings.Repeat(`{"name":"`+x(100)+`","value":"`+x(100)+`"},`, 25), ",")+`]},`, 2), ",")),
		"library's nulls":        option(`{"type":3,"name":"a","description":"d","channel_types":null}`),
	} {
		got := call(t, s, "PUT", path, body)
		require.Equal(t, 50035, got.code(), "%s: %s", name, got.raw)
	}
	var many []string
	for i := range 101 {
		many = append(many, `{"name":"c`+string(rune('a'+i/26))+string(rune('a'+i%26))+`","description":"d"}`)
	}
	require.Equal(t, 30032, call(t, s, "PUT", path, "["+strings.Join(many, ",")+"]").code())
	for range 2 {
		require.Equal(t, 200, call(t, s, "PUT", path, "["+strings.Join(many[:99], ",")+"]").status)
		require.Equal(t, 200, call(t, s, "PUT", path, `[]`).status)
	}
	require.Equal(t, 30034, call(t, s, "PUT", path, "["+strings.Join(many[:99], ",")+"]").code(), "200 creations a day")
	s.Advance(24 * time.Hour)
	require.Equal(t, 200, call(t, s, "PUT", path, "["+strings.Join(many[:99], ",")+"]").status)
}

func TestClicks(t *testing.T) {
	t.Parallel()
	s := withCommands(t, Options{})
	sent := call(t, s, "POST", "/channels/"+General+"/messages", `{"content":"x","components":[{"type":1,"components":[
		{"type":2,"style":1,"label":"Go","custom_id":"go"},{"type":2,"style":1,"label":"No","custom_id":"no","disabled":true}]},
		{"type":1,"components":[{"type":3,"custom_id":"where","options":[{"label":"Local","value":"local"}]}]}]}`)
	require.Equal(t, 200, sent.status, sent.raw)
	id := sent.body["id"].(string)
	_, err := s.Click(Ada, General, id, "No")
	require.Error(t, err)
	_, err = s.Click(Ada, General, id, "Other")
	require.Error(t, err)
	_, err = s.Choose(Ada, General, id, "where", "moon")
	require.Error(t, err)
	_, err = s.Choose(Ada, General, id, "where", "local")
	require.NoError(t, err)
	click, err := s.Click(Ada, General, id, "Go")
	require.NoError(t, err)
	require.Equal(t, 204, answer(t, s, click, `{"type":6}`).status)
	require.Equal(t, 200, edit(t, s, click, `{"content":"gone","components":[]}`).status)
	m, _ := s.Message(General, id)
	require.Equal(t, "gone", m.Content)
	require.Empty(t, m.Buttons())
	_, err = s.Click(Ada, General, id, "Go")
	require.Error(t, err)
	_, err = s.ClickStale(Ada, General, id, "go")
	require.NoError(t, err)
}

func TestInteractionsOverHTTP(t *testing.T) {
	t.Parallel()
	s := withCommands(t, Options{})
	d := library(t, s)
	h := listen(t, d)
	key, err := hex.DecodeString(s.PublicKey())
	require.NoError(t, err)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !discordgo.VerifyInteraction(r, ed25519.PublicKey(key)) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var in struct{ Type int }
		_ = json.NewDecoder(r.Body).Decode(&in)
		w.Header().Set("Content-Type", "application/json")
		if in.Type == 1 {
			_, _ = io.WriteString(w, `{"type":1}`)
			return
		}
		_, _ = io.WriteString(w, `{"type":4,"data":{"content":"hello","flags":64}}`)
	}))
	t.Cleanup(app.Close)
	trusting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"type":1}`) }))
	t.Cleanup(trusting.Close)
	require.ErrorContains(t, s.Endpoint(trusting.URL), "401")
	require.NoError(t, s.Endpoint(app.URL))
	i := slash(t, s, General)
	require.Equal(t, AnswerMessage, i.Answer().Kind)
	require.Equal(t, "hello", s.Ephemerals(Ada)[0].Content)
	require.Empty(t, h.of("INTERACTION_CREATE"))
	require.Empty(t, s.Complaints())
}

func TestDirectChannels(t *testing.T) {
	t.Parallel()
	s := withCommands(t, Options{NoMessageContent: true})
	c := dial(t, s)
	c.ready(s, intentGuilds|intentGuildMessages|intentDirectMessages)
	direct := call(t, s, "POST", "/users/@me/channels", `{"recipient_id":"`+Ada+`"}`).body["id"].(string)
	require.Equal(t, direct, s.Direct(Ada))
	s.Say(Ada, direct, "psst")
	var m map[string]any
	require.NoError(t, json.Unmarshal(c.next().D, &m))
	require.Equal(t, "psst", m["content"])
	require.NotContains(t, m, "guild_id")
	require.NotContains(t, m, "member")
	require.Equal(t, 200, call(t, s, "POST", "/channels/"+direct+"/messages", `{"content":"hello"}`).status)
	_, err := s.Slash(Ada, direct, "agent stop", nil)
	require.ErrorContains(t, err, "registered", "a guild's commands are not there")
	require.Equal(t, 200, call(t, s, "PUT", "/applications/"+AppID+"/commands", registered).status)
	i, err := s.Slash(Ada, direct, "agent stop", nil)
	require.NoError(t, err)
	require.NotContains(t, i.payload, "member")
	require.Contains(t, i.payload, "user")
	require.Equal(t, 204, answer(t, s, i, `{"type":4,"data":{"content":"x"}}`).status)
	require.Equal(t, 200, call(t, s, "PUT", "/applications/"+AppID+"/commands", `[{"name":"agent","description":"d","contexts":[0]}]`).status)
	_, err = s.Slash(Ada, direct, "agent", nil)
	require.Error(t, err)
}

func TestCharactersThatVanish(t *testing.T) {
	t.Parallel()
	s := fake(t, Options{NoRates: true, Permissions: Invited | MentionEveryone, Drops: func(r rune) bool { return r == 0x2063 }})
	require.Equal(t, 200, call(t, s, "POST", "/channels/"+General+"/messages", `{"content":"  a\u0007b\u2063c\u200b @\u202eeveryone  "}`).status)
	m := s.Messages(General)[0]
	require.Equal(t, "abc\u200b @everyone", m.Content)
	require.Equal(t, []string{"everyone"}, m.Pings)
}
