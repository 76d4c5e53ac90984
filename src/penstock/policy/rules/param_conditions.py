"""Conditions on the params of a message."""

from __future__ import annotations

import operator
from typing import ClassVar

from msgspec import Struct

from penstock.policy.patterns.patterns import Pattern
from penstock.policy.rules.binder import Json, Jsons, Number
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.message_parts import params_of
from penstock.policy.rules.paths import Path
from penstock.policy.rules.value_tests import (
    compares_with,
    holds_at,
    is_array,
    is_one_of,
    is_there,
    is_value,
    matches,
)
from penstock.wire.mcp.message import Message


class ParamExists(Struct, frozen=True):
    """Holds when there is a value at the path, null included."""

    field: Path
    short: ClassVar[str] = "field"
    words: ClassVar[str] = "there is a param {field}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return holds_at(params_of(message, context), self.field, is_there, every)


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
        return holds_at(params_of(message, context), self.field, matches(self.pattern, every), every)


class ParamIn(Struct, frozen=True):
    """Holds when the value is one of `values`, each compared as in param_equals."""

    field: Path
    values: Jsons
    words: ClassVar[str] = "param {field} is one of {values}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return holds_at(params_of(message, context), self.field, is_one_of(self.values, every), every)


class ParamGreaterThan(Struct, frozen=True):
    """Holds when the value is a number above `value`. A string never is, not even "100"."""

    field: Path
    value: Number
    words: ClassVar[str] = "param {field} is greater than {value}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        test = compares_with(self.value, operator.gt, every)
        return holds_at(params_of(message, context), self.field, test, every)


class ParamLessThan(Struct, frozen=True):
    """Holds when the value is a number below `value`. A string never is."""

    field: Path
    value: Number
    words: ClassVar[str] = "param {field} is less than {value}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        test = compares_with(self.value, operator.lt, every)
        return holds_at(params_of(message, context), self.field, test, every)


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
        return holds_at(params_of(message, context), self.field, is_array, every)
