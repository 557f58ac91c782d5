package discord

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/blob/owned"
	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// fileHosts are where Discord keeps files (Reference, CDN formatting; Message,
// Attachment object).
var fileHosts = []string{"cdn.discordapp.com", "media.discordapp.net"}

var _ chat.Fetcher = (*poster)(nil)

// Fetch returns the content of a file that somebody attached. Its address is good
// for a day, so the message is read anew; the token goes nowhere with it. What came
// with a command is kept already.
func (p *poster) Fetch(ctx context.Context, t workflows.Thread, id string, a workflows.Attachment, limit int64) ([]byte, error) {
	if keptFile.MatchString(a.ID) {
		return p.kept(ctx, a, limit)
	}
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

// keptFile is what the files of commands are named in the blob store.
var keptFile = regexp.MustCompile(`^` + owned.Uploads + `/[0-9a-f]{64}$`)

func (p *poster) kept(ctx context.Context, a workflows.Attachment, limit int64) ([]byte, error) {
	data, err := p.app.dep.Blobs.Get(ctx, a.ID)
	switch {
	case errors.Is(err, blob.ErrNotFound), errors.Is(err, blob.ErrBadKey):
		return nil, &chat.FetchError{Why: "it is no longer kept"}
	case err == nil && int64(len(data)) > limit:
		return nil, &chat.FetchError{Why: "it is larger than " + chat.Size(limit)}
	}
	return data, err
}

// fetchWithin bounds fetching a command's files.
const fetchWithin = 2 * time.Minute

// bring takes the files that came with a command. No message holds them, and their
// addresses let anybody read them for a day: so they are fetched before the task is
// recorded, and the record names what is kept. It returns why nothing is done, if so.
func (c *call) bring(ctx context.Context, ev *chat.Event) string {
	var files []workflows.Attachment
	for _, sub := range c.i.Data.Options {
		for _, o := range sub.Options {
			if f, ok := c.i.Data.Resolved.Attachments[fmt.Sprint(o.Value)]; ok && o.Type == int(discordgo.ApplicationCommandOptionAttachment) {
				files = append(files, f.attachment())
			}
		}
	}
	if len(files) == 0 {
		return ""
	}
	ctx, cancel := limit(ctx, fetchWithin)
	defer cancel()
	if err := c.app.allow(ctx, ev.By, chat.VerbRun, ev.Thread); err != nil {
		return err.Text()
	}
	chat.Attach(ev, files)
	for n, f := range ev.Attachments {
		key, err := c.keep(ctx, c.i.Data.Resolved.Attachments[f.ID].URL)
		var never *chat.FetchError
		switch {
		case errors.As(err, &never):
			return "“" + escape(f.Name) + "” cannot be taken: " + never.Why + ". Nothing was recorded."
		case err != nil:
			c.app.log.Warn("A command's file was not fetched", telemetry.KeyError, err)
			return "“" + escape(f.Name) + "” could not be fetched from Discord. Nothing was recorded; try again in a moment."
		}
		ev.Attachments[n].ID = key
	}
	return ""
}

// keep brings a file into the blob store.
func (c *call) keep(ctx context.Context, address string) (key string, err error) {
	var never *chat.FetchError
	err = persist(ctx, func() error {
		data, err := chat.Download{Client: c.app.http(), Allowed: c.app.ownFile}.Get(ctx, address, workflows.MaxFileBytes)
		if errors.As(err, &never) {
			return nil
		}
		if err == nil {
			key, err = c.app.dep.Blobs.Put(ctx, owned.Uploads, data)
		}
		return err
	})
	if never != nil {
		err = never
	}
	return key, err
}

// labels names files with their sizes.
func labels(files []workflows.Attachment) string {
	var out []string
	for _, f := range files {
		out = append(out, escape(f.Name)+" ("+chat.Size(f.Bytes)+")")
	}
	return strings.Join(out, ", ")
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
