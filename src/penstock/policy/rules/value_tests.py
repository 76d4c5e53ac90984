"""Questions about the value at a path, asked in the same way wherever it stands: in params or in a result.

With `every` the answer must be right whoever reads the message, and the value is taken as it is written. Else
it is enough that somebody finds such a value, as some server would convert it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.policy.patterns.patterns import Pattern
from penstock.policy.rules.json_values import compares, equals, text_holds, text_of
from penstock.policy.rules.lax_values import written_forms
from penstock.policy.rules.message_parts import Place
from penstock.policy.rules.paths import Path, Span, Test
from penstock.wire.json.json_walk import first_byte


def holds_at(place: Place | None, path: Path, test: Test, every: bool) -> bool:
    """Whether the test holds for what somebody finds at the path; or, with `every`, for what anybody does."""
    if place is None:
        return False
    found = place.sure(path) if every else place.found(path).tokens
    if found is None:
        return False
    tests = (test(token, Span(0, len(token))) for token in found)
    return all(tests) if every else any(tests)


def exists_at(place: Place | None, path: Path, every: bool) -> bool:
    """Whether there is a value at the path."""
    if place is None:
        return False
    return bool(place.sure(path)) if every else bool(place.found(path).tokens)


def equals_at(place: Place | None, path: Path, value: object, every: bool) -> bool:
    """Whether the value at the path is `value`: to everybody as it is written, to somebody as some server
    would convert it."""
    if place is None or not every:
        return place is not None and place.found(path).equals(value)
    return holds_at(place, path, lambda text, span: equals(text, span.start, span.end, value, True), True)


def matches_at(place: Place | None, path: Path, pattern: Pattern, every: bool) -> bool:
    """Whether the value at the path is a text in which the pattern is found."""
    if place is None or not every:
        return place is not None and place.found(path).matches(pattern)

    def matches(text: bytes, span: Span) -> bool:
        if first_byte(text, span.start) != b'"':
            return False
        found = text_of(text[span.start : span.end])
        return all(pattern.holds_in(form, True) for form in written_forms(found))

    return holds_at(place, path, matches, True)


def compares_at(
    place: Place | None, path: Path, value: int | float, test: Callable[[Any, Any], bool], every: bool
) -> bool:
    """Whether the value at the path is a number that stands to `value` as `test` says."""
    if place is None or not every:
        return place is not None and place.found(path).compares(value, test)
    return holds_at(
        place, path, lambda text, span: compares(text[span.start : span.end], value, test, True), True
    )


def is_array_at(place: Place | None, path: Path, every: bool) -> bool:
    """Whether the value at the path is an array."""
    return holds_at(place, path, lambda text, span: first_byte(text, span.start) == b"[", every)


def is_one_of_at(place: Place | None, path: Path, values: tuple[Any, ...], every: bool) -> bool:
    """Whether the value at the path is one of `values`; to various readers it may be various ones."""
    if place is None or not every:
        return any(equals_at(place, path, value, False) for value in values)

    def is_one(text: bytes, span: Span) -> bool:
        return any(equals(text, span.start, span.end, value, True) for value in values)

    return holds_at(place, path, is_one, True)


def is_text(test: Callable[[str], bool], every: bool) -> Test:
    """A string for which the test holds, be it read whole or only up to a NUL."""

    def holds(text: bytes, span: Span) -> bool:
        if first_byte(text, span.start) != b'"':
            return False
        return text_holds(text_of(text[span.start : span.end]), test, every)

    return holds
