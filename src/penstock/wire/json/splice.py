"""Changing one member of an object and no other byte."""

from __future__ import annotations

import re

import msgspec

from penstock.wire.json.ambiguity import INHERITED, Ambiguous, Members, folded, readable

_OPENING = re.compile(rb"[ \t\r\n]*\{")
_MEMBER = re.compile(rb'[ \t\r\n]*("(?:[^"\\]|\\.)*+")[ \t\r\n]*:[ \t\r\n]*', re.DOTALL)
_SEPARATOR = re.compile(rb"[ \t\r\n]*(,?)")


def member_spans(text: bytes, members: Members) -> dict[str, tuple[int, int, int]]:
    """Where each member stands in `text`: start of its name, start of its value, end of its value.

    `members` must be the unambiguous members of the object in `text`, in their order.
    """
    spans: dict[str, tuple[int, int, int]] = {}
    opening = _OPENING.match(text)
    position = opening.end() if opening else 0
    for name, value in members.items():
        found = _MEMBER.match(text, position)
        if found is None:
            raise ValueError("these are not the members of this text")
        end = found.end() + len(memoryview(value))
        spans[name] = (found.start(1), found.end(), end)
        separator = _SEPARATOR.match(text, end)
        position = separator.end() if separator else end
    return spans


def with_value(text: bytes, members: Members, name: str, value: bytes) -> bytes:
    """`text` with the value of the member `name` replaced."""
    _, start, end = member_spans(text, members)[name]
    view = memoryview(text)  # so that a large text is copied once, and not each side of the place as well
    return b"".join((view[:start], value, view[end:]))


def with_member(text: bytes, members: Members, name: str, value: bytes) -> bytes:
    """`text` with the value of the member `name` replaced, or the member added behind the last one."""
    if name in members:
        return with_value(text, members, name, value)
    end = text.rindex(b"}")
    tie = b"," if members else b""
    return b"".join((memoryview(text)[:end], tie, _encode(name), b":", value, memoryview(text)[end:]))


def without(text: bytes, members: Members, name: str) -> bytes:
    """`text` without the member `name` and without the comma that tied it to its neighbour."""
    spans = member_spans(text, members)
    start, _, end = spans[name]
    names = list(spans)
    place = names.index(name)
    if place + 1 < len(names):
        end = spans[names[place + 1]][0]
    elif place:
        start = spans[names[place - 1]][2]
    return text[:start] + text[end:]


def maybe_sole_span(text: bytes, name: str) -> tuple[int, int] | None:
    """Where the value of the member `name` of the object in `text` stands; None when there is none.

    For objects that nobody has checked for repeated names. Raises Ambiguous when this one is there twice, or
    one that some readers would take for it.
    """
    plain = name.lower()
    if text.isascii() and b"\\" not in text and plain.encode() not in text.lower():
        return None
    from penstock.wire.json.json_walk import (  # few messages get here, and its patterns are large
        TooMany,
        parts,
    )

    spans = []
    try:
        for part in parts(text, 0):
            assert part.name is not None
            found = _decode_text(readable(part.name))
            if found == name:
                spans.append((part.start, part.end))
            elif folded(found) == plain or folded(found) in INHERITED:
                raise Ambiguous("a member name looks like another")
    except TooMany:
        raise Ambiguous(f'there is too much beside "{name}"') from None
    if len(spans) > 1:
        raise Ambiguous("a member name stands twice")
    return spans[0] if spans else None


_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode
