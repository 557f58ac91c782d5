package slackfake

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/slack-go/slack"
	"github.com/stretchr/testify/require"
)

const general = "C0GENERAL1"

func client(s *Server, token string) *slack.Client {
	return slack.New(token, slack.OptionAPIURL(s.URL()), slack.OptionAppLevelToken(token))
}

func fake(t *testing.T, o Options) (*Server, *slack.Client) {
	t.Helper()
	s := New(o)
	t.Cleanup(s.Close)
	return s, client(s, "xoxb-fake")
}

// quietly are the options that Slack's documentation asks for.
func quietly(text string, more ...slack.MsgOption) []slack.MsgOption {
	return append([]slack.MsgOption{slack.MsgOptionText(text, false), slack.MsgOptionParse(false), slack.MsgOptionDisableLinkUnfurl(), slack.MsgOptionDisableMediaUnfurl()}, more...)
}

func TestRefusesWhatSlackRefuses(t *testing.T) {
	t.Parallel()
	s, api := fake(t, Options{NoTiers: true})
	s.AddChannel(Channel{ID: "C0ELSE0001"})
	s.AddChannel(Channel{ID: "C0ARCHIVED", Archived: true, Members: []string{BotUser}})
	theirs := s.Quiet("U0ADA00001", general, "", "hello")
	_, ours, err := api.PostMessageContext(t.Context(), general, quietly("hi")...)
	require.NoError(t, err)
	section := func(text string) slack.MsgOption {
		return slack.MsgOptionBlocks(slack.NewSectionBlock(slack.NewTextBlockObject("mrkdwn", text, false, false), nil, nil))
	}
	long := strings.Repeat("x", 3001)
	for name, c := range map[string]struct {
		code string
		call func() error
	}{
		"no channel":     {"channel_not_found", func() error { _, _, err := api.PostMessage("C0NOWHERE1", quietly("x")...); return err }},
		"no member":      {"not_in_channel", func() error { _, _, err := api.PostMessage("C0ELSE0001", quietly("x")...); return err }},
		"archived":       {"is_archived", func() error { _, _, err := api.PostMessage("C0ARCHIVED", quietly("x")...); return err }},
		"nothing to say": {"no_text", func() error { _, _, err := api.PostMessage(general); return err }},
		"no thread": {"thread_not_found", func() error {
			_, _, err := api.PostMessage(general, quietly("x", slack.MsgOptionTS("1.000001"))...)
			return err
		}},
		"another's":       {"cant_update_message", func() error { _, _, _, err := api.UpdateMessage(general, theirs, quietly("x")...); return err }},
		"deleting theirs": {"cant_delete_message", func() error { _, _, err := api.DeleteMessage(general, theirs); return err }},
		"no message":      {"message_not_found", func() error { _, _, _, err := api.UpdateMessage(general, "1.000001", quietly("x")...); return err }},
		"a long update": {"msg_too_long", func() error {
			_, _, _, err := api.UpdateMessage(general, ours, quietly(strings.Repeat("x", 4001))...)
			return err
		}},
		"a long section":   {"invalid_blocks", func() error { _, _, err := api.PostMessage(general, quietly("x", section(long))...); return err }},
		"an empty section": {"invalid_blocks", func() error { _, _, err := api.PostMessage(general, quietly("x", section(""))...); return err }},
		"too much": {"msg_blocks_too_long", func() error {
			_, _, err := api.PostMessage(general, quietly("x", section(long[:3000]), section(long[:3000]), section(long[:3000]), section(long[:3000]), section(long[:3000]))...)
			return err
		}},
		"markdown": {"invalid_blocks", func() error {
			_, _, err := api.PostMessage(general, quietly("x", slack.MsgOptionBlocks(slack.NewMarkdownBlock("", strings.Repeat("x", 12001))))...)
			return err
		}},
		"twins": {"invalid_blocks", func() error {
			_, _, err := api.PostMessage(general, quietly("x", slack.MsgOptionBlocks(slack.NewMarkdownBlock("a", "x"), slack.NewMarkdownBlock("a", "y")))...)
			return err
		}},
		"a stranger to the channel": {"user_not_in_channel", func() error { _, err := api.PostEphemeral(general, "U0NOBODY01", quietly("x")...); return err }},
		"no trigger": {"invalid_trigger_id", func() error {
			_, err := api.OpenView("x", slack.ModalViewRequest{Type: slack.VTModal, Title: slack.NewTextBlockObject("plain_text", "x", false, false)})
			return err
		}},
	} {
		require.EqualError(t, c.call(), c.code, name)
	}
	for token, code := range map[string]string{"": "not_authed", "xoxb-other": "invalid_auth", "xapp-fake": "not_allowed_token_type"} {
		_, err := client(s, token).AuthTestContext(t.Context())
		require.EqualError(t, err, code)
	}
	_, _, err = client(s, "xoxb-fake").StartSocketModeContext(t.Context())
	require.EqualError(t, err, "not_allowed_token_type")
}

