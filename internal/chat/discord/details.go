package discord

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/workflows"
)

// Buttons of a turn's details, beside the one that opens them. The reference of
// each carries the turn's trail; Version is the page, or the number of a call.
const (
	// buttonPage shows another page.
	buttonPage = "page"
	// buttonOutput is the select of a call whose output is shown.
	buttonOutput = "output"
	// buttonShare posts a call's output, or of call 0 the details, to the thread.
	buttonShare = "share"
)

// withTrail puts a turn's trail into the place of a digest.
func (r ref) withTrail(t workflows.Trail) ref {
	if t.First > 0 {
		r.Digest = number(t.First) + "-" + number(t.Last)
	}
	return r
}

func (r ref) trail() workflows.Trail {
	first, last, _ := strings.Cut(r.Digest, "-")
	var t workflows.Trail
	t.First, _ = strconv.Atoi(first) // what is no number is not known
	t.Last, _ = strconv.Atoi(last)
	return t
}

// details shows a page of a turn's calls to one person, with all of them as a file.
func (c *call) details(ctx context.Context, r ref) {
	if !c.deferAlone(ctx) {
		return
	}
	octx, cancel := limit(ctx, outcomeWithin)
	defer cancel()
	d, err := c.readDetails(octx, r)
	if err != nil {
		c.tell(ctx, private{text: words(err)})
		return
	}
	page := 0
	if r.Button == buttonPage {
		page = r.Version
	}
	p := detailsOf(r, d, page)
	if text := d.Text(c.fileStyle(octx)); len(d.Calls) > 0 && len(text) <= c.fileLimit() {
		p.files = []file{{name: fmt.Sprintf("turn-%d-details.txt", d.Turn), text: text}}
	}
	c.tell(ctx, p)
}

func (c *call) readDetails(ctx context.Context, r ref) (chat.Details, error) {
	by, _ := c.actor(ctx)
	return c.app.plain.Details(ctx, by, c.turnThread(), r.Turn, r.trail())
}

// turnThread is the thread of a turn's buttons, which stand in the thread.
func (c *call) turnThread() workflows.Thread { return c.thread() }

// fileStyle writes for files: times in UTC, people by their names.
func (c *call) fileStyle(ctx context.Context) chat.Style {
	s := chat.PlainStyle(time.UTC)
	clock, exact := s.Clock, s.Exact
	s.Clock = func(t time.Time) string { return clock(t) + " UTC" }
	s.Exact = func(t time.Time) string { return exact(t) + " UTC" }
	s.Approver = func(id string) string {
		if m, ok, err := c.app.people.member(ctx, c.i.Guild, id); err == nil && ok && m.User != nil {
			return chat.Shown(actorOf(*m.User, &m).Label())
		}
		return "@" + chat.Shown(id)
	}
	return s
}

// fileLimit is how long a file may be that the person is sent, in bytes.
func (c *call) fileLimit() int {
	if c.i.FileLimit > 0 {
		return c.i.FileLimit
	}
	return maxFile
}

// detailsOf renders a page of a turn's details.
func detailsOf(r ref, d chat.Details, page int) private {
	if len(d.Calls) == 0 {
		return private{text: chat.NoCalls}
	}
	calls, at, of := d.Page(page, callsShown)
	ink := newInk()
	style := inkStyle(ink)
	head := fmt.Sprintf("**Turn %d** · %s", d.Turn, chat.Count(len(d.Calls), "call", "calls"))
	if of > 1 {
		head += fmt.Sprintf(" · page %d of %d", at, of)
	}
	room := (shownText - size(head) - 10) / len(calls)
	lines := []string{head}
	var options []choice
	for _, k := range calls {
		lines = append(lines, callText(ink, style, k, room))
		if k.Exec != "" {
			options = append(options, choice{Label: cut(fmt.Sprintf("%d. %s", k.N, chat.Shown(k.Command)), maxChoice), Value: strconv.Itoa(k.N)})
		}
	}
	p := private{text: cut(strings.Join(lines, "\n"), shownText), drawn: true}
	base := ref{Turn: r.Turn, Digest: r.Digest}
	if len(options) > 0 {
		base.Button = buttonOutput
		p.rows = append(p.rows, component{Type: componentRow, Components: []component{{
			Type: componentSelect, CustomID: base.encode(), Placeholder: "Show the output of…", Options: options,
		}}})
	}
	var foot []component
	button := func(id string, n int, label string) {
		base.Button, base.Version = id, n
		foot = append(foot, component{Type: componentButton, Style: styleSecondary, Label: label, CustomID: base.encode()})
	}
	if at > 1 {
		button(buttonPage, at-1, "Earlier calls")
	}
	if at < of {
		button(buttonPage, at+1, "Later calls")
	}
	button(buttonShare, 0, "Post to the thread")
	p.rows = append(p.rows, component{Type: componentRow, Components: foot})
	return p
}

// callText is one call in at most so many units: how it ended, its command, what
// else is on record. What does not fit is in the file.
func callText(ink *ink, style chat.Style, k chat.CallDetail, room int) string {
	head := "**" + strconv.Itoa(k.N) + ".** " + ink.dry(cut(style.Outcome(k), lineShown), spans)
	command := strings.Join(strings.Fields(chat.ShownLines(k.Command)), " ")
	text := head + "\n" + span(cut(command, max(room/2, 20)))
	for _, l := range style.Facts(k) {
		line := "\n-# " + ink.dry(cut(l, factShown), spans)
		if size(text)+size(line) > room-1 {
			break
		}
		text += line
	}
	return text
}

