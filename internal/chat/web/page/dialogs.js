// Dialogs and toasts. A dialog is the browser's own modal one: the rest of the
// page is out of reach while it is open, Escape closes it, and focus goes back
// to where it was.
import { h, icon } from "./dom.js";

let serial = 0;

// dialog opens a modal with a title. Its result is what close was called with,
// undefined when it was dismissed. back says what to focus afterwards if what had
// the focus is gone.
export function dialog({ title, kind = "", back }, ...content) {
  const id = "dialog-" + ++serial;
  const opener = document.activeElement;
  const el = h("dialog", { class: "dialog " + kind, "aria-labelledby": id },
    h("header", { class: "dialog-head" },
      h("h2", { id }, title),
      h("button", { type: "button", class: "quiet close", "data-close": "", "aria-label": "Close" }, icon("M6 6l12 12M18 6L6 18"))),
    content);
  document.body.append(el);
  let result;
  const closed = new Promise((resolve) => {
    el.addEventListener("close", () => {
      // The browser has given the focus back by now, unless its place is gone; where
      // the person has gone on from there since is theirs.
      const at = document.activeElement;
      const lost = !at || at === document.body || el.contains(at);
      el.remove();
      const target = opener?.isConnected && opener !== document.body ? opener : back?.();
      if (lost) target?.focus?.({ preventScroll: true });
      resolve(result);
    });
  });
  const close = (value) => {
    result = value;
    el.close();
  };
  el.addEventListener("click", (e) => {
    if (e.target.closest("[data-close]")) close();
  });
  el.addEventListener("keydown", (e) => keepFocus(el, e));
  el.showModal();
  return { el, close, closed };
}

// keepFocus makes Tab go round inside the dialog.
function keepFocus(el, e) {
  if (e.key !== "Tab") return;
  const stops = [...el.querySelectorAll("button, input, textarea, select, summary, a[href], [tabindex='0']")].filter((s) => !s.disabled && (s.checkVisibility?.() ?? s.offsetParent !== null));
  if (!stops.length) return;
  const edge = e.shiftKey ? stops[0] : stops[stops.length - 1];
  if (document.activeElement !== edge && el.contains(document.activeElement) && document.activeElement !== el) return;
  e.preventDefault();
  (e.shiftKey ? stops[stops.length - 1] : stops[0]).focus();
}

// ask opens a dialog with one field. It resolves to the text, or undefined.
export function ask({ title, text, label, submit, danger, multiline = true, required = false, value = "", back, check }) {
  const id = "field-" + ++serial;
  const field = h(multiline ? "textarea" : "input", { id, rows: multiline ? "3" : null, autocomplete: "off", "aria-describedby": id + "-error" });
  field.value = value;
  const error = h("p", { class: "field-error", id: id + "-error", role: "alert" });
  const form = h("form", { class: "dialog-body" },
    text && h("p", {}, text), h("label", { for: id }, label), field, error,
    h("div", { class: "dialog-foot" },
      h("button", { type: "button", class: "button", "data-close": "" }, "Cancel"),
      h("button", { type: "submit", class: "button " + (danger ? "danger" : "primary") }, submit)));
  const d = dialog({ title, back }, form);
  field.focus();
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    const wrong = required && !field.value.trim() ? "Write something first." : check?.(field.value);
    error.textContent = wrong || "";
    if (wrong) field.focus();
    else d.close(field.value);
  });
  field.addEventListener("keydown", (e) => {
    if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) form.requestSubmit();
  });
  return d.closed;
}

// How long a toast that reports success stays.
const toastTime = 7000;

// toast tells the person at this page alone. A toast that is no success stays
// until it is closed.
export function toast(text, { kind = "ok", action } = {}) {
  const box = document.getElementById("toasts");
  const el = h("div", { class: "toast " + kind },
    typeof text === "string" ? h("p", {}, text) : text,
    action && h("button", { type: "button", class: "button small", "data-do": "" }, action.label),
    h("button", { type: "button", class: "quiet close", "aria-label": "Dismiss", "data-dismiss": "" }, icon("M6 6l12 12M18 6L6 18")));
  el.addEventListener("click", (e) => {
    if (e.target.closest("[data-do]")) action.run();
    if (e.target.closest("button")) el.remove();
  });
  for (const old of [...box.children]) if (old.firstChild.textContent === el.firstChild.textContent) old.remove();
  while (box.children.length > 3) box.firstChild.remove();
  // A modal dialog makes the rest of the page inert, its toasts too.
  const open = [...document.querySelectorAll("dialog[open]")].at(-1);
  (open || box).append(el);
  if (open) el.setAttribute("role", "status");
  if (kind === "ok") setTimeout(() => el.remove(), toastTime);
}

let lastAnnouncement = 0;

// announce says something to a screen reader and shows nothing.
export function announce(text) {
  const box = document.getElementById("announce");
  const now = Date.now();
  if (now - lastAnnouncement > 3000) box.replaceChildren();
  lastAnnouncement = now;
  box.append(h("p", {}, text));
  while (box.children.length > 4) box.firstChild.remove();
}
