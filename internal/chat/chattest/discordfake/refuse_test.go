package discordfake

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func x(n int) string { return strings.Repeat("x", n) }

// row is an action row of buttons with these custom IDs.
func row(ids ...string) string {
	var buttons []string
	for _, id := range ids {
		buttons = append(buttons, fmt.Sprintf(`{"type":2,"style":1,"label":"b","custom_id":%q}`, id))
	}
	return `{"type":1,"components":[` + strings.Join(buttons, ",") + `]}`
}

func TestBodiesThatAreRefused(t *testing.T) {
	t.Parallel()
	s := fake(t, Options{NoRates: true})
	menu := `{"type":3,"custom_id":"m","options":[{"label":"a","value":"a"}]}`
	embed := func(field string) string { return `{"embeds":[{` + field + `}]}` }
	for name, c := range map[string]struct {
		body, at, code string
	}{
		"long content":          {`{"content":"` + x(2001) + `"}`, "content", "BASE_TYPE_MAX_LENGTH"},
		"no string":             {`{"content":7}`, "content", "STRING_TYPE_CONVERT"},
		"unknown field":         {`{"content":"x","Channel":"y"}`, "Channel", "UNKNOWN_FIELD"},
		"unknown deeper":        {embed(`"title":"x","ID":1`), "embeds.0.ID", "UNKNOWN_FIELD"},
		"null where none is":    {`{"components":[{"type":1,"components":null}]}`, "components.0.components", "BASE_TYPE_REQUIRED"},
		"long nonce":            {`{"content":"x","nonce":"` + x(26) + `"}`, "nonce", "NONCE_TYPE_TOO_LONG"},
		"flags as text":         {`{"content":"x","flags":"4"}`, "flags", "NUMBER_TYPE_COERCE"},
		"long description":      {embed(`"description":"` + x(4097) + `"`), "embeds.0.description", "BASE_TYPE_MAX_LENGTH"},
		"long title":            {embed(`"title":"` + x(257) + `"`), "embeds.0.title", "BASE_TYPE_MAX_LENGTH"},
		"long footer":           {embed(`"title":"x","footer":{"text":"` + x(2049) + `"}`), "embeds.0.footer.text", "BASE_TYPE_MAX_LENGTH"},
		"long field":            {embed(`"fields":[{"name":"n","value":"` + x(1025) + `"}]`), "embeds.0.fields.0.value", "BASE_TYPE_BAD_LENGTH"},
		"empty field":           {embed(`"fields":[{"name":"","value":"x"}]`), "embeds.0.fields.0.name", "BASE_TYPE_REQUIRED"},
		"an empty embed":        {embed(``), "embeds.0.description", "BASE_TYPE_REQUIRED"},
		"a bad time":            {embed(`"title":"x","timestamp":"today"`), "embeds.0.timestamp", "DATE_TIME_TYPE_PARSE"},
		"long embeds together":  {`{"embeds":[{"description":"` + x(4000) + `"},{"description":"` + x(2001) + `"}]}`, "embeds", "MAX_EMBED_SIZE_EXCEEDED"},
		"many embeds":           {`{"embeds":[` + strings.Repeat(`{"title":"x"},`, 10) + `{"title":"x"}]}`, "embeds", "BASE_TYPE_BAD_LENGTH"},
		"many fields":           {embed(`"fields":[` + strings.Repeat(`{"name":"n","value":"v"},`, 25) + `{"name":"n","value":"v"}]`), "embeds.0.fields", "BASE_TYPE_BAD_LENGTH"},
		"twins":                 {`{"components":[` + row("a") + `,` + row("a") + `]}`, "components.1.components.0.custom_id", "COMPONENT_CUSTOM_ID_DUPLICATED"},
		"long custom_id":        {`{"components":[` + row(x(101)) + `]}`, "components.0.components.0.custom_id", "BASE_TYPE_BAD_LENGTH"},
		"empty custom_id":       {`{"components":[` + row("") + `]}`, "components.0.components.0.custom_id", "BASE_TYPE_REQUIRED"},
		"six buttons":           {`{"components":[` + row("1", "2", "3", "4", "5", "6") + `]}`, "components.0.components", "BASE_TYPE_BAD_LENGTH"},
		"six rows":              {`{"components":[` + row("1") + "," + row("2") + "," + row("3") + "," + row("4") + "," + row("5") + "," + row("6") + `]}`, "components", "BASE_TYPE_BAD_LENGTH"},
		"a button at the top":   {`{"components":[{"type":2,"style":1,"label":"b","custom_id":"a"}]}`, "components.0.type", "UNION_TYPE_CHOICES"},
		"a menu and a button":   {`{"components":[{"type":1,"components":[` + menu + `,{"type":2,"style":1,"label":"b","custom_id":"b"}]}]}`, "components.0.components", "COMPONENT_LAYOUT_WIDTH_EXCEEDED"},
		"a long label":          {`{"components":[{"type":1,"components":[{"type":2,"style":1,"custom_id":"a","label":"` + x(81) + `"}]}]}`, "components.0.components.0.label", "BASE_TYPE_MAX_LENGTH"},
		"a link with custom_id": {`{"components":[{"type":1,"components":[{"type":2,"style":5,"label":"l","custom_id":"a","url":"https://example.com"}]}]}`, "components.0.components.0.custom_id", "BUTTON_COMPONENT_INVALID_FIELD"},
		"an empty button":       {`{"components":[{"type":1,"components":[{"type":2,"style":1,"custom_id":"a"}]}]}`, "components.0.components.0", "BUTTON_COMPONENT_INVALID_EMPTY"},
		"text without V2":       {`{"components":[{"type":10,"content":"x"}]}`, "components.0.type", "BASE_TYPE_CHOICES"},
		"content with V2":       {`{"content":"x","flags":32768,"components":[{"type":10,"content":"x"}]}`, "content", "MESSAGE_CANNOT_USE_LEGACY_FIELDS_WITH_COMPONENTS_V2"},
		"long text in V2":       {`{"flags":32768,"components":[{"type":10,"content":"` + x(3000) + `"},{"type":10,"content":"` + x(1001) + `"}]}`, "components", "COMPONENT_DISPLAYABLE_TEXT_SIZE_EXCEEDED"},
		"many components":       {`{"flags":32768,"components":[` + strings.Repeat(`{"type":17,"components":[{"type":14}]},`, 20) + `{"type":14}]}`, "components", "COMPONENT_LIMIT_EXCEEDED"},
		"a file that is not":    {`{"flags":32768,"components":[{"type":13,"file":{"url":"attachment://a.txt"}}]}`, "components.0.file.url", "UNFURLED_MEDIA_ITEM_REFERENCED_ATTACHMENT_NOT_FOUND"},
		"parse and users":       {`{"content":"x","allowed_mentions":{"parse":["users"],"users":["` + Ada + `"]}}`, "allowed_mentions", "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE"},
		"an unknown parse":      {`{"content":"x","allowed_mentions":{"parse":["here"]}}`, "allowed_mentions.parse.0", "BASE_TYPE_CHOICES"},
		"a reply to nothing":    {`{"content":"x","message_reference":{"message_id":"1"}}`, "message_reference", "REPLIES_UNKNOWN_MESSAGE"},
	} {
		got := call(t, s, "POST", "/channels/"+General+"/messages", c.body)
		require.Equal(t, 400, got.status, name)
		require.Equal(t, 50035, got.code(), "%s: %s", name, got.raw)
		require.Equal(t, "Invalid Form Body", got.body["message"])
		at := got.at(append([]string{"errors"}, append(strings.Split(c.at, "."), "_errors")...)...)
		require.NotNil(t, at, "%s: %s", name, got.raw)
		require.Equal(t, c.code, at.([]any)[0].(map[string]any)["code"], name)
	}
	require.Empty(t, s.Messages(General))
}

func TestCallsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := fake(t, Options{NoRates: true})
	s.AddChannel(Channel{ID: "2001", Name: "hidden", Overwrites: []Overwrite{{ID: Guild, Deny: ViewChannel}, {ID: BotRole, Deny: ViewChannel}}})
	s.AddChannel(Channel{ID: "2002", Name: "read-only", Overwrites: []Overwrite{{ID: BotUser, Member: true, Deny: SendMessages | ReadMessageHistory | CreatePublicThreads}}})
	s.AddGuild("3000", "elsewhere")
	s.AddUser(User{ID: "3001", Name: "stranger"})
	theirs := s.Say(Ada, General, "hello")
	there := s.Say(Ada, "2002", "hello")
	for name, c := range map[string]struct {
		method, path, body string
		status, code       int
	}{
		"no such channel":         {"POST", "/channels/1/messages", `{"content":"x"}`, 404, 10003},
		"a hidden channel":        {"POST", "/channels/2001/messages", `{"content":"x"}`, 403, 50001},
		"no right to send":        {"POST", "/channels/2002/messages", `{"content":"x"}`, 403, 50013},
		"no right to read":        {"GET", "/channels/2002/messages/" + there, "", 403, 50013},
		"no right to open":        {"POST", "/channels/2002/messages/" + there + "/threads", `{"name":"x"}`, 403, 50013},
		"nothing to say":          {"POST", "/channels/" + General + "/messages", `{}`, 400, 50006},
		"only blanks":             {"POST", "/channels/" + General + "/messages", `{"content":" \n"}`, 400, 50006},
		"no JSON":                 {"POST", "/channels/" + General + "/messages", `{`, 400, 50109},
		"two values":              {"POST", "/channels/" + General + "/messages", `{"content":"x"}{}`, 400, 50109},
		"no message":              {"PATCH", "/channels/" + General + "/messages/1", `{"content":"x"}`, 404, 10008},
		"another's":               {"PATCH", "/channels/" + General + "/messages/" + theirs, `{"content":"x"}`, 403, 50005},
		"deleting theirs":         {"DELETE", "/channels/" + General + "/messages/" + theirs, "", 403, 50013},
		"no such guild":           {"GET", "/guilds/1", "", 404, 10004},
		"not in the guild":        {"GET", "/guilds/3000/roles", "", 403, 50001},
		"no member":               {"GET", "/guilds/" + Guild + "/members/3001", "", 404, 10007},
		"no user":                 {"GET", "/guilds/" + Guild + "/members/1", "", 404, 10013},
		"another application":     {"GET", "/applications/1/commands", "", 403, 20012},
		"a guild without the bot": {"PUT", "/applications/" + AppID + "/guilds/3000/commands", `[]`, 403, 50001},
		"no interaction":          {"POST", "/interactions/1/x/callback", `{"type":5}`, 404, 10062},
		"no webhook":              {"POST", "/webhooks/" + AppID + "/x", `{"content":"x"}`, 404, 10015},
		"no route":                {"GET", "/channels", "", 404, 0},
	} {
		got := call(t, s, c.method, c.path, c.body)
		require.Equal(t, []int{c.status, c.code}, []int{got.status, got.code()}, "%s: %s", name, got.raw)
	}
	require.Empty(t, call(t, s, "GET", "/channels/2002/messages", "").body, "without the history's right there are no messages")
	require.Len(t, s.Refused(50001), 3)
	for token, status := range map[string]int{"Bot " + s.Token(): 200, s.Token(): 401, "Bearer " + s.Token(): 401, "": 401} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL()+"/users/@me", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", token)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, status, resp.StatusCode, token)
	}
	require.Contains(t, strings.Join(s.Complaints(), "\n"), "User-Agent")
}

