"""Requests that wait for their answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from penstock import limits
from penstock.relay.contracts import Route
from penstock.wire.ids import exact_key, id_key


class Exchange(Struct):
    """One request and, when it comes, its answer."""

    id_token: bytes
    method: str
    route: Route | None = None
    meta: bytes | None = None  # what a modern request says of its sender, while the catalog is not there
    asked: Any = None  # what the rules remember of it (relay/review.Asked), where they were asked

    @property
    def size(self) -> int:
        """Bytes that its sender has chosen, about."""
        return len(self.id_token) + len(self.method) + (0 if self.meta is None else len(self.meta))


class PendingTable:
    """The requests of one direction of one session that were passed on and not yet answered.

    Past so many, or so many bytes that are kept of them, the oldest are forgotten.
    """

    def __init__(self, capacity: int = limits.PENDING_REQUESTS) -> None:
        self._capacity = capacity
        self._exchanges: dict[bytes, Exchange] = {}
        self._bytes = 0
        # Keys of ids that a peer may give back less exactly, oldest first.
        self._rounded: dict[bytes, dict[bytes, None]] = {}

    def __len__(self) -> int:
        return len(self._exchanges)

    def __iter__(self) -> Iterator[Exchange]:
        return iter(self._exchanges.values())

    def open(self, exchange: Exchange) -> bool:
        """Remembers a request; False when its id is already waiting for an answer."""
        key = exact_key(exchange.id_token)
        if key in self._exchanges:
            return False
        if len(self._exchanges) >= self._capacity:
            self._take_out(next(iter(self._exchanges)))
        self._bytes += exchange.size
        while self._bytes > limits.PENDING_BYTES and self._exchanges:
            self._take_out(next(iter(self._exchanges)))
        self._exchanges[key] = exchange
        rounded = id_key(exchange.id_token)
        if rounded != key:
            self._rounded.setdefault(rounded, {})[key] = None
        return True

    def close(self, id_token: bytes) -> Exchange | None:
        """The request that `id_token` answers, forgotten from now on."""
        key = exact_key(id_token)
        if key in self._exchanges:
            return self._take_out(key)
        alike = self._rounded.get(id_key(id_token))
        return self._take_out(next(iter(alike))) if alike else None

    def find(self, id_token: bytes) -> Exchange | None:
        """The request that waits under `id_token`."""
        return self._exchanges.get(exact_key(id_token))

    def close_all(self) -> list[Exchange]:
        """Everything that waits, forgotten from now on."""
        waiting = list(self._exchanges.values())
        self._exchanges.clear()
        self._rounded.clear()
        self._bytes = 0
        return waiting

    def _take_out(self, key: bytes) -> Exchange:
        exchange = self._exchanges.pop(key)
        self._bytes -= exchange.size
        if self._rounded:
            rounded = id_key(exchange.id_token)
            alike = self._rounded.get(rounded)
            if alike is not None:
                alike.pop(key, None)
                if not alike:
                    del self._rounded[rounded]
        return exchange


class RecentIds:
    """The last ids that were answered here, so that what refers to them stays here too."""

    def __init__(self, capacity: int = limits.REFUSED_IDS) -> None:
        self._order: deque[bytes] = deque()
        self._keys: set[bytes] = set()
        self._capacity = capacity

    def add(self, id_token: bytes) -> None:
        """Remembers an id, forgetting the oldest when there are too many."""
        key = _mark(id_token)
        if key not in self._keys:
            self._keys.add(key)
            self._order.append(key)
            if len(self._order) > self._capacity:
                self._keys.discard(self._order.popleft())

    def __contains__(self, id_token: bytes) -> bool:
        return _mark(id_token) in self._keys

    def discard(self, id_token: bytes) -> None:
        """Forgets an id that is now in use for something that was passed on."""
        if not self._keys:
            return
        key = _mark(id_token)
        if key in self._keys:
            self._keys.discard(key)
            self._order.remove(key)


def _mark(id_token: bytes) -> bytes:
    """What stands for an id: itself, or what is as good where it is only asked whether it was there."""
    key = id_key(id_token)
    return key if len(key) <= _SHORT_BYTES else b"%d" % hash(key)


_SHORT_BYTES = 64
