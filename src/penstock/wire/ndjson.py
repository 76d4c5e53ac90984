"""One JSON value a line, cut out of whatever pieces the bytes arrive in."""

from __future__ import annotations

import re

from msgspec import Struct

from penstock import limits

_EDGE = 1024
_BLANK = b" \t\r\n\0"


class Oversize(Struct, frozen=True):
    """A line that was too long to keep: how long it was so far, and its two edges."""

    size: int
    head: bytes
    tail: bytes
    is_ended: bool  # False: it passed the second limit and goes on; the rest is skipped in silence


class LineSplitter:
    """Cuts a byte stream at LF, and only there.

    Every byte is looked at once. No more than `keep` bytes of one line are held; a longer one comes out as
    an Oversize when it ends, or when it reaches `give_up` bytes without an end, and the stream goes on with
    the line after it. Blank lines are skipped.
    """

    def __init__(self, keep: int = limits.MESSAGE_BYTES, give_up: int = limits.LINE_BYTES) -> None:
        self._keep = keep
        self._give_up = give_up
        self._pieces: list[bytes] = []
        self._size = 0  # of the unfinished line, kept or not
        self._head = b""
        self._tail = b""
        self._is_given_up = False

    def feed(self, data: bytes) -> list[bytes | Oversize]:
        """The lines that `data` completes, in order, without their line ends."""
        lines = data.split(b"\n")
        rest = lines.pop()
        out: list[bytes | Oversize] = []
        if lines:
            first = self._finish(lines[0])
            if first is not None:
                out.append(first)
            for line in lines[1:]:
                if len(line) > self._keep:
                    out.append(Oversize(len(line), line[:_EDGE], line[-_EDGE:], True))
                elif line.strip(_BLANK):
                    out.append(_without_cr(line))
        if rest:
            given_up = self._hold(rest)
            if given_up is not None:
                out.append(given_up)
        return out

    def _finish(self, end: bytes) -> bytes | Oversize | None:
        if not self._size:
            line = end
        elif self._size + len(end) <= self._keep:
            line = b"".join(self._pieces) + end if end else b"".join(self._pieces)
        else:
            self._hold(end)
            line = b""
        size, head, tail, was_given_up = self._size, self._head, self._tail, self._is_given_up
        self._pieces.clear()
        self._size, self._head, self._tail, self._is_given_up = 0, b"", b"", False
        if was_given_up:
            return None
        if max(size, len(line)) > self._keep:
            return Oversize(max(size, len(line)), head or line[:_EDGE], tail or line[-_EDGE:], True)
        return _without_cr(line) if line.strip(_BLANK) else None

    def _hold(self, piece: bytes) -> Oversize | None:
        """Keeps an unfinished piece, or only its edges when the line is already too long."""
        if not self._head or len(self._head) < _EDGE:
            self._head = (self._head + piece[:_EDGE])[:_EDGE]
        self._size += len(piece)
        if self._size <= self._keep:
            self._pieces.append(piece)
            return None
        if self._pieces:
            self._tail = b"".join(self._pieces[-2:])[-_EDGE:]
            self._pieces.clear()
        self._tail = (self._tail + piece)[-_EDGE:]
        if self._size > self._give_up and not self._is_given_up:
            self._is_given_up = True
            return Oversize(self._size, self._head, self._tail, False)
        return None


def _without_cr(line: bytes) -> bytes:
    return line[:-1] if line[-1:] == b"\r" else line


def to_line(raw: bytes) -> bytes:
    """`raw` as one line. A line break inside JSON can only be white space between tokens."""
    if b"\n" in raw or b"\r" in raw:
        raw = raw.translate(_BREAKS_TO_BLANKS)
    return raw + b"\n"


_BREAKS_TO_BLANKS = bytes.maketrans(b"\r\n", b"  ")
_ID = rb'("(?:[^"\\]|\\.)*+"|-?[0-9][0-9.eE+-]*)'
_LEADING_ID = re.compile(
    rb'\s*\{\s*(?:"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,\s*)*"id"\s*:\s*' + _ID + rb"\s*,"
)
_TRAILING_ID = re.compile(rb'"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*' + _ID + rb"\s*\}\s*\Z")


def maybe_id_of_oversize(line: Oversize) -> bytes | None:
    """The id of a message too long to read, when it stands at one of its edges, as SDKs write it."""
    found = _LEADING_ID.match(line.head) or (_TRAILING_ID.search(line.tail) if line.is_ended else None)
    return found[1] if found else None
