"""Writes the tables of keys into docs/config.md, between its markers. With --check, only compares."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from penstock.config.keys import SECTIONS
from penstock.config.kinds import Key, Kind

PLACE = Path(__file__).resolve().parent.parent / "docs" / "config.md"
MARKER = re.compile(r"(<!-- keys: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(keys: tuple[Key, ...]) -> str:
    """The keys of a section as a table."""
    rows = ["| key | value | meaning |", "|---|---|---|"]
    rows += [f"| `{key.name}` | {_value(key)} | {key.meaning} |" for key in keys]
    return "\n".join(rows) + "\n"


def _value(key: Key) -> str:
    words = ", ".join(f"`{word}`" for word in key.choices)
    if key.kind is Kind.CHOICE:
        return words
    return f"{words}, or {key.kind.value}" if words else key.kind.value


def filled(text: str) -> str:
    """The page with fresh tables."""
    return MARKER.sub(lambda m: m[1] + table(SECTIONS["" if m[2] == "file" else m[2]]) + m[3], text)


def main() -> int:
    text = PLACE.read_text()
    if "--check" in sys.argv:
        is_current = text == filled(text)
        print(f"{PLACE.name} is {'' if is_current else 'not '}up to date")
        return 0 if is_current else 1
    PLACE.write_text(filled(text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
