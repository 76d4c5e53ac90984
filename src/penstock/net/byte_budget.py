"""One budget in bytes for the bodies of all clients, from their first byte until nobody holds them any more.

A body is passed on without being copied: to the gate, to an upstream's queue, to what rules remember. Whoever
keeps the bytes keeps their share of the budget, and gives it back by letting go, however the exchange ended.
Nobody has to remember to say so, and nothing is counted that is not there.
"""

from __future__ import annotations

from penstock import limits
from penstock.errors import MalformedHttp


class ByteBudget:
    """How many bytes are held, and how many may be."""

    __slots__ = ("counted", "held", "limit", "peak")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self.peak = 0  # the most that was held, since somebody has set it back
        self.counted = 0  # bodies so far

    def check_room(self, size: int) -> None:
        """Raises MalformedHttp when a body of `size` has no room. Small ones are taken beyond the limit,
        up to twice as much: who sends much must not silence others."""
        if self.held > self.limit and (size > limits.HTTP_SMALL_BODY_BYTES or self.held > 2 * self.limit):
            raise MalformedHttp("Too much is under way at once", 503)

    def count(self, body: bytes) -> bytes:
        """`body`, which is counted from now on for as long as anybody holds it. Raises likewise."""
        counted = _CountedBytes(body, self)
        self.check_room(len(counted))
        return counted


class _CountedBytes(bytes):
    """Bytes that give their share back when the last reference to them goes."""

    _budget: ByteBudget

    def __new__(cls, body: bytes, budget: ByteBudget) -> _CountedBytes:
        counted = super().__new__(cls, body)
        counted._budget = budget
        budget.held = held = budget.held + len(counted)
        budget.counted += 1
        if held > budget.peak:
            budget.peak = held
        return counted

    def __del__(self) -> None:
        self._budget.held -= len(self)
