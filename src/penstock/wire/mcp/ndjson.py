"""One JSON value a line, cut out of whatever pieces the bytes arrive in."""

from __future__ import annotations

from msgspec import Struct

from penstock import limits
from penstock.wire.http.byte_buffer import ByteBuffer
from penstock.wire.json.digests import leave, maybe_take
from penstock.wire.mcp.ids import maybe_id_at_edges

_EDGE = 1024
_SHORT_BYTES = 4 * 1024
_BLANK = b" \t\r\n\0"


class Oversize(Struct, frozen=True):
    """A line that was too long to keep: how long it was so far, and its two edges."""

    size: int
    head: bytes
    tail: bytes
    is_ended: bool  # False: it passed the second limit and goes on
    was_given_up: bool = False  # it was reported before, when it passed the second limit; now it has ended

    @property
    def id_token(self) -> bytes | None:
        """The id of the message, when it stands at an edge that was not seen before."""
        head = b"" if self.was_given_up else self.head
        return maybe_id_at_edges(head, self.tail if self.is_ended else b"")


class LineSplitter:
    """Cuts a byte stream at LF, and only there.

    Every byte is looked at once. No more than `keep` bytes of one line are held; a longer one comes out as
    an Oversize when it ends, and before that when it reaches `give_up` bytes without an end, and the stream
    goes on with the line after it. Blank lines are skipped.
    """

    def __init__(self, keep: int | None = None, give_up: int | None = None) -> None:
        self._keep = limits.MESSAGE_BYTES if keep is None else keep
        self._give_up = limits.LINE_BYTES if give_up is None else give_up
        self._held = ByteBuffer()  # the unfinished line, as long as it may be kept
        self._size = 0  # of the unfinished line, kept or not
        self._head = b""
        self._tail = b""
        self._is_given_up = False

    def feed(self, data: bytes) -> list[bytes | Oversize]:
        """The lines that `data` completes, in order, without their line ends."""
        # In what is long there may be no end at all, and to find that out is far faster than to split.
        lines = data.split(b"\n") if len(data) <= _SHORT_BYTES or _LF in data else [data]
        rest = lines.pop()
        if not rest and not self._size and len(lines) == 1:
            line = lines[0]
            if line.endswith(b"}") and len(line) <= self._keep:  # neither blank, nor with a CR at its end
                return lines  # type: ignore[return-value]
        out: list[bytes | Oversize] = []
        if lines:
            first = self._finish(lines[0])
            if first is not None:
                out.append(first)
            for line in lines[1:]:
                if _is_bare(line, self._keep):
                    out.append(line)
                elif len(line) > self._keep:
                    out.append(Oversize(len(line), line[:_EDGE], line[-_EDGE:], True))
                elif line.strip(_BLANK):
                    out.append(_without_cr(line))
        if rest:
            given_up = self._hold(rest)
            if given_up is not None:
                out.append(given_up)
        return out

    def _finish(self, end: bytes) -> bytes | Oversize | None:
        """The unfinished line with its end."""
        if not self._size and len(end) <= self._keep:
            return _without_cr(end) if end.strip(_BLANK) else None
        was_given_up = self._is_given_up
        self._hold(end)
        line: bytes | Oversize | None
        if self._size > self._keep:
            line = Oversize(self._size, self._head, self._tail, True, was_given_up)
        else:
            whole = self._held.take()
            line = _without_cr(whole) if whole.endswith(b"}") or whole.strip(_BLANK) else None
            if line is not whole and line is not None:
                leave(line, maybe_take(whole))
        self._held.clear()
        self._size, self._head, self._tail, self._is_given_up = 0, b"", b"", False
        return line

    def _hold(self, piece: bytes) -> Oversize | None:
        """Keeps an unfinished piece, or only its edges when the line is already too long."""
        self._size += len(piece)
        if self._size <= self._keep:
            self._held.add(piece)
            return None
        if not self._head:
            # From here on only the edges are of use.
            held = self._held.take()
            self._head = (held[:_EDGE] + piece[:_EDGE])[:_EDGE]
            self._tail = held[-_EDGE:] + piece
        else:
            self._head = (self._head + piece[:_EDGE])[:_EDGE]
            self._tail += piece
        self._tail = self._tail[-_EDGE:]
        if self._size > self._give_up and not self._is_given_up:
            self._is_given_up = True
            return Oversize(self._size, self._head, self._tail, False)
        return None


def _is_bare(line: bytes, keep: int) -> bool:
    """Whether a line can be taken as it is: it ends in a brace, so it is not blank and has no CR there."""
    return line.endswith(b"}") and len(line) <= keep


def _without_cr(line: bytes) -> bytes:
    return line[:-1] if line[-1:] == b"\r" else line


def to_line(raw: bytes) -> bytes:
    """`raw` as one line. A line break inside JSON can only be white space between tokens."""
    if _LF in raw or _CR in raw:
        raw = raw.translate(BREAKS_TO_BLANKS)
    return raw + b"\n"


# As numbers: looking for one byte as bytes costs an exception inside the interpreter.
_LF, _CR = 10, 13
BREAKS_TO_BLANKS = bytes.maketrans(b"\r\n", b"  ")
