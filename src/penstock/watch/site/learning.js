// What was learned: alerts, patterns over time, suggested rules, variants side by side. Nothing here puts anything in force.

import { call, get } from "./api.js";
import { clock, h, line, many, short, svg, table, visible } from "./dom.js";

const RIGHT = "num";
const WEEKDAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const HOURS = Array.from({ length: 24 }, (_, hour) => String(hour).padStart(2, "0"));
const percent = (share) => `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;
const day = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 10);
const quoted = (text) => `"${String(text).replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
const tile = (value, name) => h("div", { class: "tile" }, h("b", { text: value }), h("span", { text: name }));
const note = (text) => h("p", { class: "soft", text });
const code = (text) => h("code", { class: "line", text: line(text) });
const empty = (title, ...rest) => h("div", { class: "empty" }, h("h2", { text: title }), ...rest);
const link = (text, title, onclick) => h("button", { class: "link", type: "button", text: line(text), title, onclick });

// A row of buttons of which one is pressed.
function choice(name, options, chosen, pick) {
  return h("div", { class: "choice", role: "group", "aria-label": name }, options.map(([value, text]) => h("button", { class: `plain${value === chosen ? " go" : ""}`, type: "button", "aria-pressed": String(value === chosen), id: `${name.replaceAll(/\W/g, "")}-${value}`, text: line(text), onclick: () => pick(value) })));
}

function copyButton(app, text, name = "copy") {
  return h("button", { class: "plain", type: "button", text: name, onclick: async () => { try { await navigator.clipboard.writeText(text); app.say("Copied."); } catch { app.say("The browser does not let this page copy; select the text."); } } });
}

// Draws a page again while something is under way, without taking the focus from anybody.
function again(app, ms) {
  const page = app.page, part = app.rulesPart;
  clearTimeout(app.soonAgain);
  app.soonAgain = setTimeout(async () => {
    if (app.page !== page || app.rulesPart !== part || document.hidden) return;
    const focus = document.activeElement?.id;
    await app.redraw();
    if (focus) document.getElementById(focus)?.focus();
  }, ms);
}

function reading(found) {
  if (!found || found.is_done) return null;
  const words = `Reading ${found.file}: ${many(found.messages)} messages${found.share ? `, ${percent(found.share)}` : ""}`;
  return h("div", { class: "under-way", role: "status" }, h("span", { text: line(words) }), h("progress", found.share ? { "aria-label": "Read so far", max: "1", value: String(found.share) } : { "aria-label": "Read so far" }));
}

function underWay(study) {
  const { progress = {} } = study, words = progress.count ? `${progress.progress}: ${many(progress.count)} messages${progress.share ? `, ${percent(progress.share)}` : ""}` : "starting";
  return h("div", { class: "under-way", role: "status" }, h("span", { text: line(words) }), h("progress", progress.share ? { "aria-label": "Done so far", max: "1", value: String(progress.share) } : { "aria-label": "Done so far" }));
}

async function openMessage(app, seq, session) {
  app.go(1);
  await app.traffic.setFilter(session ? `session:${quoted(session)}` : "");
  app.traffic.load(seq);
}

// --- alerts ----------------------------------------------------------------------------------------------

export async function alerts(app) {
  const found = await get("alerts"), study = found.study, list = found.alerts;
  const head = [];
  if (study?.state === "running") { head.push(underWay(study)); again(app, 1000); }
  if (study?.state === "failed") head.push(h("p", { class: "fault", text: visible(study.said.join("\n")) }));
  else for (const said of study?.said ?? []) head.push(note(line(said)));
  if (!list.length) return [...head, study && study.state === "done" ? empty("No session is unusual", note("Within the budget of false alarms, every session of the recording is like those of the baseline.")) : study ? "" : howToAlert(found.source)];
  const kinds = [...new Set(list.map((one) => one.kind))].sort(), kind = kinds.includes(app.alertKind) ? app.alertKind : "";
  const shown = list.filter((one) => !kind || one.kind === kind), sessions = new Set(list.map((one) => one.session)).size;
  const options = [["", `all ${many(list.length)}`], ...kinds.map((name) => [name, `${name} ${many(list.filter((one) => one.kind === name).length)}`])];
  return [...head, h("div", { class: "tiles" }, tile(many(found.total), "alerts"), tile(many(sessions), "sessions")),
    h("div", { class: "bar" }, choice("Kinds of alerts", options, kind, (value) => { app.alertKind = value; app.redraw(); })),
    h("h2", { text: "Unusual sessions" }), note("An alert tells people; nothing was blocked by it."),
    ...shown.slice(0, 100).map((one) => alertCard(app, one)), shown.length > 100 ? note(`${many(shown.length - 100)} more are not shown here.`) : ""];
}

