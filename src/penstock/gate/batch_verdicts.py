"""The verdicts on messages that travel as one array, until all of them are there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from penstock.policy.verdict import Verdict, Wait


class BatchVerdicts:
    """Collects one verdict for each message; then hands them over, once and in order."""

    def __init__(self, count: int, done: Callable[[list[Verdict]], None]) -> None:
        self._verdicts: list[Verdict | None] = [None] * count
        self._undecided = count
        self._done = done

    def take(self, place: int, verdict: Verdict) -> None:
        """What was decided about one of them, or what has to be waited for."""
        if isinstance(verdict, Wait):
            verdict.then(partial(self.take, place))
            return
        self._verdicts[place] = verdict
        self._undecided -= 1
        if not self._undecided:
            self._done([verdict for verdict in self._verdicts if verdict is not None])
