"""What the traffic comes to, by session, tool and rule, counted as rows come."""

from __future__ import annotations

from collections import OrderedDict

from penstock.watch.row import HubRow
from penstock.watch.store import percentiles

_MOST = 2_000
_SAMPLES = 500


class Count:
    """How often, how long, how dear."""

    __slots__ = ("blocked", "calls", "changed", "errors", "facts", "first", "last", "ms", "tokens")

    def __init__(self) -> None:
        self.calls = 0
        self.errors = 0
        self.tokens = 0
        self.blocked = 0
        self.changed = 0
        self.first = 0.0
        self.last = 0.0
        self.ms: list[float] = []
        self.facts: dict[str, object] = {}

    def add(self, row: HubRow) -> None:
        """One more message."""
        self.calls += 1
        self.tokens += row.tokens
        self.errors += row.status == "error"
        self.blocked += row.verdict in ("block", "deny")
        self.changed += row.verdict == "change"
        self.first = self.first or row.time
        self.last = row.time
        self.time(row.ms)

    def time(self, ms: float | None) -> None:
        """One more latency; the newest are kept."""
        if ms is not None:
            self.ms.append(ms)
            if len(self.ms) > _SAMPLES:
                del self.ms[: _SAMPLES // 2]

    def shown(self) -> dict[str, object]:
        """The figures."""
        return {
            **self.facts,
            "calls": self.calls,
            "errors": self.errors,
            "tokens": self.tokens,
            "blocked": self.blocked,
            "changed": self.changed,
            "first": self.first,
            "last": self.last,
            "p95": percentiles(self.ms)["p95"],
        }


class Summaries:
    """The three tables. Of too many names the oldest goes."""

    def __init__(self) -> None:
        self.sessions: OrderedDict[tuple[str, str], Count] = OrderedDict()
        self.tools: OrderedDict[tuple[str, str], Count] = OrderedDict()
        self.rules: OrderedDict[tuple[str, str], Count] = OrderedDict()

    def add(self, row: HubRow) -> None:
        """Counts one row."""
        if row.session:
            session = _of(self.sessions, (row.at, row.session))
            session.add(row)
            session.facts["client"] = row.client or session.facts.get("client", "")
            session.facts["era"] = row.era or session.facts.get("era", "")
            session.facts["link"] = row.link
        if row.method == "tools/call" and row.tool:
            tool = _of(self.tools, (row.at, row.tool))
            if row.kind == "request":
                tool.add(row)
            else:
                tool.errors += row.status == "error"
                tool.time(row.ms)
        for rule in row.rules:
            counted = _of(self.rules, (row.at, rule))
            counted.add(row)
            counted.time(row.us / 1000)


def _of(table: OrderedDict[tuple[str, str], Count], key: tuple[str, str]) -> Count:
    found = table.get(key)
    if found is None:
        if len(table) >= _MOST:
            table.popitem(last=False)
        found = table[key] = Count()
    return found
