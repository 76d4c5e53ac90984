"""Questions about one JSON value, asked in the same way wherever it stands: in params or in a result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.policy.patterns.patterns import Pattern
from penstock.policy.rules.json_values import compares, equals, text_holds, text_of
from penstock.policy.rules.message_parts import Place
from penstock.policy.rules.paths import Path, Span, Test
from penstock.wire.json.json_walk import first_byte


def holds_at(place: Place | None, path: Path, test: Test, every: bool) -> bool:
    """Whether the test holds for what somebody finds at the path; or, with `every`, for what anybody does."""
    if place is None:
        return False
    if every:
        return path.surely(place.text, place.start, place.end, test)
    found = path.tokens(place.text, place.start, place.end)
    return any(test(token, Span(0, len(token))) for token in found)


def is_there(text: bytes, span: Span) -> bool:
    """Whatever it is."""
    return True


def is_array(text: bytes, span: Span) -> bool:
    """An array, the empty one included."""
    return first_byte(text, span.start) == b"["


def is_value(value: object, every: bool) -> Test:
    """Exactly this value, with its type."""
    return lambda text, span: equals(text, span.start, span.end, value, every)


def is_one_of(values: tuple[Any, ...], every: bool) -> Test:
    """One of these values."""
    return lambda text, span: any(equals(text, span.start, span.end, value, every) for value in values)


def is_text(test: Callable[[str], bool], every: bool) -> Test:
    """A string for which the test holds, be it read whole or only up to a NUL."""

    def holds(text: bytes, span: Span) -> bool:
        if first_byte(text, span.start) != b'"':
            return False
        return text_holds(text_of(text[span.start : span.end]), test, every)

    return holds


def matches(pattern: Pattern, every: bool) -> Test:
    """A string in which the pattern is found."""
    return is_text(lambda part: pattern.holds_in(part, every), every)


def compares_with(value: int | float, test: Callable[[Any, Any], bool], every: bool) -> Test:
    """A number that stands to `value` as the test says."""
    return lambda text, span: compares(text[span.start : span.end], value, test, every)
