"""Who calls what, and when: counts by hour of the week and by day, of recordings of any length.

Kept for each pair of client and tool, of fixed size and at most so many, so that memory does not grow with
what is read. Hours and days are those of UTC, as in the alerts about hours.
"""

from __future__ import annotations

from array import array
from typing import Any

from penstock.watch import bounds
from penstock.watch.row import HubRow

_DAY = 86_400
_WEEK = 7 * _DAY
OTHERS = "(others)"


class Use:
    """How one client uses one tool."""

    __slots__ = ("calls", "day", "days", "errors", "first", "first_seq", "last", "stopped", "week")

    def __init__(self) -> None:
        self.calls = self.errors = self.stopped = 0
        self.first = self.last = 0.0
        self.first_seq = 0
        self.week = array("I", bytes(4 * 168))  # by hour of the week, Monday first
        self.days = array("I", bytes(4 * bounds.PATTERN_DAYS))  # a ring
        self.day = 0  # the newest in the ring

    def add(self, when: float, seq: int) -> None:
        """One more call."""
        self.calls += 1
        if not self.first or when < self.first:
            self.first, self.first_seq = when, seq
        self.last = max(self.last, when)
        hour = int(when) // 3_600
        self.week[(hour + 72) % 168] += 1  # time began on a Thursday
        day = hour // 24
        if day > self.day:
            for gone in range(max(self.day + 1, day - bounds.PATTERN_DAYS + 1), day + 1):
                self.days[gone % bounds.PATTERN_DAYS] = 0
            self.day = day
        if day > self.day - bounds.PATTERN_DAYS:
            self.days[day % bounds.PATTERN_DAYS] += 1

    def on(self, day: int) -> int:
        """Calls of one day."""
        return self.days[day % bounds.PATTERN_DAYS] if self.day - bounds.PATTERN_DAYS < day <= self.day else 0


class Patterns:
    """The uses of all clients and tools."""

    def __init__(self) -> None:
        self.uses: dict[tuple[str, str], Use] = {}
        self.first = self.last = 0.0
        self.calls = 0
        self.is_full = False

    def add(self, row: HubRow, asked: HubRow | None = None) -> None:
        """Counts one message, if it is a call or an answer to one; `asked` is what it answers."""
        if row.method != "tools/call":
            return
        if row.kind == "request" and row.sender == "client":
            use = self._use(row.client, row.tool)
            use.add(row.time, row.seq)
            use.stopped += row.verdict in ("block", "deny", "drop", "refuse")
            self.calls += 1
            self.first = min(self.first or row.time, row.time)
            self.last = max(self.last, row.time)
        elif row.kind == "response" and row.status == "error":
            asked = asked or row
            self._use(asked.client, asked.tool).errors += 1

    def _use(self, client: str, tool: str) -> Use:
        found = self.uses.get((client, tool))
        if found is None:
            if len(self.uses) >= bounds.PATTERN_USES:
                self.is_full = True
                client = tool = OTHERS
            found = self.uses.setdefault((client, tool), Use())
        return found

    def facts(self, by: str = "tool", of: str | None = None) -> dict[str, object]:
        """A row for each tool, or client; `of` is the one of the others that they are asked about."""
        rows: dict[str, dict[str, Any]] = {}
        days = self._days()
        for (client, tool), use in self.uses.items():
            name, other = (client, tool) if by == "client" else (tool, client)
            if of is not None and other != of:
                continue
            row = rows.get(name)
            if row is None:
                row = rows[name] = _empty(name, len(days))
            row["calls"] += use.calls
            row["errors"] += use.errors
            row["stopped"] += use.stopped
            row["first"] = min(row["first"] or use.first, use.first or row["first"])
            row["last"] = max(row["last"], use.last)
            row["week"] = [a + b for a, b in zip(row["week"], use.week, strict=True)]
            row["days"] = [count + use.on(day) for count, day in zip(row["days"], days, strict=True)]
        ordered = sorted(rows.values(), key=lambda row: (-row["calls"], row["name"]))
        others = sorted({(tool if by == "client" else client) for client, tool in self.uses})
        return {
            "by": by,
            "of": of,
            "others": others[: bounds.PATTERN_ROWS],
            "rows": ordered[: bounds.PATTERN_ROWS],
            "left_off": max(0, len(ordered) - bounds.PATTERN_ROWS),
            "days": [day * _DAY for day in days],
            "calls": self.calls,
            "first": self.first,
            "last": self.last,
            "is_full": self.is_full,
        }

    def _days(self) -> list[int]:
        """The days that are shown, up to the last with a call."""
        last, first = int(self.last) // _DAY, int(self.first) // _DAY
        return list(range(max(first, last - bounds.PATTERN_SHOWN_DAYS + 1), last + 1)) if self.calls else []

    def news(self) -> dict[str, object]:
        """What began within the last week, and what was not seen again; the week before must be known."""
        since = self.last - _WEEK
        if not self.calls or self.first > since:
            return {"since": since, "first": self.first, "is_known": False, "new": [], "gone": []}
        new = [pair for pair, use in self.uses.items() if use.first > since]
        gone = [pair for pair, use in self.uses.items() if use.last <= since]
        old_clients = {client for (client, _), use in self.uses.items() if use.first <= since}
        old_tools = {tool for (_, tool), use in self.uses.items() if use.first <= since}

        def row(pair: tuple[str, str]) -> dict[str, object]:
            use = self.uses[pair]
            return {
                "client": pair[0],
                "tool": pair[1],
                "is_new_client": pair[0] not in old_clients,
                "is_new_tool": pair[1] not in old_tools,
                "calls": use.calls,
                "first": use.first,
                "last": use.last,
                "seq": use.first_seq,
            }

        new.sort(key=lambda pair: -self.uses[pair].first)
        gone.sort(key=lambda pair: -self.uses[pair].last)
        return {
            "since": since,
            "first": self.first,
            "is_known": True,
            "new": [row(pair) for pair in new[: bounds.PATTERN_ROWS]],
            "gone": [row(pair) for pair in gone[: bounds.PATTERN_ROWS]],
        }


def _empty(name: str, days: int) -> dict[str, Any]:
    counts = {"calls": 0, "errors": 0, "stopped": 0, "first": 0.0, "last": 0.0}
    return {"name": name, **counts, "week": [0] * 168, "days": [0] * days}
