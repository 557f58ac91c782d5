// The approval card and the line it becomes. The command on it is shown whole and
// with everything in it made visible.
import { h } from "./dom.js";
import { buttons } from "./buttons.js";
import { count, duration, markEl, nameOf, plain, timeEl, visible, withTimes } from "./format.js";

export function approvalBody(m, view) {
  const a = m.approval;
  if (!a) return h("div", { class: "card approval-card" }, h("p", {}, withTimes(plain(m.text || ""))), buttons(m, view));
  const pending = a.state === "pending";
  const mine = concerns(a, view.me);
  return h("div", { class: "card approval-card " + a.state + " " + a.tier + (mine ? " for-me" : "") + (a.broke_glass ? " broke-glass" : "") }, [
    h("header", { class: "approval-head" },
      h("h3", {}, title(a, pending), mine && [" ", h("span", { class: "mine" }, "waits for you")]),
      pending && a.expires_at && h("span", { class: "until" }, "until ", timeEl(a.expires_at))),
    a.backend && h("p", { class: "where" }, where(a)),
    h("pre", { class: "command", dir: "ltr", "data-key": "command" }, h("code", {}, visible(a.command || ""))),
    reasonsEl(a.why),
    evidenceEl(a.evidence),
    pending && a.unknown_run && h("p", { class: "decision" }, mayHaveRun),
    pending ? whoMay(a, view) : null,
    pending && meanwhile(a).map((line) => h("p", { class: "aside" }, line)),
    pending && !a.unknown_run && !hasApprove(m) && h("p", { class: "aside" }, "This cannot be approved from the card: read all of it under Review."),
    !pending && h("p", { class: "decision " + a.state, "data-key": "decision" }, decision(a)),
    a.queued > 0 && pending && h("p", { class: "aside" }, count(a.queued, "message"), a.queued === 1 ? " waits" : " wait", " behind this request."),
    lastRow(m, view),
  ]);
}

const mayHaveRun = "? The worker died while this ran; it may have finished.";

const hasApprove = (m) => (m.buttons || []).some((b) => b.id === "approve");

function title(a, pending) {
  if (a.unknown_run) return "Outcome unknown";
  const words = [pending ? "Approval needed" : "Approval", a.tier, !pending && a.broke_glass && "break-glass"].filter(Boolean);
  if (!pending || !(a.required > 1)) return words.join(" · ");
  const yes = (a.votes || []).filter((v) => v.verdict === "approve");
  return [words.join(" · "), ` · ${yes.length} of ${a.required}`, yes.map((v) => [" · @", plain(nameOf(v.by)), " at ", timeEl(v.at)])];
}

export function where(a) {
  const parts = ["In ", plain(a.backend || "the sandbox")];
  if (a.workspace) parts.push(", workspace ", plain(a.workspace));
  if (a.cwd) parts.push(", directory ", h("code", {}, visible(a.cwd)));
  return [...parts, ":"];
}

// reasonsEl says why. Reasons hold words of the command: of Markdown they get
// code, and nothing else.
export function reasonsEl(reasons) {
  const list = reasons || [];
  if (!list.length) return null;
  if (list.length === 1) return h("p", { class: "why" }, h("b", {}, "Why: "), codeSpans(sentence(list[0].replace(/^segment 1: /, ""))));
  return h("div", { class: "why" }, h("b", {}, "Why:"), h("ul", {}, list.map((r) => h("li", {}, codeSpans(sentence(r))))));
}

const sentence = (text) => (/[.!?…]$/.test(text) ? text : text + ".");

// evidenceEl says what would be lost, as it was when the request was made.
export function evidenceEl(phrases) {
  if (!phrases?.length) return null;
  return h("p", { class: "why evidence" }, h("b", {}, "When asked: "), phrases.map((p, i) => [i ? "; " : "", codeSpans(p)]), ".");
}

