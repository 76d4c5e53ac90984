"""Comparing JSON values by what they mean, with their types.

1, 1.0 and 1e0 are the same number. The string "1" is not, and neither is true: a value equals only one of
its own type. Numbers are compared exactly, however many digits they have.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.wire.json_walk import first_byte, parts

if TYPE_CHECKING:
    from decimal import Decimal

_SMALL_INTEGER = re.compile(rb"-?[0-9]{1,18}").fullmatch
_NUMBER_STARTS = tuple(b"-0123456789"[i : i + 1] for i in range(11))
_decode_text = msgspec.json.Decoder(str).decode


def text_of(token: bytes) -> str:
    """The string that `token` spells; half a surrogate pair stays what it is."""
    try:
        return _decode_text(token)
    except (msgspec.DecodeError, UnicodeDecodeError):
        import json  # the only reader at hand that takes such halves; few messages have one

        found = json.loads(token)
        return found if isinstance(found, str) else ""


def plain_value(token: bytes) -> Any:
    """The value that `token` spells, as plain Python data."""
    try:
        return msgspec.json.decode(token)
    except (msgspec.DecodeError, UnicodeDecodeError):
        import json

        return json.loads(token)


def maybe_number(token: bytes) -> int | Decimal | None:
    """The number that `token` spells, exactly; None when it is no number."""
    if _SMALL_INTEGER(token):
        return int(token)
    if token[:1] not in _NUMBER_STARTS:
        return None
    import decimal  # only for fractions and giants

    try:
        return decimal.Decimal(token.decode())
    except decimal.InvalidOperation:  # an exponent beyond all bounds
        mantissa, _, exponent = token.lower().partition(b"e")
        if exponent.startswith(b"-") or not mantissa.strip(b"-0."):
            return 0
        return decimal.Decimal("-Infinity" if token.startswith(b"-") else "Infinity")


def number(value: int | float) -> int | Decimal:
    """A number from a configuration file, for exact comparison: 0.1 is a tenth."""
    if isinstance(value, int):
        return value
    import decimal

    return decimal.Decimal(repr(value))


def equals(text: bytes, start: int, end: int, wanted: object) -> bool:
    """Whether the JSON value at text[start:end] is `wanted`, plain data out of a configuration file.

    In an object every name counts once; where it stands twice, one of its values must do.
    """
    head = first_byte(text, start)
    if isinstance(wanted, dict):
        return head == b"{" and _same_members(text, start, wanted)
    if isinstance(wanted, list | tuple):
        return head == b"[" and _same_elements(text, start, wanted)
    token = text[start:end]
    if isinstance(wanted, str):
        return head == b'"' and text_of(token) == wanted
    if wanted is None:
        return token == b"null"
    if isinstance(wanted, bool):
        return token == (b"true" if wanted else b"false")
    if isinstance(wanted, int | float):
        return head in _NUMBER_STARTS and maybe_number(token) == number(wanted)
    return False


def _same_members(text: bytes, start: int, wanted: dict[Any, Any]) -> bool:
    met: dict[str, bool] = {}
    for part in parts(text, start):
        name = text_of(part.name or b'""')
        if name not in wanted:
            return False
        met[name] = met.get(name, False) or equals(text, part.start, part.end, wanted[name])
    return len(met) == len(wanted) and all(met.values())


def _same_elements(text: bytes, start: int, wanted: list[Any] | tuple[Any, ...]) -> bool:
    count = 0
    for part in parts(text, start):
        if count >= len(wanted) or not equals(text, part.start, part.end, wanted[count]):
            return False
        count += 1
    return count == len(wanted)
