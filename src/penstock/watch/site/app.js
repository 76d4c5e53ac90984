// The live view: ten pages, one stream, keys as in the terminal.

import { Stream, call, logIn, logInWith, logOut } from "./api.js";
import { clock, h, line, many } from "./dom.js";
import { HeldPage } from "./held.js";
import { PAGES } from "./tables.js";
import { Traffic } from "./traffic.js";

const NAMES = ["Traffic", "Held", "Sessions", "Tools", "Rules", "Upstreams", "History", "Log", "Alerts", "Patterns"];
const ROLES = ["view", "approve", "control"];
const KEYS = [["1 - 9, 0", "pages"], ["/", "filter"], ["j k g G", "down, up, first, last"], ["Enter, Esc", "open, close a message"], ["f", "follow"], ["b", "breakpoint of this filter"], ["a", "approve or release"], ["e", "edit"], ["x", "deny or drop"], ["r", "replay"], ["v", "reveal"], ["y", "copy"], ["?", "this page"]];

class App {
  constructor() {
    this.page = 1;
    this.role = "view";
    this.who = "";
    this.isConnected = false;
    this.lastData = 0;
    this.jobs = new Set();
    this.main = document.getElementById("main");
    this.banner = document.getElementById("banner");
    this.live = document.getElementById("live");
    this.traffic = new Traffic(this);
    this.held = new HeldPage(this);
    this.stream = new Stream((event, data) => this.heard(event, data));
    this.build();
    document.addEventListener("keydown", (event) => this.pressed(event));
    document.addEventListener("visibilitychange", () => this.stream.restart(this.traffic.filter, document.hidden ? "held" : ""));
  }

  build() {
    this.tabs = NAMES.map((name, place) => h("button", { type: "button", onclick: () => this.go(place + 1) }, h("kbd", { "aria-hidden": "true", text: String((place + 1) % 10) }), name));
    this.badge = h("span", { class: "count", hidden: true });
    this.tabs[1].append(this.badge);
    this.state = h("span", { class: "state" });
    const theme = h("button", { class: "plain", type: "button", "aria-label": "Light or dark", title: "light or dark", text: "◐", onclick: () => this.turn() });
    const help = h("button", { class: "plain", type: "button", "aria-label": "Keys", title: "keys", text: "?", onclick: () => this.help() });
    const leave = h("button", { class: "plain", type: "button", text: "log out", onclick: () => { logOut(); this.over("You have logged out."); } });
    document.getElementById("top").replaceChildren(h("div", { class: "brand" }, h("img", { src: "/icon.svg", alt: "" }), "Penstock"), h("nav", { "aria-label": "Pages" }, this.tabs), this.state, theme, help, leave);
    const kept = localStorage.getItem("penstock-theme");
    if (kept) document.documentElement.dataset.theme = kept;
  }

  async start() {
    try {
      if (!(await logIn())) { this.over("Log in first."); return; }
    } catch (why) {
      this.over(why.message);
      return;
    }
    this.go(1);
    this.traffic.refresh();
    this.stream.run();
  }

  over(why) {
    this.stream.wanted = false;
    this.stream.abort?.abort();
    const entry = h("input", { type: "password", id: "token", "aria-label": "Token", autocomplete: "off" });
    const fault = h("p", { class: "fault", role: "alert" });
    const form = h("form", { class: "bar", onsubmit: async (event) => {
      event.preventDefault();
      try { await logInWith({ token: entry.value }); location.reload(); } catch (error) { fault.textContent = line(error.message); }
    } }, h("label", { for: "token", text: "Your token" }), entry, h("button", { class: "plain go", text: "log in" }));
    this.main.replaceChildren(h("div", { class: "empty" }, h("h1", { text: "Log in" }), h("p", { text: line(why) }), h("p", { text: "On this machine, this opens the page logged in:" }), h("code", { text: `penstock watch --web ${location.port}` }), form, fault));
    this.state.textContent = "";
  }

  may(role) {
    return this.isConnected && ROLES.indexOf(this.role) >= ROLES.indexOf(role);
  }

  go(page) {
    this.page = page;
    clearInterval(this.timer);
    this.tabs.forEach((tab, place) => (place + 1 === page ? tab.setAttribute("aria-current", "page") : tab.removeAttribute("aria-current")));
    this.tabs[page - 1].scrollIntoView({ block: "nearest", inline: "nearest" });
    document.title = `${NAMES[page - 1]} · Penstock`;
    if (page === 1) this.traffic.show(this.main);
    else if (page === 2) this.held.show(this.main);
    else {
      this.redraw();
      if (PAGES[page].again) this.timer = setInterval(() => this.redraw(true), PAGES[page].again);
    }
  }

  async redraw(isAgain = false) {
    const page = this.page;
    if (!PAGES[page]) return;
    if (isAgain && (document.hidden || this.main.querySelector("input:focus, textarea:focus, .wide:focus, button:focus"))) return;
    try {
      const drawn = await PAGES[page].draw(this);
      if (page !== this.page) return;
      const top = (this.drawn === page && this.main.querySelector(".page")?.scrollTop) || 0;
      this.drawn = page;
      const element = h("div", { class: "page" }, drawn);
      this.main.replaceChildren(h("h1", { class: "sr", text: PAGES[page].name }), element);
      element.scrollTop = top;
    } catch (why) {
      if (why.status === 401) this.over("Your login is over.");
      else if (!isAgain) this.say(why.message);
    }
  }

  filterFor(words) {
    this.go(1);
    this.traffic.setFilter(words);
  }

  // --- the stream ----------------------------------------------------------------------------------------

