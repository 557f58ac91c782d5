// The right side: a thread's messages, patched in place, or a channel's start
// page. Nothing jumps: a reader at the end stays there, any other stays where
// they read.
import { h, icon, morph } from "./dom.js";
import { headerLine, messageEl, pendingEl } from "./messages.js";
import { plain } from "./format.js";
import { markdown } from "./markdown.js";

// This near to the end, in pixels, counts as being there.
const nearEnd = 48;

// ThreadView shows one thread, or a channel: then it has a head and a start page
// of its own.
export class ThreadView {
  constructor(main, thread, composer, channel) {
    Object.assign(this, { main, thread, composer, channel, drawn: new Map(), movedAt: 0, below: 0 });
    this.head = channel ? channelHead(channel) : h("header", { class: "head" });
    this.body = h("div", { class: "thread" });
    this.scroll = h("section", { class: "scroll", id: "scroll", "aria-label": "Conversation", tabindex: "0" }, this.body);
    this.jump = h("button", { type: "button", class: "button small jump", "data-action": "jump", hidden: true });
    this.ended = h("p", { class: "ended", hidden: true }, "This session has ended. ", h("button", { type: "button", class: "button small", "data-action": "anew" }, "Start anew from its files"));
    main.replaceChildren(this.head, this.scroll, h("div", { class: "below" }, this.jump, this.ended, composer.el));
    this.atEnd = true;
    this.scroll.addEventListener("scroll", () => this.scrolled(), { passive: true });
    new ResizeObserver(() => this.sticks() && this.toEnd()).observe(this.scroll);
  }

  // sticks says whether the view follows its end. A start page alone does not.
  sticks() {
    return this.atEnd && !(this.channel && this.thread.order.length === 0);
  }

  scrolled() {
    const s = this.scroll;
    this.atEnd = s.scrollHeight - s.scrollTop - s.clientHeight < nearEnd;
    if (this.atEnd) this.below = 0;
    this.renderJump();
  }

  toEnd() {
    this.scroll.scrollTop = this.scroll.scrollHeight;
    this.atEnd = true;
    this.below = 0;
    this.renderJump();
  }

  renderJump() {
    this.jump.hidden = this.atEnd || this.below === 0;
    this.jump.textContent = `↓ ${this.below} new below`;
  }

  // render brings the page to what the thread is. added counts new messages.
  render(view, added = 0) {
    const wasAtEnd = this.sticks();
    const before = this.cardTops();
    const focused = document.activeElement;
    const article = this.body.contains(focused) && focused.closest("article");
    this.renderHead();
    this.renderMessages(view);
    if (article && !focused.isConnected) article.focus({ preventScroll: true });
    if (wasAtEnd) this.toEnd();
    else this.below += added;
    this.renderJump();
    this.noteMoves(before);
  }

  renderHead() {
    if (this.channel) return;
    const t = this.thread;
    const header = t.order.map((id) => t.messages.get(id)).findLast((m) => m.kind === "header");
    this.ended.hidden = (header?.header?.liveness || t.info.liveness) !== "destroyed";
    const title = plain(header?.header?.title || t.info.title || firstLine(t) || "Session");
    morph(this.head, h("header", { class: "head" },
      sideButton(),
      h("div", { class: "head-text" }, h("h1", { tabindex: "-1", dir: "auto" }, title), h("p", { class: "head-line" }, headerLine(t.info, header))),
      h("button", { type: "button", class: "quiet", "data-action": "menu", "aria-haspopup": "menu", "aria-expanded": String(Boolean(this.main.querySelector(".menu"))), "aria-label": "Session menu" }, icon("M5 12h.01M12 12h.01M19 12h.01"))));
  }

  renderMessages(view) {
    const t = this.thread;
    const wanted = this.channel ? [this.draw("start", [], () => startPage(this.channel))] : [];
    for (const id of t.order) {
      const m = t.messages.get(id);
      wanted.push(this.draw(id, [m, view.unfolded.has(id), view.busy.get(id), view.me], () => messageEl(m, view)));
    }
    for (const p of t.pending) wanted.push(this.draw("pending-" + p.clientID, [p, p.error], () => pendingEl(p, view)));
    const els = wanted.filter(Boolean);
    if (!els.length) els.push(this.draw("state", [t.state, t.failure], () => stateEl(t)));
    this.place(els);
  }

