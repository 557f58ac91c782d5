// Markdown to DOM nodes, for texts that a model or a person wrote. Only elements
// named in this file are made, only http, https and mailto are linked, images are
// named and never loaded, and markup in the text stays text. Time is linear in the
// text but for nested quotes and lists, whose depth is bounded.
import { h, append } from "./dom.js";
import { plain, withTimes } from "./format.js";

const maxDepth = 8;
// Longer texts are shown as they are: 400 kB renders in well under a second.
const maxLength = 400_000;

// markdown renders text. options: breaks (a newline is a line break), times (see
// withTimes).
export function markdown(text, options = {}) {
  const source = plain(String(text).replace(/\r\n?/g, "\n")).replace(/\t/g, "    ");
  const root = h("div", { class: "md", dir: "auto" });
  if (source.length > maxLength) return append(root, [h("pre", { class: "wrap" }, source)]);
  return append(root, blocks(source.split("\n"), { ...options, depth: 0 }));
}

// A block's text beyond this is shown without inline marks.
const maxInline = 30_000;

// No expression below can be made to go back and forth over a long line.
const fence = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const heading = /^ {0,3}(#{1,6})(?: (.*)|)$/;
const rule = /^ {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$/;
const quote = /^ {0,3}> ?(.*)$/;
const item = /^( {0,3})([-*+]|\d{1,9}[.)])(?:( +)(.*)|)$/;
const delimiterRow = /^ {0,3}\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;
const blank = (line) => /^\s*$/.test(line);

// blocks renders lines as a list of block elements.
function blocks(lines, o) {
  const out = [];
  let i = 0;
  while (i < lines.length) {
    if (blank(lines[i])) {
      i++;
      continue;
    }
    const [el, next] = block(lines, i, o);
    out.push(el);
    i = next;
  }
  return out;
}

// block renders the block that starts at line i, and says where the next starts.
function block(lines, i, o) {
  const line = lines[i];
  let m;
  if ((m = fence.exec(line))) return fenced(lines, i, m);
  if ((m = heading.exec(line))) return [headingEl(m[1].length, headingText(m[2] || ""), o), i + 1];
  if (rule.test(line)) return [h("hr"), i + 1];
  if (o.depth < maxDepth) {
    if (quote.test(line)) return quoted(lines, i, o);
    if (item.test(line)) return list(lines, i, o);
  }
  if (/^ {4}/.test(line)) return indented(lines, i);
  if (isTable(lines, i)) return table(lines, i, o);
  return paragraph(lines, i, o);
}

// headingText drops the marks that may close a heading.
function headingText(text) {
  const trimmed = text.trim();
  let end = trimmed.length;
  while (trimmed[end - 1] === "#") end--;
  return end === 0 || trimmed[end - 1] === " " ? trimmed.slice(0, end).trimEnd() : trimmed;
}

// headingEl keeps the page's own outline: a text's first level is the page's third.
function headingEl(level, text, o) {
  return h("h" + Math.min(6, level + 2), { class: "md-h" + level }, inline(text, o));
}

function fenced(lines, i, [, marks, info]) {
  const close = new RegExp("^ {0,3}" + (marks[0] === "`" ? "`" : "~") + "{" + marks.length + ",}\\s*$");
  let end = i + 1;
  while (end < lines.length && !close.test(lines[end])) end++;
  const language = info.trim().split(/\s+/)[0].slice(0, 24);
  return [codeBlock(lines.slice(i + 1, end).join("\n"), language), end + 1];
}

function indented(lines, i) {
  let end = i;
  while (end < lines.length && (/^ {4}/.test(lines[end]) || (blank(lines[end]) && /^ {4}/.test(lines[end + 1] || "")))) end++;
  return [codeBlock(lines.slice(i, end).map((l) => l.slice(4)).join("\n"), ""), end];
}

// codeBlock is code with a button that copies it.
function codeBlock(code, language) {
  return h("div", { class: "code" },
    h("div", { class: "code-bar" },
      h("span", { class: "code-lang" }, language),
      h("button", { type: "button", class: "quiet", "data-action": "copy" }, "Copy")),
    h("pre", { tabindex: "0", role: "group", "aria-label": language ? "Code, " + language : "Code" }, h("code", { dir: "ltr" }, code)));
}

function quoted(lines, i, o) {
  const inner = [];
  let end = i;
  for (; end < lines.length && !blank(lines[end]); end++) {
    const m = quote.exec(lines[end]);
    if (!m && startsBlock(lines, end)) break;
    inner.push(m ? m[1] : lines[end]);
  }
  return [h("blockquote", {}, blocks(inner, { ...o, depth: o.depth + 1 })), end];
}

// list takes items of one kind. What is indented to an item's text belongs to it.
function list(lines, i, o) {
  const ordered = /\d/.test(item.exec(lines[i])[2]);
  const kind = item.exec(lines[i])[2].slice(-1);
  const items = [];
  let loose = false;
  let end = i;
  while (end < lines.length) {
    const m = item.exec(lines[end]);
    if (!m || m[2].slice(-1) !== kind || rule.test(lines[end])) break;
    const [body, next, gap] = itemBody(lines, end, m);
    items.push(body);
    const following = gap && next < lines.length && item.exec(lines[next]);
    loose = loose || Boolean(following && following[2].slice(-1) === kind) || body.some((l, n) => blank(l) && n < body.length - 1);
    end = next;
  }
  const start = ordered ? parseInt(item.exec(lines[i])[2], 10) : 1;
  const attrs = ordered && start !== 1 ? { start } : {};
  return [h(ordered ? "ol" : "ul", attrs, items.map((body) => listItem(body, loose, o))), end];
}

function itemBody(lines, i, m) {
  const width = m[1].length + m[2].length + Math.min(m[3] ? m[3].length : 1, 4);
  const body = [m[4] || ""];
  let end = i + 1;
  let gap = false;
  for (; end < lines.length; end++) {
    const line = lines[end];
    if (blank(line)) {
      gap = true;
      body.push("");
    } else if (line.startsWith(" ".repeat(width))) {
      gap = false;
      body.push(line.slice(width));
    } else if (gap || startsBlock(lines, end)) {
      break;
    } else {
      body.push(line.trimStart());
    }
  }
  while (body.length > 1 && blank(body[body.length - 1])) body.pop();
  return [body, end, gap];
}

function listItem(body, loose, o) {
  const task = /^\[([ xX])\] +(.*)$/.exec(body[0]);
  if (task) body = [task[2], ...body.slice(1)];
  const kids = blocks(body, { ...o, depth: o.depth + 1 }).flatMap((el) => (!loose && el.nodeName === "P" ? [...el.childNodes] : [el]));
  const mark = task && (task[1] === " " ? "☐ " : "☑ ");
  return h("li", { class: task ? "task" : null }, mark, kids);
}

function isTable(lines, i) {
  return i + 1 < lines.length && lines[i].includes("|") && lines[i + 1].includes("-") && lines[i + 1].length < 2000 && delimiterRow.test(lines[i + 1]) &&
    cells(lines[i]).length === cells(lines[i + 1]).length;
}

// cells splits a row at its unescaped bars.
function cells(row) {
  const trimmed = row.trim().replace(/^\|/, "").replace(/\|$/, (bar, at, all) => (all[at - 1] === "\\" ? bar : ""));
  const out = [""];
  for (let i = 0; i < trimmed.length; i++) {
    if (trimmed[i] === "\\" && trimmed[i + 1] === "|") out[out.length - 1] += trimmed[++i];
    else if (trimmed[i] === "|") out.push("");
    else out[out.length - 1] += trimmed[i];
  }
  return out.map((c) => c.trim());
}

function table(lines, i, o) {
  const head = cells(lines[i]);
  const aligned = cells(lines[i + 1]).map((c) => (c.endsWith(":") ? (c.startsWith(":") ? "center" : "end") : null));
  const row = (line, tag) => {
    const have = cells(line);
    return h("tr", {}, head.map((_, n) => h(tag, { class: aligned[n], scope: tag === "th" ? "col" : null }, inline(have[n] || "", o))));
  };
  let end = i + 2;
  while (end < lines.length && !blank(lines[end]) && !startsBlock(lines, end)) end++;
  return [h("div", { class: "table", tabindex: "0", role: "group", "aria-label": "Table" },
    h("table", {}, h("thead", {}, row(lines[i], "th")), h("tbody", {}, lines.slice(i + 2, end).map((l) => row(l, "td"))))), end];
}

function startsBlock(lines, i) {
  const line = lines[i];
  const m = item.exec(line);
  return fence.test(line) || heading.test(line) || rule.test(line) || quote.test(line) || (m && Boolean(m[4]));
}

function paragraph(lines, i, o) {
  let end = i + 1;
  while (end < lines.length && !blank(lines[end])) {
    const under = /^ {0,3}(=+|-+)\s*$/.exec(lines[end]);
    if (under) return [headingEl(under[1][0] === "=" ? 1 : 2, lines.slice(i, end).join("\n").trim(), o), end + 1];
    if (startsBlock(lines, end) || isTable(lines, end)) break;
    end++;
  }
  return [h("p", {}, inline(lines.slice(i, end).map((l) => l.trimStart()).join("\n"), o)), end];
}

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
