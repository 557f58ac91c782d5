package slack

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// earlierText bounds what is given of a thread's earlier talk, earlierLine one
	// message of it, in bytes.
	earlierText = 8000
	earlierLine = 1000
	// earlierWithin bounds reading it: it must not hold up the task.
	earlierWithin = 5 * time.Second
)

// earlier reads what others wrote in a thread before the message that called us
// into it: the last messages, quoted with who wrote them. Without Slack's answer
// the task goes without. Nobody whose words are quoted asks for anything by that.
func (a *App) earlier(ctx context.Context, t workflows.Thread, before string) *workflows.Earlier {
	most := a.cfg.Earlier
	if most <= 0 || before == t.ID {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, earlierWithin)
	defer cancel()
	var last []message
	form := url.Values{"channel": {t.Channel}, "ts": {t.ID}, "latest": {before}}
	err := a.api.read(ctx, "conversations.replies", form, func(m message) bool {
		if m.TS < before && !a.isOurs(m) && strings.TrimSpace(m.Text) != "" {
			if last = append(last, m); len(last) > most {
				last = last[1:]
			}
		}
		return true
	})
	if err != nil {
		a.log.Warn("A thread's earlier talk could not be read", telemetry.KeyChannelID, t.Channel, telemetry.KeyThreadID, t.ID, telemetry.KeyError, detail(err))
		return nil
	}
	text, n := a.quoted(ctx, last)
	if n == 0 {
		return nil
	}
	ref, err := chat.PutText(ctx, a.dep.Blobs, text)
	if err != nil {
		a.log.Warn("A thread's earlier talk could not be kept", telemetry.KeyError, err)
		return nil
	}
	return &workflows.Earlier{Text: ref, Messages: n}
}

// quoted quotes messages, the newest that have room, and counts them.
func (a *App) quoted(ctx context.Context, all []message) (text string, n int) {
	var parts []string
	room := earlierText
	for i := len(all) - 1; i >= 0; i-- {
		m := all[i]
		who := a.reader.name(ctx, m.User)
		if who == "" {
			who = m.User
		}
		if m.User == "" || m.BotID != "" {
			who = strings.TrimSpace(who + " (app)")
		}
		words := chat.CutBytes(chat.ShownLines(a.reader.read(ctx, m.Text)), earlierLine)
		part := "> " + strings.ReplaceAll("["+strings.Join(strings.Fields(chat.Shown(who)), " ")+"]: "+words, "\n", "\n> ")
		if room -= len(part) + 2; room < 0 {
			break
		}
		parts = append([]string{part}, parts...)
	}
	return strings.Join(parts, "\n\n"), len(parts)
}
