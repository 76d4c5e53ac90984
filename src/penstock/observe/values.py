"""JSON values out of recorded bytes, whatever numbers stand in them.

msgspec reads fast and refuses numbers that no float holds; what it refuses is read by the standard library.
"""

from __future__ import annotations

from typing import Any

import msgspec


def value_of(raw: bytes | msgspec.Raw) -> Any:
    """The value; a number that is too large is infinite. Raises ValueError where `raw` is no JSON."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _read(bytes(raw), {})


def spelt_value_of(raw: bytes) -> Any:
    """The value with every number as it is spelt, for who writes it again with msgspec. Raises ValueError."""
    spelt = {"parse_float": _spelt, "parse_int": _spelt, "parse_constant": lambda text: None}
    return _read(raw, spelt)


def maybe_value(raw: bytes | msgspec.Raw | msgspec.UnsetType | None) -> Any:
    """The value, or None where there is none."""
    if raw is None or raw is msgspec.UNSET:
        return None
    try:
        return value_of(raw)
    except ValueError:
        return None


def _spelt(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


def _read(raw: bytes, options: dict[str, Any]) -> Any:
    import json

    try:
        return json.loads(raw, **options)
    except RecursionError:
        raise ValueError("nested too deep") from None
