"""Pass-through, on the way back, where nobody looks: bytes pass as they come.

`--validate off` says that answers need not be looked at; and where there is neither filter nor rule nor
observer, nobody else looks either. What an answer's head says is still heeded, and so is the limit for its
size.
"""

from __future__ import annotations

from penstock import limits
from penstock.downstream.passthrough_response import PassthroughResponse
from penstock.wire.http.http1 import Headers
from penstock.wire.mcp.replies import over_limit


class UnreadResponse(PassthroughResponse):
    """Gives each part of an answer to the client in the moment it has come."""

    _is_unread = False  # this one is a message, or a stream of them; else it is looked at as ever
    _is_passing = False  # the client has its head

    def on_head(self, status: int, headers: Headers) -> None:
        super().on_head(status, headers)
        is_stream = self._reader is not None
        if self._is_over or self._first or not (is_stream or self.method == b"POST"):
            return
        if not 200 <= status < 300 or self.on_success is not None:
            return
        self._is_unread, self._is_passing = True, is_stream
        self._reader = None
        assert self.ticket is not None
        assert self.ticket.head is not None
        if self.ticket.head.length > limits.MESSAGE_BYTES:
            self._fail(over_limit(self.ticket.head.length))

    def on_data(self, chunk: bytes) -> None:
        if not self._is_unread:
            super().on_data(chunk)
            return
        if self._is_over or self._is_discarding:
            return
        assert self.ticket is not None
        assert self.ticket.head is not None
        if self.hello_timer is not None:
            self.hello_timer.cancel()
        if not self._is_passing:
            if self.ticket.head.length == len(chunk):
                self._body = chunk  # all of it: it goes out in one piece with its head
                return
            self._is_passing = True
            self._reply.start(self.status, self._headers)
        self._size += len(chunk)
        if self._size > limits.MESSAGE_BYTES and not self._is_stream:
            self._fail(over_limit())
            return
        self._reply.write(chunk)
        if self._reply.is_full:
            self.ticket.pause()

    def on_end(self) -> None:
        if not self._is_unread or self._is_over or self._is_discarding:
            super().on_end()
        elif self._is_passing:
            self._end()
            self._reply.finish()
        else:
            self.ticket = None
            body, self._body = self._body, b""
            self._send_ruled(body)
