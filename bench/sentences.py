"""A sentence for each thing that grows, with the figures that were measured."""

from __future__ import annotations

from typing import Any

from bench.report import number

OTHERS = "rules that name other methods"
SAME = "rules that name the method, and do not hold"


def growth_sentences(results: dict[str, Any]) -> list[str]:
    growth = results.get("growth", {})
    makers = {"tools": _tools, "rules": _rules, "size": _sizes, "sessions": _sessions}
    return [
        make(growth[name])
        for name, make in makers.items()
        if growth.get(name) and "failed" not in growth[name]
    ]


def _ends(line: dict[str, float]) -> tuple[int, float, int, float]:
    """The least and the most, each with its time."""
    places = sorted(line, key=int)
    return int(places[0]), line[places[0]], int(places[-1]), line[places[-1]]


def _tools(lines: dict[str, dict[str, float]]) -> str:
    few, first, many, last = _ends(lines["call, http to http"])
    _, pipe_first, _, pipe_last = _ends(lines["call, stdio to stdio"])
    _, list_first, _, list_last = _ends(lines["list, http to http"])
    return (
        f"**Tools.** With {many:,} tools instead of {few:,} a call takes {last / first:.2f} times as long "
        f"over HTTP ({number(first)} and {number(last)} us) and {pipe_last / pipe_first:.2f} times over "
        f"stdio; `tools/list`, whose answer is {many // few:,} times as long, takes "
        f"{list_last / list_first:.0f} times as long."
    )


def _rules(lines: dict[str, dict[str, float]]) -> str:
    _, none, many, others = _ends(lines[OTHERS])
    _, base, _, same = _ends(lines[SAME])
    return (
        f"**Rules.** With {many:,} rules that name other methods an exchange takes {others / none:.2f} times "
        f"as long as with none ({number(none)} and {number(others)} us, in memory); with {many:,} that name "
        f"the method and do not hold, {number(same)} us, {(same - base) / many:.2f} us for each rule."
    )


def _sizes(lines: dict[str, dict[str, float]]) -> str:
    told = []
    for pair, word in (("http to http", "HTTP"), ("stdio to stdio", "stdio")):
        small, at_small, big, at_big = _ends(lines[f"result, penstock, {pair}"])
        _, direct_small, _, direct_big = _ends(lines[f"result, direct, {pair}"])
        each = ((at_big - direct_big) - (at_small - direct_small)) / (big - small) * 1000
        told.append(f"{each:.1f} ns over {word}")
    return (
        f"**Size.** Each byte of a result adds {' and '.join(told)} to what going direct takes, "
        f"up to {big:,} bytes."
    )


def _sessions(lines: dict[str, dict[str, float]]) -> str:
    few, first, many, last = _ends(lines["call, http to http"])
    return (
        f"**Sessions.** With {many:,} sessions open instead of {few:,} a call takes {last / first:.2f} times "
        f"as long ({number(first)} and {number(last)} us)."
    )
