"""Dotted paths into a message: `arguments.path`, `content.0.text`, `content.*.text`.

A step is the name of a member; in an array it is a number, counted from 0. `*` is every member or element.
A dot within a name is written `\\.`, a backslash `\\\\`. Where a name stands twice, both values are meant: a
rule that looks at one of them would leave the other to whoever reads the message next.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from penstock.policy.json_values import text_of
from penstock.wire.json_walk import Part, first_byte, parts, place_to_add, skip_count, skip_unlike

MOST_STEPS = 64
_CONTAINERS = (b"{", b"[")
_BLANKS = b" \t\r\n"

Edit = tuple[int, int, bytes]
"""Replace what stands from here to there by this."""


class BadPath(ValueError):
    """The text is no path."""


class CannotSet(ValueError):
    """There is no place for the value: the path leads through something that has no such members."""


class Span(Struct, frozen=True, gc=False):
    """Where a value stands."""

    start: int
    end: int


class Path(Struct, frozen=True):
    """One dotted path."""

    source: str
    steps: tuple[str, ...]

    def __str__(self) -> str:
        return self.source

    def find(self, text: bytes, start: int, end: int) -> Iterator[Span]:
        """Every value at this path in the JSON value at text[start:end], in the order they are written."""
        return _find(text, Span(start, end), self.steps)

    def edits_to_set(self, text: bytes, start: int, end: int, value: bytes) -> list[Edit]:
        """What to change so that every value at this path is `value`; a missing member is added.

        Raises CannotSet when the path leads through something that is no object or array.
        """
        return list(_edits_to_set(text, Span(start, end), self.steps, value))

    def edits_to_remove(self, text: bytes, start: int, end: int) -> list[Edit]:
        """What to change so that there is nothing at this path."""
        edits: list[Edit] = []
        for holder in _find(text, Span(start, end), self.steps[:-1]):
            edits += _edits_to_drop(text, holder, self.steps[-1])
        return edits


def parse_path(source: str) -> Path:
    """The path that `source` spells. Raises BadPath."""
    steps: list[str] = []
    step = ""
    at = 0
    while at < len(source):
        sign = source[at]
        if sign == "\\":
            at += 1
            if source[at : at + 1] not in (".", "\\"):
                raise BadPath(r"a backslash stands only before a dot or another backslash")
            step += source[at]
        elif sign == ".":
            steps.append(step)
            step = ""
        else:
            step += sign
        at += 1
    steps.append(step)
    if "" in steps:
        raise BadPath("a step is empty")
    if len(steps) > MOST_STEPS:
        raise BadPath(f"more than {MOST_STEPS} steps")
    return Path(source, tuple(steps))


def spliced(text: bytes, edits: list[Edit]) -> bytes:
    """`text` with the edits made and every other byte as it was."""
    pieces: list[bytes] = []
    position = 0
    for start, end, value in sorted(edits, key=lambda edit: edit[:2]):
        pieces += (text[position:start], value)
        position = end
    pieces.append(text[position:])
    return b"".join(pieces)


def _find(text: bytes, span: Span, steps: tuple[str, ...]) -> Iterator[Span]:
    if not steps:
        yield span
        return
    for part in _chosen(text, span, steps[0]):
        yield from _find(text, Span(part.start, part.end), steps[1:])


def _chosen(text: bytes, span: Span, step: str) -> Iterator[Part]:
    """The members or elements that `step` means."""
    head = first_byte(text, span.start)
    if step == "*":
        if head in _CONTAINERS:
            yield from parts(text, span.start)
    elif head == b"{":
        for part in parts(text, span.start, skip_unlike(step)):
            if _is_named(part, step):
                yield part
    elif head == b"[" and (index := _maybe_index(step)) is not None:
        yield from _element(text, span.start, index)


def _element(text: bytes, start: int, index: int) -> Iterator[Part]:
    if index:
        skip = skip_count(index)
        for part in parts(text, start, skip):
            if text[start + 1 : part.begin].strip(_BLANKS):
                yield part  # the skip went through, so this is the one
            else:
                yield from itertools.islice(parts(text, start), index, index + 1)
            return
    yield from itertools.islice(parts(text, start), index, index + 1)


def _is_named(part: Part, step: str) -> bool:
    name = part.name or b""
    if b"\\" not in name and len(name) - 2 < len(step):
        return False  # a character takes one byte at the least
    return text_of(name) == step


def _maybe_index(step: str) -> int | None:
    return int(step) if step.isascii() and step.isdigit() and len(step) < 10 else None


def _edits_to_set(text: bytes, span: Span, steps: tuple[str, ...], value: bytes) -> Iterator[Edit]:
    if not steps:
        yield span.start, span.end, value
        return
    step, rest = steps[0], steps[1:]
    found = False
    for part in _chosen(text, span, step):
        found = True
        yield from _edits_to_set(text, Span(part.start, part.end), rest, value)
    if found or step == "*":
        return
    head = first_byte(text, span.start)
    if head == b"{":
        member = msgspec.json.encode(step) + b":" + _wrapped(rest, value)
    elif head == b"[" and _maybe_index(step) == sum(1 for _ in parts(text, span.start)):
        member = _wrapped(rest, value)
    else:
        raise CannotSet(f'there is no place for "{step}"')
    place, has_neighbour = place_to_add(text, span.start, span.end)
    yield place, place, b"," + member if has_neighbour else member


def _wrapped(steps: tuple[str, ...], value: bytes) -> bytes:
    if "*" in steps:
        raise CannotSet('"*" means what is there, and nothing is')
    for step in reversed(steps):
        value = b"{%b:%b}" % (msgspec.json.encode(step), value)
    return value


def _edits_to_drop(text: bytes, holder: Span, step: str) -> Iterator[Edit]:
    """Cuts the chosen parts out, each with the comma that tied it to its neighbour."""
    if first_byte(text, holder.start) not in _CONTAINERS:
        return
    chosen = _chosen(text, holder, step)
    target = next(chosen, None)
    kept_end = run_begin = run_end = None
    for part in parts(text, holder.start):
        if target is not None and part.begin == target.begin:
            run_begin = part.begin if run_begin is None else run_begin
            run_end = part.end
            target = next(chosen, None)
            continue
        if run_begin is not None:
            yield run_begin, part.begin, b""
            run_begin = None
        kept_end = part.end
    if run_begin is not None and run_end is not None:
        yield run_begin if kept_end is None else kept_end, run_end, b""
