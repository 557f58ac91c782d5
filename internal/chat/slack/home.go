package slack

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slack-go/slack"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// Board tells which sessions of a team run and how they stand now.
type Board interface {
	Standing(ctx context.Context, t workflows.Thread) ([]workflows.SessionStanding, error)
}

const (
	// homeEvery is the time between two publications of one person's App Home:
	// views.publish is tier 4, 100 a minute for the whole workspace.
	homeEvery = 10 * time.Second
	// homeWithin bounds one.
	homeWithin = 20 * time.Second
	// homeRemember is how long a home counts as being looked at.
	homeRemember = 10 * time.Minute
	// homeSessions, homeWaiting and homeLooks bound what it shows, and how many
	// waiting sessions are asked for their requests.
	homeSessions = 25
	homeWaiting  = 10
	homeLooks    = 40
)

// homes paces the publications: one opening, or many, within homeEvery make one.
type homes struct {
	mu   sync.Mutex
	next map[string]time.Time
}

// book returns how long a publication has to wait; below zero, another one comes.
func (h *homes) book(user string, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next == nil {
		h.next = map[string]time.Time{}
	}
	last := h.next[user]
	if last.After(now) {
		return -1
	}
	at := last.Add(homeEvery)
	if at.Before(now) {
		at = now
	}
	if len(h.next) > rememberMost {
		for u, t := range h.next {
			if now.Sub(t) > homeEvery {
				delete(h.next, u)
			}
		}
	}
	h.next[user] = at
	return at.Sub(now)
}

// open reports whether a person has looked at their home lately.
func (h *homes) open(user string, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return now.Sub(h.next[user]) < homeRemember
}

// homeOpened takes app_home_opened, which says that somebody looks at a tab.
func (a *App) homeOpened(ctx context.Context, user, tab string) {
	if user != "" && tab == "home" {
		a.showHome(ctx, user)
	}
}

// refreshHome publishes a home that is being looked at.
func (a *App) refreshHome(ctx context.Context, user string) {
	if a.homes.open(user, time.Now()) {
		a.showHome(ctx, user)
	}
}

// showHome publishes a person's home, now or when their last one is old enough.
func (a *App) showHome(ctx context.Context, user string) {
	wait := a.homes.book(user, time.Now())
	if wait < 0 {
		return
	}
	a.background(ctx, wait+homeWithin, func(ctx context.Context) {
		select {
		case <-a.closing:
			return
		case <-time.After(wait):
		}
		view := a.homeView(ctx, user)
		if _, err := a.api.PublishViewContext(ctx, slack.PublishViewContextRequest{UserID: user, View: view}); err != nil {
			a.log.Warn("App Home could not be published", telemetry.KeyActorID, user, telemetry.KeyError, detail(err))
		}
	})
}

// homeView is what a person may see: what waits for their decision in channels
// that they are in, and the sessions that they started, with the copies made of
// those in such channels. What cannot be looked up is left out, and that is said.
func (a *App) homeView(ctx context.Context, user string) slack.HomeTabViewRequest {
	h := homeTab{app: a}
	by, err := a.people.actor(ctx, user)
	if err == nil {
		err = a.homeContent(ctx, by, &h)
	}
	var refused *chat.Error
	switch {
	case errors.As(err, &refused):
		h.add(textBlock(refused.Text()))
	case err != nil:
		a.log.Warn("App Home is not complete", telemetry.KeyActorID, user, telemetry.KeyError, err)
		h.add(textBlock("Some of this could not be looked up. Refresh in a moment."))
	}
	return h.view()
}

func (a *App) homeContent(ctx context.Context, by workflows.Actor, h *homeTab) error {
	if err := a.mayDrive(by); err != nil {
		return err
	}
	groups, err := a.people.memberships(ctx, by.ID)
	if err != nil {
		a.log.Warn("Groups of a person are not known; none count", telemetry.KeyActorID, by.ID, telemetry.KeyError, err)
	}
	by.Groups = groups
	in, err := a.channelsOf(ctx, by.ID)
	if err != nil {
		return err
	}
	list, err := a.dep.Sessions.List(ctx, a.thread("", "").ManagerID(), workflows.ListSessions{Limit: 200})
	if err != nil && !errors.Is(err, workflows.ErrNoSession) {
		return err
	}
	rows := a.standing(ctx, list.Sessions)
	waits, more, err := a.waitsFor(ctx, by, rows, in)
	h.waiting(waits, more)
	h.sessions(ctx, by, tree(by, rows, in))
	return err
}

// standing are the rows of sessions that have not ended, as they stand now: a
// manager's rows do not follow every turn.
func (a *App) standing(ctx context.Context, rows []workflows.SessionRow) []homeRow {
	now := map[string]workflows.SessionStanding{}
	if a.dep.Board != nil {
		all, err := a.dep.Board.Standing(ctx, a.thread("", ""))
		if err != nil {
			a.log.Warn("How sessions stand is not known", telemetry.KeyError, err)
		}
		for _, s := range all {
			now[s.WorkflowID] = s
		}
	}
	var out []homeRow
	for _, r := range rows {
		row := homeRow{SessionRow: r}
		if s, ok := now[r.WorkflowID]; ok {
			row.Liveness, row.waiting = cmp.Or(s.Liveness, r.Liveness), s.Waiting
		}
		if row.Liveness != workflows.LivenessDestroyed && row.Thread.ID != "" {
			out = append(out, row)
		}
	}
	return out
}

// homeRow is one session of a home.
type homeRow struct {
	workflows.SessionRow
	waiting int
	depth   int
}

// tree puts a person's sessions in order: each below the one it was copied from.
// Copies that others made are there where the person is in their channel.
func tree(by workflows.Actor, rows []homeRow, in map[string]bool) []homeRow {
	kids, mine := map[string][]homeRow{}, map[string]bool{}
	oldest := slices.Clone(rows)
	slices.Reverse(oldest)
	for _, r := range oldest {
		if r.By.ID == by.ID || (mine[r.Parent] && in[r.Thread.Channel]) {
			mine[r.WorkflowID] = true
		}
	}
	for _, r := range rows {
		if !mine[r.WorkflowID] {
			continue
		}
		parent := r.Parent
		if !mine[parent] {
			parent = ""
		}
		kids[parent] = append(kids[parent], r)
	}
	var out []homeRow
	var walk func(parent string, depth int)
	walk = func(parent string, depth int) {
		for _, r := range kids[parent] {
			r.depth = depth
			out = append(out, r)
			if r.WorkflowID != "" && depth < len(rows) {
				walk(r.WorkflowID, depth+1)
			}
		}
	}
	walk("", 0)
	return out
}

// homeWait is one request that waits.
type homeWait struct {
	homeRow
	key      string
	approval workflows.ApprovalView
}

// waitsFor are the requests that wait for a person: which they may decide, and in
// channels that they are in. The session decides about every click anew.
func (a *App) waitsFor(ctx context.Context, by workflows.Actor, rows []homeRow, in map[string]bool) (waits []homeWait, more bool, err error) {
	looks := 0
	for _, r := range rows {
		if r.waiting == 0 && r.Liveness != workflows.LivenessWaiting || !in[r.Thread.Channel] && r.By.ID != by.ID {
			continue
		}
		if looks++; looks > homeLooks || len(waits) >= homeWaiting {
			return waits, true, err
		}
		found, ferr := a.requests(ctx, r)
		err = errors.Join(err, ferr)
		for _, w := range found {
			if mayDecide(by, w.approval) {
				waits = append(waits, w)
			}
		}
	}
	return waits[:min(len(waits), homeWaiting)], len(waits) > homeWaiting, err
}

