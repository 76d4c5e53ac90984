// Page 1: the traffic, as a list of any length of which only what is on screen is in the page, and one message.

import { call, get } from "./api.js";
import { clock, h, line, many, short } from "./dom.js";
import { diff, hex, plain, pretty } from "./json.js";

const HEIGHT = 24, PAGE = 200, MOST_PAGES = 20;
const ARROWS = { client: "→", upstream: "←", penstock: "•" };
const WORDS = { client: "from the client", upstream: "from the upstream", penstock: "from Penstock" };
const COLUMNS = ["time", "at", "", "method", "name", "ms", "tok", "verdict", "rule"];
const NARROW = [1, 6, 8];

export class Traffic {
  constructor(app) {
    this.app = app;
    this.filter = ""; // the one whose rows are shown
    this.wanted = ""; // the one that was typed: it may have a fault
    this.total = 0;
    this.matched = 0;
    this.rows = new Map(); // by rank
    this.bySeq = new Map();
    this.asked = new Map(); // pages under way or here, oldest first
    this.follow = true;
    this.loads = 0;
    this.rank = -1; // the selected row
    this.elements = [];
    this.gaps = 0;
    this.tab = "pretty";
    this.open = null;
    this.build();
  }

  build() {
    this.input = h("input", { type: "text", id: "filter", "aria-label": "Filter", placeholder: "filter: tool:git_* ms>500   verdict:block   arg.path~^/etc", spellcheck: "false", autocomplete: "off", oninput: () => this.typed(), onkeydown: (event) => { if (event.key === "Escape") { this.input.blur(); this.scroller.focus(); } if (event.key === "Enter") this.scroller.focus(); } });
    this.count = h("span", { class: "soft", id: "count" });
    this.followButton = h("button", { class: "plain", type: "button", "aria-pressed": "true", onclick: () => this.setFollow(!this.follow), text: "follow" });
    this.pointButton = h("button", { class: "plain", type: "button", title: "Hold messages that this filter finds", onclick: () => this.app.breakpoint(), text: "breakpoint" });
    this.fault = h("div", { class: "fault", id: "fault", role: "alert" });
    this.space = h("div", { class: "space", role: "rowgroup" });
    this.scroller = h("div", { class: "scroller", role: "grid", tabindex: "0", "aria-label": "Messages", "aria-colcount": COLUMNS.length, onscroll: () => this.scrolled() }, this.space);
    const head = h("div", { class: "gridhead", "aria-hidden": "true" }, COLUMNS.map((name, column) => h("div", { class: `${[5, 6].includes(column) ? "num" : ""} ${NARROW.includes(column) ? "hide-s" : ""}`, text: name })));
    this.none = h("div", { class: "empty", hidden: true });
    this.list = h("section", { class: "list", "aria-label": "Traffic" }, head, this.scroller, this.none);
    this.detail = h("section", { class: "detail", "aria-label": "Message", hidden: true });
    this.element = h("div", { class: "split" }, this.list, this.detail);
    this.bar = h("div", { class: "bar" }, this.input, this.count, this.followButton, this.pointButton, this.fault);
    new ResizeObserver(() => this.draw()).observe(this.scroller);
  }

  show(main) {
    main.replaceChildren(h("h1", { class: "sr", text: "Traffic" }), this.bar, this.element);
    const top = this.top ?? 0; // leaving the page has taken it to the top
    this.draw();
    if (this.follow) this.toEnd();
    else this.scroller.scrollTop = top;
  }

