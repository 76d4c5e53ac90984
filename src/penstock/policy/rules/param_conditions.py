"""Conditions on the params of a message."""

from __future__ import annotations

import operator
from typing import ClassVar

from msgspec import Struct

from penstock.policy.binder import Json, Jsons, Number
from penstock.policy.patterns.patterns import Pattern
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.message_parts import params_of
from penstock.policy.rules.paths import Path
from penstock.policy.rules.value_tests import (
    compares_at,
    equals_at,
    exists_at,
    is_array_at,
    is_one_of_at,
    matches_at,
)
from penstock.wire.mcp.message import Message


class ParamExists(Struct, frozen=True):
    """Holds when there is a value at the path, null included."""

    field: Path
    short: ClassVar[str] = "field"
    words: ClassVar[str] = "there is a param {field}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return exists_at(params_of(message, context), self.field, every)


class ParamEquals(Struct, frozen=True):
    """Holds when the value is `value`: 1 is 1.0 and 1e0. A rule that blocks also takes it as servers convert
    it: "1" and true for 1, "yes" for true."""

    field: Path
    value: Json
    words: ClassVar[str] = "param {field} is {value}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return equals_at(params_of(message, context), self.field, self.value, every)

    def texts_asked(self) -> tuple[Path, tuple[str, ...]] | None:
        """The only texts for which it can hold, if it asks for one."""
        return (self.field, (self.value,)) if isinstance(self.value, str) else None


class ParamMatches(Struct, frozen=True):
    """Holds when the value is a string in which the pattern is found; anchor it with ^ and $."""

    field: Path
    pattern: Pattern
    words: ClassVar[str] = "param {field} matches {pattern}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return matches_at(params_of(message, context), self.field, self.pattern, every)

    def find(self, message: Message, context: Context) -> None:
        """Finds what is to be searched, and remembers it with the message."""
        place = params_of(message, context)
        if place is not None:
            place.found(self.field)


class ParamIn(Struct, frozen=True):
    """Holds when the value is one of `values`, each compared as in param_equals."""

    field: Path
    values: Jsons
    words: ClassVar[str] = "param {field} is one of {values}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return is_one_of_at(params_of(message, context), self.field, self.values, every)

    def texts_asked(self) -> tuple[Path, tuple[str, ...]] | None:
        """The only texts for which it can hold, if it asks for texts."""
        is_text = all(isinstance(value, str) for value in self.values)
        return (self.field, self.values) if is_text else None


class ParamGreaterThan(Struct, frozen=True):
    """Holds when the value is a number above `value`; to a rule that blocks, "100" is a number as well."""

    field: Path
    value: Number
    words: ClassVar[str] = "param {field} is greater than {value}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return compares_at(params_of(message, context), self.field, self.value, operator.gt, every)


class ParamLessThan(Struct, frozen=True):
    """Holds when the value is a number below `value`; to a rule that blocks, "1" is a number as well."""

    field: Path
    value: Number
    words: ClassVar[str] = "param {field} is less than {value}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return compares_at(params_of(message, context), self.field, self.value, operator.lt, every)


class ParamIsNull(Struct, frozen=True):
    """Holds when the value is there and is null."""

    field: Path
    short: ClassVar[str] = "field"
    words: ClassVar[str] = "param {field} is null"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return equals_at(params_of(message, context), self.field, None, every)


class ParamIsArray(Struct, frozen=True):
    """Holds when the value is an array, the empty one included."""

    field: Path
    short: ClassVar[str] = "field"
    words: ClassVar[str] = "param {field} is an array"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return is_array_at(params_of(message, context), self.field, every)
