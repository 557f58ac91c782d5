// The inline half of Markdown: code, emphasis, links, escapes.
import { h } from "./dom.js";
import { plain, withTimes } from "./format.js";

// A block's text beyond this is shown without inline marks.
const maxInline = 30_000;

// inline renders a block's text as nodes.
export function inline(text, o = {}) {
  return text.length > maxInline ? [text] : new Inline(text, o).run();
}

// Inline goes through the text once. parts holds nodes, and for runs of * _ ~ and
// for [ a record that later becomes an element or stays text.
class Inline {
  constructor(text, o) {
    this.text = text;
    this.o = o;
    this.parts = [];
    this.brackets = [];
    this.noTicks = new Set();
    this.plainFrom = 0;
    this.at = 0;
  }

  run() {
    while (this.at < this.text.length) {
      const start = this.at;
      const took = this.special(this.text[start]);
      if (!took) this.at = start + 1;
    }
    this.flush(this.text.length);
    emphasis(this.parts, 0);
    return this.parts.map((p) => (p instanceof Node || typeof p === "string" ? p : p.text));
  }

  // flush makes what lies between the last special thing and end a text.
  flush(end) {
    if (end > this.plainFrom) this.parts.push(...this.words(this.text.slice(this.plainFrom, end)));
    this.plainFrom = end;
  }

  words(s) {
    return this.o.times ? withTimes(s).filter((x) => x !== "") : [s];
  }

  // take ends the plain text at this.at, adds part and goes on behind end.
  take(part, end) {
    this.flush(this.at);
    if (part !== null) this.parts.push(part);
    this.at = this.plainFrom = end;
    return true;
  }

  special(c) {
    switch (c) {
      case "\\": return this.escape();
      case "`": return this.code();
      case "*": case "_": case "~": return this.run1(c);
      case "!": return this.text[this.at + 1] === "[" && this.open("![");
      case "[": return this.open("[");
      case "]": return this.close();
      case "<": return this.autolink();
      case "&": return this.entity();
      case "\n": return this.newline();
      case "h": case "m": return this.bare();
    }
    return false;
  }