// output shows a call's output to one person: its end, and all of it as files.
func (c *call) output(ctx context.Context, r ref) {
	if !c.deferAlone(ctx) {
		return
	}
	if len(c.i.Data.Values) == 1 {
		r.Version, _ = strconv.Atoi(c.i.Data.Values[0]) // 0 is no call's number
	}
	octx, cancel := limit(ctx, shareWithin)
	defer cancel()
	k, files, err := c.readOutput(octx, r)
	if err != nil {
		c.tell(ctx, private{text: words(err)})
		return
	}
	c.tell(ctx, outputOf(r, k, files))
}

func (c *call) readOutput(ctx context.Context, r ref) (chat.CallDetail, []chat.OutputFile, error) {
	d, err := c.readDetails(ctx, r)
	if err != nil {
		return chat.CallDetail{}, nil, err
	}
	k, ok := d.Call(r.Version)
	if !ok {
		return k, nil, &chat.Error{Kind: chat.KindNotFound, Code: "unknown_call", Message: "That call is not on record any more."}
	}
	by, _ := c.actor(ctx)
	// Both streams must fit into one request, beside its form.
	files, err := c.app.plain.Output(ctx, by, c.turnThread(), r.Turn, k, min(c.fileLimit(), maxUpload/2)-fileMargin)
	return k, files, err
}

// outputOf renders a call's output.
func outputOf(r ref, k chat.CallDetail, files []chat.OutputFile) private {
	ink := newInk()
	head := "**" + strconv.Itoa(k.N) + ".** " + span(cut(chat.Shown(k.Command), shownLine)) + "\n" + ink.dry(inkStyle(ink).Outcome(k), spans)
	if len(files) == 0 {
		return private{text: head + "\n" + chat.OutputSays(k), drawn: true}
	}
	p := private{text: head, drawn: true}
	room := (shownText - size(head) - 10) / len(files)
	for _, f := range files {
		p.files = append(p.files, file{name: f.Name, text: f.Text})
		label := fmt.Sprintf("\n%s, %s, its end:\n", f.Stream, chat.Size(f.Bytes))
		if end := lastPart(f.Text, room-size(label)-size(fence(""))-2); end != "" {
			p.text += label + fence(end)
		}
	}
	share := ref{Button: buttonShare, Turn: r.Turn, Version: k.N, Digest: r.Digest}
	p.rows = []component{{Type: componentRow, Components: []component{
		{Type: componentButton, Style: styleSecondary, Label: "Post to the thread", CustomID: share.encode()},
	}}}
	return p
}

// lastPart is the last lines of a text that fit into so many units.
func lastPart(text string, room int) string {
	all := strings.Split(chat.Tail(text, outputLines), "\n")
	used, from := 0, len(all)
	for from > 0 && used+size(all[from-1])+1 <= room {
		from--
		used += size(all[from]) + 1
	}
	if from == len(all) && len(all) > 0 {
		return cut(all[len(all)-1], max(room, 1))
	}
	return strings.Join(all[from:], "\n")
}

// share posts an output, or the details, as files to the thread, once.
func (c *call) share(ctx context.Context, r ref) {
	if !c.deferAlone(ctx) {
		return
	}
	octx, cancel := limit(ctx, shareWithin)
	defer cancel()
	text, err := c.shared(octx, r)
	if err != nil {
		text = words(err)
	}
	c.tell(ctx, private{text: text})
}

func (c *call) shared(ctx context.Context, r ref) (string, error) {
	var files []file
	key, line, again := "", "", false
	if r.Version == 0 {
		d, err := c.readDetails(ctx, r)
		if err != nil {
			return "", err
		}
		name := fmt.Sprintf("turn-%d-details", d.Turn)
		key, line = name, fmt.Sprintf("Details of turn %d, %s.", d.Turn, chat.Count(len(d.Calls), "call", "calls"))
		files = []file{{name: name + ".txt", text: cutFile(d.Text(c.fileStyle(ctx)))}}
		for _, k := range d.Calls {
			again = again || unended(k)
		}
	} else {
		k, found, err := c.readOutput(ctx, r)
		if err != nil {
			return "", err
		}
		if len(found) == 0 {
			return chat.OutputSays(k), nil
		}
		key, line = fmt.Sprintf("turn-%d-call-%d-output", r.Turn, k.N), "Output of "+span(cut(chat.Shown(k.Command), shownLine))+"."
		for _, f := range found {
			files = append(files, file{name: f.Name, text: f.Text})
		}
		again = unended(k)
	}
	if again {
		key += "-" + c.i.ID // it may grow: what was posted before is not all
	}
	t := c.turnThread()
	po := &poster{app: c.app}
	there, err := po.find(ctx, placeOf(t), key, timeOf(t.ID))
	if err == nil && len(there) == 0 {
		_, err = po.postPart(ctx, t, placeOf(t), key, 0, 1, outgoing{Content: line + " Posted for <@" + c.i.who() + ">."}, files)
	}
	if err != nil {
		c.app.log.Warn("Files could not be posted", "error", err)
		return "Discord did not take it as a file. Try again in a moment.", nil
	}
	return "It is in the thread as a file.", nil
}

func unended(k chat.CallDetail) bool {
	return k.State == workflows.CallRunning || k.State == workflows.CallAwaiting || k.State == workflows.CallPending
}
