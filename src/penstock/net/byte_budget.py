"""One budget in bytes for the bodies of all clients, from their first byte until nobody holds them any more.

A body is passed on without being copied: to the gate, to an upstream's queue, to what rules remember. Whoever
keeps the bytes keeps their share of the budget, and gives it back by letting go, however the exchange ended.
Nobody has to remember to say so, and nothing is counted that is not there.
"""

from __future__ import annotations


class ByteBudget:
    """How many bytes are held, and how many may be."""

    __slots__ = ("held", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    @property
    def is_spent(self) -> bool:
        """Whether there is no room for a large body."""
        return self.held > self.limit

    @property
    def is_overdrawn(self) -> bool:
        """Whether there is no room for a small one either, of which some are taken beyond the limit."""
        return self.held > 2 * self.limit

    def count(self, body: bytes) -> bytes:
        """`body`, which is counted from now on for as long as anybody holds it."""
        return _CountedBytes(body, self)


class _CountedBytes(bytes):
    """Bytes that give their share back when the last reference to them goes."""

    _budget: ByteBudget

    def __new__(cls, body: bytes, budget: ByteBudget) -> _CountedBytes:
        counted = super().__new__(cls, body)
        counted._budget = budget
        budget.held += len(counted)
        return counted

    def __del__(self) -> None:
        self._budget.held -= len(self)
