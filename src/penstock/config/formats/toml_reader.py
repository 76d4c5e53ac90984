"""TOML as plain values with their lines.

The library reads the values, and keeps no positions. So a second walk, over a text that is known to be
good by then, notes where each key and each element of an array begins.
"""

from __future__ import annotations

import math
import re
import tomllib

from penstock import limits
from penstock.config.formats.document import Document, LineTable, Path, Slip, Unreadable
from penstock.config.formats.spans import Span, Spans

_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN = re.compile(r"[^,\]}\n#]*")
# Nothing in a string can be read in two ways: one that does not end would take time without end.
_STRING = re.compile(
    r'"""(?:\\.|(?!""")[^\\])*"{3,5}' r"|'''(?:(?!''').)*'{3,5}" r'|"(?:\\.|[^"\\])*"' r"|'[^']*'",
    re.DOTALL,
)
_NAME = rf"(?:{_STRING.pattern}|[A-Za-z0-9_-]++)"
# A key of so many names is as deep as so many tables, and the library takes time by their square.
_LONG_KEY = rf"(?<![A-Za-z0-9_.-]){_NAME}(?:[ \t]*+\.[ \t]*+{_NAME}){{{limits.CONFIG_NESTING}}}"
_NESTING = re.compile(rf"{_LONG_KEY}|{_STRING.pattern}|#[^\n]*|[\[\]{{}}]", re.DOTALL)
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}


def read_toml(text: str, spans: Spans | None = None, most: int = limits.CONFIG_NODES) -> Document:
    """What the TOML in `text` holds, in at most so many values; `spans` hears where. Raises Unreadable."""
    refuse_depth(text)
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as why:
        words, _, place = str(why).partition(" (at ")
        found = re.match(r"line ([0-9]+)", place)
        line = int(found[1]) if found else text.count("\n") + 1
        raise Unreadable(line, f"not TOML: {words[:1].lower()}{words[1:]}") from None
    except ValueError:
        raise Unreadable(1, "not TOML: a number with too many digits") from None
    walk = _Walk(text, spans if spans is not None else Spans())
    walk.document()
    slips: list[Slip] = []
    document = Document(tree, walk.lines, slips)
    _check(document, tree, ())
    if walk.count > most:
        raise Unreadable(1, f"more than {most:,} values")
    return document


def refuse_depth(text: str) -> None:
    """Raises Unreadable for arrays and inline tables in one another beyond what a configuration may have.

    The library goes down a few frames of the stack for each level, before anybody can count.
    """
    depth = 0
    for token in _NESTING.finditer(text):
        is_key = token[0][0] not in "[]{}#" and _STRING.fullmatch(token[0]) is None
        depth += limits.CONFIG_NESTING + 1 if is_key else _STEPS.get(token[0], 0)
        if depth > limits.CONFIG_NESTING:
            line = text.count("\n", 0, token.start()) + 1
            raise Unreadable(line, f"nested more than {limits.CONFIG_NESTING} levels deep")


def _check(document: Document, value: object, path: Path) -> None:
    """Notes what JSON has no value for: dates and numbers that are none."""
    if len(path) > limits.CONFIG_NESTING:
        raise Unreadable(document.line_of(path), f"nested more than {limits.CONFIG_NESTING} levels deep")
    if isinstance(value, dict):
        for name, inner in value.items():
            _check(document, inner, (*path, name))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            _check(document, inner, (*path, position))
    elif isinstance(value, float) and not math.isfinite(value):
        document.slips.append(Slip(document.line_of(path), f"{value} is no number that JSON has"))
    elif not isinstance(value, str | int | float):
        document.slips.append(
            Slip(document.line_of(path), "dates and times are not supported; put it in quotes")
        )


class _Walk:
    def __init__(self, text: str, spans: Spans) -> None:
        self.lines: dict[Path, int] = {}
        self.count = 0
        self._spans = spans
        self._text = text
        self._table = LineTable(text)
        self._lengths: dict[Path, int] = {}  # of arrays of tables, so far

    def document(self) -> None:
        at, table = _skip(_BLANK, self._text, 0), ()
        here: Path = table
        while at < len(self._text):
            if self._text.startswith("[", at):
                here, at = self._header(at)
            else:
                at = self._pair(at, here)
            at = _skip(_BLANK, self._text, at)

    def _header(self, at: int) -> tuple[Path, int]:
        start, is_array = at, self._text.startswith("[[", at)
        names, at = self._names(at + 1 + is_array)
        path: Path = ()
        for name, where in names[:-1]:
            self._spans.note_key((*path, name), *where)
            path = self._inside((*path, name))
            self._note(path, start)
        self._spans.note_key((*path, names[-1][0]), *names[-1][1])
        path = (*path, names[-1][0])
        self._note(path, start)
        if is_array:
            length = self._lengths.get(path, 0)
            self._lengths[path] = length + 1
            path = (*path, length)
            self._note(path, start)
        return path, at + 1 + is_array

    def _inside(self, path: Path) -> Path:
        """Where a header that names `path` leads: into its newest element, if it is an array of tables."""
        return (*path, self._lengths[path] - 1) if path in self._lengths else path

    def _names(self, at: int) -> tuple[list[tuple[str, Span]], int]:
        names: list[tuple[str, Span]] = []
        while True:
            at = _skip(_SPACE, self._text, at)
            quoted = _STRING.match(self._text, at)
            if quoted is not None:
                name = str(next(iter(tomllib.loads(f"{quoted[0]} = 1"))))
                names.append((name, (at, quoted.end())))
                at = quoted.end()
            else:
                bare = _skip(_BARE, self._text, at)
                names.append((self._text[at:bare], (at, bare)))
                at = bare
            at = _skip(_SPACE, self._text, at)
            if not self._text.startswith(".", at):
                return names, at
            at += 1

    def _pair(self, at: int, table: Path) -> int:
        start = at
        names, at = self._names(at)
        path = table
        for name, where in names:
            path = (*path, name)
            self._note(path, start)
            self._spans.note_key(path, *where)
        return self._value(_skip(_SPACE, self._text, at + 1), path)

    def _value(self, at: int, path: Path) -> int:
        self.count += 1
        end = self._end_of(at, path)
        self._spans.values[path] = at, at + len(self._text[at:end].rstrip())
        return end

    def _end_of(self, at: int, path: Path) -> int:
        text = self._text
        if text.startswith("[", at):
            at, position = _skip(_BLANK, text, at + 1), 0
            while not text.startswith("]", at):
                self._note((*path, position), at)
                at = _skip(_BLANK, text, self._value(at, (*path, position)))
                at = _skip(_BLANK, text, at + text.startswith(",", at))
                position += 1
            return at + 1
        if text.startswith("{", at):
            at = _skip(_BLANK, text, at + 1)
            while not text.startswith("}", at):
                at = _skip(_BLANK, text, self._pair(at, path))
                at = _skip(_BLANK, text, at + text.startswith(",", at))
            return at + 1
        quoted = _STRING.match(text, at)
        return quoted.end() if quoted is not None else _skip(_PLAIN, text, at)

    def _note(self, path: Path, at: int) -> None:
        self.lines.setdefault(path, self._table.line_at(at))


def _skip(what: re.Pattern[str], text: str, at: int) -> int:
    found = what.match(text, at)
    return found.end() if found else at
