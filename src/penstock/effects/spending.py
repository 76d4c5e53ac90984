"""How much was spent under a name, for good or within a window. Bounded: newcomers share what is left."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from penstock import limits

_OTHERS = ("", 0.0)


class Spending:
    """The sums of every budget."""

    def __init__(self, clock: Callable[[], float], most_keys: int = limits.RATE_KEYS) -> None:
        self._clock = clock
        self._most_keys = most_keys
        self._sums: dict[tuple[str, float], int] = {}
        self._spent: dict[tuple[str, float], deque[tuple[float, int]]] = {}

    def spend(self, key: str, amount: int, window: float) -> int:
        """Adds to what was spent under `key`; what that makes, within the window if there is one."""
        place = (key, window)
        if place not in self._sums:
            if not amount and len(self._sums) < self._most_keys:
                return 0
            if len(self._sums) >= self._most_keys:
                place = _OTHERS  # held to less than they could have had, never to more
        self._sums[place] = self._sums.get(place, 0) + amount
        if window and place is not _OTHERS:
            self._expire(place, amount, window)
        return self._sums.get(place, 0)

    def _expire(self, place: tuple[str, float], amount: int, window: float) -> None:
        now = self._clock()
        spent = self._spent.setdefault(place, deque())
        if amount:
            spent.append((now, amount))
        while spent and now - spent[0][0] >= window:
            self._sums[place] -= spent.popleft()[1]
        if not spent:
            del self._spent[place]
            del self._sums[place]
