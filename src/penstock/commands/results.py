"""How every command prints its result, and the exit code for one that found something."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import msgspec

from penstock.wire.mcp.replies import one_line

FOUND = 3
"""Done, and found something: a difference, a miss, tampering, an alert. 1 is kept for "cannot"."""


def json_text(result: object) -> str:
    """A result for programs."""
    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode() + "\n"


def columns(rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> list[str]:
    """A line for each row, the columns aligned; those in `numbers` to the right."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if place in numbers else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def say(line: str) -> None:
    """Prints one line for people, without what could move their cursor."""
    sys.stdout.write(one_line(line) + "\n")
