package discord

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"
	"go.temporal.io/sdk/activity"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// poster writes the sessions' messages. It keeps nothing: what was posted is
// found again by its nonce, later by the mark that it carries.
type poster struct{ app *App }

var (
	_ chat.Poster  = (*poster)(nil)
	_ chat.Members = (*poster)(nil)
	_ chat.Dated   = (*poster)(nil)
)

// headerKey is the key under which sessions show their header; the message that a
// thread of ours was opened from is the header.
const headerKey = "header"

// Limits: a running command is followed ever more slowly.
func (*poster) Limits() chat.Limits {
	return chat.Limits{MinRefresh: minRefresh, MaxRefresh: maxRefresh}
}

// placeOf is the channel that messages of a thread are written to.
func placeOf(t workflows.Thread) string {
	if t.ID != "" {
		return t.ID
	}
	return t.Channel
}

// whereIs is the channel of a message of a thread: the one that the thread was
// opened from stands in the channel.
func whereIs(t workflows.Thread, ref string) string {
	if ref == t.ID && t.Channel != "" {
		return t.Channel
	}
	return placeOf(t)
}

// part is a message of ours that stands under a key.
type part struct {
	id string
	mark
}

// find returns our messages under a key in a channel since a time, oldest first.
func (p *poster) find(ctx context.Context, in, key string, since time.Time) ([]part, error) {
	want := markOf(key, 0, 0).key
	var out []part
	after := snowflake(since)
	for {
		var page []message
		if err := p.app.api.messagesAfter(ctx, in, after, &page); err != nil {
			return nil, err
		}
		for _, m := range page {
			after = m.ID
			if k, ok := readMark(m.Content); ok && k.key == want && m.Author.ID == p.app.self.Bot {
				out = append(out, part{m.ID, k})
			}
		}
		if len(page) < maxPage {
			return out, nil
		}
	}
}

// Find returns our whole messages under key, oldest first. One whose parts are
// not all there counts as not posted; the next post adds what is missing.
func (p *poster) Find(ctx context.Context, t workflows.Thread, key string, since time.Time) ([]chat.Found, error) {
	if key == headerKey {
		root, ok, err := p.app.root(ctx, t)
		if err != nil {
			return nil, mapped(err)
		}
		if ok && root.Author.ID == p.app.self.Bot {
			return []chat.Found{{Ref: root.ID}}, nil
		}
	}
	found, err := p.find(ctx, placeOf(t), key, since.Add(-time.Minute))
	if err != nil {
		return nil, mapped(err)
	}
	return whole(found), nil
}

// whole are the complete messages among the parts: each begins with a part 0.
func whole(found []part) []chat.Found {
	var out []chat.Found
	for _, m := range found {
		if m.part != 0 {
			continue
		}
		complete := true
		for i := byte(1); i < m.parts; i++ {
			complete = complete && at(found, i) != ""
		}
		if complete {
			out = append(out, chat.Found{Ref: m.id})
		}
	}
	return out
}

// at is the ID of a part; empty when it was not posted.
func at(found []part, n byte) string {
	for _, m := range found {
		if m.part == n {
			return m.id
		}
	}
	return ""
}

// Post posts a message under its view's key.
func (p *poster) Post(ctx context.Context, c chat.Content) (string, error) {
	v := c.View
	if v.Header != nil {
		root, ok, err := p.app.root(ctx, c.Thread)
		if err != nil {
			return "", mapped(err)
		}
		if ok && root.Author.ID == p.app.self.Bot {
			return root.ID, p.Edit(ctx, root.ID, c)
		}
	}
	if v.Header == nil && v.Turn == nil && v.Approval == nil {
		text := textContent(v.Key, c.Text)
		if c.File != nil {
			text.file = &file{name: c.File.Name, text: string(c.File.Data)}
		}
		return p.postText(ctx, c.Thread, v.Key, text)
	}
	d := draw(c, p.roles(ctx, c), !c.Again)
	return p.post(ctx, c.Thread, placeOf(c.Thread), v.Key, 0, outgoing{Content: d.text, Components: d.rows, Mentions: d.allow})
}

// roles are what a card needs to mention approvers. Without them their names are
// shown as they are configured.
func (p *poster) roles(ctx context.Context, c chat.Content) []role {
	if c.View.Approval == nil {
		return nil
	}
	all, err := p.app.people.guildRoles(ctx, c.Thread.Team)
	if err != nil {
		p.app.log.Warn("Roles cannot be looked up", telemetry.KeyError, err)
	}
	return all
}

