"""The tables for people, made from the results and from nothing else."""

from __future__ import annotations

from typing import Any

from bench.verdicts import verdicts


def tables(results: dict[str, Any]) -> str:
    """Everything that was measured, as it is printed after a run."""
    parts = [pair_table(group) for group in results["groups"].values()]
    parts += [start_table(results), memory_table(results), growth_table(results)]
    parts += ["### Promises", "", promise_table(results)]
    return "\n".join(part for part in parts if part)


def promise_table(results: dict[str, Any]) -> str:
    lines = ["| promise | limit | measured | |", "|---|---|---|---|"]
    lines += [f"| {v.promise} | {v.limit} | {v.measured} | {v.state} |" for v in verdicts(results)]
    return "\n".join([*lines, ""])


def pair_table(group: dict[str, Any]) -> str:
    """One pair of transports: a row for each workload and target."""
    reference = group["reference"]
    lines = [
        f"### {group['title']}",
        "",
        "| workload | target | first byte us | p50 us | p99 us | +p50 us | +p99 us | answers/s "
        f"| p50 x {reference} | answers/s x {reference} | CPU us | busy |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    keys = dict.fromkeys(key for cells in group["targets"].values() for key in cells)
    for key in keys:
        for name, cells in group["targets"].items():
            cell = cells.get(key)
            if cell is None:
                continue
            if "failed" in cell:
                lines.append(f"| {key} | {name} | failed: {plain(cell['failed'])} |" + " |" * 9)
                continue
            busy = " / ".join(f"{cell[what]:.2f}" for what in ("busy", "busy upstream", "busy client"))
            lines.append(
                f"| {key} | {name} | {number(cell.get('first'))} "
                f"| {number(cell['p50'])} | {number(cell['p99'])} "
                f"| {number(cell.get('added p50'))} | {number(cell.get('added p99'))} "
                f"| {number(cell['rate'])} | {ratio(cell.get(f'p50 x {reference}'))} "
                f"| {ratio(cell.get(f'rate x {reference}'))} | {number(cell['cpu'])} | {busy} |"
            )
    return "\n".join([*lines, ""])


def start_table(results: dict[str, Any]) -> str:
    start = results.get("start", {})
    if not start:
        return ""
    lines = ["### Start", "", "| pair | target | exec to first answer, ms |", "|---|---|--:|"]
    for pair, targets in start.items():
        for name, found in targets.items():
            value = f"failed: {plain(found['failed'])}" if "failed" in found else number(found["ms"])
            lines.append(f"| {pair} | {name} | {value} |")
    return "\n".join([*lines, ""])


def memory_table(results: dict[str, Any]) -> str:
    memory = results.get("memory", {})
    if not memory:
        return ""
    bare = memory["bare"]
    lines = [
        "### Memory, MiB",
        "",
        "| pair | target | at rest: private / proportional / resident | after calls: private (calls) "
        "| added peak of 1 MB / 10 MB results | after big results: private "
        "| idle sessions: private (KiB each) |",
        "|---|---|--:|--:|--:|--:|--:|",
        f"| | bare interpreter | {_three(bare)} | | | | |",
    ]
    for pair, targets in memory["pairs"].items():
        for name, found in targets.items():
            if "rest" not in found:
                lines.append(f"| {pair} | {name} | failed: {plain(found['failed'])} | | | | |")
                continue
            peaks = " / ".join(
                "failed" if f"{size} failed" in found else mib(found[f"peak of {size}, added"])
                for size in ("1 MB", "10 MB")
            )
            after = mib(found["after 10 MB"]["private"]) if "after 10 MB" in found else ""
            lines.append(
                f"| {pair} | {name} | {_three(found['rest'])} "
                f"| {mib(found['after calls'][-1]['private'])} ({found['calls'][-1]:,}) | {peaks} | {after} "
                f"| {_sessions(found.get('sessions'))} |"
            )
    return "\n".join([*lines, ""])


def _sessions(found: dict[str, Any] | None) -> str:
    if found is None:
        return ""
    if "failed" in found:
        return f"failed at {found['count']:,}: {plain(found['failed'])}"
    return f"{found['count']:,}: {mib(found['memory']['private'])} ({found['KiB each']:.1f})"


def growth_table(results: dict[str, Any]) -> str:
    growth = results.get("growth", {})
    if not growth:
        return ""
    parts = []
    for name, lines in growth.items():
        if "failed" in lines:
            parts += [f"### Growth with {name}", "", f"Failed: {plain(lines['failed'])}", ""]
            continue
        places = list(dict.fromkeys(at for line in lines.values() for at in line))
        parts += [f"### Growth with {name}, us for one message", ""]
        parts += ["| | " + " | ".join(f"{int(at):,}" for at in places) + " |"]
        parts += ["|---|" + "--:|" * len(places)]
        for label, line in lines.items():
            parts.append(f"| {label} | " + " | ".join(number(line.get(at)) for at in places) + " |")
        parts.append("")
    return "\n".join(parts)


def plain(text: str) -> str:
    """One line that does not break a table."""
    return " ".join(text.replace("|", "/").split())[:100]


def mib(kib: float) -> str:
    return f"{kib / 1024:.1f}"


def _three(memory: dict[str, int]) -> str:
    return " / ".join(mib(memory[what]) for what in ("private", "proportional", "resident"))


def number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.1f}"


def ratio(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"
