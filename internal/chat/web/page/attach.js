// The files that a message will bring. They are uploaded as soon as they are
// chosen: what cannot be sent is known before the message is.
import { path } from "./api.js";
import { announce } from "./dialogs.js";
import { h, icon, morph } from "./dom.js";
import { count, size, visible } from "./format.js";

// An upload may take this long, in milliseconds.
const uploadTimeout = 5 * 60_000;

let serial = 0;

// Attachments are the files of one place's draft; they outlast the composer that
// shows them. client() is the API's, limits is meta's "attach". changed(sentence) is
// called when the list is another: with what a person must know at once, with ""
// where what was said no longer holds.
export class Attachments {
  constructor(client, limits) {
    Object.assign(this, { client, limits, entries: [], queue: Promise.resolve(), changed: () => {} });
  }

  get bytes() {
    return this.entries.reduce((sum, e) => sum + e.bytes, 0);
  }

  // add takes files of the browser's and starts to upload them.
  add(files) {
    const refused = [];
    const added = [];
    for (const file of files) {
      const why = this.refusal(file);
      if (why) {
        refused.push(why);
        continue;
      }
      const entry = { key: ++serial, file, name: file.name || "file", bytes: file.size, state: "uploading", problem: "", abort: new AbortController() };
      this.entries.push(entry);
      added.push(entry);
      this.queue = this.queue.then(() => this.upload(entry));
    }
    if (added.length) announce(`Attached: ${added.map((e) => `${e.name}, ${size(e.bytes)}`).join("; ")}.`);
    this.changed([...new Set(refused)].join(" "));
  }

  refusal(file) {
    const { file_bytes: each, files, bytes } = this.limits;
    if (file.size > each) return `${file.name} is ${size(file.size)}; a file may have ${size(each)}. Send a smaller one, or let the agent fetch it.`;
    if (this.entries.length >= files) return `A message brings at most ${count(files, "file")}. Send the others with another message.`;
    if (this.bytes + file.size > bytes) return `With ${file.name} the files are more than the ${size(bytes)} that one message brings.`;
    return "";
  }

  // upload sends one file; there is one at a time, so that a click never waits
  // behind ten of them.
  async upload(entry) {
    if (!this.entries.includes(entry)) return;
    try {
      const signal = AbortSignal.any([entry.abort.signal, AbortSignal.timeout(uploadTimeout)]);
      const res = await this.client().fetch(path("files") + "?name=" + encodeURIComponent(entry.name), { method: "POST", body: entry.file, cache: "no-store", signal });
      entry.ref = await res.json();
      entry.state = "ready";
    } catch (err) {
      if (entry.abort.signal.aborted) return;
      entry.state = "failed";
      entry.problem = err.sentence || "The browser could not read it.";
    }
    this.changed(entry.problem ? `${entry.name} was not uploaded. ${entry.problem}` : undefined);
  }

  again(entry) {
    Object.assign(entry, { state: "uploading", problem: "" });
    this.queue = this.queue.then(() => this.upload(entry));
    this.changed("");
  }

  remove(entry) {
    entry.abort.abort();
    this.entries = this.entries.filter((e) => e !== entry);
    announce(entry.name + " is removed.");
    this.changed("");
  }

  // put takes back files that a message was to bring.
  put(refs) {
    for (const ref of refs) this.entries.push({ key: ++serial, name: ref.name, bytes: ref.bytes, state: "ready", problem: "", ref, abort: new AbortController() });
    this.changed("");
  }

  // ready waits for the uploads and returns what the message brings, or a sentence
  // in a string.
  async ready() {
    for (let queue; queue !== this.queue; ) {
      queue = this.queue;
      await queue;
    }
    const failed = this.entries.filter((e) => e.state === "failed");
    if (failed.length) return `${failed.map((e) => e.name).join(", ")}: not uploaded. Try again or remove it; nothing was sent.`;
    return this.entries.map((e) => e.ref);
  }

  // sent forgets what a message has brought.
  sent(refs) {
    this.entries = this.entries.filter((e) => !refs.includes(e.ref));
    this.changed("");
  }
}

// AttachmentList shows them in a composer, with the button that chooses files.
export class AttachmentList {
  constructor(files, focus) {
    Object.assign(this, { files, focus });
    this.input = h("input", { type: "file", multiple: true, hidden: true, id: "attach-input" });
    this.button = h("button", { type: "button", class: "quiet attach", "aria-label": "Attach files", title: "Attach files", "aria-controls": "attached" },
      icon("M21 11.5l-8.6 8.6a5.6 5.6 0 0 1-8-8L13 3.6a3.8 3.8 0 0 1 5.4 5.4l-8.6 8.6a1.9 1.9 0 0 1-2.7-2.7l7.9-7.9"));
    this.el = this.list();
    this.button.addEventListener("click", () => this.input.click());
    this.input.addEventListener("change", () => {
      files.add([...this.input.files]);
      this.input.value = "";
      this.button.focus();
    });
    this.el.addEventListener("click", (e) => this.clicked(e.target.closest("button")));
  }

  clicked(button) {
    const at = this.files.entries.findIndex((e) => String(e.key) === button?.closest("li").dataset.key);
    if (at < 0) return;
    const entry = this.files.entries[at];
    if (button.dataset.do === "again") {
      this.files.again(entry);
      this.removers()[at]?.focus();
      return;
    }
    this.files.remove(entry);
    (this.removers()[Math.min(at, this.files.entries.length - 1)] || this.button).focus();
  }

  removers() {
    return this.el.querySelectorAll("[data-do=remove]");
  }

  render() {
    morph(this.el, this.list());
  }

  list() {
    const { entries } = this.files;
    const state = (e) => ({ uploading: "uploading", failed: "not uploaded: " + e.problem })[e.state];
    return h("ul", { id: "attached", class: "attached", "aria-label": "Attached files", hidden: !entries.length }, entries.map((e) =>
      h("li", { "data-key": e.key, class: e.state },
        h("span", { class: "file-name", dir: "auto" }, visible(e.name)), " ", h("span", { class: "aside" }, size(e.bytes)),
        state(e) && [" ", h("span", { class: "file-state" }, state(e))],
        e.state === "failed" && h("button", { type: "button", class: "button small", "data-do": "again", "aria-label": "Try again: " + e.name }, "Try again"),
        h("button", { type: "button", class: "quiet", "data-do": "remove", "aria-label": "Remove " + e.name }, icon("M6 6l12 12M18 6L6 18")))));
  }
}
