package discord

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/countersign/countersign/internal/chat"
)

// doctorWithin bounds one check.
const doctorWithin = 15 * time.Second

// Flags of an application that say which privileged intents it has: verified, or
// unverified in few servers (Application, Application Flags).
const (
	flagContent        = 1 << 18
	flagContentLimited = 1 << 19
)

// Doctor looks at an application: the token, the application, its intents, the
// gateway, and in each server the bot's permissions and whether the approver roles
// can be found. It gives the invite link. It changes nothing and posts nothing.
// client may be nil.
func Doctor(ctx context.Context, cfg Config, client *http.Client) []chat.Check {
	cfg = cfg.withDefaults()
	d := doctor{cfg: cfg}
	if !cfg.Token.IsSet() {
		d.add("bot token", chat.CheckFailed, "discord.token is not set.", tokenFix)
		return d.checks
	}
	var err error
	if d.api, err = newAPI(cfg.APIURL, cfg.Token, client); err != nil {
		d.add("bot token", chat.CheckFailed, chat.Sentence(err.Error()), tokenFix)
		return d.checks
	}
	id, ok := d.application(ctx)
	if !ok {
		return d.checks
	}
	d.checks = append(d.checks, d.api.clock.Check("Discord"))
	d.public(id)
	d.intents(id)
	d.interactions(id)
	d.gateway(ctx)
	d.guilds(ctx, id)
	d.add("invite link", chat.CheckOK, Invite(id.App), "")
	return d.checks
}

const tokenFix = "Copy the token from the application's page “Bot” into discord.token."

type doctor struct {
	cfg    Config
	api    *api
	checks []chat.Check
}

func (d *doctor) add(name, state, text, fix string) {
	d.checks = append(d.checks, chat.Check{Name: name, State: state, Text: text, Fix: fix})
}

// application asks who the token speaks for.
func (d *doctor) application(ctx context.Context) (identity, bool) {
	ctx, cancel := context.WithTimeout(ctx, doctorWithin)
	defer cancel()
	id, err := d.api.identify(ctx)
	switch {
	case errors.Is(err, ErrRefused):
		d.add("bot token", chat.CheckFailed, chat.Sentence(err.Error()), tokenFix)
		return id, false
	case err != nil:
		d.add("bot token", chat.CheckFailed, "Discord could not be asked: "+chat.Sentence(err.Error()), "Is "+d.cfg.APIURL+" reachable from here? A proxy is taken from HTTPS_PROXY.")
		return id, false
	}
	d.add("bot token", chat.CheckOK, "It speaks for @"+id.Name+" ("+id.Bot+").", "")
	if d.cfg.ApplicationID != "" && d.cfg.ApplicationID != id.App {
		d.add("application", chat.CheckFailed, "discord.application_id is "+d.cfg.ApplicationID+", but the token is that of "+id.App+".", "Set discord.application_id to "+id.App+", or leave it out.")
		return id, false
	}
	d.add("application", chat.CheckOK, "Application "+id.App+"; its queue is chat/discord/"+id.App+".", "")
	return id, true
}

// public warns of a bot that anybody may invite: their members could give tasks.
func (d *doctor) public(id identity) {
	switch {
	case len(d.cfg.Guilds) > 0:
		d.add("served servers", chat.CheckOK, "Only those that discord.guilds names: "+strings.Join(d.cfg.Guilds, ", ")+".", "")
	case id.Public:
		d.add("served servers", chat.CheckWarning, "Anybody may invite this bot to their server, and its members may then give it tasks.",
			"Switch “Public Bot” off on the application's page “Bot”, or name the servers in discord.guilds.")
	default:
		d.add("served servers", chat.CheckOK, "All that its owner invites it to.", "")
	}
}

func (d *doctor) intents(id identity) {
	has := id.Flags&(flagContent|flagContentLimited) != 0
	switch {
	case d.cfg.NoMessageContent:
		d.add("intents", chat.CheckOK, "Without Message Content: only mentions and commands reach a session.", "")
	case has:
		d.add("intents", chat.CheckOK, "Message Content is on: messages in a session's thread reach it.", "")
	default:
		d.add("intents", chat.CheckFailed, "The application lacks the Message Content intent; the gateway will refuse the bot.",
			"Switch on “Message Content Intent” on the application's page “Bot”, or set discord.message_content to false.")
	}
}

// interactions looks at what receiving them over HTTP needs.
func (d *doctor) interactions(id identity) {
	if d.cfg.Listen == "" {
		return
	}
	if !strings.EqualFold(d.cfg.PublicKey, id.Key) && id.Key != "" {
		d.add("public key", chat.CheckFailed, "discord.public_key is not the application's.", "Copy the Public Key from the application's page “General Information”.")
		return
	}
	d.add("public key", chat.CheckOK, "Interactions are received over HTTP at "+d.cfg.Listen+"; set the Interactions Endpoint URL to where that is reachable.", "")
}

