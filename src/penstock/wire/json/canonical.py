"""JSON in one spelling: what differs only in white space, escapes or the order of members reads the same.

Numbers stay as they are written: 1.0 and 1 are different, because readers differ about them. Names that stand
twice stay twice.
"""

from __future__ import annotations

import json
from typing import Any


class Number(str):
    """A number as it is written."""

    __slots__ = ()


class Pairs(list[tuple[str, Any]]):
    """The members of an object in the order of their names."""


def read(raw: bytes | str) -> Any:
    """The value in `raw`, with numbers as written and objects as sorted pairs. Raises ValueError."""
    text = raw if isinstance(raw, str) else raw.decode("utf-8", "surrogatepass")
    return _DECODER.decode(text)


def canonical(value: Any) -> str:
    """The one spelling of a value that `read` gave."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, Pairs):
        return "{" + ",".join(f"{_text(name)}:{canonical(inner)}" for name, inner in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return _text(value)


def pretty(value: Any, indent: str = "") -> str:
    """The same over several lines, one member or element a line."""
    deeper = indent + "  "
    if isinstance(value, Pairs) and value:
        parts = [f"{deeper}{_text(name)}: {pretty(inner, deeper)}" for name, inner in value]
        return "{\n" + ",\n".join(parts) + f"\n{indent}}}"
    if isinstance(value, list) and value and not isinstance(value, Pairs):
        return "[\n" + ",\n".join(deeper + pretty(inner, deeper) for inner in value) + f"\n{indent}]"
    return canonical(value)


def without(value: Any, path: tuple[str, ...]) -> Any:
    """`value` without the member at `path`, if it has one."""
    if not isinstance(value, Pairs):
        return value
    first, *rest = path
    return Pairs(
        (name, without(inner, tuple(rest)) if name == first else inner)
        for name, inner in value
        if rest or name != first
    )


def pairs(members: dict[str, Any]) -> Pairs:
    """An object of values that are in this form already."""
    return Pairs(sorted(members.items(), key=lambda pair: pair[0]))


def _sorted(found: list[tuple[str, Any]]) -> Pairs:
    return Pairs(sorted(found, key=lambda pair: pair[0]))


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_sorted, parse_int=Number, parse_float=Number, parse_constant=_refuse
)
