// How each kind of message looks. Every function here makes fresh nodes from the
// message alone and what the reader has unfolded; app.js patches them in.
import { h } from "./dom.js";
import { markdown } from "./markdown.js";
import { approvalBody } from "./approval.js";
import { buttons } from "./buttons.js";
import { callStates, clock, count, duration, lastLines, liveness, markEl, money, nameOf, plain, size, terminalText, timeEl, tokens, visible, withTimes } from "./format.js";

// Past this many calls the oldest fold.
const shownCalls = 8;
// A running call shows this many lines of its output.
const tailLines = 10;

// messageEl is one message as an article. view: {unfolded: Set of message IDs,
// busy: Map of message ID to the button that was clicked, me}.
export function messageEl(m, view) {
  const kinds = { user: userBody, header: headerBody, turn: turnBody, approval: approvalBody, answer: answerBody, notice: noticeBody };
  const body = (kinds[m.kind] || noticeBody)(m, view);
  if (!body) return null;
  return h("article", {
    id: "m-" + m.id, "data-key": m.id, "data-message": m.id, tabindex: "-1",
    class: "message " + (kinds[m.kind] ? m.kind : "notice"), "aria-label": labelOf(m),
  }, body);
}

function labelOf(m) {
  const words = { user: "Message from " + nameOf(m.author), header: "Session", turn: "Turn", approval: "Approval request", answer: "Answer", notice: "Notice" };
  const time = clock(m.at);
  return (words[m.kind] || "Notice") + (time ? ", " + time : "");
}

// byline says who wrote a message and when.
function byline(name, m, extra) {
  return h("header", { class: "byline" }, h("span", { class: "who" }, name), " ", timeEl(m.at), extra);
}

function userBody(m, view) {
  const name = nameOf(m.author) || "somebody";
  return [
    h("span", { class: "avatar", "aria-hidden": "true", "data-hue": hue(name) }, plain(name).slice(0, 1).toUpperCase()),
    h("div", { class: "bubble" }, byline(plain(name), m, name === view.me ? h("span", { class: "you" }, "you") : null), markdown(m.text, { breaks: true }), buttons(m, view)),
  ];
}

const hue = (name) => [...name].reduce((n, c) => (n * 31 + c.codePointAt(0)) % 6, 7);

function answerBody(m, view) {
  return [
    h("span", { class: "avatar agent", "aria-hidden": "true" }, "✓"),
    h("div", { class: "bubble" }, byline("agent", m), markdown(m.text), buttons(m, view)),
  ];
}

function noticeBody(m, view) {
  return h("div", { class: "note" }, markdown(m.text || "", { breaks: true, times: true }),
    m.file && h("button", { type: "button", class: "button small", "data-action": "download" }, "Download " + plain(m.file.name)), buttons(m, view));
}

// headerBody repeats nothing that the page's own head already says: it is shown
// where there is a standing sentence, or buttons.
function headerBody(m, view) {
  const notice = m.header?.notice;
  if (!notice && !m.buttons?.length) return null;
  return h("div", { class: "note" }, notice && markdown(notice, { times: true }), buttons(m, view));
}

// headerLine is the second line of the session's head.
export function headerLine(thread, m) {
  const header = m?.header || {};
  const l = header.liveness || thread.liveness;
  const { mark, words } = liveness(l);
  const waiting = l === "waiting" && header.waiting ? ` (${header.waiting})` : "";
  const ended = l === "destroyed" && header.destroyed_at ? " " + clock(header.destroyed_at) : "";
  const parts = [
    thread.backend && h("span", {}, thread.backend, header.isolated === false ? " (not isolated)" : ""),
    header.workspace && h("span", {}, "workspace ", header.workspace),
    header.model && h("span", {}, header.model),
    header.by && h("span", {}, "by @", plain(nameOf(header.by))),
    l && h("span", { class: "live " + l }, h("span", { class: "mark", "aria-hidden": "true" }, mark), " ", words, waiting, ended),
    header.usage && h("span", {}, money(header.usage.micros)),
  ];
  const shown = parts.filter((p) => p && p.textContent);
  return shown.flatMap((p, i) => (i ? [h("span", { class: "dot", "aria-hidden": "true" }, "·"), p] : [p]));
}

function turnBody(m, view) {
  const calls = m.tool_calls || [];
  const state = turnState(m);
  const [first, ...rest] = String(m.text || "").split("\n");
  return h("div", { class: "card turn-card " + state }, [
    h("header", { class: "turn-head" },
      h("p", { class: "turn-status" }, state === "working" && h("span", { class: "pulse", "aria-hidden": "true" }), m.turn && (state === "working" || !first) ? turnLine(m) : withTimes(plain(first))),
      buttons(m, view)),
    callList(m, calls, state, view),
    state === "working" && modelSays(m.turn?.says),
    !m.turn && rest.join("").trim() && markdown(rest.join("\n"), { breaks: true, times: true }),
    m.turn?.queued > 0 && h("p", { class: "aside" }, count(m.turn.queued, "message"), " sent meanwhile: taken next."),
  ]);
}

// modelSays is the end of what the model writes, or before that of what it thinks.
function modelSays(says) {
  const text = says?.text?.trim() || says?.thought?.trim();
  if (!text) return null;
  const what = says.text?.trim() ? "Writing" : "Thinking";
  return h("div", { class: "says", "data-key": "says" }, h("p", { class: "aside" }, what),
    h("pre", { class: "tail", dir: "auto", "aria-label": what + ", the last lines" }, lastLines(terminalText(text), tailLines)));
}

