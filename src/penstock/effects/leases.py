"""Places of a shared limit that an instance has in hand for a moment, so that it need not ask for each.

What is lent counts in the store as used at the last moment at which it may be, so no window ever has more
than the limit. What is lent and not used is lost to everybody: so an instance has at most one lease of a
limit at a time, of no more than half of what it used in the time before and a hundredth of its part of the
limit; and when an eightieth of that part was lost in a window, there is none until the next.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from penstock import limits

_MOST = 64  # the script moves so many stamps for whoever comes after
_SIZE, _LOSS = 0.01, 0.0125


class _Lease:
    """One limit as this instance uses it."""

    __slots__ = ("began", "count", "is_asked", "last", "left", "lost", "lost_since", "until")

    def __init__(self, now: float) -> None:
        self.began = now  # of the time in which is counted
        self.count = 0
        self.last = 0  # what was used in the time before
        self.left = 0  # of what is lent
        self.until = 0.0
        self.is_asked = False
        self.lost = 0
        self.lost_since = now


class Leases:
    """What is lent to this instance."""

    def __init__(self, instances: Callable[[], int], most_keys: int = limits.RATE_KEYS) -> None:
        self._instances = instances
        self._most_keys = most_keys
        self._by_name: OrderedDict[bytes, _Lease] = OrderedDict()

    def take(self, name: bytes, seconds: float, now: float) -> bool:
        """Uses one that is in hand, if there is one."""
        lease = self._by_name.get(name)
        if lease is None:
            lease = self._by_name[name] = _Lease(now)
            if len(self._by_name) > self._most_keys:
                self._by_name.popitem(last=False)
        if now - lease.began >= seconds:
            is_next = now - lease.began < 2 * seconds
            lease.began, lease.last, lease.count = now, lease.count if is_next else 0, 0
        lease.count += 1
        if not lease.left or now >= lease.until:
            return False
        lease.left -= 1
        return True

    def wanted(self, name: bytes, limit: int, window: float, now: float) -> int:
        """How many to ask for, beside the one that is needed; what is asked for must be answered."""
        lease = self._by_name[name]
        if lease.is_asked or now < lease.until:
            return 0
        if now - lease.lost_since > window:
            lease.lost, lease.lost_since = 0, now
        lease.lost, lease.left = lease.lost + lease.left, 0
        part = limit / max(1, self._instances())
        size = min(lease.last // 2, int(part * _SIZE), int(part * _LOSS) - lease.lost, _MOST)
        lease.is_asked = size > 0
        return max(0, size)

    def lend(self, name: bytes, count: int, until: float) -> None:
        """What was asked for has come, or not."""
        lease = self._by_name.get(name)
        if lease is not None:
            lease.is_asked, lease.left, lease.until = False, count, until

    def forget(self) -> None:
        """The store may have lost its counts."""
        self._by_name.clear()
