"""The condition that keeps file paths in arguments below some directories, symbolic links resolved."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated
from urllib.parse import unquote

from msgspec import Struct

from penstock.policy.binder import READERS, Misread, Reader
from penstock.policy.faults import Fault, Place
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.json_values import text_of
from penstock.policy.rules.message_parts import params_of
from penstock.policy.rules.paths import BadPath, Path, Span, parse_path
from penstock.policy.rules.resource_uris import (
    OddUri,
    Resolver,
    locate,
    locate_path,
    true_locations,
    true_root,
)
from penstock.policy.rules.value_tests import holds_at
from penstock.wire.json.json_walk import first_byte, parts
from penstock.wire.mcp.message import Message

_STRIPPED = " \"'"  # some servers take these off the ends of a path
_ODD = re.compile(r"[\x00-\x1f\x7f\\]")


class Roots:
    """Directories below which paths must stay. `resolve` is given by whoever may look at the disk."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self.paths = paths
        self.resolve: Resolver | None = None
        self._places = [locate_path(path) for path in paths]

    def __str__(self) -> str:
        return ", ".join(self.paths)

    def have(self, path: str) -> bool:
        """Whether the path leads below one of them, whoever opens it. Odd paths lead nowhere."""
        try:
            return all(self._has(form) for form in _forms(path))
        except OddUri:
            return False

    def _has(self, form: str) -> bool:
        place = locate_path(form)
        if not any(place.is_within(root) for root in self._places):
            return False
        if self.resolve is None:
            return True
        resolve = self.resolve
        roots = [true_root(root, resolve) for root in self._places]
        return all(
            any(true_place.is_within(root) for root in roots) for true_place in true_locations(place, resolve)
        )


def _forms(path: str) -> Iterator[str]:
    """The file names that somebody could read in `path`. Raises OddUri when it is no whole path."""
    if path.lower().startswith("file:"):
        yield locate(path).way
        return
    if not path.startswith("/") or _ODD.search(path) or path[-1] in _STRIPPED:
        raise OddUri("no path from the root")
    yield path
    if "%" in path:  # some tools decode what they are given
        yield unquote(path)


class PathOutside(Struct, frozen=True):
    """Holds when a path in one of the fields leads outside of all roots, or could; links are followed.

    A field may hold one path or a list of them. Whatever is no whole path (a relative one, a backslash, a
    number) counts as outside; a field that is not there does not.
    """

    fields: Annotated[tuple[Path, ...], "paths"]
    roots: Annotated[Roots, "roots"]

    def words(self) -> str:
        return f"a path in {', '.join(map(str, self.fields))} leads outside of {self.roots}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        def is_outside(text: bytes, span: Span) -> bool:
            return self._is_outside(text, span.start, span.end, every)

        place = params_of(message, context)
        return any(holds_at(place, field, is_outside, every) for field in self.fields)

    def _is_outside(self, text: bytes, start: int, end: int, every: bool) -> bool:
        head = first_byte(text, start)
        if head == b'"':
            return not self.roots.have(text_of(text[start:end]))
        if head == b"[":
            found = [self._is_outside(text, part.start, part.end, every) for part in parts(text, start)]
            return all(found) and bool(found) if every else any(found)
        return not every and text[start:end] != b"null"


def _read_fields(value: object, place: Place, faults: list[Fault]) -> tuple[Path, ...]:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not words or not all(isinstance(w, str) for w in words):
        raise Misread("must be a path such as arguments.path, or a list of them")
    try:
        return tuple(parse_path(word) for word in words)
    except BadPath as why:
        raise Misread(f"invalid path: {why}") from None


def _read_roots(value: object, place: Place, faults: list[Fault]) -> Roots:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not words or not all(isinstance(w, str) for w in words):
        raise Misread("must be a directory such as /workspace, or a list of them")
    for word in words:
        if not word.startswith("/") or _ODD.search(word):
            raise Misread(f'"{word}" is no directory that can be compared with', "write its whole path: /...")
    try:
        return Roots(tuple(words))
    except OddUri as why:
        raise Misread(f"invalid directory: {why}") from None


_TEXTS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
READERS["paths"] = Reader(_read_fields, {**_TEXTS, "description": "dotted paths"})
READERS["roots"] = Reader(_read_roots, {**_TEXTS, "description": "directories, by their whole paths"})
