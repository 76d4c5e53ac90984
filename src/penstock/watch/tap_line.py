"""What goes between a proxy and a hub: lines of a recording, and lines of the tap itself, all JSON."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, structs

from penstock.observe.record import Record
from penstock.observe.recording import Line, encode_record

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
    m: str = ""  # its method, likewise
    tool: str = ""
    of: int = 0  # bytes of the whole message, where only the beginning is here


_decode_line = msgspec.json.Decoder(TapLine).decode


def line_of(record: Record) -> bytes:
    """The line of a whole record."""
    return b"".join(encode_record(record))


def cut_line_of(record: Record, size: int) -> bytes:
    """The line of a record of whose message only the beginning was kept."""
    known = {"k": record.kind, "m": record.method or "", "tool": record.tool or "", "of": size}
    line = b"".join(encode_record(structs.replace(record, kind="other", sent=None)))
    return encode(known)[:-1] + b"," + line[1:]


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
        return line
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as why:
        raise ValueError(str(why)) from None
