"""Named numbers that rules add to, kept in memory until somebody asks for them."""

from __future__ import annotations

import logging
import math

from msgspec import Struct

from penstock import limits

log = logging.getLogger("penstock")

OTHERS = "(others)"
"""Where everything is counted that came after the last name there was room for."""


class Counted(Struct, frozen=True):
    """What came together under one name."""

    count: int
    total: float


class Counters:
    """Counts and sums by name. Names may hold text of clients, so their number and length are bounded."""

    def __init__(self, most_names: int = limits.COUNTER_NAMES) -> None:
        self._most_names = most_names
        self._numbers: dict[str, tuple[int, float]] = {}

    def count(self, name: str, value: float) -> None:
        """Adds `value` under `name`. What is no finite number is not added: one would spoil the sum."""
        if not math.isfinite(value):
            log.warning("A metric was not counted: its value is %r.", value)
            return
        name = name[: limits.COUNTER_NAME_LENGTH]
        if name not in self._numbers and len(self._numbers) >= self._most_names:
            if OTHERS not in self._numbers:
                log.warning("%d metrics are in use; new names are counted together.", len(self._numbers))
            name = OTHERS
        count, total = self._numbers.get(name, (0, 0.0))
        self._numbers[name] = count + 1, total + value

    def snapshot(self) -> dict[str, Counted]:
        """All numbers as they are now, in the order in which their names first came."""
        return {name: Counted(count, total) for name, (count, total) in self._numbers.items()}
