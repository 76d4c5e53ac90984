"""Holding one message back, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from penstock import limits
from penstock.errors import EffectFailed


class Pauses:
    """The messages held back now. A held message keeps its bytes in memory, so their number is bounded."""

    def __init__(
        self,
        rest: Callable[[float], Awaitable[None]] = asyncio.sleep,
        *,
        most: int = limits.PAUSED_MESSAGES,
    ) -> None:
        self._rest = rest
        self._most = most
        self._held = 0

    @property
    def held_count(self) -> int:
        """How many are held back now."""
        return self._held

    async def pause(self, seconds: float) -> None:
        """Comes back after `seconds`; EffectFailed when too many are held back already."""
        if seconds <= 0:
            return
        if self._held >= self._most:
            raise EffectFailed("The delay", f"{self._held} messages are held back already")
        self._held += 1
        try:
            await self._rest(seconds)
        finally:
            self._held -= 1
