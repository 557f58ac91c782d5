package discord

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/workflows"
)

// drawing renders one message.
type drawing struct {
	ink   *ink
	style chat.Style
	c     chat.Content
	roles []role
	// pings lets the message notify approvers: when a card is posted.
	pings bool
	allow mentions
}

// card is a message that fits into one.
type card struct {
	text  string
	rows  []component
	allow mentions
}

func draw(c chat.Content, roles []role, pings bool) card {
	d := &drawing{ink: newInk(), c: c, roles: roles, pings: pings, allow: noMentions()}
	d.style = inkStyle(d.ink)
	d.style.Approver = d.approver
	out := card{}
	switch v := c.View; {
	case v.Header != nil:
		out.text, out.rows = d.header(*v.Header)
	case v.Turn != nil:
		out.text, out.rows = d.turn(*v.Turn)
	case v.Approval != nil:
		out.text, out.rows = d.approval(*v.Approval)
	}
	out.allow = d.allow
	return out
}

// inkStyle writes times in the reader's zone, and approvers that are known by ID as
// mentions, which ping nobody unless the message says so.
func inkStyle(i *ink) chat.Style {
	return chat.Style{
		Clock:  func(t time.Time) string { return i.add(fmt.Sprintf("<t:%d:t>", t.Unix())) },
		Exact:  func(t time.Time) string { return i.add(fmt.Sprintf("<t:%d:T>", t.Unix())) },
		Person: func(a workflows.Actor) string { return cut(chat.ShownName(a.Label()), nameShown) },
		Approver: func(id string) string {
			if isID(id) {
				return i.add("<@" + id + ">")
			}
			return named(id)
		},
	}
}

// named is an approver's name, as it was configured.
func named(approver string) string {
	return "@" + cut(chat.ShownName(strings.TrimPrefix(approver, "@")), nameShown)
}

// approver names somebody of an approver set: as a mention, which pings only
// where the card is to.
func (d *drawing) approver(name string) string {
	if name == "*" {
		return "everybody"
	}
	ping := d.pings && d.c.View.Approval != nil && slices.Contains(chat.Pings(*d.c.View.Approval), name)
	if id, ok := roleID(d.roles, name); ok {
		if ping && !slices.Contains(d.allow.Roles, id) {
			d.allow.Roles = append(d.allow.Roles, id)
		}
		return d.ink.add("<@&" + id + ">")
	}
	if isID(name) {
		if ping && !slices.Contains(d.allow.Users, name) {
			d.allow.Users = append(d.allow.Users, name)
		}
		return d.ink.add("<@" + name + ">")
	}
	return named(name)
}

// fit is a composed line, or several, in at most n units.
func (d *drawing) fit(s string, n int) string { return d.ink.fit(s, n, d.line) }

// line is one composed line, or several.
func (d *drawing) line(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		item, ok := strings.CutPrefix(l, "- ")
		lines[i] = d.ink.dry(item, spans)
		if ok {
			lines[i] = "- " + lines[i]
		}
	}
	return strings.Join(lines, "\n")
}

func (d *drawing) header(h workflows.HeaderView) (string, []component) {
	lines := []string{"**" + escape(cut(cmp.Or(chat.Shown(h.Title), "–"), lineShown)) + "**", d.ink.dry(d.style.HeaderLine(h), escape)}
	if notice := chat.Shown(h.Notice); notice != "" {
		lines = append(lines, "-# "+d.line(cut(notice, lineShown)))
	}
	if h.Liveness == workflows.LivenessDestroyed {
		return strings.Join(lines, "\n"), nil
	}
	return strings.Join(lines, "\n"), []component{menuRow(d.c.Thread)}
}

// turnFit is how much of a turn a card shows: lines of output and their width, units
// of a command and of its state, calls.
type turnFit struct{ tail, width, command, state, calls int }

// turnFits are tried until a card fits: the last one always does.
func turnFits() []turnFit {
	const all = 100
	return []turnFit{
		{10, 160, shownLine, stateShown, all}, {10, tailLine, shownLine, stateShown, all}, {6, tailLine, shownLine, stateShown, all},
		{4, 80, shownLine, stateShown, all}, {2, 60, shownLine, stateShown, all}, {0, 0, shownLine, stateShown, all},
		{0, 0, 80, 100, all}, {0, 0, 60, 60, 6}, {0, 0, 40, 60, 3},
	}
}

func (d *drawing) turn(t workflows.TurnView) (string, []component) {
	text := ""
	for _, fit := range turnFits() {
		if text = d.turnText(t, fit); size(text) <= shownText {
			break
		}
	}
	return text, rows(d.c.View.Buttons, ref{Turn: t.Number}.withTrail(t.Trail))
}

