"""What several instances keep together: the contract that memory and Redis both fulfil.

Every method is one step: nobody sees half of it. `find` and `get` are on their way before they are waited
for: what is asked for together goes out together. Keys and fields are bytes that whoever calls has made
unreadable; values are whatever the caller put there, and may have been changed by others who can write to the
same place: whoever needs to know seals them (`state/seals`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol


class StoreDown(Exception):
    """The store cannot be asked now. The words are for the log."""


class Admission(NamedTuple):
    """What became of a demand: whether it may pass, and if not, in how many seconds there may be room."""

    may_pass: bool
    wait: float
    lent: int = 0  # so many more may pass, if they do so soon


class Found(NamedTuple):
    """What is kept under a key. Without a value: whether whoever asked is to make it, or another is."""

    value: bytes | None
    is_ours: bool = False


class Store(Protocol):
    """Keeps counts, values and records for all instances. Every method raises StoreDown."""

    @property
    def is_down(self) -> bool:
        """Whether nobody is asked now."""

    def admit(
        self,
        key: bytes,
        limit: int,
        window: float,
        then: Callable[[Admission | None], None],
        lease: float = 0.0,
        more: int = 0,
    ) -> None:
        """Counts one more under `key`, unless that makes more than `limit` within any `window` seconds. Calls
        `then` with what became of it, or with None when the store is down; never raises. `more` are wanted
        besides, to be used within `lease` seconds: all of them, or none."""

    def find(self, key: bytes, claim: float) -> Awaitable[Found]:
        """The value under `key`. If there is none, the first to ask has `claim` seconds to make one."""

    def get(self, key: bytes) -> Awaitable[bytes | None]:
        """The value under `key`, claimed by nobody."""

    async def keep(self, key: bytes, value: bytes, ttl: float) -> None:
        """Keeps a value for `ttl` seconds."""

    async def drop(self, key: bytes) -> None:
        """Forgets what is under `key`."""

    async def release(self, key: bytes) -> None:
        """Gives up a claim: the next to ask may make the value."""

    async def read(self, key: bytes, fields: Sequence[bytes]) -> list[bytes | None]:
        """Fields of the record under `key`."""

    async def write(
        self,
        key: bytes,
        values: Mapping[bytes, bytes],
        adds: Mapping[bytes, float],
        drops: Sequence[bytes],
        ttl: float,
    ) -> None:
        """Changes the record under `key`: drops fields, sets others, adds to numbers; all or nothing."""

    async def take(self, key: bytes, field: bytes) -> bytes | None:
        """A field of a record, gone from now on: only one caller gets it."""

    async def enlist(self, key: bytes, name: bytes, seconds: float) -> list[bytes]:
        """Puts `name` on a list for so many seconds; everybody who is on it."""

    async def listed(self, key: bytes) -> list[bytes]:
        """Everybody who is on the list, or was a moment ago."""

    async def strike(self, key: bytes, name: bytes) -> None:
        """Takes `name` from the list."""
