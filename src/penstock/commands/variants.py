"""`penstock variants`: what several rule sets do, side by side, over recordings."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections import Counter

from msgspec import Struct, field, structs

from penstock.arguments import Parser
from penstock.commands.backtest_run import BEFORE_THE_GATE, STOPPED, Judge
from penstock.config.file import load_file
from penstock.config.variants import VariantSet
from penstock.errors import ConfigError
from penstock.learn.intervals import is_difference_shown, wilson
from penstock.observe.reader import RecordingReader
from penstock.observe.rows import MessageRow, Rows
from penstock.wire.mcp.replies import one_line

USAGE = "penstock variants RECORDING... --config FILE"
_EXAMPLES = 3


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
    add("files", nargs="+", metavar="RECORDING", help="recordings")
    add("--config", metavar="FILE", required=True, help="the configuration with the variants section")
    return made


class Tally(Struct):
    """What one set has done."""

    words: Counter[str] = field(default_factory=Counter)  # verdicts on paper
    differs: dict[tuple[str, str], list[int]] = field(default_factory=dict)  # what and rule: messages
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
    asyncio.run(_judge(options.files, judges, tallies))
    sys.stdout.write("".join(f"{one_line(line)}\n" for line in _lines(judges, tallies)))
    return 3 if any(tally.differs for tally in tallies.values()) else 0


async def _judge(files: list[str], judges: list[tuple[VariantSet, Judge]], tallies: dict[str, Tally]) -> None:
    for number, path in enumerate(files):
        for row in Rows().all(RecordingReader(path)):
            line = row.line
            if line.sender == "penstock" or line.lost is not None:
                continue
            line.s = f"{line.s}#{number}" if number else line.s
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
                    tally.differs.setdefault(key, []).append(line.i)


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
        if row.ms is not None and len(tally.times) < 100_000:
            tally.times.append(row.ms)


def _lines(judges: list[tuple[VariantSet, Judge]], tallies: dict[str, Tally]) -> list[str]:
    lines = []
    first = judges[0][0].name
    for one, _ in judges:
        tally = tallies[one.name]
        kind = "shadow" if one.is_shadow else f"{one.share} %"
        verdicts = ", ".join(f"{word} {count:,}" for word, count in sorted(tally.words.items())) or "nothing"
        lines.append(f"{one.name} ({kind}): {verdicts}")
        for (what, rule), indexes in sorted(tally.differs.items()):
            some = ", ".join(f"{index:,}" for index in indexes[:_EXAMPLES])
            lines.append(
                f"  {what} {len(indexes):,} that {first} does not (rule {rule or '-'}): message {some}"
            )
        if tally.sessions:
            lines.append(_measured(tally))
        if one.name != first and tally.answers and tallies[first].answers:
            mine, theirs = (tally.errors, tally.answers), (tallies[first].errors, tallies[first].answers)
            shown = "a difference is shown" if is_difference_shown(mine, theirs) else "no difference shown"
            lines.append(f"  errors beside {first}: {shown}")
    return lines


def _measured(tally: Tally) -> str:
    low, high = wilson(tally.errors, tally.answers)
    times = sorted(tally.times)
    took = ""
    if times:
        half, most = times[len(times) // 2], times[min(len(times) - 1, int(len(times) * 0.99))]
        took = f"; p50 {half:.1f} ms, p99 {most:.1f} ms"
    return (
        f"  recorded: {len(tally.sessions):,} sessions, {tally.answers:,} answers, {tally.errors:,} errors "
        f"({low:.1%} to {high:.1%}){took}"
    )
