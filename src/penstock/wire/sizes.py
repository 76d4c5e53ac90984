"""Sizes as people write them."""

from __future__ import annotations

import re

_SIZE = re.compile(r"([0-9]+)\s*(B|kB|KB|KiB|MB|MiB|GB|GiB)?")
_BYTES = {
    None: 1,
    "B": 1,
    "kB": 1000,
    "KB": 1000,
    "KiB": 1024,
    "MB": 1000**2,
    "MiB": 1024**2,
    "GB": 1000**3,
    "GiB": 1024**3,
}

FORM = "a size like 50MB (50,000,000 bytes), 10MiB (10,485,760) or a number of bytes"


class BadSize(ValueError):
    """The text is no size. Its words say what it must be."""


def parse_size(text: str) -> int:
    """Bytes out of 50MB, 10MiB, 512kB or 1000. Raises BadSize."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise BadSize(f"It must be {FORM}")
    return int(found[1]) * _BYTES[found[2]]


def spoken_size(size: int) -> str:
    """A size for people: 10 MiB, 50 MB, 1,234 bytes."""
    for unit in ("GiB", "GB", "MiB", "MB", "KiB", "kB"):
        if size >= _BYTES[unit] and size % _BYTES[unit] == 0:
            return f"{size // _BYTES[unit]:,} {unit}"
    return f"{size:,} bytes"
