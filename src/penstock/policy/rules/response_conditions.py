"""Conditions on what a response says: its result or its error."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from penstock.policy.rules.binder import Json
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.json_values import text_holds, text_of
from penstock.policy.rules.message_parts import error_of, result_of
from penstock.policy.rules.param_conditions import holds_at, is_value
from penstock.policy.rules.paths import Path, Span, parse_path
from penstock.wire.json.json_walk import first_byte
from penstock.wire.mcp.message import Message

_CODE = parse_path("code")
_MESSAGE = parse_path("message")


class ResultExists(Struct, frozen=True):
    """Holds for a response whose result has a value at the path, null included."""

    field: Path
    short: ClassVar[str] = "field"
    words: ClassVar[str] = "the result has {field}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return holds_at(result_of(message), self.field, lambda text, span: True, every)


class ResultEquals(Struct, frozen=True):
    """Holds for a response whose result has `value` at the path, compared as in param_equals."""

    field: Path
    value: Json
    words: ClassVar[str] = "{field} of the result is {value}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return holds_at(result_of(message), self.field, is_value(self.value, every), every)


class ErrorCodeEquals(Struct, frozen=True):
    """Holds for an error response with this code."""

    code: int
    whole: ClassVar[str] = "code"
    words: ClassVar[str] = "it is an error with code {code}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return holds_at(error_of(message), _CODE, is_value(self.code, every), every)


class ErrorMessageContains(Struct, frozen=True):
    """Holds for an error response whose message has `text` in it, letter for letter."""

    text: str
    whole: ClassVar[str] = "text"
    words: ClassVar[str] = "it is an error whose message contains {text}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        def contains(text: bytes, span: Span) -> bool:
            token = text[span.start : span.end]
            return first_byte(token, 0) == b'"' and text_holds(
                text_of(token), lambda part: self.text in part, every
            )

        return holds_at(error_of(message), _MESSAGE, contains, every)
