"""One connection to an upstream server: a request out, its response in, and then perhaps another."""

from __future__ import annotations

import asyncio
import logging
import select
from collections.abc import Callable
from typing import Any, Protocol

from penstock import limits
from penstock.errors import Failure, MalformedHttp, UpstreamError, UpstreamLost
from penstock.net.pieces import write_pieces
from penstock.wire.http.chunked import ChunkedReader
from penstock.wire.http.http1 import CHUNKED, UNTIL_CLOSE, Headers, ResponseHead, read_response_head

log = logging.getLogger("penstock")

_AWAITING_HEAD = -3


class Receiver(Protocol):
    """Who a response is for. `on_end` or `on_failure` comes last, and only one of them."""

    def on_head(self, status: int, headers: Headers) -> None:
        """The final head; 1xx ones are not told."""

    def on_data(self, chunk: bytes) -> None:
        """A part of the body."""

    def on_end(self) -> None:
        """The response is complete."""

    def on_failure(self, error: UpstreamError) -> None:
        """The response will not come, or not any further."""


class _Nobody:
    """Receives what comes after the end."""

    def on_head(self, status: int, headers: Headers) -> None: ...

    def on_data(self, chunk: bytes) -> None: ...

    def on_end(self) -> None: ...

    def on_failure(self, error: UpstreamError) -> None: ...


_NOBODY = _Nobody()


class Ticket:
    """A request under way: its receiver can have it slowed down or stopped."""

    __slots__ = ("connecting", "connection", "head", "is_done", "is_paused", "receiver", "unsent")

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.connection: UpstreamConnection | None = None
        self.connecting: asyncio.Task[None] | None = None
        self.head: ResponseHead | None = None  # of the response, once it has come; it may serve others too
        self.is_paused = False
        self.is_done = False
        # Head and body of a request that waits for its connection, and whether it is a HEAD. Here, and in no
        # coroutine: asyncio ties those that are cancelled in cycles.
        self.unsent: tuple[bytes, bytes, bool] | None = None

    @property
    def is_sent(self) -> bool:
        """Whether the system has taken all of the request."""
        return self.connection is not None and self.connection.is_sent

    @property
    def is_ending(self) -> bool:
        """Whether the end has come with the part that the receiver is being told of: `on_end` is next."""
        return self.connection is not None and self.connection.is_ending

    def pause(self) -> None:
        """Stops reading this response; what has been read already, at most one buffer, may still come."""
        self.is_paused = True
        if self.connection is not None:
            self.connection.pause()

    def resume(self) -> None:
        """Goes on reading."""
        self.is_paused = False
        if self.connection is not None:
            self.connection.resume()

    def cancel(self) -> None:
        """The receiver hears nothing more; the connection closes at once, unless the response is complete."""
        if not self.is_done:
            self.is_done = True
            self.receiver = _NOBODY
            self.unsent = None
            if self.connection is not None:
                self.connection.close_now()
            elif self.connecting is not None:
                self.connecting.cancel()
                self.connecting = None  # which knows the request, and us

    def fail(self, error: UpstreamError) -> None:
        """Tells the receiver that this is the end, unless it was told so before."""
        if not self.is_done:
            self.is_done = True
            self.connection = self.unsent = None
            # They know each other: untied, both are gone without the collector.
            receiver, self.receiver = self.receiver, _NOBODY
            try:
                receiver.on_failure(error)
            except Exception:
                log.exception("A failed response could not be handled")


