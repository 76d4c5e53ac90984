"""What was decided about messages that travel as one array, until all of it is there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from penstock.policy.verdict import Wait

Decision = TypeVar("Decision")


class BatchVerdicts(Generic[Decision]):
    """Collects one decision for each message; then hands them over, once and in order."""

    def __init__(self, count: int, done: Callable[[list[Decision]], None]) -> None:
        self._count = count
        self._taken: dict[int, Decision] = {}  # by the place of the message
        self._done = done

    def take(self, place: int, decision: Decision) -> None:
        """What was decided about one of them, or what has to be waited for."""
        if isinstance(decision, Wait):
            decision.then(partial(self.take, place))
            return
        self._taken[place] = decision
        if len(self._taken) == self._count:
            self._done([self._taken[place] for place in range(self._count)])
