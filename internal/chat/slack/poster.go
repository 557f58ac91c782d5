package slack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/slack-go/slack"
	"go.temporal.io/sdk/activity"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// poster writes the sessions' messages. It keeps nothing: what was posted is
// found again by the key in its metadata.
type poster struct{ app *App }

var (
	_ chat.Poster = (*poster)(nil)
	_ chat.Rooted = (*poster)(nil)
	_ chat.Dated  = (*poster)(nil)
)

// headerKey is the key under which sessions show their header; the root of a
// thread that we open is the header.
const headerKey = "header"

// rootKey begins the key of a root; the request's ID follows.
const rootKey = "root-"

// Limits: edits of all sessions of a workspace share one budget, so a running
// command is followed ever more slowly.
func (*poster) Limits() chat.Limits {
	return chat.Limits{MinRefresh: 2 * time.Second, MaxRefresh: 30 * time.Second}
}

// slowRoot is how long the post of a root may take before another attempt may
// have begun.
const slowRoot = 5 * time.Second

// OpenThread posts the root of a thread of ours. Where a message of a person is
// the root there is nothing to post.
func (p *poster) OpenThread(ctx context.Context, in workflows.OpenThreadInput) (workflows.Thread, error) {
	t := in.Thread
	if t.ID != "" {
		return t, nil
	}
	retry, since := attempt(ctx)
	defer func() {
		if t.ID != "" {
			p.app.opened.put(t.Channel+"/"+t.ID, true)
		}
	}()
	if retry {
		ts, err := p.findRoot(ctx, t.Channel, in.Key, since)
		if err != nil || ts != "" {
			t.ID = ts
			return t, err
		}
	}
	began := time.Now()
	ts, err := p.postRoot(ctx, in)
	if errors.Is(err, chat.ErrThreadGone) || !slices.Contains(passing(), code(err)) {
		refused := p.app.noRoot(code(err))
		p.couldNotOpen(ctx, in, refused)
		return t, fmt.Errorf("%w: %w: %w", chat.ErrThreadGone, refused, err)
	}
	if err != nil {
		return t, err
	}
	t.ID = ts
	if ctx.Err() == nil && time.Since(began) < slowRoot {
		return t, nil
	}
	// Another attempt may have posted meanwhile: of two roots the first stays.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), slowRoot)
	defer cancel()
	first, err := p.findRoot(ctx, t.Channel, in.Key, since)
	if err == nil && first != "" && first != ts {
		err = p.Delete(ctx, t, ts)
		t.ID = first
	}
	return t, err
}

// couldNotOpen tells who asked by a command, alone, why no session starts: no
// thread will show it. Who asked for a copy has it as the answer to that.
func (p *poster) couldNotOpen(ctx context.Context, in workflows.OpenThreadInput, why *chat.Error) {
	if in.Parent != "" || in.By.ID == "" {
		return
	}
	p.app.members.forget(in.Thread.Channel)
	url, _ := p.app.answers.get(strings.TrimPrefix(in.Key, rootKey), rememberFor)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
	defer cancel()
	text := "Nothing was started. " + why.Text() + "\n\n> " + strings.ReplaceAll(chat.Shown(cut(in.Title, 200)), "\n", " ")
	p.app.whisper(ctx, p.app.thread(in.Thread.Channel, ""), in.By.ID, url, text)
}

// attempt says whether this may not be the first try, and when that one began.
func attempt(ctx context.Context) (retry bool, since time.Time) {
	if !activity.IsActivity(ctx) {
		return true, time.Now().Add(-time.Hour)
	}
	info := activity.GetInfo(ctx)
	return info.Attempt > 1, info.ScheduledTime.Add(-time.Minute)
}

func (p *poster) postRoot(ctx context.Context, in workflows.OpenThreadInput) (string, error) {
	title := chat.Shown(in.Title)
	line := "by " + chat.Shown(in.By.Label()) + " · opening…"
	r := rendered{
		text: escape(cut(title, fallbackText)),
		blocks: withIDs(in.Key, []slack.Block{
			slack.NewHeaderBlock(plain(title, maxHeader)),
			slack.NewSectionBlock(plain(line, maxSection), nil, nil),
		}),
	}
	return p.send(ctx, workflows.Thread{Channel: in.Thread.Channel}, r, payload{Key: in.Key})
}

