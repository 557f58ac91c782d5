// The standing permissions of a session, each with a way to end it.
import { newID, path } from "./api.js";
import { dialog } from "./dialogs.js";
import { h } from "./dom.js";
import { nameOf, plain, timeEl, visible } from "./format.js";

// showGrants opens the list. Ending a permission is said in the thread, as the
// command that it is.
export function showGrants(app, thread, back) {
  const list = h("div", { class: "grants" }, h("p", { class: "aside" }, "Reading what is allowed."));
  const status = h("p", { class: "aside", role: "status" });
  dialog({ title: "Standing permissions", back }, h("div", { class: "dialog-body" },
    h("p", { class: "aside" }, "Each allows one exact command in this thread until its time is over. Another backend, a fork and a newer policy end it too."),
    list, status, h("div", { class: "dialog-foot" }, h("button", { type: "button", class: "button", "data-close": "" }, "Close"))));
  list.addEventListener("click", (e) => {
    const el = e.target.closest("[data-revoke]");
    if (el && !el.hasAttribute("aria-busy")) revoke(app, thread, el, list, status);
  });
  load(app, thread, list);
}

async function load(app, thread, list) {
  let grants;
  try {
    grants = await app.client.get(path("threads", thread.id, "grants"));
  } catch (err) {
    if (err.status === 401) return app.gate();
    return list.replaceChildren(h("p", { role: "alert" }, err.sentence || "The permissions could not be read."));
  }
  if (!grants.length) return list.replaceChildren(h("p", {}, "None: every risky command is asked about."));
  list.replaceChildren(h("ul", {}, grants.map((g) => h("li", {},
    h("code", { dir: "ltr" }, visible(g.command || "")),
    h("p", { class: "aside" }, "by @", plain(nameOf(g.by)), " · until ", timeEl(g.until)),
    h("button", { type: "button", class: "button small danger", "data-revoke": g.id, "aria-label": "Revoke " + plain(g.id) + ": " + plain(g.command || "") }, "Revoke")))));
}

async function revoke(app, thread, el, list, status) {
  el.setAttribute("aria-busy", "true");
  status.textContent = "";
  try {
    const answer = await app.client.post(path("threads", thread.id, "messages"), { text: "/agent grants revoke " + el.dataset.revoke, client_id: newID() });
    status.textContent = plain(answer.text || "") || "The thread shows what became of it.";
  } catch (err) {
    if (err.status === 401) return app.gate();
    status.textContent = err.sentence || "Not confirmed: the server did not answer.";
  }
  el.removeAttribute("aria-busy");
  await load(app, thread, list);
  if (!el.isConnected) (list.querySelector("button") || list.closest("dialog")?.querySelector(".dialog-foot button"))?.focus();
}
