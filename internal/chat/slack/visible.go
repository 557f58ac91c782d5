package slack

import (
	"context"
	"net/url"
	"slices"

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

// seeing are the sessions as one person sees them: those in channels that are
// closed to them are not listed to them, nor copied for them. Without a person
// only those in public channels are seen.
type seeing struct {
	chat.Sessions
	app *App
}

// List leaves out what the one who asks cannot see.
func (s seeing) List(ctx context.Context, managerID string, l workflows.ListSessions) (workflows.SessionList, error) {
	list, err := s.Sessions.List(ctx, managerID, l)
	if err != nil {
		return list, err
	}
	who, _ := ctx.Value(askerKey{}).(asker)
	list.Sessions = slices.DeleteFunc(slices.Clone(list.Sessions), func(row workflows.SessionRow) bool {
		return !s.app.sees(ctx, who, row.Thread.Channel, func() string { return row.By.ID })
	})
	return list, nil
}

// Fork copies what the one who asks can see.
func (s seeing) Fork(ctx context.Context, managerID string, f workflows.ForkSession) (workflows.SessionResult, error) {
	who, _ := ctx.Value(askerKey{}).(asker)
	who.user = f.By.ID
	source, err := workflows.ParseWorkflowID(f.Source)
	if err != nil || source.Team != s.app.self.Team || !s.app.seesThread(ctx, who, source) {
		return workflows.SessionResult{}, unseen()
	}
	return s.Sessions.Fork(ctx, managerID, f)
}

// unseen is what is said of a session that is closed to somebody: as of one that
// does not exist.
func unseen() *chat.Error {
	return &chat.Error{
		Kind: chat.KindForbidden, Code: "unknown_session", Message: "That names no session that you can see here.",
		Hint: "See `list` for the sessions and their names.",
	}
}

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
