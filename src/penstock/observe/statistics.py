"""What a recording comes to: counts, errors, blocks, latencies, tokens. Its memory does not grow with it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from msgspec import Struct, field

from penstock.observe import bounds
from penstock.observe.audit_reader import AuditRow
from penstock.observe.rows import Asked, MessageRow, Rows

BY = ("tool", "method", "rule", "client", "session", "hour", "day")
OTHER = "(other)"


class Tally(Struct):
    """Everything that is known under one name."""

    count: int = 0  # messages, or requests where names are tools or methods
    errors: int = 0
    tool_errors: int = 0
    blocks: int = 0  # denied, blocked, dropped or refused
    bytes: int = 0
    tokens: int = 0
    answered: int = 0
    unanswered: int = 0
    samples: list[float] = field(default_factory=list)
    arguments: set[str] = field(default_factory=set)

    def add_latency(self, ms: float) -> None:
        """One more answer took so long; past so many, a random sample of all is kept."""
        self.answered += 1
        if len(self.samples) < bounds.STAT_SAMPLES:
            self.samples.append(ms)
        else:
            place = _random.randrange(self.answered)
            if place < bounds.STAT_SAMPLES:
                self.samples[place] = ms

    def percentile(self, share: float) -> float | None:
        """The latency that `share` of the answers kept to."""
        if not self.samples:
            return None
        ordered = sorted(self.samples)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


_random = random.Random(0)  # noqa: S311  # a sample, not a secret: the same file gives the same figures


class Statistics:
    """Counts rows as they come."""

    def __init__(self, by: str = "method") -> None:
        self.by = by
        self.whole = Tally()
        self.tallies: dict[str, Tally] = {}
        self.rules: dict[str, int] = {}
        self.sessions: set[str] = set()
        self.lost = 0
        self.first = self.last = 0.0

    def add(self, row: MessageRow) -> None:
        """Takes one row into account."""
        line = row.line
        if line.lost is not None:
            self.lost += line.lost.count
            return
        self.first = self.first or line.t
        self.last = line.t
        if line.kind == "batch" and line.verdict == "pass":
            return  # its messages have lines of their own
        if len(self.sessions) < bounds.OPEN_REQUESTS:
            self.sessions.add(line.s)
        for rule in row.words("rule"):
            if rule in self.rules or len(self.rules) < bounds.STAT_NAMES:
                self.rules[rule] = self.rules.get(rule, 0) + 1
        self._count(self.whole, row)
        for name in _NAMES[self.by](row):
            self._count(self._tally(name), row)

    def add_audited(self, row: AuditRow) -> None:
        """Takes one entry of an audit into account, as far as it goes."""
        entry = row.entry
        self.first = self.first or row.time
        self.last = row.time
        if entry.get("kind") == "lost":
            self.lost += int(entry.get("count", 0))
        if entry.get("kind") != "message":
            return
        self.sessions.update(row.words("session"))
        for rule in row.words("rule"):
            self.rules[rule] = self.rules.get(rule, 0) + 1
        names = {
            "hour": [str(entry.get("time"))[:13].replace("T", " ") + ":00"],
            "day": [str(entry.get("time"))[:10]],
        }.get(self.by) or row.words(self.by)
        for tally in [self.whole, *map(self._tally, names)]:
            tally.count += 1
            tally.blocks += entry.get("verdict") in ("deny", "block", "drop", "refuse")

    def end(self, rows: Rows) -> None:
        """The recording is over: what waits still was not answered."""
        for asked in rows.open.values():
            if asked.verdict in ("pass", "change"):
                self.whole.unanswered += 1
                name = _asked_name(self.by, asked)
                if name is not None and name in self.tallies:
                    self.tallies[name].unanswered += 1

    def _tally(self, name: str) -> Tally:
        if name not in self.tallies and len(self.tallies) >= bounds.STAT_NAMES:
            name = OTHER
        return self.tallies.setdefault(name, Tally())

    def _count(self, tally: Tally, row: MessageRow) -> None:
        line = row.line
        is_answer = line.kind == "response"
        if not is_answer or self.by not in ("tool", "method"):
            tally.count += 1
        tally.bytes += len(line.raw)
        tally.tokens += row.tokens
        if line.verdict in ("deny", "block", "drop", "refuse"):
            tally.blocks += 1
        if is_answer:
            if row.ms is not None and line.sender == "upstream":
                tally.add_latency(row.ms)
            if row.is_tool_error:
                tally.tool_errors += 1
                tally.errors += 1
            elif row.is_error:
                tally.errors += 1
        elif self.by == "tool" and len(tally.arguments) < bounds.STAT_NAMES:
            tally.arguments.update(row.argument_names())


def _tool(row: MessageRow) -> list[str]:
    return [row.tool] if row.method == "tools/call" and row.tool else []


_NAMES: dict[str, Callable[[MessageRow], list[str]]] = {
    "tool": _tool,
    "method": lambda row: [row.method or f"({row.line.kind})"],
    "rule": lambda row: row.words("rule"),
    "client": lambda row: [row.client or "(unknown)"],
    "session": lambda row: [row.line.s],
    "hour": lambda row: [time.strftime("%Y-%m-%d %H:00", time.localtime(row.time))],
    "day": lambda row: [time.strftime("%Y-%m-%d", time.localtime(row.time))],
}


def _asked_name(by: str, asked: Asked) -> str | None:
    return {"tool": asked.tool, "method": asked.method, "session": asked.session}.get(by)
