"""What was learned, as lines of the terminal: alerts, and who calls what when."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from penstock.watch.api_learning import alerts_of
from penstock.watch.plain_lines import cell, short

if TYPE_CHECKING:
    from penstock.watch.hub import Hub

_RAMP = " .:-=+*#%@"
_HOW = (
    "penstock baseline RECORDING... --out FILE",
    "penstock watch RECORDING --baseline FILE, or anomalies: {baseline: FILE} in the proxy's configuration",
)


def alert_lines(hub: Hub) -> list[str]:
    """Each alert: what is unusual, how rarely, and the number of the message."""
    study, found = hub.studies.all["alerts"], alerts_of(hub)
    lines = list(study.said)
    if study.state == "running":
        return [*lines, *_progress(study.progress)]
    if not found:
        return [*lines, "", "No session was unusual.", *(() if hub.studies.baseline else _HOW)]
    lines.append("time                  kind      p        session       message")
    for alert in found:
        lines += [
            f"{alert.get('at', ''):<20}  {cell(str(alert.get('kind', '')), 8)}  {alert.get('p', 0):<7g}  "
            f"{cell(str(alert.get('session', '')), 12)}  {alert.get('seen_first', 0):>7}",
            f"    {alert.get('why', '')}",
        ]
    return [*lines, "", "penstock why RECORDING MESSAGE explains one."]


def pattern_lines(hub: Hub) -> list[str]:
    """The use of each tool and client over the day, and what is new since last week."""
    patterns = hub.patterns
    lines = _progress(None if (hub.reading or {}).get("is_done", True) else hub.reading)
    if not patterns.calls:
        return [*lines, "", "No tool was called yet."]
    lines.append(f"{patterns.calls:,} calls, from {_when(patterns.first)} to {_when(patterns.last)} UTC")
    for by in ("tool", "client"):
        facts: dict[str, Any] = patterns.facts(by)
        lines += ["", f"{cell(by, 22)}     calls  errors  00    06    12    18    last call"]
        for row in facts["rows"]:
            hours = [sum(row["week"][hour::24]) for hour in range(24)]
            lines.append(
                f"{cell(row['name'], 22)}  {short(row['calls']):>8}  {row['errors']:>6}  {_strip(hours)}  "
                f"{_when(row['last'])}"
            )
    return [*lines, *_news(patterns.news())]


def _news(found: dict[str, Any]) -> list[str]:
    lines = ["", "new since last week:"]
    if not found["is_known"]:
        return [*lines, "  there is not yet more than a week to compare with"]
    for row in found["new"]:
        what = "a new tool" if row["is_new_tool"] else "a new client" if row["is_new_client"] else ""
        lines.append(
            f"  {cell(row['client'], 14)}  {cell(row['tool'], 20)}  {row['calls']:>7}  {_when(row['first'])}"
            f"  {what}"
        )
    lines += [] if found["new"] else ["  nothing"]
    lines += ["", "not seen for a week:"] if found["gone"] else []
    lines += [
        f"  {cell(row['client'], 14)}  {cell(row['tool'], 20)}  {row['calls']:>7}  {_when(row['last'])}"
        for row in found["gone"]
    ]
    return lines


def _strip(counts: list[int]) -> str:
    most = max(counts) or 1
    return "".join(_RAMP[(count * (len(_RAMP) - 1) + most - 1) // most] for count in counts)


def _progress(found: dict[str, Any] | None) -> list[str]:
    if found is None:
        return []
    count = found.get("messages", found.get("count", 0))
    return [f"reading: {count:,} messages, {float(found.get('share', 0)):.0%}"]


def _when(moment: float) -> str:
    return time.strftime("%m-%d %H:%M", time.gmtime(moment)) if moment else ""
