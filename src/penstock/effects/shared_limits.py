"""Limits that hold over all instances together.

The counts are in the store. A refusal says when there may be room again; until then refusals cost nothing. An
instance has at most so many keys there at a time: newcomers beyond that share one.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable

from penstock import limits
from penstock.state.seals import Seals
from penstock.state.store import Store

log = logging.getLogger("penstock")


class SharedLimits:
    """The counts of every rate limit, kept by the store."""

    def __init__(
        self,
        store: Store,
        seals: Seals,
        clock: Callable[[], float],
        most_keys: int = limits.RATE_KEYS,
    ) -> None:
        self._store = store
        self._seals = seals
        self._clock = clock
        self._most_keys = most_keys
        # By window: when each count will have run empty, the one that was used longest ago first.
        self._live: dict[float, OrderedDict[bytes, float]] = {}
        self._key_count = 0
        self._full: OrderedDict[tuple[bytes, int], float] = OrderedDict()  # until when there is no room
        self._has_warned = False

    async def may_pass(self, key: str, limit: int, window: float) -> bool:
        """Whether one more may pass under `key`; if so, it is counted. Raises StoreDown."""
        limit = min(limit, limits.RATE_MOST)
        if limit < 1:
            return False
        if window <= 0:
            return True
        now = self._clock()
        name = self._name(key, window, now)
        until = self._full.get((name, limit), 0.0)
        if now < until:
            return False
        admission = await self._store.admit(name, limit, window)
        now = self._clock()
        self._touch(name, window, now)
        if admission.may_pass:
            return True
        self._full[name, limit] = now + admission.wait
        self._full.move_to_end((name, limit))
        if len(self._full) > self._most_keys:
            self._full.popitem(last=False)
        return False

    def is_known_full(self, key: str, limit: int, window: float) -> bool:
        """Whether it is known without asking that there is no room."""
        now = self._clock()
        return now < self._full.get((self._name(key, window, now), min(limit, limits.RATE_MOST)), 0.0)

    def forget_refusals(self) -> None:
        """The store may have lost its counts: it is asked again."""
        self._full.clear()

    def _name(self, key: str, window: float, now: float) -> bytes:
        own = self._seals.name("limit", key, repr(window))
        counts = self._live.get(window)
        if counts is not None and own in counts:
            return own
        if self._key_count >= self._most_keys:
            self._forget_empty(now)
        if self._key_count < self._most_keys:
            return own
        if not self._has_warned:
            self._has_warned = True
            log.warning("%d shared limits are in use; new ones share one count.", self._key_count)
        return self._seals.name("limit", "", repr(window))

    def _touch(self, name: bytes, window: float, now: float) -> None:
        counts = self._live.setdefault(window, OrderedDict())
        if name not in counts:
            self._key_count += 1
        counts[name] = now + window
        counts.move_to_end(name)

    def _forget_empty(self, now: float) -> None:
        for window in tuple(self._live):
            counts = self._live[window]
            while counts and next(iter(counts.values())) <= now:
                counts.popitem(last=False)
                self._key_count -= 1
            if not counts:
                del self._live[window]
