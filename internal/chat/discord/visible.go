package discord

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/bwmarrin/discordgo"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// overwrite changes a role's (type 0) or a member's (type 1) permissions in a
// channel.
type overwrite struct {
	ID    string `json:"id"`
	Type  int    `json:"type"`
	Allow string `json:"allow"`
	Deny  string `json:"deny"`
}

// askerKey is the context's key for who asks.
type askerKey struct{}

type asker struct{ guild, user string }

// asking says who asks for what is done with the context.
func asking(ctx context.Context, guild, user string) context.Context {
	return context.WithValue(ctx, askerKey{}, asker{guild, user})
}

// seeing are the sessions as one person sees them.
func (a *App) seeing(all chat.Sessions) chat.Sessions {
	return chat.Visible{
		Sessions: all, Unseen: unseen(),
		Rows: func(ctx context.Context) func(workflows.SessionRow) bool {
			who, ok := ctx.Value(askerKey{}).(asker)
			if !ok {
				return nil
			}
			seen := map[string]bool{}
			return func(row workflows.SessionRow) bool {
				open, known := seen[row.Thread.Channel]
				if !known {
					open = a.sees(ctx, who, row.Thread.Channel)
					seen[row.Thread.Channel] = open
				}
				return open
			}
		},
		Source: func(ctx context.Context, f workflows.ForkSession, source workflows.Thread) bool {
			return a.seesThread(ctx, asker{source.Team, f.By.ID}, source.ID)
		},
	}
}

func unseen() *chat.Error { return chat.Unseen("/agent list") }

// seesThread reports whether somebody sees the channel that a thread stands in.
// Private threads are seen from within only.
func (a *App) seesThread(ctx context.Context, who asker, thread string) bool {
	place, err := a.place(ctx, thread)
	if err != nil || place.Guild != who.guild || !place.isThread() || place.Type == typePrivate {
		return err == nil && a.here(ctx, thread)
	}
	return a.sees(ctx, who, place.Parent)
}

// hereKey is the context's key for the channel or thread that something was asked
// in.
type hereKey struct{}

func within(ctx context.Context, channel string) context.Context {
	return context.WithValue(ctx, hereKey{}, channel)
}

// here reports whether something was asked in a channel or thread: who asks there
// sees it.
func (a *App) here(ctx context.Context, id string) bool {
	in, _ := ctx.Value(hereKey{}).(string)
	return in == id && id != ""
}

// sees reports whether somebody sees a channel. What cannot be looked up is not
// seen.
func (a *App) sees(ctx context.Context, who asker, id string) bool {
	c, ok := a.walls.get(id, cacheFor)
	if !ok {
		if err := a.api.call(ctx, http.MethodGet, "/channels/"+id, nil, &c); err != nil {
			a.log.Info("Who sees a channel is not known; it is shown to nobody", telemetry.KeyChannelID, id, telemetry.KeyError, err)
			return false
		}
		a.walls.put(id, c)
	}
	m, ok, err := a.people.member(ctx, who.guild, who.user)
	if err != nil || !ok || c.Guild != who.guild {
		return false
	}
	roles, err := a.people.guildRoles(ctx, who.guild)
	if err != nil {
		return false
	}
	return permissions(who, m.Roles, roles, c.Overwrites)&discordgo.PermissionViewChannel != 0
}

// permissions are a member's in a channel (Permissions, Permission Overwrites).
// A server's owner who has no role that says so is taken for a member.
func permissions(who asker, has []string, roles []role, overwrites []overwrite) int64 {
	var base int64
	for _, r := range roles {
		if r.ID == who.guild || slices.Contains(has, r.ID) {
			base |= bits(r.Permissions)
		}
	}
	if base&discordgo.PermissionAdministrator != 0 {
		return ^0
	}
	var allow, deny int64
	for _, o := range overwrites {
		switch {
		case o.Type == 0 && o.ID == who.guild:
			base = base&^bits(o.Deny) | bits(o.Allow)
		case o.Type == 0 && slices.Contains(has, o.ID):
			allow, deny = allow|bits(o.Allow), deny|bits(o.Deny)
		}
	}
	base = base&^deny | allow
	for _, o := range overwrites {
		if o.Type == 1 && o.ID == who.user {
			base = base&^bits(o.Deny) | bits(o.Allow)
		}
	}
	return base
}

func bits(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
