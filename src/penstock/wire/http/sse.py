"""Server-sent events, read without losing a byte and written as the standard wants them.

An event is everything up to and including a blank line. What was received can be passed on as it
came, comments, line ends and all: the `raw` of all events, one after another, is the stream.
Read by the WHATWG rules (HTML, 9.2.6): lines end in LF, CR or CRLF, and one BOM may open the stream.
The work is linear in the bytes however they are cut, and an event over the limit is never kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from typing import TYPE_CHECKING

from msgspec import Struct

from penstock import limits
from penstock.wire.json.digests import leave

if TYPE_CHECKING:
    from penstock.wire.json.arrival import Arrival

_EXCERPT_BYTES = 1024
_BOM = b"\xef\xbb\xbf"
_LF, _CR, _SPACE = 0x0A, 0x0D, 0x20
_ENDS = (b"\n", b"\r")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_RETRY_DIGITS = 18  # a reconnection time beyond that is nobody's; int() of a megabyte of digits is slow
_FEW_LINES = 64
_SMALL_BYTES = 4 * 1024  # up to here a pattern over the whole event is quicker than a look at each line
_BLOCK_BYTES = 64 * 1024
_FIELDS = frozenset((b"data", b"event", b"id", b"retry"))
_UNSEEN = bytes(range(0x21)) + b"\x7f"  # blanks and control characters, which some strip off a name
_MESSAGE = frozenset((b"", b"message"))
# Where some end a line (Python's splitlines, and readers built on it) and the standard does not.
_OTHER_BREAK = re.compile(rb"[\x00\x0b\x0c\x1c-\x1e\x85]|\xe2\x80[\xa8\xa9]").search
# As nearly every server writes an event; what else a line could hold is for the long way.
_PLAIN_EVENT = re.compile(
    rb"(?:event: ?message\r?\n|id: ?([!-~]*+)\r?\n)*+data: ?([^\r\n]*+)(?:\r\n\r\n|\r?\n\n)"
)
_match_plain = _PLAIN_EVENT.match
_DATA_BEGINS = re.compile(rb"(?:event: ?message\r?\n|id: ?[!-~]*+\r?\n)*+data: ?").match
_PLAIN_LINE = re.compile(rb"event: ?message\r?|id: ?([!-~]*+)\r?").fullmatch
_BLANK_LINES = frozenset((b"\n", b"\r\n"))
_JOINTS = (b"\n\n", b"\n\r", b"\r\r")
"""The pairs of bytes that can stand where a line end is followed by an empty line; CR LF is one line end."""


class SseEvent(Struct, frozen=True, gc=False):
    """One event, comments and blank line included; `data` is None when it has no data field."""

    raw: bytes  # nothing where it is large and the reader was told that nobody wants it
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

    __slots__ = (
        "_arrival",
        "_before",
        "_block",
        "_data_at",
        "_head",
        "_is_at_start",
        "_is_cr_open",
        "_is_raw_wanted",
        "_limit",
        "_size",
        "_tail",
    )

    def __init__(self, limit: int, is_raw_wanted: bool = True) -> None:
        self._limit = limit
        self._is_raw_wanted = is_raw_wanted  # whether large events are passed on as they came
        self._before = b"\r\n"  # the two bytes before the next one; a stream opens at the start of a line
        self._block = BytesIO()  # the unfinished event, unless it is over the limit
        self._arrival: Arrival | None = None  # who judges a large message in it
        self._data_at = 0  # where that begins; -1 where it does not begin plainly
        self._size = 0
        self._head = b""
        self._tail = b""
        self._is_cr_open = False  # the blank line is there, but an LF may still belong to it
        self._is_at_start = True

    def feed(self, chunk: bytes) -> list[SseEvent | Oversize]:
        """The events that `chunk` finishes."""
        if not chunk:
            return []
        if self._size or self._is_cr_open or self._limit < _SMALL_BYTES:
            return self._feed_lines(chunk)
        # The hot path: small events that are whole and plain.
        found: list[SseEvent | Oversize] = []
        begin = 0
        while plain := _match_plain(chunk, begin, begin + _SMALL_BYTES):
            found.append(SseEvent(plain[0], "message", plain[2], plain[1]))
            begin = plain.end()
        if begin:
            self._is_at_start = False
            self._before = chunk[begin - 2 : begin]
            if begin == len(chunk):
                return found
            chunk = chunk[begin:]
        found += self._feed_lines(chunk)
        return found

    def pass_over(self, chunk: bytes, end_of_known: Callable[[bytes], int]) -> int:
        """Where the events end that `chunk` begins with and that somebody knows without reading their fields.

        They count as fed. `end_of_known` is asked only where an event begins, and stops where one ends.
        """
        if self._size or self._is_cr_open:
            return 0
        end = end_of_known(chunk)
        if end:
            self._is_at_start = False
            self._before = chunk[end - 2 : end]
        return end

    def _feed_lines(self, chunk: bytes) -> list[SseEvent | Oversize]:
        """The same for events of any form."""
        if self._is_cr_open or _CR in chunk:
            return self._feed_any(chunk)
        found: list[SseEvent | Oversize] = []
        begin = end = 0
        if _LF in chunk:
            # Without CR, a blank line is LF after LF; the first of the two may be of the chunk before.
            end = 1 if chunk[0] == _LF and self._before[1] == _LF else _end_of_blank_line(chunk, 0)
        while end:
            found.append(self._finish(chunk[begin:end]))
            begin = end
            end = _end_of_blank_line(chunk, end - 1)
        if begin < len(chunk):
            self._keep(chunk[begin:])
        self._before = chunk[-2:] if len(chunk) > 1 else self._before[1:] + chunk
        return found

    def _feed_any(self, chunk: bytes) -> list[SseEvent | Oversize]:
        """The same where a CR may end a line."""
        found: list[SseEvent | Oversize] = []
        text = self._before + chunk  # two bytes of context show a blank line that two chunks share
        begin = 2
        if self._is_cr_open:
            self._is_cr_open = False
            if chunk[0] == _LF:
                begin = 3
            found.append(self._finish(text[2:begin]))
        joints = _Joints(text)
        while begin < len(text):
            joint = joints.next(begin - 1)
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
            self._block.write(piece)
            if self._size > limits.MESSAGE_LEAST_BYTES:
                self._judge(piece)
            return
        if self._block.tell():
            with self._block.getbuffer() as kept:
                self._head = bytes(kept[:_EXCERPT_BYTES])
                self._tail = bytes(kept[-_EXCERPT_BYTES:])
            self._block = BytesIO()
        self._head += piece[: _EXCERPT_BYTES - len(self._head)]
        self._tail = (self._tail + piece[-_EXCERPT_BYTES:])[-_EXCERPT_BYTES:]

    def _judge(self, piece: bytes) -> None:
        """Has a large message judged while the rest of it is on its way."""
        if not self._data_at:
            begun = self._block.getvalue()
            plain = _DATA_BEGINS(begun)
            self._data_at = plain.end() if plain else -1
            if plain:
                from penstock.wire.json.arrival import Arrival  # many a process never sees a large one

                self._arrival = Arrival()
                piece = begun[self._data_at :]
        if self._arrival is not None:
            self._arrival.takes(piece)

    def _leave_digest(self, event: SseEvent, raw: bytes) -> None:
        """Hands over what was found out, if the message is all that has come since its beginning."""
        arrival, at = self._arrival, self._data_at
        self._arrival, self._data_at = None, 0
        if arrival is not None and event.data is not None:
            # Each further line of data, or of anything else, would be longer than two line ends.
            behind = at + len(event.data)
            if len(raw) - behind <= 4 and not raw[behind:].strip(b"\r\n"):
                leave(event.data, arrival.maybe_digest())

    def _finish(self, piece: bytes) -> SseEvent | Oversize:
        if self._size == 0 and len(piece) <= self._limit:
            raw = piece  # the usual case: a whole event in one chunk
        else:
            self._keep(piece)
            if self._size > self._limit:
                oversize = Oversize(self._size, self._head, self._tail)
                self._arrival, self._data_at = None, 0
                self._head = self._tail = b""
                self._size = 0
                self._is_at_start = False
                return oversize
            raw = self._block.getvalue()  # which is not a copy
            self._block = BytesIO()
            self._size = 0
        is_first, self._is_at_start = self._is_at_start, False
        event = _read_event(raw, is_first)
        if self._data_at:
            self._leave_digest(event, raw)
        if self._is_raw_wanted or len(raw) <= _SMALL_BYTES:
            return event
        return SseEvent(b"", event.event, event.data, event.id, event.retry, event.is_odd)


def _end_of_blank_line(chunk: bytes, at: int) -> int:
    """Where the first LF after an LF ends; 0 if there is none. `chunk` has no CR.

    Nearby, both are looked for together. Further away the line is long, and one byte is found eighty times as
    fast as two; where there are many lines after all, it is both again.
    """
    found = chunk.find(b"\n\n", at, at + _SMALL_BYTES)
    if found < 0:
        at += _SMALL_BYTES - 1
        for _ in range(_FEW_LINES):
            at = chunk.find(b"\n", at) + 1
            if not at:
                return 0
            if chunk.startswith(b"\n", at):
                return at + 1
        found = chunk.find(b"\n\n", at - 1)
    return found + 2 if found >= 0 else 0


class _Joints:
    """Where in `text` a line end is followed by an empty line, by the same reasoning for all line ends."""

    __slots__ = ("_ends", "_joints", "_left", "_text")

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._ends = [-1, -1]  # the next LF and CR; looked up again only when passed
        self._joints = [-1, -1, -1]  # the next of each pair, likewise
        self._left = _FEW_LINES if len(text) > _SMALL_BYTES else 0  # lines that are looked at one by one

    def next(self, at: int) -> int:
        """Where the first pair from `at` on stands; the end of the text if there is none."""
        text, ends, joints = self._text, self._ends, self._joints
        while self._left:
            self._left -= 1
            at = min(_look_up(text, ends, which, _ENDS[which], at) for which in (0, 1))
            if text[at : at + 2] in _JOINTS or at == len(text):
                return at
            at += 1
        return min(_look_up(text, joints, which, _JOINTS[which], at) for which in (0, 1, 2))


def _look_up(text: bytes, places: list[int], which: int, what: bytes, at: int) -> int:
    if places[which] < at:
        found = text.find(what, at)
        places[which] = found if found >= 0 else len(text)
    return places[which]


def _read_event(raw: bytes, is_first: bool) -> SseEvent:
    """The fields of one whole event."""
    if len(raw) > _SMALL_BYTES:
        long = _maybe_long_event(raw)
        if long is not None:
            return long
    elif plain := _PLAIN_EVENT.fullmatch(raw):
        return SseEvent(raw, "message", plain[2], plain[1])
    return _read_fields(raw, is_first)


def _read_fields(raw: bytes, is_first: bool) -> SseEvent:
    """The same for any event: the long way."""
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


def _maybe_long_event(raw: bytes) -> SseEvent | None:
    """An event with one line of data, the last, and no line before it that needs a closer look.

    Its data is copied once; the long way copies it with the event, with its line and without its name.
    """
    at, event_id = 0, None
    while True:
        end = raw.find(b"\n", at)
        if raw.startswith(b"data:", at):
            break
        line = _PLAIN_LINE(raw, at, end)
        if line is None:
            return None
        event_id = event_id if line[1] is None else line[1]
        at = end + 1
    if raw[end + 1 : end + 3] not in _BLANK_LINES or len(raw) > end + 3:
        return None
    start = at + 6 if raw[at + 5] == _SPACE else at + 5
    cr = raw.find(b"\r", start, end)
    if cr >= 0 and cr != end - 1:
        return None  # it ends a line within the data
    return SseEvent(raw, "message", raw[start : end if cr < 0 else cr], event_id)


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
    if event == "message" and id is None and retry is None and 10 not in data and 13 not in data:
        return b"event: message\ndata: %b\n\n" % data  # as below, for nearly all
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