function alertCard(app, one) {
  const about = one.baseline ?? {}, rare = one.p > 0 ? `a usual session is as unusual in at most 1 of ${many(Math.round(1 / one.p))}` : "";
  const facts = [one.at, one.proxy, one.group && `client ${one.group}`, `session ${String(one.session).slice(0, 12)}`, rare, `baseline: ${many(about.sessions)} sessions, ${many(about.calls)} calls since ${String(about.since ?? "").slice(0, 10)}`].filter(Boolean).join(" · ");
  const session = String(one.session).replace(/#\d+$/, "");
  return h("div", { class: "card" }, h("h3", {}, h("span", { class: "kind", text: line(one.kind) }), ` ${line(one.why)}`), h("p", { class: "meta", text: line(facts) }),
    h("div", { class: "actions" },
      one.seq ? h("button", { class: "plain go", type: "button", text: `message ${one.seen_first}`, onclick: () => openMessage(app, one.seq, session) }) : h("span", { class: "soft", text: `message ${one.seen_first} is not kept here any more` }),
      h("button", { class: "plain", type: "button", text: "its session", onclick: () => app.filterFor(`session:${quoted(session)}`) }),
      one.file ? copyButton(app, `penstock why ${one.file} ${one.seen_first}`, "copy penstock why") : null));
}

const howToAlert = (source) => empty("No alerts", ...(source === "recording"
  ? [note("Learn what is usual from other recordings, and open this one with it:"), code("penstock baseline monday.jsonl tuesday.jsonl --out usual.baseline"), code("penstock watch today.jsonl --baseline usual.baseline --web")]
  : [note("No session was unusual so far, or no proxy looks for it. Learn from recordings, and name the baseline in the proxy's configuration:"), code("penstock baseline monday.jsonl tuesday.jsonl --out usual.baseline"), code("anomalies: {baseline: usual.baseline}")]));

// --- patterns over time ------------------------------------------------------------------------------------

export async function patterns(app) {
  const by = app.patternBy ?? "tool", of = app.patternOf ?? "", spread = app.patternSpread ?? "hours";
  const found = await get(`patterns?${new URLSearchParams({ by, of })}`);
  const under = reading(found.reading);
  if (under) again(app, 1000);
  if (!found.calls) return [under, empty("No tool was called yet", note("Who calls what, and when, shows here as calls come by, or when a recording is opened:"), code("penstock watch recordings/ --web"))];
  const other = by === "tool" ? "client" : "tool";
  const pick = h("select", { id: "pattern-of", "aria-label": `Only of one ${other}`, onchange: (event) => { app.patternOf = event.target.value; app.redraw(); } },
    h("option", { value: "", text: `all ${other}s` }), found.others.filter(Boolean).map((name) => h("option", { value: name, selected: name === of, text: line(name) })));
  const bar = h("div", { class: "bar" }, choice("Rows", [["tool", "tools"], ["client", "clients"]], by, (value) => { app.patternBy = value; app.patternOf = ""; app.redraw(); }),
    choice("Columns", [["hours", "by hour"], ["days", "by day"]], spread, (value) => { app.patternSpread = value; app.redraw(); }), pick);
  const counts = (row) => (spread === "days" ? row.days : HOURS.map((_, hour) => WEEKDAYS.reduce((sum, __, weekday) => sum + row.week[weekday * 24 + hour], 0)));
  const columns = spread === "days" ? found.days.map((one) => day(one).slice(5)) : HOURS;
  const name = (row) => link(row.name || "(no name)", "show its messages", () => app.filterFor(`method:tools/call ${by}:${quoted(row.name)}${of ? ` ${other}:${quoted(of)}` : ""}`));
  const rows = found.rows.map((row) => ({ head: name(row), label: row.name, cells: counts(row), row }));
  const title = `Calls by ${spread === "days" ? "day" : "hour of the day"}${of ? `, of ${line(of)}` : ""}`;
  const week = WEEKDAYS.map((text, weekday) => ({ head: text, label: text, cells: HOURS.map((_, hour) => found.rows.reduce((sum, row) => sum + row.week[weekday * 24 + hour], 0)) }));
  return [under, h("div", { class: "tiles" }, tile(many(found.calls), "calls"), tile(many(found.rows.length + found.left_off), `${by}s`), tile(day(found.first), "first call"), tile(day(found.last), "last call")), bar,
    h("h2", { text: title }), heat(title, by, columns, rows, [["calls", (row) => many(row.calls)], ["errors", (row) => many(row.errors)]]),
    found.left_off ? note(`${many(found.left_off)} more with fewer calls are not shown.`) : null, found.is_full ? note("There are more pairs of client and tool than are counted one by one; the rest is “(others)”.") : null,
    h("h2", { text: "The week" }), heat("Calls by weekday and hour", "day", HOURS, week, []), note("Hours and days are those of UTC. The stronger the colour, the more calls; the figure is their count."),
    ...news(app, found.news)];
}

function heat(caption, first, columns, rows, sums) {
  const most = Math.max(1, ...rows.flatMap((row) => row.cells));
  const level = (count) => (count ? 1 + Math.min(4, Math.floor(4 * Math.log1p(count) / Math.log1p(most))) : 0);
  const head = h("tr", {}, h("th", { scope: "col", text: first }), columns.map((text) => h("th", { scope: "col", class: "cell", text })), sums.map(([text]) => h("th", { scope: "col", class: RIGHT, text })));
  const body = rows.map((row) => h("tr", {}, h("th", { scope: "row" }, row.head), row.cells.map((count, place) => h("td", { class: `cell h${level(count)}`, title: `${line(row.label)}, ${columns[place]}: ${many(count)} calls`, text: count ? short(count) : "" })), sums.map(([, show]) => h("td", { class: RIGHT, text: show(row.row) }))));
  return h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption }, h("table", { class: "heat" }, h("caption", { class: "sr", text: caption }), h("thead", {}, head), h("tbody", {}, body)));
}

