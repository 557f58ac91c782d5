// The page's state and what people do with it. Everything shown is derived from
// the state; every click arrives at one listener.
import { ApiError, Client, EventStream, newID, path } from "./api.js";
import { act } from "./actions.js";
import { Attachments } from "./attach.js";
import { Composer } from "./composer.js";
import { announce, toast } from "./dialogs.js";
import { h } from "./dom.js";
import { liveness, nameOf, plain } from "./format.js";
import { gateForm } from "./gate.js";
import { markdown } from "./markdown.js";
import { renderSidebar } from "./sidebar.js";
import { insert, merge, mergeAll, newThread, settle } from "./state.js";
import { ThreadView } from "./thread.js";

const tokenKey = "countersign.token";
const goneMessage = "The link’s token is missing or no longer valid. Open the link that Countersign printed when it started, or paste its token here.";

class App {
  constructor() {
    this.main = document.getElementById("main");
    this.nav = document.getElementById("side");
    this.openedAt = Date.now();
    this.events = 0;
    this.drafts = new Map();
    this.view = { unfolded: new Set(), busy: new Map(), me: "" };
    this.s = { me: "", meta: {}, channels: [], channel: "general", talk: null, thread: null, threads: [], threadsLoaded: false, unread: new Set(), connection: "connecting" };
  }

  // start reads who and with which token from the address, and goes on from there.
  start() {
    this.takeToken();
    this.s.me = new URLSearchParams(location.search).get("as") || "";
    this.listen();
    if (this.token) this.connect();
    else this.gate();
  }

  // takeToken moves a token from the address into the tab's own storage.
  takeToken() {
    const params = new URLSearchParams(location.hash.slice(1));
    const given = params.get("token");
    if (given) {
      sessionStorage.setItem(tokenKey, given);
      const thread = params.get("thread");
      history.replaceState(null, "", location.pathname + location.search + (thread ? "#/t/" + encodeURIComponent(thread) : ""));
    }
    this.token = sessionStorage.getItem(tokenKey) || "";
    return Boolean(given);
  }

  listen() {
    document.addEventListener("click", (e) => this.clicked(e));
    addEventListener("hashchange", () => (this.takeToken() ? this.connect() : this.route()));
    addEventListener("online", () => this.stream?.retryNow());
    document.addEventListener("visibilitychange", () => this.visibility());
    // Wherever on the page files are dropped, the browser would leave the page for them.
    document.addEventListener("dragover", (e) => e.dataTransfer?.types.includes("Files") && e.preventDefault());
    document.addEventListener("drop", (e) => this.dropped(e));
    document.addEventListener("keydown", (e) => {
      if (e.key === "Escape" && document.body.classList.contains("side-open")) this.showSide(false);
    });
    document.getElementById("skip").addEventListener("click", (e) => {
      e.preventDefault();
      this.main.focus();
    });
  }

  dropped(e) {
    if (!e.dataTransfer?.files.length) return;
    e.preventDefault();
    if (!document.body.classList.contains("gated") && !document.querySelector("dialog[open]")) this.composer?.attach(e.dataTransfer.files);
  }

  // draftFiles are the files of a place's draft, null where the server takes none.
  draftFiles(place) {
    const limits = this.s.meta.attach;
    if (limits && !this.drafts.has(place)) this.drafts.set(place, new Attachments(() => this.client, limits));
    return this.drafts.get(place) || null;
  }

  // gate asks for the token.
  gate(message = goneMessage) {
    this.stream?.stop();
    this.threadView = null;
    this.nav.replaceChildren();
    document.body.classList.add("gated");
    gateForm(this.main, message, (token) => {
      this.token = token;
      sessionStorage.setItem(tokenKey, token);
      this.connect();
    });
    document.title = "Countersign";
  }

  // connect learns what the server offers, shows the page and follows the events.
  async connect() {
    const mine = (this.connecting = (this.connecting || 0) + 1);
    this.stream?.stop();
    this.client = new Client(this.token, this.s.me);
    for (let delay = 500; mine === this.connecting; delay = Math.min(delay * 2, 10_000)) {
      try {
        [this.s.meta, this.s.channels] = await Promise.all([this.optional("/meta", {}), this.optional("/channels", [])]);
        break;
      } catch (err) {
        if (err.status === 401) return this.gate();
        if (this.s.me && (err.code === "bad_person" || err.code === "act_as_off")) return this.speakForNobody(err);
        this.main.replaceChildren(h("p", { class: "boot", role: "alert" }, "The server cannot be reached. Trying again on its own; nothing is lost."));
        await new Promise((resolve) => setTimeout(resolve, delay));
      }
    }
    if (mine !== this.connecting) return;
    this.adopt();
    document.body.classList.remove("gated");
    this.route();
    this.follow();
  }

