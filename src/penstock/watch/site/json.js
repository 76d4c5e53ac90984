// Drawing a message from its text, token by token: order, numbers and names that stand twice stay as they are.

import { h, visible } from "./dom.js";

const TOKEN = /"(?:[^"\\]|\\.)*"?|[{}[\],:]|[^\s{}[\],:"]+|\s+/gs;
const MASK = "[masked]";

function piece(kind, text) {
  const shown = visible(text);
  const parts = shown.split(/(\[masked\]|‹U\+[0-9A-F]+›)/);
  return h("span", { class: kind }, parts.map((part) => {
    if (part === MASK) return h("span", { class: "mask", text: part });
    return part.startsWith("‹U+") ? h("span", { class: "odd-char", text: part }) : part;
  }));
}

export function pretty(text) {
  const out = h("pre");
  if (!/^\s*[{[]/.test(text)) {
    out.append(piece("", text));
    return out;
  }
  const stack = [];
  let depth = 0, isName = false, count = 0;
  const newline = () => out.append(`\n${"  ".repeat(depth)}`);
  for (const [token] of text.matchAll(TOKEN)) {
    if (++count > 20000) { out.append("\n… (the rest is under bytes)"); break; }
    const first = token[0];
    if (/\s/.test(first)) continue;
    const top = stack.at(-1);
    if (first === "{" || first === "[") {
      if (top?.isEmpty) { newline(); top.isEmpty = false; }
      stack.push({ isObject: first === "{", names: new Set(), isEmpty: true });
      out.append(first);
      depth += 1;
      isName = first === "{";
    } else if (first === "}" || first === "]") {
      const was = stack.pop();
      depth = Math.max(0, depth - 1);
      if (was && !was.isEmpty) newline();
      out.append(first);
      isName = false;
    } else if (first === ",") {
      out.append(",");
      newline();
      isName = Boolean(top?.isObject);
      continue;
    } else if (first === ":") {
      out.append(": ");
      isName = false;
      continue;
    } else {
      if (top?.isEmpty) { newline(); top.isEmpty = false; }
      if (isName && first === '"') {
        const isTwice = top.names.has(token);
        top.names.add(token);
        const name = piece(isTwice ? "k dup" : "k", token);
        if (isTwice) name.title = "This name stands here twice";
        out.append(name);
        if (isTwice) out.append(h("span", { class: "dup", text: " twice " }));
      } else {
        out.append(piece(first === '"' ? "st" : "n", token));
      }
      continue;
    }
  }
  return out;
}

export function plain(text) {
  const out = h("pre");
  out.append(piece("", text));
  return out;
}

export function hex(text) {
  const data = new TextEncoder().encode(text).slice(0, 16384);
  const lines = [];
  for (let at = 0; at < data.length; at += 16) {
    const part = [...data.slice(at, at + 16)];
    const codes = part.map((byte) => byte.toString(16).padStart(2, "0")).join(" ").padEnd(47);
    const chars = part.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${codes}  ${chars}`);
  }
  return h("pre", { text: lines.join("\n") });
}

// What was changed: the common beginning and end stay, the middle is shown twice.
export function diff(before, after) {
  if (after === null || after === undefined) return h("p", { class: "soft", text: "It passed as it came." });
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < before.length - start && end < after.length - start && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  const around = (text, from, to) => visible(text.slice(Math.max(0, from - 60), Math.min(text.length, to + 60)));
  const out = h("pre");
  out.append(h("span", { class: "del", text: `- ${around(before, start, before.length - end)}` }));
  out.append(h("span", { class: "add", text: `+ ${around(after, start, after.length - end)}` }));
  const place = new TextEncoder().encode(before.slice(0, start)).length;
  return h("div", {}, out, h("p", { class: "soft", text: `From byte ${place} on: ${before.length - end - start} characters became ${after.length - end - start}.` }));
}
