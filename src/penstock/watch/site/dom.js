// Making elements. Texts are only ever texts: nothing that came by can become markup.

export function h(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "text") made.textContent = value;
    else if (name === "value") made.value = value;
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) made.append(child);
  }
  return made;
}

const SVG = "http://www.w3.org/2000/svg";
export function svg(tag, options = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(options)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

const ODD = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/gu;

// Text of others as people may see it: what is invisible, or would move other text, is spelt out.
export function visible(text) {
  return String(text ?? "").replace(ODD, (found) => `‹U+${found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`);
}

export const line = (text) => visible(text).replaceAll("\n", "‹U+000A›");

export function clock(seconds) {
  const moment = new Date(seconds * 1000);
  const two = (number) => String(number).padStart(2, "0");
  return `${two(moment.getHours())}:${two(moment.getMinutes())}:${two(moment.getSeconds())}.${String(moment.getMilliseconds()).padStart(3, "0")}`;
}

export function short(number) {
  if (number === null || number === undefined) return "";
  if (number < 1000) return String(Math.round(number));
  return number < 1e6 ? `${(number / 1e3).toFixed(1)}k` : `${(number / 1e6).toFixed(1)}M`;
}

export const many = (number) => Number(number ?? 0).toLocaleString("en");

export function bytes(number) {
  if (number < 1024) return `${number} B`;
  return number < 1048576 ? `${(number / 1024).toFixed(1)} KiB` : `${(number / 1048576).toFixed(1)} MiB`;
}

export function age(seconds) {
  if (!(seconds >= 0)) return "";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

// A table with a head; each column is [title, function of a row, class].
export function table(caption, columns, rows) {
  const head = h("tr", {}, columns.map(([title, , kind]) => h("th", { scope: "col", class: kind, text: title })));
  const body = rows.map((row) => h("tr", {}, columns.map(([, show, kind]) => {
    const shown = show(row);
    return h("td", { class: kind }, shown instanceof Node ? shown : line(shown ?? ""));
  })));
  return h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption }, h("table", {},
    h("caption", { class: "sr", text: caption }), h("thead", {}, head), h("tbody", {}, body)));
}
