"""Requests that wait for their answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from penstock import limits
from penstock.policy.exchange import Exchange
from penstock.wire.mcp.ids import exact_key, id_key


class ByteShare:
    """What the tables of all sessions together may keep: who comes when it is used up is not remembered."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0


class PendingTable:
    """The requests of one direction of one session that were passed on and not yet answered.

    Past so many, or so many bytes of what is kept of them, the oldest are forgotten.
    """

    def __init__(
        self,
        capacity: int = limits.PENDING_REQUESTS,
        most_bytes: int | None = None,
        share: ByteShare | None = None,
    ) -> None:
        """`share` is what this session and others may keep together."""
        self._capacity = capacity
        self._limit = limits.PENDING_BYTES if most_bytes is None else most_bytes
        self._share = share
        self.exchanges: dict[bytes, Exchange] = {}  # by their keys, oldest first
        self._weight = 0  # of all together
        # Keys of ids that a peer may give back less exactly, oldest first.
        self._rounded: dict[bytes, dict[bytes, None]] = {}

    def __len__(self) -> int:
        return len(self.exchanges)

    def __iter__(self) -> Iterator[Exchange]:
        return iter(self.exchanges.values())

    def open(self, exchange: Exchange) -> bool:
        """Remembers a request; False when its id is already waiting for an answer."""
        key = exchange.id_token
        if not key.isdigit():  # nearly every client counts
            key = exact_key(key)
        if key in self.exchanges:
            return False
        exchange.weight += len(key) + len(exchange.method)
        if exchange.meta is not None:
            exchange.weight += len(exchange.meta)
        self._weight += exchange.weight
        if len(self.exchanges) >= self._capacity or self._weight > self._limit:
            self._forget_oldest()
        share = self._share
        if share is not None:
            if exchange.weight > self._limit or share.used + exchange.weight > share.limit:
                self._weight -= exchange.weight
                exchange.weight = 0
                return True  # there is no room where many sessions keep theirs: it is not remembered
            share.used += exchange.weight
        self.exchanges[key] = exchange
        if len(key) >= _EXACT_DIGITS or not key.isdigit():  # else any peer gives it back as it is
            rounded = id_key(exchange.id_token)
            if rounded == key:
                return True
            self._rounded.setdefault(rounded, {})[key] = None
        return True

    def open_anew(self, exchange: Exchange) -> None:
        """Remembers a request in the place of the one that waits under its id."""
        if self.exchanges:
            self.close(exchange.id_token)
        self.open(exchange)

    def close(self, id_token: bytes) -> Exchange | None:
        """The request that `id_token` answers, forgotten from now on."""
        key = id_token if id_token.isdigit() else exact_key(id_token)
        exchange = self.exchanges.pop(key, None)
        if exchange is None:
            alike = self._rounded.get(id_key(id_token))
            return self._take_out(next(iter(alike))) if alike else None
        # As `_take_out` does, without asking: every answer comes by here.
        self._weight -= exchange.weight
        if self._share is not None:
            self._share.used -= exchange.weight
        if self._rounded:
            self._forget_rounded(exchange.id_token, key)
        return exchange

    def find(self, id_token: bytes) -> Exchange | None:
        """The request that waits under `id_token`."""
        return self.exchanges.get(exact_key(id_token))

    def close_all(self) -> list[Exchange]:
        """Everything that waits, forgotten from now on."""
        waiting = list(self.exchanges.values())
        self.exchanges.clear()
        self._rounded.clear()
        if self._share is not None:
            self._share.used -= self._weight
        self._weight = 0
        return waiting

    def drop(self, exchange: Exchange) -> None:
        """Forgets this very exchange, if it is still here."""
        key = exact_key(exchange.id_token)
        if self.exchanges.get(key) is exchange:
            self._take_out(key)

    def _forget_oldest(self) -> None:
        """Makes room for one more."""
        while self.exchanges and (len(self.exchanges) >= self._capacity or self._weight > self._limit):
            self._take_out(next(iter(self.exchanges)))

    def _take_out(self, key: bytes) -> Exchange:
        exchange = self.exchanges.pop(key)
        self._weight -= exchange.weight
        if self._share is not None:
            self._share.used -= exchange.weight
        if self._rounded:
            self._forget_rounded(exchange.id_token, key)
        return exchange

    def _forget_rounded(self, id_token: bytes, key: bytes) -> None:
        rounded = id_key(id_token)
        alike = self._rounded.get(rounded)
        if alike is not None:
            alike.pop(key, None)
            if not alike:
                del self._rounded[rounded]


class RecentIds:
    """The last ids that were answered here, so that what refers to them stays here too."""

    def __init__(self, capacity: int = limits.REFUSED_IDS) -> None:
        self._order: deque[bytes] = deque()
        self._keys: set[bytes] = set()
        self._capacity = capacity

    def add(self, id_token: bytes) -> None:
        """Remembers an id, forgetting the oldest when there are too many."""
        key = _short_key(id_token)
        if key not in self._keys:
            self._keys.add(key)
            self._order.append(key)
            if len(self._order) > self._capacity:
                self._keys.discard(self._order.popleft())

    def __contains__(self, id_token: bytes) -> bool:
        return _short_key(id_token) in self._keys

    def discard(self, id_token: bytes) -> None:
        """Forgets an id that is now in use for something that was passed on."""
        if not self._keys:
            return
        key = _short_key(id_token)
        if key in self._keys:
            self._keys.discard(key)
            self._order.remove(key)


def _short_key(id_token: bytes) -> bytes:
    """What stands for an id where it need not be given back: an id may be as long as a message."""
    key = id_key(id_token)
    return key if len(key) <= _KEPT_ID_BYTES else b"%d" % hash(key)


_EXACT_DIGITS = 16
_KEPT_ID_BYTES = 256
