"""An HTTP/1.1 client for one upstream, with connections that are kept for the next request.

A request is written once. When its connection fails after that, nobody knows whether the server acted on
it, so the receiver is told and nothing is sent again. Redirects are not followed: they are answers.

Servers close connections that were idle for some time, and may do so in the moment we write to one. That says
nothing about the server, so it is called once more: only when nobody takes the call is it lost.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

from penstock import limits
from penstock.errors import ConnectFailed, RequestFailed, UpstreamError, UpstreamLost
from penstock.net.connect import Admission, TlsFactory, default_tls, dial
from penstock.net.upstream_connection import Receiver, Ticket, UpstreamConnection
from penstock.wire.http.http1 import Headers, request_start
from penstock.wire.http.url import Url, maybe_proxy

__all__ = ["HttpClient", "Receiver", "Ticket"]

_METHODS_WITH_BODY = frozenset((b"POST", b"PUT", b"PATCH"))


class HttpClient:
    """Sends requests to the origin of `url`; how many connections that takes is its own affair.

    `environ` is where a forward proxy may be named, as a rule `os.environ`. `admits` says
    which addresses may be connected to, after names have been resolved.
    """

    def __init__(
        self,
        url: Url,
        *,
        connect_timeout: float = limits.CONNECT_SECONDS,
        new_tls: TlsFactory = default_tls,
        environ: Mapping[str, str] | None = None,
        idle_seconds: float = limits.UPSTREAM_IDLE_SECONDS,
        admits: Admission | None = None,
    ) -> None:
        self.url = url
        self._loop = asyncio.get_running_loop()
        self._host = url.authority.encode()
        self._connect_timeout = connect_timeout
        self._new_tls = new_tls
        self._idle_seconds = idle_seconds
        self._admits = admits
        self._proxy = maybe_proxy(url, os.environ if environ is None else environ)
        self._target_prefix = b""
        self._proxy_headers: Headers = []
        if self._proxy is not None and not url.is_tls:
            self._target_prefix = url.origin.encode()  # a proxy is told whom to ask (RFC 9112, 3.2.2)
            credentials = self._proxy.basic_credentials
            if credentials is not None:
                self._proxy_headers = [(b"Proxy-Authorization", credentials)]
        self._idle: list[UpstreamConnection] = []  # the last one used is the first one used again
        self._open: set[UpstreamConnection] = set()
        self._connecting: dict[asyncio.Task[None], Ticket] = {}
        self._expiry: asyncio.TimerHandle | None = None
        self._unanswered: list[Ticket] = []  # written to kept connections that ended without a word
        self._call: asyncio.Task[None] | None = None  # to find out whether anybody is there
        self._all_gone: asyncio.Future[None] | None = None
        self._is_closed = False

    @property
    def connection_count(self) -> int:
        """Connections open now, idle ones included."""
        return len(self._open)

    def request(
        self,
        method: bytes,
        target: bytes,
        headers: Headers,
        body: bytes,
        receiver: Receiver,
        is_kept_used: bool = True,
    ) -> Ticket:
        """Sends a request; `receiver` hears of the response, never before this returns.

        Without `is_kept_used` it gets a connection of its own: for what must not meet a kept one's end.
        """
        return self.request_as(self.prepare(method, target, headers), method, body, receiver, is_kept_used)

    def prepare(self, method: bytes, target: bytes, headers: Headers) -> bytes:
        """What many requests to the same target begin with, for `request_as`."""
        if self._target_prefix:
            target, headers = self._target_prefix + target, headers + self._proxy_headers
        return request_start(method, target, self._host, headers)

    def request_as(
        self, start: bytes, method: bytes, body: bytes, receiver: Receiver, is_kept_used: bool = True
    ) -> Ticket:
        """The same as `request`, for what was prepared."""
        rest = b""
        if not body and method not in _METHODS_WITH_BODY:
            message = start + b"\r\n"
        elif len(body) <= limits.HTTP_JOIN_BYTES:
            message = b"%bContent-Length: %d\r\n\r\n%b" % (start, len(body), body)
        else:  # not copied once more, only to stand behind its head
            message, rest = b"%bContent-Length: %d\r\n\r\n" % (start, len(body)), body
        ticket = Ticket(receiver)
        is_head = method == b"HEAD"
        connection = self._take_idle() if is_kept_used else None
        if connection is not None:
            connection.send(message, is_head, ticket, rest)
        else:
            ticket.unsent = message, rest, is_head
            task = self._loop.create_task(self._send_on_new_connection(ticket))
            ticket.connecting = task
            self._connecting[task] = ticket
            task.add_done_callback(self._connected)
        return ticket

    def _connected(self, task: asyncio.Task[None]) -> None:
        self._connecting.pop(task).connecting = None  # they know each other, and the task the request

    async def connect(self) -> None:
        """Opens a connection for the request to come; raises ConnectFailed."""

        def park(connection: UpstreamConnection) -> None:
            self._open.add(connection)
            self._on_idle(connection)

        def new_connection() -> UpstreamConnection:
            return UpstreamConnection(park, self._on_idle, self._on_gone)

        await dial(new_connection, self.url, self._proxy, self._connect_timeout, self._new_tls, self._admits)

    async def look(self) -> None:
        """Sees whether somebody takes connections; raises ConnectFailed, or RequestFailed when it is us."""

        def new_connection() -> UpstreamConnection:
            return UpstreamConnection(lambda _: None, lambda _: None, lambda *_: None)

        connection = await dial(
            new_connection, self.url, self._proxy, self._connect_timeout, self._new_tls, self._admits
        )
        connection.close_now()

    async def close(self) -> None:
        """Closes every connection; requests under way fail."""
        self._is_closed = True
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        if self._call is not None:
            self._call.cancel()
        self._fail_unanswered(UpstreamLost("Connection closed by us"))
        for connection in tuple(self._open):
            connection.fail(UpstreamLost("Connection closed by us"))
        connecting = dict(self._connecting)
        for task in connecting:
            task.cancel()
        await asyncio.gather(*connecting, return_exceptions=True)
        for ticket in connecting.values():
            ticket.fail(UpstreamLost("Connection closed by us"))
        if self._open:
            self._all_gone = self._loop.create_future()
            await asyncio.wait((self._all_gone,), timeout=1.0)

    def _take_idle(self) -> UpstreamConnection | None:
        oldest = self._loop.time() - self._idle_seconds
        while self._idle:
            connection = self._idle.pop()
            if connection.idle_since > oldest and connection.is_usable:
                return connection
            connection.close_now()
        return None

    async def _send_on_new_connection(self, ticket: Ticket) -> None:
        def send(connection: UpstreamConnection) -> None:
            self._open.add(connection)
            unsent, ticket.unsent = ticket.unsent, None
            if ticket.is_done or unsent is None:
                connection.close_now()
            else:
                message, rest, is_head = unsent
                connection.send(message, is_head, ticket, rest)

        def new_connection() -> UpstreamConnection:
            return UpstreamConnection(send, self._on_idle, self._on_gone)

        try:
            if self._is_closed:
                raise ConnectFailed(self.url.shown, "Connection closed by us")
            await dial(
                new_connection, self.url, self._proxy, self._connect_timeout, self._new_tls, self._admits
            )
        except UpstreamError as why:
            if ticket.connection is None:  # else the request is out, and its connection will tell
                ticket.fail(why)

    def _on_idle(self, connection: UpstreamConnection) -> None:
        if self._is_closed or len(self._idle) >= limits.UPSTREAM_IDLE_CONNECTIONS:
            connection.close_now()
            return
        connection.idle_since = self._loop.time()
        self._idle.append(connection)
        if self._expiry is None:
            self._expiry = self._loop.call_later(self._idle_seconds, self._expire)

    def _on_gone(self, connection: UpstreamConnection, unanswered: Ticket | None) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if self._all_gone is not None and not self._open and not self._all_gone.done():
            self._all_gone.set_result(None)
        if unanswered is not None:
            self._unanswered.append(unanswered)
            if self._call is None or self._call.done():
                self._call = self._loop.create_task(self._call_again())

    async def _call_again(self) -> None:
        """Connects, and says so to those whose kept connections ended before any answer."""
        has_ended = asyncio.Event()

        def new_connection() -> UpstreamConnection:
            return UpstreamConnection(lambda _: None, self._on_idle, lambda *_: has_ended.set())

        detail = "Connection closed before a response"
        try:
            connection = await dial(
                new_connection, self.url, self._proxy, self._connect_timeout, self._new_tls, self._admits
            )
        except RequestFailed as why:
            self._fail_unanswered(why)
            return
        except UpstreamError:
            self._fail_unanswered(UpstreamLost(detail))
            return
        try:
            await asyncio.wait_for(has_ended.wait(), limits.SECOND_CALL_SECONDS)
        except TimeoutError:
            self._fail_unanswered(RequestFailed(detail))
        else:
            self._fail_unanswered(UpstreamLost(detail))
        finally:
            connection.close_now()

    def _fail_unanswered(self, error: UpstreamError) -> None:
        unanswered, self._unanswered = self._unanswered, []
        for ticket in unanswered:
            ticket.fail(error)

    def _expire(self) -> None:
        """Closes what has been idle too long; the timer runs only while something is idle."""
        self._expiry = None
        oldest = self._loop.time() - self._idle_seconds
        while self._idle and self._idle[0].idle_since <= oldest:
            self._idle.pop(0).close_now()
        if self._idle:
            wait = self._idle[0].idle_since - oldest
            self._expiry = self._loop.call_later(wait, self._expire)
