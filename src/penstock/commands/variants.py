"""`penstock variants`: what several rule sets do, side by side, over recordings."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections import Counter
from typing import Any

from msgspec import Struct, field, structs

from penstock.arguments import Parser
from penstock.commands.backtest_run import BEFORE_THE_GATE, STOPPED, Judge
from penstock.commands.filtered import recordings_of
from penstock.commands.results import FOUND, json_text
from penstock.config.file import load_file
from penstock.config.variants import VariantSet
from penstock.errors import ConfigError
from penstock.learn.events import read_rows
from penstock.learn.intervals import is_difference_shown, wilson
from penstock.observe.rows import MessageRow
from penstock.wire.mcp.replies import one_line

USAGE = "penstock variants RECORDING... --config FILE [--format table|json]"
_EXAMPLES = 3
_TIMES = 100_000  # so many are kept of each set


def parser() -> Parser:
    """The parser of `penstock variants`."""
    made = Parser(
        prog="penstock variants",
        usage=USAGE,
        description="Compare the rule sets of a configuration's variants section over recordings. Every set "
        "judges every message, on paper, and is compared with the first; errors and times are those of the "
        "sessions that had the set when they were recorded. Exit 3 when sets disagree.",
    )
    add = made.add_argument
    add("files", nargs="+", metavar="RECORDING", help="recordings, or folders of them")
    add("--config", metavar="FILE", required=True, help="the configuration with the variants section")
    made.add_format("sentences, or one JSON object")
    return made


class Difference(Struct):
    """Messages that a set stops or passes, by one rule, and the first does not."""

    count: int = 0
    examples: list[int] = field(default_factory=list)

    def add(self, index: int) -> None:
        """One more."""
        self.count += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(index)


class Tally(Struct):
    """What one set has done."""

    words: Counter[str] = field(default_factory=Counter)  # verdicts on paper
    differs: dict[tuple[str, str], Difference] = field(default_factory=dict)  # by what and rule
    sessions: set[str] = field(default_factory=set)  # which had it when they were recorded
    answers: int = 0
    errors: int = 0
    times: list[float] = field(default_factory=list)


def run(options: argparse.Namespace) -> int:
    """Compares; gives back the exit code."""
    logging.getLogger("penstock").setLevel(logging.ERROR)
    config = load_file(options.config)
    if config.variants is None:
        raise ConfigError(f"There is no variants section in {options.config}", "It names the rule sets")
    judges = []
    for one in config.variants.sets:
        rules = config if one.config is None else one.config
        judges.append((one, Judge(structs.replace(rules, variants=None))))
    tallies = {one.name: Tally() for one, _ in judges}
    asyncio.run(_judge(recordings_of(options.files), judges, tallies))
    facts = [_facts(one, tallies[one.name], tallies[judges[0][0].name]) for one, _ in judges]
    if options.format == "json":
        sys.stdout.write(json_text({"sets": facts}))
    else:
        sys.stdout.write("".join(f"{one_line(line)}\n" for line in _lines(facts)))
    return FOUND if any(tally.differs for tally in tallies.values()) else 0


async def _judge(files: list[str], judges: list[tuple[VariantSet, Judge]], tallies: dict[str, Tally]) -> None:
    for row in read_rows(files):
        line = row.line
        if line.sender == "penstock":
            continue
        _count_recorded(row, tallies)
        if line.by in BEFORE_THE_GATE:
            continue
        first = None
        for one, judge in judges:
            judged = await judge.judge(line)
            if judged is None:
                continue
            tally = tallies[one.name]
            tally.words[judged.word] += 1
            if first is None:
                first = judged
                continue
            was, is_now = first.word in STOPPED, judged.word in STOPPED
            if was != is_now:
                key = ("stops", judged.rule) if is_now else ("passes", first.rule)
                tally.differs.setdefault(key, Difference()).add(line.i)


def _count_recorded(row: MessageRow, tallies: dict[str, Tally]) -> None:
    tally = tallies.get(row.line.variant)
    if tally is None:
        tally = next((one for one in tallies.values() if row.line.s in one.sessions), None)
    if tally is None:
        return
    tally.sessions.add(row.line.s)
    if row.line.kind == "response" and row.line.sender == "upstream":
        tally.answers += 1
        tally.errors += row.is_error
        if row.ms is not None and len(tally.times) < _TIMES:
            tally.times.append(row.ms)


def _facts(one: VariantSet, tally: Tally, first: Tally) -> dict[str, Any]:
    """What one set has done, and whether its errors differ from the first one's by more than chance."""
    shown = None
    if tally is not first and tally.answers and first.answers:
        shown = is_difference_shown((tally.errors, tally.answers), (first.errors, first.answers))
    differs = [
        {"what": what, "rule": rule, "count": found.count, "examples": found.examples}
        for (what, rule), found in sorted(tally.differs.items())
    ]
    return {
        "name": one.name,
        "is_shadow": one.is_shadow,
        "share": one.share,
        "verdicts": dict(sorted(tally.words.items())),
        "differs": differs,
        "recorded": _recorded(tally) if tally.sessions else None,
        "is_difference_shown": shown,
    }


def _recorded(tally: Tally) -> dict[str, Any]:
    low, high = wilson(tally.errors, tally.answers)
    times = sorted(tally.times)
    half = times[len(times) // 2] if times else None
    most = times[min(len(times) - 1, int(len(times) * 0.99))] if times else None
    return {
        "sessions": len(tally.sessions),
        "answers": tally.answers,
        "errors": tally.errors,
        "low": round(low, 5),
        "high": round(high, 5),
        "p50": half,
        "p99": most,
    }


def _lines(sets: list[dict[str, Any]]) -> list[str]:
    lines = []
    first = sets[0]["name"]
    for one in sets:
        kind = "shadow" if one["is_shadow"] else f"{one['share']} %"
        verdicts = ", ".join(f"{word} {count:,}" for word, count in one["verdicts"].items()) or "nothing"
        lines.append(f"{one['name']} ({kind}): {verdicts}")
        for found in one["differs"]:
            some = ", ".join(f"{index:,}" for index in found["examples"])
            lines.append(
                f"  {found['what']} {found['count']:,} that {first} does not (rule {found['rule'] or '-'}): "
                f"message {some}"
            )
        if one["recorded"]:
            lines.append(_measured(one["recorded"]))
        if one["is_difference_shown"] is not None:
            shown = "a difference is shown" if one["is_difference_shown"] else "no difference shown"
            lines.append(f"  errors beside {first}: {shown}")
    return lines


def _measured(found: dict[str, Any]) -> str:
    took = "" if found["p50"] is None else f"; p50 {found['p50']:.1f} ms, p99 {found['p99']:.1f} ms"
    return (
        f"  recorded: {found['sessions']:,} sessions, {found['answers']:,} answers, "
        f"{found['errors']:,} errors ({found['low']:.1%} to {found['high']:.1%}){took}"
    )
