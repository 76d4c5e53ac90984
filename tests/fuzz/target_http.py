"""Our HTTP against h11 and llhttp: what we take for a request, a head and a body is that for them too.

They may refuse what we take: then nobody is misled. They must not read it differently.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import h11
import httptools

from penstock.errors import MalformedHttp
from penstock.net.byte_budget import ByteBudget
from penstock.net.http_connection import HttpConnection
from penstock.net.http_exchange import Reply, Request
from penstock.net.http_server import ServerLimits
from penstock.wire.http.chunked import ChunkedReader
from penstock.wire.http.http1 import CHUNKED, UNTIL_CLOSE, read_request_head, read_response_head


class Seen(NamedTuple):
    """One message as somebody reads it."""

    start: tuple[bytes, ...]  # the method, or the status
    headers: list[tuple[bytes, bytes]]
    body: bytes


def check(data: bytes) -> None:
    """The first byte says how to cut; an odd one makes the rest a response, else it is requests."""
    first, stream = (data[0], data[1:]) if data else (0, b"")
    if first % 2:
        _check_response(stream)
        return
    ours = _our_requests([stream])
    step = first // 2 + 1
    assert _our_requests([stream[i : i + step] for i in range(0, len(stream), step)]) == ours, stream
    for theirs, has_stopped in (_h11_requests(stream), _llhttp_requests(stream)):
        _compare(ours, theirs, has_stopped, stream)


def _compare(ours: list[Seen], theirs: list[Seen], has_stopped: bool, stream: bytes) -> None:
    for place, mine in enumerate(ours):
        if place >= len(theirs):
            assert has_stopped, ("not a whole message for them", mine, stream)
            return
        assert _plain(theirs[place]) == _plain(mine), (mine, theirs[place], stream)


def _plain(message: Seen) -> Seen:
    """h11 tells a transfer coding in lower case, however it was written."""
    headers = [
        (name, value.lower() if name.lower() == b"transfer-encoding" else value)
        for name, value in message.headers
    ]
    return message._replace(headers=headers)


# --- requests ------------------------------------------------------------------------------------------


class _Transport:
    """Takes everything and says nothing."""

    def __init__(self) -> None:
        self.is_closed = False

    def get_extra_info(self, name: str) -> None:
        return None

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = write_eof = close

    def can_write_eof(self) -> bool:
        return True

    def write(self, data: object) -> None:
        """Nobody reads it."""

    writelines = write

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, *limits: int) -> None:
        """There are none."""

    pause_reading = resume_reading = set_write_buffer_limits


def _our_requests(chunks: list[bytes]) -> list[Seen]:
    seen: list[Seen] = []

    def handler(request: Request, reply: Reply) -> None:
        seen.append(Seen((request.method,), request.headers, request.body))
        reply.send(200, [])

    server: Any = SimpleNamespace(
        now=0.0,
        limits=ServerLimits(),
        is_draining=False,
        budget=ByteBudget(1 << 40),
        handler=handler,
        read_head=read_request_head,
        admit=lambda connection: True,
        forget=lambda connection: None,
    )
    connection = HttpConnection(server, 1)
    transport: Any = _Transport()
    connection.connection_made(transport)
    for chunk in chunks:
        if transport.is_closed:
            break
        connection.data_received(chunk)
    return seen


def _h11_requests(stream: bytes) -> tuple[list[Seen], bool]:
    peer = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    peer.receive_data(stream)
    seen: list[Seen] = []
    head: h11.Request | None = None
    body = b""
    while True:
        try:
            event = peer.next_event()
        except h11.RemoteProtocolError:
            return seen, True
        if event is h11.NEED_DATA or isinstance(event, h11.ConnectionClosed):
            return seen, False
        if event is h11.PAUSED:
            return seen, True
        if isinstance(event, h11.Request):
            head, body = event, b""
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            seen.append(Seen((bytes(head.method),), [(n, v) for n, v in head.headers.raw_items()], body))
            try:
                peer.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
                peer.send(h11.EndOfMessage())
                peer.start_next_cycle()
            except h11.LocalProtocolError:
                return seen, True


class _Llhttp:
    """Collects what llhttp tells."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.parser: Any = None
        self.on_message_begin()

    def on_message_begin(self) -> None:
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = b""

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        self._known = list(self._headers)  # a trailer comes later, and is none of ours

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        parser = self.parser
        is_request = isinstance(parser, httptools.HttpRequestParser)
        start = parser.get_method() if is_request else b"%d" % parser.get_status_code()
        self.seen.append(Seen((start,), self._known, self._body))


def _llhttp_requests(stream: bytes) -> tuple[list[Seen], bool]:
    collector = _Llhttp()
    collector.parser = httptools.HttpRequestParser(collector)
    try:
        collector.parser.feed_data(stream)
    except (httptools.HttpParserUpgrade, httptools.HttpParserError):
        return collector.seen, True
    return collector.seen, not collector.parser.should_keep_alive()


# --- responses -----------------------------------------------------------------------------------------


def _check_response(stream: bytes) -> None:
    end = stream.find(b"\r\n\r\n")
    if end < 0:
        return
    try:
        head = read_response_head(stream[: end + 4])
        rest = stream[end + 4 :]
        pieces: list[bytes] = []
        if head.length == CHUNKED:
            reader = ChunkedReader()
            reader.feed(rest, 0, pieces)
            if not reader.is_done:
                return
        elif head.length == UNTIL_CLOSE:
            pieces = [rest]
        elif len(rest) < head.length:
            return
        else:
            pieces = [rest[: head.length]]
    except MalformedHttp:
        return
    if head.status < 200:
        return  # an interim response has no body, for anybody
    mine = Seen((b"%d" % head.status,), head.headers, b"".join(pieces))
    theirs = _h11_response(stream)
    assert theirs is None or _plain(theirs) == _plain(mine), (mine, theirs, stream)


def _h11_response(stream: bytes) -> Seen | None:
    peer = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    peer.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
    peer.send(h11.EndOfMessage())
    peer.receive_data(stream)
    peer.receive_data(b"")
    head: h11.Response | None = None
    body = b""
    while True:
        try:
            event = peer.next_event()
        except h11.RemoteProtocolError:
            return None
        if isinstance(event, h11.Response):
            head = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            return Seen((b"%d" % head.status_code,), [(n, v) for n, v in head.headers.raw_items()], body)
        elif not isinstance(event, h11.InformationalResponse):
            return None
