"""Remembering things for a while, in bounded memory.

Sessions are kept under their id, exchanges under session, direction and id. Whatever nobody has touched for
its time to live is forgotten; when there is too much, what was touched longest ago goes first. Cleaning
is done by the way, a little with every new entry, and whenever `clean` is called.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from itertools import islice
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_LOOKED_AT = 64  # so many are looked at for one that can go: a newcomer must not cost more than others
_CLEANED_BY_THE_WAY = 2  # for every new entry so many old ones are looked at, so the table cannot only grow


class _Entry(Generic[V]):
    """What is remembered, and when it was touched."""

    __slots__ = ("touched", "value")

    def __init__(self, touched: float, value: V) -> None:
        self.touched = touched
        self.value = value


class MemoryTable(Generic[K, V]):
    """Values with a time to live and a limit to their number. The clock must never go back."""

    def __init__(
        self,
        capacity: int,
        ttl: float,
        clock: Callable[[], float],
        on_dropped: Callable[[V], None] = lambda value: None,
        is_in_use: Callable[[V], bool] = lambda value: False,
    ) -> None:
        """`on_dropped` gets what is forgotten because it is old or too much; `is_in_use` says what must not
        make room for others."""
        self._is_in_use = is_in_use
        self._on_dropped = on_dropped
        self._capacity = capacity
        self._ttl = ttl
        self._clock = clock
        # When it was touched, and what it is; touched longest ago first.
        self._entries: OrderedDict[K, _Entry[V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, key: K, value: V) -> None:
        """Remembers `value`; forgets what is old or too much."""
        now = self._clock()
        self._drop_old(now, _CLEANED_BY_THE_WAY)
        self._entries[key] = _Entry(now, value)
        self._entries.move_to_end(key)
        while len(self._entries) > self._capacity:
            self._on_dropped(self._entries.popitem(last=False)[1].value)

    def offer(self, key: K, value: V) -> bool:
        """Remembers `value` if there is room, or room can be made without taking it from who uses it."""
        self._drop_old(self._clock(), _CLEANED_BY_THE_WAY)
        if len(self._entries) >= self._capacity:
            oldest = islice(self._entries.items(), _LOOKED_AT)
            idle = next((name for name, one in oldest if not self._is_in_use(one.value)), None)
            if idle is None:
                return False
            self._on_dropped(self._entries.pop(idle).value)
        self.put(key, value)
        return True

    def get(self, key: K) -> V | None:
        """What is remembered under `key`, from now on for its whole time again."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        clock = self._clock  # called as it stands, it would be taken for a method and looked for in the class
        now = clock()
        if now - entry.touched > self._ttl:
            del self._entries[key]
            self._on_dropped(entry.value)
            return None
        entry.touched = now
        self._entries.move_to_end(key)
        return entry.value

    def pop(self, key: K) -> V | None:
        """What was remembered under `key`, forgotten from now on."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        if self._clock() - entry.touched > self._ttl:
            self._on_dropped(entry.value)
            return None
        return entry.value

    def values(self) -> list[V]:
        """Everything that is remembered, touched longest ago first."""
        return [entry.value for entry in self._entries.values()]

    def clean(self) -> int:
        """Forgets everything that is too old; gives back how many that were. To be called now and then."""
        return self._drop_old(self._clock(), len(self._entries))

    def _drop_old(self, now: float, most: int) -> int:
        dropped = 0
        while dropped < most and self._entries:
            key, entry = next(iter(self._entries.items()))
            if now - entry.touched <= self._ttl:
                break
            del self._entries[key]
            self._on_dropped(entry.value)
            dropped += 1
        return dropped