  escape() {
    const next = this.text[this.at + 1];
    if (next === "\n") return this.take(h("br"), this.at + 2);
    return next !== undefined && /[!-/:-@[-`{-~]/.test(next) && this.take(next, this.at + 2);
  }

  code() {
    const marks = /^`+/.exec(this.text.slice(this.at, this.at + 256))[0];
    const from = this.at + marks.length;
    const end = this.noTicks.has(marks.length) ? -1 : this.closingTicks(from, marks.length);
    if (end < 0) {
      this.noTicks.add(marks.length);
      return this.take(marks, from);
    }
    let code = this.text.slice(from, end).replace(/\n/g, " ");
    if (/^ .* $/.test(code) && /[^ ]/.test(code)) code = code.slice(1, -1);
    return this.take(h("code", { dir: "ltr" }, code), end + marks.length);
  }

  closingTicks(from, length) {
    const ticks = /`+/g;
    ticks.lastIndex = from;
    for (let m; (m = ticks.exec(this.text)); ) if (m[0].length === length) return m.index;
    return -1;
  }

  // run1 records a run of emphasis marks with what it may do.
  run1(c) {
    let end = this.at;
    while (this.text[end] === c) end++;
    const before = this.at ? this.text[this.at - 1] : " ";
    const after = this.text[end] ?? " ";
    const punct = /[\p{P}\p{S}]/u;
    const left = !/\s/.test(after) && (!punct.test(after) || /\s/.test(before) || punct.test(before));
    const right = !/\s/.test(before) && (!punct.test(before) || /\s/.test(after) || punct.test(after));
    const word = c === "_";
    const part = {
      text: this.text.slice(this.at, end), mark: c, n: end - this.at,
      open: left && (!word || !right || punct.test(before)), close: right && (!word || !left || punct.test(after)),
    };
    return this.take(part, end);
  }

  open(text) {
    this.flush(this.at);
    this.brackets.push({ index: this.parts.length, image: text.length > 1, from: this.at + text.length });
    return this.take({ text }, this.at + text.length);
  }

  close() {
    const bracket = this.brackets.pop();
    if (!bracket) return false;
    const target = destination(this.text, this.at + 1);
    if (!target) return false;
    this.flush(this.at);
    emphasis(this.parts, bracket.index + 1);
    const inner = this.parts.splice(bracket.index).slice(1).map((p) => (p instanceof Node || typeof p === "string" ? p : p.text));
    this.plainFrom = this.at;
    if (!bracket.image) this.brackets = this.brackets.filter((b) => b.image);
    return this.take(bracket.image ? image(inner, target.url) : link(inner, target.url), target.end);
  }

  autolink() {
    const m = /^<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/i.exec(this.text.slice(this.at, this.at + 2020));
    return m && this.take(link([m[1]], m[1]), this.at + m[0].length);
  }

  bare() {
    if (this.at && /[\w]/.test(this.text[this.at - 1])) return false;
    const m = /^https?:\/\/[^\s<>"'`|\\^{}]{1,2000}/i.exec(this.text.slice(this.at, this.at + 2020));
    if (!m || this.brackets.length) return false;
    let url = m[0].replace(/[.,;:!?*_~]+$/, "");
    if (url.endsWith(")") && !url.includes("(")) url = url.slice(0, -1);
    return url.length > 8 && this.take(link([url], url), this.at + url.length);
  }

  entity() {
    const m = /^&(?:(amp|lt|gt|quot|apos|nbsp)|#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6}));/.exec(this.text.slice(this.at, this.at + 12));
    if (!m) return false;
    const named = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" }[m[1]];
    const point = m[2] ? parseInt(m[2], 10) : parseInt(m[3] || "0", 16);
    const text = named || (point && point <= 0x10ffff && !(point >= 0xd800 && point < 0xe000) ? plain(String.fromCodePoint(point)) : "\ufffd");
    return this.take(text, this.at + m[0].length);
  }

  newline() {
    const hard = this.o.breaks || /  $/.test(this.text.slice(Math.max(0, this.at - 2), this.at));
    return hard && this.take(h("br"), this.at + 1);
  }
}

// emphasis pairs the runs from index on, innermost first.
function emphasis(parts, from) {
  const openers = [];
  for (let i = from; i < parts.length; i++) {
    const p = parts[i];
    if (!p.mark) continue;
    if (p.close) i = closeRuns(parts, i, openers);
    const still = parts[i];
    if (still && still.mark && still.open && still.n > 0) openers.push(still);
  }
  for (let i = from; i < parts.length; i++) if (parts[i].mark) parts[i] = parts[i].text;
}

// closeRuns pairs the closing run at i with as many openers as it can.
function closeRuns(parts, i, openers) {
  const close = parts[i];
  while (close.n > 0) {
    let k = openers.length - 1;
    // Looking further back than this never helps a text that a person wrote.
    const floor = Math.max(0, openers.length - 32);
    while (k >= floor && !pairs(openers[k], close)) k--;
    if (k < floor || k < 0) break;
    const open = openers[k];
    const used = open.mark === "~" ? open.n : Math.min(2, open.n, close.n);
    const at = parts.lastIndexOf(open, i);
    const inner = parts.splice(at + 1, i - at - 1).map((p) => (p.mark ? p.text : p)).map((p) => (p.text !== undefined && !(p instanceof Node) ? p.text : p));
    parts.splice(at + 1, 0, h(open.mark === "~" ? "del" : used === 2 ? "strong" : "em", {}, inner));
    i = at + 2;
    openers.length = k;
    shorten(open, used);
    shorten(close, used);
    if (open.n > 0) openers.push(open);
  }
  return i;
}

function pairs(open, close) {
  if (open.mark !== close.mark) return false;
  if (open.mark === "~") return open.n === close.n && open.n <= 2;
  return !((open.close || close.open) && (open.n + close.n) % 3 === 0 && (open.n % 3 || close.n % 3));
}

function shorten(run, by) {
  run.n -= by;
  run.text = run.mark.repeat(run.n);
}

// destination reads "(url "title")" behind a bracket.
function destination(text, at) {
  if (text[at] !== "(") return null;
  const m = /^\(\s*(?:<([^<>\n]{0,2000})>|((?:[^\s()\\]|\\.|\([^\s()]{0,200}\)){0,2000}))(?:\s+(?:"[^"]{0,500}"|'[^']{0,500}'))?\s*\)/.exec(text.slice(at, at + 3000));
  return m && { url: (m[1] ?? m[2] ?? "").replace(/\\([!-/:-@[-`{-~])/g, "$1"), end: at + m[0].length };
}

// safeURL is an absolute http, https or mailto address, or null.
export function safeURL(raw) {
  let url;
  try {
    url = new URL(raw.trim());
  } catch {
    return null;
  }
  return ["http:", "https:", "mailto:"].includes(url.protocol) ? url : null;
}

// An address inside this page: a thread or a channel.
const inPage = /^#\/[ct]\/[\w.~%-]{1,200}$/;

// link is an anchor where the address is safe, else its text and the address. A
// text that looks like another site's address is followed by the real host.
function link(inner, raw) {
  if (inPage.test(raw)) return h("a", { href: raw }, inner.length ? inner : raw);
  const url = safeURL(raw);
  const shown = inner.map((p) => (p instanceof Node ? p.textContent : p)).join("");
  if (!url) return h("span", {}, inner, raw && raw !== shown ? ` (${raw})` : "");
  const looks = /([a-z0-9-]+(?:\.[a-z0-9-]+)+)/i.exec(shown.trim());
  const lies = looks && url.host && looks[1].toLowerCase() !== url.hostname && /^(https?:|www\.|[a-z0-9.-]+\.[a-z]{2,}(?:\/|$))/i.test(shown.trim());
  const a = h("a", { href: url.href, rel: "noopener noreferrer nofollow", target: "_blank", title: url.href }, inner.length ? inner : url.href);
  return lies ? h("span", {}, a, ` (${url.host})`) : a;
}

function image(inner, raw) {
  const name = inner.map((p) => (p instanceof Node ? p.textContent : p)).join("") || "no description";
  return h("span", { class: "image" }, link(["image: " + name], raw));
}