// findRoot finds the oldest root that was posted under key.
func (p *poster) findRoot(ctx context.Context, channel, key string, since time.Time) (string, error) {
	found := ""
	err := p.app.api.read(ctx, "conversations.history", url.Values{
		"channel": {channel}, "oldest": {stamp(since)},
	}, func(m message) bool {
		if k, ok := keyOf(m); ok && k.Key == key && p.app.isOurs(m) {
			found = m.TS // newest first, so the last one is the oldest
		}
		return true
	})
	return found, mapped(err)
}

// Find returns our whole messages under key, oldest first. One whose parts are
// not all there counts as not posted; the next post adds what is missing.
func (p *poster) Find(ctx context.Context, t workflows.Thread, key string, since time.Time) ([]chat.Found, error) {
	found, err := p.parts(ctx, t, key, since)
	if err != nil {
		return nil, err
	}
	return found.whole(), nil
}

// parts are the messages of one key in a thread, and the names of our files
// there.
type parts struct {
	messages []part
	files    []sharedFile
}

// sharedFile is a file of ours in a thread.
type sharedFile struct{ ts, name string }

// has reports whether a file was shared after the message at ts, and so with it:
// one message is posted after the other.
func (f parts) has(ts, name string) bool {
	return slices.ContainsFunc(f.files, func(s sharedFile) bool { return s.name == name && s.ts > ts })
}

type part struct {
	ts string
	payload
}

func (p *poster) parts(ctx context.Context, t workflows.Thread, key string, since time.Time) (parts, error) {
	var found parts
	form := url.Values{"channel": {t.Channel}, "ts": {t.ID}}
	if !since.IsZero() {
		form.Set("oldest", stamp(since.Add(-time.Minute)))
	}
	err := p.app.api.read(ctx, "conversations.replies", form, func(m message) bool {
		if !p.app.isOurs(m) {
			return true
		}
		for _, f := range m.Files {
			found.files = append(found.files, sharedFile{m.TS, f.Name})
		}
		k, ok := keyOf(m)
		if m.TS == t.ID && key == headerKey {
			k, ok = payload{Key: headerKey, Version: k.Version}, true
		}
		if ok && k.Key == key {
			found.messages = append(found.messages, part{ts: m.TS, payload: k})
		}
		return true
	})
	return found, mapped(err)
}

// whole are the complete messages among the parts: each begins with a part 0.
func (f parts) whole() []chat.Found {
	var out []chat.Found
	for _, m := range f.messages {
		if m.Part != 0 || (m.File != "" && !f.has(m.ts, m.File)) {
			continue
		}
		complete := true
		for i := 1; i < m.Parts; i++ {
			complete = complete && f.at(i) != ""
		}
		if complete {
			out = append(out, chat.Found{Ref: m.ts, Version: m.Version})
		}
	}
	return out
}

// at is the timestamp of a part; empty when it was not posted.
func (f parts) at(n int) string {
	for _, m := range f.messages {
		if m.Part == n {
			return m.ts
		}
	}
	return ""
}

// Post posts a message under its view's key.
func (p *poster) Post(ctx context.Context, c chat.Content) (string, error) {
	v := c.View
	if v.Header == nil && v.Turn == nil && v.Approval == nil {
		text := markdownContent(v.Key, c.Text)
		if c.File != nil {
			text.file, text.whole = c.File.Name, string(c.File.Data)
		}
		return p.postText(ctx, c.Thread, text, payload{Key: v.Key, Version: v.Version})
	}
	ts, err := p.send(ctx, c.Thread, draw(c, p.groups(ctx, c), !c.Again).card(), payload{Key: v.Key, Version: v.Version})
	if err == nil {
		p.app.agents.shown(c)
	}
	return ts, err
}

// Root is the root of a thread that we opened. Who opened it knows; another bot
// asks Slack.
func (p *poster) Root(ctx context.Context, t workflows.Thread) (string, error) {
	if ours, ok := p.app.opened.get(t.Channel+"/"+t.ID, rememberFor); ok && ours {
		return t.ID, nil
	}
	root, err := p.app.api.root(ctx, t)
	if err != nil || !p.app.isOurs(root) {
		return "", mapped(err)
	}
	return root.TS, nil
}

// groups are what a card needs to mention approvers. Without them their names
// are shown as they are configured.
func (p *poster) groups(ctx context.Context, c chat.Content) []group {
	if c.View.Approval == nil {
		return nil
	}
	named := slices.Concat(c.View.Approval.Approvers, c.View.Approval.Notify)
	needed := slices.ContainsFunc(named, func(n string) bool { return n != "*" && !isUserID(n) && !isGroupID(n) })
	if !needed {
		return nil
	}
	groups, err := p.app.people.all(ctx)
	if err != nil {
		p.app.log.Warn("Approver groups cannot be looked up", telemetry.KeyError, err)
	}
	return groups
}

