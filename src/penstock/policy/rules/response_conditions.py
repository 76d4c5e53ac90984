"""Conditions on what a response says: its result or its error."""

from __future__ import annotations

import operator
from typing import Any, ClassVar

from msgspec import Struct

from penstock.policy.binder import Json, Jsons, Number
from penstock.policy.patterns.patterns import Pattern
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.message_parts import error_of, result_of
from penstock.policy.rules.paths import Path, parse_path
from penstock.policy.rules.value_tests import (
    compares_at,
    equals_at,
    exists_at,
    holds_at,
    is_array_at,
    is_one_of_at,
    is_text,
    matches_at,
)
from penstock.wire.mcp.message import Message

_CODE = parse_path("code")
_MESSAGE = parse_path("message")


class ResultExists(Struct, frozen=True):
    """Holds for a response whose result has a value at the path, null included."""

    field: Path
    short: ClassVar[str] = "field"
    words: ClassVar[str] = "the result has {field}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return exists_at(result_of(message, context), self.field, every)


class ResultEquals(Struct, frozen=True):
    """Holds for a response whose result has `value` at the path, compared as in param_equals."""

    field: Path
    value: Json
    words: ClassVar[str] = "{field} of the result is {value}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return equals_at(result_of(message, context), self.field, self.value, every)


class ResultMatches(Struct, frozen=True):
    """Holds for a response whose result has a text at the path in which the pattern is found."""

    field: Path
    pattern: Pattern
    words: ClassVar[str] = "{field} of the result matches {pattern}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return matches_at(result_of(message, context), self.field, self.pattern, every)

    def find(self, message: Message, context: Context) -> None:
        """Finds what is to be searched, and remembers it with the message."""
        place = result_of(message, context)
        if place is not None:
            place.found(self.field)


class ResultIn(Struct, frozen=True):
    """Holds for a response whose result has one of `values` at the path, compared as in param_equals."""

    field: Path
    values: Jsons
    words: ClassVar[str] = "{field} of the result is one of {values}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return is_one_of_at(result_of(message, context), self.field, self.values, every)


class ResultGreaterThan(Struct, frozen=True):
    """Holds for a response whose result has a number above `value` at the path."""

    field: Path
    value: Number
    words: ClassVar[str] = "{field} of the result is greater than {value}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return compares_at(result_of(message, context), self.field, self.value, operator.gt, every)


class ResultLessThan(Struct, frozen=True):
    """Holds for a response whose result has a number below `value` at the path."""

    field: Path
    value: Number
    words: ClassVar[str] = "{field} of the result is less than {value}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return compares_at(result_of(message, context), self.field, self.value, operator.lt, every)


class ResultIsNull(Struct, frozen=True):
    """Holds for a response whose result has null at the path."""

    field: Path
    short: ClassVar[str] = "field"
    words: ClassVar[str] = "{field} of the result is null"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return equals_at(result_of(message, context), self.field, None, every)


class ResultIsArray(Struct, frozen=True):
    """Holds for a response whose result has an array at the path, the empty one included."""

    field: Path
    short: ClassVar[str] = "field"
    words: ClassVar[str] = "{field} of the result is an array"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return is_array_at(result_of(message, context), self.field, every)


class ErrorCodeEquals(Struct, frozen=True):
    """Holds for an error response with this code."""

    code: int
    whole: ClassVar[str] = "code"
    words: ClassVar[str] = "it is an error with code {code}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return equals_at(error_of(message, context), _CODE, self.code, every)


class ErrorMessageContains(Struct, frozen=True):
    """Holds for an error response whose message has `text` in it, letter for letter."""

    text: str
    whole: ClassVar[str] = "text"
    words: ClassVar[str] = "it is an error whose message contains {text}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        test = is_text(lambda part: self.text in part, every)
        return holds_at(error_of(message, context), _MESSAGE, test, every)


RESPONSE_CONDITIONS: dict[str, type[Any]] = {
    "result_exists": ResultExists,
    "result_equals": ResultEquals,
    "result_matches": ResultMatches,
    "result_in": ResultIn,
    "result_greater_than": ResultGreaterThan,
    "result_less_than": ResultLessThan,
    "result_is_null": ResultIsNull,
    "result_is_array": ResultIsArray,
    "error_code_equals": ErrorCodeEquals,
    "error_message_contains": ErrorMessageContains,
}
