"""Results that one instance has got answer at all of them.

A value carries a seal that binds it to its key: who can write to the store can make it forget, never make
it answer. Each instance has a copy in memory until the same time. When nobody has the result, one instance
asks the upstream and the others wait a little for it.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from collections.abc import Awaitable, Callable

from penstock.effects.cache import ResultCache
from penstock.state.seals import Seals
from penstock.state.store import Found, Store, StoreDown

log = logging.getLogger("penstock")

CLAIM_SECONDS = 2.0
"""So long others wait for whoever asks the upstream."""
MOST_BYTES = 1024 * 1024
"""What is larger is kept in memory only."""

_UNTIL = struct.Struct(">d")  # seconds since the epoch
_MAKING = b"?"
_LOOK_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.1)


class SharedCache:
    """The kept results."""

    def __init__(
        self,
        store: Store,
        seals: Seals,
        local: ResultCache,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._seals = seals
        self._local = local
        self._wall = wall
        self._clock = clock
        self._writing: set[asyncio.Task[None]] = set()
        self._finding: dict[bytes, asyncio.Task[bytes | None]] = {}

    async def cached(self, private: bytes, key: bytes) -> bytes | None:
        """The result under `private` or `key`; None when whoever asks is to get it. Raises StoreDown.

        Those who ask here at the same time ask the store once; all but one of them wait for the result."""
        found = self._local.cached(key)
        if found is not None:
            return found
        own_name = self._seals.name("cache", private)
        asked = self._store.get(own_name)  # all of it goes out together
        ends_at = self._clock() + CLAIM_SECONDS
        under_way = self._finding.get(key)
        everybodys = asyncio.ensure_future(
            self._begin(key, ends_at) if under_way is None else self._after(under_way, key, ends_at)
        )
        try:
            sealed = await asked
            own = None if sealed is None or sealed == _MAKING else self._opened(private, sealed)
            if own is None:
                return await everybodys
        finally:
            everybodys.cancel()
        self.release(key)
        return own

    def _begin(self, key: bytes, ends_at: float) -> Awaitable[bytes | None]:
        """Asks the store, for everybody here who wants it."""
        first = self._store.find(self._seals.name("cache", key), CLAIM_SECONDS)
        work = asyncio.get_running_loop().create_task(self._find(key, ends_at, first))
        self._finding[key] = work
        work.add_done_callback(lambda done: self._found(key, done))
        return asyncio.shield(work)

    async def _after(self, under_way: asyncio.Task[bytes | None], key: bytes, ends_at: float) -> bytes | None:
        """What somebody else here has asked for; if that brings nothing, we ask."""
        while True:
            await asyncio.wait((under_way,), timeout=max(0.0, ends_at - self._clock()))
            found = self._local.cached(key)
            if found is not None:
                return found
            if self._clock() >= ends_at:
                return None
            again = self._finding.get(key)
            if again is None:
                return await self._begin(key, ends_at)
            under_way = again

    def _found(self, key: bytes, done: asyncio.Task[bytes | None]) -> None:
        del self._finding[key]
        if not done.cancelled():
            done.exception()  # whoever asked may be gone

    async def _find(self, key: bytes, ends_at: float, asked: Awaitable[Found]) -> bytes | None:
        name = self._seals.name("cache", key)
        looks = 0
        while True:
            found = await asked
            if found.value is not None:
                result = self._opened(key, found.value)
                if result is None:
                    # Somebody wrote there who may not: what is there is nobody's answer.
                    log.warning("A cached result in Redis was changed by somebody else; it is not used.")
                    await self._store.release(name)
                return result
            if found.is_ours or self._clock() >= ends_at:
                return None
            await asyncio.sleep(_LOOK_SECONDS[min(looks, len(_LOOK_SECONDS) - 1)])
            looks += 1
            kept = self._local.cached(key)
            if kept is not None:
                return kept
            asked = self._store.find(name, CLAIM_SECONDS)

    def _opened(self, key: bytes, value: bytes) -> bytes | None:
        plain = self._seals.maybe_unwrapped(value, "cache", key)
        if plain is None or len(plain) < _UNTIL.size:
            return None
        left = _UNTIL.unpack_from(plain)[0] - self._wall()
        result = plain[_UNTIL.size :]
        if left > 0:
            self._local.store(key, result, left)
        return result

    def store(self, key: bytes, result: bytes, ttl: float) -> None:
        """Keeps a result here and, soon, everywhere."""
        self._local.store(key, result, ttl)
        if len(result) > MOST_BYTES:
            self.release(key)
            return
        sealed = self._seals.wrapped(_UNTIL.pack(self._wall() + ttl) + result, "cache", key)
        self._soon(self._store.keep(self._seals.name("cache", key), sealed, ttl))

    def release(self, key: bytes) -> None:
        """The result will not come: the next to ask gets it."""
        self._soon(self._store.release(self._seals.name("cache", key)))

    def _soon(self, work: object) -> None:
        async def do() -> None:
            try:
                await work  # type: ignore[misc]
            except StoreDown as why:
                log.debug("A result was not kept for others: %s", why)

        task = asyncio.get_running_loop().create_task(do())
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
