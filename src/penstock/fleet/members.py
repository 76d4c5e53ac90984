"""Who else is there: each instance puts its name on a list again and again, with what others may know."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import msgspec
from msgspec import Struct, structs

from penstock.state.redis_store import RedisStore
from penstock.state.seals import Seals
from penstock.state.store import StoreDown

log = logging.getLogger("penstock")

BEAT_SECONDS = 2.0
LATE_SECONDS = 6.0
"""An instance that was not heard of for so long counts as gone."""
_CLOCK_SECONDS = 1.0  # a server's clock that moved by more has been set
_KEPT_SECONDS = 60.0  # what is known of one that is gone, for whoever looks at the fleet


class Member(Struct, frozen=True):
    """What an instance says of itself."""

    tag: str
    address: str = ""  # where others bring requests
    version: str = ""
    rules: str = ""  # a digest of its configuration
    sessions: int = 0
    latency: float = 0.0  # of Redis, in seconds
    beat: float = 0.0  # when it was last heard of, by the clock of Redis


class Members:
    """The fleet as one of its instances sees it."""

    def __init__(
        self,
        store: RedisStore,
        seals: Seals,
        describe: Callable[[], Member],
        on_counts_lost: Callable[[], None] = lambda: None,
    ) -> None:
        """`describe` tells what is to be known of this instance; `on_counts_lost` hears when Redis may have
        forgotten what it had."""
        self._store = store
        self._seals = seals
        self._describe = describe
        self._on_counts_lost = on_counts_lost
        self._list = seals.name("members")
        self._tags: frozenset[str] = frozenset()
        self._known: dict[str, tuple[float, Member | None]] = {}
        self._latency = 0.0
        self._run_id = ""
        self._offset: float | None = None
        self._beating: asyncio.Task[None] | None = None

    @property
    def count(self) -> int:
        """How many instances there were when Redis was last asked."""
        return max(1, len(self._tags))

    async def start(self) -> None:
        """Is on the list from now on, if Redis can be asked."""
        await self.beat_now()
        self._beating = asyncio.get_running_loop().create_task(self._beat_on())

    async def beat_now(self) -> None:
        """Tells the others what is new, if Redis can be asked."""
        try:
            await self.beat()
        except StoreDown:
            pass

    async def stop(self) -> None:
        """Leaves the list."""
        if self._beating is None:
            return
        self._beating.cancel()
        tag = self._describe().tag
        try:
            await asyncio.gather(
                self._store.strike(self._list, tag.encode()), self._store.drop(self._facts_key(tag))
            )
        except StoreDown:
            pass

    async def _beat_on(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            try:
                await self.beat()
            except StoreDown:
                continue
            except Exception:
                log.exception("The fleet was not told that we are here.")

    async def beat(self) -> None:
        """Tells the others, and hears who they are. Raises StoreDown."""
        began = time.monotonic()
        now = await self._store.clock()
        self._latency = time.monotonic() - began
        self._look_at_clock(now - time.monotonic())
        own = structs.replace(self._describe(), latency=round(self._latency, 6), beat=now)
        sealed = self._seals.wrapped(msgspec.json.encode(own), "member", own.tag)
        tags, _ = await asyncio.gather(
            self._store.enlist(self._list, own.tag.encode(), LATE_SECONDS),
            self._store.keep(self._facts_key(own.tag), sealed, _KEPT_SECONDS),
        )
        self._tags = frozenset(tag.decode("ascii", "replace") for tag in tags)
        run_id = await self._store.run_id()
        if self._run_id and run_id != self._run_id:
            log.warning(
                "Another Redis answers than before: in one window a limit may let twice as much pass."
            )
            self._on_counts_lost()
        self._run_id = run_id

    def _look_at_clock(self, offset: float) -> None:
        before, self._offset = self._offset, offset
        if before is not None and abs(offset - before) > _CLOCK_SECONDS:
            log.warning(
                "The clock of Redis was set by %+.1f s: a limit may have let twice as much pass.",
                offset - before,
            )

    async def find(self, tag: str) -> Member | None:
        """What is known of an instance that is there. Raises StoreDown."""
        now = time.monotonic()
        known = self._known.get(tag)
        if known is not None and now - known[0] < BEAT_SECONDS:
            return known[1]
        sealed = await self._store.get(self._facts_key(tag))
        member = self._opened(tag, sealed)
        if member is not None and await self._store.clock() - member.beat > LATE_SECONDS:
            member = None
        if len(self._known) > 4096:
            self._known.clear()
        self._known[tag] = now, member
        return member

    def gone(self, tag: str) -> None:
        """Nobody answered there: it is not tried again for a moment."""
        self._known[tag] = time.monotonic(), None

    async def all(self) -> list[Member]:
        """Everybody who is there or was a moment ago. Raises StoreDown."""
        tags = sorted(tag.decode("ascii", "replace") for tag in await self._store.listed(self._list))
        sealed = await asyncio.gather(*(self._store.get(self._facts_key(tag)) for tag in tags))
        found = [self._opened(tag, one) for tag, one in zip(tags, sealed, strict=True)]
        return [member for member in found if member is not None]

    def _facts_key(self, tag: str) -> bytes:
        return self._seals.name("member", tag)

    def _opened(self, tag: str, sealed: bytes | None) -> Member | None:
        raw = None if sealed is None else self._seals.maybe_unwrapped(sealed, "member", tag)
        if raw is None:
            return None
        try:
            return msgspec.json.decode(raw, type=Member)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
