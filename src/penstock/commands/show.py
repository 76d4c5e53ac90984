"""`penstock show`: what was recorded, one message a row, for people, for programs, or as the very bytes."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from datetime import datetime

import msgspec

from penstock.arguments import Parser
from penstock.commands.filtered import split_files
from penstock.errors import UsageError
from penstock.observe.filter_words import compile_filter
from penstock.observe.progress import Progress, size_of
from penstock.observe.reader import RecordingReader, open_recording
from penstock.observe.recording import Line
from penstock.observe.rows import MessageRow, Rows
from penstock.wire.mcp.replies import one_line

USAGE = "penstock show FILE... [WORDS...] [--follow] [--format table|json|raw]"
_POLL_SECONDS = 0.1
_ARROWS = {"client": ">", "upstream": "<", "penstock": "="}


def parser() -> Parser:
    """The parser of `penstock show`."""
    made = Parser(
        prog="penstock show",
        usage=USAGE,
        description="Show what a recording holds, one message a row. WORDS is a filter, such as "
        "tool:git_* ms>500 or verdict:block,deny; -rule:no-keys leaves out what matches.",
    )
    add = made.add_argument
    add(
        "words",
        nargs="+",
        metavar="FILE|WORDS",
        help="recordings, .gz and .zst too, or a folder of them; then a filter: see docs/seeing.md",
    )
    add("--follow", action="store_true", help="go on with what is recorded from now on")
    made.add_format("rows, JSON lines or the bytes", "raw")
    return made


def run(options: argparse.Namespace) -> int:
    """Prints what the filter finds."""
    files, terms = split_files(options.words)
    if options.follow and len(files) > 1:
        raise UsageError("--follow goes with one file", f"Usage: {USAGE}")
    wanted = compile_filter(" ".join(terms))
    form = {"table": _as_row, "json": _as_json, "raw": _as_bytes}[options.format]
    is_several = len(files) > 1
    out = sys.stdout.buffer
    has_head = options.format != "table"
    arrays: set[int] = set()  # shown as they came: their messages would come twice
    for path in files:
        arrays.clear()
        is_named = not is_several or options.format != "table"  # numbers begin anew in each file
        for row in Rows().all(_lines(path, options.follow)):
            if wanted.matches(row) and row.line.batch not in arrays:
                if not has_head:
                    out.write(_HEAD)
                    has_head = True
                if not is_named:
                    out.write(f"{one_line(path)}:\n".encode("utf-8", "replace"))
                    is_named = True
                out.write(_as_json(row, path) if is_several and form is _as_json else form(row))
                if row.line.kind == "batch" and form is _as_bytes:
                    arrays.add(row.line.i)
                if options.follow:
                    out.flush()
    if not has_head:
        out.write(_HEAD)
    out.flush()
    return 0


def _lines(path: str, follows: bool) -> Iterator[Line]:
    # At a terminal the rows are what shows how far it is.
    progress = Progress("messages", size_of([path]), sys.stderr.isatty() and not sys.stdout.isatty())
    reader = RecordingReader(path, None if follows else progress.add)
    if not follows:
        yield from reader
        progress.end()
        return
    file = open_recording(path)
    waiting = b""
    while True:
        data = file.readline()
        if data:
            waiting += data
            if waiting.endswith(b"\n"):
                yield from reader.take(waiting)
                waiting = b""
            continue
        sys.stdout.buffer.flush()
        time.sleep(_POLL_SECONDS)
        if _was_replaced(path, file.fileno()):
            file.close()
            file, waiting = open_recording(path), b""


def _was_replaced(path: str, fd: int) -> bool:
    try:
        return os.stat(path).st_ino != os.fstat(fd).st_ino
    except FileNotFoundError:
        return False


# --- forms ------------------------------------------------------------------------------------------------

_HEAD = (
    b"       I  TIME             SESSION     METHOD                 NAME                       MS    BYTES"
    b"  VERDICT  RULE\n"
)


def _as_row(row: MessageRow) -> bytes:
    line = row.line
    moment = datetime.fromtimestamp(line.t).strftime("%H:%M:%S.%f")
    if line.lost is not None:
        return f"{line.i:>8}  {moment}  {line.lost.count} records were lost\n".encode()
    method = row.method or line.kind
    if line.kind == "response":
        method = f"{'error' if row.is_error else 'answer'} {method}".rstrip()
    ms = "" if row.ms is None else f"{row.ms:.1f}"
    text = (
        f"{line.i:>8}  {moment}  {line.s[:8]:<8}  {_ARROWS.get(line.sender, '?')} {_cell(method, 22)} "
        f"{_cell(row.tool, 22)} {ms:>7} {len(line.raw):>8}  {line.verdict:<7}  {line.by}"
    )
    return (one_line(text.rstrip()) + "\n").encode("utf-8", "replace")


def _cell(text: str, width: int) -> str:
    text = one_line(text)
    return f"{text[: width - 1]}…" if len(text) > width else f"{text:<{width}}"


def _as_json(row: MessageRow, path: str = "") -> bytes:
    facts = facts_of(row)
    return msgspec.json.encode({"file": path, **facts} if path else facts) + b"\n"


def facts_of(row: MessageRow) -> dict[str, object]:
    """The row for programs; the message is its text, and in base64 where it is none."""
    line = row.line
    facts: dict[str, object] = {
        "i": line.i,
        "t": line.t,
        "session": line.s,
        "client": row.client,
        "from": line.sender,
        "kind": line.kind,
        "method": row.method,
        "tool": row.tool,
        "id": row.id,
        "status": row.status,
        "verdict": line.verdict,
        "rule": line.by,
        "rules": line.rules,
        "why": line.why,
        "code": row.code,
        "re": line.re,
        "in": line.batch,
        "ms": None if row.ms is None else round(row.ms, 3),
        "us": line.us,
        "size": len(line.raw),
        "tokens": row.tokens,
    }
    facts = {name: value for name, value in facts.items() if value not in ("", None, 0, [])}
    if line.lost is not None:
        facts["lost"] = line.lost
    elif line.b64 and not line.text and not line.msg:
        facts["b64"] = line.b64
    else:
        facts["text"] = row.text()
    if line.sent is not None:
        facts["sent"] = line.sent.decode("utf-8", "replace")
    return facts


def _as_bytes(row: MessageRow) -> bytes:
    return b"" if row.line.lost is not None else row.line.raw + b"\n"
