"""A file as plain values, and the line on which each of them stands."""

from __future__ import annotations

import re
from bisect import bisect_left

from msgspec import Struct

from penstock import limits

Path = tuple[str | int, ...]


class Slip(Struct, frozen=True):
    """Something wrong with one place in a file; the rest of it can still be read."""

    line: int
    message: str
    is_repeated: bool = False  # a key that is there twice


class Unreadable(Exception):
    """A file of which nothing can be made. `line` says how far reading came."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line, self.reason = line, reason


class Document(Struct, frozen=True):
    """What a file holds: dicts, lists, texts, numbers, true, false and None."""

    tree: object
    lines: dict[Path, int]  # for a member the line of its name, for an element the line where it begins
    slips: list[Slip]

    def line_of(self, path: Path) -> int:
        """The line of what stands at `path`, or else of the nearest thing around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


class LineTable:
    """Which line a character of a text is on, counted from 1."""

    def __init__(self, text: str) -> None:
        self._ends = [found.start() for found in re.finditer("\n", text)]

    def line_at(self, index: int) -> int:
        """The line of the character at `index`."""
        return bisect_left(self._ends, index) + 1


def decode(data: bytes) -> str:
    """The text in a file's bytes, or Unreadable."""
    if len(data) > limits.CONFIG_BYTES:
        raise Unreadable(1, f"the file is too large: over {limits.CONFIG_BYTES:,} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as why:
        line = data.count(b"\n", 0, why.start) + 1
        raise Unreadable(line, "not UTF-8 text") from None
    control = _CONTROL.search(text)
    if control is not None:
        line = LineTable(text).line_at(control.start())
        raise Unreadable(line, f"a control character (\\x{ord(control[0]):02x})")
    return text


_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
