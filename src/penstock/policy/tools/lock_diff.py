"""How a definition differs from the locked one, in lines in which nothing is invisible."""

from __future__ import annotations

import difflib
from typing import Any

from penstock.wire.json.canonical import Pairs, canonical

_MOST_LINES = 60


def difference(headline: str, before: str, after: str) -> str:
    """The lines that went and came, under a sentence."""
    old, new = before.splitlines(), after.splitlines()
    lines = [
        f"  {line[0]} {visible(line[2:])}"
        for line in difflib.ndiff(old, new)
        if line[:1] in "+-" and line[2:].strip()
    ]
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f"  ... and {len(lines) - _MOST_LINES} more lines"]
    return "\n".join([f"{visible(headline)}:", *lines])


def visible(text: str) -> str:
    """`text` with every character that one cannot see as an escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"


def maybe_other_name(now: Pairs, gone: dict[str, Pairs]) -> str | None:
    """The name of a definition that is gone and equals `now` in everything but its name."""
    rest = _without_name(now)
    return next((name for name, definition in gone.items() if _without_name(definition) == rest), None)


def _without_name(definition: Any) -> str:
    return canonical(Pairs(pair for pair in definition if pair[0] not in ("name", "title")))