func TestUnknownFieldsCanBeTaken(t *testing.T) {
	t.Parallel()
	s := fake(t, Options{TakeUnknown: true})
	require.Equal(t, 200, call(t, s, "POST", "/channels/"+General+"/messages", `{"content":"x","Channel":"y"}`).status)
	require.Equal(t, []string{"unknown field Channel"}, s.Complaints())
}

func TestMultipart(t *testing.T) {
	t.Parallel()
	s := fake(t, Options{})
	path := "/channels/" + General + "/messages"
	sent := form(t, s, "POST", path, `{"attachments":[{"id":0,"description":"a log"}]}`, map[string]string{"files[0]": "line"})
	require.Equal(t, 200, sent.status, sent.raw)
	m := s.Messages(General)[0]
	require.Equal(t, []string{"out_put.txt", "line", "a log"}, []string{m.Files[0].Name, string(m.Files[0].Content), m.Files[0].Description})
	url := sent.at("attachments").([]any)[0].(map[string]any)["url"].(string)
	resp, err := http.Get(url)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 200, resp.StatusCode)

	more := form(t, s, "PATCH", path+"/"+m.ID, `{"attachments":[{"id":"`+m.Files[0].ID+`"},{"id":"0"}]}`, map[string]string{"files[0]": "more"})
	require.Equal(t, 200, more.status, more.raw)
	require.Len(t, s.Messages(General)[0].Files, 2)
	less := call(t, s, "PATCH", path+"/"+m.ID, `{"content":"x","attachments":[]}`)
	require.Equal(t, 200, less.status, less.raw)
	require.Empty(t, s.Messages(General)[0].Files)
	require.Empty(t, s.Complaints())

	require.Equal(t, 50035, form(t, s, "POST", path, `{"attachments":[{"id":1}]}`, map[string]string{"files[0]": "line"}).code())
	require.Equal(t, 50035, form(t, s, "POST", path, `{}`, map[string]string{"file": "line"}).code())
	require.Equal(t, 413, form(t, s, "POST", path, `{}`, map[string]string{"files[0]": x(maxFile + 1)}).status)
}

