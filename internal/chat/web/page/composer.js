// The place to write in: one for a channel, one for a thread. Enter sends,
// Shift+Enter breaks the line; commands are completed while they are typed.
import { AttachmentList } from "./attach.js";
import { h, icon, morph } from "./dom.js";
import { backendOf, suggest, withBackend } from "./complete.js";
import { announce } from "./dialogs.js";
import { count } from "./format.js";

const draftKey = (place) => "countersign.draft." + place;
// Longer texts are refused by the server, with 413.
const maxBytes = 1 << 20;
const sendHint = "Enter sends, Shift+Enter breaks the line";

export class Composer {
  // place names the draft; kind is "c" or "t"; known() gives completion's values;
  // files are the draft's Attachments, null where the server takes none;
  // send(text, files) resolves to true when the text was taken, else to a sentence.
  constructor({ place, kind, label, placeholder, known, send, files, backends, defaultBackend }) {
    Object.assign(this, { place, kind, known, send, files });
    this.items = [];
    this.active = -1;
    this.field = h("textarea", {
      id: "composer", rows: "1", placeholder, "aria-label": label, "aria-autocomplete": "list", "aria-haspopup": "listbox",
      "aria-controls": "suggestions", "aria-describedby": "composer-hint composer-error", spellcheck: "true", autocomplete: "off", dir: "auto",
    });
    this.list = h("div", { id: "suggestions", class: "suggestions", role: "listbox", "aria-label": "Commands", hidden: true });
    this.error = h("div", { id: "composer-error", class: "composer-error", role: "alert" });
    this.hint = h("span", { class: "hint", id: "composer-hint" }, sendHint);
    this.picker = backends && this.makePicker(backends, defaultBackend);
    this.button = h("button", { type: "submit", class: "button primary send", "aria-label": "Send" }, icon("M5 12h14M13 6l6 6-6 6"));
    this.attached = files && new AttachmentList(files);
    this.el = h("form", { class: "composer" }, this.list, this.error, h("div", { class: "composer-box" }, this.attached?.el, this.field,
      h("div", { class: "composer-bar" }, this.attached && [this.attached.button, this.attached.input], this.picker && h("label", { class: "picker" }, h("span", {}, "Backend"), this.picker),
        this.hint, this.button)));
    this.listen();
    this.field.value = sessionStorage.getItem(draftKey(place)) || "";
    this.synced();
  }

  makePicker(backends, defaultBackend) {
    const names = backends.map((b) => h("option", { value: b.name }, b.name + (b.isolated === false ? " (not isolated)" : "")));
    return h("select", { id: "backend" }, h("option", { value: "" }, defaultBackend ? `default (${defaultBackend})` : "default"), names);
  }

  listen() {
    this.el.addEventListener("submit", (e) => {
      e.preventDefault();
      this.submit();
    });
    this.field.addEventListener("input", () => {
      this.error.replaceChildren();
      this.synced();
      this.suggest();
    });
    this.field.addEventListener("keydown", (e) => this.key(e));
    this.field.addEventListener("blur", () => setTimeout(() => this.closeList(), 150));
    this.list.addEventListener("mousedown", (e) => {
      const option = e.target.closest("[role=option]");
      e.preventDefault();
      if (option) this.accept(Number(option.dataset.index));
    });
    this.field.addEventListener("paste", (e) => {
      const { files, types } = e.clipboardData;
      if (!files.length || types.includes("text/plain")) return;
      e.preventDefault();
      this.attach(files);
    });
    if (this.files) this.files.changed = (sentence) => {
      this.attached.render();
      if (sentence) this.fail(sentence);
      else if (sentence === "") this.error.replaceChildren();
    };
    this.picker?.addEventListener("change", () => {
      this.set(withBackend(this.field.value, this.picker.value));
    });
  }

  // attach takes files that were dropped or pasted.
  attach(files) {
    if (this.files) this.files.add([...files]);
    else this.fail("This server takes no files.");
  }

