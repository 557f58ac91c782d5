// A turn's details: its calls with all that is on record about them, and the way to
// each call's output.
import { articleOf, sendClick, unconfirmed } from "./clicks.js";
import { dialog } from "./dialogs.js";
import { h } from "./dom.js";
import { plain, visible, withTimes } from "./format.js";
import { showOutput } from "./output.js";

// showDetails opens the dialog at once and fills it.
export async function showDetails(app, message) {
  const body = h("div", { class: "dialog-body" }, h("p", { class: "aside", role: "status" }, "Reading what is on record…"));
  const d = dialog({ title: "Details", kind: "wide", back: articleOf(message) }, body);
  try {
    const answer = await sendClick(app, message, "details", {});
    body.replaceChildren(...shown(app, answer), h("div", { class: "dialog-foot" }, h("button", { type: "button", class: "button", "data-close": "" }, "Close")));
    d.el.querySelector(".dialog-foot button").focus();
  } catch (err) {
    body.replaceChildren(h("p", { role: "alert" }, err.status === 401 ? "Your token is no longer valid." : err.sentence || unconfirmed));
  }
}

function shown(app, answer) {
  if (!answer.details?.length) return [h("p", {}, plain(answer.text || ""))];
  return answer.details.map((c) => callEl(app, c));
}

function callEl(app, c) {
  const output = c.ran && h("button", { type: "button", class: "button small", "aria-label": "Output of call " + c.n }, "Output");
  if (output) output.addEventListener("click", () => showOutput(app.client, c.id, () => callOf(app, c), () => output));
  return h("section", { class: "detail", "aria-label": "Call " + c.n },
    h("div", { class: "stream-head" }, h("h3", {}, c.n + ". ", withTimes(plain(c.outcome))), output),
    h("pre", { class: "command", dir: "ltr", tabindex: "0", role: "group", "aria-label": "Command" }, h("code", {}, visible(c.command || ""))),
    (c.facts || []).map((f) => h("p", { class: "aside" }, withTimes(plain(f)))));
}

// callOf is the call as the thread shows it now, or, where its card does not list it
// any more, as it stood in the details.
function callOf(app, c) {
  for (const m of app.current()?.messages.values() || []) for (const k of m.tool_calls || []) if (k.id === c.id) return k;
  return { id: c.id, command: c.command, state: "completed" };
}
