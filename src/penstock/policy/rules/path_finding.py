"""Finding what somebody could find at a path: `find` in the bytes, `tokens` also within texts that hold JSON,
`gather` what everybody finds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from penstock.policy.rules.json_values import json_within, text_of
from penstock.wire.json.ambiguity import INHERITED
from penstock.wire.json.json_walk import (
    Budget,
    Part,
    TooMany,
    caseless,
    first_byte,
    leaves,
    maybe_flat_values,
    members_below,
    parts,
    skip_count,
    skip_unlike,
    value_end,
)

DEEP = "**"
CONTAINERS = (b"{", b"[")
_EVERYTHING = (("*",), (DEEP,))
_BLANKS = b" \t\r\n"
_JSON_STARTS = (b"{", b"[", b"\\", b" ")


class Span(Struct, frozen=True, gc=False):
    """Where a value stands."""

    start: int
    end: int


def find(text: bytes, span: Span, steps: tuple[str, ...], budget: Budget) -> Iterator[Span]:
    if not steps:
        yield span
        return
    if steps[0] == DEEP:
        for start, _ in below(text, span, steps, budget):
            yield from find(text, Span(start, budget.end_of(text, start)), steps[2:], budget)
        return
    for part, _ in chosen(text, span, steps[0]):
        budget.spend()
        yield from find(text, Span(part.start, part.end), steps[1:], budget)


def below(text: bytes, span: Span, steps: tuple[str, ...], budget: Budget) -> Iterator[tuple[int, bool]]:
    """Where the values begin that `**` and the name after it could mean, and whether to everybody."""
    if first_byte(text, span.start) not in CONTAINERS:
        return
    if len(steps) == 1:
        for found in leaves(text, span.start, span.end):
            budget.spend()
            yield found, True
        return
    step, alike = steps[1], caseless(steps[1])
    own = msgspec.json.encode(step)
    for written, start in members_below(text, span.start, span.end):
        budget.spend()
        if written == own:
            yield start, True
        elif len(written) == len(own) or b"\\" in written or not written.isascii():
            name = text_of(written)
            if name == step or caseless(name) == alike:
                yield start, name == step


def tokens(text: bytes, span: Span, steps: tuple[str, ...], budget: Budget, out: list[bytes]) -> None:
    start, end = span.start, span.end
    if text[start : start + 1] == b'"':
        token = text[start:end]
        if not steps or steps == (DEEP,):
            out.append(token)
        inner = json_within(token)
        if inner is not None:
            budget.go_within()
            if not steps:
                out.append(inner)
            else:
                tokens(inner, Span(0, len(inner)), steps, budget, out)
    elif not steps or (steps == (DEEP,) and first_byte(text, start) not in CONTAINERS):
        out.append(text[start:end])
    elif steps in _EVERYTHING and (flat := maybe_flat_values(text, start, end)) is not None:
        budget.spend(len(flat))
        out += flat
        # There is no bracket in it, so a text that holds JSON has one in an escape.
        for token in flat if text.find(b"\\", start, end) >= 0 else ():
            if token[1:2] in _JSON_STARTS and (inner := json_within(token)) is not None:
                budget.go_within()
                _look_within(inner, steps, budget, out)
    elif steps[0] == DEEP:
        rest = steps if len(steps) == 1 else steps[2:]
        for found, _ in below(text, span, steps, budget):
            tokens(text, Span(found, budget.end_of(text, found)), rest, budget, out)
        for inside in texts_with_json(text, span) if len(steps) > 1 else ():
            tokens(text, inside, steps, budget, out)
    else:
        for part, _ in chosen(text, span, steps[0]):
            budget.spend()
            tokens(text, Span(part.start, part.end), steps[1:], budget, out)


def _look_within(inner: bytes, steps: tuple[str, ...], budget: Budget, out: list[bytes]) -> None:
    """What a text that holds JSON adds to what is found: that JSON, or, at any depth, what is in it."""
    if steps == (DEEP,):
        tokens(inner, Span(0, len(inner)), steps, budget, out)
    else:
        out.append(inner)


def gather(text: bytes, span: Span, steps: tuple[str, ...], budget: Budget, out: list[bytes]) -> bool | None:
    """Collects what is found; whether everybody finds it, None when nobody finds anything there."""
    if not steps:
        out.append(text[span.start : span.end])
        return True
    is_found = is_missed = False
    if steps[0] == DEEP:
        is_exact = True
        for start, is_own in below(text, span, steps, budget):
            inner = Span(start, budget.end_of(text, start))
            is_found = gather(text, inner, steps[2:], budget, out) is True or is_found
            is_exact = is_exact and is_own
        return is_exact if is_found else None
    is_exact = steps[0] == "*"
    for part, is_own in chosen(text, span, steps[0]):
        budget.spend()
        holds = gather(text, Span(part.start, part.end), steps[1:], budget, out)
        if holds is False:
            return False
        is_exact = is_exact or is_own
        is_found = is_found or holds is True
        is_missed = is_missed or (holds is None and steps[0] != "*")
    if not is_found:
        return None
    return is_exact and not is_missed  # else one reader finds it, and another takes a member without it


def chosen(text: bytes, span: Span, step: str, depth: int = 0) -> Iterator[tuple[Part, bool]]:
    """The members or elements that `step` could mean, each with whether it means it to everybody."""
    head = first_byte(text, span.start)
    if step == "*":
        if head in CONTAINERS:
            for part in parts(text, span.start):
                yield part, True
    elif head == b"{":
        for part, likeness in alternatives(text, span.start, step):
            if likeness != INHERITS:
                yield part, likeness == _EXACT
            else:
                for inner, _ in chosen(text, Span(part.start, part.end), step, deeper(depth)):
                    yield inner, False
    elif head == b"[" and (index := maybe_index(step)) is not None:
        for part in _element(text, span.start, index):
            yield part, True


_EXACT, _ALIKE, INHERITS = range(3)
_MOST_INHERITED = 4


def deeper(depth: int) -> int:
    """One level further up the line of ancestors; each is looked through whole, so there must be few."""
    if depth >= _MOST_INHERITED:
        raise TooMany("more is inherited than any honest message has")
    return depth + 1


def alternatives(text: bytes, start: int, step: str) -> Iterator[tuple[Part, int]]:
    """The members of the object at `start` that have a part in what somebody finds under the name `step`."""
    skip = skip_unlike(step)
    ancestors = 0
    for part in parts(text, start, skip):
        name = text_of(part.name or b'""')
        if name == step:
            yield part, _EXACT
        elif name in INHERITED and step not in INHERITED:
            if first_byte(text, part.start) == b"{":
                ancestors = deeper(ancestors)
                yield part, INHERITS
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


def maybe_index(step: str) -> int | None:
    return int(step) if step.isascii() and step.isdigit() and len(step) < 10 else None


def texts_with_json(text: bytes, span: Span) -> Iterator[Span]:
    """The texts below that may hold JSON."""
    if first_byte(text, span.start) in CONTAINERS:
        for start in leaves(text, span.start, span.end):
            if text[start : start + 1] == b'"' and text[start + 1 : start + 2] in _JSON_STARTS:
                yield Span(start, value_end(text, start))


def maybe_within(text: bytes, span: Span) -> bytes | None:
    """The JSON that the text at this place holds, if it is one that does."""
    return json_within(text[span.start : span.end]) if first_byte(text, span.start) == b'"' else None
