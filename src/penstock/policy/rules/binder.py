"""Turning plain data out of a file into Structs, with every fault told and nothing guessed.

The annotations of a Struct say what each of its fields takes; the same annotations give the JSON Schema. Two
words on the class help people write less: `short` names the field that a bare value fills (`delay: 2s`), and
`whole` the field that always gets all there is (`all: [...]`).
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from penstock.policy.faults import Fault, Place, did_you_mean
from penstock.policy.patterns.patterns import Pattern

Seconds = Annotated[float, "duration"]
Json = Annotated[Any, "json"]
Number = Annotated[int | float, "number"]
Texts = Annotated[tuple[str, ...], "texts"]
Jsons = Annotated[tuple[Any, ...], "jsons"]
Pairs = Annotated[tuple[tuple[str, str], ...], "pairs"]
Count = Annotated[int, "count"]
"""A whole number of at least one."""


class Misread(ValueError):
    """A value is not what it should be."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


class Reader(Struct, frozen=True):
    """How one kind of value is read, and what its JSON Schema is."""

    read: Callable[[Any, Place, list[Fault]], Any]
    schema: dict[str, Any]


READERS: dict[Any, Reader] = {}
"""How each kind of field is read, by annotation. Filled where the kinds are defined."""


def kind_of(value: object) -> str:
    """What a value is, for people."""
    for kinds, name in _KIND_NAMES:
        if isinstance(value, kinds):
            return name
    return "nothing" if value is None else f"a {type(value).__name__}"


_KIND_NAMES: tuple[tuple[Any, str], ...] = (
    (bool, "true or false"),
    (str, "text"),
    (int | float, "a number"),
    (Mapping, "a mapping"),
    (list | tuple, "a list"),
)


def read_struct(cls: type[Any], value: object, place: Place, faults: list[Fault]) -> Any | None:
    """The Struct that `value` describes; None, with the faults noted, when it describes none."""
    before = len(faults)
    arguments = read_fields(cls, value, place, faults)
    if arguments is None or len(faults) > before:
        return None
    try:
        return cls(**arguments)
    except Misread as why:
        faults.append(Fault(place, why.message, why.hint))
        return None


def read_fields(cls: type[Any], value: object, place: Place, faults: list[Fault]) -> dict[str, Any] | None:
    """The fields of the Struct that could be read, so that what is wrong with one hides nothing in others."""
    whole, short = getattr(cls, "whole", None), getattr(cls, "short", None)
    own_place = not isinstance(value, Mapping) or whole is not None
    if not cls.__struct_fields__ and (value is None or value is True):
        value = {}  # a word that needs no more
    if whole is not None:
        value = {whole: value}
    elif not isinstance(value, Mapping):
        if short is None:
            names = ", ".join(_keys(cls))
            faults.append(Fault(place, f"must be a mapping ({names}), not {kind_of(value)}"))
            return None
        value = {short: value}
    fields = {field.name: field for field in msgspec.structs.fields(cls)}
    hints = get_type_hints(cls, include_extras=True)
    meant: set[str | None] = set()
    for key in value:
        if key not in _keys(cls):
            meant.add(did_you_mean(key, _keys(cls)))
            hint = did_you_mean(key, _keys(cls)) or f"known: {', '.join(_keys(cls))}"
            faults.append(Fault((*place, _step(key)), f'unknown key "{key}"', hint))
    arguments: dict[str, Any] = {}
    for name, field in fields.items():
        key = name.rstrip("_")
        if key not in value:
            if field.required and f'did you mean "{key}"?' not in meant:
                faults.append(Fault(place, f'"{key}" is missing'))
            continue
        where = place if own_place else (*place, key)
        read = reader_of(hints[name]).read
        try:
            arguments[name] = read(value[key], where, faults)
        except Misread as why:
            faults.append(Fault(where, why.message, why.hint))
    return arguments


def struct_schema(cls: type[Any]) -> dict[str, Any]:
    """The JSON Schema of what `read_struct` takes."""
    hints = get_type_hints(cls, include_extras=True)
    whole, short = getattr(cls, "whole", None), getattr(cls, "short", None)
    if whole is not None:
        return reader_of(hints[whole]).schema
    fields = msgspec.structs.fields(cls)
    if not fields:
        return {"enum": [None, True, {}]}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {field.name.rstrip("_"): reader_of(hints[field.name]).schema for field in fields},
        "additionalProperties": False,
    }
    required = [field.name.rstrip("_") for field in fields if field.required]
    if required:
        schema["required"] = required
    return schema if short is None else {"anyOf": [reader_of(hints[short]).schema, schema]}


