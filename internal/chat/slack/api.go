package slack

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slack-go/slack"

	"github.com/countersign/countersign/internal/chat"
)

// methods are the Web API methods that this adapter calls, with the bot scopes
// that each needs. A call of any other is refused before it is sent, so that
// manifest.yaml, which a test holds against this table, cannot fall behind.
func methods() map[string][]string {
	history := []string{"channels:history", "groups:history", "im:history", "mpim:history"}
	return map[string][]string{
		"agents.sessions.setStatus":    {"chat:write"},
		connectionsOpen:                nil, // connections:write, of the app token
		"auth.test":                    nil,
		"chat.delete":                  {"chat:write"},
		"chat.postEphemeral":           {"chat:write"},
		"chat.postMessage":             {"chat:write"},
		"chat.update":                  {"chat:write"},
		"conversations.history":        history,
		"conversations.info":           {"channels:read", "groups:read"},
		"conversations.replies":        history,
		"files.completeUploadExternal": {"files:write"},
		"files.getUploadURLExternal":   {"files:write"},
		"files.info":                   {"files:read"},
		"usergroups.list":              {"usergroups:read"},
		"users.conversations":          {"channels:read", "groups:read", "im:read", "mpim:read"},
		"users.info":                   {"users:read"},
		"views.open":                   nil,
		"views.publish":                nil,
		"views.push":                   nil,
		"views.update":                 nil,
	}
}

// eventScopes are the events that the manifest subscribes to, with the scopes
// that each needs.
func eventScopes() map[string][]string {
	return map[string][]string{
		"agent_session_stopped": {"assistant:write"},
		"app_home_opened":       nil,
		"app_mention":           {"app_mentions:read"},
		"message.channels":      {"channels:history"},
		"message.groups":        {"groups:history"},
		"message.im":            {"im:history"},
		"message.mpim":          {"mpim:history"},
	}
}

// otherScopes are needed by features that are neither a method nor an event.
func otherScopes() map[string]string {
	return map[string]string{
		"commands":        "the /agent command and the message shortcut",
		"assistant:write": "the agent view, which Slack ties to this scope",
	}
}

// gate is the HTTP client of all calls to Slack. After a 429 it keeps a method
// closed until the time that Slack named.
type gate struct {
	http    *http.Client
	base    string
	methods map[string][]string
	// clock is Slack's.
	clock chat.Clock
	// refused, if set, is told when Slack has refused the bot's token.
	refused func()

	mu     sync.Mutex
	closed map[string]time.Time
}

func newGate(base string, client *http.Client) *gate {
	if client == nil {
		client = &http.Client{Timeout: callTimeout}
	}
	return &gate{http: client, base: base, methods: methods(), closed: map[string]time.Time{}}
}

// Do sends a request, unless its method is closed or not declared.
func (g *gate) Do(req *http.Request) (*http.Response, error) {
	method, ok := strings.CutPrefix(req.URL.String(), g.base)
	if !ok {
		resp, err := g.http.Do(req) // a response_url or an upload
		var named *url.Error
		if errors.As(err, &named) {
			err = named.Err // whoever knows the address may use it
		}
		return resp, err
	}
	method, _, _ = strings.Cut(method, "?")
	if _, declared := g.methods[method]; !declared && !isUpload(method) {
		return nil, fmt.Errorf("the Slack adapter does not declare that it calls %s", method)
	}
	if wait := g.wait(method); wait > 0 {
		return nil, &slack.RateLimitedError{RetryAfter: wait}
	}
	resp, err := g.http.Do(req)
	if err == nil {
		g.clock.Heed(resp.Header)
	}
	if err == nil && g.refused != nil && method != connectionsOpen && refusesToken(resp) {
		g.refused()
	}
	if err != nil || !saysWhen(resp) {
		return resp, err
	}
	defer resp.Body.Close()
	after := retryAfter(resp.Header.Get("Retry-After"))
	g.close(method, after)
	return nil, &slack.RateLimitedError{RetryAfter: after}
}

