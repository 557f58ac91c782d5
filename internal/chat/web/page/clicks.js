// Clicks on a message's buttons, and what the clicker is told about them.
import { path } from "./api.js";
import { toast } from "./dialogs.js";
import { plain } from "./format.js";

// After this long a click's answer no longer comes: the server gives up after 20 s.
const clickTimeout = 22_000;
export const unconfirmed = "Not confirmed: the server did not answer in time. If your click was recorded, the card shows it; else click again.";

export const outcomes = {
  recorded: "Recorded.",
  not_yours: "Your click does not count here.",
  already_decided: "Somebody has already decided this.",
  expired: "This has expired.",
  changed: "The command has changed since; look at the new request below.",
  unconfirmed,
};

// sendClick brings a click to the server.
export const sendClick = (app, message, button, values) => app.client.post(path("messages", message.id, "click"), { button, values }, clickTimeout);

// sentenceOf is an answer in words.
export const sentenceOf = (answer) => plain(answer.text || "") || outcomes[answer.outcome] || "The server answered: " + answer.outcome;

// failureOf is what to say when no answer came, or a refusal.
export const failureOf = (err) => (err.status > 0 && err.status < 500 ? err.sentence : unconfirmed);

// click sends a click and tells the clicker what became of it.
export async function click(app, message, button, values = {}) {
  app.view.busy.set(message.id, button);
  app.schedule();
  let answer;
  try {
    answer = await sendClick(app, message, button, values);
    tellOutcome(answer);
  } catch (err) {
    if (err.status === 401) app.gate();
    else toast(failureOf(err), { kind: "bad" });
  }
  app.view.busy.delete(message.id);
  app.schedule();
  return answer;
}

export function tellOutcome(answer) {
  toast(sentenceOf(answer), { kind: answer.outcome === "recorded" ? "ok" : "bad" });
}

// articleOf finds the message again when what had the focus is gone.
export const articleOf = (message) => () => document.getElementById("m-" + message.id);
