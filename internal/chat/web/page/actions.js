// What each button does.
import { click } from "./clicks.js";
import { showDetails } from "./details.js";
import { ask, toast } from "./dialogs.js";
import { h } from "./dom.js";
import { nameOf } from "./format.js";
import { showGrants } from "./grants.js";
import { showOutput } from "./output.js";
import { deny, review, runAgain } from "./review.js";

// act does what the element with this action says.
export function act(app, action, el, event) {
  const message = app.current()?.messages.get(el.closest("[data-message]")?.dataset.message);
  const actions = {
    click: () => message && press(app, message, el, event),
    output: () => openOutput(app, el.dataset.call),
    unfold: () => unfold(app, message),
    download: () => message?.file && download(app, message),
    copy: () => copy(el),
    jump: () => app.threadView?.toEnd(),
    retry: () => app.stream?.retryNow(),
    reload: () => app.refresh(),
    menu: () => openMenu(app, el),
    "open-side": () => openSide(app),
    "close-side": () => app.showSide(false),
    anew: () => startAnew(app, app.s.thread),
    "act-as": () => chooseName(app),
    example: () => app.composer.set(el.dataset.text),
    "as-task": () => {
      app.composer.set("/agent " + app.composer.field.value);
      app.composer.submit();
    },
    resend: () => withPending(app, el, (thread, p) => app.deliver(thread, p)),
    unsend: () => withPending(app, el, (thread, p) => takeBack(app, thread, p)),
  };
  actions[action]?.();
}

function openSide(app) {
  app.showSide(true);
  app.nav.querySelector("button, a")?.focus();
}

