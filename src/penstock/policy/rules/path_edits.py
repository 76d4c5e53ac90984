"""What to change in a message so that the values at a path are others, or gone. Texts that hold JSON are
written anew where something in them changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from penstock.policy.rules.json_values import plain_json
from penstock.policy.rules.path_finding import (
    CONTAINERS,
    DEEP,
    INHERITS,
    Span,
    alternatives,
    below,
    chosen,
    deeper,
    maybe_index,
    maybe_within,
    texts_with_json,
)
from penstock.wire.json.json_walk import Budget, Part, first_byte, parts, place_to_add

Edit = tuple[int, int, bytes]
"""Replace what stands from here to there by this."""

Change = Callable[[bytes], bytes | None]
"""What becomes of a value."""


class CannotSet(ValueError):
    """There is no place for the value: the path leads through something that has no such members."""


def spliced(text: bytes, edits: list[Edit]) -> bytes:
    """`text` with the edits made and every other byte as it was."""
    pieces: list[bytes] = []
    position = 0
    for start, end, value in sorted(edits, key=lambda edit: edit[:2]):
        pieces += (text[position:start], value)
        position = end
    pieces.append(text[position:])
    return b"".join(pieces)


def edits_to_set(text: bytes, span: Span, steps: tuple[str, ...], value: bytes) -> Iterator[Edit]:
    if not steps:
        yield span.start, span.end, value
        return
    inner = maybe_within(text, span)
    if inner is not None:
        yield _edit_within(span, inner, edits_to_set(inner, Span(0, len(inner)), steps, value))
        return
    step, rest = steps[0], steps[1:]
    is_there = False
    for part, is_own in chosen(text, span, step):
        is_there = is_there or is_own
        yield from edits_to_set(text, Span(part.start, part.end), rest, value)
    if is_there or step == "*":
        return
    head = first_byte(text, span.start)
    if head == b"{":
        member = msgspec.json.encode(step) + b":" + _wrapped(rest, value)
    elif head == b"[" and maybe_index(step) == sum(1 for _ in parts(text, span.start)):
        member = _wrapped(rest, value)
    else:
        raise CannotSet(f'there is no place for "{step}"')
    place, has_neighbour = place_to_add(text, span.start, span.end)
    yield place, place, b"," + member if has_neighbour else member


def edits_to_change(
    text: bytes, span: Span, steps: tuple[str, ...], change: Change, budget: Budget
) -> Iterator[Edit]:
    head = first_byte(text, span.start)
    if not steps or (steps == (DEEP,) and head not in CONTAINERS):
        value = change(text[span.start : span.end])
        if value is not None:
            yield span.start, span.end, value
    elif (inner := maybe_within(text, span)) is not None:
        yield _edit_within(span, inner, edits_to_change(inner, Span(0, len(inner)), steps, change, budget))
    elif steps[0] == DEEP:
        for start, _ in below(text, span, steps, budget):
            found = Span(start, budget.end_of(text, start))
            yield from edits_to_change(text, found, steps[2:], change, budget)
        for found in texts_with_json(text, span) if len(steps) > 1 else ():
            yield from edits_to_change(text, found, steps, change, budget)
    else:
        for part, _ in chosen(text, span, steps[0]):
            budget.spend()
            yield from edits_to_change(text, Span(part.start, part.end), steps[1:], change, budget)


def edits_to_remove(text: bytes, span: Span, steps: tuple[str, ...], budget: Budget) -> Iterator[Edit]:
    inner = maybe_within(text, span)
    if inner is not None:
        yield _edit_within(span, inner, edits_to_remove(inner, Span(0, len(inner)), steps, budget))
    elif len(steps) == 1:
        yield from _edits_to_drop(text, span, "*" if steps[0] == DEEP else steps[0])
    elif steps[0] != DEEP:
        for part, _ in chosen(text, span, steps[0]):
            budget.spend()
            yield from edits_to_remove(text, Span(part.start, part.end), steps[1:], budget)
    elif first_byte(text, span.start) in CONTAINERS:
        yield from edits_to_remove(text, span, steps[1:], budget)
        budget.spend_bytes(span.end - span.start)  # each level is looked through whole
        for part in parts(text, span.start):
            budget.spend()
            yield from edits_to_remove(text, Span(part.start, part.end), steps, budget)


def _edit_within(span: Span, inner: bytes, edits: Iterator[Edit]) -> Edit:
    """Writes the text anew, with the edits made in the JSON that it holds."""
    changed = spliced(inner, outermost(edits))
    return span.start, span.end, plain_json(changed.decode("utf-8", "surrogatepass"))


def outermost(edits: Iterator[Edit]) -> list[Edit]:
    """The edits without those that lie within another; what is changed whole needs no change in it."""
    out: list[Edit] = []
    for edit in sorted(edits, key=lambda edit: (edit[0], -edit[1])):
        if not out or edit[0] >= out[-1][1]:
            out.append(edit)
    return out


def _wrapped(steps: tuple[str, ...], value: bytes) -> bytes:
    if "*" in steps or DEEP in steps:
        raise CannotSet('"*" means what is there, and nothing is')
    for step in reversed(steps):
        value = b"{%b:%b}" % (msgspec.json.encode(step), value)
    return value


def _edits_to_drop(text: bytes, holder: Span, step: str, depth: int = 0) -> Iterator[Edit]:
    """Cuts out what the step could mean, each part with the comma that tied it to its neighbour."""
    head = first_byte(text, holder.start)
    if head not in CONTAINERS:
        return
    if step == "*" or head == b"[":
        found = (part for part, _ in chosen(text, holder, step))
        yield from _cuts(text, holder, found)
        return
    own: list[Part] = []
    for part, likeness in alternatives(text, holder.start, step):
        if likeness == INHERITS:
            yield from _edits_to_drop(text, Span(part.start, part.end), step, deeper(depth))
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
