"""A client's file as text that can be changed in a few places and nowhere else.

Byte order mark, line ends, indentation, comments and trailing commas survive because nobody writes them anew:
values are spliced into the text, and the result is read again and must hold exactly what was intended.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from penstock import limits
from penstock.clients.edits import Edit, InsertAfter, Remove, Rename, Replace, ReplaceHead, applied, is_same
from penstock.clients.notation import key_text, like_before, value_text
from penstock.config.formats.document import Document, Path, Unreadable
from penstock.config.formats.spans import Span, Spans

_BOM = "\ufeff"
_BLANK = re.compile(r"[ \t\r\n]*")
_SKIPPED = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/|#[^\n]*)*", re.DOTALL)
_LINE = 10_000  # characters; nobody indents further
_MANY = 10_000_000  # values; the size of the file is the limit


class CannotEdit(ValueError):
    """The change cannot be made without touching more than was meant."""


class ClientFile(Struct, frozen=True):
    """One file, read with the place of everything in it."""

    form: str  # json, toml or yaml
    mark: str  # the byte order mark, if there is one
    text: str
    document: Document
    spans: Spans

    @property
    def tree(self) -> object:
        """What it holds."""
        return self.document.tree

    def edited(self, edits: list[Edit]) -> bytes:
        """The bytes of the file after `edits`. Raises CannotEdit."""
        pieces = [piece for edit in edits for piece in _Splicer(self).pieces(edit)]
        text = _spliced(self.text, pieces)
        data = (self.mark + text).encode()
        try:
            after = read_client_file(self.form, data)
        except Unreadable as why:
            raise CannotEdit(f"the result could not be read: {why.reason}") from None
        if not is_same(after.tree, applied(self.tree, edits)):
            raise CannotEdit("the change would touch more than this entry, as an alias does")
        return data


def form_of(name: str) -> str:
    """The notation of a file, by its name."""
    if name.endswith(".toml"):
        return "toml"
    return "yaml" if name.endswith((".yaml", ".yml")) else "json"


def read_client_file(form: str, data: bytes) -> ClientFile:
    """The file in `data`. Raises Unreadable, also for a key that is there twice."""
    if len(data) > limits.CLIENT_FILE_BYTES:
        raise Unreadable(1, f"the file is too large: over {limits.CLIENT_FILE_BYTES:,} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError as why:
        raise Unreadable(data.count(b"\n", 0, why.start) + 1, "not UTF-8 text") from None
    mark = _BOM if text.startswith(_BOM) else ""
    text = text[len(mark) :]
    spans = Spans()
    document = _read(form, text, spans)
    for slip in document.slips:
        if slip.is_repeated:
            raise Unreadable(slip.line, slip.message)
    return ClientFile(form, mark, text, document, spans)


def _read(form: str, text: str, spans: Spans) -> Document:
    if form == "toml":
        from penstock.config.formats.toml_reader import read_toml

        return read_toml(text, spans, _MANY)
    if form == "yaml":
        from penstock.config.formats.yaml_reader import read_yaml

        return read_yaml(text, spans, _MANY)
    from penstock.config.formats.json_reader import read_json

    return read_json(text, spans, _MANY)


Piece = tuple[int, int, str]


def _spliced(text: str, pieces: list[Piece]) -> str:
    for start, end, new in sorted(pieces, reverse=True):
        text = text[:start] + new + text[end:]
    return text


class _Splicer:
    """The pieces of text that one edit replaces."""

    def __init__(self, file: ClientFile) -> None:
        self._form, self._text, self._spans = file.form, file.text, file.spans
        self._newline = "\r\n" if "\r\n" in file.text else "\n"

    def pieces(self, edit: Edit) -> list[Piece]:
        if isinstance(edit, Rename):
            return [(*span, key_text(self._form, edit.name)) for span in self._keys(edit.path)]
        if isinstance(edit, Replace):
            start, end = self._value(edit.path)
            return [(start, end, like_before(self._form, self._text[start:end], edit.value))]
        if isinstance(edit, ReplaceHead):
            return [self._head(edit)]
        if isinstance(edit, InsertAfter):
            return [self._insertion(edit)]
        return self._removal(edit)

    # --- arrays ----------------------------------------------------------------------------------------

    def _head(self, edit: ReplaceHead) -> Piece:
        path, count, words = edit.path, edit.count, [value_text(self._form, word) for word in edit.words]
        if path in self._spans.blocks:
            return self._block_head(path, count, words)
        start, end = self._value(path)
        first = self._spans.values.get((*path, 0))
        if first is None:  # an empty array
            return (start + 1, start + 1, ", ".join(words))
        gap = self._gap(first[0])
        joint = "," + (gap if "\n" in gap else " ")
        after = self._spans.values.get((*path, count))
        if after is not None:
            return (first[0], after[0], "".join(word + joint for word in words))
        last = self._spans.values[*path, count - 1]
        if words:
            return (first[0], last[1], joint.join(words))
        return (start + 1, end - 1, "")

    def _block_head(self, path: Path, count: int, words: list[str]) -> Piece:
        start = self._dash(self._value((*path, 0))[0])
        indent = self._newline + " " * self._column(start)
        after = self._spans.values.get((*path, count))
        if after is not None:
            return (start, self._dash(after[0]), "".join(f"- {word}{indent}" for word in words))
        end = self._value((*path, count - 1))[1]
        if words:
            return (start, end, indent.join(f"- {word}" for word in words))
        return (start, end, "[]")

    def _dash(self, at: int) -> int:
        """Where the dash before the element at `at` stands."""
        return self._text.rindex("-", 0, at)

    # --- members ---------------------------------------------------------------------------------------

    def _insertion(self, edit: InsertAfter) -> Piece:
        key_start = self._keys(edit.path)[-1][0]
        _, end = self._value(edit.path)
        member = self._member(edit.name, edit.value)
        if self._is_inside_braces(edit.path):
            gap = self._gap(key_start)
            return (end, end, "," + (gap if "\n" in gap else " ") + member)
        line_start = self._text.rfind("\n", 0, key_start) + 1
        prefix = self._text[line_start:key_start]  # indentation, a dash, or the first parts of a dotted key
        if self._form == "yaml":
            prefix = " " * len(prefix)
        at = self._line_end(end)
        return (at, at, self._newline + prefix + member)

    def _member(self, name: str, value: Any) -> str:
        joint = " = " if self._form == "toml" else ": "
        return key_text(self._form, name) + joint + value_text(self._form, value)

    def _removal(self, edit: Remove) -> list[Piece]:
        key_start = self._keys(edit.path)[0][0]
        _, end = self._value(edit.path)
        if not self._is_inside_braces(edit.path):
            if edit.path in self._spans.blocks:
                raise CannotEdit("a block would have to be cut out")
            line_start = self._text.rfind("\n", 0, key_start) + 1
            return [(line_start, min(self._line_end(end) + len(self._newline), len(self._text)), "")]
        before = self._sibling_before(edit.path, key_start)
        if before is not None and self._text[before:key_start].strip() == ",":
            return [(before, end, "")]
        after = _SKIPPED.match(self._text, end)
        comma = after.end() if after else end
        if self._text[comma : comma + 1] == ",":
            blank = _BLANK.match(self._text, comma + 1)
            return [(key_start, blank.end() if blank else comma + 1, "")]
        if before is None:
            return [(key_start, end, "")]
        skipped = _SKIPPED.match(self._text, before)
        comma = skipped.end() if skipped else before
        return [(comma, comma + 1, ""), (key_start, end, "")]

    def _sibling_before(self, path: Path, at: int) -> int | None:
        """Where the value ends that stands before the member at `path`, in the same object."""
        ends = [
            end
            for other, (start, end) in self._spans.values.items()
            if other[:-1] == path[:-1]
            and len(other) == len(path)
            and start < at
            and other in self._spans.keys
        ]
        return max(ends, default=None)

    # --- places ----------------------------------------------------------------------------------------

    def _keys(self, path: Path) -> list[Span]:
        if path not in self._spans.keys:
            raise CannotEdit(f"{path[-1]} has no place of its own in the file")
        return self._spans.keys[path]

    def _value(self, path: Path) -> Span:
        if path not in self._spans.values:
            raise CannotEdit(f"{path[-1]} has no place of its own in the file")
        return self._spans.values[path]

    def _is_inside_braces(self, path: Path) -> bool:
        if self._form == "json":
            return True
        holder = path[:-1]
        if self._form == "yaml":
            return holder not in self._spans.blocks
        return holder in self._spans.values and self._text[self._spans.values[holder][0]] == "{"

    def _gap(self, at: int) -> str:
        """The blanks before `at`, no more than one line end of them."""
        before = self._text[max(0, at - _LINE) : at]
        gap = before[len(before.rstrip(" \t\r\n")) :]
        return self._newline + gap.rpartition("\n")[2] if "\n" in gap else gap

    def _column(self, at: int) -> int:
        return at - (self._text.rfind("\n", 0, at) + 1)

    def _line_end(self, at: int) -> int:
        end = self._text.find("\n", at)
        if end < 0:
            return len(self._text)
        return end - 1 if self._text[end - 1] == "\r" else end
