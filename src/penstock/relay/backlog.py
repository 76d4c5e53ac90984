"""What clients have said and upstreams have not taken or not answered, over all sessions of the process.

A body of some size is counted as long as anybody holds it (`net/byte_budget`). Small ones are not: they are
counted here where they pile up, and whoever piles them up is told to wait.
"""

from __future__ import annotations

from typing import Protocol
from weakref import WeakSet

from penstock import limits


class Piled(Protocol):
    """One who may have something waiting."""

    @property
    def backlog(self) -> int:
        """Bytes that wait, and what is known of what was sent and is not answered; 0 once it is over."""


class Backlog:
    """Those with more than a little waiting, and what that is together."""

    def __init__(self) -> None:
        self._heavy: WeakSet[Piled] = WeakSet()

    def maybe_objection(self, sender: Piled) -> str | None:
        """Why `sender`, who has more than a little waiting, may not say more for now: how much of its own
        waits, or of all together."""
        own = sender.backlog
        self._heavy.add(sender)
        if own > limits.UNANSWERED_BYTES:
            return f"{own} bytes of its session"
        total = 0
        for other in tuple(self._heavy):
            size = other.backlog
            if size <= limits.BACKLOG_SMALL_BYTES:
                self._heavy.discard(other)
            total += size
        return f"{total} bytes of all sessions" if total > limits.BACKLOG_BYTES else None


BACKLOG = Backlog()
"""That of the process."""
