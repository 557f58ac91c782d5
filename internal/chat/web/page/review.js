// Review: everything that an approval binds, and every verdict on it. What is
// approved from here is what was shown here, by its digest.
import { ask, dialog } from "./dialogs.js";
import { h } from "./dom.js";
import { decision, evidenceEl, mayBreakGlass, reasonsEl, where } from "./approval.js";
import { articleOf, click, failureOf, outcomes, sendClick, sentenceOf, tellOutcome, unconfirmed } from "./clicks.js";
import { plain, timeEl, visible } from "./format.js";

// The longest command that may take another's place: workflows.MaxEdit.
const maxEdit = 4000;

export async function deny(app, message) {
  const reason = await ask({
    title: "Deny this", label: "Reason (everybody in the thread and the agent see it)", submit: "Deny", danger: true, back: articleOf(message),
    text: "The command will not run. The agent is told why and goes on from there.",
  });
  if (reason !== undefined) click(app, message, "deny", { reason: reason.trim() });
}

export async function runAgain(app, message) {
  const body = h("div", { class: "dialog-body" }, h("p", {}, "It may have finished the first time. Run it again only if doing it twice does no harm."));
  const d = dialog({ title: "Run it again?", back: articleOf(message) }, body);
  const go = h("button", { type: "button", class: "button danger" }, "Run again");
  body.append(h("div", { class: "dialog-foot" }, h("button", { type: "button", class: "button", "data-close": "" }, "Cancel"), go));
  go.addEventListener("click", () => d.close(true));
  if (await d.closed) click(app, message, "run_again", {});
}

// breakGlass asks twice: for the reason, and whether it is meant.
async function breakGlass(app, message, digest) {
  const why = h("textarea", { id: "glass-why", rows: "3", autocomplete: "off", "aria-describedby": "glass-error" });
  const sure = h("input", { type: "checkbox", id: "glass-sure" });
  const error = h("p", { class: "field-error", id: "glass-error", role: "alert" });
  const form = h("form", { class: "dialog-body" },
    h("p", {}, "This runs the command on your word alone. Everybody in the thread sees that you did it and why, and it stays on record."),
    h("label", { for: "glass-why" }, "Why can this not wait for the others?"), why,
    h("label", { class: "check", for: "glass-sure" }, sure, " I have read all of it and approve it alone"), error,
    h("div", { class: "dialog-foot" },
      h("button", { type: "button", class: "button", "data-close": "" }, "Cancel"),
      h("button", { type: "submit", class: "button danger" }, "Approve alone")));
  const d = dialog({ title: "Approve this alone", back: articleOf(message) }, form);
  why.focus();
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    error.textContent = !why.value.trim() ? "Say why: the reason goes on record." : !sure.checked ? "Confirm that you mean it." : "";
    if (!error.textContent) d.close(why.value.trim());
    else (why.value.trim() ? sure : why).focus();
  });
  const reason = await d.closed;
  if (reason !== undefined) click(app, message, "approve", { break_glass: reason, digest });
}

export async function review(app, message) {
  const body = h("div", { class: "dialog-body" }, h("p", { class: "aside", role: "status" }, "Reading what would run."));
  const d = dialog({ title: "Review", kind: "wide", back: articleOf(message) }, body);
  let answer;
  try {
    answer = await sendClick(app, message, "review", {});
  } catch (err) {
    return body.replaceChildren(h("p", { role: "alert" }, err.status === 401 ? "Your token is no longer valid." : err.sentence || unconfirmed), closeFoot());
  }
  if (answer.outcome !== "recorded") {
    return body.replaceChildren(h("p", { role: "alert" }, plain(answer.text || outcomes[answer.outcome] || "")), closeFoot());
  }
  new Review(app, message, answer, d, body);
}

const closeButton = () => h("button", { type: "button", class: "button", "data-close": "" }, "Close");
const closeFoot = () => h("div", { class: "dialog-foot" }, closeButton());

