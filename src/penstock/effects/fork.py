"""Copies of messages for a second upstream, whose answers nobody hears.

A shadow upstream is a whole conversation of its own: its own link, its own handshake, its own ids. All
clients' copies go over that one link. Whatever it does, the real traffic does not notice: a copy is put in a
bounded queue and that is all that happens in the caller's turn.

What is copied: requests, and notifications of no standard kind. Not copied: answers, batches, what an
upstream asks of clients, the handshake, and notifications about sessions and requests that the shadow does
not have (all of `notifications/`).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec
from msgspec import Raw

from penstock import __version__, limits
from penstock.errors import ProtocolError, UpstreamError, UpstreamLost
from penstock.policy.rules.effect_contract import ForkSpec
from penstock.relay.contracts import UpstreamLink, UpstreamReceiver
from penstock.relay.tool_list_pages import own_id
from penstock.relay.upstream_probe import UpstreamProbe
from penstock.wire.json.ambiguity import Ambiguous, Members, NotAnObject, NotJson, members
from penstock.wire.json.splice import with_value
from penstock.wire.mcp.eras import META_CAPABILITIES, META_CLIENT, META_VERSION, MODERN_VERSIONS, Era
from penstock.wire.mcp.ids import id_key
from penstock.wire.mcp.message import (
    METHOD_NOT_FOUND,
    Batch,
    Kind,
    Message,
    read_client_message,
    read_upstream_message,
)
from penstock.wire.mcp.replies import error_reply, result_reply

log = logging.getLogger("penstock")

_NOT_COPIED = frozenset(
    ("initialize", "server/discover", "sampling/createMessage", "elicitation/create", "roots/list")
)
_OUR_META = {
    META_VERSION: Raw(msgspec.json.encode(MODERN_VERSIONS[-1])),
    META_CLIENT: Raw(msgspec.json.encode({"name": "penstock", "version": __version__})),
    META_CAPABILITIES: Raw(b"{}"),
}


class Sender(Protocol):
    """Who is told when the shadow takes nothing."""

    def pause(self, reason: str) -> None: ...

    def resume(self, reason: str) -> None: ...

    def cork(self) -> None: ...

    def uncork(self) -> None: ...


class ShadowLink(UpstreamLink, Protocol):
    """One connection to a shadow upstream."""

    receiver: UpstreamReceiver | None
    peer: Sender | None


OpenLink = Callable[[ForkSpec], ShadowLink]
"""Makes a link; UpstreamError when that cannot be."""


class Shadows:
    """Every shadow upstream that the rules name."""

    def __init__(
        self,
        open_link: OpenLink,
        *,
        rest: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
        most_copies: int = limits.FORK_QUEUE,
        most_bytes: int = limits.FORK_QUEUE_BYTES,
        answer_seconds: float = limits.FORK_ANSWER_SECONDS,
        idle_seconds: float = limits.FORK_IDLE_SECONDS,
    ) -> None:
        self.open_link = open_link
        self.rest = rest
        self.chance = chance
        self.answer_seconds = answer_seconds
        self.idle_seconds = idle_seconds
        self._most_copies = most_copies
        self._most_bytes = most_bytes
        self._shadows: dict[ForkSpec, _Shadow] = {}
        self._is_closed = False
        self.dropped_count = 0
        """Copies that a full queue pushed out."""

    @property
    def shadow_count(self) -> int:
        """Shadow upstreams in use now."""
        return len(self._shadows)

    def fork(self, spec: ForkSpec, raw: bytes) -> None:
        """Puts a copy of the message in the queue of its shadow; a full queue loses its oldest."""
        if self._is_closed:
            return
        shadow = self._shadows.get(spec)
        if shadow is None:
            shadow = self._shadows[spec] = _Shadow(spec, self)
            shadow.worker = asyncio.get_running_loop().create_task(self._keep(spec, shadow))
        shadow.append(raw)
        while len(shadow.queue) > 1 and (
            len(shadow.queue) > self._most_copies or shadow.size > self._most_bytes
        ):
            shadow.pop()
            self.dropped_count += 1
            if self.dropped_count & (self.dropped_count - 1) == 0:  # at 1, 2, 4, 8 ...
                log.warning(
                    "Shadow upstreams are too slow: %d copies were dropped so far.", self.dropped_count
                )

    async def close(self) -> None:
        """Ends every shadow; copies that still wait are forgotten."""
        self._is_closed = True
        workers = [shadow.worker for shadow in self._shadows.values() if shadow.worker is not None]
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        self._shadows.clear()

    async def _keep(self, spec: ForkSpec, shadow: _Shadow) -> None:
        try:
            await shadow.live()
        finally:
            self._shadows.pop(spec, None)


class _Shadow:
    """One shadow upstream, from the first copy for it until there are none for a long time."""

    def __init__(self, spec: ForkSpec, house: Shadows) -> None:
        self.queue: deque[bytes] = deque()
        self.size = 0
        self.worker: asyncio.Task[None] | None = None
        self._spec = spec
        self._house = house
        self._changed = asyncio.Event()
        self._link: ShadowLink | None = None
        self._under_way: set[bytes] = set()
        self._reasons: set[str] = set()  # for not sending
        self._lost: UpstreamError | None = None
        self._has_answered = False

    def append(self, raw: bytes) -> None:
        """One more copy to send."""
        self.queue.append(raw)
        self.size += len(raw)
        self._changed.set()

    def pop(self) -> bytes:
        """The oldest copy, which is no longer in the queue."""
        raw = self.queue.popleft()
        self.size -= len(raw)
        return raw

    async def live(self) -> None:
        """Sends copies as they come; after a failure, again after a while."""
        failures = 0
        while True:
            self._has_answered = False
            try:
                await self._converse()
            except Exception as why:
                failures = 1 if self._has_answered else failures + 1
                if failures & (failures - 1) == 0:
                    log.warning("A shadow upstream fails: %s.", _in_words(why))
                longest = min(
                    limits.FORK_RETRY_SECONDS * 2.0 ** min(failures - 1, 16), limits.FORK_RETRY_MOST_SECONDS
                )
                await self._house.rest(longest * (0.5 + self._house.chance() / 2))
            if not self.queue:
                return

    async def _converse(self) -> None:
        self._lost = None
        self._under_way.clear()
        self._reasons.clear()
        link = self._house.open_link(self._spec)
        try:
            link.peer = self
            # Like any client it asks for the tools first: some arguments must travel in headers.
            era, _ = await UpstreamProbe(link, limits.TOOLS_SECONDS).learn()
            self._link, link.receiver = link, self
            self._has_answered = True
            while await self._has_copy():
                await self._send(link, self.pop(), era)
        finally:
            self._link = None
            await link.stop(0.0)

    async def _has_copy(self) -> bool:
        """Waits for a copy; False when there was none for a long time."""
        try:
            await self._until(lambda: bool(self.queue), self._house.idle_seconds)
        except TimeoutError:
            return False
        return True

    async def _send(self, link: ShadowLink, raw: bytes, era: Era) -> None:
        for _ in range(max(1, self._spec.copies)):
            try:
                await self._until(self._may_send, self._house.answer_seconds)
            except TimeoutError:
                raise UpstreamLost(f"No answer for {self._house.answer_seconds:g} seconds") from None
            copy = maybe_copy(raw, era)
            if copy is None:
                return
            if copy.id_token is not None:
                self._under_way.add(id_key(copy.id_token))
            link.send(copy)

    def _may_send(self) -> bool:
        return not self._reasons and len(self._under_way) < limits.FORK_UNDER_WAY

    async def _until(self, condition: Callable[[], bool], seconds: float) -> None:
        async with asyncio.timeout(seconds):
            while self._lost is None and not condition():
                self._changed.clear()
                await self._changed.wait()
        if self._lost is not None:
            raise self._lost

    # What the link says

    def from_upstream(self, raw: bytes) -> None:
        """Counts answers off; what the shadow may ask of a client is answered so that it goes on."""
        try:
            message = read_upstream_message(raw)
        except ProtocolError as refusal:
            self.upstream_refused(refusal.id_token, refusal.reason)
            return
        if isinstance(message, Batch) or message.id_token is None:
            return
        if message.kind is Kind.RESPONSE:
            self._count_off(message.id_token)
        elif message.method == "ping":
            self._reply(result_reply(message.id_token, b"{}"))
        else:
            self._reply(error_reply(message.id_token, METHOD_NOT_FOUND, "Method not found"))

    def upstream_noise(self, raw: bytes) -> None:
        """A line that is no message was skipped, and told."""

    def upstream_refused(self, id_token: bytes | None, why: str, raw: bytes = b"") -> None:
        """An answer that cannot be read is discarded like any other."""
        if id_token is not None:
            self._count_off(id_token)

    def upstream_lost(self, error: UpstreamError) -> None:
        """The link is gone; what waits is for the next one."""
        self._lost = error
        self._changed.set()

    def pause(self, reason: str) -> None:
        """The shadow takes nothing now."""
        self._reasons.add(reason)

    def resume(self, reason: str) -> None:
        """It takes more."""
        self._reasons.discard(reason)
        self._changed.set()

    def cork(self) -> None:
        """Nothing is collected."""

    def uncork(self) -> None:
        """Nothing was collected."""

    def _count_off(self, id_token: bytes) -> None:
        self._under_way.discard(id_key(id_token))
        self._changed.set()

    def _reply(self, raw: bytes) -> None:
        reply = read_upstream_message(raw)
        assert isinstance(reply, Message)
        if self._link is not None and not self._reasons:  # one that does not read gets no answers either
            self._link.send(reply)


def maybe_copy(raw: bytes, era: Era) -> Message | None:
    """The message as a shadow that speaks `era` can take it, with an id of our own; None if it cannot."""
    try:
        message = read_client_message(raw)
        if isinstance(message, Batch) or message.method is None or message.method in _NOT_COPIED:
            return None
        if message.method.startswith("notifications/"):
            return None
        if message.kind is Kind.REQUEST:
            raw = with_value(raw, message.envelope, "id", own_id())
        raw = _with_meta_of(era, raw, message.params, has_params="params" in message.envelope)
        copy = read_client_message(raw)
    except (ProtocolError, Ambiguous, NotJson, NotAnObject):
        return None
    return copy if isinstance(copy, Message) else None


def _with_meta_of(era: Era, raw: bytes, params: Members | None, has_params: bool) -> bytes:
    """`raw` with what every modern request says of its sender, or without it."""
    meta = members(params["_meta"]) if params is not None and "_meta" in params else {}
    if era is Era.MODERN:
        if META_VERSION in meta:
            return raw
        meta = {**meta, **_OUR_META}
    elif META_VERSION not in meta:
        return raw
    else:
        meta = {name: value for name, value in meta.items() if name not in _OUR_META}
    if has_params and params is None:
        return raw  # a list has no place for it; the shadow will say so
    inner = Raw(msgspec.json.encode({**(params or {}), "_meta": Raw(msgspec.json.encode(meta))}))
    if has_params:
        return with_value(raw, members(raw), "params", bytes(inner))
    return raw.rstrip()[:-1] + b',"params":%b}' % bytes(inner)


def _in_words(why: Exception) -> str:
    if isinstance(why, UpstreamError):
        return why.detail or why.headline
    log.debug("A shadow upstream fails", exc_info=why)
    return type(why).__name__