// postText posts a text: one message, several, or one with a file. What stands
// there already is not posted again.
func (p *poster) postText(ctx context.Context, t workflows.Thread, key string, c content) (string, error) {
	retry, since := attempt(ctx)
	var found []part
	if retry && len(c.parts) > 1 {
		var err error
		if found, err = p.find(ctx, placeOf(t), key, since); err != nil {
			return "", mapped(err)
		}
	}
	first := ""
	for i, text := range c.parts {
		id := at(found, byte(i))
		if id == "" {
			m := outgoing{Content: text}
			if i == len(c.parts)-1 {
				m.Components = c.rows
			}
			var files []file
			if c.file != nil {
				files = []file{*c.file}
			}
			var err error
			if id, err = p.postPart(ctx, t, placeOf(t), key, i, len(c.parts), m, files); err != nil {
				return "", err
			}
		}
		if i == 0 {
			first = id
		}
	}
	return first, nil
}

// post posts one message of a key and returns its ID.
func (p *poster) post(ctx context.Context, t workflows.Thread, in, key string, n int, m outgoing) (string, error) {
	return p.postPart(ctx, t, in, key, n, n+1, m, nil)
}

func (p *poster) postPart(ctx context.Context, t workflows.Thread, in, key string, n, of int, m outgoing, files []file) (string, error) {
	m.Content += markOf(key, n, of).String()
	m.Flags = flagNoPreviews
	if m.Mentions.Parse == nil {
		m.Mentions.Parse = []string{}
	}
	for i, f := range files {
		m.Attachments = append(m.Attachments, attachment{ID: strconv.Itoa(i), Name: f.name})
	}
	m.Enforce = true
	id, err := p.create(ctx, t, in, key, n, m, files)
	if is(err, discordgo.ErrCodeInvalidFormBody) {
		p.app.log.Error("Discord refuses a message's form; it is sent as plain text", telemetry.KeyError, err, "key", key)
		m.Content, m.Components = simple(m.Content, m.Components)
		id, err = p.create(ctx, t, in, key, n, m, files)
	}
	return id, err
}

// simple is a text without form, and short, for when Discord refuses it as it is:
// the buttons stay, which nothing can take the place of. Where the text is cut there
// is none that approves it.
func simple(content string, rows []component) (string, []component) {
	text, sign, _ := strings.Cut(content, string(markSign))
	if sign != "" {
		sign = string(markSign) + sign
	}
	text = strings.TrimSpace(strings.ReplaceAll(text, "```", ""))
	short := cut(text, maxContent/2)
	if short != text {
		rows = withoutApproving(rows)
	}
	return fence(short) + sign, rows
}

// withoutApproving are rows of buttons without those that approve a request.
func withoutApproving(rows []component) []component {
	out := []component{}
	for _, row := range rows {
		row.Components = slices.DeleteFunc(slices.Clone(row.Components), func(c component) bool {
			r, ok := decodeRef(c.CustomID)
			return ok && approves(r.Button)
		})
		if len(row.Components) > 0 {
			out = append(out, row)
		}
	}
	return out
}

// approves reports the buttons that approve what a card shows.
func approves(button string) bool {
	return button == workflows.ButtonApprove || button == workflows.ButtonGrant
}

// create makes one message.
func (p *poster) create(ctx context.Context, t workflows.Thread, in, key string, n int, m outgoing, files []file) (string, error) {
	// A message that was deleted may be found by its nonce, and cannot be given:
	// then another one says that it is wanted again.
	for _, nonce := range []string{nonce(t, key, n, false), nonce(t, key, n, true), rand.Text()[:maxNonce-1]} {
		m.Nonce = nonce
		var posted message
		err := p.app.api.upload(ctx, http.MethodPost, "/channels/"+in+"/messages", m, files, &posted)
		switch {
		case is(err, discordgo.ErrCodeUnknownMessage):
			continue
		case is(err, discordgo.ErrCodeThreadIsLocked, discordgo.ErrCodePerformedOperationOnArchivedThread):
			p.tellLocked(ctx, t)
			return "", fmt.Errorf("%w: it is locked: %w", chat.ErrThreadGone, err)
		case err != nil:
			return "", mapped(err)
		case posted.ID == "":
			return "", errors.New("discord gave the message no ID")
		}
		return posted.ID, nil
	}
	return "", errors.New("discord finds only deleted copies of the message")
}

// Edit makes a message show c.
func (p *poster) Edit(ctx context.Context, ref string, c chat.Content) error {
	v := c.View
	if v.Header == nil && v.Turn == nil && v.Approval == nil {
		return p.editText(ctx, ref, c)
	}
	d := draw(c, p.roles(ctx, c), false)
	err := p.update(ctx, c.Thread, ref, edit{Content: d.text + markOf(v.Key, 0, 1).String(), Components: d.rows, Mentions: noMentions()})
	if err == nil && v.Header != nil {
		p.rename(ctx, c.Thread, v.Header.Title)
	}
	if !is(err, discordgo.ErrCodeMaximumNumberOfEditsToMessagesOlderThanOneHourReached) {
		return mapped(err)
	}
	if v.Header != nil {
		return p.oldHeader(ctx, c, err)
	}
	// An old card takes no more edits: a new one takes its place, below.
	if err := p.Delete(ctx, c.Thread, ref); err != nil {
		return err
	}
	return fmt.Errorf("%w: discord takes no more edits of it", chat.ErrMessageGone)
}