  // draw returns the element for a key, made or patched only when what it depends
  // on has changed.
  draw(key, depends, make) {
    const have = this.drawn.get(key);
    if (have && have.depends.every((d, i) => d === depends[i])) return have.el;
    const fresh = make();
    const el = have?.el && fresh ? morph(have.el, fresh) : fresh;
    this.drawn.set(key, { depends, el });
    return el;
  }

  place(els) {
    const keep = new Set(els);
    for (const kid of [...this.body.children]) if (!keep.has(kid)) kid.remove();
    els.forEach((el, i) => {
      if (this.body.children[i] !== el) this.body.insertBefore(el, this.body.children[i] || null);
    });
  }

  cardTops() {
    return new Map([...this.body.querySelectorAll(".approval-card.pending")].map((el) => [el, el.getBoundingClientRect().top]));
  }

  // noteMoves remembers when a card with an open question moved or came: a click
  // in that moment may have been meant for something else.
  noteMoves(before) {
    for (const [el, top] of this.cardTops()) {
      if (!before.has(el) || Math.abs(before.get(el) - top) > 3) this.movedAt = performance.now();
    }
  }

  justMoved() {
    return performance.now() - this.movedAt < 400;
  }
}

// firstLine names a thread that is no session, such as a command's answer.
function firstLine(t) {
  const first = t.messages.get(t.order[0]);
  return String(first?.text || "").split("\n")[0].slice(0, 120);
}

function stateEl(t) {
  if (t.state === "loading") return h("p", { class: "state", "data-key": "state" }, "Loading the conversation.");
  if (t.state === "missing") return h("div", { class: "state", "data-key": "state" }, h("p", {}, "There is no such session here."), h("p", {}, "It may be another server’s. Choose one from the list, or start a new one in the channel."));
  if (t.failure) return h("div", { class: "state", "data-key": "state" }, h("p", {}, t.failure), h("button", { type: "button", class: "button", "data-action": "reload" }, "Try again"));
  return h("p", { class: "state", "data-key": "state" }, "Opening the session.");
}

const examples = [
  ["Look around", "/agent look around with `ls -la`, then `rm -rf build`"],
  ["Fix something", "/agent fix the flaky test in internal/router"],
  ["Explain", "/agent explain how this project is laid out"],
];

const sideButton = () => h("button", { type: "button", class: "quiet only-small", "data-action": "open-side", "aria-label": "Show the list of sessions" }, icon("M4 6h16M4 12h16M4 18h16"));

function channelHead(channel) {
  return h("header", { class: "head" }, sideButton(),
    h("div", { class: "head-text" }, h("h1", { tabindex: "-1" }, "#" + plain(channel.title || channel.id)), h("p", { class: "head-line" }, "A task that starts here opens its own thread.")));
}

// startPage teaches what to do in a channel. channel.notices are honest sentences
// about this installation.
function startPage(channel) {
  return h("div", { class: "welcome", "data-key": "start" },
    h("h2", {}, "Give the agent a task"),
    h("p", { class: "lead" }, "Write ", h("code", {}, "/agent"), " and what you want done. A thread opens with its own sandbox, and you see each command as it runs."),
    (channel.notices || []).map((n) => h("div", { class: "note" }, markdown(n))),
    h("ul", { class: "examples" }, examples.map(([name, text]) => h("li", {}, h("button", { type: "button", class: "example", "data-action": "example", "data-text": text },
      h("b", {}, name), h("code", {}, text))))),
    h("ol", { class: "steps" },
      h("li", {}, h("b", {}, "Reading runs at once. "), "So do changes to files in the session’s own workspace."),
      h("li", {}, h("b", {}, "Anything risky waits for you. "), "A card shows the whole command and why it asks. Nothing runs until somebody approves it."),
      h("li", {}, h("b", {}, "Nothing gets lost. "), "Reply in the thread to go on, today or next week. Stop ends a running command.")),
    h("p", { class: "aside" }, "Type ", h("code", {}, "/agent help"), " for all commands."));
}