// download saves the file that a message shows.
async function download(app, message) {
  try {
    const res = await app.client.fetch(`/messages/${message.id}/file`);
    const url = URL.createObjectURL(await res.blob());
    h("a", { href: url, download: message.file.name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  } catch (err) {
    toast(err.sentence || "The file could not be saved.", { kind: "error" });
  }
}

function unfold(app, message) {
  const set = app.view.unfolded;
  if (!set.delete(message.id)) set.add(message.id);
  app.schedule();
}

async function copy(el) {
  const code = el.closest(".code").querySelector("code").textContent;
  try {
    await navigator.clipboard.writeText(code);
    el.textContent = "Copied";
  } catch {
    el.textContent = "Not copied";
  }
  setTimeout(() => (el.textContent = "Copy"), 2000);
}

function withPending(app, el, then) {
  const thread = app.s.thread;
  const p = thread?.pending.find((x) => x.clientID === el.closest("[data-pending]").dataset.pending);
  if (p) then(thread, p);
}

function takeBack(app, thread, p) {
  thread.pending = thread.pending.filter((x) => x.clientID !== p.clientID);
  // What may have arrived is not written twice.
  if (!p.unsure && !app.composer.field.value) {
    app.composer.set(p.text);
    if (p.files.length) app.composer.files?.put(p.files);
  }
  app.schedule();
}

// press handles one of a message's own buttons.
function press(app, message, el, event) {
  if (app.view.busy.has(message.id)) return;
  const button = el.dataset.button;
  if ((button === "approve" || button === "grant") && event.detail > 0 && app.threadView?.justMoved()) {
    toast("The page moved just then. Look again, and click once more.", { kind: "info" });
    return;
  }
  if (button === "deny") return deny(app, message);
  if (button === "details") return showDetails(app, message);
  if (button === "review") return review(app, message);
  if (button === "run_again") return runAgain(app, message);
  return click(app, message, button, el.dataset.digest ? { digest: el.dataset.digest } : {});
}

function openOutput(app, id) {
  const client = app.client;
  const thread = app.current();
  const current = () => {
    for (const m of thread?.messages.values() || []) for (const c of m.tool_calls || []) if (c.id === id) return c;
    return null;
  };
  showOutput(client, id, current, () => app.composer.field);
}

// menuFor lists what the session's menu offers: [label, text, sends at once]. Of
// commands only those that the server lists, where it does.
function menuFor(thread, commands) {
  const known = commands && new Set(commands.map((c) => c.name));
  return menuItems(thread).filter(([, text]) => !known || !text.startsWith("/agent ") || known.has(text.split(" ")[1]));
}

function menuItems(thread) {
  if (thread.info.liveness === "destroyed") return [["Start anew from this…", `/agent new --from ${thread.id}`, "anew"], ["History", "/agent history", true]];
  return [
    ["Status", "/agent status", true], ["Stop the turn", "/agent stop", true], ["Fork…", "/agent fork ", false], ["Switch backend…", "/agent switch ", false],
    ["Rename…", '/agent title "', false], ["Change model…", "/agent model ", false], ["Pause", "/agent pause", true], ["Grants…", "/agent grants", "grants"],
    ["Files", "/agent files", true], ...(thread.info.workspace_path ? [["Copy the workspace’s path", thread.info.workspace_path, "copy"]] : []), ["Destroy…", "/agent destroy", true],
  ];
}

function openMenu(app, opener) {
  document.querySelector(".menu")?.remove();
  if (opener.getAttribute("aria-expanded") === "true") return opener.setAttribute("aria-expanded", "false");
  const thread = app.s.thread;
  const items = menuFor(thread, app.s.meta.commands);
  const menu = h("div", { class: "menu", role: "menu", "aria-label": "Session menu" }, items.map(([label]) => h("button", { type: "button", role: "menuitem", tabindex: "-1" }, label)));
  let open = true;
  const close = (focus) => {
    if (!open) return;
    open = false;
    menu.remove();
    opener.setAttribute("aria-expanded", "false");
    if (focus) opener.focus();
  };
  menu.addEventListener("click", (e) => {
    const at = [...menu.children].indexOf(e.target.closest("button"));
    if (at < 0) return;
    close(true);
    choose(app, thread, items[at]);
  });
  menu.addEventListener("keydown", (e) => menuKey(menu, e, close));
  menu.addEventListener("focusout", (e) => !menu.contains(e.relatedTarget) && close(false));
  app.threadView.head.after(menu);
  opener.setAttribute("aria-expanded", "true");
  menu.firstChild.focus();
}

function menuKey(menu, e, close) {
  const all = [...menu.children];
  const at = all.indexOf(document.activeElement);
  const to = { ArrowDown: (at + 1) % all.length, ArrowUp: (at - 1 + all.length) % all.length, Home: 0, End: all.length - 1 }[e.key];
  if (to !== undefined) all[to].focus();
  else if (e.key === "Escape") close(true);
  else return;
  e.preventDefault();
}

function choose(app, thread, [, text, how]) {
  if (how === true) return app.reply(thread, text);
  if (how === "copy") return navigator.clipboard?.writeText(text).then(() => toast("Copied: " + text), () => toast(text, { kind: "info" }));
  if (how === "grants") return showGrants(app, thread, () => app.threadView?.head.querySelector("[data-action=menu]"));
  if (how === "anew") return startAnew(app, thread);
  app.composer.set(text);
  app.composer.suggest();
}

// startAnew leaves the command for a new session from this one's files in the
// channel's field.
function startAnew(app, thread) {
  history.pushState(null, "", "#/c/" + encodeURIComponent(app.s.channel));
  app.route();
  app.composer.set("/agent new --from " + thread.id);
}

// What the server takes for a name.
const nameForm = /^[\p{L}\p{N}][\p{L}\p{N}._-]{0,31}$/u;

async function chooseName(app) {
  const seen = new Set((app.s.meta.people || []).map(nameOf));
  for (const m of app.current()?.messages.values() || []) if (m.kind === "user") seen.add(nameOf(m.author));
  const others = [...seen].filter((n) => n && n !== app.view.me).slice(0, 8);
  const name = await ask({
    title: "Act as", label: "Name", submit: "Speak as this person", multiline: false, value: app.s.me, back: () => app.nav.querySelector("button.person"),
    text: "For trying things out: this tab speaks as whoever you name. Other tabs stay as they are." + (others.length ? ` Known here: ${others.join(", ")}.` : ""),
    check: (v) => (nameForm.test(v.trim()) ? "" : "Use letters, digits, dots, hyphens and underscores, at most 32."),
  });
  if (name !== undefined && name.trim() !== app.s.me) app.actAs(name.trim());
}
