"""What is claimed of the gate, as functions that find where it does not hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from memory_doors import CHOICE, DOORS, catalog
from readers import LINE_READERS, READERS, Reader, calls, listed

NAMES = catalog().names
SEEN_NAMES = NAMES | {name.encode().decode("latin-1") for name in NAMES}
"""What a reader may call; one that takes UTF-8 for latin-1 sees the same names garbled."""


def readers_of(door: str) -> dict[str, Reader]:
    """Who may stand behind a door: over HTTP nobody cuts a body into lines."""
    return LINE_READERS if DOORS[door].is_line else READERS


def wrong_calls(wire: bytes, readers: dict[str, Reader]) -> dict[str, list[str]]:
    """The tools outside the catalog that some reader would run on seeing `wire`, by reader."""
    found = {
        which: [name for value in read(wire) for name in calls(value) if name not in SEEN_NAMES]
        for which, read in readers.items()
    }
    return {which: names for which, names in found.items() if names}


def is_strict(wire: bytes) -> bool:
    """Whether `wire` is UTF-8 and one JSON value by the letter of RFC 8259."""
    try:
        _STRICT.decode(wire.decode())
    except ValueError:
        return False
    return True


def _refuse(word: str) -> None:
    raise ValueError(word)


_STRICT = json.JSONDecoder(parse_constant=_refuse, parse_int=str)


def hidden_names(
    wire: bytes, readers: dict[str, Reader], tools_in: Callable[[Any], Iterator[dict[str, Any]]] = listed
) -> dict[str, list[str]]:
    """The denied tools that some reader finds listed in `wire`, by reader."""
    found = {
        which: [tool["name"] for value in read(wire) for tool in tools_in(value) if _is_denied(tool)]
        for which, read in readers.items()
    }
    return {which: names for which, names in found.items() if names}


def _is_denied(tool: dict[str, Any]) -> bool:
    name = tool.get("name")
    if not isinstance(name, str):
        return False
    return CHOICE.maybe_denial(name.encode(errors="replace").decode(), False) is not None
