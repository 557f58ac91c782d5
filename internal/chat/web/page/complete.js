// What the composer offers while a command is being typed. It mirrors the command
// grammar for help only: the server decides what a text means.

// Commands by name, for a server that does not list its own. where: c in a channel,
// t in a thread.
const builtIn = [
  { name: "run", where: "c", args: "[flags] [--] <task>", does: "opens a thread and runs a task", flags: ["--backend", "--workspace", "--model", "--title"] },
  { name: "list", where: "ct", args: "", does: "sessions as a tree by fork" },
  { name: "new", where: "c", args: "--from <session>", does: "a new session from another one’s snapshot", flags: ["--from"] },
  { name: "stop", where: "t", args: "", does: "ends the running turn" },
  { name: "switch", where: "t", args: "[backend] [root]", does: "moves the session to another backend", values: "backends" },
  { name: "fork", where: "t", args: "[\"title\"] [--backend B]", does: "copies files and conversation into a new thread", flags: ["--backend"] },
  { name: "title", where: "t", args: "\"<name>\"", does: "renames the session" },
  { name: "model", where: "t", args: "<name>", does: "changes the model from the next turn on", values: "models" },
  { name: "pause", where: "t", args: "", does: "releases the sandbox until the next message" },
  { name: "done", where: "t", args: "", does: "asks: keep or destroy" },
  { name: "destroy", where: "t", args: "", does: "ends the session, after a question" },
  { name: "status", where: "t", args: "", does: "backend, turn, cost, waiting approvals" },
  { name: "history", where: "t", args: "", does: "the conversation so far" },
  { name: "grants", where: "t", args: "[revoke <id>]", does: "standing permissions; ends one" },
  { name: "files", where: "t", args: "[path]", does: "workspace files to the thread" },
  { name: "help", where: "ct", args: "", does: "all commands" },
];

// listed makes our form of a list of {name, usage, does, thread}.
function listed(list) {
  return list.map(({ name, usage = "", does, thread }) => {
    const args = usage.startsWith(name) ? usage.slice(name.length).trim() : "";
    const values = /^\[?<?(backend|model|name)/.test(args) && { switch: "backends", model: "models" }[name];
    return { name, args, does, where: name === "run" ? "c" : thread ? "t" : "ct", flags: args.match(/--[a-z]+/g) || undefined, values: values || undefined };
  });
}

const flagHelp = {
  "--backend": "which kind of sandbox",
  "--workspace": "which workspace",
  "--model": "which model",
  "--title": "the thread's title",
  "--from": "the session to start from",
  "--": "what follows is the task",
};

const prefixes = ["/agent", "@countersign"];

// suggest lists what may come next. text is what stands before the caret; place is
// "c" or "t"; known has backends, models and sessions, each a list of {name, does},
// and the server's commands. An item's text replaces everything before the caret.
export function suggest(text, place, known) {
  if (/\n/.test(text)) return [];
  if (/^[/@]\w*$/.test(text)) {
    const typed = text.toLowerCase();
    return prefixes.filter((p) => p.startsWith(typed) && p !== typed).map((p) => ({ text: p + " ", label: p, does: "speak to the agent or give a command" }));
  }
  const m = /^(\/agent|@countersign)\s+(.*)$/is.exec(text);
  if (!m) return [];
  const tokens = m[2].split(/\s+/);
  const last = tokens.pop();
  const lead = text.slice(0, text.length - last.length);
  const commands = (known.commands?.length ? listed(known.commands) : builtIn).filter((c) => c.where.includes(place));
  if (!tokens.length) return commandItems(commands, lead, last);
  const command = commands.find((c) => c.name === tokens[0]);
  return command ? argumentItems(command, tokens.slice(1), last, lead, known) : [];
}

function commandItems(commands, lead, last) {
  const fit = commands.filter((c) => c.name.startsWith(last));
  if (fit.length === 1 && fit[0].name === last) return [];
  return fit.map((c) => ({ text: lead + c.name + (c.args ? " " : ""), label: c.name, args: c.args, does: c.does }));
}

function argumentItems(command, before, last, lead, known) {
  const values = { "--backend": known.backends, "--model": known.models, "--from": known.sessions };
  const offer = (list) => (list || []).filter((v) => v.name.startsWith(last) && v.name !== last).map((v) => ({ text: lead + v.name + " ", label: v.name, does: v.does }));
  const previous = before[before.length - 1];
  if (previous in values) return offer(values[previous]);
  if (command.values && !before.length) return offer(known[command.values]);
  if (!command.flags || !onlyFlags(before, command.flags)) return [];
  const used = new Set(before);
  const fit = command.flags.filter((f) => f.startsWith(last) && f !== last && !used.has(f));
  if (last !== "" && !last.startsWith("-")) return [];
  return fit.map((f) => ({ text: lead + f + " ", label: f, does: flagHelp[f] }));
}

// onlyFlags says whether the words so far are flags and their values: behind the
// task's first word nothing is a flag any more.
function onlyFlags(words, flags) {
  for (let i = 0; i < words.length; i += 2) if (!flags.includes(words[i])) return false;
  return words.length % 2 === 0;
}

// backendOf is the backend that the text names, or "".
export function backendOf(text) {
  const m = /^(?:\/agent|@countersign)\s+run\s+(?:--(?!backend\s)\w+\s+\S+\s+)*--backend\s+(\S+)/i.exec(text);
  return m ? m[1] : "";
}

// withBackend is the text with another backend named in it; "" names none.
export function withBackend(text, backend) {
  const m = /^(\/agent|@countersign)(?:\s+(.*))?$/is.exec(text.trimStart());
  const prefix = m ? m[1] : "/agent";
  let rest = (m ? m[2] || "" : text).trimStart();
  let flags = "";
  if (/^run(\s|$)/.test(rest)) {
    rest = rest.slice(3).trimStart();
    for (let f; (f = /^--(?!backend\s)\w+\s+(?:"[^"]*"|\S+)(?:\s+|$)/.exec(rest) || /^--backend\s+\S+(?:\s+|$)/.exec(rest)); rest = rest.slice(f[0].length)) {
      if (!f[0].startsWith("--backend")) flags += f[0].trimEnd() + " ";
    }
    rest = rest.replace(/^--\s+/, "");
  }
  if (backend) return `${prefix} run --backend ${backend} ${flags}${rest}`;
  return flags ? `${prefix} run ${flags}${rest}` : `${prefix} ${rest}`;
}
