"""What modern clients come back with, and whose child gave it out.

Modern clients have no sessions. But in front of a command each instance has a child of its own, and what a
child has handed out (the state of a call that asks something, the id of a task) only that child knows. So an
instance tells the others before the client hears of it; whoever gets it back brings the request there.

It is kept under a digest that holds the address and the rights of the client too: two children may give out
the same id, and neither client shall get at what is the other's.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import Struct

from penstock import limits
from penstock.downstream.mcp_head import read_head
from penstock.net.http_exchange import Request
from penstock.state.memory import MemoryTable
from penstock.state.seals import Seals
from penstock.state.store import Store, StoreDown
from penstock.wire.mcp.eras import Era

log = logging.getLogger("penstock")

_ROUNDED = frozenset((b"tools/call", b"prompts/get", b"resources/read"))
_MOST_TOLD = 10


class _Task(Struct):
    taskId: str | None = None


class _Named(_Task):
    requestState: str | None = None
    task: _Task | None = None


class _Message(Struct):
    """What of a message says whose it is; everything else is read by the gate."""

    params: _Named | None = None
    result: _Named | None = None


class Whereabouts(Protocol):
    """Where instances tell each other what they have given out."""

    async def tell(self, name: bytes) -> None:
        """Others may ask for `name` from now on. Raises StoreDown."""

    async def drop(self, name: bytes) -> None:
        """Nobody will come back with it. Raises StoreDown."""

    async def who_has(self, name: bytes) -> str | None:
        """The tag of the instance that gave it out. Raises StoreDown."""


class Following:
    """What this instance has given out, and where to look for the rest."""

    def __init__(
        self,
        seals: Seals,
        whereabouts: Whereabouts,
        most: int = limits.RATE_KEYS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seals = seals
        self._whereabouts = whereabouts
        # What is told lives twice as long as what is remembered here, so that telling again, half way
        # through, keeps it there for who comes back all the time.
        self._given: MemoryTable[bytes, tuple[bytes, float]] = MemoryTable(
            most, limits.STATE_SECONDS, clock, lambda entry: self._soon(whereabouts.drop(entry[0]))
        )
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures = 0

    def name_of(self, request: Request, value: str) -> bytes:
        """What others know it by."""
        return self._seals.digest("given", request.path, read_head(request).principal, value)

    def is_ours(self, name: bytes) -> bool:
        """Whether this instance gave it out."""
        return self._given.get(name) is not None

    async def who_has(self, name: bytes) -> str | None:
        """The tag of the instance that gave it out. Raises StoreDown."""
        return await self._whereabouts.who_has(name)

    def tell(self, request: Request, raw: bytes, then: Callable[[], None]) -> None:
        """Calls `then` when others know what the answer `raw` gives to whoever sent `request`."""
        given = [self.name_of(request, value) for value in _given_in(raw)]
        names = [name for name in given if self._is_news(name)]
        if names:
            self._soon(self._tell(names, then))
        else:
            then()

    def _is_news(self, name: bytes) -> bool:
        known = self._given.get(name)
        return known is None or self._clock() - known[1] > limits.STATE_SECONDS / 2

    async def _tell(self, names: list[bytes], then: Callable[[], None]) -> None:
        for name in names:
            self._given.put(name, (name, self._clock()))
        try:
            await asyncio.gather(*(self._whereabouts.tell(name) for name in names))
        except StoreDown:
            self._failures += 1
            if self._failures <= _MOST_TOLD:
                log.warning("Others could not be told of a call that will go on: only this instance can.")
        finally:
            then()

    def _soon(self, work: object) -> None:
        async def do() -> None:
            try:
                await work  # type: ignore[misc]
            except StoreDown as why:
                log.debug("Others were not told: %s", why)

        task = asyncio.get_running_loop().create_task(do())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class StoredWhereabouts:
    """In the store: who gave what out, sealed."""

    def __init__(self, store: Store, seals: Seals, tag: str) -> None:
        self._store = store
        self._seals = seals
        self._tag = tag

    async def tell(self, name: bytes) -> None:
        """Keeps our tag there."""
        sealed = self._seals.wrapped(self._tag.encode(), "given", name)
        await self._store.keep(self._key(name), sealed, 2 * limits.STATE_SECONDS)

    async def drop(self, name: bytes) -> None:
        """Forgets it."""
        await self._store.drop(self._key(name))

    async def who_has(self, name: bytes) -> str | None:
        """The tag that is kept there, if one of us wrote it."""
        sealed = await self._store.get(self._key(name))
        tag = None if sealed is None else self._seals.maybe_unwrapped(sealed, "given", name)
        return None if tag is None else tag.decode()

    def _key(self, name: bytes) -> bytes:
        return self._seals.name("given", name)


def maybe_returned(request: Request) -> str | None:
    """What a modern client has got from an upstream's child, and comes back with."""
    if read_head(request).era is not Era.MODERN or request.method != b"POST":
        return None
    method = request.fields.get(b"mcp-method", b"")  # the door refuses one that says not what the body says
    is_task = method.startswith(b"tasks/")
    if not is_task and not (method in _ROUNDED and b"requestState" in request.body):
        return None
    named = _read(request.body).params
    if named is None:
        return None
    return named.taskId if is_task else named.requestState


def _given_in(raw: bytes) -> list[str]:
    """What an answer gives a client to come back with."""
    if b"requestState" not in raw and b"taskId" not in raw:
        return []
    named = _read(raw).result
    if named is None:
        return []
    task = named.taskId if named.task is None else named.task.taskId
    return [value for value in (named.requestState, task) if value]


def _read(raw: bytes) -> _Message:
    try:
        return msgspec.json.decode(raw, type=_Message)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Message()
