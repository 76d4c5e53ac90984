"""A reply that stays open and carries events to one client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock import limits
from penstock.downstream.replies import EVENTS
from penstock.net.http_exchange import Reply
from penstock.wire.http.http1 import Headers
from penstock.wire.http.sse import encode_event

_COMMENT = b": keep-alive\n\n"


class EventStream:
    """One open event stream. A comment goes out whenever it was silent for a while."""

    def __init__(self, reply: Reply, more: Headers | None = None) -> None:
        """Starts the reply. `on_gone` and `on_drain` may be set by whoever owns the stream."""
        self._reply = reply
        self.on_gone: Callable[[], None] | None = None
        self.on_drain: Callable[[], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._last_write = self._loop.time()
        reply.on_gone = self._gone
        reply.on_drain = self._drained
        reply.start(200, EVENTS + more if more else EVENTS)
        self._timer = self._loop.call_later(limits.KEEP_ALIVE_SECONDS, self._keep_alive)

    @property
    def is_open(self) -> bool:
        """Whether the client can still hear."""
        return not (self._reply.is_gone or self._reply.is_finished)

    @property
    def is_full(self) -> bool:
        """Whether the client reads more slowly than we write."""
        return self._reply.is_full

    @property
    def unread(self) -> int:
        """Bytes that wait for the client to read."""
        return self._reply.unread

    def cut(self) -> None:
        """Ends the stream in the middle."""
        self._untie()
        self._reply.abort()

    def send(self, raw: bytes, event: str | None = None) -> None:
        """Sends one message as one event."""
        if self.is_open:
            self._last_write = self._loop.time()
            self._reply.write(encode_event(raw, event))

    def finish(self) -> None:
        """Ends the stream."""
        self._untie()
        if self.is_open:
            self._reply.finish()

    def _keep_alive(self) -> None:
        silent = self._loop.time() - self._last_write
        if silent >= limits.KEEP_ALIVE_SECONDS:
            self._last_write = self._loop.time()
            silent = 0.0
            if not self._reply.is_full:
                self._reply.write(_COMMENT)
        self._timer = self._loop.call_later(limits.KEEP_ALIVE_SECONDS - silent, self._keep_alive)

    def _gone(self) -> None:
        on_gone = self.on_gone
        self._untie()
        if on_gone is not None:
            on_gone()

    def _untie(self) -> None:
        """Its owner and it know each other, and the owner its request: gone without the collector."""
        self._timer.cancel()
        self.on_gone = self.on_drain = None

    def _drained(self) -> None:
        if self.on_drain is not None:
            self.on_drain()
