// What each button does.
import { path } from "./api.js";
import { ask, dialog, toast } from "./dialogs.js";
import { h } from "./dom.js";
import { decision, reasonsEl, where } from "./approval.js";
import { nameOf, plain, timeEl, visible } from "./format.js";
import { showOutput } from "./output.js";

// After this long a click's answer no longer comes: the server gives up after 20 s.
const clickTimeout = 22_000;
const unconfirmed = "Not confirmed: the server did not answer in time. If your click was recorded, the card shows it; else click again.";

// act does what the element with this action says.
export function act(app, action, el, event) {
  const message = app.current()?.messages.get(el.closest("[data-message]")?.dataset.message);
  const actions = {
    click: () => message && press(app, message, el, event),
    output: () => openOutput(app, el.dataset.call),
    unfold: () => unfold(app, message),
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
  if (!p.unsure && !app.composer.field.value) app.composer.set(p.text);
  app.schedule();
}

// press handles one of a message's own buttons.
function press(app, message, el, event) {
  if (app.view.busy.has(message.id)) return;
  const button = el.dataset.button;
  if (button === "approve" && event.detail > 0 && app.threadView?.justMoved()) {
    toast("The page moved just then. Look again, and click once more.", { kind: "info" });
    return;
  }
  if (button === "deny") return deny(app, message);
  if (button === "review") return review(app, message);
  if (button === "run_again") return runAgain(app, message);
  return click(app, message, button, el.dataset.digest ? { digest: el.dataset.digest } : {});
}

// click sends a click and tells the clicker what became of it.
async function click(app, message, button, values = {}) {
  app.view.busy.set(message.id, button);
  app.schedule();
  let answer;
  try {
    answer = await app.client.post(path("messages", message.id, "click"), { button, values }, clickTimeout);
    tellOutcome(answer);
  } catch (err) {
    if (err.status === 401) app.gate();
    else toast(err.status > 0 && err.status < 500 ? err.sentence : unconfirmed, { kind: "bad" });
  }
  app.view.busy.delete(message.id);
  app.schedule();
  return answer;
}

const outcomes = {
  recorded: "Recorded.",
  not_yours: "Your click does not count here.",
  already_decided: "Somebody has already decided this.",
  expired: "This has expired.",
  changed: "The command has changed since; look at the new request below.",
  unconfirmed,
};

function tellOutcome(answer) {
  const ok = answer.outcome === "recorded";
  toast(plain(answer.text || "") || outcomes[answer.outcome] || "The server answered: " + answer.outcome, { kind: ok ? "ok" : "bad" });
}

const articleOf = (message) => () => document.getElementById("m-" + message.id);

async function deny(app, message) {
  const reason = await ask({
    title: "Deny this", label: "Reason (everybody in the thread and the agent see it)", submit: "Deny", danger: true, back: articleOf(message),
    text: "The command will not run. The agent is told why and goes on from there.",
  });
  if (reason !== undefined) click(app, message, "deny", { reason: reason.trim() });
}

async function runAgain(app, message) {
  const body = h("div", { class: "dialog-body" }, h("p", {}, "It may have finished the first time. Run it again only if doing it twice does no harm."));
  const d = dialog({ title: "Run it again?", back: articleOf(message) }, body);
  const go = h("button", { type: "button", class: "button danger" }, "Run again");
  body.append(h("div", { class: "dialog-foot" }, h("button", { type: "button", class: "button", "data-close": "" }, "Cancel"), go));
  go.addEventListener("click", () => d.close(true));
  if (await d.closed) click(app, message, "run_again", {});
}

// review shows everything that an approval binds. What is approved from here is
// what was shown here, by its digest.
async function review(app, message) {
  const a = message.approval || {};
  const body = h("div", { class: "dialog-body" }, h("p", { class: "aside", role: "status" }, "Reading what would run."));
  const d = dialog({ title: "Review", kind: "wide", back: articleOf(message) }, body);
  let answer;
  try {
    answer = await app.client.post(path("messages", message.id, "click"), { button: "review", values: {} }, clickTimeout);
  } catch (err) {
    body.replaceChildren(h("p", { role: "alert" }, err.status === 401 ? "Your token is no longer valid." : err.sentence || unconfirmed), closeFoot());
    return;
  }
  if (answer.outcome !== "recorded") {
    body.replaceChildren(h("p", { role: "alert" }, plain(answer.text || outcomes[answer.outcome] || "")), closeFoot());
    return;
  }
  fillReview(app, message, a, answer, d, body);
}

const closeFoot = () => h("div", { class: "dialog-foot" }, h("button", { type: "button", class: "button", "data-close": "" }, "Close"));

function fillReview(app, message, a, answer, d, body) {
  const digest = answer.review?.digest || answer.digest || a.digest;
  const foot = h("div", { class: "dialog-foot" });
  body.replaceChildren(...reviewContent(a, answer), h("p", { class: "digest" }, "Digest ", h("code", {}, digest || "none")), foot);
  const no = h("button", { type: "button", class: "button" }, "Deny…");
  const yes = h("button", { type: "button", class: "button primary" }, "Approve what is shown");
  no.addEventListener("click", () => {
    d.close();
    deny(app, message);
  });
  yes.addEventListener("click", () => {
    d.close();
    click(app, message, "approve", { digest });
  });
  const refresh = () => reviewFoot(app, message, digest, foot, [no, yes]);
  refresh();
  const timer = setInterval(refresh, 500);
  d.closed.then(() => clearInterval(timer));
}

// reviewFoot follows the card while the dialog is open: what somebody else has
// decided, or what has changed, can no longer be approved here.
function reviewFoot(app, message, digest, foot, choices) {
  const now = app.current()?.messages.get(message.id)?.approval || {};
  const state = now.state + " " + (now.digest === digest);
  if (foot.dataset.state === state) return;
  foot.dataset.state = state;
  const close = h("button", { type: "button", class: "button", "data-close": "" }, "Close");
  if (now.state === "pending" && now.digest === digest) foot.replaceChildren(close, ...choices);
  else foot.replaceChildren(h("p", { class: "decision", role: "alert" }, now.state === "pending" ? outcomes.changed : decision(now)), close);
}

function reviewContent(a, answer) {
  const r = answer.review;
  const pre = (text, label) => h("pre", { class: "command", dir: "ltr", tabindex: "0", role: "group", "aria-label": label }, h("code", {}, visible(text)));
  const section = (title, ...content) => h("section", {}, h("h3", {}, title), content);
  const facts = h("p", { class: "where" }, where({ ...a, ...(r || {}) }));
  if (!r) return [facts, reasonsEl(a.reasons), pre(answer.text || a.command || "", "All that would run")];
  return [
    facts, pre(r.command || a.command || "", "Command"), reasonsEl(r.reasons || a.reasons),
    r.env?.length ? section("Environment changes", pre(r.env.join("\n"), "Environment changes")) : null,
    (r.files || []).map((f) => section(f.path, pre(f.text || "", f.path))),
    (r.notes || []).map((n) => h("p", { class: "aside" }, plain(n))),
    a.expires_at && h("p", { class: "aside" }, "Until ", timeEl(a.expires_at), "."),
  ].flat().filter(Boolean);
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
    ["Rename…", '/agent title "', false], ["Change model…", "/agent model ", false], ["Pause", "/agent pause", true], ["Grants", "/agent grants", true],
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

// CONTRACT.md: names come in a header, so they are plain.
const nameForm = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

async function chooseName(app) {
  const seen = new Set((app.s.meta.people || []).map(nameOf));
  for (const m of app.current()?.messages.values() || []) if (m.kind === "user") seen.add(nameOf(m.author));
  const others = [...seen].filter((n) => n && n !== app.view.me).slice(0, 8);
  const name = await ask({
    title: "Act as", label: "Name", submit: "Speak as this person", multiline: false, value: app.s.me, back: () => app.nav.querySelector("button.person"),
    text: "For trying things out: this tab speaks as whoever you name. Other tabs stay as they are." + (others.length ? ` Known here: ${others.join(", ")}.` : ""),
    check: (v) => (nameForm.test(v.trim()) ? "" : "Use letters, digits, dots, hyphens and underscores."),
  });
  if (name !== undefined && name.trim() !== app.s.me) app.actAs(name.trim());
}
