"""Walking through JSON that is known to be valid, without building any of it.

Decoders keep one value of a name that stands twice; a rule has to see both. This walk gives every member as
it is written, with its place, and skips what is not asked for at the speed of the pattern engine.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from penstock import limits
from penstock.wire.json.ambiguity import INHERITED
from penstock.wire.json.member_names import STRING

_BLANK = rb"[ \t\r\n]*+"
_COMMA = _BLANK + b"," + _BLANK
_USUAL_LEVELS = 7  # a pattern for all levels takes long to compile, and hardly any message needs it


def _container(levels: int) -> bytes:
    content = b""
    for _ in range(levels):
        content = rb'(?:[^"\[\]{}]++|' + STRING + rb"|[\[{]" + content + rb"[\]}])*+"
    return rb"[\[{]" + content + rb"[\]}]"


def _value(levels: int) -> bytes:
    return rb"(?:" + STRING + rb"|[^ \t\r\n,\]}\"\[{]++|" + _container(levels) + rb")"


_VALUE = re.compile(_value(_USUAL_LEVELS), re.DOTALL)
_NAME = re.compile(rb"(" + STRING + rb")" + _BLANK + rb":" + _BLANK, re.DOTALL)
_OPENING = re.compile(rb"[\[{]" + _BLANK)
_AFTER = re.compile(_BLANK + rb"(,?)" + _BLANK)
_CLOSERS = (b"}", b"]")


class Broken(ValueError):
    """The bytes are not the JSON that they were said to be."""


class TooMany(ValueError):
    """There is more to look at than any honest message has."""


class Budget:
    """How much of one message may be looked at, by all rules together. Raises TooMany past it."""

    __slots__ = ("_bytes", "_parts", "_within")

    def __init__(self) -> None:
        self._parts = limits.PATH_PARTS
        self._bytes = limits.PATH_BYTES
        self._within = limits.PATH_TEXTS

    def spend(self, parts: int = 1) -> None:
        """Some members or elements are looked at."""
        self._parts -= parts
        if self._parts < 0:
            raise TooMany(f"more than {limits.PATH_PARTS} values to look at")

    def spend_bytes(self, count: int) -> None:
        """So many bytes are gone through once more."""
        self._bytes -= count
        if self._bytes < 0:
            raise TooMany("the same bytes would have to be looked at again and again")

    def go_within(self) -> None:
        """A text that holds JSON is looked into."""
        self._within -= 1
        if self._within < 0:
            raise TooMany(f"more than {limits.PATH_TEXTS} texts that hold JSON")

    def end_of(self, text: bytes, start: int) -> int:
        """Where the value at `start` ends; values within values are gone through again and again."""
        end = value_end(text, start)
        self.spend_bytes(end - start)
        return end


class Part(Struct, frozen=True, gc=False):
    """One member of an object or element of an array. `name` is as written, with quotes; None in an array."""

    name: bytes | None
    begin: int  # where it begins, name included
    start: int  # where its value begins
    end: int  # where its value ends


class Skip(Struct, frozen=True):
    """A run of parts that are of no interest, passed over in one match."""

    pattern: re.Pattern[bytes]
    alike: str = ""  # what the name that is looked for is to readers who take it in any case


@functools.lru_cache(maxsize=1024)
def skip_unlike(name: str) -> Skip:
    """Passes over members that nobody could take for `name`, nor for a way to inherit one of that name.

    What has an escape or a letter beyond ASCII in its name is left to a closer look.
    """
    alike = caseless(name)
    same = re.escape(alike.encode()) if alike.isascii() else b"(?!)"
    inherited = b"|".join(name.encode() for name in sorted(INHERITED))
    member = rb'(?!"(?:(?i:%b)|%b)")"[^"\\\x80-\xff]*+"' % (same, inherited)
    member += _BLANK + b":" + _BLANK + _value(_USUAL_LEVELS) + _COMMA
    return Skip(re.compile(rb"(?:" + member + rb")*+", re.DOTALL), alike)


def caseless(name: str) -> str:
    """What readers in Go and in C compare of a name: in any case of letters, and some only up to a NUL."""
    return name.partition("\0")[0].casefold()


@functools.lru_cache(maxsize=1024)
def skip_count(count: int) -> Skip:
    """Passes over so many elements of an array, or over none."""
    elements = rb"(?:" + _value(_USUAL_LEVELS) + _COMMA + rb"){%d}+" % count
    return Skip(re.compile(elements, re.DOTALL))


@functools.cache
def _deep_value() -> re.Pattern[bytes]:
    return re.compile(_value(limits.NESTING), re.DOTALL)


def first_byte(text: bytes, start: int) -> bytes:
    """What kind of value begins at `start`."""
    return text[start : start + 1]


def value_end(text: bytes | memoryview, start: int) -> int:
    """Where the value that begins at `start` ends."""
    found = _VALUE.match(text, start) or _deep_value().match(text, start)
    if found is None:
        raise Broken("no value where one should be")
    return found.end()


def parts(text: bytes | memoryview, start: int, skip: Skip | None = None) -> Iterator[Part]:
    """The members or elements of the container at `start`, in order, repeated names included.

    Raises TooMany when there are more than anybody should look at; those that `skip` passes over are free.
    """
    opening = _OPENING.match(text, start)
    if opening is None:
        raise Broken("no object or array where one should be")
    is_object = opening[0][:1] == b"{"
    position = opening.end()
    if text[position : position + 1] in _CLOSERS:
        return
    for _ in range(limits.PATH_PARTS):
        skipped = skip.pattern.match(text, position) if skip else None
        if skipped is not None:
            position = skipped.end()
        name = None
        value = position
        if is_object:
            found = _NAME.match(text, position)
            if found is None:
                raise Broken("no member name where one should be")
            name, value = found[1], found.end()
        end = value_end(text, value)
        yield Part(name, position, value, end)
        after = _AFTER.match(text, end)
        if after is None or not after[1]:
            return
        position = after.end()
    raise TooMany(f"more than {limits.PATH_PARTS} values to look at")


_NEXT = re.compile(
    rb"[ \t\r\n,{\[\]}]*+(?:(" + STRING + rb")" + _BLANK + rb":" + _BLANK + rb")?+"
    rb"(" + STRING + rb"|[^ \t\r\n,\]}\"\[{:]++)?+",
    re.DOTALL,
)


def leaves(text: bytes, start: int, end: int) -> Iterator[int]:
    """Where each value below the container at text[start:end] begins that is no container itself."""
    for found in _NEXT.finditer(text, start, end):
        if found[2] is not None:
            yield found.start(2)


def members_below(text: bytes, start: int, end: int) -> Iterator[tuple[bytes, int]]:
    """Every member of every object within the container at text[start:end]: its name as written, with
    quotes, and where its value begins. One pass, however deep they lie."""
    for found in _NEXT.finditer(text, start, end):
        if found[1] is not None:
            yield found[1], found.start(2) if found[2] is not None else found.end()


_FLAT_BYTES = 4 * 1024
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


def maybe_flat_values(text: bytes, start: int, end: int) -> list[bytes] | None:
    """All values of a large container that holds no other, by the decoder's speed; None when it has to be
    walked: it is small, or not flat, or a name stands twice or is spelt in an odd way."""
    if (
        end - start < _FLAT_BYTES
        or text.find(b"{", start + 1, end) > 0
        or text.find(b"[", start + 1, end) > 0
    ):
        return None
    if text.count(b",", start, end) > limits.PATH_PARTS:
        return None
    raw = text[start:end]
    try:
        if raw[:1] == b"[":
            return [bytes(part) for part in _decode_elements(raw)]
        found = _decode_members(raw)
        # With a name that stands twice, or has escapes in it, what is written anew is another text.
        written = _encode(found)
        if written != raw and written != msgspec.json.format(raw, indent=-1):
            return None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return [bytes(value) for value in found.values()]


def place_to_add(text: bytes, start: int, end: int) -> tuple[int, bool]:
    """Where one more part goes in the container at text[start:end], and whether a comma goes before it."""
    inside = text[start + 1 : end - 1].rstrip(b" \t\r\n")
    return start + 1 + len(inside), bool(inside)
