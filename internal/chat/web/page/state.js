// What the page knows of a thread: its messages in order, the newest version of
// each, and what is on its way to it.
import { nameOf } from "./format.js";

export function newThread(id, info, isChannel) {
  return { id, info, isChannel, messages: new Map(), seen: new Map(), order: [], pending: [], state: "loading", failure: "", openedAt: Date.now() };
}

// merge puts a message into a thread unless a newer version is there; it says
// whether it did.
export function merge(thread, m, at) {
  const have = thread.messages.get(m.id);
  if (have && (have.version || 0) > (m.version || 0)) return false;
  if (m.deleted) {
    thread.messages.delete(m.id);
    thread.order = thread.order.filter((id) => id !== m.id);
    return true;
  }
  thread.seen.set(m.id, at);
  if (have && JSON.stringify(have) === JSON.stringify(m)) return false;
  thread.messages.set(m.id, m);
  return true;
}

// insert puts a new message where its time belongs, which is nearly always last.
export function insert(thread, m) {
  let at = thread.order.length;
  while (at > 0 && Date.parse(thread.messages.get(thread.order[at - 1]).at) > Date.parse(m.at)) at--;
  thread.order.splice(at, 0, m.id);
}

// mergeAll takes a thread as it was read whole. Messages that events brought since
// the reading began stay, others that are no longer there go.
export function mergeAll(thread, messages, since, now) {
  const order = [];
  for (const m of messages) {
    merge(thread, m, now);
    order.push(m.id);
  }
  const listed = new Set(order);
  for (const id of thread.order) {
    if (listed.has(id)) continue;
    if (thread.seen.get(id) > since) order.push(id);
    else thread.messages.delete(id);
  }
  thread.order = order;
}

// settle drops what was on its way and has arrived: known by its ID, or, when the
// event comes before the answer, by author and text.
export function settle(thread, me) {
  const messages = [...thread.messages.values()];
  // The server adds the names of files to a text.
  const same = (m, p) => (p.files.length ? m.text.startsWith(p.text.trim()) : m.text === p.text);
  const arrived = (p) => thread.messages.has(p.messageID) ||
    messages.some((m) => m.kind === "user" && same(m, p) && nameOf(m.author) === me && thread.seen.get(m.id) > p.since);
  thread.pending = thread.pending.filter((p) => !arrived(p));
}
