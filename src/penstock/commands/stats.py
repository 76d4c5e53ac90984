"""`penstock stats`: what recordings come to, and what is different from another one."""

from __future__ import annotations

import argparse
import sys

from penstock.arguments import Parser
from penstock.commands.filtered import split_files
from penstock.commands.results import FOUND, columns, json_text
from penstock.observe.audit_reader import maybe_audit_rows
from penstock.observe.filter_words import Filter, compile_filter
from penstock.observe.progress import Progress, size_of
from penstock.observe.reader import RecordingReader
from penstock.observe.rows import Rows
from penstock.observe.statistics import BY, Statistics, Tally
from penstock.wire.mcp.replies import one_line

USAGE = "penstock stats FILE... [WORDS...] [--by WHAT] [--compare FILE] [--config FILE] [--format table|json]"
_SHIFT = 2.0  # a rate that is so many times as high, or as low, has shifted


def parser() -> Parser:
    """The parser of `penstock stats`."""
    made = Parser(
        prog="penstock stats",
        usage=USAGE,
        description="Count what recordings or audit files hold: calls, errors, blocks, latencies, tokens. "
        "WORDS is a filter, as for show. With --compare: what is new since another recording, and which "
        "rates have shifted; exit 3 if something has.",
    )
    add = made.add_argument
    add("words", nargs="+", metavar="FILE|WORDS", help="files, then the words of a filter")
    add("--by", choices=BY, default="tool", help="what the rows are; default tool")
    add("--compare", metavar="FILE", help="an older recording")
    add("--config", metavar="FILE", help="the rules, to say which of them were never hit")
    made.add_format("a table or JSON")
    return made


def run(options: argparse.Namespace) -> int:
    """Does what was asked for; gives back the exit code."""
    files, terms = split_files(options.words)
    wanted = compile_filter(" ".join(terms))
    found = gather(files, wanted, options.by)
    older = None if options.compare is None else gather([options.compare], wanted, options.by)
    never = _never_hit(options.config, found)
    if options.format == "json":
        sys.stdout.write(_as_json(found, older, never))
    else:
        sys.stdout.write(_as_table(found, never))
    differences = [] if older is None else compare(older, found)
    if options.format == "table":
        for sentence in differences:
            sys.stdout.write(one_line(sentence) + "\n")
        if older is not None and not differences:
            sys.stdout.write("Nothing is new, and no rate has shifted.\n")
    return FOUND if differences else 0


def gather(files: list[str], wanted: Filter, by: str) -> Statistics:
    """What the files come to."""
    statistics = Statistics(by)
    progress = Progress("messages", size_of(files))
    for path in files:
        audited = maybe_audit_rows(path)
        if audited is not None:
            for entry in audited:
                if wanted.matches(entry):
                    statistics.add_audited(entry)
            continue
        rows = Rows()
        for row in rows.all(RecordingReader(path, progress.add)):
            if wanted.matches(row):
                statistics.add(row)
        if not terms_hide_requests(wanted):
            statistics.end(rows)
    progress.end()
    return statistics


def terms_hide_requests(wanted: Filter) -> bool:
    """Whether the filter leaves out messages, so that unanswered requests cannot be told."""
    return bool(wanted.fields)


def _never_hit(config: str | None, found: Statistics) -> list[str]:
    if config is None:
        return []
    from penstock.config.file import load_file

    rules = load_file(config).interceptor
    return (
        []
        if rules is None
        else [rule.id for rule in rules.rules if rule.enabled and rule.id not in found.rules]
    )


# --- differences ------------------------------------------------------------------------------------------


def compare(older: Statistics, newer: Statistics) -> list[str]:
    """What is new since the older recording, and which rates have shifted, in sentences."""
    out = []
    for name, tally in sorted(newer.tallies.items()):
        before = older.tallies.get(name)
        if before is None:
            out.append(f"new {newer.by}: {name} ({tally.count} times)")
            continue
        for argument in sorted(tally.arguments - before.arguments):
            out.append(f"new argument of {name}: {argument}")
        out += _shifted(name, before, tally)
    return out


def _shifted(name: str, before: Tally, after: Tally) -> list[str]:
    out: list[str] = []
    for what in ("errors", "blocks"):
        was, now = (getattr(tally, what) / max(tally.count, 1) for tally in (before, after))
        if max(before.count, after.count) >= 10 and abs(now - was) >= 0.05 and _is_far(was, now):
            out.append(f"{what} of {name}: {was:.1%} before, {now:.1%} now")
    slow_before, slow_after = before.percentile(0.95) or 0.0, after.percentile(0.95) or 0.0
    is_known = slow_before and slow_after and min(before.answered, after.answered) >= 20
    if is_known and abs(slow_after - slow_before) >= 5 and _is_far(slow_before, slow_after):
        out.append(f"p95 of {name}: {slow_before:.1f} ms before, {slow_after:.1f} ms now")
    return out


def _is_far(one: float, other: float) -> bool:
    low, high = sorted((one, other))
    return high > low * _SHIFT


# --- forms ------------------------------------------------------------------------------------------------


def _facts(tally: Tally) -> dict[str, object]:
    return {
        "count": tally.count,
        "errors": tally.errors,
        "tool_errors": tally.tool_errors,
        "blocked": tally.blocks,
        "p50_ms": _rounded(tally.percentile(0.5)),
        "p95_ms": _rounded(tally.percentile(0.95)),
        "p99_ms": _rounded(tally.percentile(0.99)),
        "bytes": tally.bytes,
        "tokens": tally.tokens,
        "unanswered": tally.unanswered,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _as_json(found: Statistics, older: Statistics | None, never: list[str]) -> str:
    report: dict[str, object] = {
        "total": _facts(found.whole),
        "sessions": len(found.sessions),
        "lost": found.lost,
        "from": found.first,
        "to": found.last,
        "by": found.by,
        "rows": {name: _facts(tally) for name, tally in sorted(found.tallies.items())},
        "rules": found.rules,
        "never_hit": never,
    }
    if older is not None:
        report["differences"] = compare(older, found)
    return json_text(report)


def _as_table(found: Statistics, never: list[str]) -> str:
    head = (found.by.upper(), "COUNT", "ERRORS", "BLOCKED", "P50 MS", "P95", "P99", "BYTES", "TOKENS", "OPEN")
    rows: list[tuple[str, ...]] = [head]
    ordered = sorted(found.tallies.items(), key=lambda pair: (-pair[1].count, pair[0]))
    if found.by in ("hour", "day"):
        ordered.sort()
    for name, tally in [*ordered, ("total", found.whole)]:
        rows.append((one_line(name), *map(_number, _row(tally))))
    lines = columns(rows, numbers=range(1, len(head)))
    sessions, unanswered = len(found.sessions), found.whole.unanswered
    lines.append(
        f"{sessions} session{'s' * (sessions != 1)}; "
        f"{unanswered} request{'s were' if unanswered != 1 else ' was'} never answered."
    )
    if found.lost:
        lines.append(f"{found.lost} records were lost while recording.")
    if never:
        lines.append(f"never hit: {', '.join(map(one_line, never))}")
    return "\n".join(lines) + "\n"


def _row(tally: Tally) -> tuple[object, ...]:
    latencies = (tally.percentile(0.5), tally.percentile(0.95), tally.percentile(0.99))
    return (tally.count, tally.errors, tally.blocks, *latencies, tally.bytes, tally.tokens, tally.unanswered)


def _number(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.1f}" if isinstance(value, float) else f"{value:,}"
