"""How plain data becomes the fields of rules: texts, numbers, durations, paths, patterns, templates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from penstock import limits
from penstock.errors import ConfigError
from penstock.policy.basic_readers import DURATION, FLAG, INTEGER, TEXT, read_integer, read_text
from penstock.policy.binder import READERS, Misread, Reader, shown
from penstock.policy.faults import Fault, Place, did_you_mean
from penstock.policy.patterns.patterns import Pattern, compile_pattern
from penstock.policy.rules.paths import BadPath, Path, parse_path
from penstock.policy.rules.templates import NAMES, BadTemplate, JsonTemplate, Template, parse_template


def _read_id(value: object, place: Place, faults: list[Fault]) -> str:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number else read_text(value, place, faults)


def _read_texts(value: object, place: Place, faults: list[Fault]) -> tuple[str, ...]:
    return tuple(_each(value, place, faults, read_text))


def _each(value: object, place: Place, faults: list[Fault], read: Callable[..., Any]) -> list[Any]:
    if not isinstance(value, list | tuple) or not value:
        raise Misread(f"must be a list of at least one, not {shown(value)}")
    out = []
    for index, item in enumerate(value):
        try:
            out.append(read(item, (*place, index), faults))
        except Misread as why:
            faults.append(why.at((*place, index)))
    return out


def _read_pairs(value: object, place: Place, faults: list[Fault]) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, Mapping):
        raise Misread(f"must be a mapping of names to texts, not {shown(value)}")
    return tuple(
        (read_text(name, place, faults), read_text(text, place, faults)) for name, text in value.items()
    )


def _read_json(value: object, place: Place, faults: list[Fault]) -> object:
    if _nests_deeper(value, limits.CONFIG_NESTING):
        raise Misread(f"nests more than {limits.CONFIG_NESTING} levels deep")
    try:
        encoded = msgspec.json.encode(value)
    except (TypeError, ValueError):
        raise Misread(f"must be a JSON value, not {shown(value)}") from None
    if isinstance(value, float) and encoded == b"null":
        raise Misread("must be a finite number")
    return value


def _nests_deeper(value: object, levels: int) -> bool:
    """Whether lists and mappings stand in one another beyond `levels`; in itself is beyond any."""
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return False
    return levels == 0 or any(_nests_deeper(part, levels - 1) for part in value)


def _read_number(value: object, place: Place, faults: list[Fault]) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise Misread(f"must be a number, not {shown(value)}")
    return value


def _read_count(value: object, place: Place, faults: list[Fault]) -> int:
    count = read_integer(value, place, faults)
    if count < 1:
        raise Misread("must be 1 or more")
    return count


def _read_path(value: object, place: Place, faults: list[Fault]) -> Path:
    source = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    try:
        return parse_path(read_text(source, place, faults))
    except BadPath as why:
        raise Misread(f'invalid path "{value}": {why}') from None


def _read_pattern(value: object, place: Place, faults: list[Fault]) -> Pattern:
    try:
        return compile_pattern(read_text(value, place, faults), "rule")
    except ConfigError as why:
        raise Misread(why.headline, why.detail) from None


def _read_template(value: object, place: Place, faults: list[Fault]) -> Template:
    try:
        return parse_template(read_text(value, place, faults))
    except BadTemplate as why:
        raise Misread(str(why), did_you_mean(why.name, NAMES) or f"known: {', '.join(NAMES)}") from None


def _read_value(value: object, place: Place, faults: list[Fault]) -> JsonTemplate:
    def with_templates(part: Any) -> Any:
        if isinstance(part, str):
            return _read_template(part, place, faults) if "${" in part else part
        if isinstance(part, Mapping):
            return {read_text(name, place, faults): with_templates(inner) for name, inner in part.items()}
        return [with_templates(inner) for inner in part] if isinstance(part, list | tuple) else part

    return JsonTemplate(with_templates(_read_json(value, place, faults)))


READERS |= {
    str: TEXT,
    bool: FLAG,
    int: INTEGER,
    Path: Reader(_read_path, {"type": ["string", "integer"], "description": "a dotted path"}),
    Pattern: Reader(_read_pattern, {"type": "string", "description": "a regular expression (RE2)"}),
    Template: Reader(_read_template, {"type": "string", "description": "a text that may hold ${...}"}),
    "duration": DURATION,
    "json": Reader(_read_json, {}),
    JsonTemplate: Reader(_read_value, {"description": "any value; its texts may hold ${...}"}),
    "id": Reader(_read_id, {"type": ["string", "integer"]}),
    "number": Reader(_read_number, {"type": "number"}),
    "count": Reader(_read_count, {"type": "integer", "minimum": 1}),
    "texts": Reader(_read_texts, {"type": "array", "items": TEXT.schema, "minItems": 1}),
    "jsons": Reader(
        lambda value, place, faults: tuple(_each(value, place, faults, _read_json)),
        {"type": "array", "minItems": 1},
    ),
    "pairs": Reader(_read_pairs, {"type": "object", "additionalProperties": TEXT.schema}),
}
