"""What rules count and remember, for all instances together; without the store, as `when_down` says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from penstock.effects.cache import ResultCache
from penstock.effects.rate_limit import SlidingWindows
from penstock.effects.real import RealEffects
from penstock.effects.shared_cache import SharedCache
from penstock.effects.shared_limits import SharedLimits
from penstock.state.seals import Seals
from penstock.state.store import Store, StoreDown

if TYPE_CHECKING:
    from penstock.effects.fork import OpenLink
    from penstock.net.warden import Warden

LimitWord = Literal["pass", "full", "unknown"]


class SharedTerms:
    """What is shared, and what holds without the store."""

    def __init__(self, use: frozenset[str], limits_down: str, caches_down: str, state_down: str) -> None:
        self.use = use
        self.limits_down = limits_down
        self.caches_down = caches_down
        self.state_down = state_down


class SharedEffects(RealEffects):
    """The effects of one of several proxies."""

    def __init__(
        self,
        store: Store,
        seals: Seals,
        terms: SharedTerms,
        instances: Callable[[], int],
        warden: Warden | None = None,
        open_link: OpenLink | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`instances` tells how many there were when the store was last asked."""
        super().__init__(warden, open_link, clock=clock)
        self._terms = terms
        self._instances = instances
        self._store = store
        self._limits = SharedLimits(store, seals, clock, instances)
        self._own_windows = SlidingWindows(clock)
        self._own_cache = ResultCache(clock)
        self._shared_cache = SharedCache(store, seals, self._own_cache, clock=clock)

    async def ask_limit(
        self, key: str, limit: int, window: float, when_down: str | None, lease: float = 0.0
    ) -> LimitWord:
        """Whether one more may pass under `key`, over all instances; `unknown` when nobody can tell."""
        word: LimitWord = await self.begin_limit(key, limit, window, when_down, lambda word: word, lease)
        return word

    def begin_limit(
        self,
        key: str,
        limit: int,
        window: float,
        when_down: str | None,
        then: Callable[[LimitWord], Any],
        lease: float = 0.0,
    ) -> asyncio.Future[Any]:
        """The same without a task: what `then` makes of it."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def counted(may_pass: bool | None) -> None:
            word = self._word(may_pass, key, limit, window, when_down or self._terms.limits_down)
            if future.done():
                return  # nobody waits any more
            try:
                future.set_result(then(word))
            except Exception as why:
                future.set_exception(why)

        self._limits.ask(key, limit, window, counted, lease)
        return future

    def _word(self, may_pass: bool | None, key: str, limit: int, window: float, when_down: str) -> LimitWord:
        if when_down == "block":
            return "unknown" if may_pass is None else "pass" if may_pass else "full"
        if may_pass is not False:  # what passes is counted here too, so that it is known without the store
            may_pass = (
                self._own_windows.may_pass(key, self._part(limit, when_down), window) or may_pass is True
            )
        return "pass" if may_pass else "full"

    def is_known_full(self, key: str, limit: int, window: float) -> bool:
        """Whether it is known without asking that there is no room."""
        return self._limits.is_known_full(key, limit, window)

    def _part(self, limit: int, word: str) -> int:
        return limit // max(1, self._instances()) if word == "divide" else limit

    def counts_lost(self) -> None:
        """The store may have forgotten what it knew."""
        self._limits.forget_refusals()

    async def ask_cached(self, keys: tuple[bytes, ...]) -> bytes | None:
        """The first result under any of `keys`; the last one is claimed when there is none."""
        if self._store.is_down and self._terms.caches_down == "off":
            return None
        for key in keys:
            found = self._own_cache.cached(key)
            if found is not None:
                return found
        try:
            return await self._shared_cache.cached(*keys)
        except StoreDown:
            return None

    def cached(self, key: bytes) -> bytes | None:
        """What this instance has itself: for code that cannot wait."""
        return self._own_cache.cached(key)

    def store(self, key: bytes, result: bytes, ttl: float) -> None:
        """Keeps a result for `ttl` seconds, here and everywhere."""
        if "caches" not in self._terms.use:
            super().store(key, result, ttl)
        else:
            self._shared_cache.store(key, result, ttl)

    def release(self, key: bytes) -> None:
        """No result will come under `key`."""
        if "caches" in self._terms.use:
            self._shared_cache.release(key)

    def ask_soon(self, keys: tuple[bytes, ...]) -> asyncio.Future[Any]:
        """Begins to ask for a result, in the same round trip as what is asked next."""
        return asyncio.ensure_future(self.ask_cached(keys))
