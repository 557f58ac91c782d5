package discord

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/bwmarrin/discordgo"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/workflows"
)

// fileHosts are where Discord keeps files (Reference, CDN formatting; Message,
// Attachment object).
var fileHosts = []string{"cdn.discordapp.com", "media.discordapp.net"}

var _ chat.Fetcher = (*poster)(nil)

// Fetch returns the content of a file that somebody attached. Its address is good
// for a day, so the message is read anew; the token goes nowhere with it.
func (p *poster) Fetch(ctx context.Context, t workflows.Thread, id string, a workflows.Attachment, limit int64) ([]byte, error) {
	var m message
	err := p.app.api.call(ctx, http.MethodGet, "/channels/"+whereIs(t, id)+"/messages/"+id, nil, &m)
	switch {
	case is(err, discordgo.ErrCodeUnknownMessage, discordgo.ErrCodeUnknownChannel):
		return nil, &chat.FetchError{Why: "its message was deleted"}
	case err != nil:
		return nil, mapped(err)
	}
	for _, f := range m.Attachments {
		if f.ID == a.ID {
			return chat.Download{Client: p.app.http(), Allowed: p.app.ownFile}.Get(ctx, f.URL, limit)
		}
	}
	return nil, &chat.FetchError{Why: "it was removed from its message"}
}

func (a *App) http() *http.Client {
	if a.dep.HTTP != nil {
		return a.dep.HTTP
	}
	return &http.Client{Timeout: callTimeout}
}

// ownFile reports whether an address is on a host that Discord keeps files on; of
// a server that stands in for Discord, on that server.
func (a *App) ownFile(u *url.URL) bool {
	if a.cfg.APIURL == DiscordAPI {
		return u.Scheme == "https" && slices.Contains(fileHosts, u.Host) && u.User == nil
	}
	base, err := url.Parse(a.cfg.APIURL)
	return err == nil && u.Scheme == base.Scheme && u.Host == base.Host && u.User == nil
}