// Review is the open dialog. It follows the card: what somebody else has decided,
// or what has changed, can no longer be approved here.
class Review {
  constructor(app, message, answer, d, body) {
    const a = message.approval || {};
    Object.assign(this, { app, message, d, busy: false, command: answer.review?.command ?? "" });
    this.digest = answer.review?.digest || answer.digest || a.digest;
    this.alert = h("p", { class: "field-error", role: "alert" });
    this.foot = h("div", { class: "dialog-foot" });
    this.edit = answer.review && this.editable() ? editBox(this.command) : null;
    this.note = h("textarea", { id: "review-note", rows: "2", autocomplete: "off" });
    this.remark = h("textarea", { id: "review-remark", rows: "2", autocomplete: "off" });
    const fixed = answer.review && !this.edit && this.isShell() && a.editable === false;
    this.choices = h("div", { class: "choices" }, this.edit?.el, fixed && h("p", { class: "aside" }, cannotEdit), this.remarkBox(), this.noteBox());
    body.replaceChildren(...content(a, answer), this.choices, h("p", { class: "digest" }, "Digest ", h("code", {}, this.digest || "none")), this.alert, this.foot);
    this.makeButtons(a);
    this.follow();
    const timer = setInterval(() => this.follow(), 500);
    d.closed.then(() => clearInterval(timer));
  }

  now() {
    return this.app.current()?.messages.get(this.message.id)?.approval || {};
  }

  // editable: only a shell command that fits the box, and whose text is the whole
  // truth, can be changed.
  editable() {
    if (!this.isShell() || new TextEncoder().encode(this.command).length > maxEdit) return false;
    return this.message.approval?.editable !== false;
  }

  isShell() {
    const id = this.message.approval?.call_id;
    for (const m of this.app.current()?.messages.values() || []) {
      for (const c of m.tool_calls || []) if (c.id === id && c.tool !== "shell") return false;
    }
    return true;
  }

  makeButtons(a) {
    const button = (look, label, run) => {
      const el = h("button", { type: "button", class: "button " + look }, label);
      el.addEventListener("click", run);
      return el;
    };
    this.yes = button("primary", "Approve what is shown", () => this.approve());
    this.buttons = [
      mayBreakGlass(a, this.app.view.me) && button("danger", "Approve alone…", () => {
        this.d.close();
        breakGlass(this.app, this.message, this.digest);
      }),
      button("", "Deny…", () => {
        this.d.close();
        deny(this.app, this.message);
      }),
      this.yes,
    ].filter(Boolean);
    this.edit?.field.addEventListener("input", () => this.labels());
  }

  // remarkBox takes what stands beside an approval.
  remarkBox() {
    return h("details", {}, h("summary", {}, "Add a note"),
      h("label", { for: "review-remark" }, "Note to the approval (it stands on the card and goes on record)"), this.remark);
  }

  // noteBox asks the agent for something else.
  noteBox() {
    const send = h("button", { type: "button", class: "button" }, "Ask for these changes");
    send.addEventListener("click", () => {
      const text = this.note.value.trim();
      if (text) return this.send("deny", { changes: text }, send);
      this.alert.textContent = "Say what should be different.";
      this.note.focus();
    });
    return h("details", {}, h("summary", {}, "Ask for changes"),
      h("label", { for: "review-note" }, "What should be different (everybody in the thread and the agent see it)"), this.note,
      h("p", { class: "aside" }, "The command will not run; the agent reads this and goes on from there."), h("div", { class: "row" }, send));
  }

  changed() {
    return Boolean(this.edit) && this.edit.field.value !== this.command;
  }

  labels() {
    this.yes.textContent = this.changed() ? "Approve with this change" : "Approve what is shown";
  }

  approve() {
    const values = { digest: this.digest };
    const reason = this.remark.value.trim();
    if (reason) values.reason = reason;
    if (this.changed()) values.command = this.edit.field.value;
    if (reason || values.command) return this.send("approve", values, this.yes);
    this.d.close();
    click(this.app, this.message, "approve", values);
  }

