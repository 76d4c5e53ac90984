"""`penstock why`: all that is known of one recorded message, and which rules made what of it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

from penstock.arguments import Parser, whole_number
from penstock.commands.results import json_text
from penstock.commands.show import facts_of
from penstock.errors import ConfigError, ProtocolError
from penstock.observe.progress import Progress, size_of
from penstock.observe.reader import RecordingReader
from penstock.observe.recording import Line
from penstock.observe.rows import MessageRow, Rows
from penstock.wire.mcp.replies import one_line

USAGE = "penstock why FILE N [--config FILE] [--format table|json]"
_SHOWN = 2_000


_WHO = {"client": "the client", "upstream": "the upstream", "penstock": "Penstock"}


def _who(line: Line) -> str:
    return _WHO.get(line.sender, line.sender)


def parser() -> Parser:
    """The parser of `penstock why`."""
    made = Parser(
        prog="penstock why",
        usage=USAGE,
        description="Say everything about message N of a recording: what it was, what was decided and by "
        "which rule, what was sent instead, what it was answered, how long that took, and what came before "
        "it in its session. With --config: each rule of that file with each of its conditions.",
    )
    add = made.add_argument
    add("file", metavar="FILE", help="the recording")
    add("number", metavar="N", type=whole_number, help="the number of the message, as show prints it")
    add("--config", metavar="FILE", help="the configuration whose rules are to be explained")
    made.add_format("sentences, or one JSON object")
    return made


def run(options: argparse.Namespace) -> int:
    """Prints it; gives back the exit code."""
    row, session = _find(options.file, options.number)
    lines = [one_line(line) for line in _told(row, session)]
    explained = [] if options.config is None else list(_explained(options.config, row, session))
    if options.format == "json":
        told = {"message": facts_of(row), "why": lines, "rules": [one_line(line) for line in explained]}
        sys.stdout.write(json_text(told))
        return 0
    for line in [*lines, *explained]:
        sys.stdout.write(one_line(line) + "\n")
    return 0


def _find(path: str, number: int) -> tuple[MessageRow, list[MessageRow]]:
    """The message, and its session: everything up to it, and the answer to it."""
    session_id = None
    progress = Progress("lines", 2 * size_of([path]))  # it is read twice
    for row in Rows().all(RecordingReader(path, progress.add)):
        if row.line.i == number and row.line.lost is None:
            session_id = row.line.s
    if session_id is None:
        raise ConfigError(f"There is no message {number} in {path}", "penstock show lists what there is")
    found = None
    session = []
    for row in Rows().all(RecordingReader(path, progress.add)):
        if row.line.s == session_id and (row.line.i <= number or row.line.re == number):
            session.append(row)
            found = row if row.line.i == number else found
    progress.end()
    assert found is not None
    return found, session


def _told(row: MessageRow, session: list[MessageRow]) -> Iterator[str]:
    line = row.line
    moment = datetime.fromtimestamp(line.t, UTC).isoformat(timespec="microseconds")
    what = " ".join(part for part in (row.method, row.tool) if part)
    yield f"message {line.i}: {line.kind} of {_who(line)}{f': {what}' if what else ''}"
    yield f"  at {moment}, session {line.s}{f', client {row.client}' if row.client else ''}" + (
        f", {line.era} era" if line.era else ""
    )
    yield f"  {len(line.raw):,} bytes, about {row.tokens:,} tokens: {_shown(line.raw)}"
    yield f"verdict: {line.verdict}" + (f" by {line.by}" if line.by else "")
    if line.rules:
        yield f"  rules that applied, in order: {', '.join(line.rules)}"
    if line.why:
        yield f"  because: {line.why}"
    if line.sent is not None:
        yield from _changed(line.raw, line.sent)
    yield f"  decided after {line.us:,} microseconds"
    yield from _exchange(row, session)
    before = [one for one in session if one.line.i < line.i]
    calls = sum(one.method == "tools/call" and one.line.kind == "request" for one in before)
    stopped = sum(one.line.verdict in ("deny", "block", "drop", "refuse") for one in before)
    yield f"session so far: {len(before)} messages, {calls} calls, {stopped} stopped" + (
        f", for {line.t - before[0].time:.1f} s" if before else ""
    )


def _exchange(row: MessageRow, session: list[MessageRow]) -> Iterator[str]:
    if row.asked is not None:
        yield f"answers: message {row.asked.index}, after {row.ms:.1f} ms"
    for one in session:
        if one.line.re == row.line.i:
            yield (
                f"answered: by message {one.line.i} of {_who(one.line)}, after {one.ms or 0:.1f} ms: "
                f"{_shown(one.line.sent or one.line.raw)}"
            )


def _changed(raw: bytes, sent: bytes) -> Iterator[str]:
    start = next(
        (place for place, (a, b) in enumerate(zip(raw, sent, strict=False)) if a != b),
        min(len(raw), len(sent)),
    )
    most = min(len(raw), len(sent)) - start
    same = next((place for place in range(most) if raw[-1 - place] != sent[-1 - place]), most)
    yield f"sent instead: {_shown(sent)}"
    yield f"  - byte {start}: {_shown(raw[start : len(raw) - same])}"
    yield f"  + byte {start}: {_shown(sent[start : len(sent) - same])}"


def _shown(raw: bytes) -> str:
    text = raw[:_SHOWN].decode("utf-8", "replace")
    return text if len(raw) <= _SHOWN else f"{text}... ({len(raw):,} bytes)"


def _explained(config: str, row: MessageRow, session: list[MessageRow]) -> Iterator[str]:
    """What the rules of a file make of it, after the messages that came before it in its session."""
    from penstock.commands.dry_run import DryRun, DryRunEffects, read_message
    from penstock.commands.rules import explained, read_rules_of
    from penstock.policy.rules.exchange import Direction

    effects = DryRunEffects()
    effects.now = session[0].time
    dry_run = DryRun(read_rules_of(config)[1], effects)
    dry_run.session.id = row.line.s
    dry_run.session.client_name = row.client or None
    yield ""
    yield f"under the rules of {config}:"
    for one in session:
        if one.line.sender not in ("client", "upstream") or one.line.i > row.line.i:
            continue
        direction: Direction = "client" if one.line.sender == "client" else "upstream"
        try:
            message = read_message(one.line.raw, direction)
        except ProtocolError as why:
            if one is row:
                yield f"  it is refused before any rule: {why.reason}"
            continue
        effects.now = one.time
        if one is row:
            effects.told.clear()
            yield from explained(dry_run, message, direction)
        else:
            dry_run.play(message, direction)
