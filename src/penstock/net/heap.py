"""The heap of the process, after a crowd of large bodies has left.

The C library keeps what it has asked the system for, as long as anything small lies above it. Bodies of half
a megabyte are below the size from which it maps each block by itself, once it has seen larger ones; so forty
megabytes that were held for a moment would stay with the process for ever.
"""

from __future__ import annotations

import sys

from penstock import limits
from penstock.net.byte_budget import ByteBudget


class HeapKeeper:
    """Gives free memory back once much less is held than was, and no body has come for a while."""

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self._seen = 0  # how many bodies had been counted at the last look

    @property
    def is_due(self) -> bool:
        """Whether so much less is held than was that it is worth a look."""
        return self._budget.peak - self._budget.held > limits.HEAP_BYTES

    def look(self) -> None:
        """Gives memory back if no body was counted since the last look. To be called now and then."""
        budget = self._budget
        if not self.is_due:
            return
        if budget.counted != self._seen:
            self._seen = budget.counted
            return
        budget.peak = budget.held
        give_back()


def give_back() -> None:
    """Gives the system back what is free in the heap, where the C library can do that: glibc can."""
    if sys.platform == "linux":
        import ctypes  # half a megabyte, and most processes never hold so much

        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