def _keys(cls: type[Any]) -> list[str]:
    return [name.rstrip("_") for name in cls.__struct_fields__]


def _step(key: object) -> str | int:
    return key if isinstance(key, str) else str(key)


def reader_of(hint: Any) -> Reader:
    """The reader for an annotation."""
    if get_origin(hint) is Annotated:
        return READERS[hint.__metadata__[0]]
    if get_origin(hint) in (Union, types.UnionType):  # "X | None": None is only the default
        return reader_of(next(kind for kind in get_args(hint) if kind is not types.NoneType))
    if get_origin(hint) is Literal:
        return _choice(get_args(hint))
    return READERS[hint]


def _choice(words: tuple[str, ...]) -> Reader:
    def read(value: object, place: Place, faults: list[Fault]) -> object:
        if value not in words or not isinstance(value, str):
            raise Misread(
                f'unknown value "{value}"', did_you_mean(value, words) or f"one of {', '.join(words)}"
            )
        return value

    return Reader(read, {"enum": list(words)})


def read_one(table: dict[str, type[Any]], noun: str) -> Callable[..., Any]:
    """Reads an entry such as {method_equals: tools/call} with the help of a table."""

    def read(value: object, place: Place, faults: list[Fault]) -> Any:
        if isinstance(value, str) and value in table:
            value = {value: {}}  # allow, and others that need no more words
        if not isinstance(value, Mapping) or len(value) != 1:
            found = f"{len(value)} keys" if isinstance(value, Mapping) else kind_of(value)
            hint = f"each {noun} is an entry of its own: - name: value"
            if isinstance(value, str):
                hint = did_you_mean(value, table) or hint
            raise Misread(f"must be one {noun}, not {found}", hint)
        ((name, content),) = value.items()
        if name not in table:
            raise Misread(f'unknown {noun} "{name}"', _hint_at(name, table))
        return read_struct(table[name], content, (*place, name), faults)

    return read


_OTHER_WORDS = {
    "deny": "block",
    "reject": "block",
    "refuse": "block",
    "drop": "block",
    "forbid": "block",
    "pass": "allow",
    "permit": "allow",
    "accept": "allow",
    "sleep": "delay",
    "wait": "delay",
    "redact": "replace",
    "mask": "replace",
    "substitute": "replace",
    "throttle": "rate_limit",
    "limit": "rate_limit",
    "script": "run_script",
    "exec": "run_script",
    "method": "method_equals",
    "methods": "method_in",
    "tools": "tool",
    "tool_name": "tool",
    "param_contains": "param_matches",
    "result_contains": "result_matches",
    "or": "any",
    "and": "all",
    "header": "header_equals",
    "time": "time_outside",
    "size": "size_greater_than",
}


def _hint_at(name: object, table: Mapping[str, Any]) -> str:
    """What was probably meant: a word that others use for it, or one that is spelt much like it."""
    meant = _OTHER_WORDS.get(str(name), "")
    if meant in table:
        return f'did you mean "{meant}"?'
    return did_you_mean(name, table) or f"known: {', '.join(table)}"


def read_many(read: Callable[..., Any]) -> Callable[..., Any]:
    """Reads a list of such entries; all faults of all entries are noted."""

    def read_list(value: object, place: Place, faults: list[Fault]) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise Misread(
                f"must be a list, not {kind_of(value)}", "each entry begins with a dash: - name: value"
            )
        out = []
        for index, entry in enumerate(value):
            try:
                out.append(read(entry, (*place, index), faults))
            except Misread as why:
                faults.append(Fault((*place, index), why.message, why.hint))
        return tuple(out)

    return read_list


_HOLE = re.compile(r"\{(\w+)\}")


def says(part: Any) -> str:
    """A condition or action in plain words: its `words` with the fields filled in."""
    words = part.words
    if callable(words):
        return str(words())
    return _HOLE.sub(lambda hole: spoken(getattr(part, hole[1])), words)


def spoken(value: object) -> str:
    """A value of a rule for people."""
    if isinstance(value, Pattern):
        return value.source
    if isinstance(value, Struct):
        return str(value)
    if isinstance(value, tuple | list):
        return ", ".join(spoken(item) for item in value)
    if isinstance(value, str):
        return f'"{value}"'
    return msgspec.json.encode(value).decode()