function news(app, found) {
  const title = h("h2", { text: "New since last week" });
  if (!found.is_known) return [title, note("There is not yet more than a week to compare with.")];
  const what = (one) => [one.is_new_client && "a new client", one.is_new_tool && "a new tool", !one.is_new_client && !one.is_new_tool && "this client had not called this tool"].filter(Boolean).join(", ");
  const columns = [["client", (one) => one.client || "(no name)"], ["tool", (one) => link(one.tool || "(no name)", "show its messages", () => app.filterFor(`method:tools/call tool:${quoted(one.tool)} client:${quoted(one.client)}`))]];
  const stamp = (seconds) => `${day(seconds)} ${new Date(seconds * 1000).toISOString().slice(11, 16)}`;
  return [title, found.new.length ? table("New since last week", [...columns, ["what is new", what], ["first call (UTC)", (one) => stamp(one.first)], ["calls", (one) => many(one.calls), RIGHT]], found.new) : note(`Nothing: since ${day(found.since)} only what was there before has been called.`),
    ...(found.gone.length ? [h("h2", { text: "Not seen for a week" }), table("Not seen for a week", [...columns, ["last call (UTC)", (one) => stamp(one.last)], ["calls", (one) => many(one.calls), RIGHT]], found.gone)] : [])];
}

// --- rules, suggested rules, variants ------------------------------------------------------------------------

const PARTS = [["rules", "in force"], ["suggestions", "suggested"], ["variants", "variants"]];

// Page 5 has three parts; the first is `rules`.
export const rulesPage = (rules) => async (app) => {
  const part = app.rulesPart ?? "rules";
  const bar = h("div", { class: "bar" }, choice("Rules", PARTS, part, (value) => { app.rulesPart = value; app.redraw(); }));
  return [bar, ...(await { rules, suggestions, variants }[part](app))];
};

async function study(app, name, words, draw) {
  const found = await get(`studies/${name}`), isRunning = found.state === "running";
  const act = (method) => async () => { try { await call(method, `studies/${name}`, {}); } catch (why) { app.say(why.message); } app.redraw(); };
  const go = h("button", { class: "plain go", type: "button", id: `begin-${name}`, text: found.state === "idle" ? words.go : "once more", disabled: !app.may("control"), onclick: act("POST") });
  const stop = h("button", { class: "plain stop", type: "button", id: `begin-${name}`, text: "stop", disabled: !app.may("control"), onclick: act("DELETE") });
  if (isRunning) again(app, 700);
  const over = app.source === "recording" ? `over ${found.files.length === 1 ? "the recording" : `${found.files.length} recordings`}, from its beginning` : found.messages ? `over the ${many(found.messages)} messages that are kept here` : "over the messages that are kept here";
  const state = found.state === "done" ? `Found ${clock(found.ended).slice(0, 5)}, ${over}.` : found.state === "stopped" ? "Stopped." : "";
  return [note(words.about), h("div", { class: "bar" }, isRunning ? stop : go, isRunning ? underWay(found) : h("span", { class: "soft", text: state })),
    found.state === "failed" ? h("p", { class: "fault", role: "alert", text: visible(found.said.join("\n")) }) : null, ...(found.state === "done" ? draw(found) : [])];
}

