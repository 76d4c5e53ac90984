"""How plain data becomes the fields of rules: texts, numbers, durations, paths, patterns, templates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from penstock import limits
from penstock.errors import ConfigError
from penstock.policy.durations import BadDuration, parse_duration
from penstock.policy.faults import Fault, Place, did_you_mean
from penstock.policy.patterns.patterns import Pattern, compile_pattern
from penstock.policy.rules.binder import READERS, Misread, Reader, kind_of
from penstock.policy.rules.paths import BadPath, Path, parse_path
from penstock.policy.rules.templates import NAMES, BadTemplate, JsonTemplate, Template, parse_template


def _read_text(value: object, place: Place, faults: list[Fault]) -> str:
    if not isinstance(value, str):
        hint = "put it in quotes" if isinstance(value, int | float) else None
        raise Misread(f"must be text, not {kind_of(value)}", hint)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Misread("is not valid Unicode text") from None
    return value


def _read_id(value: object, place: Place, faults: list[Fault]) -> str:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number else _read_text(value, place, faults)


def _read_texts(value: object, place: Place, faults: list[Fault]) -> tuple[str, ...]:
    return tuple(_each(value, place, faults, _read_text))


def _each(value: object, place: Place, faults: list[Fault], read: Callable[..., Any]) -> list[Any]:
    if not isinstance(value, list | tuple) or not value:
        raise Misread(f"must be a list of at least one, not {kind_of(value) if value != [] else 'empty'}")
    out = []
    for index, item in enumerate(value):
        try:
            out.append(read(item, (*place, index), faults))
        except Misread as why:
            faults.append(Fault((*place, index), why.message, why.hint))
    return out


def _read_pairs(value: object, place: Place, faults: list[Fault]) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, Mapping):
        raise Misread(f"must be a mapping of names to texts, not {kind_of(value)}")
    return tuple(
        (_read_text(name, place, faults), _read_text(text, place, faults)) for name, text in value.items()
    )


def _read_json(value: object, place: Place, faults: list[Fault]) -> object:
    if _nests_deeper(value, limits.CONFIG_NESTING):
        raise Misread(f"nests more than {limits.CONFIG_NESTING} levels deep")
    try:
        encoded = msgspec.json.encode(value)
    except (TypeError, ValueError):
        raise Misread(f"must be a JSON value, not {kind_of(value)}") from None
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
        raise Misread(f"must be a number, not {kind_of(value)}")
    return value


def _read_integer(value: object, place: Place, faults: list[Fault]) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Misread(f"must be a whole number, not {kind_of(value)}")
    return value


def _read_count(value: object, place: Place, faults: list[Fault]) -> int:
    count = _read_integer(value, place, faults)
    if count < 1:
        raise Misread("must be 1 or more")
    return count


def _read_flag(value: object, place: Place, faults: list[Fault]) -> bool:
    if not isinstance(value, bool):
        raise Misread(f"must be true or false, not {kind_of(value)}")
    return value


def _read_seconds(value: object, place: Place, faults: list[Fault]) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise Misread(f"must be a duration like 30s, not {kind_of(value)}")
    try:
        return parse_duration(str(value))
    except BadDuration as why:
        raise Misread(f'invalid duration "{value}"', str(why)) from None


def _read_path(value: object, place: Place, faults: list[Fault]) -> Path:
    source = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    try:
        return parse_path(_read_text(source, place, faults))
    except BadPath as why:
        raise Misread(f'invalid path "{value}": {why}') from None


def _read_pattern(value: object, place: Place, faults: list[Fault]) -> Pattern:
    try:
        return compile_pattern(_read_text(value, place, faults), "rule")
    except ConfigError as why:
        raise Misread(why.headline, why.detail) from None


def _read_template(value: object, place: Place, faults: list[Fault]) -> Template:
    try:
        return parse_template(_read_text(value, place, faults))
    except BadTemplate as why:
        raise Misread(str(why), did_you_mean(why.name, NAMES) or f"known: {', '.join(NAMES)}") from None


def _read_value(value: object, place: Place, faults: list[Fault]) -> JsonTemplate:
    def with_templates(part: Any) -> Any:
        if isinstance(part, str):
            return _read_template(part, place, faults) if "${" in part else part
        if isinstance(part, Mapping):
            return {_read_text(name, place, faults): with_templates(inner) for name, inner in part.items()}
        return [with_templates(inner) for inner in part] if isinstance(part, list | tuple) else part

    return JsonTemplate(with_templates(_read_json(value, place, faults)))


_TEXT = {"type": "string"}
READERS |= {
    str: Reader(_read_text, _TEXT),
    bool: Reader(_read_flag, {"type": "boolean"}),
    int: Reader(_read_integer, {"type": "integer"}),
    Path: Reader(_read_path, {"type": ["string", "integer"], "description": "a dotted path"}),
    Pattern: Reader(_read_pattern, {"type": "string", "description": "a regular expression (RE2)"}),
    Template: Reader(_read_template, {"type": "string", "description": "a text that may hold ${...}"}),
    "duration": Reader(
        _read_seconds, {"type": ["string", "integer"], "description": "a duration such as 30s"}
    ),
    "json": Reader(_read_json, {}),
    JsonTemplate: Reader(_read_value, {"description": "any value; its texts may hold ${...}"}),
    "id": Reader(_read_id, {"type": ["string", "integer"]}),
    "number": Reader(_read_number, {"type": "number"}),
    "count": Reader(_read_count, {"type": "integer", "minimum": 1}),
    "texts": Reader(_read_texts, {"type": "array", "items": _TEXT, "minItems": 1}),
    "jsons": Reader(
        lambda value, place, faults: tuple(_each(value, place, faults, _read_json)),
        {"type": "array", "minItems": 1},
    ),
    "pairs": Reader(_read_pairs, {"type": "object", "additionalProperties": _TEXT}),
}
