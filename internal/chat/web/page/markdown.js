// Markdown to DOM nodes: blocks here, what is inside them in inline.js. It is for
// texts that a model or a person wrote: only elements named in these two files are
// made, only http, https and mailto are linked, images are named and never loaded,
// and markup in the text stays text. Time is linear in the text but for nested
// quotes and lists, whose depth is bounded.
import { h, append } from "./dom.js";
import { plain } from "./format.js";
import { inline } from "./inline.js";

const maxDepth = 8;
// Longer texts are shown as they are.
const maxLength = 400_000;

// markdown renders text. options: breaks (a newline is a line break), times (see
// withTimes).
export function markdown(text, options = {}) {
  const source = plain(String(text).replace(/\r\n?/g, "\n"));
  const root = h("div", { class: "md", dir: "auto" });
  if (source.length > maxLength) return append(root, [h("pre", { class: "wrap" }, source)]);
  return append(root, blocks(withoutTabs(source.split("\n")), { ...options, depth: 0 }));
}

// withoutTabs writes the tabs that indent lines as four spaces each, but for those
// in a fence that is not itself indented: code is copied as it was written.
function withoutTabs(lines) {
  let marks = "";
  return lines.map((line) => {
    const m = fence.exec(line);
    if (marks) {
      if (m && m[1].startsWith(marks) && !m[2].trim()) marks = "";
      return line;
    }
    if (m && line[0] !== " ") marks = m[1];
    return line.replace(/^[ \t]+/, (indent) => indent.replaceAll("\t", "    ")).replace(/^( *(?:[-*+]|\d{1,9}[.)]))\t/, "$1 ");
  });
}

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
