"""Whether the values of a configuration file are what the table of keys says. Finds all faults at once.

The table's kinds are readers here; `policy/binder` reads by them, as it reads rules by their annotations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import cast

from penstock.config.formats.document import Path
from penstock.config.keys import INTERCEPTOR, SECTIONS
from penstock.config.kinds import Key, Kind
from penstock.config.model import count, file_size, message_size
from penstock.errors import ConfigError
from penstock.policy.basic_readers import DURATION, FLAG, TEXT, read_integer
from penstock.policy.binder import Field, Misread, Reader, choice, no_section, read_members, shown
from penstock.policy.faults import Fault, Place, spoken_place
from penstock.wire.http.url import parse_listen

Section = dict[str, object]


class Findings:
    """What was found wrong so far."""

    def __init__(self) -> None:
        self.all: list[Fault] = []

    def add(self, path: Path, message: str, hint: str | None = None) -> None:
        """Notes a fault, in a sentence that says where it is."""
        self.all.append(Fault(path, message, hint, "whole"))

    def add_error(self, path: Path, error: ConfigError) -> None:
        """Notes a fault that somebody else worded in two lines."""
        self.add(path, _in_one_line(error))

    def take(self, faults: list[Fault], before: Path = ()) -> None:
        """Notes what a reader has found in the section to which `before` leads."""
        for fault in faults:
            self.add((*before, *fault.path), fault.sentence(before), fault.hint)


def _in_one_line(error: ConfigError) -> str:
    detail = error.detail[:1].lower() + error.detail[1:]
    return f"{error.headline}; {detail}" if detail else error.headline


def check_section(tree: object, section: str, path: Path, findings: Findings) -> Section:
    """What is right in a section: its known keys whose values are of their kind."""
    faults: list[Fault] = []
    try:
        return _read_section(section, tree, path, faults)
    except Misread as why:
        faults.append(why.at(path))
        return {}
    finally:
        findings.take(faults)


def _read_section(section: str, tree: object, place: Place, faults: list[Fault]) -> Section:
    if tree is None:
        return {}  # a heading with nothing under it
    if not isinstance(tree, dict):
        raise no_section(tree)
    found = read_members(
        fields_of(section),
        tree,
        place,
        faults,
        skips_nothing=True,
        hint_at=(lambda key: None) if section else _elsewhere,
    )
    return {name: value for name, value in found.items() if value is not None and name != INTERCEPTOR}


@cache
def fields_of(section: str) -> tuple[Field, ...]:
    """The fields of a section, by the table of keys."""
    own = tuple(Field(key.name, _reader(key), meaning=key.meaning) for key in SECTIONS[section])
    return own if section else (*own, Field(INTERCEPTOR, _ANYTHING, meaning="The rules."))


def _elsewhere(name: object) -> str | None:
    """Where a key belongs that stands at the top of the file."""
    if name in ("rules", "chain", "method_interceptors", "interceptors", "classes"):
        return f"it belongs under {INTERCEPTOR}: {INTERCEPTOR}: {{{name}: ...}}"
    for home in ("tools", "timeouts", "upstream", "log"):
        if name in {key.name for key in SECTIONS[home]}:
            return f"it belongs under {home}: {home}: {{{name}: ...}}"
    return None


# --- the kinds --------------------------------------------------------------------------------------------


def _reader(key: Key) -> Reader:
    if key.kind is Kind.CHOICE:
        return choice(key.choices)
    if key.kind in (Kind.SECTION, Kind.SECTION_MAP, Kind.SECTIONS):
        return _section_reader(key)
    return _READERS[key.kind]


def section_name(section: str) -> str:
    """What a section is called in the JSON Schema."""
    return f"section-{section or 'file'}"


def _section_reader(key: Key) -> Reader:
    section = key.section
    ref: dict[str, object] = {"$ref": f"#/$defs/{section_name(section)}"}

    def of_one(value: object, place: Place, faults: list[Fault]) -> Section:
        try:
            return _read_section(section, value, place, faults)
        except Misread as why:
            faults.append(why.at(place))
            return {}

    def with_words(value: object, place: Place, faults: list[Fault]) -> Section:
        """A word stands for a section with only its first key."""
        if not isinstance(value, str):
            return of_one(value, place, faults)
        first = fields_of(section)[0]
        return {first.key: first.reader.read(value, place, faults)}

    def of_map(value: object, place: Place, faults: list[Fault]) -> Section:
        if not isinstance(value, dict):
            raise _not_of(Kind.SECTION_MAP, value)
        return {name: of_one(inner, (*place, name), faults) for name, inner in value.items()}

    def of_list(value: object, place: Place, faults: list[Fault]) -> list[Section]:
        if not isinstance(value, list):
            raise _not_of(Kind.SECTIONS, value)
        return [of_one(inner, (*place, number), faults) for number, inner in enumerate(value)]

    if key.kind is Kind.SECTION_MAP:
        return Reader(of_map, {"type": "object", "additionalProperties": ref})
    if key.kind is Kind.SECTIONS:
        return Reader(of_list, {"type": "array", "items": ref})
    if key.choices:
        return Reader(with_words, {"anyOf": [ref, {"enum": list(key.choices)}]})
    return Reader(of_one, ref)


def _not_of(kind: Kind, value: object) -> Misread:
    return Misread(f"must be {kind.value}, not {shown(value)}")


def _written(kind: Kind, make: Callable[[str, str], object]) -> Callable[..., object]:
    """Reads a text or a number that something else is made of."""

    def read(value: object, place: Place, faults: list[Fault]) -> object:
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise _not_of(kind, value)
        try:
            return make(str(value), spoken_place(place))
        except ConfigError as error:
            raise Misread(_in_one_line(error), is_whole=True) from None

    return read


def _read_anything(value: object, place: Place, faults: list[Fault]) -> object:
    return value


def _read_message(value: object, place: Place, faults: list[Fault]) -> object:
    if not isinstance(value, dict | str):
        raise _not_of(Kind.MESSAGE, value)
    return value


def _read_number(value: object, place: Place, faults: list[Fault]) -> int:
    number = read_integer(value, place, faults)
    if number < 0:
        raise _not_of(Kind.NUMBER, value)
    return number


def _read_code(value: object, place: Place, faults: list[Fault]) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value >= 0:
        raise _not_of(Kind.CODE, value)
    return value


def _read_texts(value: object, place: Place, faults: list[Fault]) -> list[str] | None:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise _not_of(Kind.TEXTS, value)
    texts = [_maybe_text(inner, (*place, number), faults) for number, inner in enumerate(value)]
    good = [text for text in texts if text is not None]
    return good if len(good) == len(texts) else None


def _read_text_map(value: object, place: Place, faults: list[Fault]) -> dict[str, str] | None:
    if not isinstance(value, dict):
        raise _not_of(Kind.TEXT_MAP, value)
    named = {name: _maybe_text(inner, (*place, name), faults) for name, inner in value.items()}
    good = {name: text for name, text in named.items() if text is not None}
    return good if len(good) == len(named) else None


def _maybe_text(value: object, place: Place, faults: list[Fault]) -> str | None:
    """A whole number is taken for its digits, as in `PORT: 8080`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        return value
    faults.append(Fault(place, f"must be a text, not {shown(value)}", "put it in quotes"))
    return None


