package slack

import (
	"context"
	"net/url"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// askerKey is the context's key for who asks.
type askerKey struct{}

// maxPages bounds the pages of channels that are read, 200 each.
const maxPages = 10

// asker is somebody who asks, and the channel that Slack says they ask in: in a
// home or a modal there is none.
type asker struct{ user, channel string }

// asking says who asks for what is done with the context.
func asking(ctx context.Context, user, channel string) context.Context {
	return context.WithValue(ctx, askerKey{}, asker{user, channel})
}

// seeing are the sessions as one person sees them. Without a person only those in
// public channels are seen.
func (a *App) seeing(all chat.Sessions) chat.Sessions {
	return chat.Visible{
		Sessions: all, Unseen: unseen(),
		Rows: func(ctx context.Context) func(workflows.SessionRow) bool {
			who, _ := ctx.Value(askerKey{}).(asker)
			return func(row workflows.SessionRow) bool {
				return a.sees(ctx, who, row.Thread.Channel, func() string { return row.By.ID })
			}
		},
		Source: func(ctx context.Context, f workflows.ForkSession, source workflows.Thread) bool {
			who, _ := ctx.Value(askerKey{}).(asker)
			who.user = f.By.ID
			return source.Team == a.self.Team && a.seesThread(ctx, who, source)
		},
	}
}

func unseen() *chat.Error { return chat.Unseen("list") }

// mayTouch reports whether the one who asks sees the thread that a button, a modal
// or a choice names: what they carry counts for nothing by itself.
func (a *App) mayTouch(ctx context.Context, t workflows.Thread) bool {
	who, ok := ctx.Value(askerKey{}).(asker)
	return ok && a.seesThread(ctx, who, t)
}

func (a *App) seesThread(ctx context.Context, who asker, t workflows.Thread) bool {
	return a.sees(ctx, who, t.Channel, func() string {
		st, err := a.dep.Sessions.TurnState(ctx, t.WorkflowID())
		if err != nil {
			return ""
		}
		return st.Header.By.ID
	})
}

// sees reports whether somebody sees a channel: they ask in it, are in it, or it is
// public and they are a full member. A direct message is seen by who started the
// session in it. What cannot be looked up is not seen.
func (a *App) sees(ctx context.Context, who asker, channel string, starter func() string) bool {
	switch {
	case channel == "":
		return false
	case channel == who.channel:
		return true
	case isDirect(channel):
		return who.user != "" && starter() == who.user
	}
	open, err := a.public(ctx)
	if err == nil && open[channel] {
		by, aerr := a.people.actor(ctx, who.user)
		if err = aerr; err == nil && !by.Guest && !by.External {
			return true
		}
	}
	if err == nil && who.user != "" {
		var in map[string]bool
		if in, err = a.channelsOf(ctx, who.user); err == nil {
			return in[channel]
		}
	}
	if err != nil {
		a.log.Info("Who sees a channel is not known; it is shown to nobody", telemetry.KeyChannelID, channel, telemetry.KeyError, err)
	}
	return false
}

// public are the public channels that the bot is in, and were while it was.
func (a *App) public(ctx context.Context) (map[string]bool, error) {
	return a.conversations(ctx, "", url.Values{"types": {"public_channel"}})
}

// channelsOf are the channels that a person and the bot are both in.
func (a *App) channelsOf(ctx context.Context, user string) (map[string]bool, error) {
	return a.conversations(ctx, user, url.Values{"user": {user}, "types": {"public_channel,private_channel,mpim"}, "exclude_archived": {"true"}})
}

// conversations are those that users.conversations lists, at most a minute old. More
// than maxPages of them are left out.
func (a *App) conversations(ctx context.Context, key string, form url.Values) (map[string]bool, error) {
	if in, ok := a.shared.get(key, cacheFor); ok {
		return in, nil
	}
	in := map[string]bool{}
	form.Set("limit", "200")
	for range maxPages {
		var page struct {
			Channels []struct {
				ID string `json:"id"`
			} `json:"channels"`
			Meta struct {
				Next string `json:"next_cursor"`
			} `json:"response_metadata"`
		}
		if _, err := a.api.call(ctx, "users.conversations", form, &page); err != nil {
			return nil, detail(err)
		}
		for _, c := range page.Channels {
			in[c.ID] = true
		}
		if page.Meta.Next == "" {
			break
		}
		form.Set("cursor", page.Meta.Next)
	}
	a.shared.put(key, in)
	return in, nil
}