  heard(event, data) {
    if (event === "lost") { this.connected(false); return; }
    if (event === "over") { this.over("Your login is over."); return; }
    if (event === "busy") { this.say("Too many tabs of this login; this one looks now and then."); this.traffic.refresh(); return; }
    this.lastData = Date.now() / 1000;
    if (event === "hello") {
      this.role = data.role;
      this.who = data.who;
      this.source = data.source;
      this.held.set(data.held);
      this.connected(true);
      if (data.reset) { this.traffic.startOver(); this.say("The hub was started again; messages have new numbers."); }
    } else if (event === "rows") {
      this.traffic.gaps += 0;
      this.traffic.arrived(data);
    } else if (event === "change") this.traffic.changed(data);
    else if (event === "tick") { this.rate = data.total; this.traffic.total = data.total; this.showState(); }
    else if (event === "held") this.held.came(data);
    else if (event === "decided") this.held.went(data);
    else if (event === "gap") { this.traffic.gaps += data.count; this.traffic.draw(); }
    else if (event === "bye") this.connected(false);
  }

  connected(isConnected) {
    const was = this.isConnected;
    this.isConnected = isConnected;
    this.banner.textContent = isConnected ? "" : `Disconnected. Last data ${this.lastData ? clock(this.lastData) : "never"}. Nothing can be decided until the hub is back.`;
    this.showState();
    if (was !== isConnected) {
      this.held.redraw();
      this.traffic.pointButton.disabled = !this.may("control");
      this.traffic.draw();
      if (isConnected && !was && this.page > 2) this.redraw();
      if (this.traffic.open) this.traffic.drawDetail();
    }
  }

  showState() {
    this.state.replaceChildren(h("span", {}, h("span", { class: `dot${this.isConnected ? "" : " off"}` }), this.isConnected ? (this.source === "recording" ? "recording" : "live") : "disconnected"), h("span", { class: "hide-s", text: `${line(this.who)} · ${this.role}` }));
  }

  counted(number) {
    this.badge.hidden = number === 0;
    this.badge.textContent = many(number);
    this.badge.setAttribute("aria-label", `${number} held`);
  }

  announce(text) {
    this.live.textContent = text;
  }

  say(text) {
    this.banner.textContent = line(text);
    clearTimeout(this.saying);
    this.saying = setTimeout(() => { if (this.isConnected) this.banner.textContent = ""; }, 6000);
  }

  // Runs a drawing once a frame, however often it is asked for.
  soon(job) {
    this.next = job;
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => { this.isDue = false; this.next(); });
  }

  // Asks once more: the second click within four seconds does it.
  sure(button, go) {
    if (button.dataset.asked) {
      delete button.dataset.asked;
      go();
      return;
    }
    const words = button.textContent;
    button.dataset.asked = "yes";
    button.classList.add("sure");
    button.textContent = `sure? ${words}`;
    setTimeout(() => { if (button.isConnected) { delete button.dataset.asked; button.classList.remove("sure"); button.textContent = words; } }, 4000);
  }

  async breakpoint() {
    const words = this.traffic.filter;
    if (this.traffic.wanted !== words) { this.say("The filter cannot be read; mend it first."); return; }
    if (!words.trim()) { this.say("Type a filter first: a breakpoint holds what it finds."); return; }
    try {
      await call("PUT", `breakpoints/p${Date.now().toString(36)}`, { filter: words });
      this.say(`Breakpoint set: ${words}. What it finds waits on page 2.`);
    } catch (why) { this.say(why.message); }
  }

  turn() {
    const root = document.documentElement;
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    localStorage.setItem("penstock-theme", root.dataset.theme);
  }

  help() {
    const close = h("button", { class: "plain", type: "button", text: "close", onclick: () => box.close() });
    const box = h("dialog", { "aria-label": "Keys" }, h("h2", { text: "Keys" }), h("table", {}, KEYS.map(([keys, what]) => h("tr", {}, h("td", {}, h("kbd", { text: keys })), h("td", { text: what })))), close);
    box.addEventListener("close", () => box.remove());
    document.body.append(box);
    box.showModal();
  }

  pressed(event) {
    const isTyping = event.target.matches?.("input, textarea, select");
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping || document.querySelector("dialog[open]")) return;
    const key = event.key, traffic = this.traffic;
    if (/^[0-9]$/.test(key)) this.go(Number(key) || 10);
    else if (key === "/") { this.go(1); traffic.input.focus(); traffic.input.select(); }
    else if (key === "?") this.help();
    else if (this.page === 2 && "aex".includes(key)) this.held.press(key);
    else if (this.page === 2 && (key === "j" || key === "k")) this.held.move(key === "j" ? 1 : -1);
    else if (this.page !== 1) return;
    else if (key === "j" || key === "ArrowDown") traffic.move(1);
    else if (key === "k" || key === "ArrowUp") traffic.move(-1);
    else if (key === "g" || key === "Home") traffic.move("first");
    else if (key === "G" || key === "End") { traffic.move("last"); }
    else if (key === "Enter" && !event.target.matches?.("button, a") && traffic.rank >= 0) traffic.select(traffic.rank);
    else if (key === "Escape") traffic.close();
    else if (key === "f") traffic.setFollow(!traffic.follow);
    else if (key === "b") this.breakpoint();
    else if (key === "v") traffic.reveal();
    else if (key === "y") traffic.copy();
    else if (key === "r") [...traffic.detail.querySelectorAll("button")].find((one) => /replay$/.test(one.textContent))?.click();
    else return;
    event.preventDefault();
  }
}

new App().start();
