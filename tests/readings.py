"""How careless readers would take a line: every tool that any of them would run.

A test that finds a denied name here has found a leak, even if the strict reading looks harmless.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from typing import Any

_ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "latin-1")


class _Pairs(list[tuple[str, Any]]):
    """An object with all its members, also those that stand twice."""


_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_Pairs, parse_int=str)


def folded(text: str) -> str:
    """`text` without case, width, blanks and everything invisible."""
    text = unicodedata.normalize("NFKC", text.partition("\0")[0]).casefold()
    return "".join(char for char in text if unicodedata.category(char)[0] not in "CZ" and char != "\ufe0f")


def calls_in(line: bytes) -> set[str]:
    """The names, folded, of the tools that some reader would run on seeing `line`."""
    found: set[str] = set()
    for encoding in _ENCODINGS:
        text = line.decode(encoding, "replace").lstrip("\ufeff")
        for piece in {text, *text.splitlines(), *text.split("\r")}:
            for value in _values(piece):
                found.update(_calls(value))
    return found


def _values(text: str) -> Iterator[Any]:
    """Every JSON object or array in `text`, stepping over what is between them."""
    position = 0
    while True:
        starts = [start for start in (text.find("{", position), text.find("[", position)) if start >= 0]
        if not starts:
            return
        try:
            value, position = _DECODER.raw_decode(text, min(starts))
            yield value
        except (ValueError, RecursionError):
            position = min(starts) + 1


def _all(members: Any, name: str) -> Iterator[Any]:
    if isinstance(members, _Pairs):
        for key, value in members:
            if folded(key) == name:
                yield value
            elif key in ("__proto__", "constructor"):
                yield from _all(value, name)


def _calls(whole: Any) -> Iterator[str]:
    waiting = [whole]
    while waiting:  # some readers nest deeper than our own stack goes
        value = waiting.pop()
        if isinstance(value, list) and not isinstance(value, _Pairs):
            waiting += value
        else:
            yield from _called(value)


def _called(value: Any) -> Iterator[str]:
    methods = {folded(method) for method in _all(value, "method") if isinstance(method, str)}
    if any(method.replace("//", "/").strip("/") == "tools/call" for method in methods):
        for params in _all(value, "params"):
            for name in _all(params, "name"):
                if isinstance(name, str):
                    yield folded(name)
            if isinstance(params, list) and not isinstance(params, _Pairs):
                yield from (folded(name) for name in params if isinstance(name, str))