export function turnState(m) {
  if (m.turn?.state) return m.turn.state;
  const going = (m.buttons || []).some((b) => b.id === "stop") || (m.tool_calls || []).some((c) => c.state === "running");
  return going ? "working" : "done";
}

function turnLine(m) {
  const t = m.turn;
  const spent = t.ended_at && t.started_at ? Date.parse(t.ended_at) - Date.parse(t.started_at) : NaN;
  const used = t.usage || {};
  const by = nameOf(t.by);
  switch (t.state) {
    case "working":
      return ["Working · since ", timeEl(t.started_at, { seconds: true })];
    case "stopped":
      return ["Stopped", by && ` by @${plain(by)}`, t.ended_at && [" at ", timeEl(t.ended_at)], ". ", plain(t.error || "")];
    case "failed":
      return ["Could not go on: ", plain(t.error || "no reason was given."), t.hint && " " + plain(t.hint)];
  }
  const n = t.commands ?? (m.tool_calls || []).length;
  return ["Done", n ? count(n, "command") : "", duration(spent), tokens((used.input || 0) + (used.output || 0), used.cached), money(used.micros)].filter(Boolean).join(" · ");
}

const wentWrong = (c) => (c.state === "completed" ? c.exit_code > 0 || c.exit_code < 0 : c.state !== "pending" && c.state !== "running");

function callList(m, calls, state, view) {
  if (!calls.length) return null;
  const open = view.unfolded.has(m.id);
  const working = state === "working";
  const kept = working ? calls.filter((c, i) => i >= calls.length - shownCalls || c.state === "running") : calls.filter(wentWrong);
  const folded = calls.length - kept.length;
  const gone = m.turn?.folded || 0;
  const words = working ? `${folded} earlier` : count(folded, kept.length ? "more command" : "command");
  return [
    folded > 0 && h("button", { type: "button", class: "fold", "data-action": "unfold", "data-key": "fold", "aria-expanded": String(open) }, open ? "Show fewer" : "… " + words),
    gone > 0 && open && h("p", { class: "aside" }, count(gone, "earlier command"), " of this turn ", gone === 1 ? "is" : "are", " no longer listed."),
    h("ul", { class: "calls", "data-key": "calls" }, (open ? calls : kept).map((c) => callItem(c))),
  ];
}

function callItem(c) {
  const { mark, words } = callStates[c.state] || { mark: "?", words: c.state };
  const bad = c.state === "completed" && c.exit_code ? " bad" : "";
  const tail = c.state === "running" && c.tail ? lastLines(terminalText(c.tail), tailLines) : "";
  return h("li", { class: "call " + c.state + bad, "data-key": c.id }, [
    h("button", { type: "button", class: "call-line", "data-action": "output", "data-call": c.id, title: "Show the whole command and its output" },
      h("span", { class: "mark", "aria-hidden": "true" }, markEl(mark)), h("span", { class: "sr" }, words + ": "),
      h("span", { class: "cmd", dir: "ltr" }, c.tool && c.tool !== "shell" ? h("span", { class: "tool" }, plain(c.tool) + " ") : null, visible(c.command || "")),
      h("span", { class: "outcome" }, outcome(c, words))),
    tail && h("pre", { class: "tail", dir: "ltr", "aria-label": "Last lines of output" }, tail),
  ]);
}

function outcome(c, words) {
  const note = c.note ? plain(c.note) : "";
  const took = c.duration_ms !== undefined && c.duration_ms !== null ? duration(c.duration_ms) : "";
  switch (c.state) {
    case "running":
      return c.started_at ? ["since ", timeEl(c.started_at, { seconds: true })] : words;
    case "awaiting_approval":
      return "waits for approval ↓";
    case "completed":
      return [c.exit_code === null || c.exit_code === undefined ? "" : "exit " + c.exit_code, took, note].filter(Boolean).join(" · ");
  }
  return [words, note].filter(Boolean).join(" · ");
}

// pendingEl is a message that is on its way.
export function pendingEl(p, view) {
  const name = view.me || "you";
  return h("article", { class: "message user pending", "data-key": "pending-" + p.clientID, "data-pending": p.clientID, "aria-label": p.error ? "Message not sent" : "Message being sent" },
    h("span", { class: "avatar", "aria-hidden": "true", "data-hue": hue(name) }, name.slice(0, 1).toUpperCase()),
    h("div", { class: "bubble" },
      h("header", { class: "byline" }, h("span", { class: "who" }, name), " ", h("span", { class: p.error ? "unsent" : "" }, p.error ? (p.unsure ? "not confirmed" : "not sent") : "sending")),
      markdown(p.text.length > 5000 ? p.text.slice(0, 5000) + "\n… " + size(p.text.length) : p.text, { breaks: true }),
      p.files.length > 0 && h("p", { class: "aside" }, "Attached: ", p.files.map((f, i) => [i ? ", " : "", visible(f.name), ` (${size(f.bytes)})`])),
      p.error && h("p", { class: "unsent" }, p.error),
      p.error && h("div", { class: "buttons" },
        !p.refused && h("button", { type: "button", class: "button primary", "data-action": "resend" }, "Send again"),
        h("button", { type: "button", class: "button", "data-action": "unsend" }, p.unsure ? "Hide" : "Take it back"))));
}
