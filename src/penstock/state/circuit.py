"""Whether something outside can be asked: after three failures in a row it is not, only probed."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

log = logging.getLogger("penstock")

_FAILURES = 3
_FIRST_SECONDS = 0.1
_MOST_SECONDS = 5.0


class Circuit:
    """Closed while all goes well. Open, it probes by itself, less and less often, until that succeeds."""

    def __init__(
        self,
        probe: Callable[[], Awaitable[None]],
        on_back: Callable[[], None] = lambda: None,
        chance: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """`probe` raises while the other side is not well."""
        self._probe = probe
        self._on_back = on_back
        self._chance = chance
        self._failures = 0
        self._probing: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether nobody should be asked now."""
        return self._probing is not None

    def succeeded(self) -> None:
        """It answered."""
        self._failures = 0

    def failed(self, why: str) -> None:
        """It did not answer, or not in time."""
        self._failures += 1
        if self._failures == 1 and not self.is_open:
            log.warning("Redis did not answer a decision: %s.", why)
        if self._failures >= _FAILURES:
            self.open(why)

    def open(self, why: str) -> None:
        """Asks nobody until a probe succeeds."""
        if self._probing is None:
            log.warning("Redis is down (%s); what when_down says holds until it is back.", why)
            self._probing = asyncio.get_running_loop().create_task(self._wait_until_well())

    async def _wait_until_well(self) -> None:
        longest = _FIRST_SECONDS
        while True:
            # Not from nought: an instance would connect twice as often, and be no sooner back.
            await asyncio.sleep(self._chance(longest / 2, longest))
            longest = min(longest * 2, _MOST_SECONDS)
            try:
                await self._probe()
            except Exception as why:
                log.debug("Redis is still down: %s", type(why).__name__)
                continue
            break
        self._probing = None
        self._failures = 0
        log.info("Redis is back.")
        self._on_back()

    def close(self) -> None:
        """Probes no more."""
        if self._probing is not None:
            self._probing.cancel()
