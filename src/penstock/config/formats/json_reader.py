"""JSON as plain values with their lines.

A reader of its own, because the one in the library keeps no positions, and because JSON is not quite YAML
(tabs, long keys). Comments are skipped, as AI clients do in the files that Penstock shall read as they are.
"""

from __future__ import annotations

import math
import re
from json import JSONDecodeError
from json import decoder as library
from typing import NoReturn

from penstock import limits
from penstock.config.formats.document import Document, LineTable, Path, Slip, Unreadable
from penstock.config.formats.spans import Spans

_BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?(?![0-9a-zA-Z.])")
_WORDS = {"true": True, "false": False, "null": None}


def read_json(text: str, spans: Spans | None = None, most: int = limits.CONFIG_NODES) -> Document:
    """What the JSON in `text` holds, in at most so many values. Raises Unreadable.

    With `spans` it also notes where everything stands, and takes a comma before a closing bracket, as the
    clients do whose files are edited.
    """
    reader = _Reader(text, spans, most)
    at = reader.skip(0)
    if at == len(text):
        return Document(None, {}, [])
    tree, at = reader.read(at, ())
    if reader.skip(at) != len(text):
        reader.fail(reader.skip(at), "something follows after the end")
    return Document(tree, reader.lines, reader.slips)


class _Reader:
    def __init__(self, text: str, spans: Spans | None, most: int) -> None:
        self.lines: dict[Path, int] = {}
        self.slips: list[Slip] = []
        self._text = text
        self._table = LineTable(text)
        self._count = 0
        self._spans = spans
        self._most = most

    def skip(self, at: int) -> int:
        found = _BLANK.match(self._text, at)
        return found.end() if found else at

    def fail(self, at: int, reason: str) -> NoReturn:
        raise Unreadable(self._table.line_at(at), f"not JSON: {reason}")

    def read(self, at: int, path: Path) -> tuple[object, int]:
        """The value that begins at `at`, and where it ends."""
        self._count += 1
        if self._count > self._most:
            raise Unreadable(self._table.line_at(at), f"more than {self._most:,} values")
        value, end = self._value(at, path)
        if self._spans is not None:
            self._spans.values[path] = at, end
        return value, end

    def _value(self, at: int, path: Path) -> tuple[object, int]:
        sign = self._text[at : at + 1]
        if sign == '"':
            return self._string(at)
        if sign and sign in "{[":
            if len(path) >= limits.CONFIG_NESTING:
                line = self._table.line_at(at)
                raise Unreadable(line, f"nested more than {limits.CONFIG_NESTING} levels deep")
            return self._object(at, path) if sign == "{" else self._array(at, path)
        for word, value in _WORDS.items():
            if self._text.startswith(word, at):
                return value, at + len(word)
        return self._number(at)

    def _string(self, at: int) -> tuple[str, int]:
        try:
            text, end = library.scanstring(self._text, at + 1, True)  # type: ignore[attr-defined]
        except JSONDecodeError as why:
            self.fail(why.pos, why.msg[:1].lower() + why.msg[1:])
        if any("\ud800" <= char <= "\udfff" for char in text):
            self.fail(at, "half a surrogate pair is no character")
        return text, end

    def _number(self, at: int) -> tuple[object, int]:
        found = _NUMBER.match(self._text, at)
        if found is None:
            shown = self._text[at : at + 1]
            self.fail(at, f"a value was expected, not {shown}" if shown else "it ends too early")
        whole, fraction, power = found.groups()
        try:
            value: int | float = float(found[0]) if fraction or power else int(whole)
        except ValueError:
            self.fail(at, "a number with too many digits")
        if isinstance(value, float) and not math.isfinite(value):
            self.fail(at, f"{found[0]} is too large a number")
        return value, found.end()

    def _object(self, at: int, path: Path) -> tuple[dict[str, object], int]:
        out: dict[str, object] = {}
        at = self.skip(at + 1)
        if self._text.startswith("}", at):
            return out, at + 1
        while True:
            if not self._text.startswith('"', at):
                self.fail(at, "a key in double quotes was expected")
            start = at
            name, key_end = self._string(at)
            at = self.skip(key_end)
            if not self._text.startswith(":", at):
                self.fail(at, f'a colon was expected after "{name}"')
            at = self.skip(at + 1)
            line = self._table.line_at(start)
            if name in out:
                first = self.lines[*path, name]
                words = f'"{name}" is here twice; the first is on line {first}'
                self.slips.append(Slip(line, words, is_repeated=True))
                _, at = self._aside().read(at, (*path, name))
            else:
                self.lines[*path, name] = line
                if self._spans is not None:
                    self._spans.note_key((*path, name), start, key_end)
                out[name], at = self.read(at, (*path, name))
            at, is_over = self._after(at, "}")
            if is_over:
                return out, at

    def _array(self, at: int, path: Path) -> tuple[list[object], int]:
        out: list[object] = []
        at = self.skip(at + 1)
        if self._text.startswith("]", at):
            return out, at + 1
        while True:
            here = (*path, len(out))
            self.lines[here] = self._table.line_at(at)
            value, at = self.read(at, here)
            out.append(value)
            at, is_over = self._after(at, "]")
            if is_over:
                return out, at

    def _after(self, at: int, end: str) -> tuple[int, bool]:
        at = self.skip(at)
        if self._text.startswith(end, at):
            return at + 1, True
        if not self._text.startswith(",", at):
            self.fail(at, f"a comma or {end} was expected")
        at = self.skip(at + 1)
        if self._text.startswith(end, at):
            if self._spans is not None:
                return at + 1, True
            self.fail(at, f"a comma before {end}")
        return at, False

    def _aside(self) -> _Reader:
        """A reader of the same text whose findings nobody keeps, for a value that does not count."""
        other = _Reader.__new__(_Reader)
        other.lines, other.slips, other._spans, other._most = {}, [], None, self._most
        other._text, other._table, other._count = self._text, self._table, self._count
        return other
