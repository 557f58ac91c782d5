// A tool call's full output in a dialog, read as it comes.
import { h } from "./dom.js";
import { dialog } from "./dialogs.js";
import { path } from "./api.js";
import { callStates, duration, size, terminalText, visible } from "./format.js";

// The dialog shows at most the last so many characters; the file has all.
const shownChars = 1_000_000;
// How often a running call is asked for more.
const pollEvery = 1000;

// showOutput opens the dialog for a call. current() gives the call as it is now.
export function showOutput(client, id, current, back) {
  const status = h("p", { class: "aside", role: "status" });
  const streams = [new Stream(client, id, "stdout"), new Stream(client, id, "stderr")];
  const d = dialog({ title: "Tool call", kind: "wide", back },
    h("div", { class: "dialog-body" },
      h("pre", { class: "command", dir: "ltr", tabindex: "0", role: "group", "aria-label": "Command" }, h("code", {}, visible(current()?.command || ""))),
      status, streams.map((s) => s.el)));
  const stop = new AbortController();
  d.closed.then(() => stop.abort());
  follow(streams, current, status, stop.signal);
  return d;
}

async function follow(streams, current, status, signal) {
  while (!signal.aborted) {
    const running = current()?.state === "running";
    await Promise.all(streams.map((s) => s.read(signal)));
    if (signal.aborted) return;
    status.textContent = summary(current(), streams);
    if (!running) return;
    await new Promise((resolve) => {
      setTimeout(resolve, pollEvery);
      signal.addEventListener("abort", resolve, { once: true });
    });
  }
}

function summary(call, streams) {
  const state = call && (callStates[call.state] || { mark: "?", words: call.state });
  const parts = state ? [state.mark + " " + state.words] : [];
  if (call && call.exit_code !== undefined && call.exit_code !== null) parts.push("exit " + call.exit_code);
  if (call?.duration_ms) parts.push(duration(call.duration_ms));
  if (call?.note) parts.push(call.note);
  if (streams.every((s) => s.bytes === 0 && !s.failed)) parts.push("no output");
  return parts.join(" · ");
}

// Stream is stdout or stderr of one call.
class Stream {
  constructor(client, id, name) {
    Object.assign(this, { client, name, bytes: 0, text: "", failed: "", cut: false });
    this.path = path("tool_calls", id, "output");
    this.decoder = new TextDecoder();
    this.pre = h("pre", { class: "output", dir: "ltr", tabindex: "0", role: "group", "aria-label": name });
    this.info = h("span", { class: "aside" });
    this.save = h("button", { type: "button", class: "button small" }, "Save");
    this.save.addEventListener("click", () => this.download());
    this.el = h("section", { hidden: true, "aria-label": name }, h("div", { class: "stream-head" }, h("h3", {}, name), this.info, this.save), this.pre);
  }

  // read takes what there is from where it stopped.
  async read(signal) {
    try {
      const res = await this.client.fetch(`${this.path}?stream=${this.name}&offset=${this.bytes}`, { signal, cache: "no-store" });
      const reader = res.body.getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        this.bytes += value.length;
        this.add(this.decoder.decode(value, { stream: true }));
      }
      this.failed = "";
    } catch (err) {
      if (signal.aborted) return;
      this.failed = err.sentence || "The output could not be read to its end.";
    }
    this.render();
  }

  add(chunk) {
    this.text += chunk;
    if (this.text.length > shownChars * 1.2) {
      this.text = this.text.slice(-shownChars);
      this.cut = true;
    }
    if (!this.timer) {
      this.timer = setTimeout(() => {
        this.timer = null;
        this.render();
      }, 200);
    }
  }

  render() {
    const low = this.pre.scrollHeight - this.pre.scrollTop - this.pre.clientHeight < 24;
    const text = terminalText(this.text);
    if (this.pre.firstChild && text.startsWith(this.pre.firstChild.data)) this.pre.firstChild.appendData(text.slice(this.pre.firstChild.data.length));
    else this.pre.replaceChildren(text);
    this.info.textContent = [size(this.bytes), this.cut && "only the end is shown", this.failed].filter(Boolean).join(" · ");
    this.el.hidden = this.bytes === 0 && !this.failed;
    if (low) this.pre.scrollTop = this.pre.scrollHeight;
  }

  async download() {
    try {
      const res = await this.client.fetch(`${this.path}?stream=${this.name}&offset=0`);
      const url = URL.createObjectURL(await res.blob());
      h("a", { href: url, download: this.name + ".txt" }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10_000);
    } catch (err) {
      this.info.textContent = err.sentence || "The output could not be saved.";
    }
  }
}
