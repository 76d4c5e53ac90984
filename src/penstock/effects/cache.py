"""Results kept for the same question asked again, bounded by number, by bytes and by age.

What makes two questions the same is decided by whoever makes the key, the rights of the asker
included: a result made for one client is never given to another. Here a key is bytes.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from penstock import limits


class ResultCache:
    """The kept results; the longest unused ones go first."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        most_entries: int = limits.CACHE_ENTRIES,
        most_bytes: int = limits.CACHE_BYTES,
    ) -> None:
        self._clock = clock
        self._most_entries = most_entries
        self._most_bytes = most_bytes
        self._entries: OrderedDict[bytes, tuple[float, bytes]] = OrderedDict()  # key: (until, result)
        self._bytes = 0

    @property
    def entry_count(self) -> int:
        """How many results are kept, those that are too old and not yet met again included."""
        return len(self._entries)

    @property
    def byte_count(self) -> int:
        """What the kept results and their keys take."""
        return self._bytes

    def cached(self, key: bytes) -> bytes | None:
        """The result kept under `key`, unless it is too old."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        until, result = entry
        if self._clock() >= until:
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        return result

    def store(self, key: bytes, result: bytes, ttl: float) -> None:
        """Keeps `result` for `ttl` seconds; one that would push out most of the others is not kept."""
        if key in self._entries:
            self._drop(key)
        size = len(key) + len(result)
        if ttl <= 0 or size * 4 > self._most_bytes or self._most_entries < 1:
            return
        while len(self._entries) >= self._most_entries or self._bytes + size > self._most_bytes:
            self._drop(next(iter(self._entries)))
        self._entries[key] = self._clock() + ttl, result
        self._bytes += size

    def _drop(self, key: bytes) -> None:
        _, result = self._entries.pop(key)
        self._bytes -= len(key) + len(result)
