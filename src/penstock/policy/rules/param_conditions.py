"""Conditions on the params of a message."""

from __future__ import annotations

import operator
from typing import ClassVar

from msgspec import Struct

from penstock.policy.patterns.patterns import Pattern
from penstock.policy.rules.binder import Json, Jsons, Number
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.json_values import compares, equals, text_holds, text_of
from penstock.policy.rules.message_parts import Place, params_of
from penstock.policy.rules.paths import Path, Span, Test
from penstock.wire.json.json_walk import first_byte
from penstock.wire.mcp.message import Message


def holds_at(place: Place | None, path: Path, test: Test, every: bool) -> bool:
    """Whether the test holds for what somebody finds at the path; or, with `every`, for what anybody does."""
    if place is None:
        return False
    if every:
        return path.surely(place.text, place.start, place.end, test)
    found = path.tokens(place.text, place.start, place.end)
    return any(test(token, Span(0, len(token))) for token in found)


def is_value(value: object, every: bool) -> Test:
    return lambda text, span: equals(text, span.start, span.end, value, every)


class ParamExists(Struct, frozen=True):
    """Holds when there is a value at the path, null included."""

    field: Path
    short: ClassVar[str] = "field"
    words: ClassVar[str] = "there is a param {field}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return holds_at(params_of(message, context), self.field, lambda text, span: True, every)


class ParamEquals(Struct, frozen=True):
    """Holds when the value is `value`, with its type: 1 is 1.0 and 1e0, but neither "1" nor true."""

    field: Path
    value: Json
    words: ClassVar[str] = "param {field} is {value}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return holds_at(params_of(message, context), self.field, is_value(self.value, every), every)


class ParamMatches(Struct, frozen=True):
    """Holds when the value is a string in which the pattern is found; anchor it with ^ and $."""

    field: Path
    pattern: Pattern
    words: ClassVar[str] = "param {field} matches {pattern}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        def matches(text: bytes, span: Span) -> bool:
            if first_byte(text, span.start) != b'"':
                return False
            found = text_of(text[span.start : span.end])
            return text_holds(found, lambda part: self.pattern.holds_in(part, every), every)

        return holds_at(params_of(message, context), self.field, matches, every)


class ParamIn(Struct, frozen=True):
    """Holds when the value is one of `values`, each compared as in param_equals."""

    field: Path
    values: Jsons
    words: ClassVar[str] = "param {field} is one of {values}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        def is_listed(text: bytes, span: Span) -> bool:
            return any(equals(text, span.start, span.end, value, every) for value in self.values)

        return holds_at(params_of(message, context), self.field, is_listed, every)


class ParamGreaterThan(Struct, frozen=True):
    """Holds when the value is a number above `value`. A string never is, not even "100"."""

    field: Path
    value: Number
    words: ClassVar[str] = "param {field} is greater than {value}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        def is_greater(text: bytes, span: Span) -> bool:
            return compares(text[span.start : span.end], self.value, operator.gt, every)

        return holds_at(params_of(message, context), self.field, is_greater, every)


class ParamLessThan(Struct, frozen=True):
    """Holds when the value is a number below `value`. A string never is."""

    field: Path
    value: Number
    words: ClassVar[str] = "param {field} is less than {value}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        def is_less(text: bytes, span: Span) -> bool:
            return compares(text[span.start : span.end], self.value, operator.lt, every)

        return holds_at(params_of(message, context), self.field, is_less, every)


class ParamIsNull(Struct, frozen=True):
    """Holds when the value is there and is null."""

    field: Path
    short: ClassVar[str] = "field"
    words: ClassVar[str] = "param {field} is null"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return holds_at(params_of(message, context), self.field, is_value(None, every), every)


class ParamIsArray(Struct, frozen=True):
    """Holds when the value is an array, the empty one included."""

    field: Path
    short: ClassVar[str] = "field"
    words: ClassVar[str] = "param {field} is an array"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        def is_array(text: bytes, span: Span) -> bool:
            return first_byte(text, span.start) == b"["

        return holds_at(params_of(message, context), self.field, is_array, every)