// saysWhen reports whether an answer asks to come again later: a rate limit, or an
// outage of which Slack knows the end.
func saysWhen(resp *http.Response) bool {
	return resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != ""
}

// connectionsOpen is called with the app token.
const connectionsOpen = "apps.connections.open"

// maxRefusal is more than a refusal has that is about the token: such an answer holds
// a code and little else.
const maxRefusal = 1 << 10

// badToken are the codes that say that a token is not valid, or not any more.
func badToken() []string {
	return []string{"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"}
}

// refusesToken looks at an answer's beginning, which stays to be read.
func refusesToken(resp *http.Response) bool {
	r := bufio.NewReaderSize(resp.Body, maxRefusal)
	resp.Body = struct {
		io.Reader
		io.Closer
	}{r, resp.Body}
	data, _ := r.Peek(maxRefusal) // what is shorter ends in an error, and what cannot be read is read again
	var answer slack.SlackResponse
	return json.Unmarshal(data, &answer) == nil && !answer.Ok && slices.Contains(badToken(), answer.Error)
}

// isUpload: a server that stands in for Slack may take uploads below its API's
// base, because slack-go sends the token to no other host.
func isUpload(method string) bool { return strings.Contains(method, "/") }

func (g *gate) wait(method string) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	until, ok := g.closed[method]
	if !ok {
		return 0
	}
	wait := time.Until(until)
	if wait <= 0 {
		delete(g.closed, method)
	}
	return wait
}

func (g *gate) close(method string, after time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if until := time.Now().Add(after); until.After(g.closed[method]) {
		g.closed[method] = until
	}
}

// retryAfter reads the header; without one that says something, half a minute.
func retryAfter(header string) time.Duration {
	n, err := strconv.Atoi(strings.TrimSpace(header))
	if err != nil || n < 0 {
		return 30 * time.Second
	}
	return max(time.Duration(n)*time.Second, time.Second)
}

// api is the Web API: slack-go's client, and what is read in leaner types, so
// that a block which slack-go cannot decode never hides a message.
type api struct {
	*slack.Client
	gate  *gate
	token string
}

// call posts a form and decodes the answer into out, which may be nil.
func (a *api) call(ctx context.Context, method string, form url.Values, out any) (http.Header, error) {
	form.Set("token", a.token)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.gate.base+method, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := a.gate.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, slack.StatusCodeError{Code: resp.StatusCode, Status: resp.Status}
	}
	var raw json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&raw); err != nil {
		return nil, fmt.Errorf("reading Slack's answer to %s: %w", method, err)
	}
	var status slack.SlackResponse
	if err := json.Unmarshal(raw, &status); err != nil {
		return nil, fmt.Errorf("reading Slack's answer to %s: %w", method, err)
	}
	if !status.Ok {
		if status.Error == "" {
			status.Error = "unknown_error"
		}
		return resp.Header, slack.SlackErrorResponse{Err: status.Error, ResponseMetadata: status.ResponseMetadata, Needed: status.Needed, Provided: status.Provided}
	}
	if out == nil {
		return resp.Header, nil
	}
	return resp.Header, json.Unmarshal(raw, out)
}

// code is Slack's error code in err; empty when it has none.
func code(err error) string {
	var e slack.SlackErrorResponse
	if errors.As(err, &e) {
		return e.Err
	}
	return ""
}

// detail adds to an error what Slack said beside the code.
func detail(err error) error {
	var e slack.SlackErrorResponse
	if !errors.As(err, &e) {
		return err
	}
	switch {
	case e.Needed != "":
		return fmt.Errorf("%w (needs the scope %s)", err, e.Needed)
	case len(e.ResponseMetadata.Messages) > 0:
		return fmt.Errorf("%w: %s", err, strings.Join(e.ResponseMetadata.Messages, "; "))
	}
	return err
}

func threadGone() []string {
	return []string{"thread_not_found", "channel_not_found", "is_archived", "cannot_reply_to_message"}
}

