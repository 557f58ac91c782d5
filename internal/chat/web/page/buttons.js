// The buttons of a message.

import { h } from "./dom.js";
import { plain } from "./format.js";

// buttons are a message's own, in its order.
export function buttons(m, view, only) {
  const list = (m.buttons || []).filter((b) => !only || only(b));
  if (!list.length) return null;
  const busy = view.busy.get(m.id);
  return h("div", { class: "buttons", "data-key": "buttons" }, list.map((b) => h("button", {
    type: "button", "data-key": b.id, "data-action": "click", "data-button": b.id, class: look(b.id),
    "data-digest": m.approval?.digest || null, "aria-disabled": busy ? "true" : null, "aria-busy": busy === b.id ? "true" : null,
  }, plain(b.label || b.id))));
}

function look(id) {
  if (id === "approve") return "button primary";
  return id === "destroy" || id === "run_again" ? "button danger" : "button";
}
