"""The store in Redis. What is asked in one turn of the loop goes out in one round trip.

While one is under way, further demands gather; those for the same limit become one. A decision has one
deadline: whoever waits longer is told that the store is down. Nobody who stops waiting stops a command: it
runs in a task of the store's own, so that no reply is left unread on a connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.state.circuit import Circuit
from penstock.state.redis_link import Command, RedisLink
from penstock.state.redis_scripts import ADMIT, ENLIST, FIND, RELEASE, SHA, TAKE, WRITE
from penstock.state.store import Admission, Found, Store, StoreDown

log = logging.getLogger("penstock")

_WANT = 64  # demands for one key in one call
_BATCH = 512  # commands in one round trip
_UNDER_WAY = 8  # round trips that nobody waits for any more
_MAKING = b"?"


class _Ask:
    """One command and those who wait for its reply. A limit is asked for several at once."""

    __slots__ = ("command", "futures", "script")

    def __init__(self, command: Command, script: str = "") -> None:
        self.command = command
        self.script = script
        self.futures: list[asyncio.Future[Any]] = []

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
        self._is_busy = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._circuit = Circuit(self._look, on_back)
        self.round_trips = 0

    @property
    def is_down(self) -> bool:
        """Whether nobody asks Redis now."""
        return self._circuit.is_open

    def give_up(self, why: str) -> None:
        """It was not there at the start: it is looked for from now on."""
        self._circuit.open(why)

    # --- what is asked -----------------------------------------------------------------------------------

    async def admit(self, key: bytes, limit: int, window: float) -> Admission:
        """Counts one more under `key`, unless that makes more than `limit` within `window` seconds."""
        future = self._ask_limit(key, limit, round(window * 1e6))
        place, (admitted, wait) = await self._reply(future)
        return Admission(place < admitted, wait / 1e6)

    async def find(self, key: bytes, claim: float) -> Found:
        """The value under `key`; else the first to ask has `claim` seconds to make one."""
        reply = await self._run((1, key, _milliseconds(claim)), FIND)
        if isinstance(reply, bytes) and reply != _MAKING:
            return Found(reply)
        return Found(None, is_ours=reply == 0)

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

    async def get(self, key: bytes) -> bytes | None:
        """The plain value under `key`."""
        reply: bytes | None = await self._run(("GET", key))
        return reply

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

    def _ask_limit(self, key: bytes, limit: int, window: int) -> asyncio.Future[Any]:
        self._refuse_if_down()
        number = 0
        while True:
            name = (key, limit, window, number)
            ask = self._waiting.get(name)
            if ask is None:
                ask = self._waiting[name] = _Ask((1, key, limit, window), ADMIT)
            if len(ask.futures) < _WANT:
                break
            number += 1
        future: asyncio.Future[Any] = self._loop.create_future()
        ask.futures.append(future)
        self._hurry()
        return future

    def _refuse_if_down(self) -> None:
        if self._circuit.is_open:
            raise StoreDown("Redis is down")

    async def _run(self, command: Command, script: str = "") -> Any:
        self._refuse_if_down()
        ask = self._waiting[object()] = _Ask(command, script)
        future: asyncio.Future[Any] = self._loop.create_future()
        ask.futures.append(future)
        self._hurry()
        return (await self._reply(future))[1]

    async def _reply(self, future: asyncio.Future[Any]) -> Any:
        """The reply, unless it takes too long. Whoever is cancelled here cancels nothing but the waiting."""
        await asyncio.wait((future,), timeout=self._timeout)
        if not future.done():
            future.cancel()
            raise StoreDown("Redis took too long")
        return future.result()

    def _hurry(self) -> None:
        if not self._is_due and not self._is_busy:
            self._is_due = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._is_due = False
        if self._is_busy or not self._waiting:
            return
        if len(self._tasks) >= _UNDER_WAY:  # all of them hang
            self._fail(list(self._waiting.values()), "too much is under way")
            self._waiting = {}
            return
        names = list(self._waiting)[:_BATCH]
        batch = [self._waiting.pop(name) for name in names]
        self._is_busy = True
        task = self._loop.create_task(self._round_trip(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _round_trip(self, batch: list[_Ask]) -> None:
        for ask in batch:
            if ask.script is ADMIT:
                ask.command = (*ask.command, len(ask.futures))
        work = self._loop.create_task(self._link.run([ask.words(is_known=True) for ask in batch]))
        self._tasks.add(work)
        work.add_done_callback(self._tasks.discard)
        self.round_trips += 1
        try:
            await asyncio.wait((work,), timeout=self._timeout)
            self._is_busy = False
            if self._waiting:
                self._hurry()
            if not work.done():
                # It ends by itself when its own time is over; who waits is told now.
                work.add_done_callback(_forget_failure)
                self._fail(batch, "it took too long")
                return
            await self._deliver(batch, work.result())
        except Exception as why:
            self._is_busy = False
            self._fail(batch, _words(why))

    async def _deliver(self, batch: list[_Ask], replies: list[Any]) -> None:
        unknown = [
            place
            for place, reply in enumerate(replies)
            if isinstance(reply, Exception) and type(reply).__name__ == "NoScriptError"
        ]
        if unknown:  # a server that was started anew has forgotten every script
            told = await self._link.run([batch[place].words(is_known=False) for place in unknown])
            for place, reply in zip(unknown, told, strict=True):
                replies[place] = reply
        failure: Exception | None = None
        for ask, reply in zip(batch, replies, strict=True):
            if isinstance(reply, Exception):
                failure = reply
                self._tell_down([ask], _words(reply))
                continue
            for place, future in enumerate(ask.futures):
                if not future.done():
                    future.set_result((place, reply))
        if failure is None:
            self._circuit.succeeded()
        else:
            self._count_failure(_words(failure))

    def _fail(self, batch: list[_Ask], why: str) -> None:
        self._tell_down(batch, why)
        self._count_failure(why)

    def _count_failure(self, why: str) -> None:
        self._circuit.failed(why)
        # A server that was demoted or replaced stays behind its old connections.
        task = self._loop.create_task(self._link.drop_connections())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_forget_failure)

    def _tell_down(self, batch: list[_Ask], why: str) -> None:
        for ask in batch:
            for future in ask.futures:
                if not future.done():
                    future.set_exception(StoreDown(why))
                    future.exception()  # nobody may be waiting any more

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
        self._circuit.close()
        self._fail_quietly()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            async with asyncio.timeout(1.0):
                await self._link.close()
        except Exception as why:
            log.debug("Redis was not left in peace: %s", why)

    def _fail_quietly(self) -> None:
        self._tell_down(list(self._waiting.values()), "we are closing")
        self._waiting = {}


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _words(why: Exception) -> str:
    return type(why).__name__


def _forget_failure(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()