func TestUnknownFieldsAreRefused(t *testing.T) {
	t.Parallel()
	for blocks, why := range map[string]string{
		`[{"type":"actions","elements":[{"type":"button","action_id":"a","text":{"type":"plain_text","text":"x"},"disabled":true}]}]`: "disabled",
		`[{"type":"alert","text":"x"}]`: "unsupported type",
		`[{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[{"type":"text","text":""}]}]}]`: "more than 0",
		`[{"type":"header","text":{"type":"mrkdwn","text":"x"}}]`:                                                 "unsupported type",
	} {
		code, got := checkBlocks([]byte(blocks), inMessage)
		require.Equal(t, "invalid_blocks", code)
		require.Contains(t, got, why)
	}
	code, _ := checkBlocks([]byte(`[{"type":"markdown","text":"x"}]`), inModal)
	require.Equal(t, "invalid_blocks", code, "modals take no markdown block")
}

func TestTiers(t *testing.T) {
	t.Parallel()
	_, api := fake(t, Options{})
	_, ts, err := api.PostMessageContext(t.Context(), general, quietly("hi")...)
	require.NoError(t, err)
	for i := range 50 {
		_, _, _, err := api.UpdateMessageContext(t.Context(), general, ts, quietly(fmt.Sprint("edit ", i))...)
		require.NoError(t, err)
	}
	_, _, _, err = api.UpdateMessageContext(t.Context(), general, ts, quietly("one too many")...)
	var limited *slack.RateLimitedError
	require.ErrorAs(t, err, &limited)
	require.Greater(t, limited.RetryAfter, 50*time.Second)
}

func TestScopes(t *testing.T) {
	t.Parallel()
	_, api := fake(t, Options{Scopes: []string{"chat:write"}})
	_, err := api.GetUserInfoContext(t.Context(), "U0ADA00001")
	var e slack.SlackErrorResponse
	require.True(t, errors.As(err, &e))
	require.Equal(t, []string{"missing_scope", "users:read"}, []string{e.Err, e.Needed})
	_, err = api.GetConversationInfoContext(t.Context(), &slack.GetConversationInfoInput{ChannelID: general})
	require.True(t, errors.As(err, &e))
	require.Equal(t, "channels:read", e.Needed)
}

func TestResponseURLTakesFiveAnswers(t *testing.T) {
	t.Parallel()
	s, _ := fake(t, Options{})
	s.mu.Lock()
	url := s.newResponseURL("U0ADA00001", general, "", "")
	s.mu.Unlock()
	for i := range 6 {
		resp, err := http.Post(url, "application/json", strings.NewReader(`{"text":"hi"}`))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, i < 5, resp.StatusCode == http.StatusOK)
	}
	require.Len(t, s.Ephemerals("U0ADA00001"), 5)
}

func TestTriggersExpire(t *testing.T) {
	t.Parallel()
	s, api := fake(t, Options{})
	view := slack.ModalViewRequest{Type: slack.VTModal, Title: slack.NewTextBlockObject("plain_text", "x", false, false), Blocks: slack.Blocks{BlockSet: []slack.Block{slack.NewDividerBlock()}}}
	s.mu.Lock()
	late, good := s.newTrigger("U0ADA00001"), s.newTrigger("U0ADA00001")
	s.triggers[late].at = time.Now().Add(-4 * time.Second)
	s.mu.Unlock()
	_, err := api.OpenViewContext(t.Context(), late, view)
	require.EqualError(t, err, "expired_trigger_id")
	_, err = api.OpenViewContext(t.Context(), good, view)
	require.NoError(t, err)
	_, err = api.OpenViewContext(t.Context(), good, view)
	require.EqualError(t, err, "exchanged_trigger_id")
}

func TestWhatIsOnlyFrownedUponIsKept(t *testing.T) {
	t.Parallel()
	s, api := fake(t, Options{})
	_, ts, err := api.PostMessageContext(t.Context(), general, slack.MsgOptionBlocks(slack.NewMarkdownBlock("one", "x")))
	require.NoError(t, err)
	_, _, _, err = api.UpdateMessageContext(t.Context(), general, ts, quietly("x", slack.MsgOptionBlocks(slack.NewMarkdownBlock("one", "y")))...)
	require.NoError(t, err)
	all := strings.Join(s.Complaints(), "\n")
	require.Contains(t, all, "no fallback text")
	require.Contains(t, all, "may be unfurled")
	require.Contains(t, all, "reuses block_id")
}
