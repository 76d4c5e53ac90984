"""Places shared out by sender (fair queueing): whoever holds many leaves as many free for everybody else.

A sender gets another place only while it holds fewer than are free. So one alone has half of them, and a
newcomer always finds one, until very many senders hold all they can get. Those who wait are let in sender by
sender, and within a sender in their order.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Shares:
    """Who holds how many of a number of places."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._held: dict[str, int] = {}

    @property
    def held_count(self) -> int:
        """How many are held."""
        return sum(self._held.values())

    def has_room(self, sender: str) -> bool:
        """Whether the sender may have one more."""
        return self._held.get(sender, 0) < self._free

    def take(self, sender: str) -> bool:
        """Whether the sender has got one more."""
        if not self.has_room(sender):
            return False
        self._free -= 1
        self._held[sender] = self._held.get(sender, 0) + 1
        return True

    def give_back(self, sender: str) -> None:
        """The sender has done with one."""
        self._free += 1
        left = self._held[sender] - 1
        if left:
            self._held[sender] = left
        else:
            del self._held[sender]


class Turns:
    """A few at once; the others wait for their turn."""

    def __init__(self, at_once: int) -> None:
        self._shares = Shares(at_once)
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def take(self, sender: str) -> None:
        """Comes back when it is this sender's turn; give it back afterwards."""
        if sender not in self._waiting and self._shares.take(sender):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(sender, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(sender)  # it had come, and nobody wants it any more
            else:
                self._forget(sender, turn)
            raise

    def give_back(self, sender: str) -> None:
        """The turn is over; others may have theirs."""
        self._shares.give_back(sender)
        for name in list(self._waiting):
            while name in self._waiting and self._shares.take(name):
                queue = self._waiting.pop(name)
                queue.popleft().set_result(None)
                if queue:
                    self._waiting[name] = queue  # behind all others: they come first now
                    break

    def _forget(self, sender: str, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.get(sender)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._waiting[sender]
