"""Reading a configuration: plain data out of a file, with every fault told and nothing guessed.

What a section takes is a list of fields, each with its key and its reader; the same fields give the JSON
Schema. There are two ways to write fields down. The sections of a file are tables (`config/keys`) and become
dictionaries. The parts of rules are Structs whose annotations say what each field takes, and become those.
Two words on such a class help people write less: `short` names the field that a bare value fills
(`delay: 2s`), and `whole` the field that always gets all there is (`all: [...]`).
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from penstock.policy.faults import Fault, Place, did_you_mean

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

    def __init__(self, message: str, hint: str | None = None, is_whole: bool = False) -> None:
        """`message` goes on where the place of the value ends (`must be a text, not 5`), or is whole."""
        super().__init__(message)
        self.message, self.hint = message, hint
        self._about: Literal["value", "whole"] = "whole" if is_whole else "value"

    def at(self, place: Place) -> Fault:
        """The fault that it is there."""
        return Fault(place, self.message, self.hint, self._about)


class Reader(Struct, frozen=True):
    """How one kind of value is read, and what its JSON Schema is."""

    read: Callable[[Any, Place, list[Fault]], Any]
    schema: dict[str, Any]


READERS: dict[Any, Reader] = {}
"""How each kind of field is read, by annotation. Filled where the kinds are defined."""


class Field(Struct, frozen=True):
    """One key that a section may have."""

    key: str
    reader: Reader
    name: str = ""  # what it is called in the result, where that is not the key
    is_required: bool = False
    meaning: str = ""  # for the JSON Schema


def shown(value: object) -> str:
    """What a value is, for people who look for it in their file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= _SHOWN_CHARACTERS else "a text"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, Mapping):
        return "a section with keys"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    return "nothing" if value is None else f"a {type(value).__name__}"


_SHOWN_CHARACTERS = 40
_FEW_KEYS = 20


def no_section(value: object, keys: Sequence[str] = ()) -> Misread:
    """What is said where keys should be."""
    names = f" ({', '.join(keys)})" if keys else ""
    return Misread(f"must be a section with keys{names}, not {shown(value)}")


def read_members(
    fields: Sequence[Field],
    value: Mapping[Any, Any],
    place: Place,
    faults: list[Fault],
    *,
    is_bare: bool = False,
    skips_nothing: bool = False,
    hint_at: Callable[[Any], str | None] = lambda key: None,
) -> dict[str, Any]:
    """The fields that could be read, so that what is wrong with one hides nothing in others.

    `is_bare`: people wrote the one value without its key. `skips_nothing`: a key with nothing after it counts
    as left out. `hint_at` may know better what a key that is not known is meant to be.
    """
    keys = [field.key for field in fields]
    meant: set[str | None] = set()
    for key in value:
        if key not in keys:
            hint = did_you_mean(key, keys)
            meant.add(hint)
            if hint is None and len(keys) <= _FEW_KEYS:
                hint = f"known: {', '.join(keys)}"
            hint = hint_at(key) or hint
            faults.append(Fault((*place, _step(key)), f'unknown key "{key}"', hint, "name"))
    found: dict[str, Any] = {}
    for field in fields:
        key = field.key
        if key not in value:
            if field.is_required and f'did you mean "{key}"?' not in meant:
                faults.append(Fault(place, f'"{key}" is missing'))
            continue
        if skips_nothing and value[key] is None:
            continue
        where = place if is_bare else (*place, key)
        try:
            found[field.name or key] = field.reader.read(value[key], where, faults)
        except Misread as why:
            faults.append(why.at(where))
    return found


def members_schema(fields: Sequence[Field], skips_nothing: bool = False) -> dict[str, Any]:
    """The JSON Schema of what `read_members` takes."""

    def of(field: Field) -> dict[str, Any]:
        schema = field.reader.schema
        if skips_nothing and schema:
            schema = {"anyOf": [schema, {"type": "null"}]}
        return {"description": field.meaning, **schema} if field.meaning else schema

    schema: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {field.key: of(field) for field in fields},
    }
    required = [field.key for field in fields if field.is_required]
    return schema | {"required": required} if required else schema


def read_struct(cls: type[Any], value: object, place: Place, faults: list[Fault]) -> Any | None:
    """The Struct that `value` describes; None, with the faults noted, when it describes none."""
    before = len(faults)
    arguments = read_fields(cls, value, place, faults)
    if arguments is None or len(faults) > before:
        return None
    try:
        return cls(**arguments)
    except Misread as why:
        faults.append(why.at(place))
        return None


def read_fields(cls: type[Any], value: object, place: Place, faults: list[Fault]) -> dict[str, Any] | None:
    """The fields of the Struct that could be read."""
    whole, short = getattr(cls, "whole", None), getattr(cls, "short", None)
    is_bare = not isinstance(value, Mapping) or whole is not None
    if not cls.__struct_fields__ and (value is None or value is True):
        value = {}  # a word that needs no more
    fields = fields_of(cls)
    if whole is not None:
        value = {whole: value}
    elif not isinstance(value, Mapping):
        if short is None:
            faults.append(no_section(value, [field.key for field in fields]).at(place))
            return None
        value = {short: value}
    return read_members(fields, value, place, faults, is_bare=is_bare)


def fields_of(cls: type[Any]) -> list[Field]:
    """The fields that the annotations of a Struct describe."""
    hints = get_type_hints(cls, include_extras=True)
    return [
        Field(field.name.rstrip("_"), reader_of(hints[field.name]), field.name, field.required)
        for field in msgspec.structs.fields(cls)
    ]


def struct_schema(cls: type[Any]) -> dict[str, Any]:
    """The JSON Schema of what `read_struct` takes."""
    whole, short = getattr(cls, "whole", None), getattr(cls, "short", None)
    fields = fields_of(cls)
    readers = {field.key: field.reader for field in fields}
    if whole is not None:
        return readers[whole].schema
    if not fields:
        return {"enum": [None, True, {}]}
    schema = members_schema(fields)
    return schema if short is None else {"anyOf": [readers[short].schema, schema]}


def _step(key: object) -> str | int:
    return key if isinstance(key, str) else str(key)


def reader_of(hint: Any) -> Reader:
    """The reader for an annotation."""
    if get_origin(hint) is Annotated:
        return READERS[hint.__metadata__[0]]
    if get_origin(hint) in (Union, types.UnionType):  # "X | None": None is only the default
        return reader_of(next(kind for kind in get_args(hint) if kind is not types.NoneType))
    if get_origin(hint) is Literal:
        return choice(get_args(hint))
    return READERS[hint]


def choice(words: Sequence[str]) -> Reader:
    """Takes one of a few words."""

    def read(value: object, place: Place, faults: list[Fault]) -> object:
        if not isinstance(value, str) or value not in words:
            hint = did_you_mean(value, words) if isinstance(value, str) else None
            raise Misread(f"must be one of {', '.join(words)}, not {shown(value)}", hint)
        return value

    return Reader(read, {"enum": list(words)})
