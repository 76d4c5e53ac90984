"""The store in Redis. What is asked in one turn of the loop goes out in one round trip.

While one is under way, further demands gather; those for the same limit become one. A decision has one
deadline: whoever waits longer is told that the store is down, and the connection is given up, so that no
reply is taken for another's. Nobody who stops waiting stops a command: it runs in a task of the store's own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from penstock.state.circuit import Circuit
from penstock.state.redis_link import Command, RedisLink
from penstock.state.redis_pipe import Replies
from penstock.state.redis_scripts import ADMIT, ENLIST, FIND, RELEASE, SHA, TAKE, WRITE
from penstock.state.store import Admission, Found, Store, StoreDown

log = logging.getLogger("penstock")

_WANT = 64  # demands for one key in one call
_BATCH = 512  # commands in one round trip
_MAKING = b"?"


class _Ask:
    """One command and those who wait for its reply. A limit is asked for several at once."""

    __slots__ = ("command", "lease", "more", "script", "since", "waiters")

    def __init__(self, since: float, command: Command, script: str = "") -> None:
        self.since = since
        self.command = command
        self.script = script
        self.lease = self.more = 0
        self.waiters: list[Callable[[Any], None]] = []

    def answer(self, reply: Any) -> None:
        """Tells everybody who waits; of a limit, the first so many may pass."""
        for place, waiter in enumerate(self.waiters):
            waiter(Admission(place < reply[0], reply[1] / 1e6, reply[2]) if self.script is ADMIT else reply)

    def fail(self, why: str) -> None:
        """Tells everybody that there will be no reply."""
        for waiter in self.waiters:
            waiter(None if self.script is ADMIT else StoreDown(why))

    def words(self, is_known: bool) -> Command:
        """The command as it is sent: a script by its name, where Redis knows it."""
        if not self.script:
            return self.command
        return (
            ("EVALSHA", SHA[self.script], *self.command) if is_known else ("EVAL", self.script, *self.command)
        )


class RedisStore(Store):
    """Counts, values and records in Redis."""

    def __init__(
        self, link: RedisLink, timeout: float, probe: bytes, on_back: Callable[[], None] = lambda: None
    ) -> None:
        """`probe` is a key to see whether writes are taken."""
        self._link = link
        self._probe = probe
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[object, _Ask] = {}
        self._is_due = False
        self._is_closed = False
        self._turn: object = None  # the round trip under way
        # What makes an end of it, and what it asks.
        self._under_way: tuple[Callable[[], object], list[_Ask]] = (lambda: None, [])
        self._tasks: set[asyncio.Task[Any]] = set()
        self._circuit = Circuit(self._look, on_back)

    @property
    def is_down(self) -> bool:
        """Whether nobody asks Redis now."""
        return self._circuit.is_open

    def give_up(self, why: str) -> None:
        """It was not there at the start: it is looked for from now on."""
        self._circuit.open(why)

    # --- what is asked -----------------------------------------------------------------------------------

    def admit(
        self,
        key: bytes,
        limit: int,
        window: float,
        then: Callable[[Admission | None], None],
        lease: float = 0.0,
        more: int = 0,
    ) -> None:
        """Counts one more under `key`, unless that makes more than `limit` within `window` seconds."""
        if self._circuit.is_open:
            then(None)
            return
        number, micros = 0, round(window * 1e6)
        while True:
            name = (key, limit, micros, number)
            ask = self._waiting.get(name)
            if ask is None:
                ask = self._waiting[name] = _Ask(self._loop.time(), (1, key, limit, micros), ADMIT)
            if len(ask.waiters) < _WANT:
                break
            number += 1
        ask.waiters.append(then)
        if more:
            ask.lease, ask.more = round(lease * 1e6), more
        self._hurry()

    def find(self, key: bytes, claim: float) -> asyncio.Future[Found]:
        """The value under `key`; else the first to ask has `claim` seconds to make one."""
        return self._begin((1, key, _milliseconds(claim)), FIND, _found)

    async def keep(self, key: bytes, value: bytes, ttl: float) -> None:
        """Keeps a value for `ttl` seconds."""
        await self._run(("SET", key, value, "PX", _milliseconds(ttl)))

    async def release(self, key: bytes) -> None:
        """Gives up a claim."""
        await self._run((1, key), RELEASE)

    async def read(self, key: bytes, fields: Sequence[bytes]) -> list[bytes | None]:
        """Fields of the record under `key`."""
        reply = await self._run(("HMGET", key, *fields)) if fields else []
        return list(reply)

    async def write(
        self,
        key: bytes,
        values: Mapping[bytes, bytes],
        adds: Mapping[bytes, float],
        drops: Sequence[bytes],
        ttl: float,
    ) -> None:
        """Changes the record under `key`, all or nothing."""
        words: list[str | bytes | int | float] = [
            1,
            key,
            _milliseconds(ttl),
            len(drops),
            len(values),
            len(adds),
        ]
        words += drops
        for field, value in values.items():
            words += [field, value]
        for field, number in adds.items():
            words += [field, repr(number)]
        await self._run(tuple(words), WRITE)

    async def take(self, key: bytes, field: bytes) -> bytes | None:
        """A field of a record, gone from now on."""
        reply: bytes | None = await self._run((1, key, field), TAKE)
        return reply

    async def enlist(self, key: bytes, name: bytes, seconds: float) -> list[bytes]:
        """Puts `name` on a list for so many seconds; everybody who is on it."""
        return list(await self._run((1, key, name, _milliseconds(seconds)), ENLIST))

    async def listed(self, key: bytes) -> list[bytes]:
        """Everybody who is on the list, or was a moment ago."""
        return list(await self._run(("ZRANGE", key, 0, 4095)))

    async def strike(self, key: bytes, name: bytes) -> None:
        """Takes `name` from the list."""
        await self._run(("ZREM", key, name))

    def get(self, key: bytes) -> asyncio.Future[bytes | None]:
        """The plain value under `key`."""
        return self._begin(("GET", key))

    async def drop(self, key: bytes) -> None:
        """Forgets what is under `key`."""
        await self._run(("DEL", key))

    async def clock(self) -> float:
        """The server's own time."""
        seconds, micros = await self._run(("TIME",))
        return int(seconds) + int(micros) / 1e6

    async def run_id(self) -> str:
        """Which run of the server answers. Raises StoreDown."""
        try:
            return (await self._link.facts()).run_id
        except Exception as why:
            raise StoreDown(type(why).__name__) from None

    # --- how it gets there -------------------------------------------------------------------------------

    async def _run(self, command: Command, script: str = "") -> Any:
        return await self._begin(command, script)

    def _begin(
        self, command: Command, script: str = "", read: Callable[[Any], Any] | None = None
    ) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._circuit.is_open:
            _settle(future, read, StoreDown("Redis is down"))
            return future
        ask = self._waiting[object()] = _Ask(self._loop.time(), command, script)
        ask.waiters.append(partial(_settle, future, read))
        self._hurry()
        return future

    def _hurry(self) -> None:
        if not self._is_due and self._turn is None:
            self._is_due = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._is_due = False
        if self._turn is not None or not self._waiting:
            return
        names = list(self._waiting)[:_BATCH]
        batch = [self._waiting.pop(name) for name in names]
        for ask in batch:
            if ask.script is ADMIT:
                ask.command = (*ask.command, len(ask.waiters), ask.lease, ask.more)
        self._ask(batch, is_known=True)

    def _ask(self, batch: list[_Ask], is_known: bool) -> None:
        self._turn = turn = object()
        words = [ask.words(is_known) for ask in batch]
        cancel = self._link.begin(words, lambda replies: self._answered(turn, late, batch, replies, is_known))
        # Who has waited longest is told in time, and those who came later with it.
        late = self._loop.call_at(batch[0].since + self._timeout, self._too_late, turn, cancel, batch)
        self._under_way = cancel, batch

    def _too_late(self, turn: object, cancel: Callable[[], object], batch: list[_Ask]) -> None:
        cancel()
        self._turn = None
        self._fail(batch, "it took too long")
        if self._waiting:
            self._hurry()

    def _answered(
        self, turn: object, late: asyncio.TimerHandle, batch: list[_Ask], replies: Replies, is_known: bool
    ) -> None:
        if turn is not self._turn:
            return
        late.cancel()
        self._turn = None
        if isinstance(replies, Exception):
            self._fail(batch, _words(replies))
        else:
            self._deliver(batch, replies, is_known)
        if self._waiting:
            self._hurry()

    def _deliver(self, batch: list[_Ask], replies: list[Any], is_known: bool) -> None:
        failure: Exception | None = None
        unknown: list[_Ask] = []
        for ask, reply in zip(batch, replies, strict=True):
            if not isinstance(reply, Exception):
                ask.answer(reply)
            elif is_known and _words(reply) == "NOSCRIPT":
                unknown.append(ask)
            else:
                failure = reply
                ask.fail(_words(reply))
        if unknown:  # a server that was started anew has forgotten every script
            self._ask(unknown, is_known=False)
        if failure is None:
            self._circuit.succeeded()
        else:
            self._count_failure(_words(failure))

    def _fail(self, batch: list[_Ask], why: str) -> None:
        for ask in batch:
            ask.fail(why)
        self._count_failure(why)

    def _count_failure(self, why: str) -> None:
        if self._is_closed:
            return
        self._circuit.failed(why)
        # A server that was demoted or replaced stays behind its old connections.
        task = self._loop.create_task(self._link.drop_connections())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_forget_failure)

    async def _look(self) -> None:
        """Whether it takes writes again; raises when it does not."""
        replies = await self._link.run(
            [("EVAL", "return redis.call('SET', KEYS[1], '1', 'PX', '1000')", 1, self._probe)]
        )
        if isinstance(replies[0], Exception):
            await self._link.drop_connections()
            raise replies[0]

    async def close(self) -> None:
        """Ends what is under way."""
        self._is_closed = True
        self._circuit.close()
        cancel, batch = self._under_way
        cancel()
        waiting, self._waiting = self._waiting, {}
        for ask in (*(batch if self._turn is not None else ()), *waiting.values()):
            ask.fail("we are closing")
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            async with asyncio.timeout(1.0):
                await self._link.close()
        except Exception as why:
            log.debug("Redis was not left in peace: %s", why)


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _words(why: Exception) -> str:
    """What went wrong in one word: Redis begins with one, and the driver names its own."""
    first = str(why).partition(" ")[0]
    if first.isupper():
        return first
    return "NOSCRIPT" if type(why).__name__ == "NoScriptError" else type(why).__name__


def _found(reply: Any) -> Found:
    if isinstance(reply, bytes) and reply != _MAKING:
        return Found(reply)
    return Found(None, is_ours=reply == 0)


def _settle(future: asyncio.Future[Any], read: Callable[[Any], Any] | None, reply: Any) -> None:
    if future.done():
        return  # nobody waits any more
    if isinstance(reply, StoreDown):
        future.set_exception(reply)
        future.exception()  # whoever asked may never come for it
    else:
        future.set_result(reply if read is None else read(reply))


def _forget_failure(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()
