"""Comparing JSON values by what they mean, with their types.

1, 1.0 and 1e0 are the same number. The string "1" is not, and neither is true: a value equals only one of
its own type.

Readers differ in what they keep. Some keep every digit of a number and others what fits in 64 bits, so that
`1.00000000000000000001` is 1 to them; some end a string at a NUL; of a name that stands twice they keep the
first or the last. So each comparison has two forms: `every` asks that it hold whoever reads the value, else
it is enough that it hold for somebody.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import limits
from penstock.wire.json.json_walk import TooMany, first_byte, parts
from penstock.wire.json.nesting import nests_deeper

if TYPE_CHECKING:
    from decimal import Decimal

_SMALL_INTEGER = re.compile(rb"-?[0-9]{1,18}").fullmatch
_NUMBER_STARTS = tuple(b"-0123456789"[i : i + 1] for i in range(11))
_LONG_NUMBER = 4000  # digits; Python turns no more than 4,300 into a number
_BEYOND = 10**400  # no reader has it as a number of 64 bits
_SAFE_INTEGER = 2**53  # up to here every reader has the same whole numbers
_decode_text = msgspec.json.Decoder(str).decode
_check_json = msgspec.json.Decoder(msgspec.Raw).decode


def text_of(token: bytes) -> str:
    """The string that `token` spells; half a surrogate pair stays what it is."""
    try:
        return _decode_text(token)
    except (msgspec.DecodeError, UnicodeDecodeError):
        import json  # the only reader at hand that takes such halves; few messages have one

        found = json.loads(token)
        return found if isinstance(found, str) else ""


_JSON_STARTS = (b"{", b"[", b"\\", b" ")


def json_within(token: bytes) -> bytes | None:
    """The object or array that stands in the string `token`, if one does: many servers read it as such."""
    if token[1:2] not in _JSON_STARTS:
        return None
    text = text_of(token).strip(" \t\r\n")
    if not text.startswith(("{", "[")) or not text.endswith(("}", "]")):
        return None
    inner = text.encode("utf-8", "surrogatepass")
    if nests_deeper(inner, limits.NESTING):
        raise TooMany("a text holds JSON that nests too deep")
    try:
        _check_json(inner)
    except (msgspec.DecodeError, UnicodeDecodeError):
        import json  # which takes NaN and half a surrogate pair, as the servers do that are meant here

        try:
            json.loads(text)
        except ValueError:
            return None
    return inner


def plain_value(token: bytes) -> Any:
    """The value that `token` spells, as plain Python data."""
    try:
        return msgspec.json.decode(token)
    except (msgspec.DecodeError, ValueError):
        import json

        return json.loads(token, parse_int=_within_bounds, parse_float=_within_bounds)


def _within_bounds(token: str) -> int | float:
    """The number; where few readers could hold it, one that is beyond all bounds to them as well."""
    if len(token) < _LONG_NUMBER and token.lstrip("-").isdigit():
        return int(token)
    value = float(token)
    if value not in (float("inf"), float("-inf")):
        return value
    return -_BEYOND if value < 0 else _BEYOND


def plain_json(value: Any) -> bytes:
    """`value` as JSON, half a surrogate pair as the escape that it must have been."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        import json

        return json.dumps(value, separators=(",", ":")).encode()


def has_names_twice(token: bytes) -> bool:
    """Whether some name stands twice in an object of the value that `token` spells, however deep."""
    import json

    is_twice = False

    def members(pairs: list[tuple[str, Any]]) -> None:
        nonlocal is_twice
        is_twice = is_twice or len(dict(pairs)) < len(pairs)

    json.loads(token, object_pairs_hook=members, parse_int=str, parse_float=str)
    return is_twice


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


def compares(token: bytes, wanted: int | float, test: Callable[[Any, Any], bool], every: bool) -> bool:
    """Whether `token` is a number and stands to `wanted` as `test` says, be it read exactly or in 64 bits."""
    exact = maybe_number(token)
    if exact is None:
        return False
    holds = test(exact, number(wanted))
    if holds is not every or (isinstance(exact, int) and abs(exact) <= _SAFE_INTEGER):
        return holds
    return test(float(token), _as_float(wanted))


def compares_exactly(exact: Any, wanted: int | float, test: Callable[[Any, Any], bool]) -> bool:
    """Whether a number stands to `wanted` as `test` says, be it kept exactly or in 64 bits."""
    if test(exact, number(wanted)):
        return True
    if isinstance(exact, int) and abs(exact) <= _SAFE_INTEGER:
        return False
    return test(_as_float(exact), _as_float(wanted))


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def text_holds(text: str, test: Callable[[str], bool], every: bool) -> bool:
    """Whether the test holds for a string, be it read whole or only up to a NUL."""
    holds = test(text)
    return holds if holds is not every or "\0" not in text else test(text.partition("\0")[0])


def equals(text: bytes, start: int, end: int, wanted: object, every: bool = False) -> bool:
    """Whether the JSON value at text[start:end] is `wanted`, plain data out of a configuration file.

    In an object every name counts once; where it stands twice, one of its values must do, or every one.
    """
    head = first_byte(text, start)
    if isinstance(wanted, dict | list | tuple):
        return head == (b"{" if isinstance(wanted, dict) else b"[") and same_parts(text, start, wanted, every)
    token = text[start:end]
    if isinstance(wanted, str):
        return head == b'"' and text_holds(text_of(token), wanted.__eq__, every)
    if wanted is None:
        return token == b"null"
    if isinstance(wanted, bool):
        return token == (b"true" if wanted else b"false")
    if isinstance(wanted, int | float):
        return head in _NUMBER_STARTS and compares(token, wanted, operator.eq, every)
    return False


Same = Callable[[bytes, int, int, object, bool], bool]
"""Whether the value at a place is the wanted one."""


def same_parts(text: bytes, start: int, wanted: Any, every: bool, same: Same = equals) -> bool:
    """Whether the container at `start` has the wanted members or elements, each compared by `same`."""
    if isinstance(wanted, dict):
        return _same_members(text, start, wanted, every, same)
    count = 0
    for part in parts(text, start):
        if count >= len(wanted) or not same(text, part.start, part.end, wanted[count], every):
            return False
        count += 1
    return count == len(wanted)


def _same_members(text: bytes, start: int, wanted: dict[Any, Any], every: bool, same: Same) -> bool:
    met: dict[str, bool] = {}
    for part in parts(text, start):
        name = text_of(part.name or b'""')
        if name not in wanted:
            return False
        holds = same(text, part.start, part.end, wanted[name], every)
        before = met.get(name, every)
        met[name] = (before and holds) if every else (before or holds)
    return len(met) == len(wanted) and all(met.values())
