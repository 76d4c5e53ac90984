"""One request and the reply to it, as a handler sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from penstock import limits
from penstock.wire.http.http1 import Headers, Memo, build_response_head, field_lines, find

if TYPE_CHECKING:
    from penstock.net.http_connection import HttpConnection

_BODILESS = frozenset((204, 304))


class Request(Struct, gc=False):
    """A whole request. Headers keep their case and order; `target` is always a path with its query.

    The head may serve many requests: nobody changes `headers` or `fields`, and what is found out from them
    alone may be left in `memo` for the next one.
    """

    method: bytes
    target: bytes
    headers: Headers
    body: bytes
    peer: Any  # as the socket gives it, None for a peer without an address
    connection_id: int
    fields: dict[bytes, bytes]  # by lower-case name; repeated ones joined by a comma
    memo: Memo = msgspec.field(default_factory=Memo)

    @property
    def path(self) -> bytes:
        """The target without its query."""
        return self.target.partition(b"?")[0]

    @property
    def query(self) -> bytes:
        """What follows the question mark."""
        return self.target.partition(b"?")[2]

    def header(self, name: bytes) -> bytes | None:
        """The value of a header, or None. Repeated ones are joined by a comma, so none of them hides."""
        return self.fields.get(name.lower())


class Reply:
    """The reply to one request: `send` it whole, or `start`, `write` and `finish` it.

    Everything is harmless once the client is gone. `on_gone` is called if its connection ends before the
    reply does, `on_drain` when a full buffer has emptied again.
    """

    # What most replies leave as it is stands here once, and not in each of them.
    _is_chunked = False
    _is_silent = False
    _left = -1  # of a length that was promised; -1 when none was
    extra: Headers | tuple[()] = ()  # headers that go with this reply, whatever it is
    is_started = False
    is_finished = False
    is_gone = False
    on_gone: Callable[[], None] | None = None
    on_drain: Callable[[], None] | None = None
    admission: Any = None  # whom it is for and for how long, where somebody was asked
    subject: bytes | None = None  # the access token that was shown, where another is made of it

    def __init__(self, connection: HttpConnection, is_head: bool, is_http11: bool) -> None:
        self._connection = connection
        self._is_head = is_head
        self._is_http11 = is_http11

    @property
    def is_full(self) -> bool:
        """Whether the client reads more slowly than we write; `on_drain` tells when that is over."""
        return self._connection.is_full

    @property
    def unread(self) -> int:
        """Bytes written that the client has not taken."""
        return self._connection.unread

    def send(self, status: int, headers: Headers, body: bytes = b"") -> None:
        """The whole reply, in one write."""
        if self.is_started:
            raise RuntimeError("a reply was started twice")
        if self._is_head:
            # The length is that of the body a GET would have had, which a forwarded reply only names.
            length = (not body and find(headers, b"content-length")) or b"%d" % len(body)
            framing, body = b"Content-Length: %b\r\n" % length, b""
        elif status in _BODILESS:
            framing, body = b"", b""
        else:
            framing = b"Content-Length: %d\r\n" % len(body)
        connection = self._connection
        if self.extra:
            headers = [*headers, *self.extra]
        head = build_response_head(status, headers, framing + connection.persistence)
        self.is_started = self.is_finished = True
        if not self.is_gone:
            self._end_with(head, body)

    def send_as(self, start: bytes, body: bytes) -> None:
        """The whole reply, of a status that has a body; `start` is its head but for the framing."""
        if self.is_started:
            raise RuntimeError("a reply was started twice")
        connection = self._connection
        self.is_started = self.is_finished = True
        if not self.is_gone:
            if self.extra:
                start += field_lines(self.extra)
            head = b"%bContent-Length: %d\r\n%b\r\n" % (start, len(body), connection.persistence)
            self._end_with(head, b"" if self._is_head else body)

    def _end_with(self, head: bytes, body: bytes) -> None:
        if len(body) <= limits.HTTP_JOIN_BYTES:
            self._connection.end_reply(head + body)
        else:  # not copied once more, only to stand behind its head
            self._connection.write_pieces(head, body)
            self._connection.end_reply(b"")

    def start(self, status: int, headers: Headers) -> None:
        """The head of a reply whose body follows.

        A content-length in `headers` is a promise; without one the body goes out in chunks, or, to an
        HTTP/1.0 client, until the connection closes.
        """
        if self.is_started:
            raise RuntimeError("a reply was started twice")
        length = find(headers, b"content-length")
        connection = self._connection
        if self._is_head or status in _BODILESS:
            self._is_silent = True
            framing = b"" if length is None or status == 204 else b"Content-Length: %b\r\n" % length
        else:
            framing = self._framing(length)
        if self.extra:
            headers = [*headers, *self.extra]
        head = build_response_head(status, headers, framing + connection.persistence)
        self.is_started = True
        if not self.is_gone:
            connection.write_head(head)

    def start_as(self, start: bytes) -> None:
        """The same for a body of unknown length; `start` is the head but for the framing."""
        if self.is_started:
            raise RuntimeError("a reply was started twice")
        framing = b"" if self._is_head else self._framing(None)
        self._is_silent = self._is_head
        self.is_started = True
        if not self.is_gone:
            if self.extra:
                start += field_lines(self.extra)
            self._connection.write_head(b"%b%b%b\r\n" % (start, framing, self._connection.persistence))

    def stream_as(self, start: bytes, body: bytes) -> None:
        """The bytes of `start_as`, `write` and `finish`, in one write where `body` is small."""
        is_one_chunk = self._is_http11 and not self._is_head and 0 < len(body) <= limits.HTTP_JOIN_BYTES
        if self.is_started or not is_one_chunk:
            self.start_as(start)
            self.write(body)
            self.finish()
            return
        self.is_started = self.is_finished = True
        if not self.is_gone:
            if self.extra:
                start += field_lines(self.extra)
            connection = self._connection
            connection.end_reply(
                b"%bTransfer-Encoding: chunked\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n"
                % (start, connection.persistence, len(body), body)
            )

    def _framing(self, length: bytes | None) -> bytes:
        """What the head says of where the body ends; a `length` is a promise."""
        if length is not None:
            self._left = int(length)
            return b"Content-Length: %d\r\n" % self._left
        if self._is_http11:
            self._is_chunked = True
            return b"Transfer-Encoding: chunked\r\n"
        self._connection.close_after_reply()
        return b""

    def write(self, chunk: bytes) -> None:
        """A part of the body, sent in this turn of the loop."""
        if self.is_gone or self._is_silent or not chunk:
            return
        if not self.is_started or self.is_finished:
            raise RuntimeError("a reply was written to before its start or after its end")
        if self._is_chunked:
            if len(chunk) > limits.HTTP_JOIN_BYTES:
                self._connection.write_pieces(b"%x\r\n" % len(chunk), chunk, b"\r\n")
                return
            chunk = b"%x\r\n%b\r\n" % (len(chunk), chunk)
        elif self._left >= 0:
            self._left -= len(chunk)
            if self._left < 0:
                self.abort()
                raise RuntimeError("a reply became longer than it promised")
        self._connection.write(chunk)

    def finish(self, last: bytes = b"") -> None:
        """The end of the body, in one write with the `last` part of it where that is small."""
        if self.is_finished:
            return
        if last and self._is_chunked and len(last) <= limits.HTTP_JOIN_BYTES:
            self.is_finished = True
            if not self.is_gone:
                self._connection.end_reply(b"%x\r\n%b\r\n0\r\n\r\n" % (len(last), last))
            return
        self.write(last)
        if not self.is_started:
            raise RuntimeError("a reply was finished before its start")
        if self._left > 0:
            self.abort()  # a shorter body would make the next reply a part of this one
            return
        self.is_finished = True
        if not self.is_gone:
            self._connection.end_reply(b"0\r\n\r\n" if self._is_chunked else b"")

    def abort(self) -> None:
        """Closes the connection at once, so that what was sent so far cannot be taken for the whole."""
        if not self.is_finished:
            self.is_finished = True
            if not self.is_gone:
                self.is_gone = True
                self._connection.abort()
