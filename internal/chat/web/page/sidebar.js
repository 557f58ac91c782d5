// The left side: channels, sessions as a tree by fork, who speaks, and whether
// the page is connected.
import { h, icon, morph } from "./dom.js";
import { liveness, plain } from "./format.js";

// renderSidebar patches nav. s is the page's state.
export function renderSidebar(nav, s) {
  morph(nav, h("nav", { id: "side", "aria-label": "Sessions" }, [
    h("div", { class: "brand" }, h("img", { src: "icon.svg", alt: "", width: "24", height: "24" }), h("span", {}, "Countersign"),
      h("button", { type: "button", class: "quiet only-small", "data-action": "close-side", "aria-label": "Close the list of sessions" }, icon("M6 6l12 12M18 6L6 18"))),
    h("ul", { class: "channels", "aria-label": "Channels" }, s.channels.map((c) => channelItem(c, s))),
    h("h2", { class: "side-title" }, "Sessions"),
    h("div", { class: "sessions" }, s.threads.length ? tree(s) : h("p", { class: "aside" }, s.threadsLoaded ? "None yet." : "Loading.")),
    h("div", { class: "side-foot" }, connection(s), person(s)),
  ]));
}

function channelItem(c, s) {
  const here = !s.thread && s.channel === c.id;
  return h("li", { "data-key": c.id }, h("a", { href: "#/c/" + encodeURIComponent(c.id), class: "channel", "aria-current": here ? "page" : null },
    h("span", { class: "hash", "aria-hidden": "true" }, "#"), plain(c.title || c.id)));
}

// tree puts each session below the one that it was forked from.
function tree(s) {
  const known = new Map();
  for (const t of s.threads) {
    known.set(t.id, t);
    if (t.workflow_id) known.set(t.workflow_id, t);
  }
  const kids = new Map();
  const roots = [];
  for (const t of s.threads) {
    const parent = t.parent && known.get(t.parent);
    if (!parent || parent === t) roots.push(t);
    else kids.set(parent.id, [...(kids.get(parent.id) || []), t]);
  }
  const seen = new Set();
  const branch = (list, depth) => h("ul", { class: depth ? "forks" : "tree", "aria-label": depth ? "Forks" : null }, list.filter((t) => !seen.has(t.id) && seen.add(t.id)).map((t) =>
    h("li", { "data-key": t.id }, sessionLink(t, s), kids.has(t.id) && depth < 12 ? branch(kids.get(t.id), depth + 1) : null)));
  return branch(roots, 0);
}

function sessionLink(t, s) {
  const { mark, words } = liveness(t.liveness);
  const unread = s.unread.has(t.id);
  return h("a", { href: "#/t/" + encodeURIComponent(t.id), class: "session " + (t.liveness || "") + (unread ? " unread" : ""), "aria-current": s.thread?.id === t.id ? "page" : null },
    h("span", { class: "mark", "aria-hidden": "true" }, mark),
    h("span", { class: "session-text" },
      h("span", { class: "session-title", dir: "auto" }, plain(t.title || "untitled")),
      h("span", { class: "session-sub" }, [t.backend, words].filter(Boolean).join(" · "))),
    unread && h("span", { class: "unread-dot" }, h("span", { class: "sr" }, "new messages")));
}

function connection(s) {
  const words = { open: "Connected", connecting: "Connecting", waiting: "Not connected" }[s.connection] || "";
  return h("p", { class: "connection " + s.connection }, h("span", { class: "lamp", "aria-hidden": "true" }), words);
}

function person(s) {
  const name = s.me || s.meta.you || "";
  if (s.meta.act_as === false) return name && h("p", { class: "person" }, "You are ", h("b", {}, plain(name)), ".");
  return h("button", { type: "button", class: "person", "data-action": "act-as", "aria-haspopup": "dialog" },
    h("span", { class: "avatar small", "aria-hidden": "true" }, (plain(name) || "?").slice(0, 1).toUpperCase()),
    h("span", { class: "person-text" }, h("span", { class: "session-sub" }, "Acting as"), h("b", {}, plain(name) || "the default person")),
    icon("M8 9l4-4 4 4M8 15l4 4 4-4"));
}
