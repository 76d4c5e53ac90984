// Pages 3 to 8: what the traffic comes to.

import { call, get } from "./api.js";
import { age, bytes, clock, h, line, many, short, svg, table } from "./dom.js";
import { diff } from "./json.js";
import { alerts, patterns, rulesPage } from "./learning.js";

const RIGHT = "num";
const now = () => Date.now() / 1000;

export const PAGES = {
  3: { name: "Sessions", draw: sessions, again: 2000 },
  4: { name: "Tools", draw: tools, again: 4000 },
  5: { name: "Rules", draw: rulesPage(rules), again: 0 },
  6: { name: "Upstreams", draw: upstreams, again: 2000 },
  7: { name: "History", draw: history, again: 5000 },
  8: { name: "Log", draw: logLines, again: 2000 },
  9: { name: "Alerts", draw: alerts, again: 4000 },
  10: { name: "Patterns", draw: patterns, again: 10000 },
};

const link = (app, text, filter) => h("button", { class: "link", type: "button", text: line(text), title: "show its messages", onclick: () => app.filterFor(filter) });
const quoted = (text) => `"${String(text).replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;

async function sessions(app) {
  const found = (await get("sessions")).sessions.toSorted((a, b) => b.last - a.last);
  if (!found.length) return [nothing("No session yet")];
  return [table("Sessions", [
    ["id", (one) => link(app, one.name.slice(0, 10), `session:${quoted(one.name)}`)], ["at", (one) => one.at], ["client", (one) => one.client], ["era", (one) => one.era],
    ["age", (one) => age(now() - one.first), RIGHT], ["idle", (one) => age(now() - one.last), RIGHT], ["messages", (one) => many(one.calls), RIGHT],
    ["errors", (one) => many(one.errors), RIGHT], ["tokens", (one) => short(one.tokens), RIGHT]], found)];
}

async function tools(app) {
  const budget = app.budget ?? "";
  const found = await get(`tools?budget=${budget}`);
  const entry = h("input", { type: "text", inputmode: "numeric", "aria-label": "Budget in tokens", placeholder: "budget in tokens", value: budget, onchange: (event) => { app.budget = event.target.value.replaceAll(/\D/g, ""); app.redraw(); } });
  const about = found.budget ? [h("span", { text: `budget ${many(found.budget.most)}: ${many(found.budget.used)} used` }), found.budget.fix ? h("code", { class: "line", text: line(found.budget.fix) }) : h("span", { class: "soft", text: "it fits" })] : [];
  const bar = h("div", { class: "bar" }, entry, about);
  const tiles = h("div", { class: "tiles" }, tile(many(found.tools.filter((one) => one.state === "allowed").length), "tools allowed"), tile(many(found.tokens.allowed), "tokens they cost"), tile(many(found.tokens.denied), "tokens saved"));
  if (!found.tools.length) return [nothing("No tool list has come by yet")];
  return [tiles, bar, table("Tools", [
    ["name", (one) => link(app, one.name, `tool:${quoted(one.name)}`)], ["at", (one) => one.at], ["state", (one) => h("span", { class: one.state === "denied" ? "v-deny" : "", text: one.state })], ["why", (one) => one.why, "grow-cell"],
    ["tokens", (one) => many(one.tokens), RIGHT], ["calls", (one) => many(one.calls), RIGHT], ["p95 ms", (one) => one.p95 ?? "", RIGHT], ["errors", (one) => many(one.errors), RIGHT]],
    found.tools.toSorted((a, b) => b.calls - a.calls || b.tokens - a.tokens))];
}

const SAMPLE = "interceptor:\n  rules:\n    - id: no-writes\n      conditions: [{tool: \"write_*\"}]\n      actions: [{block: \"not today\"}]\n";

async function rules(app) {
  const found = await get("rules");
  const listed = found.rules.length ? table("Rules", [
    ["id", (one) => link(app, one.name, `rule:${quoted(one.name)}`)], ["at", (one) => one.at], ["on", (one) => (one.on ? "on" : "off")], ["actions", (one) => (one.actions ?? []).join(", ") || (one.own ? "a check of Penstock's own" : "")],
    ["hits", (one) => many(one.calls), RIGHT], ["blocked", (one) => many(one.blocked), RIGHT], ["changed", (one) => many(one.changed), RIGHT], ["p95 ms", (one) => one.p95 ?? "", RIGHT]], found.rules)
    : h("p", { class: "soft", text: "No rule has held so far." });
  const points = found.breakpoints.length ? [h("h2", { text: "Breakpoints" }), table("Breakpoints", [
    ["id", (one) => one.id], ["at", (one) => one.at], ["filter", (one) => one.filter, "grow-cell"], ["", (one) => h("button", { class: "plain stop", type: "button", text: "remove", disabled: !app.may("control"), onclick: async () => { await call("DELETE", `breakpoints/${encodeURIComponent(one.id)}`, {}).catch((why) => app.say(why.message)); app.redraw(); } })]], found.breakpoints)] : [];
  return [h("h2", { text: "Rules" }), listed, ...points, ...trying(app)];
}

function trying(app) {
  const area = h("textarea", { "aria-label": "Rules to try", spellcheck: "false", rows: "10", value: app.tried ?? SAMPLE, oninput: () => { app.tried = area.value; } });
  const out = h("div", { "aria-live": "polite" });
  const go = async () => {
    out.replaceChildren(h("p", { class: "soft", text: "Trying…" }));
    try {
      out.replaceChildren(...outcome(await call("POST", "try", { rules: area.value, filter: app.traffic.filter })));
    } catch (why) { out.replaceChildren(h("p", { class: "fault", text: line(why.message) })); }
  };
  return [h("h2", { text: "Try rules" }), h("p", { class: "soft", text: "On the messages that are kept here (those of the filter on page 1). Nothing is run, called, saved or put in force." }),
    h("div", { class: "two" }, h("div", {}, area, h("div", { class: "actions" }, h("button", { type: "button", class: "go", text: "try them", disabled: !app.may("control"), onclick: go }))), out)];
}

function outcome(found) {
  if (found.faults.length) return [h("ul", {}, found.faults.map((one) => h("li", { class: "fault", text: `line ${one.line}: ${line(one.message)}` })))];
  const tiles = h("div", { class: "tiles" }, tile(many(found.messages), "messages"), tile(many(found.blocked), "now blocked"), tile(many(found.passed), "now passed"), tile(many(found.changed), "changed"));
  return [tiles, ...found.differences.slice(0, 50).map((one) => h("div", { class: "card" }, h("h3", { text: `${line(one.method)} ${line(one.tool)}: ${one.was} → ${one.now}` }), h("p", { class: "meta", text: `rule ${line(one.rule)}${one.assumed ? " · a webhook or script was taken to allow it" : ""}` }), one.after ? diff(one.before, one.after) : null))];
}

async function upstreams(app) {
  const [found, limits] = [await get("upstreams"), await get("limits")];
  if (!found.upstreams.length) return [nothing("No proxy is running with --dashboard")];
  const state = (one) => (one.connected ? "running" : one.transport === "recording" ? "a recording" : one.ended ? "ended" : "gone");
  return [h("h2", { text: "Proxies and upstreams" }), table("Upstreams", [
    ["name", (one) => link(app, one.name, `at:${quoted(one.name)}`)], ["state", (one) => h("span", { class: one.connected ? "" : "soft", text: state(one) })], ["pid", (one) => one.pid || "", RIGHT], ["age", (one) => (one.started ? age(now() - one.started) : ""), RIGHT],
    ["cpu s", (one) => one.process.own?.cpu ?? "", RIGHT], ["memory", (one) => (one.process.own?.rss ? bytes(one.process.own.rss) : ""), RIGHT], ["pending", (one) => many(one.pending), RIGHT], ["held", (one) => many(one.held), RIGHT], ["lost", (one) => many(one.lost), RIGHT], ["upstream", (one) => one.upstream, "grow-cell"]], found.upstreams),
  h("h2", { text: "Processes" }), table("Processes", [
    ["of", (one) => one.at], ["pid", (one) => one.pid, RIGHT], ["age", (one) => age(one.age), RIGHT], ["cpu s", (one) => one.cpu, RIGHT], ["memory", (one) => (one.rss ? bytes(one.rss) : ""), RIGHT], ["command", (one) => one.command, "grow-cell"]],
    found.upstreams.flatMap((one) => (one.process.children ?? []).map((child) => ({ at: one.name, ...child })))),
  h("h2", { text: "Limits" }), table("Limits", [["what", (one) => one.name], ["used", (one) => counted(one, one.used), RIGHT], ["most", (one) => counted(one, one.most), RIGHT]], limits.limits)];
}

async function history(app) {
  const seconds = app.span ?? 3600;
  const { minutes } = await get(`stats?seconds=${seconds}`);
  const spans = [[300, "5 min"], [3600, "1 h"], [86400, "24 h"]].map(([value, name]) => h("button", { class: `plain${value === seconds ? " go" : ""}`, type: "button", "aria-pressed": String(value === seconds), text: name, onclick: () => { app.span = value; app.redraw(); } }));
  if (!minutes.length) return [h("div", { class: "bar" }, spans), nothing("Nothing has come by yet")];
  const all = minutes.reduce((sum, one) => sum + one.messages, 0), errors = minutes.reduce((sum, one) => sum + one.errors, 0), tokens = minutes.reduce((sum, one) => sum + one.tokens, 0);
  const tiles = h("div", { class: "tiles" }, tile(many(all), "messages"), tile(many(errors), "errors"), tile(short(tokens), "tokens"), tile((all / Math.max(60, minutes.length * 60)).toFixed(2), "messages a second"));
  const rows = table("Minutes", [["minute", (one) => clock(one.t).slice(0, 5)], ["messages", (one) => many(one.messages), RIGHT], ["errors", (one) => many(one.errors), RIGHT], ["tokens", (one) => many(one.tokens), RIGHT], ["p50 ms", (one) => one.p50 ?? "", RIGHT], ["p95 ms", (one) => one.p95 ?? "", RIGHT], ["p99 ms", (one) => one.p99 ?? "", RIGHT], ["verdicts", (one) => Object.entries(one.verdicts).map(([word, count]) => `${word} ${count}`).join(", "), "grow-cell"]], minutes.toReversed().slice(0, 120));
  return [h("div", { class: "bar" }, spans), tiles, bars("Messages a minute", minutes), curves("Latency", minutes), rows];
}

// What a mark in a chart means: its look, and its name.
function sign(kind, name) {
  const mark = kind.startsWith("p") ? svg("path", { class: kind, d: "M0 6h26" }) : svg("rect", { class: kind, x: 6, y: 1, width: 12, height: 10 });
  return h("span", { class: "sign" }, svg("svg", { viewBox: "0 0 26 12", "aria-hidden": "true" }, mark), name);
}

const ends = (minutes) => h("div", { class: "ends" }, [minutes[0], minutes.at(-1)].slice(0, minutes.length).map((one) => h("span", { text: clock(one.t).slice(0, 5) })));

/** How wide a bar is, and where it stands: the first over the first time, the last over the last, and curves go through their middles. */
function places(count) {
  const width = Math.max(1, Math.min(40, 800 / count)), step = (1000 - width) / Math.max(count - 1, 1);
  return { width, at: (place) => place * step };
}

function bars(caption, minutes) {
  const most = Math.max(1, ...minutes.map((one) => one.messages)), { width, at } = places(minutes.length);
  const drawn = minutes.flatMap((one, place) => [[one.messages, "bars"], [one.errors, "bad"]].filter(([count]) => count).map(([count, kind]) => svg("rect", { class: kind, x: at(place), width, y: 120 - (count / most) * 115, height: (count / most) * 115 })));
  return h("figure", { class: "chart" }, h("figcaption", {}, `${caption}, most ${many(most)}`, sign("bars", "messages"), sign("bad", "errors")), svg("svg", { viewBox: "0 0 1000 120", preserveAspectRatio: "none", role: "img", "aria-label": `${caption}; the table below has the figures` }, ...drawn), ends(minutes));
}

function curves(caption, minutes) {
  const most = Math.max(1, ...minutes.map((one) => one.p99 ?? 0)), { width, at } = places(minutes.length);
  const path = (name) => {
    const points = minutes.map((one, place) => [at(place) + width / 2, one[name]]).filter(([, value]) => value !== null).map(([x, value]) => [x, (118 - (value / most) * 112).toFixed(1)]);
    if (points.length === 1) return `M${points[0][0] - width / 2} ${points[0][1]}h${width}`; // one minute alone is no curve, and is seen all the same
    return points.map(([x, y], place) => `${place ? "L" : "M"}${x.toFixed(1)} ${y}`).join("");
  };
  const drawn = ["p50", "p95", "p99"].map((name) => svg("path", { class: name, d: path(name) || "M0 118", "vector-effect": "non-scaling-stroke" }));
  return h("figure", { class: "chart" }, h("figcaption", {}, `${caption}, highest ${many(Math.round(most))} ms`, ["p50", "p95", "p99"].map((name) => sign(name, name))), svg("svg", { viewBox: "0 0 1000 120", preserveAspectRatio: "none", role: "img", "aria-label": `${caption}; the table below has the figures` }, ...drawn), ends(minutes));
}

async function logLines() {
  const found = (await get("log")).log.toReversed();
  if (!found.length) return [h("div", { class: "empty" }, h("h2", { text: "Nothing was said yet" }), h("p", { text: "Errors, refusals, drift of tools and other news of running proxies stand here." }))];
  return [table("Log", [["time", (one) => clock(one.t)], ["at", (one) => one.at], ["level", (one) => h("span", { class: `level-${one.level}`, text: one.level })], ["what", (one) => one.text, "grow-cell"]], found)];
}

const counted = (limit, value) => (limit.name === "bytes" ? bytes(value) : many(value));
const tile = (value, name) => h("div", { class: "tile" }, h("b", { text: value }), h("span", { text: name }));
const nothing = (text) => h("div", { class: "empty" }, h("h2", { text }), h("p", { text: "Start a proxy with the live view on:" }), h("code", { text: "penstock --dashboard auto -- COMMAND" }));
