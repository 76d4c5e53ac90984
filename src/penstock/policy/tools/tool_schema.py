"""Whether a tool's inputSchema is a JSON Schema: what its keywords hold is of the kind that every draft says.

No reference is followed and no pattern is compiled; a keyword that is not known here is free, as in the
drafts. From draft 4 to 2020-12: `exclusiveMinimum` may be true or a number, `items` a schema or several.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from penstock import limits
from penstock.wire.json.ambiguity import readable

_TYPES = frozenset("array boolean integer null number object string".split())


def maybe_schema_fault(raw: bytes) -> str | None:
    """What is wrong with an inputSchema; None when it is one. Its type must be "object", as MCP says."""
    if not raw:
        return "it has no inputSchema"
    try:
        schema = _decoded(raw)
    except (ValueError, RecursionError):
        return "its inputSchema cannot be read"
    if not isinstance(schema, dict):
        return "its inputSchema is not an object"
    if schema.get("type") != "object":
        return 'the type of its inputSchema is not "object"'
    where = _maybe_fault(schema, "inputSchema", limits.NESTING)
    return f"{where} is not what JSON Schema says" if where else None


def _decoded(raw: bytes) -> object:
    text = readable(raw)
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        import json  # takes numbers that few decoders hold; such a schema is one all the same

        return json.loads(text, parse_int=lambda digits: int(digits) if len(digits) < 20 else float(digits))


def _maybe_fault(schema: object, place: str, depth: int) -> str | None:
    """The place of the first fault in `schema`."""
    if isinstance(schema, bool):
        return None
    if not isinstance(schema, dict) or depth == 0:
        return place
    for keyword, value in schema.items():
        here = f"{place}.{keyword}"
        is_right = _VALUES.get(keyword)
        if is_right is not None and not is_right(value):
            return here
        for name, inner in _schemas(keyword, value):
            fault = _maybe_fault(inner, f"{here}{name}", depth - 1)
            if fault is not None:
                return fault
    return None


def _schemas(keyword: str, value: object) -> list[tuple[str, object]]:
    """The schemas that a keyword holds, each with what leads to it."""
    if keyword in _SCHEMA or (keyword == "items" and not isinstance(value, list)):
        return [("", value)]
    if keyword in _SCHEMA_LISTS or keyword == "items":
        return [
            (f"[{number}]", inner) for number, inner in enumerate(value if isinstance(value, list) else [])
        ]
    if keyword in _SCHEMA_MAPS and isinstance(value, dict):
        return [(f".{name}", inner) for name, inner in value.items()]
    return []


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    if isinstance(value, float):
        return value >= 0 and value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_type(value: object) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(name, str) and name in _TYPES for name in names)


def _is_list(value: object) -> bool:
    return isinstance(value, list) and bool(value)


def _is_map(value: object) -> bool:
    return isinstance(value, dict)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


_SCHEMA = frozenset(
    "additionalProperties not if then else contains propertyNames unevaluatedProperties unevaluatedItems "
    "additionalItems".split()
)
_SCHEMA_LISTS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_SCHEMA_MAPS = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))

_VALUES: dict[str, Callable[[object], bool]] = {
    "type": _is_type,
    "required": _is_texts,
    "enum": lambda value: isinstance(value, list),
    "uniqueItems": _is_flag,
    "multipleOf": lambda value: _is_number(value) and value > 0,  # type: ignore[operator]
    "exclusiveMinimum": lambda value: _is_number(value) or _is_flag(value),
    "exclusiveMaximum": lambda value: _is_number(value) or _is_flag(value),
    **dict.fromkeys(("minimum", "maximum"), _is_number),
    **dict.fromkeys("minLength maxLength minItems maxItems minProperties maxProperties".split(), _is_count),
    **dict.fromkeys(("title", "description", "$ref", "$schema", "$comment", "format", "pattern"), _is_text),
    **dict.fromkeys(_SCHEMA_LISTS, _is_list),
    **dict.fromkeys(_SCHEMA_MAPS, _is_map),
}
