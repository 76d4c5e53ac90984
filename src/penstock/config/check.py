"""Whether the values of a configuration file are what the table of keys says. Finds all faults at once."""

from __future__ import annotations

from collections.abc import Callable

from penstock.config.formats.document import Path
from penstock.config.keys import INTERCEPTOR, SECTIONS
from penstock.config.kinds import Key, Kind
from penstock.config.model import count, file_size, message_size, seconds
from penstock.errors import ConfigError
from penstock.policy.faults import Fault, did_you_mean, spoken_place
from penstock.wire.http.url import parse_listen

Section = dict[str, object]


class Findings:
    """What was found wrong so far."""

    def __init__(self) -> None:
        self.all: list[Fault] = []

    def add(self, path: Path, message: str, hint: str | None = None) -> None:
        """Notes a fault."""
        self.all.append(Fault(path, message, hint))

    def add_error(self, path: Path, error: ConfigError) -> None:
        """Notes a fault that somebody else worded in two lines."""
        detail = error.detail[:1].lower() + error.detail[1:]
        self.add(path, f"{error.headline}; {detail}" if detail else error.headline)


def check_section(tree: object, section: str, path: Path, findings: Findings) -> Section:
    """What is right in a section: its known keys whose values are of their kind."""
    if tree is None:
        return {}  # a heading with nothing under it
    if not isinstance(tree, dict):
        findings.add(path, f"{place_of(path)} must be a section with keys, not {_shown(tree)}")
        return {}
    keys = {key.name: key for key in SECTIONS[section]}
    names = [*keys] if section else [*keys, INTERCEPTOR]
    out: Section = {}
    for name, value in tree.items():
        here = (*path, name)
        if name not in names:
            where = f"in {place_of(path)}" if path else "in the file"
            hint = _elsewhere(name, section) or did_you_mean(name, names)
            findings.add(here, f'unknown key "{name}" {where}', hint)
        elif name in keys and value is not None:
            found = _check_value(value, keys[name], here, findings)
            if found is not None:
                out[name] = found
    return out


def _elsewhere(name: str, section: str) -> str | None:
    """Where a key belongs that stands at the top of the file."""
    if section:
        return None
    if name in ("rules", "chain", "method_interceptors", "interceptors", "classes"):
        return f"it belongs under {INTERCEPTOR}: {INTERCEPTOR}: {{{name}: ...}}"
    for home in ("tools", "timeouts", "upstream", "log"):
        if name in {key.name for key in SECTIONS[home]}:
            return f"it belongs under {home}: {home}: {{{name}: ...}}"
    return None


def _check_value(value: object, key: Key, path: Path, findings: Findings) -> object:
    """The value as its kind has it, or None with a fault noted."""
    kind = key.kind
    if kind is Kind.ANY or (kind is Kind.MESSAGE and isinstance(value, dict | str)):
        return value
    if kind is Kind.SECTION and key.choices and isinstance(value, str):
        first = SECTIONS[key.section][0]
        word = _check_value(value, first, path, findings)
        return None if word is None else {first.name: word}
    if kind is Kind.SECTION:
        return check_section(value, key.section, path, findings)
    if kind is Kind.SECTION_MAP and isinstance(value, dict):
        return {
            name: check_section(inner, key.section, (*path, name), findings) for name, inner in value.items()
        }
    if kind is Kind.SECTIONS and isinstance(value, list):
        return [
            check_section(inner, key.section, (*path, position), findings)
            for position, inner in enumerate(value)
        ]
    if kind in (Kind.TEXTS, Kind.TEXT_MAP):
        return _check_texts(value, key, path, findings)
    if (kind is Kind.TEXT and isinstance(value, str)) or (kind is Kind.FLAG and isinstance(value, bool)):
        return value
    if kind is Kind.CHOICE and isinstance(value, str):
        if value in key.choices:
            return value
        words = ", ".join(key.choices)
        hint = did_you_mean(value, key.choices)
        findings.add(path, f'{place_of(path)} must be one of {words}, not "{value}"', hint)
        return None
    if kind is Kind.NUMBER and isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if kind is Kind.CODE and isinstance(value, int) and not isinstance(value, bool) and value < 0:
        return value
    if kind in _WRITTEN and isinstance(value, str | int) and not isinstance(value, bool):
        try:
            return _WRITTEN[kind](str(value), place_of(path))
        except ConfigError as error:
            findings.add_error(path, error)
            return None
    expected = f"one of {', '.join(key.choices)}" if kind is Kind.CHOICE else kind.value
    findings.add(path, f"{place_of(path)} must be {expected}, not {_shown(value)}")
    return None


_WRITTEN: dict[Kind, Callable[[str, str], object]] = {
    Kind.DURATION: seconds,
    Kind.SIZE: message_size,
    Kind.FILE_SIZE: file_size,
    Kind.COUNT: count,
    Kind.WORKERS: lambda text, place: 0 if text == "auto" else count(text, place),
    Kind.ADDRESS: lambda text, place: parse_listen(text),
}
"""Kinds whose values are texts or numbers that something else is made of."""


def _check_texts(value: object, key: Key, path: Path, findings: Findings) -> object:
    """A list of texts, or names with texts. A whole number is taken for its digits, as in `PORT: 8080`."""
    if key.kind is Kind.TEXTS and isinstance(value, str):
        return [value]
    if key.kind is Kind.TEXTS and isinstance(value, list):
        texts = [_text(inner, (*path, number), findings) for number, inner in enumerate(value)]
        return None if None in texts else texts
    if key.kind is Kind.TEXT_MAP and isinstance(value, dict):
        named = {name: _text(inner, (*path, name), findings) for name, inner in value.items()}
        return None if None in named.values() else named
    findings.add(path, f"{place_of(path)} must be {key.kind.value}, not {_shown(value)}")
    return None


def _text(value: object, path: Path, findings: Findings) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    findings.add(path, f"{place_of(path)} must be a text, not {_shown(value)}; put it in quotes")
    return None


def place_of(path: Path) -> str:
    """A path as people write it: tools.deny[2]."""
    return spoken_place(path, "the file")


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a section with keys"
    if isinstance(value, list):
        return "a list"
    return (
        f'"{value}"'
        if isinstance(value, str) and len(value) <= 40
        else "a text"
        if isinstance(value, str)
        else f"{value}"
    )
