"""A large message, judged while it arrives.

A decoder reads whole texts. So what has come is cut into fragments of 64 KiB, and each is made a whole text:
before it goes a shortest text that opens what is open there, behind it one that closes what it leaves open.
A fragment is cut behind a comma or inside a string, where nothing but the open brackets tells what may
follow. So the fragments are JSON one after another just when the message is, and none is looked at again.

What nobody looks at, which is all that lies within a value of params or of a result, is then left out. What
is left is a short message, the digest, with the same members in the same places. The strict reader reads
that one, and what it says holds for the message. So after the last byte there is one fragment to check and
the digest to read, however large the message was.

Whatever does not lend itself to this (no object, a number of 64 KiB, very many members at the top) has no
digest and is read whole. Nothing is refused here but what no further byte could make JSON; why, is said by
those who read as much as there is.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from penstock import limits
from penstock.wire.json.ambiguity import NotJson, is_utf8, readable
from penstock.wire.json.nesting import left_open, unescaped_marks

ARRIVAL_BYTES = limits.MESSAGE_LEAST_BYTES
"""What is at most as large is read when it is whole: it takes no longer than what is left of a larger one."""
LONGEST_WORD = 1024
"""A digest has its short strings whole. One that is as long as this, or longer, may have been cut."""

_EDGE_BYTES = 4 * 1024  # so much of either end is kept, whatever it is
_MOST_BYTES = 4 * ARRIVAL_BYTES  # of a digest, and of a fragment that cannot be cut
_FREE_LEVELS = 3  # from here on nobody looks: within the message, its params or result, and a value in there
_FILL = b"x" * LONGEST_WORD
_CLOSERS = bytes.maketrans(b"[{", b"]}")
_BLANK = b" \t\r\n"
_BACKSLASH = ord("\\")  # as a number it is found sooner

# Where a cut is.
_START = 0
_COMMA = 1  # behind a comma
_VALUE = 2  # in a string that is a value
_NAME = 3  # in a string that is a name

_ENTRIES = {
    (_COMMA, "["): b"0,",
    (_COMMA, "{"): b'"":0,',
    (_VALUE, "["): b'"',
    (_VALUE, "{"): b'"":"',
    (_NAME, "{"): b'"',
}
"""What leads from the beginning of an array or object to a cut in it."""
_EXITS = {
    (_COMMA, "["): b"0",
    (_COMMA, "{"): b'"":0',
    (_VALUE, "["): b'"',
    (_VALUE, "{"): b'"',
    (_NAME, "{"): b'":0',
}
"""What leads from a cut to where the array or object may end."""

_skip = msgspec.json.Decoder(Raw).decode
_FAILURES = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Arrival:
    """Judges the bytes of one message as they come."""

    __slots__ = ("_brackets", "_cut", "_is_filled", "_is_given_up", "_kept", "_pending", "_wanted")

    def __init__(self) -> None:
        self._pending = bytearray()  # what came behind the last cut
        self._wanted = _EDGE_BYTES  # how much of it makes a fragment
        self._kept = bytearray()  # the digest, as far as the last cut
        self._cut = _START
        self._brackets = ""  # that are open there
        self._is_filled = False  # a string that was cut has become too long for a word
        self._is_given_up = False

    def takes(self, chunk: bytes) -> bool:
        """Takes the next bytes; False when no more of them could make JSON of what has come."""
        try:
            if not self._is_given_up:
                self._feed(chunk)
        except NotJson:
            self._give_up()
            return False
        return True

    def _feed(self, chunk: bytes) -> None:
        pending = self._pending
        at = 0
        if pending or len(chunk) < self._wanted:
            pending += chunk
            chunk = bytes(pending) if len(pending) >= self._wanted else b""
        while len(chunk) - at >= self._wanted and not self._is_given_up:
            if taken := self._take(chunk[at : at + self._wanted]):
                at += taken
                self._wanted = ARRIVAL_BYTES
            elif self._wanted >= _MOST_BYTES:
                self._give_up()
            else:
                self._wanted += ARRIVAL_BYTES
        if chunk and not self._is_given_up:
            self._pending = bytearray(chunk[at:])

    def maybe_digest(self) -> bytes | None:
        """What stands for the message now that it is whole, unless it has to be read itself."""
        if len(self._pending) > 2 * _EDGE_BYTES and not self._is_given_up:
            try:
                del self._pending[: self._take(bytes(self._pending[:-_EDGE_BYTES]))]
            except NotJson:
                self._give_up()
        if self._is_given_up or self._cut == _START:
            return None
        return bytes(self._kept + self._pending)

    def _give_up(self) -> None:
        self._is_given_up = True
        self._pending = self._kept = bytearray()

    def _take(self, fragment: bytes) -> int:
        """How much of `fragment` was taken: all up to its last cut, none when there is none."""
        end = len(fragment) - _unfinished_bytes(fragment)
        if self._cut >= _VALUE and self._takes_string(fragment[:end]):
            return end
        if self._cut == _START and fragment.lstrip(_BLANK)[:1] != b"{":
            self._give_up()
            return 0
        marks, is_in_string = unescaped_marks(fragment[:end], self._cut >= _VALUE)
        cuts = [_VALUE, _NAME]
        last = fragment.rfind(b'"', 0, end)
        if is_in_string:
            if fragment[:last].rstrip(_BLANK)[-1:] in (b",", b"{"):
                cuts.reverse()
        else:
            comma = fragment.rfind(b",", last + 1, end)
            end, behind = (
                (comma + 1, fragment[comma + 1 : end]) if comma >= 0 else (last, fragment[last + 1 : end])
            )
            if end <= 0:
                return 0
            marks = marks[: len(marks) - sum(map(behind.count, (b"[", b"]", b"{", b"}")))]
            if comma >= 0:
                cuts = [_COMMA]
            elif behind.lstrip(_BLANK)[:1] == b":":
                cuts.reverse()
        self._step(fragment[:end], marks, cuts)
        return end

    def _takes_string(self, inside: bytes) -> bool:
        """Takes what does not leave the string that was cut; a bare quote would."""
        if not _is_json(b'"%b"' % inside):
            return False
        _check_text(inside)
        if self._cut == _NAME:
            self._keep(inside)
        elif len(self._brackets) < _FREE_LEVELS and not self._is_filled:
            self._is_filled = True
            self._keep(_FILL)
        return True

    def _step(self, fragment: bytes, marks: bytes, cuts: list[int]) -> None:
        """Goes to the end of `fragment`, where one of `cuts` is and `marks` are the brackets on the way."""
        _check_text(fragment)
        was = self._brackets
        left = left_open(marks, len(was), limits.NESTING)
        if left is None:
            raise NotJson(f"it is malformed, or nests deeper than {limits.NESTING} levels")
        floor = len(was) - left[0]
        now = was[:floor] + left[1].decode()
        if not now:
            raise NotJson("it goes on behind its end")
        before = _entry(was, self._cut) if was else b""
        for cut in cuts:
            if (cut, now[-1]) in _EXITS and _is_json(b"".join((before, fragment, _exit(now, cut)))):
                break
        else:
            raise NotJson("it is malformed")
        if floor < _FREE_LEVELS:
            self._keep(fragment)
        elif (was, self._cut) != (now, cut):
            self._keep(self._exit_to(floor) + _way_in(now, floor, cut))
        self._cut, self._brackets, self._is_filled = cut, now, False

    def _exit_to(self, floor: int) -> bytes:
        """What leads from where we are to behind a value in the `floor` outermost brackets."""
        was = self._brackets
        return _EXITS[self._cut, was[-1]] + was[floor:][::-1].encode().translate(_CLOSERS)

    def _keep(self, piece: bytes) -> None:
        self._kept += piece
        if len(self._kept) > _MOST_BYTES:
            self._give_up()


def _check_text(piece: bytes) -> None:
    if not piece.isascii() and not is_utf8(piece):
        raise NotJson("it is not valid UTF-8")


def _unfinished_bytes(fragment: bytes) -> int:
    """How many bytes at the end of `fragment` are an escape or a character that goes on behind it."""
    for size, least in ((1, 0xC0), (2, 0xE0), (3, 0xF0)):
        if fragment[-size:][0] >= least:
            return size
    at = fragment.rfind(b"\\", max(0, len(fragment) - 5))
    if at < 0:
        return 0
    before = fragment[: at + 1]
    is_escaped = (len(before) - len(before.rstrip(b"\\"))) % 2 == 0
    size = 6 if fragment[at + 1 : at + 2] == b"u" else 2
    return 0 if is_escaped or at + size <= len(fragment) else len(fragment) - at


def _entry(brackets: str, cut: int) -> bytes:
    """The shortest text that ends at a cut in `brackets`."""
    outer = "".join('{"":' if bracket == "{" else "[" for bracket in brackets[:-1])
    return outer.encode() + brackets[-1].encode() + _ENTRIES[cut, brackets[-1]]


def _exit(brackets: str, cut: int) -> bytes:
    """The shortest text that makes a whole of one that ends at a cut in `brackets`."""
    return _EXITS[cut, brackets[-1]] + brackets[::-1].encode().translate(_CLOSERS)


def _way_in(brackets: str, floor: int, cut: int) -> bytes:
    """What leads from behind a value in the `floor` outermost of `brackets` to a cut in all of them."""
    if len(brackets) == floor:
        return b"," if cut == _COMMA else b"," + _ENTRIES[cut, brackets[-1]]
    return (b',"":' if brackets[floor - 1] == "{" else b",") + _entry(brackets[floor:], cut)


def _is_json(text: bytes) -> bool:
    try:
        _skip(text)
    except _FAILURES:
        again = readable(text) if _BACKSLASH in text else text
        return again is not text and _is_json(again)
    return True