class UpstreamConnection(asyncio.Protocol):
    """Carries one exchange at a time; `on_idle` gets it back when it may carry another."""

    __slots__ = (
        "_chunked",
        "_is_head_request",
        "_is_kept_alive",
        "_is_paused",
        "_last_block",
        "_last_head",
        "_left",
        "_on_gone",
        "_on_idle",
        "_on_made",
        "_partial",
        "_poll",
        "_ticket",
        "_transport",
        "idle_since",
    )

    def __init__(
        self,
        on_made: Callable[[UpstreamConnection], None],
        on_idle: Callable[[UpstreamConnection], None],
        on_gone: Callable[[UpstreamConnection, Ticket | None], None],
    ) -> None:
        """`on_gone` gets the request that was written to a kept connection which ended without a byte of an
        answer, if that is how it ended: what that means is not ours to say."""
        self._on_made = on_made
        self._on_idle = on_idle
        self._on_gone = on_gone
        self._transport: Any = None
        self._poll: Callable[[int], list[tuple[int, int]]] | None = None
        self._ticket: Ticket | None = None
        self._left = _AWAITING_HEAD  # bytes of the body to come, or CHUNKED or UNTIL_CLOSE
        self._partial = bytearray()  # of a head that has not arrived whole
        self._chunked: ChunkedReader | None = None
        self._is_head_request = False
        self._is_kept_alive = False
        self._is_paused = False
        self._last_block = b""
        self._last_head: ResponseHead | None = None
        self.idle_since = 0.0

    @property
    def is_usable(self) -> bool:
        """Whether a request may be written: once it is, it is never written again.

        The kernel is asked as well, since the server's end may have arrived and the loop not have seen it.
        """
        return not self._transport.is_closing() and (self._poll is None or not self._poll(0))

    @property
    def is_sent(self) -> bool:
        """Whether nothing of what was written waits to be taken."""
        return not self._transport.get_write_buffer_size()

    @property
    def is_ending(self) -> bool:
        """Whether the last chunk of the response is here."""
        return self._chunked is not None and self._chunked.is_done

    def send(self, request: bytes, is_head_request: bool, ticket: Ticket, rest: bytes = b"") -> None:
        """Writes a whole request, in one piece or in two; the response is for `ticket`."""
        self._ticket = ticket
        ticket.connection = self
        if is_head_request is not self._is_head_request:
            self._is_head_request = is_head_request
            self._last_block = b""  # the same head means another length now
        self._left = _AWAITING_HEAD
        if rest:
            write_pieces(self._transport, (request, rest))
        else:
            self._transport.write(request)
        if ticket.is_paused:  # a connection just made: uvloop starts to read after this, whatever we say now
            asyncio.get_running_loop().call_soon(self._pause_if_asked)

    def pause(self) -> None:
        """Reads no more of the response."""
        if self._ticket is not None and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def _pause_if_asked(self) -> None:
        if self._ticket is not None and self._ticket.is_paused:
            self.pause()

    def resume(self) -> None:
        """Reads on."""
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()

    def close_now(self) -> None:
        """Closes at once; nobody is told."""
        self._ticket = None
        self._transport.abort()

    def fail(self, error: UpstreamError) -> None:
        """Closes at once and says why."""
        ticket, self._ticket = self._ticket, None
        self._transport.abort()
        if ticket is not None:
            ticket.fail(error)

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready: the first request is sent in this very turn, so no early answer can go astray."""
        self._transport = transport
        if transport.get_extra_info("sslcontext") is None:  # TLS has bytes of its own to send when idle
            poll = select.poll()
            poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
            self._poll = poll.poll
        # Once: it knows the first request, body and all, and the connection may be kept for many.
        on_made, self._on_made = self._on_made, _ignore
        on_made(self)

    def data_received(self, data: bytes) -> None:
        """Tells the receiver what `data` holds."""
        if self._ticket is None:
            self._transport.abort()  # nobody asked: a stray byte would become part of the next response
            return
        try:
            self._read(data)
        except MalformedHttp as why:
            self.fail(_invalid(why.reason))
        except Exception:
            log.exception("A response could not be handled")
            self.fail(_invalid("It could not be handled"))

    def eof_received(self) -> None:
        """The clean end of a body that lasts until the connection closes; of any other, the failure."""
        if self._ticket is not None and self._left == UNTIL_CLOSE:
            try:
                self._finish(is_reusable=False)
            except Exception:
                log.exception("A response could not be handled")

    def connection_lost(self, exc: Exception | None) -> None:
        """Tells the receiver, unless all was said, and the pool."""
        ticket, self._ticket = self._ticket, None
        if ticket is not None and self.idle_since and self._left == _AWAITING_HEAD and not self._partial:
            ticket.connection = None
            self._on_gone(self, ticket)
            return
        self._on_gone(self, None)
        if ticket is not None:
            when = "before a response" if self._left == _AWAITING_HEAD else "in the middle of a response"
            ticket.fail(UpstreamLost(f"Connection closed {when}"))

    # Reading

    def _read(self, data: bytes) -> None:
        at = 0
        if self._left == _AWAITING_HEAD:
            at = self._read_heads(data)
            if at < 0:
                return
        size = len(data)
        ticket = self._ticket
        if ticket is None:  # cancelled by its own on_head
            return
        left = self._left
        if left > 0:
            if at < size:
                stop = at + left
                if stop > size:
                    stop = size
                self._left = left - (stop - at)
                ticket.receiver.on_data(data[at:stop] if at or stop < size else data)
                at = stop
            if self._left:
                return
        elif left == CHUNKED:
            pieces: list[bytes] = []
            assert self._chunked is not None
            at = self._chunked.feed(data, at, pieces)
            if pieces:
                ticket.receiver.on_data(pieces[0] if len(pieces) == 1 else b"".join(pieces))
            if not self._chunked.is_done:
                return
        elif left == UNTIL_CLOSE:
            if at < size:
                ticket.receiver.on_data(data[at:] if at else data)
            return
        self._finish(is_reusable=at == size)

    def _read_heads(self, data: bytes) -> int:
        """Where the body begins in `data`, or -1 when the head is not complete."""
        at = 0
        while True:
            if self._partial:
                before = len(self._partial)
                self._partial += data[at : at + limits.RESPONSE_HEAD_BYTES - before]
                end = self._partial.find(b"\r\n\r\n", max(0, before - 3)) + 4
                if end >= 4:
                    block = bytes(self._partial[:end])
                    self._partial = bytearray()
                    at += end - before
            else:
                end = data.find(b"\r\n\r\n", at, at + limits.RESPONSE_HEAD_BYTES) + 4
                if end >= 4:
                    block = data[at:end]
                    at = end
                else:
                    self._partial += data[at : at + limits.RESPONSE_HEAD_BYTES]
            if end < 4:
                if len(self._partial) >= limits.RESPONSE_HEAD_BYTES:
                    raise MalformedHttp("Headers too big")
                if not b"HTTP/1.".startswith(self._partial[:7]):
                    raise MalformedHttp("Not an HTTP response")
                return -1
            if block != self._last_block:  # within one second many answers differ in their body only
                self._last_head = read_response_head(block, self._is_head_request)
                self._last_block = block
            head = self._last_head
            assert head is not None
            if head.status == 101:
                raise MalformedHttp("Protocol switched unasked")
            if head.status >= 200:
                break
        self._left = head.length
        self._is_kept_alive = head.is_kept_alive
        self._chunked = ChunkedReader() if head.length == CHUNKED else None
        if self._ticket is not None:
            self._ticket.head = head
            self._ticket.receiver.on_head(head.status, head.headers)
        return at

    def _finish(self, is_reusable: bool) -> None:
        ticket, self._ticket = self._ticket, None
        if ticket is None:
            return  # cancelled by its own on_data
        self._chunked = None
        self._is_paused, was_paused = False, self._is_paused
        if (
            is_reusable
            and self._is_kept_alive
            and not self._transport.get_write_buffer_size()
            and not self._transport.is_closing()
        ):
            if was_paused:
                self._transport.resume_reading()  # else the next exchange would wait for ever
            self._on_idle(self)
        else:
            self._transport.abort()
        ticket.is_done = True
        ticket.connection = None
        receiver, ticket.receiver = ticket.receiver, _NOBODY
        receiver.on_end()


def _ignore(connection: UpstreamConnection) -> None:
    """All that was to be done is done."""


def _invalid(detail: str) -> UpstreamError:
    return UpstreamError("Invalid response from upstream MCP", detail, Failure.INVALID_RESPONSE)