// passing are the errors of chat.postMessage that may be over at the next try, or
// that somebody is about to mend for all sessions alike: the token's
// (docs.slack.dev/reference/methods/chat.postMessage). Every other one refuses a
// new thread's root until somebody changes the channel. What a session that runs has
// to say waits for that instead.
func passing() []string {
	return []string{
		"", "internal_error", "fatal_error", "service_unavailable", "request_timeout", "ratelimited", "rate_limited", "accesslimited",
		"message_limit_exceeded", "team_added_to_org", "unknown_error",
		"invalid_auth", "not_authed", "token_expired", "token_revoked", "account_inactive",
	}
}

// noRoot says why Slack takes no new thread in a channel.
func (a *App) noRoot(code string) *chat.Error {
	e := &chat.Error{Kind: chat.KindConflict, Code: "no_thread", Hint: "Use another channel, or a direct message to the bot."}
	switch code {
	case "not_in_channel", "channel_not_found":
		e.Message, e.Hint = "Countersign is not in this channel.", "Invite it with `/invite @"+a.self.UserName+"` and ask again."
	case "is_archived":
		e.Message = "This channel is archived."
	case "restricted_action":
		e.Message = "Slack does not let Countersign post in this channel: who may post here is restricted."
	case "restricted_action_read_only_channel":
		e.Message = "This channel is read-only."
	case "restricted_action_thread_only_channel":
		e.Message, e.Hint = "In this channel only replies may be posted, so no thread can be begun.", "Mention the bot in a thread, or use another channel."
	case "restricted_action_non_threadable_channel":
		e.Message = "This channel has no threads, and a session is one."
	case "missing_scope", "no_permission":
		e.Message, e.Hint = "The Slack app lacks a permission to post here.", "Whoever runs Countersign finds out which with `cmd/bot doctor`."
	case "thread_not_found", "cannot_reply_to_message", "message_not_found":
		e.Message, e.Hint = "The message to begin the thread from is gone.", "Ask again."
	default:
		e.Message = "Slack did not take the thread's first message (" + code + ")."
	}
	return e
}

// denied are refusals until somebody changes a channel or the app.
func denied(code string) bool {
	return strings.HasPrefix(code, "restricted_action") ||
		slices.Contains([]string{"not_in_channel", "missing_scope", "no_permission", "access_denied", "ekm_access_denied", "user_is_restricted"}, code)
}

func messageGone() []string {
	return []string{"message_not_found", "cant_update_message", "edit_window_closed"}
}

// refusals are what Slack says of a message that it does not take whatever happens:
// of its form and its length (docs.slack.dev/reference/methods/chat.postMessage and
// chat.update).
func refusals() []string {
	return append(forms(), "no_text", "invalid_arguments", "invalid_array_arg", "invalid_form_data", "invalid_metadata_format",
		"invalid_metadata_schema", "metadata_too_large", "too_many_attachments", "block_mismatch")
}

// forms are those after which a message may be taken in a simpler form.
func forms() []string {
	return []string{"invalid_blocks", "invalid_blocks_format", "msg_too_long", "msg_blocks_too_long", "markdown_text_conflict"}
}

// mapped turns Slack's error into what a [chat.Poster] returns. Everything that
// is not known to be final is transient: also not_in_channel and its like, because a
// bot that was removed may be invited again, and then nothing is missing. That is
// waited for slowly.
func mapped(err error) error {
	var limited *slack.RateLimitedError
	switch c := code(err); {
	case err == nil:
		return nil
	case errors.As(err, &limited):
		return &chat.RateLimitedError{RetryAfter: limited.RetryAfter, Err: err}
	case c == "ratelimited" || c == "rate_limited":
		return &chat.RateLimitedError{RetryAfter: 30 * time.Second, Err: err}
	case denied(c):
		return &chat.RateLimitedError{RetryAfter: uninvitedRetry, Err: err}
	case slices.Contains(threadGone(), c):
		return fmt.Errorf("%w: %w", chat.ErrThreadGone, err)
	case slices.Contains(messageGone(), c):
		return fmt.Errorf("%w: %w", chat.ErrMessageGone, err)
	case slices.Contains(refusals(), c):
		return fmt.Errorf("%w: %w", chat.ErrRefused, detail(err))
	}
	return detail(err)
}