function codeSpans(text) {
  const parts = String(text).split(/(`+)/);
  const out = [];
  for (let i = 0; i < parts.length; i++) {
    const end = /^`+$/.test(parts[i]) ? parts.indexOf(parts[i], i + 1) : -1;
    if (end < 0) {
      out.push(visible(parts[i]));
      continue;
    }
    out.push(h("code", {}, visible(parts.slice(i + 1, end).join(""))));
    i = end;
  }
  return out;
}

const among = (list, me) => (list || []).some((p) => nameOf(p) === me || p.id === me);
const listed = (list, me) => (list || []).some((p) => p === "*" || p === me);
const approvalsOf = (a) => (a.votes || []).filter((v) => v.verdict === "approve");

// concerns says whether a request waits for this reader: they may approve, and
// have not yet.
export function concerns(a, me) {
  if (!me || a.state !== "pending") return false;
  if (among(a.requested_by, me) && a.requester_may_approve === false && !a.unknown_run) return false;
  return listed(a.approvers, me) && !approvalsOf(a).some((v) => nameOf(v.by) === me);
}

// mayBreakGlass says whether this reader may approve alone, and would have to: where
// their ordinary vote decides there is no glass to break.
export function mayBreakGlass(a, me) {
  if (!me || a.state !== "pending" || a.unknown_run || !listed(a.break_glass, me)) return false;
  return !concerns(a, me) || approvalsOf(a).length + 1 < (a.required || 1);
}

function whoMay(a, view) {
  const by = (a.requested_by || []).map((p) => "@" + plain(nameOf(p)));
  const mine = among(a.requested_by, view.me);
  const others = a.requester_may_approve === false && by.length && a.approvers?.length === 1 && a.approvers[0] === "*";
  const may = others ? ["everybody but who asked"] : (a.approvers || []).map((p) => (p === "*" ? "everybody" : "@" + plain(nameOf(p))));
  const text = [by.length && `Asked for by ${by.join(", ")}’s session. `, may.length ? `May approve: ${may.join(", ")}. ` : a.approvers && "Nobody may approve it here: no approvers are set. "];
  const own = mine && a.requester_may_approve === false && !a.unknown_run && "You asked for this, so your own approval does not count.";
  if (!by.length && !may.length && !own) return null;
  return h("p", { class: "aside" }, text, own);
}

// meanwhile is what has happened to a request since it was made.
function meanwhile(a) {
  const lines = [];
  if (a.edited_by) lines.push(["✎ Changed by @", plain(nameOf(a.edited_by)), "; it was: ", h("code", { dir: "ltr" }, visible(a.original || ""))]);
  if (a.widened) lines.push("Nobody answered in time, so more people may approve now.");
  if (a.remark) lines.push(plain(a.remark));
  return lines;
}

// decision is the one line that the buttons become: the server's, else ours.
export function decision(a) {
  if (a.outcome) return a.outcome.startsWith("⌛") ? [markEl("⌛"), withTimes(plain(a.outcome.slice(1)))] : withTimes(plain(a.outcome));
  const last = (a.votes || []).at(-1) || {};
  const by = last.by ? [" by @", plain(nameOf(last.by))] : "";
  const at = last.at || a.decided_at ? [" at ", timeEl(last.at || a.decided_at)] : "";
  const reason = plain(last.reason || "");
  switch (a.state) {
    case "approved":
      if (a.call_state === "unknown") return mayHaveRun;
      return [a.unknown_run ? "✓ Run again" : "✓ Approved", approvedBy(a) || by, at, result(a)];
    case "denied":
      if (a.unknown_run) return ["⊘ Left as it is", by, at, "."];
      if (/change/.test(last.verdict || "")) return ["↺ Changes asked for", by, ": ", plain(a.text || "") || reason];
      return ["⊘ Denied", by, at, reason && ": " + reason];
    case "expired":
      return [markEl("⌛"), " Nobody decided by ", timeEl(a.expires_at), ": not run."];
    case "withdrawn":
      return ["⊘ Withdrawn", by, at, ": not run."];
    case "changed":
      return "⊘ What was to run has changed since it was shown: not run.";
  }
  return plain(a.state || "");
}

function approvedBy(a) {
  const names = (a.votes || []).filter((v) => v.verdict === "approve").map((v) => "@" + plain(nameOf(v.by)));
  return names.length ? " by " + names.join(" and ") : "";
}

function result(a) {
  const parts = [];
  if (a.call_state === "running") parts.push(" · running");
  if (a.exit_code !== undefined && a.exit_code !== null) parts.push(" · exit " + a.exit_code);
  if (a.duration_ms > 0) parts.push(" · " + duration(a.duration_ms));
  return parts;
}

// lastRow is the card's buttons; where an outcome is unknown the way to what was
// written before the worker died; where a command was changed the way to what it
// was.
function lastRow(m, view) {
  const a = m.approval;
  const look = (a.unknown_run || a.call_state === "unknown") && a.call_id &&
    h("button", { type: "button", class: "button", "data-action": "output", "data-call": a.call_id }, "Look at the output");
  const reread = a.state !== "pending" && a.edited_by && h("button", { type: "button", class: "button", "data-action": "click", "data-button": "review" }, "Review…");
  const own = buttons(m, view);
  return look || reread || own ? h("div", { class: "row" }, look, reread, own) : null;
}