  // send keeps the dialog open until the server has judged what was typed, so that
  // nothing is lost when it does not count.
  async send(button, values, el) {
    if (this.busy) return;
    this.busy = true;
    el.setAttribute("aria-busy", "true");
    this.alert.textContent = "";
    try {
      const answer = await sendClick(this.app, this.message, button, values);
      if (answer.outcome === "recorded") {
        this.d.close();
        return tellOutcome(answer);
      }
      this.alert.textContent = sentenceOf(answer);
    } catch (err) {
      if (err.status === 401) {
        this.d.close();
        return this.app.gate();
      }
      this.alert.textContent = failureOf(err);
    } finally {
      this.busy = false;
      el.removeAttribute("aria-busy");
    }
    this.follow();
  }

  follow() {
    if (this.busy) return;
    const now = this.now();
    const open = now.state === "pending" && now.digest === this.digest;
    const state = now.state + " " + (now.digest === this.digest);
    if (this.foot.dataset.state === state) return;
    this.foot.dataset.state = state;
    this.choices.hidden = !open || now.unknown_run === true;
    if (open) return this.foot.replaceChildren(closeButton(), ...this.buttons);
    const again = h("button", { type: "button", class: "button" }, "Review it as it is now");
    again.addEventListener("click", () => {
      this.d.close();
      review(this.app, this.app.current()?.messages.get(this.message.id) || this.message);
    });
    const pending = now.state === "pending";
    this.foot.replaceChildren(h("p", { class: "decision", role: "alert" }, pending ? changedWords(now) : decision(now)), closeButton(), pending ? again : "");
  }
}

const cannotEdit = "The command cannot be changed here: it is long, or part of it is shown escaped or masked and would be lost. Ask for changes instead.";

const changedWords = (a) => (a.edited_by ? `@${plain(a.edited_by)} has changed the command since.` : outcomes.changed);

// editBox holds the command for somebody to change.
function editBox(command) {
  const field = h("textarea", { id: "review-edit", class: "command-edit", rows: String(Math.min(12, command.split("\n").length + 1)), maxlength: String(maxEdit), spellcheck: "false", autocomplete: "off", autocapitalize: "off", dir: "ltr", "aria-describedby": "review-edit-help" });
  field.value = command;
  const el = h("details", {}, h("summary", {}, "Change the command"), h("label", { for: "review-edit" }, "What should run instead"), field,
    h("p", { class: "aside", id: "review-edit-help" }, "A changed command is judged again by the server before it counts, and votes on the old one are void."));
  return { el, field };
}

function content(a, answer) {
  const r = answer.review;
  const pre = (text, label) => h("pre", { class: "command", dir: "ltr", tabindex: "0", role: "group", "aria-label": label }, h("code", {}, visible(text)));
  const section = (title, ...parts) => h("section", {}, h("h3", {}, title), parts);
  const facts = h("p", { class: "where" }, where({ ...a, ...(r || {}) }));
  if (!r) return [facts, reasonsEl(a.reasons), pre(answer.text || a.command || "", "All that would run")];
  return [
    facts, pre(r.command || a.command || "", "Command"),
    r.edited_by ? section(["✎ Changed by ", plain(r.edited_by), ". The agent had asked for:"], pre(r.original || "", "The command before it was changed")) : null,
    reasonsEl(r.reasons || a.reasons),
    evidenceEl(r.evidence || a.evidence),
    r.env?.length ? section("Environment changes", pre(r.env.join("\n"), "Environment changes")) : null,
    (r.files || []).map((f) => section(f.path, pre(f.text || "", f.path))),
    (r.notes || []).map((n) => h("p", { class: "aside" }, plain(n))),
    a.state === "pending" && a.expires_at && h("p", { class: "aside" }, "Until ", timeEl(a.expires_at), "."),
  ].flat().filter(Boolean);
}
