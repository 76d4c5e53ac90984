"""Durations as people write them."""

from __future__ import annotations

import re

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 0.001}

FORM = "a duration like 30s, 500ms or 2m, or milliseconds"


class BadDuration(ValueError):
    """The text is no duration, or not a positive one. Its words say what it must be."""


def parse_duration(text: str) -> float:
    """Seconds out of 30s, 500ms, 2m or 1h; a plain number is milliseconds. Raises BadDuration."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise BadDuration(f"It must be {FORM}")
    value = float(found[1]) * _SECONDS[found[2]]
    if value <= 0:
        raise BadDuration("It must be positive")
    if value == float("inf"):
        raise BadDuration("It must be finite")
    if round(value * 1000, 6) % 1:
        raise BadDuration("It must be a whole number of milliseconds")
    return value


def spoken_duration(seconds: float) -> str:
    """A duration for people: 1.5s, 250ms, 5m."""
    if seconds < 1:
        return f"{seconds * 1000:g}ms"
    if seconds >= 3600 and seconds % 3600 == 0:
        return f"{seconds / 3600:g}h"
    if seconds >= 60 and seconds % 60 == 0:
        return f"{seconds / 60:g}m"
    return f"{seconds:g}s"