  // speakForNobody goes on as who the token is for, where the address names somebody
  // that the server does not take.
  speakForNobody(err) {
    toast(`Nobody can speak here as “${plain(this.s.me)}”. ${err.code === "bad_person" ? err.hint : "The token says who you are."}`, { kind: "info" });
    this.actAs("");
  }

  // optional is a GET whose absence on an older server is no fault.
  async optional(url, otherwise) {
    try {
      return await this.client.get(url);
    } catch (err) {
      if (err.status === 404 || err.status === 405) return otherwise;
      throw err;
    }
  }

  adopt() {
    const s = this.s;
    const named = (list) => (list || []).map((x) => (typeof x === "string" ? { name: x } : { ...x, name: x.name || x.id }));
    s.meta.backends = named(s.meta.backends || ["local"]);
    s.meta.models = named(s.meta.models);
    s.channels = (s.channels || []).map((c) => (typeof c === "string" ? { id: c } : c));
    if (!s.channels.length) s.channels = [{ id: "general" }];
    if (!s.channels.some((c) => c.id === s.channel)) s.channel = s.channels[0].id;
    this.view.me = nameOf(s.me || s.meta.you);
  }

  follow() {
    this.stream = new EventStream(this.client, {
      message: (m) => this.received(m),
      open: () => this.refresh(),
      state: (state) => this.connectionIs(state),
      denied: () => this.gate(),
      lost: () => this.optional("/meta", {}).then((meta) => meta.last_event ?? null, () => null),
    });
    this.stream.start(this.s.meta.last_event);
  }

  connectionIs(state) {
    this.s.connection = state;
    clearTimeout(this.bannerTimer);
    if (state === "open") document.getElementById("banner")?.remove();
    else this.bannerTimer = setTimeout(() => this.banner(), 1500);
    this.renderSide();
  }

  // banner says plainly that the page shows old things.
  banner() {
    if (document.getElementById("banner") || document.body.classList.contains("gated")) return;
    this.main.before(h("div", { id: "banner", role: "alert" }, h("p", {}, "Not connected to the server. What you see may be old. The page tries again on its own, and sessions go on without it."),
      h("button", { type: "button", class: "button small", "data-action": "retry" }, "Try now")));
  }

  // refresh reads list and thread again: after each (re)connection.
  refresh() {
    this.loadThreads();
    this.loadThread(this.current());
  }

  // current is the thread that is shown, or the channel's own messages.
  current() {
    return this.s.thread || this.s.talk;
  }

  async loadThreads() {
    clearTimeout(this.listTimer);
    this.listTimer = null;
    const channel = this.s.channel;
    try {
      const threads = await this.client.get(path("channels", channel, "threads"));
      if (channel !== this.s.channel) return;
      this.s.threads = threads || [];
      this.s.threadsLoaded = true;
      const open = this.s.thread && this.s.threads.find((t) => t.id === this.s.thread.id);
      if (open) Object.assign(this.s.thread.info, open);
    } catch (err) {
      if (err.status === 401) return this.gate();
    }
    this.renderSide();
    this.schedule();
  }

  // listSoon reads the list again, at most about three times a second.
  listSoon() {
    this.listTimer ??= setTimeout(() => {
      this.loadThreads();
      if (!this.s.thread) this.loadThread(this.s.talk);
    }, 300);
  }

  // loadThread reads a thread whole and merges it with what events brought since.
  async loadThread(thread) {
    if (!thread) return;
    const since = this.events;
    let got;
    try {
      got = thread.isChannel ? { messages: await this.optional(path("channels", thread.id, "messages"), []) } : await this.client.get(path("threads", thread.id));
    } catch (err) {
      if (err.status === 401) return this.gate();
      return this.loadFailed(thread, err);
    }
    const { messages, ...info } = got;
    Object.assign(thread.info, info);
    mergeAll(thread, messages || [], since, this.events);
    thread.state = "loaded";
    thread.failure = "";
    settle(thread, this.view.me);
    this.schedule();
  }

  // loadFailed: a thread that was just started may not be readable yet.
  loadFailed(thread, err) {
    if (err.status === 404 && Date.now() - thread.openedAt < 10_000 && thread === this.s.thread) {
      thread.state = "opening";
      setTimeout(() => thread === this.s.thread && this.loadThread(thread), 500);
    } else if (err.status === 404) {
      thread.state = "missing";
      thread.info.title ||= "No such session";
    } else {
      thread.failure = err.sentence || "The conversation could not be read.";
      if (thread.state === "loading") thread.state = "failed";
    }
    this.schedule();
  }

