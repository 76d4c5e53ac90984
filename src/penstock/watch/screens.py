"""The pages of the terminal, as lines of text."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from penstock.watch.detail import detail_of
from penstock.watch.hub import Hub
from penstock.watch.learning_screens import alert_lines, pattern_lines
from penstock.watch.logins import Login
from penstock.watch.masked_text import masked_text
from penstock.watch.plain_lines import cell, short
from penstock.watch.row import HubRow
from penstock.watch.visible import visible

_SHOWN = 4_000


def message_lines(row: HubRow, login: Login, width: int) -> list[str]:
    """One message, masked, with what is known of it."""
    facts = detail_of(row, login)
    lines = [
        f"{row.method or row.kind} {row.tool}  {row.sender}  verdict {row.verdict}  {', '.join(row.rules)}",
        f"session {row.session}  client {row.client}  {row.size:,} bytes  {row.tokens:,} tokens  {row.why}",
        "",
    ]
    lines += _pretty(str(facts["text"]), width)
    if facts["sent"] is not None:
        lines += ["", "what was sent instead:", *_pretty(str(facts["sent"]), width)]
    return lines


def _pretty(text: str, width: int) -> list[str]:
    """The text on several lines; only blanks are added, so that names that stand twice both show."""
    try:
        text = msgspec.json.format(text, indent=2)
    except (msgspec.DecodeError, UnicodeEncodeError):
        pass
    lines: list[str] = []
    for line in visible(text[: _SHOWN * 20], is_one_line=False).split("\n"):
        lines += [line[at : at + width - 1] for at in range(0, max(1, len(line)), max(10, width - 1))]
    return lines[:_SHOWN]


def held_lines(hub: Hub, chosen: dict[str, Any] | None) -> list[str]:
    """What waits for a person."""
    lines: list[str] = []
    for instance in hub.instances.values():
        for facts in instance.held.values():
            left = max(0, int(facts["until"] - time.time()))
            mark = ">" if facts is chosen else " "
            clock = f"{left // 60}:{left % 60:02}"
            lines.append(
                f"{mark} {facts['kind']} {clock}  {facts['client']} > {instance.header.name}  "
                f"{facts['method']} {facts['tool']}  {facts['rule']}  sha {facts['sha'][:8]}"
            )
            raw = str(facts.get("value") or facts.get("text")).encode("utf-8", "surrogatepass")
            lines.append(f"      {masked_text(raw, instance.masker)[:400]}")
            if facts.get("note"):
                lines.append(f"      {facts['note']}")
    return lines or ["", "Nothing waits.", "b on page 1 holds what the filter finds."]


def _sessions(hub: Hub) -> list[str]:
    lines = ["id          at            client        era       messages  errors   tokens"]
    for (at, name), count in reversed(hub.summaries.sessions.items()):
        facts = count.shown()
        lines.append(
            f"{cell(name, 10)}  {cell(at, 12)}  {cell(str(facts.get('client', '')), 12)}  "
            f"{cell(str(facts.get('era', '')), 8)}  {count.calls:>8}  {count.errors:>6}  "
            f"{short(count.tokens):>7}"
        )
    return lines


def _tools(hub: Hub) -> list[str]:
    lines = ["name                      at            state     tokens   calls  errors  why"]
    for instance in hub.instances.values():
        for tool in instance.tools.get("tools") or ():
            count = hub.summaries.tools.get((instance.header.name, tool["name"]))
            calls, errors = (count.calls, count.errors) if count is not None else (0, 0)
            lines.append(
                f"{cell(tool['name'], 24)}  {cell(instance.header.name, 12)}  {tool['state']:<8}  "
                f"{tool['tokens']:>6}  {calls:>6}  {errors:>6}  {tool.get('why', '')}"
            )
    return lines


def _rules(hub: Hub) -> list[str]:
    lines = ["rule                      at              hits  blocked  changed"]
    for (at, name), count in hub.summaries.rules.items():
        lines.append(
            f"{cell(name, 24)}  {cell(at, 12)}  {count.calls:>6}  {count.blocked:>7}  {count.changed:>7}"
        )
    lines += ["", "breakpoints:"]
    lines += [f"  {name}  {words}" for name, words in hub.breakpoints.items()] or ["  none"]
    return lines


def _upstreams(hub: Hub) -> list[str]:
    lines = ["name          state      pid      memory   upstream"]
    for instance in hub.instances.values():
        state = "running" if instance.is_connected else "ended" if instance.has_ended else "gone"
        own = instance.process.get("own") or {}
        memory = f"{int(own.get('rss', 0)) // 1_048_576} MiB" if own else ""
        lines.append(
            f"{cell(instance.header.name, 12)}  {state:<9}  {instance.header.pid:<7}  {memory:>8}   "
            f"{instance.masker.text(instance.header.upstream)}"
        )
    return lines


def _history(hub: Hub) -> list[str]:
    lines = ["minute   messages  errors   tokens      p50      p95      p99"]
    for minute in reversed(hub.store.minutes(86_400)):
        moment = datetime.fromtimestamp(float(str(minute["t"]))).strftime("%H:%M")
        times = "  ".join(
            f"{'' if minute[name] is None else minute[name]:>7}" for name in ("p50", "p95", "p99")
        )
        lines.append(
            f"{moment}    {minute['messages']:>8}  {minute['errors']:>6}  {minute['tokens']:>7}  {times}"
        )
    return lines


def _log(hub: Hub) -> list[str]:
    lines = [
        (float(line.get("t", 0)), instance, line)
        for instance in hub.instances.values()
        for line in instance.log
    ]
    lines.sort(key=lambda entry: -entry[0])
    return [
        f"{datetime.fromtimestamp(moment).strftime('%H:%M:%S')}  {cell(instance.header.name, 12)}  "
        f"{line.get('level', ''):<8}  {instance.masker.text(str(line.get('text', '')))}"
        for moment, instance, line in lines
    ]


SCREENS: dict[int, Callable[[Hub], list[str]]] = {
    3: _sessions,
    4: _tools,
    5: _rules,
    6: _upstreams,
    7: _history,
    8: _log,
    9: alert_lines,
    10: pattern_lines,
}
