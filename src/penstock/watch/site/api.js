// Talking to the hub: a bearer token in sessionStorage, JSON, and one stream of events by fetch.

const KEY = "penstock-token";
const SILENCE = 5000; // the hub says something every second; after so much silence it hangs
let token = sessionStorage.getItem(KEY);

export class ApiError extends Error {
  constructor(status, error) {
    super(error?.message ?? `Status ${status}`);
    this.status = status;
    this.code = error?.code ?? "";
    this.column = error?.column;
  }
}

// Exchanges the code in the fragment, once; it is taken out of the address first.
export async function logIn() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (location.hash) history.replaceState(null, "", location.pathname);
  if (code) await logInWith({ code });
  return token !== null;
}

export async function logInWith(body) {
  const answer = await fetch("/api/v1/login", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  const value = await answer.json();
  if (!answer.ok) {
    if (token === null) throw new ApiError(answer.status, value.error);
    return;
  }
  token = value.token;
  sessionStorage.setItem(KEY, token);
}

export function logOut() {
  if (token) call("POST", "logout", {}).catch(() => {});
  forget();
}

function forget() {
  token = null;
  sessionStorage.removeItem(KEY);
}

export async function call(method, path, body) {
  const options = { method, headers: { Authorization: `Bearer ${token}` } };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const answer = await fetch(`/api/v1/${path}`, options);
  const value = await answer.json();
  if (!answer.ok) {
    if (answer.status === 401) forget();
    throw new ApiError(answer.status, value.error);
  }
  return value;
}

export const get = (path) => call("GET", path);

// Follows the events; calls `on(event, data)`. Comes back by itself, from where it was.
export class Stream {
  constructor(on) {
    this.on = on;
    this.last = "";
    this.filter = "";
    this.only = "";
    this.abort = null;
    this.wanted = true;
  }

  restart(filter, only = this.only) {
    this.filter = filter;
    this.only = only;
    this.abort?.abort();
  }

  async run() {
    let wait = 200;
    while (this.wanted) {
      this.abort = new AbortController();
      try {
        const query = new URLSearchParams({ filter: this.filter, after: this.last, only: this.only });
        const answer = await fetch(`/api/v1/events?${query}`, { headers: { Authorization: `Bearer ${token}` }, signal: this.abort.signal });
        if (answer.status === 401) { forget(); this.on("over", {}); return; }
        if (answer.status === 429) { this.on("busy", {}); await pause(2000); continue; }
        if (answer.status === 422) { await pause(500); continue; }
        if (!answer.ok) throw new Error(`status ${answer.status}`);
        wait = 200;
        await this.read(answer.body.getReader());
        this.on("lost", {});
      } catch (why) {
        if (why.name === "AbortError") continue;
        this.on("lost", {});
      }
      await pause(wait);
      wait = Math.min(wait * 1.6, 3000);
    }
  }

  async read(reader) {
    const decoder = new TextDecoder();
    let text = "";
    for (;;) {
      const alarm = setTimeout(() => reader.cancel().catch(() => {}), SILENCE);
      const { value, done } = await reader.read();
      clearTimeout(alarm);
      if (done) return;
      text += decoder.decode(value, { stream: true });
      let end;
      while ((end = text.indexOf("\n\n")) >= 0) {
        const block = text.slice(0, end);
        text = text.slice(end + 2);
        const event = { event: "message", data: "" };
        for (const one of block.split("\n")) {
          const colon = one.indexOf(": ");
          event[one.slice(0, colon)] = one.slice(colon + 2);
        }
        if (event.id) this.last = event.id;
        this.on(event.event, JSON.parse(event.data || "{}"));
      }
    }
  }
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