// turnText is the card with so much of the turn.
func (d *drawing) turnText(t workflows.TurnView, fit turnFit) string {
	lines := []string{"**" + d.fit(d.style.TurnSummary(t), summaryShown) + "**"}
	calls, folded := chat.VisibleCalls(t)
	if over := len(calls) - fit.calls; over > 0 {
		calls, folded = calls[over:], folded+over
	}
	switch {
	case folded > 0 && t.State == workflows.TurnWorking:
		lines = append(lines, fmt.Sprintf("… %d earlier", folded))
	case folded > 0 && len(calls) > 0:
		lines = append(lines, fmt.Sprintf("… %d more", folded))
	}
	running := 0
	for _, c := range calls {
		if c.State == workflows.CallRunning {
			running++
		}
	}
	for _, c := range calls {
		lines = append(lines, d.call(c, fit))
		if out := tailOf(c, fit.tail/max(running, 1), fit.width); out != "" {
			lines = append(lines, fence(out))
		}
	}
	if note := chat.Remark(t); note != "" {
		lines = append(lines, "-# "+d.line(note))
	}
	if what, said := chat.ModelSays(t); what != "" {
		lines = append(lines, what)
		if said = lastLines(said, fit.tail/max(running, 1), fit.width); said != "" {
			lines = append(lines, fence(said))
		}
	}
	if t.Queued > 0 && t.State == workflows.TurnWorking {
		lines = append(lines, chat.Count(t.Queued, "message is", "messages are")+" queued.")
	}
	return strings.Join(lines, "\n")
}

// call is a tool call's line.
func (d *drawing) call(c workflows.CallView, fit turnFit) string {
	command, more, _ := strings.Cut(chat.ShownLines(c.Command), "\n")
	if more != "" {
		command += " …"
	}
	if command == "" {
		command = c.Tool
	}
	return chat.CallMark(c.State) + " " + span(cut(command, fit.command)) + "  " + d.fit(d.style.CallState(c), fit.state)
}

// tailOf is the last lines of a running command's output.
func tailOf(c workflows.CallView, lines, width int) string {
	if c.State != workflows.CallRunning || c.Tail == "" {
		return ""
	}
	return lastLines(c.Tail, lines, width)
}

// lastLines are the last lines of a text, each cut to a width.
func lastLines(s string, lines, width int) string {
	if lines == 0 {
		return ""
	}
	var out []string
	for l := range strings.SplitSeq(chat.Tail(s, lines), "\n") {
		out = append(out, cut(l, width))
	}
	return strings.TrimRight(strings.Join(out, "\n"), "\n ")
}

// requestFit is how much of a request a card shows beside its command, in units.
type requestFit struct{ reasons, evidence, asked, outcome int }

// requestFits are tried until the command fits as well, or until it has leastCommand:
// with the last one it has.
func requestFits() []requestFit {
	return []requestFit{{1000, 800, 900, 700}, {600, 400, 500, 500}, {200, 100, 400, 250}}
}

func (d *drawing) approval(a workflows.ApprovalView) (string, []component) {
	var before, after []string
	var placed bool
	command := chat.ApprovalCommand(a)
	room, whole := 0, false
	for _, fit := range requestFits() {
		before, after, placed = d.around(a, fit)
		if !placed {
			after = append([]string{"Review shows the whole directory."}, after...)
		}
		room = shownText - size(strings.Join(slices.Concat(before, after), "\n")) - size(fence("")) - 2
		whole = size(fence(command))-size(fence("")) <= room
		if whole || room >= leastCommand {
			break
		}
	}
	if !whole {
		const note = "\n… Review shows the whole command."
		all := command
		for n := room - size(note); ; n -= n/10 + 1 {
			command = cut(all, max(n, 1)) + note
			if n <= 1 || size(fence(command))-size(fence("")) <= room {
				break
			}
		}
	}
	text := strings.Join(slices.Concat(before, []string{fence(command)}, after), "\n")
	buttons := d.c.View.Buttons
	if !whole || !placed || !chat.Faithful(a) {
		buttons = slices.DeleteFunc(slices.Clone(buttons), func(b workflows.Button) bool { return approves(b.ID) })
	}
	at := ref{Approval: a.ID, Key: d.c.View.Key, Version: d.c.View.Version, Digest: short(a.Digest)}
	if a.UnknownRun { // where its output is
		at.Turn = chat.CallTurn(a.CallID)
	}
	return text, rows(buttons, at)
}

// around is what a card shows above and below the command. placed reports whether
// where it is to run is shown whole.
func (d *drawing) around(a workflows.ApprovalView, fit requestFit) (before, after []string, placed bool) {
	before = []string{"**" + d.fit(d.style.ApprovalTitle(a), lineShown) + "**"}
	placed = true
	if where := chat.Where(a); where != "" {
		line := d.fit("In "+where+":", lineShown)
		placed = line == d.line("In "+where+":")
		before = append(before, line)
	}
	if why := chat.Reasons(a); why != "" {
		after = append(after, d.fit(cut(why, reasonsShown), fit.reasons))
	}
	if e := chat.Evidence(a.Evidence); e != "" {
		after = append(after, d.fit(cut(e, evidenceShown), fit.evidence))
	}
	if a.State == workflows.ApprovalPending {
		after = append(after, d.fit(d.style.AskedFor(a), fit.asked)+d.others(a))
		if a.Queued > 0 {
			after = append(after, chat.Count(a.Queued, "message waits", "messages wait")+" behind this request.")
		}
	}
	if out := d.style.ApprovalOutcome(a); out != "" {
		after = append(after, "**"+strings.ReplaceAll(d.fit(out, fit.outcome), "\n", "**\n**")+"**")
	}
	return before, after, placed
}

