"""The tables for people, made from the results and from nothing else."""

from __future__ import annotations

from typing import Any


def tables(results: dict[str, Any]) -> str:
    return "\n".join(pair_table(group) for group in results.get("groups", {}).values())


def pair_table(group: dict[str, Any]) -> str:
    """One pair of transports: a row for each target and workload."""
    reference = group["reference"]
    lines = [
        f"### {group['title']}",
        "",
        f"| workload | target | p50 us | p99 us | +p50 us | +p99 us | answers/s | p50 x {reference} "
        f"| answers/s x {reference} | CPU us | busy: target / upstream / client |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    keys = dict.fromkeys(key for cells in group["targets"].values() for key in cells)
    for key in keys:
        for name, cells in group["targets"].items():
            cell = cells.get(key)
            if cell is None:
                continue
            if "failed" in cell:
                lines.append(f"| {key} | {name} | failed: {cell['failed'][:120]} |" + " |" * 8)
                continue
            busy = " / ".join(f"{cell[what]:.2f}" for what in ("busy", "busy upstream", "busy client"))
            lines.append(
                f"| {key} | {name} | {number(cell['p50'])} | {number(cell['p99'])} "
                f"| {number(cell.get('added p50'))} | {number(cell.get('added p99'))} "
                f"| {number(cell['rate'])} | {ratio(cell.get(f'p50 x {reference}'))} "
                f"| {ratio(cell.get(f'rate x {reference}'))} | {number(cell['cpu'])} | {busy} |"
            )
    return "\n".join([*lines, ""])


def number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.1f}"


def ratio(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"
