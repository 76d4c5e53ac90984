"""Holding one message back, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from penstock import limits
from penstock.effects.turns import Shares
from penstock.errors import EffectFailed


class Pauses:
    """The messages held back now. A held message keeps its bytes in memory, so their number is bounded, and
    shared out by sender."""

    def __init__(
        self,
        rest: Callable[[float], Awaitable[None]] = asyncio.sleep,
        *,
        most: int = limits.PAUSED_MESSAGES,
    ) -> None:
        self._rest = rest
        self._shares = Shares(most)

    @property
    def held_count(self) -> int:
        """How many are held back now."""
        return self._shares.held_count

    async def pause(self, seconds: float, sender: str = "") -> None:
        """Comes back after `seconds`; EffectFailed when too many of this sender are held back already."""
        if seconds <= 0:
            return
        if not self._shares.take(sender):
            raise EffectFailed("The delay", f"{self._shares.held_count} messages are held back already")
        try:
            await self._rest(seconds)
        finally:
            self._shares.give_back(sender)
