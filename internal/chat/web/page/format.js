// How times, durations, money and states are said. Pure functions, but for the
// reader's own time zone and clock.
import { h, icon } from "./dom.js";

const two = (n) => String(n).padStart(2, "0");
const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

function parse(at) {
  const d = at instanceof Date ? at : new Date(at);
  return Number.isNaN(d.getTime()) || d.getUTCFullYear() < 1970 ? null : d;
}

const halfDay = 12 * 3600_000;

// clock is a time of day in the reader's zone, with the date when that is another
// one and not just across midnight, and with seconds when asked for.
export function clock(at, { seconds = false, now = new Date() } = {}) {
  const d = parse(at);
  if (!d) return "";
  const time = two(d.getHours()) + ":" + two(d.getMinutes()) + (seconds ? ":" + two(d.getSeconds()) : "");
  if (d.toDateString() === now.toDateString() || Math.abs(d - now) < halfDay) return time;
  const year = d.getFullYear() === now.getFullYear() ? "" : " " + d.getFullYear();
  return `${d.getDate()} ${months[d.getMonth()]}${year}, ${time}`;
}

// timeEl is clock as an element that holds the exact time.
export function timeEl(at, options) {
  const d = parse(at);
  return d && h("time", { datetime: d.toISOString(), title: d.toLocaleString() }, clock(d, options));
}

// duration says milliseconds as 0.4 s, 1 m 42 s or 3 h 12 m.
export function duration(ms) {
  if (!Number.isFinite(ms) || ms < 0) return "";
  if (ms < 59950) return (ms / 1000).toFixed(1) + " s";
  const s = Math.round(ms / 1000);
  if (s < 3600) return `${Math.floor(s / 60)} m ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} m`;
}

// size says bytes in B, kB or MB of 10^6.
export function size(n) {
  if (n < 1000) return n + " B";
  return n < 1e6 ? (n / 1e3).toFixed(0) + " kB" : (n / 1e6).toFixed(1) + " MB";
}

// money says millionths of a dollar; nothing where the model has no price.
export function money(micros) {
  return micros > 0 ? "$" + (micros / 1e6).toFixed(micros < 10000 ? 3 : 2) : "";
}

// tokens says a count as 18k, and how much of it came from the server's cache.
export function tokens(n, cached) {
  if (!n) return "";
  return shortened(n) + " tokens" + (cached > 0 ? ` (${shortened(cached)} cached)` : "");
}

function shortened(n) {
  if (n < 1000) return String(n);
  return n < 1e6 ? Math.round(n / 1e3) + "k" : (n / 1e6).toFixed(1) + "M";
}

export const count = (n, one, many = one + "s") => `${n} ${n === 1 ? one : many}`;

// nameOf is how a person is named: the API gives a name or an object.
export function nameOf(person) {
  if (!person) return "";
  const name = typeof person === "string" ? person : person.name || person.id || "";
  return name.replace(/^@/, "");
}

// callStates gives each state of a tool call its mark and its words.
export const callStates = {
  pending: { mark: "◦", words: "next" },
  awaiting_approval: { mark: "◦", words: "waits for approval" },
  running: { mark: "▸", words: "running" },
  completed: { mark: "✓", words: "ended" },
  denied: { mark: "⊘", words: "denied" },
  cancelled: { mark: "⊘", words: "stopped" },
  failed: { mark: "✕", words: "failed to start" },
  expired: { mark: "⌛", words: "expired, not run" },
  unknown: { mark: "?", words: "outcome unknown" },
};

// markEl is a state's mark. Few fonts have the hourglass, so it is drawn.
export function markEl(mark) {
  return mark === "⌛" ? [icon("M7 3h10M7 21h10M8 3c0 5 8 6 8 9s-8 4-8 9M16 3c0 5-8 6-8 9s8 4 8 9"), h("span", { class: "sr" }, mark)] : mark;
}

const livenessWords = {
  active: { mark: "●", words: "active" },
  waiting: { mark: "◐", words: "waiting for approval" },
  paused: { mark: "‖", words: "paused" },
  destroyed: { mark: "■", words: "destroyed" },
};

export const liveness = (l) => livenessWords[l] || { mark: "○", words: l || "opening" };

// Characters that draw nothing or change the order of what is drawn: controls
// but newline and tab, zero-width and bidirectional marks, tags, line separators.
const hidden =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb]|[\u{e0000}-\u{e0fff}]/gu;

// In a command, also what looks like a blank and is none, and what changes nothing
// that is seen of the character before it.
const unseen = new RegExp(hidden.source + "|[\\u00a0\\u1680\\u2000-\\u200a\\u202f\\u205f\\u2800\\u3000\\ufe00-\\ufe0e]|(?<=[\\u0000-\\u007f\\p{L}\\p{N}])\\ufe0f", "gu");

const escapeOf = (c) => "\\u{" + c.codePointAt(0).toString(16) + "}";

// visible shows what a text hides: each such character becomes a marked escape,
// so that what is approved is what is seen.
export function visible(text) {
  const out = [];
  let from = 0;
  for (const m of text.matchAll(unseen)) {
    if (m.index > from) out.push(text.slice(from, m.index));
    out.push(h("span", { class: "hidden-char", title: "A character that does not show" }, escapeOf(m[0])));
    from = m.index + m[0].length;
  }
  out.push(text.slice(from));
  return out;
}

// plain removes what visible would mark: for prose, where marks would only be
// noise. It keeps the joiners that emoji and some scripts need.
export function plain(text) {
  return text.replace(hidden, (c) => (c === "\u200d" || c === "\u200c" ? c : ""));
}

const ansi = /\u001b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[PX^_][^\u001b]*(?:\u001b\\)?|[ -/]*[0-~])/g;

// terminalText is what a terminal would leave on its screen of output: no colour
// codes, and of a line that was overwritten its last form.
export function terminalText(text) {
  const lines = text.replace(ansi, "").split("\n").map((line) => {
    let end = line.length;
    while (line[end - 1] === "\r") end--;
    return line.slice(line.lastIndexOf("\r", end - 1) + 1, end);
  });
  return lines.join("\n").replace(hidden, "\ufffd");
}

// lastLines is the end of a text, for a live tail.
export function lastLines(text, n) {
  const lines = text.split("\n");
  while (lines.length && lines[lines.length - 1] === "") lines.pop();
  return lines.slice(-n).join("\n");
}

const stamp = /\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z\b/g;

// withTimes turns the RFC 3339 times of a text into clock times.
export function withTimes(text) {
  const out = [];
  let from = 0;
  for (const m of text.matchAll(stamp)) {
    out.push(text.slice(from, m.index), timeEl(m[0]) || m[0]);
    from = m.index + m[0].length;
  }
  out.push(text.slice(from));
  return out;
}
