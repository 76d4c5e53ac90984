"""Whether what passed and what was refused can be true of one limit.

An admitted call lies somewhere between its sending and its answer. One that lies inside a window counts
toward it: no window may have more than the limit. A refused call needs so many admitted ones that may lie in
the window before it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence

Span = tuple[float, float]
"""When a call was sent, and when it was answered."""


def worst_window(admitted: Sequence[Span], window: float) -> int:
    """The most calls that certainly passed within one window."""
    worst = 0
    ends: list[float] = []  # of those that were sent later
    for began, answered in sorted(admitted, reverse=True):
        insort(ends, answered)
        worst = max(worst, bisect_left(ends, began + window))
    return worst


def unfounded(
    admitted: Sequence[Span], refused: Sequence[Span], limit: int, window: float, slack: float
) -> int:
    """How many refusals had less than (1 - slack) of the limit before them, however one looks at it."""
    sent, answered = sorted(one[0] for one in admitted), sorted(one[1] for one in admitted)
    need = (1 - slack) * limit
    out = 0
    for began, ended in refused:
        # All that may have passed between the window before its sending and its answer.
        possible = bisect_right(sent, ended) - bisect_left(answered, began - window)
        out += possible < need
    return out