_TEXT_OR_NUMBER = {"type": ["string", "integer"]}
_SIZE = {"type": "string", "pattern": r"^\s*[0-9]+\s*(B|kB|KB|KiB|MB|MiB|GB|GiB)?\s*$"}
_ANYTHING = Reader(_read_anything, {})
_READERS: dict[Kind, Reader] = {
    Kind.ANY: _ANYTHING,
    Kind.TEXT: TEXT,
    Kind.FLAG: FLAG,
    Kind.DURATION: DURATION,
    Kind.MESSAGE: Reader(_read_message, {"type": ["object", "string"]}),
    Kind.NUMBER: Reader(_read_number, {"type": "integer", "minimum": 0}),
    Kind.CODE: Reader(_read_code, {"type": "integer", "exclusiveMaximum": 0}),
    Kind.TEXTS: Reader(
        _read_texts, {"anyOf": [{"type": "string"}, {"type": "array", "items": _TEXT_OR_NUMBER}]}
    ),
    Kind.TEXT_MAP: Reader(_read_text_map, {"type": "object", "additionalProperties": _TEXT_OR_NUMBER}),
    Kind.COUNT: Reader(_written(Kind.COUNT, count), {"type": "integer", "exclusiveMinimum": 0}),
    Kind.WORKERS: Reader(
        _written(Kind.WORKERS, lambda text, place: 0 if text == "auto" else count(text, place)),
        {"anyOf": [{"enum": ["auto"]}, {"type": "integer", "exclusiveMinimum": 0}]},
    ),
    Kind.SIZE: Reader(
        _written(Kind.SIZE, message_size), {"anyOf": [_SIZE, {"type": "integer", "exclusiveMinimum": 0}]}
    ),
    Kind.FILE_SIZE: Reader(
        _written(Kind.FILE_SIZE, file_size), {"anyOf": [_SIZE, {"type": "integer", "minimum": 4096}]}
    ),
    Kind.WORD: Reader(
        _written(Kind.WORD, lambda text, place: text),
        {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 0, "maximum": 65535}]},
    ),
    Kind.ADDRESS: Reader(
        _written(Kind.ADDRESS, lambda text, place: parse_listen(text)),
        {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 0, "maximum": 65535}]},
    ),
}


def finds_tools(root: Section) -> bool:
    """Whether tools are found and not listed, for everybody or in a profile."""
    profiles = cast("dict[str, Section]", root.get("profiles") or {})
    return "search" in root or any("search" in profile for profile in profiles.values())