func TestNonces(t *testing.T) {
	t.Parallel()
	s := fake(t, Options{NoRates: true})
	path := "/channels/" + General + "/messages"
	body := `{"content":"x","nonce":"one","enforce_nonce":true}`
	first := call(t, s, "POST", path, body)
	require.Equal(t, "one", first.body["nonce"])
	require.Equal(t, first.body["id"], call(t, s, "POST", path, body).body["id"])
	require.Equal(t, first.body["id"], call(t, s, "POST", path, `{"content":"other","nonce":"one","enforce_nonce":true}`).body["id"])
	require.NotEqual(t, first.body["id"], call(t, s, "POST", path, `{"content":"x","nonce":"one"}`).body["id"], "it is not enforced")
	require.Len(t, s.Messages(General), 2)
	s.Advance(nonceKnown + 1)
	require.NotEqual(t, first.body["id"], call(t, s, "POST", path, body).body["id"], "it is forgotten")
}

func TestMentions(t *testing.T) {
	t.Parallel()
	s := fake(t, Options{NoRates: true, Permissions: Invited | MentionEveryone})
	s.AddRole(Guild, Role{ID: "4001", Name: "oncall"})
	text := `@everyone <@` + Ada + `> <@&4001>`
	path := "/channels/" + General + "/messages"
	ping := func(allowed string) []string {
		got := call(t, s, "POST", path, `{"content":"`+text+`"`+allowed+`}`)
		require.Equal(t, 200, got.status, got.raw)
		list := s.Messages(General)
		return list[len(list)-1].Pings
	}
	all := []string{Ada, "4001", "everyone"}
	require.Equal(t, all, ping(``), "the default is everybody")
	require.Equal(t, all, ping(`,"allowed_mentions":null`))
	require.Equal(t, all, ping(`,"allowed_mentions":{"parse":null}`), "a null does not say nobody")
	require.Empty(t, ping(`,"allowed_mentions":{"parse":[]}`))
	require.Equal(t, []string{Ada}, ping(`,"allowed_mentions":{"parse":["users"]}`))
	require.Equal(t, []string{"4001"}, ping(`,"allowed_mentions":{"parse":[],"roles":["4001"]}`))
	require.Empty(t, ping(`,"allowed_mentions":{"parse":[],"users":["`+Grace+`"]}`), "nobody is pinged who is not mentioned")
	require.Contains(t, strings.Join(s.Complaints(), "\n"), "parse")

	quiet := call(t, s, "POST", path, `{"content":"x","allowed_mentions":{"parse":[]}}`).body["id"].(string)
	require.Equal(t, 200, call(t, s, "PATCH", path+"/"+quiet, `{"content":"`+text+`","allowed_mentions":{"parse":[]}}`).status)
	m, _ := s.Message(General, quiet)
	require.Empty(t, m.Pings)
	require.Equal(t, 200, call(t, s, "PATCH", path+"/"+quiet, `{"content":"`+text+`!"}`).status)
	m, _ = s.Message(General, quiet)
	require.Equal(t, all, m.Pings, "an edit without allowed_mentions is parsed with the defaults")

	meek := fake(t, Options{})
	meek.AddRole(Guild, Role{ID: Guild, Name: "@everyone", Permissions: Everyone &^ MentionEveryone})
	meek.AddRole(Guild, Role{ID: "4001", Name: "oncall"})
	require.Equal(t, 200, call(t, meek, "POST", path, `{"content":"`+text+`"}`).status)
	require.Equal(t, []string{Ada}, meek.Messages(General)[0].Pings, "roles that are not mentionable and everybody need a right")
}