  // synced brings height, draft and picker to what the field holds.
  synced() {
    this.field.style.height = "auto";
    this.field.style.height = Math.min(this.field.scrollHeight, 240) + "px";
    if (this.field.value) sessionStorage.setItem(draftKey(this.place), this.field.value.slice(0, 100_000));
    else sessionStorage.removeItem(draftKey(this.place));
    if (this.picker) {
      const named = backendOf(this.field.value);
      this.picker.value = [...this.picker.options].some((o) => o.value === named) ? named : "";
    }
  }

  // set replaces the text and puts the caret behind it.
  set(text) {
    this.field.value = text;
    this.field.focus();
    this.field.setSelectionRange(text.length, text.length);
    this.error.replaceChildren();
    this.synced();
  }

  key(e) {
    if (e.isComposing) return;
    if (!this.list.hidden && this.listKey(e)) {
      e.preventDefault();
      return;
    }
    if (e.key === "Enter" && !e.shiftKey && !e.altKey) {
      e.preventDefault();
      this.submit();
    }
  }

  // listKey handles a key while the list is open, and says whether it did.
  listKey(e) {
    const n = this.items.length;
    switch (e.key) {
      case "ArrowDown":
        return this.move((this.active + 1) % n);
      case "ArrowUp":
        return this.move((this.active - 1 + n) % n);
      case "Escape":
        this.closeList();
        return true;
      case "Tab":
        return !e.shiftKey && this.accept(Math.max(this.active, 0));
      case "Enter":
        return !e.shiftKey && this.active >= 0 && this.accept(this.active);
    }
    return false;
  }

  move(index) {
    this.active = index;
    this.renderList();
    return true;
  }

  accept(index) {
    const item = this.items[index];
    const rest = this.field.value.slice(this.field.selectionEnd);
    this.field.value = item.text + rest;
    this.field.setSelectionRange(item.text.length, item.text.length);
    this.synced();
    this.suggest();
    return true;
  }

  suggest() {
    const before = this.field.value.slice(0, this.field.selectionStart);
    const had = this.items.length;
    this.items = suggest(before, this.kind, this.known());
    this.active = -1;
    this.renderList();
    if (this.items.length && this.items.length !== had) announce(`${count(this.items.length, "suggestion")}. Tab takes the first, arrows choose, Escape closes.`);
  }

  closeList() {
    this.items = [];
    this.active = -1;
    this.renderList();
  }

  renderList() {
    const open = this.items.length > 0;
    morph(this.list, h("div", { id: "suggestions", class: "suggestions", role: "listbox", "aria-label": "Commands", hidden: !open }, this.items.map((item, i) =>
      h("div", { role: "option", id: "suggestion-" + i, "data-index": i, "aria-selected": String(i === this.active) },
        h("b", {}, item.label), " ", h("span", { class: "args" }, item.args || ""), h("span", { class: "does" }, item.does || "")))));
    this.hint.textContent = open ? "Tab completes, arrows choose, Escape closes" : sendHint;
    if (this.active >= 0) {
      this.field.setAttribute("aria-activedescendant", "suggestion-" + this.active);
      this.list.children[this.active].scrollIntoView({ block: "nearest" });
    } else {
      this.field.removeAttribute("aria-activedescendant");
    }
  }

  async submit() {
    const text = this.field.value;
    if ((!text.trim() && !this.files?.entries.length) || this.sending) return;
    this.closeList();
    if (new Blob([text]).size > maxBytes) {
      this.fail("This is longer than 1 MB and cannot be sent. Put it into a file of the workspace instead.");
      return;
    }
    this.sending = true;
    this.button.setAttribute("aria-busy", "true");
    const files = (await this.files?.ready()) ?? [];
    const answer = typeof files === "string" ? files : await this.send(text, files);
    this.sending = false;
    this.button.removeAttribute("aria-busy");
    if (answer === true) {
      this.files?.sent(files);
      if (this.field.value === text) this.set("");
    } else {
      this.fail(answer);
    }
  }

  // fail says why the text was not taken; the text stays.
  fail(...content) {
    this.error.replaceChildren(h("p", {}, content));
  }
}
