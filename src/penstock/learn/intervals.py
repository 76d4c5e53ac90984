"""How sure a share is: Wilson's interval, which holds for small counts and for shares near 0 and 1."""

from __future__ import annotations

import math

_95 = 1.959964


def wilson(hits: int, of: int) -> tuple[float, float]:
    """Between which shares the true one lies, with 95 % confidence."""
    if not of:
        return 0.0, 1.0
    share, square = hits / of, _95 * _95
    middle = (share + square / (2 * of)) / (1 + square / of)
    width = _95 * math.sqrt(share * (1 - share) / of + square / (4 * of * of)) / (1 + square / of)
    return max(0.0, middle - width), min(1.0, middle + width)


def is_difference_shown(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two shares (hits, of) differ by more than chance explains: their intervals do not overlap."""
    (low, high), (other_low, other_high) = wilson(*one), wilson(*other)
    return high < other_low or other_high < low
