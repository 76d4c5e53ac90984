"""Where keys and values stand in a text, for those who change one value and leave every other byte."""

from __future__ import annotations

from msgspec import Struct

from penstock.config.formats.document import Path

Span = tuple[int, int]


class Spans(Struct):
    """Characters from and to, by path. In TOML one key may be written several times, in dotted names."""

    keys: dict[Path, list[Span]] = {}
    values: dict[Path, Span] = {}
    blocks: set[Path] = set()  # in YAML: collections by indentation, which end before the next thing begins

    def note_key(self, path: Path, start: int, end: int) -> None:
        """Remembers where one key stands."""
        self.keys.setdefault(path, []).append((start, end))
