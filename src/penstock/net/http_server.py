"""An HTTP/1.1 server that knows nothing of what it serves.

It gives whole requests to one handler and keeps every connection within its limits of size, time and number.
The clock is looked at once a second for all connections together, so a request costs no timer.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from penstock import limits as defaults
from penstock.net.byte_budget import ByteBudget
from penstock.net.heap import HeapKeeper
from penstock.net.http_connection import HttpConnection, refusal
from penstock.net.http_exchange import Reply, Request
from penstock.net.listener import Listener
from penstock.wire.http.http1 import RequestHead, read_request_head

if TYPE_CHECKING:
    import ssl

__all__ = ["Handler", "HttpServer", "Reply", "Request", "ServerLimits"]

Handler = Callable[[Request, Reply], None]


class ServerLimits(Struct, frozen=True):
    """How long and how many; the reasons stand in `penstock.limits`."""

    request_seconds: float = defaults.HTTP_REQUEST_SECONDS
    idle_seconds: float = defaults.HTTP_IDLE_SECONDS
    stall_seconds: float = defaults.HTTP_STALL_SECONDS
    linger_seconds: float = defaults.HTTP_LINGER_SECONDS
    connections: int = defaults.HTTP_CONNECTIONS
    refusals: int = defaults.HTTP_REFUSALS
    held_bytes: int = defaults.HTTP_HELD_BYTES

    @classmethod
    def affordable(cls) -> ServerLimits:
        """As many clients as there are descriptors for, with one on the upstream's side for each of them.

        Were all of them given to clients, none would be left to serve those who came first.
        """
        import resource  # needed here only, once

        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        held = defaults.HTTP_HELD_BYTES
        if files == resource.RLIM_INFINITY:
            return cls(held_bytes=held)
        refusals = max(1, min(defaults.HTTP_REFUSALS, files // defaults.FILES_PER_REFUSAL))
        room = (files - defaults.OWN_FILES - refusals) // 2
        connections = max(1, min(defaults.HTTP_CONNECTIONS, room))
        return cls(connections=connections, refusals=refusals, held_bytes=held)

    @property
    def tick_seconds(self) -> float:
        """How often the clock is looked at: a second, or less when a test is in a hurry."""
        shortest = min(self.request_seconds, self.idle_seconds, self.stall_seconds, self.linger_seconds)
        return min(1.0, shortest / 2)


class HttpServer:
    """Calls `handler(request, reply)` for every request; the handler replies at once or later."""

    def __init__(self, handler: Handler, limits: ServerLimits | None = None) -> None:
        self.handler = handler
        self.limits = limits or ServerLimits()
        self.loop = asyncio.get_running_loop()
        self.now = self.loop.time()  # at the last tick, or when the last client came
        self.is_draining = False
        self.budget = ByteBudget(self.limits.held_bytes)
        self._heap = HeapKeeper(self.budget)
        self._tick_seconds = self.limits.tick_seconds
        self._listeners: list[Listener] = []
        self._admitted: set[HttpConnection] = set()
        self._refused: set[HttpConnection] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._all_gone: asyncio.Future[None] | None = None
        self._last_id = 0
        self._heads: dict[bytes, RequestHead] = {}

    @property
    def connection_count(self) -> int:
        """Clients connected now."""
        return len(self._admitted)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect, by the addresses bound and not by their spelling."""
        return all(listener.is_loopback for listener in self._listeners)

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> tuple[str, int]:
        """Starts to serve; gives the address, with the port the system picked if `port` is 0."""
        listener = self._new_listener(tls)
        address = await listener.open(host, port)
        self._listeners.append(listener)
        return address

    def adopt(self, sockets: list[socket.socket], tls: ssl.SSLContext | None = None) -> None:
        """Starts to serve on sockets that listen already."""
        listener = self._new_listener(tls)
        listener.adopt(sockets)
        self._listeners.append(listener)

    def _new_listener(self, tls: ssl.SSLContext | None) -> Listener:
        full = refusal(503, "Too many connections")
        if tls is None:
            return Listener(self._new_connection, full)
        from penstock.net.tls_listener import TlsConnection, TlsListener

        return TlsListener(lambda: self._new_connection(TlsConnection), full, tls)

    async def drain(self, seconds: float) -> None:
        """Takes no more connections, lets running exchanges finish, closes what is left after `seconds`."""
        self.is_draining = True
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        for connection in tuple(self._admitted):
            connection.drain()
        await self._wait_until_all_gone(seconds)
        for connection in (*self._admitted, *self._refused):
            connection.close_now()
        await self._wait_until_all_gone(1.0)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _wait_until_all_gone(self, seconds: float) -> None:
        if self._admitted or self._refused:
            self._all_gone = self.loop.create_future()
            await asyncio.wait((self._all_gone,), timeout=seconds)
            self._all_gone = None

    def _new_connection(self, kind: type[HttpConnection] = HttpConnection) -> HttpConnection:
        self.now = self.loop.time()
        if self._timer is None:
            self._timer = self.loop.call_later(self._tick_seconds, self._tick)
        self._last_id += 1
        return kind(self, self._last_id)

    def _tick(self) -> None:
        self.now = self.loop.time()
        for connection in (*self._admitted, *self._refused):
            connection.check(self.now)
        self._heap.look()
        self._timer = None
        if self._admitted or self._refused or self._heap.is_due:
            self._timer = self.loop.call_later(self._tick_seconds, self._tick)

    def open_replies(self) -> Iterator[tuple[HttpConnection, Reply]]:
        """Every reply that is not finished, with its connection."""
        for connection in tuple(self._admitted):
            reply = connection._reply
            if reply is not None:
                yield connection, reply

    # For HttpConnection

    def serve(self, handler: Handler) -> None:
        """From now on gives requests to `handler`; what was remembered for the one before is forgotten."""
        self.handler = handler
        self._heads.clear()

    def read_head(self, block: bytes) -> RequestHead:
        """The head in `block`. Those of one client are often the same to the last byte, so some are kept,
        with what others have made of them."""
        head = self._heads.get(block)
        if head is None:
            head = read_request_head(block)
            if len(block) <= defaults.KNOWN_HEAD_BYTES:
                if len(self._heads) >= defaults.KNOWN_HEADS:
                    self._heads.clear()
                self._heads[block] = head
        return head

    def admit(self, connection: HttpConnection) -> bool:
        """Whether there is room; a connection without room is told so, unless too many are being told."""
        if self.is_draining:
            connection.close_now()
        elif len(self._admitted) < self.limits.connections:
            self._admitted.add(connection)
            return True
        elif len(self._refused) < self.limits.refusals:
            self._refused.add(connection)
        else:
            connection.close_now()
        return False

    def forget(self, connection: HttpConnection) -> None:
        """The connection is gone."""
        self._admitted.discard(connection)
        self._refused.discard(connection)
        if self._all_gone is not None and not (self._admitted or self._refused or self._all_gone.done()):
            self._all_gone.set_result(None)
