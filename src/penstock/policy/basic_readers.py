"""How the kinds of values are read that every section has: texts, flags, numbers, durations."""

from __future__ import annotations

from penstock.policy.binder import Misread, Reader, shown
from penstock.policy.durations import FORM, BadDuration, parse_duration
from penstock.policy.faults import Fault, Place


def read_text(value: object, place: Place, faults: list[Fault]) -> str:
    if not isinstance(value, str):
        hint = "put it in quotes" if isinstance(value, int | float) else None
        raise Misread(f"must be a text, not {shown(value)}", hint)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Misread("is not valid Unicode text") from None
    return value


def read_integer(value: object, place: Place, faults: list[Fault]) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Misread(f"must be a whole number, not {shown(value)}")
    return value


def read_flag(value: object, place: Place, faults: list[Fault]) -> bool:
    if not isinstance(value, bool):
        raise Misread(f"must be true or false, not {shown(value)}")
    return value


def read_seconds(value: object, place: Place, faults: list[Fault]) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise Misread(f"must be {FORM}, not {shown(value)}")
    try:
        return parse_duration(str(value))
    except BadDuration as why:
        raise Misread(f'invalid duration "{value}"', _as_hint(str(why))) from None


def _as_hint(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


_DURATION = r"^\s*[0-9]+(\.[0-9]+)?(ms|s|m|h)?\s*$"

TEXT = Reader(read_text, {"type": "string"})
FLAG = Reader(read_flag, {"type": "boolean"})
INTEGER = Reader(read_integer, {"type": "integer"})
DURATION = Reader(
    read_seconds,
    {"anyOf": [{"type": "string", "pattern": _DURATION}, {"type": "integer", "exclusiveMinimum": 0}]},
)