// gateway asks where the gateway is and how many sessions may still be started.
func (d *doctor) gateway(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, doctorWithin)
	defer cancel()
	var g struct {
		URL    string `json:"url"`
		Shards int    `json:"shards"`
		Limit  struct {
			Total     int `json:"total"`
			Remaining int `json:"remaining"`
		} `json:"session_start_limit"`
	}
	if err := d.api.call(ctx, http.MethodGet, "/gateway/bot", nil, &g); err != nil {
		d.add("gateway", chat.CheckFailed, "Discord named no gateway: "+chat.Sentence(err.Error()), "")
		return
	}
	where := d.cfg.GatewayURL
	if where == "" {
		where = g.URL
	}
	switch {
	case g.Shards > 1:
		d.add("gateway", chat.CheckWarning, fmt.Sprintf("Discord wants %d shards; Countersign holds one connection, and is for fewer than 2,500 servers.", g.Shards), "")
	case g.Limit.Total > 0 && g.Limit.Remaining < g.Limit.Total/10:
		d.add("gateway", chat.CheckWarning, fmt.Sprintf("Only %d of %d connections may still be opened today.", g.Limit.Remaining, g.Limit.Total), "Does a bot restart again and again?")
	default:
		d.add("gateway", chat.CheckOK, fmt.Sprintf("%s; %d of %d connections may still be opened today.", where, g.Limit.Remaining, g.Limit.Total), "")
	}
}

// server is one that the bot is in, with its permissions there.
type server struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Permissions string `json:"permissions"`
}

// guilds looks at the servers that the bot is in.
func (d *doctor) guilds(ctx context.Context, id identity) {
	var all []server
	gctx, cancel := context.WithTimeout(ctx, doctorWithin)
	defer cancel()
	if err := d.api.call(gctx, http.MethodGet, "/users/@me/guilds?limit=200", nil, &all); err != nil {
		d.add("servers", chat.CheckFailed, "Discord did not say in which servers the bot is: "+chat.Sentence(err.Error()), "")
		return
	}
	if len(all) == 0 {
		d.add("servers", chat.CheckFailed, "The bot is in no server.", "Invite it: "+Invite(id.App))
		return
	}
	for _, wanted := range d.cfg.Guilds {
		if !slices.ContainsFunc(all, func(g server) bool { return g.ID == wanted }) {
			d.add("servers", chat.CheckFailed, "The bot is not in the server "+wanted+" that discord.guilds names.", "Invite it: "+Invite(id.App))
		}
	}
	for _, g := range all {
		name := "server " + chat.Shown(g.Name)
		have, err := strconv.ParseInt(g.Permissions, 10, 64)
		lacks := missing(have)
		switch {
		case err != nil:
			d.add(name, chat.CheckWarning, "Discord did not say which permissions the bot has.", "")
		case len(lacks) > 0:
			d.add(name, chat.CheckFailed, "The bot lacks "+strings.Join(lacks, ", ")+".", "Give them to its role, or invite it again: "+Invite(id.App))
		default:
			d.add(name, chat.CheckOK, "All permissions that are needed are given; a channel may still take some away.", "")
		}
		d.roles(ctx, g.ID, name, have)
	}
}

// roles looks whether every approver that names a role is one here.
func (d *doctor) roles(ctx context.Context, guild, name string, have int64) {
	if len(d.cfg.Approvers) == 0 {
		d.add(name+" approvers", chat.CheckWarning, "approvals.approvers is empty: risky commands are refused.", "Set it to user IDs and to role IDs or names, such as platform-oncall.")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, doctorWithin)
	defer cancel()
	all, err := newPeople(d.api).guildRoles(ctx, guild)
	if err != nil {
		d.add(name+" approvers", chat.CheckFailed, "Roles cannot be looked up: "+chat.Sentence(err.Error()), "Without that only IDs count.")
		return
	}
	var unknown, silent []string
	for _, n := range d.cfg.Approvers {
		if n == "*" {
			continue
		}
		rid, ok := roleID(all, n)
		if !ok {
			if !isID(n) { // an ID may be a person's
				unknown = append(unknown, n)
			}
			continue
		}
		i := slices.IndexFunc(all, func(r role) bool { return r.ID == rid })
		if !all[i].Mentionable && have&(discordgo.PermissionMentionEveryone|discordgo.PermissionAdministrator) == 0 {
			silent = append(silent, all[i].Name)
		}
	}
	switch {
	case len(unknown) > 0:
		d.add(name+" approvers", chat.CheckFailed, "No one role here is called "+strings.Join(unknown, ", ")+".", "Use a role's ID, or a name that only one role has; names of other platforms do no harm here.")
	case len(silent) > 0:
		d.add(name+" approvers", chat.CheckWarning, "The bot cannot notify "+strings.Join(silent, ", ")+".", "Allow anyone to mention the role in its settings.")
	default:
		d.add(name+" approvers", chat.CheckOK, "All roles were found.", "")
	}
}

// Invite is the address that adds the application to a server, with the commands
// and the permissions that it needs.
func Invite(application string) string {
	var bits int64
	for bit := range needed() {
		bits |= bit
	}
	q := url.Values{"client_id": {application}, "scope": {"bot applications.commands"}, "permissions": {strconv.FormatInt(bits, 10)}}
	return "https://discord.com/oauth2/authorize?" + q.Encode()
}