// others mentions those whom a new card is to notify though they are no approvers
// by name.
func (d *drawing) others(a workflows.ApprovalView) string {
	if !d.pings {
		return ""
	}
	text := ""
	for _, n := range a.Notify {
		if n == "*" || slices.Contains(a.Approvers, n) {
			continue
		}
		if more := " " + d.line(d.style.Approver(n)); size(text)+size(more) <= othersShown {
			text += more
		}
	}
	return text
}

// ref is what our buttons carry, in their custom ID: with the thread, which comes
// with the click, it says what they are about, without anything remembered.
type ref struct {
	Button   string
	Approval string
	Key      string
	Version  int
	Turn     int
	Question string
	// Digest begins the digest of what was shown.
	Digest string
	// Reviewed: the button stands below the whole text.
	Reviewed bool
}

// short is the beginning of a digest that tells what was shown from anything
// else.
func short(digest string) string {
	_, hex, ok := strings.Cut(digest, ":")
	if !ok {
		hex = digest
	}
	return hex[:min(len(hex), 16)]
}

// Kinds of our custom IDs.
const (
	idButton   = "b"
	idReviewed = "r"
	idMenu     = "menu"
	idModal    = "m"
)

func (r ref) encode() string {
	kind := idButton
	if r.Reviewed {
		kind = idReviewed
	}
	return strings.Join([]string{kind, r.Button, r.Approval, r.Key, number(r.Version), number(r.Turn), r.Question, r.Digest}, "|")
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func decodeRef(s string) (ref, bool) {
	p := strings.Split(s, "|")
	if len(p) != 8 || (p[0] != idButton && p[0] != idReviewed) || p[1] == "" {
		return ref{}, false
	}
	version, _ := strconv.Atoi(p[4]) // empty is 0
	turn, _ := strconv.Atoi(p[5])
	return ref{Button: p[1], Approval: p[2], Key: p[3], Version: version, Turn: turn, Question: p[6], Digest: p[7], Reviewed: p[0] == idReviewed}, true
}

// rows are buttons in rows. One whose custom ID would be longer than Discord
// takes is left out: the same is done by a command.
func rows(buttons []workflows.Button, at ref) []component {
	var all []component
	for _, b := range buttons {
		at.Button = b.ID
		c := component{Type: componentButton, Style: styleOf(b.ID), Label: cut(b.Label, maxLabel), CustomID: at.encode()}
		if length(c.CustomID) <= maxCustomID {
			all = append(all, c)
		}
	}
	var out []component
	for chunk := range slices.Chunk(all[:min(len(all), maxRow*(maxRows-1))], maxRow) {
		out = append(out, component{Type: componentRow, Components: chunk})
	}
	return out
}

func styleOf(button string) int {
	switch button {
	case workflows.ButtonApprove, workflows.ButtonRunAgain:
		return styleSuccess
	case workflows.ButtonDeny, workflows.ButtonDestroy:
		return styleDanger
	}
	return styleSecondary
}

// menu are the commands of the header's menu.
func menu() []chat.Verb {
	return []chat.Verb{
		chat.VerbStop, chat.VerbStatus, chat.VerbHistory, chat.VerbSwitch, chat.VerbFork, chat.VerbTitle, chat.VerbModel,
		chat.VerbPause, chat.VerbGrants, chat.VerbFiles, chat.VerbDone, chat.VerbDestroy,
	}
}

func menuLabel(v chat.Verb) string {
	switch v {
	case chat.VerbStop:
		return "Stop the running turn"
	case chat.VerbSwitch:
		return "Switch backend…"
	case chat.VerbFork:
		return "Fork…"
	case chat.VerbTitle:
		return "Change title…"
	case chat.VerbModel:
		return "Change model…"
	case chat.VerbDone:
		return "Done…"
	case chat.VerbDestroy:
		return "Destroy…"
	}
	return title(v)
}

// title is a command's name as a modal's title.
func title(v chat.Verb) string {
	if v == "" {
		return "Session"
	}
	return strings.ToUpper(string(v[:1])) + string(v[1:])
}

// menuRow is the header's menu. It carries its thread: the header may stand in
// the thread, or in the channel that the thread was opened in.
func menuRow(t workflows.Thread) component {
	var options []choice
	for _, v := range menu() {
		options = append(options, choice{Label: menuLabel(v), Value: string(v)})
	}
	return component{Type: componentRow, Components: []component{{
		Type: componentSelect, CustomID: idMenu + "|" + t.ID, Placeholder: "Session…", Options: options,
	}}}
}