// oldHeaderTries is how often the edit of a header is tried that Discord refuses
// because of its age: an hour, then the next change of the header tries again.
const (
	oldHeaderTries = 12
	oldHeaderAfter = 5 * time.Minute
)

// oldHeader: a header cannot be replaced, its thread hangs on it.
func (p *poster) oldHeader(ctx context.Context, c chat.Content, err error) error {
	if activity.IsActivity(ctx) && activity.GetInfo(ctx).Attempt < oldHeaderTries {
		return &chat.RateLimitedError{RetryAfter: oldHeaderAfter, Err: err}
	}
	p.app.log.Info("Discord takes no more edits of an old header for now", telemetry.KeyThreadID, c.Thread.ID)
	return nil
}

// editText edits an answer or notice, part by part. They do not change after they
// were posted; this is for the day that one does.
func (p *poster) editText(ctx context.Context, ref string, c chat.Content) error {
	key := c.View.Key
	text := textContent(key, c.Text)
	found := []part{{id: ref, mark: markOf(key, 0, 1)}}
	if len(text.parts) > 1 {
		var err error
		if found, err = p.find(ctx, placeOf(c.Thread), key, timeOf(ref).Add(-time.Minute)); err != nil {
			return mapped(err)
		}
	}
	for i, s := range text.parts {
		id := at(found, byte(i))
		if id == "" {
			if _, err := p.postPart(ctx, c.Thread, placeOf(c.Thread), key, i, len(text.parts), outgoing{Content: s}, nil); err != nil {
				return err
			}
			continue
		}
		e := edit{Content: s + markOf(key, i, len(text.parts)).String(), Mentions: noMentions()}
		if err := p.update(ctx, c.Thread, id, e); err != nil {
			return mapped(err)
		}
	}
	return nil
}

// update edits one message; an archived thread is opened for it.
func (p *poster) update(ctx context.Context, t workflows.Thread, ref string, e edit) error {
	if e.Components == nil {
		e.Components = []component{}
	}
	e.Flags = flagNoPreviews
	path := "/channels/" + whereIs(t, ref) + "/messages/" + ref
	err := p.app.api.call(ctx, http.MethodPatch, path, e, nil)
	if is(err, discordgo.ErrCodeInvalidFormBody) {
		p.app.log.Error("Discord refuses an edit's form; it is sent as plain text", telemetry.KeyError, err)
		e.Content, e.Components = simple(e.Content, e.Components)
		err = p.app.api.call(ctx, http.MethodPatch, path, e, nil)
	}
	if is(err, discordgo.ErrCodePerformedOperationOnArchivedThread) {
		if uerr := p.app.api.call(ctx, http.MethodPatch, "/channels/"+placeOf(t), map[string]any{"archived": false}, nil); uerr == nil {
			err = p.app.api.call(ctx, http.MethodPatch, path, e, nil)
		} else {
			p.app.log.Info("Archived thread could not be opened", telemetry.KeyThreadID, t.ID, telemetry.KeyError, uerr)
		}
	}
	if is(err, discordgo.ErrCodeThreadIsLocked, discordgo.ErrCodePerformedOperationOnArchivedThread) {
		p.tellLocked(ctx, t)
		return fmt.Errorf("%w: it is locked: %w", chat.ErrThreadGone, err)
	}
	return err
}

// Delete removes an extra copy.
func (p *poster) Delete(ctx context.Context, t workflows.Thread, ref string) error {
	err := mapped(p.app.api.call(ctx, http.MethodDelete, "/channels/"+whereIs(t, ref)+"/messages/"+ref, nil, nil))
	if errors.Is(err, chat.ErrMessageGone) {
		return nil
	}
	return err
}

// PostedAt implements [chat.Dated].
func (*poster) PostedAt(ref string) time.Time { return timeOf(ref) }

// Members looks people up anew, past what is remembered.
func (p *poster) Members(ctx context.Context, t workflows.Thread, who []workflows.Actor) ([]workflows.Actor, error) {
	all, err := p.app.people.lookUpRoles(ctx, t.Team)
	if err != nil {
		return nil, mapped(err)
	}
	var out []workflows.Actor
	for _, w := range who {
		m, ok, err := p.app.people.lookUp(ctx, t.Team, w.ID)
		if err != nil {
			return nil, mapped(err)
		}
		if !ok {
			continue // no member any more
		}
		now := actorOf(*m.User, &m)
		now.Groups = append(slices.Clone(m.Roles), namesOf(all, m.Roles)...)
		out = append(out, now)
	}
	return out, nil
}
