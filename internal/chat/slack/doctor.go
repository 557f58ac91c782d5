package slack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/countersign/countersign/internal/chat"
)

// doctorWithin bounds one check.
const doctorWithin = 15 * time.Second

// Doctor looks at an installation: the tokens' kinds, the scopes, the team, the
// connection, and whether the approver groups can be looked up. It changes
// nothing and posts nothing. client may be nil.
func Doctor(ctx context.Context, cfg Config, client *http.Client) []chat.Check {
	cfg = cfg.withDefaults()
	d := doctor{cfg: cfg, api: newAPI(cfg, client)}
	d.tokens()
	if !cfg.BotToken.IsSet() {
		return d.checks
	}
	if id, ok := d.team(ctx); ok {
		d.groups(ctx, id)
	}
	d.connection(ctx)
	return d.checks
}

type doctor struct {
	cfg    Config
	api    *api
	checks []chat.Check
}

func (d *doctor) add(name, state, text, fix string) {
	d.checks = append(d.checks, chat.Check{Name: name, State: state, Text: text, Fix: fix})
}

func (d *doctor) tokens() {
	const botFix = "Copy the Bot User OAuth Token, xoxb-…, from the app's page “OAuth & Permissions” into slack.bot_token."
	switch t := d.cfg.BotToken.Reveal(); {
	case t == "":
		d.add("bot token", chat.CheckFailed, "slack.bot_token is not set.", botFix)
	case strings.HasPrefix(t, "xapp-"):
		d.add("bot token", chat.CheckFailed, "slack.bot_token holds an app-level token.", "Are the two tokens swapped? "+botFix)
	case !strings.HasPrefix(t, "xoxb-"):
		d.add("bot token", chat.CheckFailed, "slack.bot_token is no bot token: those begin with xoxb-.", botFix)
	default:
		d.add("bot token", chat.CheckOK, "It has a bot token's form.", "")
	}
	if d.cfg.Mode == ModeHTTP {
		d.signing()
		return
	}
	const appFix = "Make an app-level token with the scope connections:write under “Basic Information” and put it into slack.app_token."
	switch t := d.cfg.AppToken.Reveal(); {
	case t == "":
		d.add("app token", chat.CheckFailed, "slack.app_token is not set; Socket Mode needs it.", appFix)
	case !strings.HasPrefix(t, "xapp-"):
		d.add("app token", chat.CheckFailed, "slack.app_token is no app-level token: those begin with xapp-.", appFix)
	default:
		d.add("app token", chat.CheckOK, "It has an app-level token's form.", "")
	}
}

// signing looks at what HTTP mode needs in the app token's place.
func (d *doctor) signing() {
	if !d.cfg.SigningSecret.IsSet() {
		d.add("signing secret", chat.CheckFailed, "slack.signing_secret is not set; http mode needs it.", "Copy the Signing Secret from the app's page “Basic Information”.")
		return
	}
	d.add("signing secret", chat.CheckOK, "It is set.", "")
}

// team asks who the token speaks for, and looks at its scopes.
func (d *doctor) team(ctx context.Context) (identity, bool) {
	ctx, cancel := context.WithTimeout(ctx, doctorWithin)
	defer cancel()
	id, header, err := d.api.identify(ctx)
	switch {
	case errors.Is(err, ErrRefused):
		d.add("team", chat.CheckFailed, sentence(err), "Fix that and run doctor again.")
		return id, false
	case err != nil:
		d.add("team", chat.CheckFailed, "Slack could not be asked: "+sentence(err), "Is "+d.cfg.APIURL+" reachable from here? A proxy is taken from HTTPS_PROXY.")
		return id, false
	}
	d.add("team", chat.CheckOK, fmt.Sprintf("The token speaks for @%s in %s (%s).", id.UserName, id.TeamName, id.Team), "")
	d.scopes(header)
	d.checks = append(d.checks, d.api.gate.clock.Check("Slack"))
	return id, true
}

