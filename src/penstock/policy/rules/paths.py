"""Dotted paths into a message: `arguments.path`, `content.0.text`, `content.*.text`.

A step is the name of a member; in an array it is a number, counted from 0. `*` is every member or element.
A dot within a name is written `\\.`, a backslash `\\\\`. Where a name stands twice, both values are meant: a
rule that looks at one of them would leave the other to whoever reads the message next. For the same reason
a name that some readers take for another (`PATH` for `path`) is meant too, and what JavaScript may inherit
through `__proto__`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import msgspec
from msgspec import Struct

from penstock.policy.rules.json_values import text_of
from penstock.wire.json.ambiguity import INHERITED
from penstock.wire.json.json_walk import (
    Part,
    TooMany,
    caseless,
    first_byte,
    parts,
    place_to_add,
    skip_count,
    skip_unlike,
)

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


Test = Callable[[bytes, Span], bool]
"""A question about the value at a place."""


class Path(Struct, frozen=True):
    """One dotted path."""

    source: str
    steps: tuple[str, ...]

    def __str__(self) -> str:
        return self.source

    def find(self, text: bytes, start: int, end: int) -> Iterator[Span]:
        """Every value that somebody could find at this path in the JSON value at text[start:end]."""
        return _find(text, Span(start, end), self.steps)

    def surely(self, text: bytes, start: int, end: int, test: Test) -> bool:
        """Whether everybody who reads the value at text[start:end] finds something at this path, and the
        test holds for it. Where a star stands, that is for each part that has such a value."""
        return _surely(text, Span(start, end), self.steps, test) is True

    def edits_to_set(self, text: bytes, start: int, end: int, value: bytes) -> list[Edit]:
        """What to change so that every value at this path is `value`; a missing member is added.

        Raises CannotSet when the path leads through something that is no object or array.
        """
        return list(_edits_to_set(text, Span(start, end), self.steps, value))

    def edits_to_remove(self, text: bytes, start: int, end: int) -> list[Edit]:
        """What to change so that nobody finds anything at this path."""
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
    for part, _ in _chosen(text, span, steps[0]):
        yield from _find(text, Span(part.start, part.end), steps[1:])


def _surely(text: bytes, span: Span, steps: tuple[str, ...], test: Test) -> bool | None:
    """Whether the test holds whoever reads it; None when nobody finds anything there."""
    if not steps:
        return test(text, span)
    is_found = is_missed = False
    is_exact = steps[0] == "*"
    for part, is_own in _chosen(text, span, steps[0]):
        holds = _surely(text, Span(part.start, part.end), steps[1:], test)
        if holds is False:
            return False
        is_exact = is_exact or is_own
        is_found = is_found or holds is True
        is_missed = is_missed or (holds is None and steps[0] != "*")
    if not is_found:
        return None
    return is_exact and not is_missed  # else one reader finds it, and another takes a member without it


def _chosen(text: bytes, span: Span, step: str, depth: int = 0) -> Iterator[tuple[Part, bool]]:
    """The members or elements that `step` could mean, each with whether it means it to everybody."""
    head = first_byte(text, span.start)
    if step == "*":
        if head in _CONTAINERS:
            for part in parts(text, span.start):
                yield part, True
    elif head == b"{":
        for part, likeness in _alternatives(text, span.start, step):
            if likeness != _INHERITS:
                yield part, likeness == _EXACT
            else:
                for inner, _ in _chosen(text, Span(part.start, part.end), step, _deeper(depth)):
                    yield inner, False
    elif head == b"[" and (index := _maybe_index(step)) is not None:
        for part in _element(text, span.start, index):
            yield part, True


_EXACT, _ALIKE, _INHERITS = range(3)
_MOST_INHERITED = 4


def _deeper(depth: int) -> int:
    """One level further up the line of ancestors; each is looked through whole, so there must be few."""
    if depth >= _MOST_INHERITED:
        raise TooMany("more is inherited than any honest message has")
    return depth + 1


def _alternatives(text: bytes, start: int, step: str) -> Iterator[tuple[Part, int]]:
    """The members of the object at `start` that have a part in what somebody finds under the name `step`."""
    skip = skip_unlike(step)
    ancestors = 0
    for part in parts(text, start, skip):
        name = text_of(part.name or b'""')
        if name == step:
            yield part, _EXACT
        elif name in INHERITED and step not in INHERITED:
            if first_byte(text, part.start) == b"{":
                ancestors = _deeper(ancestors)
                yield part, _INHERITS
        elif caseless(name) == skip.alike:
            yield part, _ALIKE


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


def _maybe_index(step: str) -> int | None:
    return int(step) if step.isascii() and step.isdigit() and len(step) < 10 else None


def _edits_to_set(text: bytes, span: Span, steps: tuple[str, ...], value: bytes) -> Iterator[Edit]:
    if not steps:
        yield span.start, span.end, value
        return
    step, rest = steps[0], steps[1:]
    is_there = False
    for part, is_own in _chosen(text, span, step):
        is_there = is_there or is_own
        yield from _edits_to_set(text, Span(part.start, part.end), rest, value)
    if is_there or step == "*":
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


def _edits_to_drop(text: bytes, holder: Span, step: str, depth: int = 0) -> Iterator[Edit]:
    """Cuts out what the step could mean, each part with the comma that tied it to its neighbour."""
    head = first_byte(text, holder.start)
    if head not in _CONTAINERS:
        return
    if step == "*" or head == b"[":
        chosen = (part for part, _ in _chosen(text, holder, step))
        yield from _cuts(text, holder, chosen)
        return
    own: list[Part] = []
    for part, likeness in _alternatives(text, holder.start, step):
        if likeness == _INHERITS:
            yield from _edits_to_drop(text, Span(part.start, part.end), step, _deeper(depth))
        else:
            own.append(part)
    yield from _cuts(text, holder, iter(own))


def _cuts(text: bytes, holder: Span, chosen: Iterator[Part]) -> Iterator[Edit]:
    target = next(chosen, None)
    if target is None:
        return
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
