"""Server-sent events, read without losing a byte and written as the standard wants them.

An event is everything up to and including a blank line. What was received can be passed on as it
came, comments, line ends and all: the `raw` of all events, one after another, is the stream.
Read by the WHATWG rules (HTML, 9.2.6): lines end in LF, CR or CRLF, and one BOM may open the stream.
The work is linear in the bytes however they are cut, and an event over the limit is never kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

_EXCERPT_BYTES = 1024
_BOM = b"\xef\xbb\xbf"
_LF, _CR = 0x0A, 0x0D
_LINE_END = re.compile(rb"\r\n|\n|\r")
_RETRY_DIGITS = 18  # a reconnection time beyond that is nobody's; int() of a megabyte of digits is slow
_FEW_LINES = 64
_BLOCK_BYTES = 64 * 1024
_FIELDS = frozenset((b"data", b"event", b"id", b"retry"))
_UNSEEN = bytes(range(0x21)) + b"\x7f"  # blanks and control characters, which some strip off a name
_MESSAGE = frozenset((b"", b"message"))
# Where some end a line (Python's splitlines, and readers built on it) and the standard does not.
_OTHER_BREAK = re.compile(rb"[\x00\x0b\x0c\x1c-\x1e\x85]|\xe2\x80[\xa8\xa9]").search
_JOINTS = (b"\n\n", b"\n\r", b"\r\r")
"""The pairs of bytes that can stand where a line end is followed by an empty line; CR LF is one line end."""


class SseEvent(Struct, frozen=True, gc=False):
    """One event, comments and blank line included; `data` is None when it has no data field."""

    raw: bytes
    event: str = "message"
    data: bytes | None = None
    id: bytes | None = None
    retry: int | None = None
    is_odd: bool = False  # a careless reader could find another event in `raw`: see `plainly`


class Oversize(Struct, frozen=True, gc=False):
    """What is left of an event that was too big to keep: its size, its first and its last bytes."""

    size: int
    head: bytes
    tail: bytes


class SseReader:
    """Cuts a stream into events.

    Where a blank line ends in CR, an LF after it belongs to it only if the line before ended in CRLF.
    So a stream of bare CRs needs no look at the next byte before an event is given out, and the same
    bytes give the same events however they arrive.
    """

    __slots__ = ("_before", "_block", "_head", "_is_at_start", "_is_cr_open", "_limit", "_size", "_tail")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._before = b"\r\n"  # the two bytes before the next one; a stream opens at the start of a line
        self._block = bytearray()  # the unfinished event, unless it is over the limit
        self._size = 0
        self._head = b""
        self._tail = b""
        self._is_cr_open = False  # the blank line is there, but an LF may still belong to it
        self._is_at_start = True

    def feed(self, chunk: bytes) -> list[SseEvent | Oversize]:
        """The events that `chunk` finishes."""
        found: list[SseEvent | Oversize] = []
        if not chunk:
            return found
        text = self._before + chunk  # two bytes of context show a blank line that two chunks share
        begin = 2
        if self._is_cr_open:
            self._is_cr_open = False
            if chunk[0] == _LF:
                begin = 3
            found.append(self._finish(text[2:begin]))
        joints = [0, 0, 0]  # where each of the three stands next; looked up again only when passed
        while begin < len(text):
            for which in range(3):
                if joints[which] < begin - 1:
                    at = text.find(_JOINTS[which], begin - 1)
                    joints[which] = at if at >= 0 else len(text)
            joint = min(joints)
            if joint == len(text):
                self._keep(text[begin:])
                break
            end = joint + 2
            if text[joint + 1] == _CR and text[joint] == _LF and text[joint - 1] == _CR:
                if end == len(text):
                    self._is_cr_open = True
                    self._keep(text[begin:])
                    break
                if text[end] == _LF:
                    end += 1
            found.append(self._finish(text[begin:end]))
            begin = end
        self._before = text[-2:]
        return found

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= self._limit:
            self._block += piece
            return
        if self._block:
            self._head = bytes(self._block[:_EXCERPT_BYTES])
            self._tail = bytes(self._block[-_EXCERPT_BYTES:])
            self._block = bytearray()
        self._head += piece[: _EXCERPT_BYTES - len(self._head)]
        self._tail = (self._tail + piece[-_EXCERPT_BYTES:])[-_EXCERPT_BYTES:]

    def _finish(self, piece: bytes) -> SseEvent | Oversize:
        if self._size == 0 and len(piece) <= self._limit:
            raw = piece  # the usual case: a whole event in one chunk
        else:
            self._keep(piece)
            if self._size > self._limit:
                oversize = Oversize(self._size, self._head, self._tail)
                self._head = self._tail = b""
                self._size = 0
                self._is_at_start = False
                return oversize
            raw = bytes(self._block)
            self._block = bytearray()
            self._size = 0
        is_first, self._is_at_start = self._is_at_start, False
        return _read_event(raw, is_first)


def _read_event(raw: bytes, is_first: bool) -> SseEvent:
    """The fields of one whole event."""
    text = raw[3:] if is_first and raw.startswith(_BOM) else raw
    if 13 in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    event, data, event_id, retry = b"", None, None, None
    is_odd = False
    joined: bytearray | None = None
    for lines, is_suspect in _blocks(text):
        for line in lines:
            if not line:
                continue
            name, _, value = line.partition(b":")
            if value[:1] == b" ":
                value = value[1:]
            if name == b"data":
                if data is None:
                    data = value
                else:
                    if joined is None:
                        joined = bytearray(data)
                    joined += b"\n"
                    joined += value
                continue
            if name == b"event":
                is_odd = is_odd or (event != b"" and event != value)  # whichever of the two a reader takes
                event = value
                if value == b"message":
                    continue
            elif name == b"id":
                if 0 not in value:
                    event_id = value
            elif name == b"retry":
                if value.isdigit():
                    retry = int(value[:_RETRY_DIGITS])
            elif name and (name.translate(None, _UNSEEN).lower() in _FIELDS or not name.isascii()):
                is_odd = True
            is_odd = is_odd or (is_suspect and _OTHER_BREAK(line) is not None)
    if joined is not None:
        data = bytes(joined)
    if data and event not in _MESSAGE and _OTHER_BREAK(data):
        is_odd = True
    return SseEvent(raw, event.decode("utf-8", "replace") or "message", data, event_id, retry, is_odd)


def _blocks(text: bytes) -> Iterable[tuple[list[bytes], bool]]:
    """The lines of `text`, and whether there can be another break in one of them that matters.

    Of very many, some at a time: all at once would take twenty times their size.
    """
    lines = text.split(b"\n", _FEW_LINES)
    return ((lines, True),) if len(lines) <= _FEW_LINES else _many_blocks(text)


def _many_blocks(text: bytes) -> Iterator[tuple[list[bytes], bool]]:
    at = 0
    while at < len(text):
        end = text.rfind(b"\n", at, at + _BLOCK_BYTES)
        if end < 0:
            end = text.find(b"\n", at)
            if end < 0:
                end = len(text)
        block = text[at:end]
        yield block.split(b"\n"), _OTHER_BREAK(block) is not None
        at = end + 1


def plainly(event: SseEvent) -> SseEvent:
    """An odd event with only its message in its bytes, or with nothing if it has none."""
    if not event.data or event.event != "message":
        return SseEvent(b"", event.event)
    event_id = event.id if event.id is not None and not _OTHER_BREAK(event.id) else None
    raw = encode_event(event.data, "message", event_id, event.retry)
    return SseEvent(raw, "message", event.data, event_id, event.retry)


def encode_event(
    data: bytes, event: str | None = None, id: bytes | None = None, retry: int | None = None
) -> bytes:
    """One event of our own; line ends inside `data` start a new data line."""
    lines: list[bytes] = []
    if event is not None:
        lines.append(b"event: " + event.encode())
    if id is not None:
        lines.append(b"id: " + id)
    if retry is not None:
        lines.append(b"retry: %d" % retry)
    if any(10 in line or 13 in line or 0 in line for line in lines):
        raise ValueError("an event name or id cannot hold a line end or NUL")
    if 10 in data or 13 in data:
        lines += [b"data: " + line for line in _LINE_END.split(data)]
    else:
        lines.append(b"data: " + data)
    return b"\n".join(lines) + b"\n\n"
