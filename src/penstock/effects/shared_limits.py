"""Limits that hold over all instances together.

The counts are in the store. A refusal says when there may be room again; until then refusals cost nothing. An
instance has at most so many keys there at a time: newcomers beyond that share one.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable

from penstock import limits
from penstock.effects.leases import Leases
from penstock.state.seals import Seals
from penstock.state.store import Admission, Store

log = logging.getLogger("penstock")


class SharedLimits:
    """The counts of every rate limit, kept by the store."""

    def __init__(
        self,
        store: Store,
        seals: Seals,
        clock: Callable[[], float],
        instances: Callable[[], int] = lambda: 1,
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
        self._own_names: dict[tuple[str, float], bytes] = {}  # what was asked for a moment ago
        self._leases = Leases(instances, most_keys)
        self._has_warned = False

    def ask(
        self, key: str, limit: int, window: float, then: Callable[[bool | None], None], lease: float = 0.0
    ) -> None:
        """Calls `then` with whether one more may pass under `key`; if so, it is counted. None: nobody can
        tell. With a `lease`, some may be had in advance for so many seconds."""
        limit = min(limit, limits.RATE_MOST)
        if limit < 1 or window <= 0:
            then(limit >= 1)
            return
        now = self._clock()
        name = self._name(key, window, now)
        if now < self._full.get((name, limit), 0.0):
            then(False)
            return
        more = 0
        if lease:
            if self._leases.take(name, lease, now):
                then(True)
                return
            more = self._leases.wanted(name, limit, window, now)

        def admitted(admission: Admission | None) -> None:
            if more:
                self._leases.lend(name, 0 if admission is None else admission.lent, now + lease)
            if admission is not None:
                self._note(name, limit, window, admission, now)
            then(None if admission is None else admission.may_pass)

        self._store.admit(name, limit, window, admitted, lease, more)

    def _note(self, name: bytes, limit: int, window: float, admission: Admission, asked: float) -> None:
        self._touch(name, window, self._clock())
        if admission.may_pass:
            return
        # From when it was asked, and not from now: an answer that was long on its way would shut others out
        # while there is room.
        self._full[name, limit] = asked + admission.wait
        self._full.move_to_end((name, limit))
        if len(self._full) > self._most_keys:
            self._full.popitem(last=False)

    def is_known_full(self, key: str, limit: int, window: float) -> bool:
        """Whether it is known without asking that there is no room."""
        now = self._clock()
        return now < self._full.get((self._name(key, window, now), min(limit, limits.RATE_MOST)), 0.0)

    def forget_refusals(self) -> None:
        """The store may have lost its counts: it is asked again."""
        self._full.clear()
        self._leases.forget()

    def _name(self, key: str, window: float, now: float) -> bytes:
        own = self._own_names.get((key, window))
        if own is None:
            if len(self._own_names) >= self._most_keys:
                self._own_names.clear()
            own = self._own_names[key, window] = self._seals.name("limit", key, repr(window))
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