func (d *doctor) scopes(header http.Header) {
	granted := strings.FieldsFunc(header.Get("X-OAuth-Scopes"), func(r rune) bool { return r == ',' || r == ' ' })
	if len(granted) == 0 {
		d.add("scopes", chat.CheckWarning, "Slack did not say which scopes the token has.", "")
		return
	}
	var missing []string
	for _, s := range neededScopes() {
		if !slices.Contains(granted, s) {
			missing = append(missing, s)
		}
	}
	if len(missing) > 0 {
		d.add("scopes", chat.CheckFailed, "The token lacks "+strings.Join(missing, ", ")+".",
			"Paste manifest.yaml into the app's page “App Manifest” again, then reinstall the app to the workspace.")
		return
	}
	d.add("scopes", chat.CheckOK, fmt.Sprintf("All %d that are needed are granted.", len(neededScopes())), "")
}

// neededScopes are all bot scopes that the adapter uses, sorted.
func neededScopes() []string {
	need := map[string]bool{}
	for _, table := range []map[string][]string{methods(), eventScopes()} {
		for _, scopes := range table {
			for _, s := range scopes {
				need[s] = true
			}
		}
	}
	for s := range otherScopes() {
		need[s] = true
	}
	return slices.Sorted(maps.Keys(need))
}

// groups looks whether every approver that names a group is one.
func (d *doctor) groups(ctx context.Context, id identity) {
	names := slices.DeleteFunc(slices.Clone(d.cfg.Approvers), func(n string) bool { return n == "*" || isUserID(n) })
	if len(d.cfg.Approvers) == 0 {
		d.add("approvers", chat.CheckWarning, "approvals.approvers is empty: risky commands are refused.", "Set it to user IDs and user group handles, such as platform-oncall.")
		return
	}
	if len(names) == 0 {
		d.add("approvers", chat.CheckOK, "No group has to be looked up.", "")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, doctorWithin)
	defer cancel()
	groups, err := newPeople(d.api, id).all(ctx)
	if err != nil {
		d.add("approvers", chat.CheckFailed, "User groups cannot be looked up: "+sentence(err), "Without that no group counts. User groups need a paid plan and the scope usergroups:read.")
		return
	}
	var unknown, empty []string
	for _, n := range names {
		gid, ok := groupID(groups, n)
		if !ok {
			unknown = append(unknown, n)
			continue
		}
		if i := slices.IndexFunc(groups, func(g group) bool { return g.ID == gid }); len(groups[i].Users) == 0 {
			empty = append(empty, n)
		}
	}
	switch {
	case len(unknown) > 0:
		d.add("approvers", chat.CheckFailed, "No user group here is called "+strings.Join(unknown, ", ")+".", "Use a group's handle without the @, or its ID, S…; names of other platforms do no harm here.")
	case len(empty) > 0:
		d.add("approvers", chat.CheckWarning, "Nobody is in "+strings.Join(empty, ", ")+".", "Add people to the group in Slack.")
	default:
		d.add("approvers", chat.CheckOK, "All "+fmt.Sprint(len(names))+" groups were found.", "")
	}
}

// connection opens a socket and waits for Slack's hello.
func (d *doctor) connection(ctx context.Context) {
	if !d.cfg.AppToken.IsSet() || d.cfg.Mode == ModeHTTP {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, doctorWithin)
	defer cancel()
	const fix = "Is Socket Mode on in the app's settings, and has the app-level token the scope connections:write?"
	_, url, err := d.api.StartSocketModeContext(ctx)
	if err != nil {
		d.add("connection", chat.CheckFailed, "Slack opened no connection: "+sentence(detail(err)), fix)
		return
	}
	conn, resp, err := (&websocket.Dialer{Proxy: http.ProxyFromEnvironment}).DialContext(ctx, url, nil)
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close()
	}
	if err != nil {
		d.add("connection", chat.CheckFailed, "The connection was refused: "+sentence(err), "WebSocket connections to Slack must be allowed to leave this machine.")
		return
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetReadDeadline(deadline)
	}
	var hello struct {
		Type        string `json:"type"`
		Connections int    `json:"num_connections"`
	}
	if err := conn.ReadJSON(&hello); err != nil || hello.Type != "hello" {
		d.add("connection", chat.CheckFailed, "The connection opened, but Slack said no hello.", fix)
		return
	}
	d.add("connection", chat.CheckOK, fmt.Sprintf("Slack said hello; the app has %d connections now and may have 10.", hello.Connections), "")
}

func sentence(err error) string {
	s := err.Error()
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}