  // received takes a message from the stream.
  received(m) {
    this.events++;
    if (!m || !m.id || !m.thread_id) return;
    const fresh = Date.parse(m.at) > this.openedAt - 5000;
    const s = this.s;
    if (s.thread?.id === m.thread_id) {
      const known = s.thread.messages.has(m.id);
      if (!merge(s.thread, m, this.events)) return;
      if (!known && !m.deleted) {
        insert(s.thread, m);
        if (fresh) this.tell(m);
      }
      settle(s.thread, this.view.me);
      this.schedule(known || m.deleted ? 0 : 1);
    } else if (fresh && !m.deleted && m.kind !== "header" && m.kind !== "user") {
      s.unread.add(m.thread_id);
    }
    if (m.kind === "header" || m.kind === "approval" || !s.threads.some((t) => t.id === m.thread_id)) this.listSoon();
    else if (!s.thread || s.thread.id !== m.thread_id) this.renderSide();
  }

  // tell says to a screen reader what came; edits are not said.
  tell(m) {
    const short = (text) => plain(String(text || "")).replace(/\s+/g, " ").slice(0, 200);
    if (m.kind === "approval") announce("Approval needed: " + short(m.approval?.command || m.text));
    else if (m.kind === "answer") announce("Answer: " + short(m.text));
    else if (m.kind === "notice") announce(short(m.text));
    else if (m.kind === "turn") announce("The agent works.");
    else if (m.kind === "user" && nameOf(m.author) !== this.view.me) announce(`Message from ${nameOf(m.author)}: ${short(m.text)}`);
  }

  schedule(added = 0) {
    this.added = (this.added || 0) + added;
    if (this.frame) return;
    this.frame = true;
    queueFrame(() => {
      this.frame = false;
      const n = this.added;
      this.added = 0;
      this.threadView?.render(this.view, n);
      this.retitle();
    });
  }

  renderSide() {
    if (this.sideFrame) return;
    this.sideFrame = true;
    queueFrame(() => {
      this.sideFrame = false;
      if (!document.body.classList.contains("gated")) renderSidebar(this.nav, this.s);
      this.retitle();
    });
  }

  retitle() {
    const waiting = this.s.threads.filter((t) => t.liveness === "waiting").length;
    const name = this.s.thread ? plain(this.s.thread.info.title || "Session") : "#" + this.s.channel;
    document.title = (waiting ? `(${waiting} ${liveness("waiting").mark}) ` : "") + name + " · Countersign";
  }

  // route shows what the address says.
  route() {
    const [, kind, id] = /^#\/([ct])\/([^/]+)/.exec(location.hash) || [];
    this.showSide(false);
    if (kind === "t") this.openThread(decode(id));
    else this.openChannel(kind === "c" ? decode(id) : this.s.channel);
    this.renderSide();
  }

  openChannel(id) {
    const known = this.s.channels.find((c) => c.id === id) || this.s.channels[0];
    if (known.id !== this.s.channel) {
      Object.assign(this.s, { channel: known.id, threads: [], threadsLoaded: false });
      this.loadThreads();
    }
    this.s.thread = null;
    this.s.talk = newThread(known.id, { id: known.id }, true);
    this.composer = new Composer({
      place: "c." + known.id, kind: "c", label: "Message to #" + known.id, placeholder: "/agent fix the flaky test",
      known: () => this.known(), files: this.draftFiles("c." + known.id), backends: this.s.meta.backends, defaultBackend: this.s.meta.default_backend,
      send: (text, files) => this.startTask(known.id, text, files),
    });
    this.threadView = new ThreadView(this.main, this.s.talk, this.composer, { ...known, notices: this.s.meta.notices });
    this.threadView.render(this.view);
    if (this.stream) this.loadThread(this.s.talk);
    this.composer.field.focus({ preventScroll: true });
    this.composer.synced();
  }

  openThread(id) {
    if (this.s.thread?.id === id && this.threadView) return;
    const info = { ...(this.s.threads.find((t) => t.id === id) || { id }) };
    const thread = newThread(id, info, false);
    this.s.thread = thread;
    this.s.unread.delete(id);
    this.composer = new Composer({
      place: "t." + id, kind: "t", label: "Message to the agent", placeholder: "Reply, or type / for commands",
      known: () => this.known(), files: this.draftFiles("t." + id), send: (text, files) => this.reply(thread, text, files),
    });
    this.threadView = new ThreadView(this.main, thread, this.composer);
    this.threadView.render(this.view);
    this.composer.field.focus({ preventScroll: true });
    this.composer.synced();
    if (this.stream) this.loadThread(thread);
  }

  known() {
    const { backends, models, commands } = this.s.meta;
    return { backends, models, commands, sessions: this.s.threads.map((t) => ({ name: t.id, does: plain(t.title || "") })) };
  }

