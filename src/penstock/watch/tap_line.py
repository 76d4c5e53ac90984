"""What goes between a proxy and a hub: lines of a recording, and lines of the tap itself, all JSON."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, structs

from penstock.observe.record import Record
from penstock.observe.recording import Line, encode_record
from penstock.observe.rows import TOOL_ERROR
from penstock.watch.ring import CutRecord

VERSION = 1

encode = msgspec.json.Encoder().encode
_MARK = b'{"tap":'


class TapHeader(Struct):
    """The first line of a tap: who speaks."""

    tap: str  # always "hello"
    v: int = VERSION
    name: str = ""
    pid: int = 0
    started: float = 0.0
    version: str = ""
    upstream: str = ""
    transport: str = ""
    config: str = ""
    rules: str = ""
    mask_keys: tuple[str, ...] = ()
    mask_patterns: tuple[str, ...] = ()
    run: str = ""


class TapLine(Line):
    """A line of a recording, as a tap sends it."""

    k: str = ""  # its kind, where the message was cut
    m: str = ""  # its method, likewise, and what follows
    tool: str = ""
    id: str = ""
    failed: bool = False
    of: int = 0  # bytes of the whole message, where only the beginning is here


_decode_line = msgspec.json.Decoder(TapLine).decode


def line_of(record: Record) -> bytes:
    """The line of a whole record."""
    return b"".join(encode_record(record))


def cut_line_of(record: CutRecord) -> bytes:
    """The line of a record of whose message only the beginning was kept."""
    known = {
        "k": record.kind,
        "m": record.method or "",
        "tool": record.tool or "",
        "id": (record.id_token or b"").decode("utf-8", "replace"),
        "failed": record.kind == "response" and _has_failed(record.raw, record.tail),
        "of": record.size,
    }
    line = b"".join(encode_record(structs.replace(record, kind="other", sent=None)))
    return encode(known)[:-1] + b"," + line[1:]


def _has_failed(head: bytes, tail: bytes) -> bool:
    """Whether a response is an error, of the protocol or of the tool, by what is left of it."""
    if b'"error"' in head and b'"result"' not in head:
        return True
    return any(mark in head or mark in tail for mark in TOOL_ERROR)


def own_line(facts: dict[str, Any] | Struct) -> bytes:
    """A line of the tap's own; `tap` is its first member."""
    return encode(facts) + b"\n"


def read_line(data: bytes) -> TapLine | dict[str, Any]:
    """What a hub was sent. Raises ValueError."""
    try:
        if data.startswith(_MARK):
            found: dict[str, Any] = msgspec.json.decode(data, type=dict)
            return found
        line = _decode_line(data)
        if not line.is_whole:
            raise ValueError("a line is not whole")
        line.kind = line.k or line.kind
        return line
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as why:
        raise ValueError(str(why)) from None
