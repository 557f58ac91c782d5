// The server's API: requests with the token and the speaker's name, errors as
// sentences, and the stream of events.

const base = "/api/v1";

// Longer than the server waits for Temporal before it answers 503: 40 s.
const requestTimeout = 45_000;

// ApiError is an answer that is no success. status 0: no answer came.
export class ApiError extends Error {
  constructor(status, code, message, hint) {
    super(message);
    this.status = status;
    this.code = code;
    this.hint = hint || "";
  }

  // sentence is what to tell a person.
  get sentence() {
    return this.hint ? `${this.message} ${this.hint}` : this.message;
  }
}

// Client calls the API with one token as one person.
export class Client {
  constructor(token, actAs) {
    this.token = token;
    this.actAs = actAs;
  }

  headers(extra) {
    const headers = { Authorization: "Bearer " + this.token, ...extra };
    if (this.actAs) headers["X-Act-As"] = encodeURIComponent(this.actAs);
    return headers;
  }

  get(path) {
    return this.json("GET", path);
  }

  post(path, body, timeout) {
    return this.json("POST", path, body, timeout);
  }

  // json makes a call and returns the parsed answer, or throws an ApiError.
  async json(method, path, body, timeout = requestTimeout) {
    const init = { method, headers: this.headers(), cache: "no-store" };
    if (body !== undefined) {
      init.body = JSON.stringify(body);
      init.headers["Content-Type"] = "application/json";
    }
    const res = await this.fetch(path, { ...init, signal: AbortSignal.timeout(timeout) });
    try {
      return await res.json();
    } catch {
      throw new ApiError(0, "no_answer", "The server's answer did not arrive whole.");
    }
  }

  // fetch is the browser's, with the token, throwing ApiError.
  async fetch(path, init = {}) {
    let res;
    try {
      res = await fetch(base + path, { headers: this.headers(), ...init });
    } catch (err) {
      const late = err.name === "TimeoutError";
      if (err.name === "AbortError") throw err;
      throw new ApiError(0, late ? "timeout" : "unreachable", late ? "The server did not answer in time." : "The server cannot be reached.");
    }
    if (res.ok) return res;
    throw await failure(res);
  }
}

async function failure(res) {
  let error = {};
  try {
    error = (await res.json()).error || {};
  } catch {
    // An answer from something between us and the server: the status says it all.
  }
  return new ApiError(res.status, error.code || "http_" + res.status, error.message || `The server answered ${res.status}.`, error.hint);
}

export const path = (...parts) => "/" + parts.map(encodeURIComponent).join("/");

// newID names a send or a click, so that a retry is known as the same.
export function newID() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

// sseParser calls emit with {id, data} for each event in the chunks of text that
// the returned function is given.
export function sseParser(emit) {
  let rest = "";
  let id = null;
  let data = [];
  return (chunk) => {
    const lines = (rest + chunk).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (data.length) emit({ id, data: data.join("\n") });
        data = [];
      } else if (line.startsWith("data:")) {
        data.push(line.slice(line[5] === " " ? 6 : 5));
      } else if (line.startsWith("id:")) {
        id = line.slice(3).trim();
      }
    }
  };
}

// The server sends something at least every 20 s.
const silenceLimit = 45_000;
const firstDelay = 500;
const longestDelay = 10_000;

// EventStream follows /events for as long as it is started, from where it was.
// EventSource is of no use here: it cannot send the token in a header.
export class EventStream {
  // on.message gets each message, on.open is called whenever a stream is open (what
  // came before it may have been missed), on.state gets "open",
  // "connecting" or "waiting", on.denied is called once when the token is not
  // accepted, and on.lost gives the event to go on from when the server does not
  // know the last one any more.
  constructor(client, on) {
    this.client = client;
    this.on = on;
    this.after = null;
    this.running = false;
    this.delay = firstDelay;
  }

  start(after) {
    if (after !== undefined && after !== null) this.after = after;
    if (this.running) return;
    this.running = true;
    this.loop();
  }

  stop() {
    this.running = false;
    this.abort?.abort();
    this.wake?.();
  }

  // retryNow ends the wait for the next attempt.
  retryNow() {
    this.delay = firstDelay;
    this.wake?.();
  }

  async loop() {
    const mine = (this.generation = (this.generation || 0) + 1);
    while (this.running && mine === this.generation) {
      this.on.state("connecting");
      try {
        await this.follow();
      } catch (err) {
        if (err.status === 401 || err.status === 403) {
          this.running = false;
          this.on.denied(err);
          return;
        }
        if (err.status === 400 || err.status === 410) this.after = await this.on.lost();
      }
      if (this.running && mine === this.generation) await this.pause();
    }
  }

  async follow() {
    this.abort = new AbortController();
    let alarm;
    const listen = () => {
      clearTimeout(alarm);
      alarm = setTimeout(() => this.abort.abort(), silenceLimit);
    };
    listen();
    try {
      const query = this.after === null ? "" : "?after=" + encodeURIComponent(this.after);
      const res = await this.client.fetch("/events" + query, { signal: this.abort.signal, cache: "no-store", headers: this.client.headers({ Accept: "text/event-stream" }) });
      this.delay = firstDelay;
      this.on.state("open");
      this.on.open();
      await this.read(res.body.getReader(), listen);
    } finally {
      clearTimeout(alarm);
      this.abort.abort();
    }
  }

  async read(reader, listen) {
    const decoder = new TextDecoder();
    const feed = sseParser(({ id, data }) => {
      if (id !== null && id !== "") this.after = id;
      let message;
      try {
        message = JSON.parse(data);
      } catch {
        return;
      }
      this.on.message(message);
    });
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      listen();
      feed(decoder.decode(value, { stream: true }));
    }
  }

  pause() {
    const delay = this.delay * (0.75 + Math.random() / 2);
    this.delay = Math.min(this.delay * 2, longestDelay);
    this.on.state("waiting");
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, delay);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