const suggestions = (app) => study(app, "suggestions", { go: "suggest rules", about: "Rules that fit the calls that came by, each tried on later sessions that it was not made from. Nothing is put in force: copy what you want." }, ({ result }) => [
  h("div", { class: "tiles" }, tile(many(result.sessions - result.held), "sessions learned from"), tile(many(result.held), "later sessions held out"), tile(many(result.rules.length), "rules suggested"), tile(many(result.reasons.length), "not suggested")),
  result.rules.length ? h("div", { class: "bar" }, copyButton(app, result.yaml, "copy the file"), h("button", { class: "plain", type: "button", text: "try them on what is kept here", onclick: () => { app.tried = result.yaml; app.rulesPart = "rules"; app.redraw(); } })) : null,
  result.rules.length ? h("h2", { text: "Suggested" }) : null,
  ...result.rules.map((one) => h("div", { class: "card" }, h("h3", { text: line(one.what) }),
    h("p", { class: "meta", text: `supported by ${many(one.support)} calls · tried on ${many(one.held_out)} held-out calls · refused ${many(one.refused)} of them` }),
    h("pre", { tabindex: "0", "aria-label": `Rule ${line(one.id)}`, text: visible(one.yaml) }), h("div", { class: "actions" }, copyButton(app, one.yaml)))),
  result.reasons.length ? h("h2", { text: "Not suggested, because" }) : null,
  result.reasons.length ? h("ul", { class: "reasons" }, result.reasons.slice(0, 300).map((reason) => h("li", { text: line(reason) }))) : null,
  result.reasons.length > 300 ? note(`${many(result.reasons.length - 300)} more reasons are in what penstock suggest prints.`) : null]);

const variants = (app) => study(app, "variants", { go: "compare", about: "Every set of the configuration's variants section judges every message, on paper, and is compared with the first. Errors and times are those of the sessions that had the set." }, ({ result }) => {
  const { sets } = result, first = sets[0].name;
  const words = [...new Set(sets.flatMap((one) => Object.keys(one.verdicts)))].sort();
  const recorded = (show) => (one) => (one.recorded ? show(one.recorded) : "–");
  const times = (name) => recorded((found) => (found[name] === null ? "–" : `${found[name].toFixed(1)} ms`));
  const lines = [["share of sessions", (one) => (one.is_shadow ? "shadow" : `${one.share} %`)], ...words.map((word) => [`verdict ${word}`, (one) => many(one.verdicts[word] ?? 0)]),
    ["sessions that had it", recorded((found) => many(found.sessions))], ["answers", recorded((found) => many(found.answers))], ["errors", recorded((found) => many(found.errors))],
    ["errors, 95 % interval", recorded((found) => `${percent(found.low)} to ${percent(found.high)}`)], ["p50", times("p50")], ["p99", times("p99")],
    [`errors beside ${line(first)}`, (one) => (one.is_difference_shown === null ? "–" : one.is_difference_shown ? "a difference is shown" : "no difference shown")]];
  const rows = sets.flatMap((one) => one.differs.map((differs) => ({ set: one.name, ...differs })));
  const examples = (one) => h("span", { class: "several" }, one.examples.map((index, place) => (one.seqs[place] ? link(`message ${index}`, "open it", () => openMessage(app, one.seqs[place])) : h("span", { class: "soft", text: `message ${index}` }))));
  const figures = table("Variants side by side", [["figure", (row) => row[0]], ...sets.map((one) => [one.name, (row) => row[1](one), RIGHT])], lines);
  figures.classList.add("figures");
  return [figures, intervals(sets.filter((one) => one.recorded)),
    h("h2", { text: `Where they do not decide as ${line(first)} does` }), rows.length ? table("Disagreements", [["set", (one) => one.set], ["what", (one) => `${one.what} what ${first} does not`], ["rule", (one) => one.rule || "–"], ["messages", (one) => many(one.count), RIGHT], ["examples", examples]], rows) : note("Nowhere: every set decides the same about every message.")];
});

// Shares of errors with their intervals, on one scale: where they overlap, no difference is shown.
function intervals(sets) {
  if (!sets.length) return null;
  const most = Math.max(...sets.map((one) => one.recorded.high), 0.001), x = (share) => 130 + (share / most) * 650;
  const drawn = sets.flatMap((one, place) => {
    const { errors, answers, low, high } = one.recorded, y = 22 + place * 28;
    return [svgText(one.name.slice(0, 18), 0, y + 4), svg("line", { class: "axis", x1: x(low), x2: x(high), y1: y, y2: y }), svg("circle", { class: "bars", cx: x(answers ? errors / answers : 0), cy: y, r: 5 })];
  });
  const label = sets.map((one) => `${one.name}: ${percent(one.recorded.low)} to ${percent(one.recorded.high)}`).join("; ");
  return h("figure", { class: "chart" }, h("figcaption", { text: `Share of answers that are errors, with its 95 % interval (scale 0 to ${percent(most)})` }), svg("svg", { class: "intervals", viewBox: `0 0 800 ${sets.length * 28 + 16}`, role: "img", "aria-label": line(label) }, ...drawn));
}

function svgText(text, x, y) {
  const made = svg("text", { x, y });
  made.textContent = line(text);
  return made;
}