  typed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.setFilter(this.input.value), 150);
  }

  async setFilter(words) {
    this.wanted = words;
    if (this.input.value !== words) this.input.value = words;
    await this.refresh(words);
  }

  clear() {
    this.rows.clear();
    this.bySeq.clear();
    this.asked.clear();
  }

  // Another hub answers: it has numbers of its own, and what is open may mean another message there.
  startOver() {
    this.clear();
    this.gaps = 0;
    this.rank = -1;
    this.shut();
    this.refresh();
  }

  async refresh(words = this.filter) {
    try {
      const page = await get(`rows?${new URLSearchParams({ filter: words, rank: this.follow ? -PAGE : 0, limit: PAGE })}`);
      if (words !== this.wanted && words !== this.filter) return;
      if (words === this.wanted) {
        this.fault.textContent = "";
        this.input.removeAttribute("aria-invalid");
      }
      if (words !== this.filter) {
        this.filter = words;
        this.rank = -1;
        this.clear();
        this.app.stream.restart(words);
      }
      this.take(page);
      this.terms = page.terms;
      this.draw();
      if (this.follow) this.toEnd();
    } catch (why) {
      if (words !== this.wanted) return;
      this.input.setAttribute("aria-invalid", "true");
      const said = why.column ? `${line(words)}\n${" ".repeat(why.column - 1)}^ ${line(why.message)}` : line(why.message);
      this.fault.textContent = `${said}\nStill shown: ${line(this.filter) || "everything"}`;
    }
  }

  take(page) {
    this.total = page.total;
    this.matched = page.matched;
    page.rows.forEach((row, place) => this.put(page.rank + place, row));
  }

  put(rank, row) {
    const known = this.bySeq.get(row.seq);
    if (known) Object.assign(known, row);
    else this.bySeq.set(row.seq, row);
    this.rows.set(rank, known ?? row);
  }

  // New rows at the end, as the stream tells of them.
  arrived(data) {
    const full = data.total === this.total && data.rows.length > 0; // the oldest rows go: all ranks have moved
    const before = this.matched;
    this.total = data.total;
    this.matched = data.matched;
    if (full || data.matched - before !== data.rows.length + data.skipped) this.clear();
    data.rows.forEach((row, place) => this.put(this.matched - data.rows.length + place, row));
    if (this.rows.size > PAGE * MOST_PAGES) this.clear();
    this.drawSoon();
  }

  changed(data) {
    for (const row of data.rows) {
      const known = this.bySeq.get(row.seq);
      if (known) Object.assign(known, row);
      if (this.open?.seq === row.seq) this.openAgain = true;
    }
    if (this.matched !== data.matched) { this.matched = data.matched; if (this.filter) this.clear(); }
    this.drawSoon();
    if (this.openAgain) { this.openAgain = false; this.load(this.open.seq); }
  }

  // One job whoever asks: of several in one frame only the last is done.
  drawSoon() {
    this.app.soon(() => { if (this.follow) this.toEnd(); this.draw(); });
  }

  setFollow(follow) {
    this.follow = follow;
    this.followButton.setAttribute("aria-pressed", String(follow));
    this.followButton.classList.toggle("go", follow);
    if (follow) this.toEnd();
  }

  toEnd() {
    this.space.style.height = `${this.matched * HEIGHT}px`;
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.top = this.scroller.scrollTop;
  }

  scrolled() {
    const atEnd = this.scroller.scrollTop + this.scroller.clientHeight >= this.scroller.scrollHeight - HEIGHT * 2;
    // Only who scrolls up wants to stay: new rows move the end away before it is followed, and events come late.
    if (this.follow && !atEnd && this.scroller.scrollTop < this.top) this.setFollow(false);
    this.top = this.scroller.scrollTop;
    this.draw();
  }

  draw() {
    this.space.style.height = `${this.matched * HEIGHT}px`;
    this.scroller.setAttribute("aria-rowcount", String(this.matched));
    this.count.textContent = `${this.filter ? `${many(this.matched)} of ` : ""}${many(this.total)} messages${this.gaps ? ` · ${many(this.gaps)} not shown` : ""}`;
    this.followButton.classList.toggle("go", this.follow);
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / HEIGHT) - 4);
    const last = Math.min(this.matched, first + Math.min(90, Math.ceil(this.scroller.clientHeight / HEIGHT) + 8));
    this.want(first, last);
    let used = 0;
    for (let rank = first; rank < last; rank += 1) this.place(this.element_(used++), rank, this.rows.get(rank));
    for (const left of this.elements.slice(used)) left.hidden = true;
    this.explain();
  }

  element_(number) {
    if (!this.elements[number]) {
      const cells = COLUMNS.map((name, column) => h("div", { role: "gridcell", class: `${[5, 6].includes(column) ? "num" : ""} ${column === 2 ? "arrow" : ""} ${NARROW.includes(column) ? "hide-s" : ""}` }));
      const made = h("div", { class: "grow", role: "row", onclick: () => this.select(made.rank) }, cells);
      this.elements[number] = made;
      this.space.append(made);
    }
    this.elements[number].hidden = false;
    return this.elements[number];
  }

  place(element, rank, row) {
    element.rank = rank;
    element.style.transform = `translateY(${rank * HEIGHT}px)`;
    element.className = `grow${rank % 2 ? " odd" : ""}${rank === this.rank ? " sel" : ""}`;
    element.setAttribute("aria-rowindex", String(rank + 1));
    element.setAttribute("aria-selected", String(rank === this.rank));
    const texts = row ? cellsOf(row) : ["…", "", "", "", "", "", "", "", ""];
    texts.forEach((text, column) => { const cell = element.children[column]; if (cell.textContent !== text) cell.textContent = text; });
    element.children[2].title = row ? WORDS[row.from] ?? "" : "";
    element.children[3].className = row?.status === "error" ? "s-error" : "";
    element.children[3].title = row?.status === "error" ? "it ended with an error" : "";
    element.children[7].className = row ? `v-${row.verdict}` : "";
  }

  want(first, last) {
    for (let page = Math.floor(first / PAGE); page <= Math.floor(Math.max(first, last - 1) / PAGE); page += 1) {
      const from = Math.max(first, page * PAGE), to = Math.min(last, (page + 1) * PAGE);
      let isMissing = false;
      for (let rank = from; rank < to; rank += 1) isMissing ||= !this.rows.has(rank);
      if (isMissing && this.app.isConnected && !this.asked.has(page)) this.fetchPage(page);
    }
  }

  async fetchPage(page) {
    const words = this.filter, mark = {};
    this.asked.set(page, mark);
    try {
      const found = await get(`rows?${new URLSearchParams({ filter: words, rank: page * PAGE, limit: PAGE })}`);
      if (words === this.filter && this.asked.get(page) === mark) this.take(found);
    } catch { await new Promise((done) => setTimeout(done, 1000)); } // the banner says so
    if (this.asked.get(page) === mark) this.asked.delete(page);
    this.drawSoon();
  }

  explain() {
    const isEmpty = this.matched === 0;
    this.none.hidden = !isEmpty;
    this.scroller.hidden = isEmpty;
    if (!isEmpty) return;
    if (this.filter) {
      this.none.replaceChildren(h("h2", { text: `No message matches ${line(this.filter)}` }), h("p", { text: "Each term alone finds:" }),
        h("ul", {}, (this.terms ?? []).map((one) => h("li", { text: `${line(one.term)}: ${many(one.matched)}` }))));
    } else {
      this.none.replaceChildren(h("h2", { text: "Nothing has come by yet" }), h("p", { text: "Start a proxy with the live view on, for example:" }),
        h("code", { text: "penstock --dashboard auto -- npx -y @modelcontextprotocol/server-everything" }));
    }
  }

  // --- one message ---------------------------------------------------------------------------------------

  move(step) {
    if (this.matched === 0) return;
    const rank = step === "first" ? 0 : step === "last" ? this.matched - 1 : Math.max(0, Math.min(this.matched - 1, (this.rank < 0 ? this.matched : this.rank) + step));
    this.setFollow(step === "last");
    this.rank = rank;
    this.intoView(rank);
    this.draw();
    if (!this.detail.hidden) this.select(rank);
  }

  select(rank) {
    this.rank = rank;
    if (this.follow && rank < this.matched - 1) this.setFollow(false); // what was opened stays in sight
    const row = this.rows.get(rank);
    this.draw();
    if (row) this.load(row.seq);
    else setTimeout(() => { if (this.rank === rank && rank < this.matched) this.select(rank); }, 100); // it is on its way
  }

  intoView(rank) {
    const top = rank * HEIGHT, view = this.scroller;
    if (top < view.scrollTop) view.scrollTop = top;
    if (top + HEIGHT > view.scrollTop + view.clientHeight) view.scrollTop = top + HEIGHT - view.clientHeight;
  }

  shut() {
    this.detail.hidden = true;
    this.detail.replaceChildren(); // what was revealed is gone from the page, too
    this.open = null;
    this.loads += 1; // one that is on its way opens nothing any more
  }

  close() {
    this.shut();
    if (this.rank >= 0) this.intoView(this.rank);
    this.scroller.focus();
    this.draw();
  }

  async load(seq) {
    const number = (this.loads += 1);
    try {
      const message = await get(`messages/${seq}`);
      if (number !== this.loads) return; // another was asked for meanwhile
      this.open = message;
      this.drawDetail();
    } catch (why) {
      this.app.say(why.message);
    }
  }

  drawDetail(note) {
    const message = this.open;
    const tabs = ["pretty", "bytes", "hex", "diff", "timing", "why"].map((name) => h("button", { type: "button", role: "tab", "aria-selected": String(name === this.tab), text: name, onclick: () => { this.tab = name; this.drawDetail(); } }));
    const buttons = [
      h("button", { type: "button", text: message.revealed_for ? `shown for ${message.revealed_for} s` : "reveal", title: "Show it unmasked for a minute; this is written down", disabled: !message.masked || !this.app.may("approve"), onclick: () => this.reveal() }),
      h("button", { type: "button", text: "copy", onclick: () => this.copy() }),
      h("button", { type: "button", text: "replay", disabled: !(message.kind === "request" && message.from === "client" && this.app.may("control")), onclick: (event) => this.app.sure(event.target, () => this.replay()) }),
      message.answer || message.request ? h("button", { type: "button", text: message.answer ? "its answer" : "its request", onclick: () => this.load(message.answer || message.request) }) : null,
    ];
    const title = `${message.kind === "response" ? "answer to " : ""}${message.method || message.kind}${message.tool ? ` · ${message.tool}` : ""}`;
    const facts = [`${clock(message.t)}`, message.at, `${WORDS[message.from]}`, message.client && `client ${message.client}`, message.era, `id ${message.id || "none"}`, `${many(message.size)} bytes`, `about ${many(message.tokens)} tokens`].filter(Boolean).join(" · ");
    const focus = this.detail.contains(document.activeElement) ? document.activeElement.textContent : null;
    const close = h("button", { class: "plain close", type: "button", "aria-label": "Close", title: "close (Esc)", text: "✕", onclick: () => this.close() });
    this.detail.replaceChildren(h("div", { class: "head" }, h("h2", { text: line(title) }), close), h("div", { class: "actions" }, buttons),
      h("div", { class: "tabs", role: "tablist", "aria-label": "How to show it" }, tabs),
      h("div", { class: "body", tabindex: "0", role: "region", "aria-label": "Message text" }, note ?? null, h("p", { class: "soft", text: line(facts) }),
        message.cut ? h("p", { class: "soft", text: `Only the first ${many(message.kept)} of ${many(message.size)} bytes are kept.` }) : null, this.drawn(message)));
    this.detail.hidden = false;
    if (focus) [...this.detail.querySelectorAll("button")].find((one) => one.textContent === focus)?.focus();
  }

  drawn(message) {
    if (this.tab === "bytes") return plain(message.text);
    if (this.tab === "hex") return hex(message.text);
    if (this.tab === "diff") return diff(message.text, message.sent);
    if (this.tab === "timing") return plain([`came ${clock(message.t)}`, `decided after ${many(message.us)} µs in Penstock, waiting included`, message.ms === null ? "no answer yet" : `answered after ${message.ms} ms`].join("\n"));
    if (this.tab === "why") return plain([`verdict ${message.verdict}`, message.rule ? `by ${message.rule}` : "by nobody: it passed", message.why ? `because: ${message.why}` : "", message.rules.length ? `rules that held: ${message.rules.join(", ")}` : "", message.code ? `code ${message.code}` : ""].filter(Boolean).join("\n"));
    return pretty(message.text);
  }

  async reveal() {
    if (!this.open) return;
    const seq = this.open.seq;
    this.loads += 1; // one that is on its way is masked
    try {
      const message = await call("POST", `messages/${seq}/reveal`, {});
      if (this.open?.seq !== seq) return; // it was closed meanwhile
      this.open = message;
      this.drawDetail();
      setTimeout(() => { if (this.open?.seq === seq) this.load(seq); }, (this.open.revealed_for + 1) * 1000);
    } catch (why) { this.app.say(why.message); }
  }

  async copy() {
    if (!this.open) return;
    try { await navigator.clipboard.writeText(this.open.text); this.app.say("Copied, as it is shown."); } catch { this.app.say("The browser does not let this page copy."); }
  }

  async replay() {
    if (!this.open) return;
    try {
      const found = await call("POST", `exchanges/${this.open.seq}/replay`, { confirmed: true });
      this.drawDetail(h("div", {}, h("p", { class: "soft", text: `Replayed on a link of its own, ${found.ms} ms:` }), pretty(found.text)));
    } catch (why) { this.app.say(why.message); }
  }
}

function cellsOf(row) {
  const method = `${row.status === "error" ? "✗ " : ""}${row.method || row.kind}`;
  return [clock(row.t), line(row.at), ARROWS[row.from] ?? "?", line(method), line(row.tool), row.ms === null ? (row.status === "pending" && row.verdict === "pass" ? "…" : "") : row.ms < 10 ? row.ms.toFixed(1) : String(Math.round(row.ms)), short(row.tokens), row.verdict, line(row.rule)];
}