  // startTask posts to a channel. The same text with the same files, sent again after
  // a failure, is the same message to the server.
  async startTask(channel, text, files) {
    const what = JSON.stringify([channel, text, files]);
    const mine = this.unsure?.what === what ? this.unsure : { what, clientID: newID() };
    this.unsure = mine;
    if (!/^\s*(\/agent|@countersign)(\s|$)/i.test(text)) {
      return ["Plain text starts nothing here. ", h("button", { type: "button", class: "button small", "data-action": "as-task" }, "Send it as a task for the agent")];
    }
    try {
      const answer = await this.client.post(path("channels", channel, "messages"), messageBody(text, mine.clientID, files));
      this.unsure = null;
      if (answer.text) toast(markdown(answer.text, { times: true }));
      await this.loadThreads();
      const opened = answer.opened || (this.s.threads.some((t) => t.id === answer.thread_id) && answer.thread_id);
      if (opened) location.hash = "#/t/" + encodeURIComponent(opened);
      else this.loadThread(this.s.talk);
      return true;
    } catch (err) {
      if (err.status === 401) this.gate();
      return notSent(err);
    }
  }

  // reply posts to a thread: the text is shown at once, as on its way.
  async reply(thread, text, files = []) {
    const pending = { clientID: newID(), text, files, error: "", since: this.events };
    thread.pending.push(pending);
    this.threadView?.toEnd();
    this.deliver(thread, pending);
    return true;
  }

  async deliver(thread, pending) {
    this.replacePending(thread, pending, (pending = { ...pending, error: "" }));
    try {
      const answer = await this.client.post(path("threads", thread.id, "messages"), messageBody(pending.text, pending.clientID, pending.files));
      if (answer.text) toast(markdown(answer.text, { times: true }));
      if (answer.opened && answer.opened !== thread.id) {
        toast("A new thread was opened.", { action: { label: "Go there", run: () => (location.hash = "#/t/" + encodeURIComponent(answer.opened)) } });
      }
      this.replacePending(thread, pending, { ...pending, messageID: answer.message_id });
      if (!answer.message_id || answer.text) thread.pending = thread.pending.filter((p) => p.clientID !== pending.clientID);
      settle(thread, this.view.me);
      this.schedule();
      this.listSoon();
    } catch (err) {
      if (err.status === 401) this.gate();
      const sentence = notSent(err);
      this.replacePending(thread, pending, { ...pending, error: sentence, unsure: isUnsure(err), refused: isRefused(err) });
      announce((isUnsure(err) ? "" : "Message not sent. ") + sentence);
    }
  }

  replacePending(thread, old, fresh) {
    thread.pending = thread.pending.map((p) => (p.clientID === old.clientID ? fresh : p));
    this.schedule();
  }

  clicked(e) {
    const el = e.target.closest("[data-action]");
    if (el && !el.closest("dialog:not([open])")) act(this, el.dataset.action, el, e);
  }

  showSide(open) {
    document.body.classList.toggle("side-open", open);
  }

  // actAs changes who speaks in this tab.
  actAs(name) {
    this.s.me = name;
    const query = new URLSearchParams(location.search);
    if (name) query.set("as", name);
    else query.delete("as");
    const search = query.toString() ? "?" + query : "";
    history.replaceState(null, "", location.pathname + search + location.hash);
    this.threadView = null;
    this.s.thread = this.s.talk = null;
    this.connect();
    if (name) announce("You speak as " + name + " now.");
  }

  // visibility: a browser allows six connections to a server, so a tab that nobody
  // sees gives its own back after a while.
  visibility() {
    clearTimeout(this.hideTimer);
    if (document.hidden) {
      this.hideTimer = setTimeout(() => {
        this.stream?.stop();
        this.resting = true;
      }, 60_000);
    } else if (this.resting) {
      this.resting = false;
      this.stream?.start();
    }
  }
}

const messageBody = (text, clientID, files) => ({ text, client_id: clientID, ...(files.length && { files }) });

// isUnsure says whether a text may have arrived all the same.
const isUnsure = (err) => !(err instanceof ApiError) || err.status === 0 || err.code === "unconfirmed";

// isRefused says whether the same text would be refused again.
const isRefused = (err) => err instanceof ApiError && err.status >= 400 && err.status < 500 && err.status !== 401 && err.status !== 429;

function notSent(err) {
  if (!isUnsure(err)) return err.sentence;
  return "Not confirmed: the server did not answer. Send it again; it will not be taken twice.";
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// queueFrame runs fn before the next paint, or soon where nothing is painted.
function queueFrame(fn) {
  if (document.hidden) setTimeout(fn, 50);
  else requestAnimationFrame(fn);
}

new App().start();
