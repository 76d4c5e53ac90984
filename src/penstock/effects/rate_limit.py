"""How often something may happen: an exact sliding window for each key.

At any moment at most `limit` messages have passed in the last `window` seconds. Refused ones do not count,
so whoever keeps asking is served again as soon as there is room.

The number of keys is bounded, and keys may come from clients, who could invent them to
escape a limit or to fill memory. Therefore:
- a key is forgotten only when its window is empty, which loses nothing: no crowd of new keys can reset
  somebody's count;
- while every place is taken, newcomers share one count for their limit and window: they are held to less
  than they could have had, never to more;
- who then gets a place of its own starts with what the newcomers had used up together.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from penstock import limits

log = logging.getLogger("penstock")

Key = tuple[str, int]  # what the caller calls it, and the limit: another limit is another count


class SlidingWindows:
    """The counts of every rate limit."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        most_keys: int = limits.RATE_KEYS,
        most_stamps: int = limits.RATE_STAMPS,
    ) -> None:
        self._clock = clock
        self._most_keys = most_keys
        self._most_stamps = most_stamps
        # By window, since then the order of the last passage is the order in which counts run empty.
        self._counts: dict[float, OrderedDict[Key, deque[float]]] = {}
        self._shared: dict[tuple[int, float], deque[float]] = {}
        self._key_count = 0
        self._stamp_count = 0
        self._has_warned = False
        self._has_overflowed = False

    @property
    def key_count(self) -> int:
        """Keys that have a count of their own now."""
        return self._key_count

    def may_pass(self, key: str, limit: int, window: float) -> bool:
        """Whether one more may pass under `key`; if so, it is counted."""
        limit = min(limit, limits.RATE_MOST)
        now = self._clock()
        if limit < 1:
            return False
        if window <= 0:
            return True
        if self._stamp_count >= self._most_stamps:
            self._forget_empty(now)
        counts = self._counts.get(window)
        stamps = None if counts is None else counts.get((key, limit))
        if counts is None or stamps is None:
            return self._pass_newcomer((key, limit), window, now)
        self._expire(stamps, window, now)
        if not self._stamp(stamps, limit, now):
            return False
        counts.move_to_end((key, limit))
        return True

    def _pass_newcomer(self, key: Key, window: float, now: float) -> bool:
        self._forget_empty(now)
        limit = key[1]
        shared = self._shared.get((limit, window))
        if self._key_count >= self._most_keys:
            if not self._has_warned:
                self._has_warned = True
                log.warning("%d rate limits are in use; new ones share one count.", self._key_count)
            if shared is None:
                shared = self._shared[limit, window] = deque()
            return self._stamp(shared, limit, now)
        used = shared or ()
        if self._stamp_count + len(used) >= self._most_stamps:
            return self._refuse_all()
        stamps = self._counts.setdefault(window, OrderedDict())[key] = deque(used)
        self._key_count += 1
        self._stamp_count += len(used)
        return self._stamp(stamps, limit, now)

    def _stamp(self, stamps: deque[float], limit: int, now: float) -> bool:
        if len(stamps) >= limit:
            return False
        if self._stamp_count >= self._most_stamps:
            return self._refuse_all()
        stamps.append(now)
        self._stamp_count += 1
        return True

    def _refuse_all(self) -> bool:
        if not self._has_overflowed:
            self._has_overflowed = True
            log.warning("Rate limits remember %d messages; what they watch is refused.", self._stamp_count)
        return False

    def _expire(self, stamps: deque[float], window: float, now: float) -> None:
        while stamps and now - stamps[0] >= window:
            stamps.popleft()
            self._stamp_count -= 1

    def _forget_empty(self, now: float) -> None:
        """Drops every count that has run empty; each is met once, so this costs what adding it did."""
        for window in tuple(self._counts):
            counts = self._counts[window]
            while counts:
                key, stamps = next(iter(counts.items()))
                if stamps and now - stamps[-1] < window:
                    break
                self._stamp_count -= len(stamps)
                self._key_count -= 1
                del counts[key]
            if not counts:
                del self._counts[window]
        for place in tuple(self._shared):
            self._expire(self._shared[place], place[1], now)
            if not self._shared[place]:
                del self._shared[place]
