"""One client's connection: requests in, one after another, and replies out in the same order.

A request is given to the handler when its body is complete, and the next one is not looked at before the
reply is finished. What is malformed, too big or too slow is refused, and the connection closed.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock import limits
from penstock.errors import MalformedHttp
from penstock.net.http_exchange import Reply, Request
from penstock.net.pieces import end_writing, write_pieces
from penstock.net.request_body import RequestBody
from penstock.wire.http.http1 import RequestHead, build_response_head
from penstock.wire.mcp.replies import error_reply, over_limit

if TYPE_CHECKING:
    from penstock.net.http_server import HttpServer

log = logging.getLogger("penstock")

_BARE_LF = re.compile(rb"(?<!\r)\n")
# What the next bytes from the client are. Plain numbers: an enum's members cost more than the comparing.
_HEAD = 0
_BODY = 1
_NEXT = 2  # a request is being answered; what comes is the next one
_NOTHING = 3  # refused or closing: whatever comes is thrown away

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_NEVER = float("inf")
_TEXT = [(b"Content-Type", b"text/plain; charset=utf-8")]
_JSON = [(b"Content-Type", b"application/json")]
_TOO_LARGE = 413
_INVALID_REQUEST = -32600


def refusal(status: int, reason: str) -> bytes:
    """A whole reply that says why, after which the connection is closed."""
    # What is too large is a message, whatever else it may be: the client's library looks for JSON-RPC.
    is_message = status == _TOO_LARGE
    body = error_reply(None, _INVALID_REQUEST, reason) if is_message else reason.encode() + b"\n"
    framing = b"Content-Length: %d\r\nConnection: close\r\n" % len(body)
    return build_response_head(status, _JSON if is_message else _TEXT, framing) + body


def _too_large(size: int | None) -> MalformedHttp:
    reason = f"Invalid request. {over_limit(size)}"
    log.warning("Refused a message from a client. %s.", reason)
    return MalformedHttp(reason, _TOO_LARGE)


class HttpConnection(asyncio.Protocol):
    """Reads requests off one connection and writes the replies."""

    __slots__ = (
        "_body",
        "_deadline",
        "_drained",
        "_head",
        "_held",
        "_is_closing_after_reply",
        "_is_consuming",
        "_is_cut_short",
        "_more",
        "_more_size",
        "_out",
        "_out_size",
        "_partial",
        "_peer",
        "_progress_at",
        "_reply",
        "_rest",
        "_rest_at",
        "_server",
        "_stage",
        "_transport",
        "_written",
        "id",
        "is_full",
        "persistence",
    )

    def __init__(self, server: HttpServer, connection_id: int) -> None:
        self.id = connection_id
        self.is_full = False
        self.persistence = b""  # what the next head says of keeping the connection
        self._server = server
        self._transport: Any = None
        self._peer: Any = None
        self._stage = _HEAD
        self._deadline = server.now + server.limits.request_seconds
        self._partial = bytearray()  # of a head that has not arrived whole
        self._head: RequestHead | None = None
        self._body: RequestBody | None = None  # one that has not arrived whole
        self._held = 0  # bytes of a body that is not whole yet
        self._is_cut_short = False  # the client still sends what is known to be refused
        self._reply: Reply | None = None
        self._is_closing_after_reply = False
        self._is_consuming = False
        self._rest = b""  # bytes of the next request, from _rest_at on, and then _more
        self._rest_at = 0
        self._more: list[bytes] = []
        self._more_size = 0
        self._out: list[bytes] = []  # written in this turn of the loop
        self._out_size = 0
        self._written = 0
        self._drained = 0
        self._progress_at = server.now

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greets nobody: the client speaks first. Over the cap it hears that we are full."""
        self._transport = transport
        self._peer = transport.get_extra_info("peername")
        self._transport.set_write_buffer_limits(limits.WRITE_HIGH_BYTES, limits.WRITE_LOW_BYTES)
        if not self._server.admit(self):
            self._refuse(503, "Too many connections")

    def data_received(self, data: bytes) -> None:
        """Reads on, or holds what belongs to the next request."""
        if self._stage <= _BODY:
            self._consume(data, 0)
        elif self._stage == _NEXT and not self._is_cut_short:
            self._more.append(data)
            self._more_size += len(data)
            if self._more_size > limits.PIPELINED_BYTES:
                self._transport.pause_reading()

    def eof_received(self) -> None:
        """Takes a half-closed connection for a closed one, as nginx does: HTTP clients do not half-close."""
        if self._reply is not None:
            self._transport.abort()
            self._lose()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tells the handler and the server."""
        self._lose()
        self._server.forget(self)

    def pause_writing(self) -> None:
        """The client reads more slowly than we write."""
        self.is_full = True

    def resume_writing(self) -> None:
        """The client has caught up."""
        self.is_full = False
        if self._reply is not None:
            self._call(self._reply.on_drain)
        elif self._stage == _NEXT:
            self._await_request()

    # Reading

    def _consume(self, data: bytes, at: int) -> None:
        self._is_consuming = True
        size = len(data)
        try:
            while at < size:
                if self._stage == _HEAD:
                    at = self._read_head(data, at)
                elif self._stage == _BODY:
                    at = self._read_body(data, at)
                elif self._stage == _NEXT:
                    self._rest, self._rest_at = data, at
                    break
                else:
                    break
        except MalformedHttp as why:
            self._refuse(why.status, why.reason)
        finally:
            self._is_consuming = False

    def _read_head(self, data: bytes, at: int) -> int:
        """Where the next part begins; `data` may hold all of the head, or a piece."""
        if not self._partial:
            end = data.find(b"\r\n\r\n", at, at + limits.HTTP_HEAD_BYTES)
            if end >= 0:
                return self._take_head(data[at : end + 4], data, end + 4)
            self._deadline = self._server.now + self._server.limits.request_seconds
        partial = self._partial
        before = len(partial)
        partial += data[at : at + limits.HTTP_HEAD_BYTES - before]
        end = partial.find(b"\r\n\r\n", max(0, before - 3))
        if end >= 0:
            block = bytes(partial[: end + 4])
            self._partial = bytearray()
            return self._take_head(block, data, at + end + 4 - before)
        # What can never become a head is refused now and not when the time is up.
        if not partial[:1].isalpha() or _BARE_LF.search(partial, max(0, before - 1)):
            raise MalformedHttp("Malformed request")
        line_bytes = limits.HTTP_TARGET_BYTES + 64  # room for method and version
        if len(partial) > line_bytes and partial.find(b"\n", 0, line_bytes) < 0:
            raise MalformedHttp("Request target too long", 414)
        if len(partial) >= limits.HTTP_HEAD_BYTES:
            raise MalformedHttp("Headers too big", 431)
        return len(data)

    def _take_head(self, block: bytes, data: bytes, after: int) -> int:
        head = self._server.read_head(block)
        if head.is_kept_alive and not self._server.is_draining:
            self._is_closing_after_reply = False
            self.persistence = b"" if head.is_http11 else b"Connection: keep-alive\r\n"
        else:
            self.close_after_reply()
        length = head.length
        if length == 0:
            self._handle(head, b"")
            return after
        if length > limits.MESSAGE_BYTES:
            raise _too_large(length)
        if length > 0 and len(data) - after >= length:
            end = after + length
            if length <= limits.HTTP_COUNTED_BYTES:
                self._handle(head, data[after:end])
            else:
                self._handle(head, self._server.budget.count(data[after:end]))
            return end
        self._head = head
        self._body = RequestBody(length)
        self._stage = _BODY
        self._deadline = self._server.now + self._server.limits.request_seconds
        if b"expect" in head.fields and head.is_http11:
            self._transport.write(_CONTINUE)
            self._written += len(_CONTINUE)
        return after

    def _read_body(self, data: bytes, at: int) -> int:
        body = self._body
        assert body is not None
        at = body.feed(data, at)
        if body.size > limits.MESSAGE_BYTES:
            raise _too_large(None)
        if body.is_hopeless and not body.is_complete:
            # Whoever handles it says what is wrong with it, of as much as there is.
            self._is_cut_short = body.is_complete = True
            self.close_after_reply()
            at = len(data)
        if body.is_complete and self._head is not None:
            head, self._head, self._body = self._head, None, None
            self._hold(0)
            whole = body.take(self._server.budget)
            del body  # before the handler runs: a big body should be there once
            self._handle(head, whole)
        else:
            self._hold(body.size)
        return at

    def _hold(self, size: int) -> None:
        """Says how much of an unfinished body is here: for all clients together there is a limit."""
        budget = self._server.budget
        budget.held += size - self._held
        self._held = size
        if size:
            budget.check_room(size)

    def _handle(self, head: RequestHead, body: bytes) -> None:
        self._stage = _NEXT
        self._deadline = _NEVER
        reply = self._reply = Reply(self, head.method == b"HEAD", head.is_http11)
        request = Request(
            head.method, head.target, head.headers, body, self._peer, self.id, head.fields, head.memo
        )
        try:
            self._server.handler(request, reply)
        except Exception:
            log.exception("A request could not be handled")
            if reply.is_started:
                reply.abort()
            else:
                self.close_after_reply()
                reply.send(500, _TEXT, b"Internal error\n")

    # Writing, for Reply

    @property
    def unread(self) -> int:
        """Bytes that wait for the client to read."""
        size: int = self._transport.get_write_buffer_size()
        return size

    def close_after_reply(self) -> None:
        """This reply is the last on this connection, and its head says so."""
        self._is_closing_after_reply = True
        self.persistence = b"Connection: close\r\n"

    def write_head(self, head: bytes) -> None:
        """Sends `head` at the end of this turn of the loop, together with what else is written in it."""
        self._out.append(head)
        self._out_size = len(head)
        self._server.loop.call_soon(self._flush)

    def write(self, chunk: bytes) -> None:
        """Sends `chunk`, at once unless a head is still waiting to go with it."""
        if self._out:
            self._out.append(chunk)
            self._out_size += len(chunk)
            if self._out_size > limits.HTTP_JOIN_BYTES:
                self._flush()
        else:
            self._written += len(chunk)
            self._transport.write(chunk)

    def write_pieces(self, *pieces: bytes) -> None:
        """Sends large pieces in one call and without joining them, behind a head that still waits."""
        pieces = (*self._out, *pieces)
        self._out.clear()
        self._written += sum(map(len, pieces))
        write_pieces(self._transport, pieces)

    def end_reply(self, last: bytes) -> None:
        """Sends `last`, and goes on to the next request, or closes."""
        if self._out:
            self._out.append(last)
            self._flush()
        elif last:
            self._written += len(last)
            self._transport.write(last)
        self._untie()
        if self._is_closing_after_reply:
            self._stage = _NOTHING
            if self._is_cut_short:
                self._linger()
            else:
                self._transport.close()
        elif not self.is_full:  # else resume_writing goes on: replies nobody reads must not pile up
            self._await_request()

    def abort(self) -> None:
        """Closes at once; nothing more is sent or read, and nobody is told."""
        self._untie()
        self._stage = _NOTHING
        self._out.clear()
        self._transport.abort()

    def _flush(self) -> None:
        if self._out:
            data = b"".join(self._out)
            self._out.clear()
            self._written += len(data)
            self._transport.write(data)

    def _await_request(self) -> None:
        self._stage = _HEAD
        self._deadline = self._server.now + self._server.limits.idle_seconds
        if self._is_consuming:
            return  # the loop in _consume goes on by itself
        rest, at, self._rest, self._rest_at = self._rest, self._rest_at, b"", 0
        if self._more:
            rest, at = rest[at:] + b"".join(self._more), 0
            self._more.clear()
            if self._more_size > limits.PIPELINED_BYTES:
                self._transport.resume_reading()
            self._more_size = 0
        if rest:
            self._consume(rest, at)

    # Ends

    def check(self, now: float) -> None:
        """Closes the connection if its time is up: called every second or so."""
        transport = self._transport
        if now >= self._deadline:
            if self._stage == _BODY and self._body is not None:
                if now >= self._deadline + self._body.size / limits.HTTP_BODY_BYTES_PER_SECOND:
                    self._refuse(408, "Request timeout")
            elif self._stage == _HEAD and self._partial:
                self._refuse(408, "Request timeout")
            elif self._stage == _HEAD:
                self._stage = _NOTHING
                transport.close()
            else:
                transport.abort()
            return
        waiting = transport.get_write_buffer_size()
        drained = self._written - waiting
        if not waiting or drained != self._drained:
            self._drained = drained
            self._progress_at = now
        elif now - self._progress_at >= self._server.limits.stall_seconds:
            log.warning("A client has read nothing for %g s; closed", now - self._progress_at)
            transport.abort()

    def close_now(self) -> None:
        """Closes at once, whatever is going on; the handler hears of it as if the client had gone."""
        self._transport.abort()

    def drain(self) -> None:
        """Closes when the running exchange is over, or now if there is none."""
        if self._stage == _HEAD and not self._partial:
            self._stage = _NOTHING
            self._transport.close()
        else:
            self.close_after_reply()

    def _refuse(self, status: int, reason: str) -> None:
        """Says why, and closes."""
        self._partial = bytearray()
        self._body = None
        self._hold(0)
        self._rest = b""
        if not self._transport.is_closing():
            data = refusal(status, reason)
            self._written += len(data)
            self._transport.write(data)
        self._linger()

    def _linger(self) -> None:
        """Says no more, and reads on for a while: bytes left unread would turn our close into a reset."""
        self._stage = _NOTHING
        self._deadline = self._server.now + self._server.limits.linger_seconds
        if not self._transport.is_closing():
            end_writing(self._transport)

    def _lose(self) -> None:
        self._stage = _NOTHING
        self._body = None
        self._hold(0)
        self._out.clear()
        self._more.clear()
        self._rest = b""
        reply = self._reply
        if reply is not None:
            reply.is_gone = True
            on_gone = reply.on_gone
            self._untie()
            self._call(on_gone)

    def _untie(self) -> None:
        """Forgets the reply, and makes it forget its handler: they know each other, and a request that has
        its answer should be gone without the collector, body and all."""
        reply, self._reply = self._reply, None
        if reply is not None and reply.on_gone is not None:
            reply.on_gone = reply.on_drain = None

    def _call(self, callback: Callable[[], None] | None) -> None:
        if callback is not None:
            try:
                callback()
            except Exception:
                log.exception("A handler failed when its client went or caught up")
                self.abort()