// requests are those of one session that are pending.
func (a *App) requests(ctx context.Context, r homeRow) ([]homeWait, error) {
	st, err := a.dep.Sessions.TurnState(ctx, r.WorkflowID)
	if errors.Is(err, workflows.ErrNoSession) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []homeWait
	for _, id := range st.Approvals {
		key := workflows.ApprovalKey(id)
		v, err := a.dep.Views.Message(ctx, r.WorkflowID, key)
		if err != nil || v.Approval == nil || v.Approval.ID != id || v.Approval.State != workflows.ApprovalPending {
			continue // decided meanwhile
		}
		out = append(out, homeWait{homeRow: r, key: key, approval: *v.Approval})
	}
	return out, nil
}

// mayDecide reports whether a request would count a person's vote, as far as is
// known here.
func mayDecide(by workflows.Actor, v workflows.ApprovalView) bool {
	same := func(o workflows.Actor) bool { return o.ID == by.ID }
	if slices.ContainsFunc(v.Votes, func(vote workflows.Vote) bool { return same(vote.By) }) {
		return false
	}
	if !v.RequesterMayApprove && slices.ContainsFunc(v.RequestedBy, same) {
		return len(v.BreakGlass) > 0 && chat.InSet(v.BreakGlass)(by)
	}
	return chat.InSet(slices.Concat(v.Approvers, v.BreakGlass))(by)
}

// homePressed carries out a click in a home. What comes of it is said in a modal:
// no message there could hold it.
func (a *App) homePressed(ctx context.Context, i interaction, at time.Time) {
	act := i.Actions[0]
	id := strings.Join([]string{"home", i.User.ID, act.ID, cmp.Or(act.TS, i.TriggerID)}, "/")
	if !a.taken.first("click/"+id, true) {
		return
	}
	if t := a.api.gate.clock.Here(timeOf(act.TS)); !t.IsZero() {
		at = t
	}
	if act.ID == actionRefresh {
		a.showHome(ctx, i.User.ID)
		return
	}
	r, ok := decodeRef(act.Value)
	if !ok {
		return // a link
	}
	if !a.mayTouch(ctx, a.refThread(r)) {
		a.log.Info("A click in an App Home names a session that is closed to the person", telemetry.KeyActorID, i.User.ID)
		if _, err := a.openView(ctx, i.TriggerID, textView("Session", unseen().Text())); err != nil {
			a.log.Info("A click in the App Home did nothing: its dialog did not open", telemetry.KeyError, err)
		}
		a.refreshHome(ctx, i.User.ID)
		return
	}
	switch act.ID {
	case workflows.ButtonReview:
		a.review(ctx, i, r)
	case workflows.ButtonDeny:
		if _, err := a.openView(ctx, i.TriggerID, denyView(r)); err != nil {
			a.log.Info("A click in the App Home did nothing: its dialog did not open", telemetry.KeyError, err)
		}
	case string(chat.VerbStop), string(chat.VerbPause):
		a.homeCommand(ctx, i, chat.Command{Verb: chat.Verb(act.ID)}, a.refThread(r), id, at)
	}
	a.refreshHome(ctx, i.User.ID)
}

// homeCommand gives a command to a session and says in a modal what came of it.
func (a *App) homeCommand(ctx context.Context, i interaction, c chat.Command, t workflows.Thread, id string, at time.Time) {
	view, err := a.openView(ctx, i.TriggerID, waitingView(title(c.Verb), "Recording…"))
	if err != nil {
		return // nothing was done; the button is still there
	}
	ctx, cancel := context.WithTimeout(ctx, outcomeWithin)
	defer cancel()
	by, err := a.people.actor(ctx, i.User.ID)
	var reply chat.Reply
	if err == nil {
		reply, err = a.plain.Do(ctx, chat.Event{ID: id, Thread: t, New: a.thread(t.Channel, ""), By: by, At: at}, c)
	}
	text := reply.Text
	if err != nil {
		text = words(err)
	}
	a.updateView(ctx, view, textView(title(c.Verb), cmp.Or(text, "Recorded.")))
}
