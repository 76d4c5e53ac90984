"""What of a session is learned from: calls of tools, and how they were answered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from penstock import limits
from penstock.observe.progress import Progress, size_of
from penstock.observe.reader import RecordingReader
from penstock.observe.record import Record
from penstock.observe.rows import MessageRow, Rows
from penstock.observe.values import maybe_value

CALL = "tools/call"
STOPPED = frozenset({"deny", "block", "drop", "refuse"})


class Event(Struct):
    """One call of a tool, or the answer to one."""

    session: str
    client: str
    time: float
    index: int  # of the message, in its recording
    tool: str
    is_answer: bool = False
    arguments: Any = None  # of a call
    size: int = 0  # of the arguments, in bytes
    is_error: bool = False  # of an answer
    is_stopped: bool = False  # some rule or filter refused it


def event_of_row(row: MessageRow) -> Event | None:
    """What a recorded message tells; None when it is neither call nor answer."""
    line = row.line
    if line.lost is not None or row.method != CALL:
        return None
    is_stopped = line.verdict in STOPPED
    tool = row.tool[: limits.NAME_LENGTH]  # as an observer is told of it
    if line.kind == "response":
        if line.sender == "client":
            return None
        return Event(line.s, row.client, line.t, line.i, tool, True, None, 0, row.is_error, is_stopped)
    if line.kind != "request" or line.sender != "client":
        return None
    arguments, size = _arguments(maybe_value(row.message.params), len(line.raw))
    return Event(line.s, row.client, line.t, line.i, tool, False, arguments, size, False, is_stopped)


def event_of_record(record: Record) -> Event | None:
    """The same of a message that comes by."""
    if record.method != CALL or record.kind not in ("request", "response"):
        return None
    is_answer = record.kind == "response"
    if is_answer == (record.sender == "client"):
        return None
    session = record.session
    client = session.client_name or ""
    is_stopped = record.verdict in STOPPED
    asked = record.request if is_answer else record
    tool = (record.tool if asked is None else asked.tool) or ""
    if is_answer:
        is_error = _is_failed(record.raw)
        return Event(
            session.id, client, record.received, record.index, tool, True, None, 0, is_error, is_stopped
        )
    found, arguments = called(record.raw)
    return Event(
        session.id,
        client,
        record.received,
        record.index,
        tool or found[: limits.NAME_LENGTH],
        False,
        arguments,
        len(record.raw),
        False,
        is_stopped,
    )


class _Params(Struct, gc=False):
    name: Any = ""
    arguments: Any = None


class _Call(Struct, gc=False):
    params: _Params


_decode_call = msgspec.json.Decoder(_Call).decode


class _Arguments(Struct, gc=False):
    arguments: Any = None


class _CallOfKnown(Struct, gc=False):
    params: _Arguments


decode_call = msgspec.json.Decoder(_CallOfKnown).decode
"""The same where the tool is known already: what is not asked for is only passed over."""
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What that raises where `called` may still find something."""


def called(raw: bytes) -> tuple[str, Any]:
    """The tool that a request calls, and with which arguments."""
    try:
        params = _decode_call(raw).params
    except UNREADABLE:
        whole = maybe_value(raw)
        inner = whole.get("params") if isinstance(whole, dict) else None
        return (str(inner.get("name", "")), inner.get("arguments")) if isinstance(inner, dict) else ("", None)
    return str(params.name), params.arguments


class _Reply(Struct):
    error: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET


_decode_reply = msgspec.json.Decoder(_Reply).decode


def may_have_failed(raw: bytes) -> bool:
    """Whether a response could be an error, by the names in it, which have one spelling without escapes."""
    if b"\\u" in raw or b'"result"' not in raw or b'"error"' in raw:
        return True
    return b'"isError"' in raw and b"true" in raw


def _is_failed(raw: bytes) -> bool:
    """Whether a response is an error, of the protocol or of the tool."""
    if not may_have_failed(raw):
        return False
    try:
        reply = _decode_reply(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True
    if reply.error is not UNSET:
        return True
    if b'"isError"' not in raw and b"\\u" not in raw:
        return False
    result = maybe_value(reply.result)
    return isinstance(result, dict) and result.get("isError") is True


def _arguments(params: Any, size: int) -> tuple[Any, int]:
    return (params.get("arguments") if isinstance(params, dict) else None), size


def read_rows(files: Iterable[str], what: str = "messages") -> Iterator[MessageRow]:
    """The messages of recordings, in order. A session of one file is none of another's. Raises Unreadable."""
    paths = list(files)
    progress = Progress(what, size_of(paths))
    for number, path in enumerate(paths):
        for row in Rows().all(RecordingReader(path, progress.add)):
            if number:
                row.line.s = f"{row.line.s}#{number}"
            if row.line.lost is None:
                yield row
    progress.end()


def read_events(files: Iterable[str], what: str = "messages") -> Iterator[Event]:
    """The calls and answers among them."""
    for row in read_rows(files, what):
        event = event_of_row(row)
        if event is not None:
            yield event
