// Page 2: messages that wait for a person. Nothing is decided by one click, and never several at once.

import { call } from "./api.js";
import { h, line, many } from "./dom.js";
import { pretty } from "./json.js";

export class HeldPage {
  constructor(app) {
    this.app = app;
    this.held = new Map();
    this.decided = [];
    this.chosen = null;
    this.editing = null;
    setInterval(() => this.tick(), 1000);
  }

  set(list) {
    this.held = new Map(list.map((one) => [one.id, one]));
    this.redraw();
  }

  came(one) {
    const isNew = !this.held.has(one.id);
    this.held.set(one.id, one);
    if (isNew) this.app.announce(`Held: ${line(one.method)} ${line(one.tool)}. Press 2 to decide.`);
    this.redraw();
  }

  went(one) {
    const was = this.held.get(one.id);
    this.held.delete(one.id);
    if (was) {
      this.decided.unshift({ ...was, how: one.how, who: one.who });
      this.decided.length = Math.min(this.decided.length, 30);
    }
    if (this.editing === one.id) this.editing = null;
    this.redraw();
  }

  get current() {
    return this.held.get(this.chosen) ?? this.held.values().next().value;
  }

  move(step) {
    const ids = [...this.held.keys()];
    if (!ids.length) return;
    const place = Math.max(0, ids.indexOf(this.current?.id));
    this.chosen = ids[Math.max(0, Math.min(ids.length - 1, place + step))];
    this.redraw();
  }

  show(main) {
    this.main = h("div", { class: "page" });
    main.replaceChildren(h("h1", { class: "sr", text: "Held messages" }), this.main);
    this.redraw();
  }

  redraw() {
    this.app.counted(this.held.size);
    if (!this.main?.isConnected) return;
    if (this.editing) {
      for (const button of this.main.querySelectorAll("button.go")) button.disabled = !this.app.may("control");
      return;
    }
    const focused = this.main.contains(document.activeElement) ? document.activeElement.dataset?.name : null;
    const cards = [...this.held.values()].map((one) => this.card(one));
    const past = this.decided.length ? [h("h2", { text: "Decided" }), h("ul", {}, this.decided.map((one) => h("li", { class: "soft", text: `${line(one.method)} ${line(one.tool)}: ${one.how}${one.who ? ` by ${line(one.who)}` : ""}` })))] : [];
    this.main.replaceChildren(...(cards.length ? cards : [this.nothing()]), ...past);
    if (focused) this.main.querySelector(`[data-name="${CSS.escape(focused)}"]`)?.focus();
  }

  nothing() {
    return h("div", { class: "empty" }, h("h2", { text: "Nothing waits" }), h("p", { text: "A message is held where a breakpoint finds it (page 1: type a filter, press b), or where a rule says approve:" }),
      h("pre", { class: "line" , text: "interceptor:\n  rules:\n    - id: ask\n      conditions: [{tool: deploy}]\n      actions: [{approve: {note: \"deploys\"}}]" }));
  }

  card(one) {
    const title = `${one.from === "client" ? line(one.client || "client") : line(one.at)} → ${one.from === "client" ? line(one.at) : line(one.client || "client")}: ${line(one.method)} ${line(one.tool)}`;
    const left = h("span", { class: "clock", "data-until": one.until, text: remaining(one.until) });
    const reason = h("input", { type: "text", "aria-label": "Words for the client, when you deny", placeholder: "reason, if you deny", "data-name": `reason ${one.id}` });
    const isApproval = one.kind === "approve";
    const act = (name, label, kind, go, role = "approve") => h("button", { type: "button", class: kind, "data-name": `${name} ${one.id}`, disabled: !this.app.may(role), onclick: (event) => this.app.sure(event.target, go), text: label });
    return h("article", { class: `card${this.current?.id === one.id ? " sel" : ""}`, "aria-label": title, "data-held": one.id },
      h("h3", { text: title }),
      h("p", { class: "meta" }, `${isApproval ? "rule" : ""} ${line(one.rule)} · ${line(one.message_kind)} · ${many(one.text.length)} characters · sha ${one.sha.slice(0, 12)} · `, left, one.passes ? " then it passes" : " then it is blocked"),
      one.note ? h("p", { text: line(one.note) }) : null,
      pretty(one.value || one.text),
      h("div", { class: "actions" },
        act("release", isApproval ? "approve" : "release", "go", () => this.decide(one, { action: "release" })),
        h("button", { type: "button", "data-name": `edit ${one.id}`, disabled: !this.app.may("control") || !one.part, onclick: () => this.edit(one), text: "edit" }),
        act("deny", isApproval ? "deny" : "drop", "stop", () => this.decide(one, { action: "deny", text: reason.value })),
        h("button", { type: "button", "data-name": `extend ${one.id}`, disabled: !this.app.may("approve"), onclick: () => this.decide(one, { action: "extend" }), text: "+50 s" }),
        reason));
  }

  edit(one) {
    this.editing = one.id;
    const area = h("textarea", { "aria-label": `The ${one.part} of the message`, spellcheck: "false", value: one.value, rows: "12" });
    const fault = h("div", { class: "fault", role: "alert" });
    const done = () => { this.editing = null; this.redraw(); };
    const card = this.main.querySelector(`[data-held="${CSS.escape(one.id)}"]`);
    card.replaceChildren(h("h3", { text: `Edit the ${one.part} of ${line(one.method)} ${line(one.tool)}` }),
      h("p", { class: "meta", text: "Id and method stay. What you send goes through filter and rules like any message." }), area, fault,
      h("div", { class: "actions" },
        h("button", { type: "button", class: "go", text: "send the edit", onclick: (event) => this.app.sure(event.target, async () => { const why = await this.decide(one, { action: "edit", part: one.part, value: area.value }); if (why) fault.textContent = line(why); else done(); }) }),
        h("button", { type: "button", text: "leave it", onclick: done })));
    area.focus();
  }

  async decide(one, body) {
    try {
      await call("POST", `held/${encodeURIComponent(one.id)}`, { sha: one.sha, ...body });
      return "";
    } catch (why) {
      this.app.say(why.message);
      return why.message;
    }
  }

  tick() {
    for (const clock of document.querySelectorAll("[data-until]")) clock.textContent = remaining(Number(clock.dataset.until));
  }

  press(key) {
    const one = this.current;
    if (!one) return;
    const name = { a: "release", e: "edit", x: "deny" }[key];
    const button = this.main?.querySelector(`[data-name="${CSS.escape(`${name} ${one.id}`)}"]`);
    button?.focus();
    button?.click();
  }
}

function remaining(until) {
  const left = Math.max(0, Math.round(until - Date.now() / 1000));
  return `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
}