// postText posts a text: one message, several, or one and a file. What stands
// there already is not posted again.
func (p *poster) postText(ctx context.Context, t workflows.Thread, c content, key payload) (string, error) {
	key.Parts, key.File = len(c.parts), c.file
	if len(c.parts) == 1 && c.file == "" {
		return p.send(ctx, t, c.parts[0], key)
	}
	found, err := p.parts(ctx, t, key.Key, time.Time{})
	if err != nil {
		return "", err
	}
	first := ""
	for i, r := range c.parts {
		ts := found.at(i)
		if ts == "" {
			key.Part = i
			if ts, err = p.send(ctx, t, r, key); err != nil {
				return "", err
			}
		}
		if i == 0 {
			first = ts
		}
	}
	if c.file != "" && !found.has(first, c.file) {
		if err := p.upload(ctx, t, c.file, c.whole); err != nil {
			return "", err
		}
	}
	return first, nil
}

// upload shares a text as a file in the thread. The bytes are sent as they are:
// slack-go would wrap them in a form whose end not every server takes.
func (p *poster) upload(ctx context.Context, t workflows.Thread, name, text string) error {
	u, err := p.app.api.GetUploadURLExternalContext(ctx, slack.GetUploadURLExternalParameters{FileName: name, FileSize: len(text)})
	if err != nil {
		return fmt.Errorf("asking where to upload %s: %w", name, mapped(err))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.UploadURL, strings.NewReader(text))
	if err != nil {
		return fmt.Errorf("uploading %s: %w", name, err)
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	resp, err := p.app.api.gate.Do(req)
	if err != nil {
		return fmt.Errorf("uploading %s: %w", name, mapped(err))
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("uploading %s: Slack answered %s", name, resp.Status)
	}
	_, err = p.app.api.CompleteUploadExternalContext(ctx, slack.CompleteUploadExternalParameters{
		Files: []slack.FileSummary{{ID: u.FileID, Title: name}}, Channel: t.Channel, ThreadTimestamp: t.ID,
	})
	if err != nil {
		return fmt.Errorf("sharing %s: %w", name, mapped(err))
	}
	return nil
}

// send posts one message and returns its timestamp.
func (p *poster) send(ctx context.Context, t workflows.Thread, r rendered, key payload) (string, error) {
	options := func(r rendered) []slack.MsgOption {
		o := append(r.options(), slack.MsgOptionDisableLinkUnfurl(), slack.MsgOptionDisableMediaUnfurl(), slack.MsgOptionMetadata(key.metadata()))
		if t.ID != "" {
			o = append(o, slack.MsgOptionTS(t.ID))
		}
		return o
	}
	_, ts, resp, err := p.app.api.PostMessageWithResponseContext(ctx, t.Channel, options(r)...)
	if tooMuch(err) {
		p.app.log.Error("Slack took no blocks for a message; it is sent as text", telemetry.KeyError, detail(err), "key", key.Key)
		_, ts, resp, err = p.app.api.PostMessageWithResponseContext(ctx, t.Channel, options(r.simple())...)
	}
	if err != nil {
		return "", mappedIn(ctx, t, err)
	}
	// Slack posts a reply whose root was deleted into the channel.
	if t.ID != "" && resp.Timestamp != "" && resp.ThreadTimestamp == "" {
		if err := p.Delete(ctx, t, ts); err != nil {
			return "", fmt.Errorf("taking back a reply that lost its thread: %w", err)
		}
		return "", fmt.Errorf("%w: its first message was deleted", chat.ErrThreadGone)
	}
	return ts, nil
}

// options are what posts and edits share: our own escaped text, nothing in it
// parsed.
func (r rendered) options() []slack.MsgOption {
	return []slack.MsgOption{slack.MsgOptionText(r.text, false), slack.MsgOptionParse(false), slack.MsgOptionBlocks(r.blocks...)}
}

// simple is the message without its blocks' form, for when Slack refuses them:
// the text, and the buttons, which nothing can take the place of. Where the text is
// cut there is none that approves it.
func (r rendered) simple() rendered {
	text := cut(r.text, maxSection)
	blocks := []slack.Block{slack.NewSectionBlock(slack.NewTextBlockObject(slack.PlainTextType, cut(unescape(text), maxSection), false, false), nil, nil)}
	for _, b := range r.blocks {
		a, ok := b.(*slack.ActionBlock)
		if !ok {
			continue
		}
		buttons := a.Elements.ElementSet
		if strings.HasSuffix(text, "…") {
			buttons = slices.DeleteFunc(slices.Clone(buttons), func(e slack.BlockElement) bool {
				b, ok := e.(*slack.ButtonBlockElement)
				return ok && approves(b.ActionID)
			})
		}
		if len(buttons) > 0 {
			blocks = append(blocks, slack.NewActionBlock(a.BlockID, buttons...))
		}
	}
	return rendered{text: text, blocks: blocks}
}

// tooMuch reports that Slack refused a message's form, not the message.
func tooMuch(err error) bool { return slices.Contains(forms(), code(err)) }

// Edit makes a message show c.
func (p *poster) Edit(ctx context.Context, ref string, c chat.Content) error {
	v := c.View
	key := payload{Key: v.Key, Version: v.Version}
	if v.Header == nil && v.Turn == nil && v.Approval == nil {
		return p.editText(ctx, ref, c, key)
	}
	err := p.update(ctx, c.Thread, ref, draw(c, p.groups(ctx, c), false).card(), key)
	if err == nil {
		p.app.agents.shown(c)
	}
	return err
}

// editText edits an answer or notice, part by part. They do not change after
// they were posted; this is for the day that one does.
func (p *poster) editText(ctx context.Context, ref string, c chat.Content, key payload) error {
	text := markdownContent(c.View.Key, c.Text)
	key.Parts, key.File = len(text.parts), text.file
	if len(text.parts) == 1 {
		return p.update(ctx, c.Thread, ref, text.parts[0], key)
	}
	found, err := p.parts(ctx, c.Thread, c.View.Key, time.Time{})
	if err != nil {
		return err
	}
	for i, r := range text.parts {
		key.Part = i
		if ts := found.at(i); ts != "" {
			err = p.update(ctx, c.Thread, ts, r, key)
		} else {
			_, err = p.send(ctx, c.Thread, r, key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *poster) update(ctx context.Context, t workflows.Thread, ts string, r rendered, key payload) error {
	options := func(r rendered) []slack.MsgOption {
		return append(r.options(), slack.MsgOptionMetadata(key.metadata()))
	}
	_, _, _, err := p.app.api.UpdateMessageContext(ctx, t.Channel, ts, options(r)...)
	if tooMuch(err) {
		p.app.log.Error("Slack took no blocks for an edit; it is sent as text", telemetry.KeyError, detail(err), "key", key.Key)
		_, _, _, err = p.app.api.UpdateMessageContext(ctx, t.Channel, ts, options(r.simple())...)
	}
	return mappedIn(ctx, t, err)
}

// mappedIn is mapped for a message of a session's thread. Of a private channel that
// the bot was removed from Slack says that there is none: for a while that is waited
// for, as in a public one.
func mappedIn(ctx context.Context, t workflows.Thread, err error) error {
	if code(err) != "channel_not_found" || t.ID == "" || isDirect(t.Channel) || !activity.IsActivity(ctx) ||
		time.Since(activity.GetInfo(ctx).ScheduledTime) > invitedBack {
		return mapped(err)
	}
	return &chat.RateLimitedError{RetryAfter: uninvitedRetry, Err: err}
}

// Delete removes an extra copy.
func (p *poster) Delete(ctx context.Context, t workflows.Thread, ref string) error {
	_, _, err := p.app.api.DeleteMessageContext(ctx, t.Channel, ref)
	if err = mapped(err); errors.Is(err, chat.ErrMessageGone) {
		return nil
	}
	return err
}

// PostedAt implements [chat.Dated].
func (*poster) PostedAt(ref string) time.Time { return timeOf(ref) }

// Members looks people up anew, past what is remembered: see [chat.Poster]'s
// deliveries, which ask before a vote that rests on a group counts.
func (p *poster) Members(ctx context.Context, _ workflows.Thread, people []workflows.Actor) ([]workflows.Actor, error) {
	groups, err := p.app.people.lookUpGroups(ctx)
	if err != nil {
		return nil, mapped(err)
	}
	var out []workflows.Actor
	for _, who := range people {
		now, err := p.app.people.lookUp(ctx, who.ID)
		if err != nil {
			return nil, mapped(err)
		}
		if now.External && now.Name == "" {
			continue // Slack knows nobody of that ID any more
		}
		now.Groups = groupsOf(groups, who.ID)
		out = append(out, now)
	}
	return out, nil
}
