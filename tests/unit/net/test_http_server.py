"""The HTTP server over real sockets: h11 on the other side, raw bytes where h11 is too polite."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import socket
from collections.abc import AsyncIterator, Callable

import h11
import pytest

from penstock import limits
from penstock.errors import ConfigError
from penstock.net.http_server import Handler, HttpServer, Reply, Request, ServerLimits

OK = b"HTTP/1.1 200 OK\r\n"
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class Peer:
    """A client that sends what it is told, byte for byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def until(self, mark: bytes) -> bytes:
        return await asyncio.wait_for(self.reader.readuntil(mark), 5)

    async def exactly(self, size: int) -> bytes:
        return await asyncio.wait_for(self.reader.readexactly(size), 5)

    async def until_closed(self) -> bytes:
        return await asyncio.wait_for(self.reader.read(), 5)

    async def answer(self) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """One response, as h11 reads it."""
        client = h11.Connection(h11.CLIENT)
        client.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
        client.send(h11.EndOfMessage())
        status, headers, body = 0, [], b""
        while True:
            event = client.next_event()
            if event is h11.NEED_DATA:
                # One byte at a time, so that nothing of the next response is taken.
                client.receive_data(await asyncio.wait_for(self.reader.read(1), 5))
            elif isinstance(event, h11.Response):
                status, headers = event.status_code, event.headers.raw_items()
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return status, headers, body

    async def close(self) -> None:
        self.writer.transport.abort()


class Site:
    """A running server and what its handler has seen."""

    def __init__(self, handler: Handler | None, server_limits: ServerLimits) -> None:
        self.requests: list[Request] = []
        self.replies: list[Reply] = []
        self.arrived = asyncio.Event()
        self._handler = handler
        self._peers: list[Peer] = []
        self.server = HttpServer(self._handle, server_limits)
        self.port = 0

    def _handle(self, request: Request, reply: Reply) -> None:
        self.requests.append(request)
        self.replies.append(reply)
        self.arrived.set()
        if self._handler is not None:
            self._handler(request, reply)

    async def connect(self, receive_buffer: int = 0) -> Peer:
        sock = socket.socket()
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        peer = Peer(*await asyncio.open_connection(sock=sock, limit=4096))
        self._peers.append(peer)
        return peer

    async def request_number(self, count: int) -> None:
        async with asyncio.timeout(5):
            while len(self.requests) < count:
                self.arrived.clear()
                await self.arrived.wait()


@contextlib.asynccontextmanager
async def serving(handler: Handler | None, **server_limits: float) -> AsyncIterator[Site]:
    site = Site(handler, ServerLimits(**server_limits))
    _, site.port = await site.server.listen("127.0.0.1", 0)
    try:
        yield site
    finally:
        for peer in site._peers:
            await peer.close()
        await site.server.drain(0)
        assert site.server.connection_count == 0


def echo(request: Request, reply: Reply) -> None:
    reply.send(200, [(b"X-Target", request.target)], request.method + b" " + request.body)


async def soon(condition: Callable[[], bool]) -> None:
    """Waits for what must come true; the test fails when it does not within five seconds."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - what is awaited has no event of its own
            await asyncio.sleep(0.005)


def post(body: bytes, *lines: bytes) -> bytes:
    head = [b"POST /mcp HTTP/1.1", b"Host: x", b"Content-Length: %d" % len(body), *lines, b"", b""]
    return b"\r\n".join(head) + body


# Reading


def test_a_request_is_given_whole_and_as_it_was_sent():
    async def main() -> None:
        async with serving(echo) as site:
            peer = await site.connect()
            peer.send(
                b"POST /a/b?c=d HTTP/1.1\r\nHost: x\r\nMcp-Session-ID: s\r\nX: 1\r\nx: 2\r\n"
                b"Content-Length: 3\r\n\r\nabc"
            )
            status, headers, body = await peer.answer()
            assert (status, body) == (200, b"POST abc")
            assert headers == [(b"X-Target", b"/a/b?c=d"), (b"Content-Length", b"8")]
            (request,) = site.requests
            assert (request.method, request.path, request.query) == (b"POST", b"/a/b", b"c=d")
            assert request.headers[1] == (b"Mcp-Session-ID", b"s")
            assert request.header(b"mcp-session-id") == request.header(b"MCP-Session-Id") == b"s"
            assert request.header(b"x") == b"1, 2"
            assert request.header(b"absent") is None
            assert request.peer[0] == "127.0.0.1"
            assert request.connection_id > 0

    asyncio.run(main())


def test_h11_is_understood_with_a_length_and_in_chunks():
    async def main() -> None:
        async with serving(echo) as site:
            peer = await site.connect()
            for headers in ([("Content-Length", "10")], [("Transfer-Encoding", "chunked")]):
                client = h11.Connection(h11.CLIENT)
                peer.send(
                    client.send(h11.Request(method="POST", target="/", headers=[("Host", "x"), *headers]))
                )
                peer.send(client.send(h11.Data(data=b"01234")))
                peer.send(client.send(h11.Data(data=b"56789")) + client.send(h11.EndOfMessage()))
                assert (await peer.answer())[2] == b"POST 0123456789"

    asyncio.run(main())


CHUNKED_POST = (
    b"POST /t HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nX: z\r\n\r\n"
)


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_requests_do_not_depend_on_how_the_bytes_arrive(step):
    stream = post(b"first") + CHUNKED_POST + GET + post(b"", b"X: y") + post(b"last")

    async def main() -> None:
        async with serving(echo) as site:
            peer = await site.connect()
            peer.writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for at in range(0, len(stream), step):
                peer.send(stream[at : at + step])
                await asyncio.sleep(0)
            bodies = [(await peer.answer())[2] for _ in range(5)]
            assert bodies == [b"POST first", b"POST abcde", b"GET ", b"POST ", b"POST last"]
            assert site.requests[1].header(b"x") is None  # a trailer is no header
            assert len({request.connection_id for request in site.requests}) == 1

    asyncio.run(main())


def test_data_received_byte_by_byte_gives_the_same_requests():
    """The same as above without a kernel that might put bytes together."""
    stream = post(b"first") + CHUNKED_POST + GET

    async def main() -> None:
        async with serving(echo) as site:
            await site.connect()
            await soon(lambda: site.server.connection_count == 1)
            (connection,) = site.server._admitted
            for at in range(len(stream)):
                connection.data_received(stream[at : at + 1])
            assert [request.body for request in site.requests] == [b"first", b"abcde", b""]

    asyncio.run(main())


def test_pipelined_requests_are_handled_one_after_another():
    async def main() -> None:
        async with serving(None) as site:
            peer = await site.connect()
            peer.send(post(b"1") + post(b"2"))
            peer.send(post(b"3"))
            await site.request_number(1)
            await asyncio.sleep(0.05)
            assert len(site.requests) == 1
            site.replies[0].send(200, [], b"one")
            await site.request_number(2)
            assert len(site.requests) == 2
            site.replies[1].start(200, [])
            site.replies[1].write(b"two")
            await asyncio.sleep(0.05)
            assert len(site.requests) == 2
            site.replies[1].finish()
            await site.request_number(3)
            site.replies[2].send(200, [], b"three")
            assert [(await peer.answer())[2] for _ in range(3)] == [b"one", b"two", b"three"]

    asyncio.run(main())


def test_a_thousand_pipelined_requests_are_all_answered_in_order():
    async def main() -> None:
        async with serving(echo) as site:
            peer = await site.connect()
            peer.send(b"".join(post(b"%04d" % number) for number in range(1000)))
            for number in range(1000):
                assert (await peer.until(b"POST %04d" % number)).startswith(OK)

    asyncio.run(main())


def test_pipelined_bytes_are_bounded_while_a_request_is_answered():
    async def main() -> None:
        async with serving(None) as site:
            peer = await site.connect()
            peer.send(post(b"1"))
            await site.request_number(1)
            (connection,) = site.server._admitted
            peer.send(post(b"2" * 8_000_000))
            await soon(lambda: not connection._transport.is_reading())
            assert connection._more_size <= limits.PIPELINED_BYTES + 256 * 1024
            site.replies[0].send(200, [])
            await site.request_number(2)
            assert len(site.requests[1].body) == 8_000_000

    asyncio.run(main())


def test_replies_that_nobody_reads_do_not_pile_up():
    async def main() -> None:
        def big(request: Request, reply: Reply) -> None:
            reply.send(200, [], b"x" * 100_000)

        async with serving(big) as site:
            peer = await site.connect(receive_buffer=4096)
            peer.send(GET * 500)
            await soon(lambda: any(connection.is_full for connection in site.server._admitted))
            (connection,) = site.server._admitted
            assert connection._transport.get_write_buffer_size() < limits.WRITE_HIGH_BYTES + 200_000
            assert len(site.requests) < 100
            for _ in range(500):
                await peer.until(b"\r\n\r\n")
                await peer.exactly(100_000)
            assert len(site.requests) == 500

    asyncio.run(main())


HIDDEN = b"POST /hidden HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
LINE = b"POST / HTTP/1.1\r\n"
HOST = b"Host: x\r\n"


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(
            LINE + HOST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
            id="cl-te",
        ),
        pytest.param(LINE + HOST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + HIDDEN, id="xchunked"),
        pytest.param(
            LINE + HOST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + HIDDEN, id="te-list"
        ),
        pytest.param(
            LINE + HOST + b"X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN, id="te-bare-lf"
        ),
        pytest.param(
            LINE + HOST + b"Content-Length: 0\r\nContent-Length: 9\r\n\r\n" + HIDDEN, id="two-lengths"
        ),
        pytest.param(LINE + HOST + b"Content-Length: 0, 9\r\n\r\n" + HIDDEN, id="list-of-lengths"),
        pytest.param(LINE + HOST + b"Content-Length: +0\r\n\r\n" + HIDDEN, id="plus"),
        pytest.param(LINE + HOST + b"X: a\r\n b\r\n\r\n" + HIDDEN, id="obs-fold"),
        pytest.param(LINE + HOST + b"Content-Length : 0\r\n\r\n" + HIDDEN, id="blank-before-colon"),
        pytest.param(LINE.replace(b"\r", b"") + HOST.replace(b"\r", b"") + b"\n", id="bare-lf"),
        pytest.param(LINE + HOST.replace(b"\r", b"") + b"\r\n" + HIDDEN, id="one-bare-lf"),
        pytest.param(LINE + HOST + b"X: a\0b\r\n\r\n" + HIDDEN, id="nul"),
        pytest.param(LINE + HOST + b"X: a\x08b\r\n\r\n" + HIDDEN, id="control"),
        pytest.param(LINE + b"\r\n" + HIDDEN, id="no-host"),
        pytest.param(LINE + HOST + HOST + b"\r\n" + HIDDEN, id="two-hosts"),
        pytest.param(
            LINE + HOST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", id="long-chunk"
        ),
        pytest.param(
            LINE + HOST + b"Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n", id="hex-chunk"
        ),
        pytest.param(
            LINE + HOST + b"Transfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n", id="chunk-bare-lf"
        ),
        pytest.param(b"\x16\x03\x01\x02\x00\x01", id="tls-hello"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", id="http2"),
        pytest.param(b"\r\n\r\n", id="blank-lines"),
    ],
)
@pytest.mark.parametrize("step", [1, 10_000])
def test_what_is_ambiguous_is_refused_and_the_connection_closed(raw, step):
    async def main() -> None:
        async with serving(echo) as site:
            peer = await site.connect()
            for at in range(0, len(raw), step):
                peer.send(raw[at : at + step])
                if step == 1:
                    await asyncio.sleep(0)
            answer = await peer.until_closed()
            assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
            assert b"Connection: close\r\n" in answer
            assert answer.count(b"HTTP/1.1") == 1
            assert site.requests == []

    asyncio.run(main())


def test_a_body_after_length_zero_is_no_request():
    async def main() -> None:
        async with serving(echo) as site:
            peer = await site.connect()
            peer.send(post(b"") + b'{"jsonrpc":"2.0"}')
            answer = await peer.until_closed()
            assert answer.startswith(OK)
            assert b"HTTP/1.1 400" in answer
            assert len(site.requests) == 1

    asyncio.run(main())


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        pytest.param(LINE + HOST + b"X: y\r\n" * 1000 + b"\r\n", 431, id="a-thousand-headers"),
        pytest.param(LINE + HOST + b"X: " + b"y" * 1_000_000 + b"\r\n\r\n", 431, id="a-huge-header"),
        pytest.param(b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414, id="a-huge-target"),
        pytest.param(b"GET /" + b"a" * 9_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414, id="a-long-target"),
        pytest.param(LINE + HOST + b"Content-Length: 10485761\r\n\r\n", 413, id="too-long"),
        pytest.param(
            LINE + HOST + b"Content-Length: 99999999999\r\n\r\n" + b"x" * 500_000, 413, id="way-too-long"
        ),
        pytest.param(LINE + HOST + b"Expect: tea\r\nContent-Length: 1\r\n\r\n", 417, id="expectation"),
    ],
)
def test_what_is_too_big_is_refused_as_soon_as_that_is_known(raw, status):
    async def main() -> None:
        async with serving(echo) as site:
            peer = await site.connect()
            peer.send(raw)
            assert (await peer.until_closed()).startswith(b"HTTP/1.1 %d " % status)
            assert site.requests == []

    asyncio.run(main())


def test_a_chunked_body_over_the_limit_is_refused(monkeypatch):
    monkeypatch.setattr(limits, "MESSAGE_BYTES", 100_000)

    async def main() -> None:
        async with serving(echo) as site:
            peer = await site.connect()
            peer.send(
                LINE + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1000\r\n%b\r\n" % (b"x" * 4096) * 30
            )
            assert (await peer.until_closed()).startswith(b"HTTP/1.1 413 ")
            assert site.requests == []

    asyncio.run(main())


def test_a_message_of_exactly_the_limit_is_taken():
    async def main() -> None:
        async with serving(lambda request, reply: reply.send(200, [], b"%d" % len(request.body))) as site:
            peer = await site.connect()
            peer.send(post(b"x" * limits.MESSAGE_BYTES))
            assert (await peer.answer())[2] == b"%d" % limits.MESSAGE_BYTES

    asyncio.run(main())


def test_expect_continue_is_answered_before_the_body_comes():
    async def main() -> None:
        async with serving(echo) as site:
            peer = await site.connect()
            peer.send(LINE + HOST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
            assert await peer.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            peer.send(b"ok")
            assert (await peer.answer())[2] == b"POST ok"

    asyncio.run(main())


def test_an_upgrade_is_ignored():
    async def main() -> None:
        async with serving(echo) as site:
            peer = await site.connect()
            peer.send(
                b"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\n"
                b"Upgrade: websocket\r\n\r\n" + GET
            )
            assert (await peer.answer())[0] == 200
            assert (await peer.answer())[0] == 200

    asyncio.run(main())


@pytest.mark.parametrize("method", [b"PUT", b"PATCH", b"GET", b"DELETE", b"OPTIONS"])
def test_a_body_belongs_to_its_request_whatever_the_method(method):
    async def main() -> None:
        async with serving(echo) as site:
            peer = await site.connect()
            peer.send(post(GET).replace(b"POST", method) + post(b"next"))
            assert (await peer.answer())[2] == method + b" " + GET
            assert (await peer.answer())[2] == b"POST next"

    asyncio.run(main())


# Replies


def test_http10_is_closed_unless_it_asks_to_stay():
    async def main() -> None:
        async with serving(echo) as site:
            peer = await site.connect()
            peer.send(b"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            status, headers, _ = await peer.answer()
            assert (status, dict(headers)[b"Connection"]) == (200, b"keep-alive")
            peer.send(b"GET /b HTTP/1.0\r\n\r\n")
            assert b"\r\nConnection: close\r\n" in await peer.until_closed()

    asyncio.run(main())


def test_connection_close_closes_after_the_reply():
    async def main() -> None:
        async with serving(echo) as site:
            peer = await site.connect()
            peer.send(post(b"x", b"Connection: close") + GET)
            answer = await peer.until_closed()
            assert b"\r\nConnection: close\r\n" in answer
            assert answer.endswith(b"POST x")
            assert len(site.requests) == 1

    asyncio.run(main())


@pytest.mark.parametrize(
    ("status", "method", "body", "framing"),
    [
        (200, b"GET", b"abc", b"Content-Length: 3\r\n\r\nabc"),
        (200, b"HEAD", b"abc", b"Content-Length: 3\r\n\r\n"),
        (202, b"POST", b"", b"Content-Length: 0\r\n\r\n"),
        (204, b"POST", b"", b"HTTP/1.1 204 No Content\r\n\r\n"),
        (304, b"GET", b"abc", b"HTTP/1.1 304 Not Modified\r\n\r\n"),
        (404, b"GET", b"no", b"Content-Length: 2\r\n\r\nno"),
    ],
)
def test_each_status_and_method_has_the_body_it_may_have(status, method, body, framing):
    async def main() -> None:
        async with serving(lambda request, reply: reply.send(status, [], body)) as site:
            peer = await site.connect()
            peer.send(method + b" / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert (await peer.until_closed()).replace(b"Connection: close\r\n", b"").endswith(framing)

    asyncio.run(main())


def test_a_head_reply_keeps_the_length_it_was_given():
    async def main() -> None:
        async with serving(lambda request, reply: reply.send(200, [(b"content-length", b"42")])) as site:
            peer = await site.connect()
            peer.send(GET.replace(b"GET", b"HEAD") * 2)
            for _ in range(2):
                assert await peer.until(b"\r\n\r\n") == OK + b"Content-Length: 42\r\n\r\n"

    asyncio.run(main())


def test_a_streamed_reply_goes_out_piece_by_piece():
    async def main() -> None:
        async with serving(None) as site:
            peer = await site.connect()
            peer.send(GET + GET)
            await site.request_number(1)
            reply = site.replies[0]
            assert not reply.is_started
            reply.start(200, [(b"Content-Type", b"text/event-stream")])
            assert reply.is_started
            head = await peer.until(b"\r\n\r\n")
            assert head == OK + b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            reply.write(b"data: 1\n\n")
            assert await peer.until(b"1\n\n\r\n") == b"9\r\ndata: 1\n\n\r\n"
            reply.write(b"")
            reply.write(b"data: 2\n\n")
            assert await peer.until(b"2\n\n\r\n") == b"9\r\ndata: 2\n\n\r\n"
            assert not reply.is_finished
            reply.finish()
            assert reply.is_finished
            assert await peer.until(b"\r\n\r\n") == b"0\r\n\r\n"
            await site.request_number(2)
            site.replies[1].send(200, [], b"next")
            assert (await peer.answer())[2] == b"next"

    asyncio.run(main())


def test_h11_reads_a_streamed_reply():
    def stream(request: Request, reply: Reply) -> None:
        reply.start(200, [])
        for number in range(100):
            reply.write(b"%d," % number * number)
        reply.finish()

    async def main() -> None:
        async with serving(stream) as site:
            peer = await site.connect()
            for _ in range(2):
                peer.send(GET)
                assert (await peer.answer())[2] == b"".join(b"%d," % number * number for number in range(100))

    asyncio.run(main())


def test_a_reply_within_one_turn_is_one_write():
    def stream(request: Request, reply: Reply) -> None:
        reply.start(200, [])
        reply.write(b"a")
        reply.write(b"b")
        reply.finish()

    async def main() -> None:
        async with serving(stream) as site:
            peer = await site.connect()
            await soon(lambda: site.server.connection_count == 1)
            (connection,) = site.server._admitted
            writes: list[bytes] = []

            class Transport:
                def write(self, data: bytes) -> None:
                    writes.append(data)

                def __getattr__(self, name: str) -> object:
                    return getattr(real, name)

            real, connection._transport = connection._transport, Transport()
            peer.send(GET)
            await soon(lambda: len(writes) > 0)
            assert writes == [OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n"]

    asyncio.run(main())


def in_steps(reply: Reply, body: bytes) -> None:
    reply.start(200, [(b"X-A", b"b")])
    reply.write(body)
    reply.finish()


def with_its_end(reply: Reply, body: bytes) -> None:
    reply.start_as(OK + b"X-A: b\r\n")
    reply.finish(body)


def at_once(reply: Reply, body: bytes) -> None:
    reply.stream_as(OK + b"X-A: b\r\n", body)


@pytest.mark.parametrize(
    "body", [b"", b"abc", bytes(limits.HTTP_JOIN_BYTES), bytes(limits.HTTP_JOIN_BYTES + 1)]
)
@pytest.mark.parametrize(
    "asked",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n",
        b"HEAD / HTTP/1.1\r\nHost: x\r\n",
        b"GET / HTTP/1.0\r\n",
        b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n",
    ],
)
@pytest.mark.parametrize("send", [with_its_end, at_once])
def test_a_stream_has_the_same_bytes_in_fewer_steps(send, asked, body):
    async def said(send: Callable[[Reply, bytes], None]) -> bytes:
        def handler(request: Request, reply: Reply) -> None:
            reply.extra = [(b"X-More", b"c")]
            (send if request.target == b"/" else in_steps)(reply, body)
            with pytest.raises(RuntimeError):
                reply.start_as(OK)

        async with serving(handler) as site:
            peer = await site.connect()
            last = b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            peer.send(asked + b"\r\n" + last)
            return await peer.until_closed()

    async def main() -> None:
        assert await said(send) == await said(in_steps)

    asyncio.run(main())


def test_http10_gets_a_stream_until_the_connection_closes():
    def stream(request: Request, reply: Reply) -> None:
        reply.start(200, [])
        reply.write(b"abc")
        reply.finish()

    async def main() -> None:
        async with serving(stream) as site:
            peer = await site.connect()
            peer.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            assert await peer.until_closed() == OK + b"Connection: close\r\n\r\nabc"

    asyncio.run(main())


def test_a_promised_length_is_kept():
    def stream(request: Request, reply: Reply) -> None:
        reply.start(200, [(b"Content-Length", b"6")])
        reply.write(b"abc")
        if request.target == b"/short":
            reply.finish()
        elif request.target == b"/long":
            with pytest.raises(RuntimeError):
                reply.write(b"defg")
        else:
            reply.write(b"def")
            reply.finish()

    async def main() -> None:
        async with serving(stream) as site:
            peer = await site.connect()
            peer.send(GET * 2)
            for _ in range(2):
                assert await peer.until(b"\r\n\r\n") == OK + b"Content-Length: 6\r\n\r\n"
                assert await peer.exactly(6) == b"abcdef"
            for target in (b"/short", b"/long"):
                peer = await site.connect()
                peer.send(GET.replace(b"/ ", target + b" ") + GET)
                assert not (await peer.until_closed()).endswith(b"abcdef")

    asyncio.run(main())


def test_abort_leaves_a_stream_visibly_unfinished():
    async def main() -> None:
        async with serving(None) as site:
            peer = await site.connect()
            peer.send(GET)
            await site.request_number(1)
            gone: list[bool] = []
            reply = site.replies[0]
            reply.on_gone = lambda: gone.append(True)
            reply.start(200, [])
            reply.write(b"abc")
            await peer.until(b"abc\r\n")
            reply.abort()
            assert await peer.until_closed() == b""
            reply.write(b"more")
            reply.finish()
            await soon(lambda: site.server.connection_count == 0)
            assert gone == []

    asyncio.run(main())


# Handlers that fail, clients that go


def test_a_handler_that_raises_gives_500_and_nothing_of_its_trouble(caplog):
    def fail(request: Request, reply: Reply) -> None:
        if request.target == b"/late":
            reply.start(200, [])
        if request.target == b"/smuggle":
            reply.send(200, [(b"X", b"a\r\nb: c")])
        if request.target != b"/good":
            raise ValueError("a secret path")
        reply.send(200, [], b"good")

    async def main() -> None:
        async with serving(fail) as site:
            bystander = await site.connect()
            bystander.send(GET.replace(b"/ ", b"/good "))
            assert (await bystander.answer())[2] == b"good"
            for target in (b"/", b"/smuggle"):
                peer = await site.connect()
                peer.send(GET.replace(b"/ ", target + b" "))
                answer = await peer.until_closed()
                assert answer.startswith(b"HTTP/1.1 500 ")
                assert answer.endswith(b"\r\n\r\nInternal error\n")
            peer = await site.connect()
            peer.send(GET.replace(b"/ ", b"/late "))
            assert b"0\r\n\r\n" not in await peer.until_closed()
            bystander.send(GET.replace(b"/ ", b"/good "))
            assert (await bystander.answer())[2] == b"good"

    with caplog.at_level(logging.ERROR, "penstock"):
        asyncio.run(main())
    assert "a secret path" in caplog.text


@pytest.mark.parametrize("is_streaming", [False, True])
@pytest.mark.parametrize("is_reset", [False, True])
def test_a_client_that_goes_is_noticed_while_the_handler_works(is_streaming, is_reset):
    async def main() -> None:
        async with serving(None) as site:
            peer = await site.connect()
            peer.send(GET)
            await site.request_number(1)
            reply, gone = site.replies[0], asyncio.Event()
            reply.on_gone = gone.set
            if is_streaming:
                reply.start(200, [])
                await peer.until(b"\r\n\r\n")
            if is_reset:
                sock = peer.writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            await peer.close()
            await asyncio.wait_for(gone.wait(), 5)
            assert reply.is_gone
            if is_streaming:
                reply.write(b"harmless")
                reply.finish()
            else:
                reply.send(200, [], b"harmless")
            await soon(lambda: site.server.connection_count == 0)

    asyncio.run(main())


def test_a_client_that_goes_with_bytes_waiting_for_it_is_noticed():
    async def main() -> None:
        async with serving(None) as site:
            peer = await site.connect(receive_buffer=4096)
            peer.send(GET)
            await site.request_number(1)
            reply, gone = site.replies[0], asyncio.Event()
            reply.on_gone = gone.set
            reply.start(200, [])
            while not reply.is_full:
                reply.write(b"x" * 65_536)
                await asyncio.sleep(0)
            peer.writer.write_eof()
            await asyncio.wait_for(gone.wait(), 5)

    asyncio.run(main())


def test_a_client_that_goes_after_its_reply_is_not_missed():
    async def main() -> None:
        async with serving(None) as site:
            peer = await site.connect()
            peer.send(GET)
            await site.request_number(1)
            gone: list[bool] = []
            site.replies[0].on_gone = lambda: gone.append(True)
            site.replies[0].send(200, [])
            await peer.until(b"\r\n\r\n")
            await peer.close()
            await soon(lambda: site.server.connection_count == 0)
            assert gone == []

    asyncio.run(main())


def test_callbacks_that_raise_harm_nobody(caplog):
    async def main() -> None:
        async with serving(None) as site:
            peer, other = await site.connect(), await site.connect()
            peer.send(GET)
            other.send(GET)
            await site.request_number(2)

            def fail() -> None:
                raise ValueError("callback trouble")

            site.replies[0].on_gone = site.replies[1].on_gone = fail
            await peer.close()
            await soon(lambda: site.server.connection_count == 1)
            alive = next(reply for reply in site.replies if not reply.is_gone)
            alive.on_gone = None
            alive.send(200, [], b"alive")
            assert (await other.answer())[2] == b"alive"

    asyncio.run(main())
    assert "callback trouble" in caplog.text


# Slow ones


def test_a_client_that_does_not_read_fills_the_buffer_and_drains_it():
    async def main() -> None:
        async with serving(None) as site:
            peer = await site.connect(receive_buffer=4096)
            peer.send(GET)
            await site.request_number(1)
            reply, drained = site.replies[0], asyncio.Event()
            reply.on_drain = drained.set
            reply.start(200, [])
            sent = 0
            while not reply.is_full:
                reply.write(b"x" * 65_536)
                sent += 65_536
                await asyncio.sleep(0)
            (connection,) = site.server._admitted
            assert connection._transport.get_write_buffer_size() < limits.WRITE_HIGH_BYTES + 100_000
            assert sent < 16 * 1024 * 1024
            assert not drained.is_set()
            while not drained.is_set():
                assert await asyncio.wait_for(peer.reader.read(65_536), 5)
                await asyncio.sleep(0)
            assert not reply.is_full

    asyncio.run(main())


def test_a_client_that_reads_nothing_is_closed():
    async def main() -> None:
        async with serving(None, stall_seconds=0.2) as site:
            peer = await site.connect(receive_buffer=4096)
            peer.send(GET)
            await site.request_number(1)
            reply, gone = site.replies[0], asyncio.Event()
            reply.on_gone = gone.set
            reply.start(200, [])
            while not reply.is_full:
                reply.write(b"x" * 65_536)
                await asyncio.sleep(0)
            await asyncio.wait_for(gone.wait(), 5)
            await soon(lambda: site.server.connection_count == 0)

    asyncio.run(main())


def test_a_client_that_reads_nothing_is_closed_after_the_reply_too():
    async def main() -> None:
        big = b"x" * 8_000_000
        async with serving(lambda request, reply: reply.send(200, [], big), stall_seconds=0.2) as site:
            peer = await site.connect(receive_buffer=4096)
            peer.send(post(b"", b"Connection: close"))
            await site.request_number(1)
            await soon(lambda: site.server.connection_count == 0)

    asyncio.run(main())


def test_a_client_that_reads_slowly_is_not_closed():
    async def main() -> None:
        big = b"x" * 8_000_000
        async with serving(lambda request, reply: reply.send(200, [], big), stall_seconds=0.5) as site:
            peer = await site.connect(receive_buffer=65_536)
            peer.send(GET)
            begin = asyncio.get_running_loop().time()
            await peer.until(b"\r\n\r\n")
            got = 0
            while got < len(big):
                got += len(await peer.exactly(min(100_000, len(big) - got)))
                await asyncio.sleep(0.02)
            assert asyncio.get_running_loop().time() - begin > 1

    asyncio.run(main())


@pytest.mark.parametrize(
    ("start", "drip"),
    [
        pytest.param(b"POST / HTTP/1.1\r\nHos", b"t", id="head"),
        pytest.param(LINE + HOST + b"Content-Length: 100\r\n\r\n", b"x", id="body"),
        pytest.param(LINE + HOST + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", id="chunks"),
    ],
)
def test_a_dripping_request_is_closed(start, drip):
    async def main() -> None:
        async with serving(echo, request_seconds=0.2) as site:
            peer = await site.connect()
            peer.send(start)
            reading = asyncio.ensure_future(peer.until_closed())
            for _ in range(60):
                if reading.done():
                    break
                peer.send(drip)
                await asyncio.sleep(0.05)
            answer = await reading
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert site.requests == []

    asyncio.run(main())


def test_a_slow_but_steady_upload_is_not_closed(monkeypatch):
    monkeypatch.setattr(limits, "HTTP_BODY_BYTES_PER_SECOND", 10_000)

    async def main() -> None:
        async with serving(echo, request_seconds=0.1) as site:
            peer = await site.connect()
            peer.send(LINE + HOST + b"Content-Length: 20000\r\n\r\n")
            for _ in range(20):
                peer.send(b"x" * 1000)
                await asyncio.sleep(0.02)
            assert len((await peer.answer())[2]) == 20_005

    asyncio.run(main())


def test_an_idle_connection_is_closed_without_a_word():
    async def main() -> None:
        async with serving(echo, request_seconds=0.1, idle_seconds=0.3) as site:
            silent, used = await site.connect(), await site.connect()
            used.send(GET)
            await used.answer()
            begin = asyncio.get_running_loop().time()
            assert await silent.until_closed() == b""
            assert await used.until_closed() == b""
            assert asyncio.get_running_loop().time() - begin > 0.1

    asyncio.run(main())


def test_a_working_handler_is_not_hurried():
    async def main() -> None:
        async with serving(None, request_seconds=0.05, idle_seconds=0.05, stall_seconds=0.05) as site:
            peer = await site.connect()
            peer.send(GET)
            await site.request_number(1)
            await asyncio.sleep(0.3)
            site.replies[0].send(200, [], b"at last")
            assert (await peer.answer())[2] == b"at last"

    asyncio.run(main())


def test_a_refused_client_that_keeps_sending_is_let_go():
    async def main() -> None:
        async with serving(echo, linger_seconds=0.2) as site:
            peer = await site.connect()
            peer.send(b"BAD\r\n\r\n")
            assert (await peer.until_closed()).startswith(b"HTTP/1.1 400 ")
            with contextlib.suppress(ConnectionError):
                while site.server.connection_count:
                    peer.send(b"x" * 1000)
                    await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(main(), 5))


# Many, and the end


def test_connections_over_the_cap_are_told_so():
    async def main() -> None:
        async with serving(echo, connections=3) as site:
            peers = [await site.connect() for _ in range(3)]
            await soon(lambda: site.server.connection_count == 3)
            extra = await site.connect()
            extra.send(GET)
            assert (await extra.until_closed()).startswith(b"HTTP/1.1 503 ")
            peers[0].send(GET)
            assert (await peers[0].answer())[0] == 200
            await peers[0].close()
            await soon(lambda: site.server.connection_count == 2)
            again = await site.connect()
            again.send(GET)
            assert (await again.answer())[0] == 200

    asyncio.run(main())


@pytest.mark.parametrize("framing", [b"Content-Length: 200000", b"Transfer-Encoding: chunked"])
def test_unfinished_bodies_of_all_clients_together_have_a_limit_and_small_ones_pass(framing: bytes):
    head = LINE + HOST + framing + b"\r\n\r\n"
    piece = b"x" * 100_000 if b"Length" in framing else b"186a0\r\n%b\r\n" % (b"x" * 100_000)

    async def main() -> None:
        async with serving(None, held_bytes=250_000) as site:
            site.server.handler = echo  # the site remembers requests, and their bodies would count
            first, second = await site.connect(), await site.connect()
            for peer, held in ((first, 100_000), (second, 200_000)):
                peer.send(head + piece)
                await soon(lambda held=held: site.server.budget.held == held)
            third = await site.connect()
            third.send(head + piece)
            assert (await third.until_closed()).startswith(b"HTTP/1.1 503 ")
            await soon(lambda: site.server.budget.held == 200_000)
            small = await site.connect()
            small.send(LINE + HOST + b"Content-Length: 60000\r\n\r\n" + b"x" * 59_999)
            await soon(lambda: site.server.budget.held == 259_999)
            small.send(b"x")
            assert (await small.answer())[0] == 200
            # Who goes and who has finished makes room.
            await first.close()
            await soon(lambda: site.server.budget.held == 100_000)
            second.send(piece if b"Length" in framing else piece + b"0\r\n\r\n")
            assert (await second.answer())[0] == 200
            assert site.server.budget.held == 0

    asyncio.run(main())


def test_a_body_counts_until_nobody_holds_it_however_its_exchange_ends():
    """With the collector switched off: what is answered, hung up on, or kept for later by its handler."""
    kept: list[bytes] = []
    waiting: list[Reply] = []

    def handle(request: Request, reply: Reply) -> None:
        if request.target == b"/kept":
            kept.append(request.body)
            reply.send(200, [])
        else:
            # As doors do: the reply knows who waits, and that one knows the reply and the request.
            reply.on_gone = lambda: waiting.remove(reply) or request.body  # type: ignore[func-returns-value]
            waiting.append(reply)

    async def main() -> None:
        async with serving(None, held_bytes=250_000) as site:
            site.server.handler = handle
            budget = site.server.budget
            head = HOST + b"Content-Length: 100000\r\n\r\n" + b"x" * 100_000
            first, second, third = [await site.connect() for _ in range(3)]
            first.send(b"POST /wait HTTP/1.1\r\n" + head)
            second.send(b"POST /wait HTTP/1.1\r\n" + head)
            await soon(lambda: len(waiting) == 2)
            assert budget.held == 200_000
            third.send(b"POST /wait HTTP/1.1\r\n" + head)
            assert (await third.until_closed()).startswith(b"HTTP/1.1 503 ")
            waiting.pop(0).send(200, [])
            assert (await first.answer())[0] == 200
            await soon(lambda: budget.held == 100_000)
            await second.close()
            await soon(lambda: budget.held == 0)
            assert not waiting
            # Whoever keeps the bytes keeps their share; small bodies pass meanwhile, up to twice the limit.
            for number in range(2):
                first.send(b"POST /kept HTTP/1.1\r\n" + head)
                assert (await first.answer())[0] == 200
                assert budget.held == (number + 1) * 100_000
            small = b"POST /kept HTTP/1.1\r\n" + HOST + b"Content-Length: 60000\r\n\r\n" + b"x" * 60_000
            for _ in range(5):
                first.send(small)
                assert (await first.answer())[0] == 200
            first.send(small)
            assert (await first.until_closed()).startswith(b"HTTP/1.1 503 ")
            tiny = await site.connect()
            tiny.send(b"POST /kept HTTP/1.1\r\n" + HOST + b"Content-Length: 4096\r\n\r\n" + b"x" * 4096)
            assert (await tiny.answer())[0] == 200
            kept.clear()
            assert budget.held == 0

    gc.disable()
    try:
        asyncio.run(main())
    finally:
        gc.enable()


def test_connections_far_over_the_cap_are_just_closed():
    async def main() -> None:
        async with serving(echo, connections=0, refusals=1) as site:
            first, second = await site.connect(), await site.connect()
            assert (await first.until_closed()).startswith(b"HTTP/1.1 503 ")
            with contextlib.suppress(ConnectionError):
                assert await second.until_closed() == b""

    asyncio.run(main())


@pytest.mark.parametrize(
    ("files", "connections", "refusals"), [(64, 18, 4), (1024, 468, 64), (65536, 1000, 64)]
)
def test_clients_never_take_the_descriptors_that_serving_them_needs(
    monkeypatch, files, connections, refusals
):
    monkeypatch.setattr("resource.getrlimit", lambda what: (files, files))
    chosen = ServerLimits.affordable()
    assert (chosen.connections, chosen.refusals) == (connections, refusals)
    assert 2 * chosen.connections + chosen.refusals < files


def test_without_file_descriptors_clients_are_refused_and_the_loop_does_not_spin():
    async def main() -> None:
        async with serving(echo) as site:
            old = await site.connect()
            old.send(GET)
            await old.answer()
            loop = asyncio.get_running_loop()
            waiting = [socket.socket() for _ in range(3)]
            for sock in waiting:
                sock.setblocking(False)
            (listener,) = site.server._listeners
            accepts, accept = [], listener._accept
            for sock in listener._sockets:
                loop.add_reader(sock, lambda sock=sock: (accepts.append(1), accept(sock)))
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            hoard: list[int] = []
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, soft), hard))
            try:
                with contextlib.suppress(OSError):
                    while True:
                        hoard.append(os.dup(0))
                for sock in waiting:
                    await loop.sock_connect(sock, ("127.0.0.1", site.port))
                    async with asyncio.timeout(5):
                        assert (await loop.sock_recv(sock, 4096)).startswith(b"HTTP/1.1 503 ")
                old.send(GET)
                assert (await old.answer())[0] == 200
                assert len(accepts) <= 6
            finally:
                for fd in hoard:
                    os.close(fd)
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                for sock in waiting:
                    sock.close()
            new = await site.connect()
            new.send(GET)
            assert (await new.answer())[0] == 200

    asyncio.run(main())


def test_without_even_the_reserve_accepting_pauses_and_comes_back(monkeypatch):
    monkeypatch.setattr(limits, "ACCEPT_RETRY_SECONDS", 0.2)

    async def main() -> None:
        async with serving(echo) as site:
            (listener,) = site.server._listeners
            os.close(listener._reserve)
            listener._reserve = -1
            failures = []

            class NoFiles:
                def accept(self) -> None:
                    failures.append(1)
                    raise OSError(24, "Too many open files")

            listener._accept(NoFiles())
            peer = await site.connect()
            peer.send(GET)
            await asyncio.sleep(0.05)
            assert site.requests == []
            assert (await peer.answer())[0] == 200
            assert len(failures) == 1

    asyncio.run(main())


def test_hundreds_of_clients_come_and_go_without_a_trace():
    async def main() -> None:
        async with serving(echo) as site:
            before = 0
            for _ in range(5):  # the first round is for what a loop opens for itself
                peers = [await site.connect() for _ in range(100)]
                for peer in peers:
                    peer.send(GET)
                for peer in peers:
                    assert (await peer.answer())[0] == 200
                    await peer.close()
                await soon(lambda: site.server.connection_count == 0)
                before = before or len(os.listdir("/proc/self/fd"))
            await soon(lambda: len(os.listdir("/proc/self/fd")) < before + 20)

    asyncio.run(main())


def test_drain_lets_the_running_finish_and_closes_the_rest():
    async def main() -> None:
        async with serving(None) as site:
            idle, busy, endless = [await site.connect() for _ in range(3)]
            busy.send(GET + GET)
            await site.request_number(1)
            endless.send(GET)
            await site.request_number(2)
            site.replies[1].start(200, [])
            gone: list[bool] = []
            site.replies[1].on_gone = lambda: gone.append(True)
            draining = asyncio.ensure_future(site.server.drain(0.3))
            assert await idle.until_closed() == b""
            with pytest.raises(ConnectionRefusedError):
                await site.connect()
            site.replies[0].send(200, [], b"done")
            answer = await busy.until_closed()
            assert answer.endswith(b"\r\nConnection: close\r\n\r\ndone")
            assert len(site.requests) == 2
            assert not draining.done()
            await asyncio.wait_for(draining, 5)
            assert gone == [True]
            assert site.server.connection_count == 0

    asyncio.run(main())


def test_drain_is_over_as_soon_as_nothing_runs():
    async def main() -> None:
        async with serving(echo) as site:
            peer = await site.connect()
            peer.send(GET)
            await peer.answer()
            await asyncio.wait_for(site.server.drain(60), 5)

    asyncio.run(main())


def test_an_address_in_use_is_named():
    async def main() -> None:
        async with serving(echo) as site:
            with pytest.raises(ConfigError) as caught:
                await HttpServer(echo).listen("127.0.0.1", site.port)
            assert f"127.0.0.1:{site.port}" in caught.value.headline
            assert caught.value.detail == "Address already in use"

    asyncio.run(main())


def test_localhost_is_served_on_all_its_addresses():
    async def main() -> None:
        server = HttpServer(echo)
        host, port = await server.listen("localhost", 0)
        assert host in ("127.0.0.1", "::1")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET)
        assert (await reader.readline()) == OK
        writer.transport.abort()
        await server.drain(0)

    asyncio.run(main())


def test_the_same_head_is_read_once_and_what_was_found_out_stays_with_it():
    async def main() -> None:
        heads: list[Request] = []

        def note(request: Request, reply: Reply) -> None:
            heads.append(request)
            request.memo.meaning = (request.memo.meaning or 0) + 1  # type: ignore[operator]
            reply.send(200, [], b"noted")

        async with serving(note) as site:
            for _ in range(2):
                peer = await site.connect()
                peer.send(GET)
                assert (await peer.answer())[2] == b"noted"
            assert heads[0].headers is heads[1].headers
            assert heads[1].memo.meaning == 2
            # Another head is another matter, and only so many are kept.
            for number in range(limits.KNOWN_HEADS + 2):
                peer.send(GET.replace(b"\r\n\r\n", b"\r\nX: %d\r\n\r\n" % number))
                assert (await peer.answer())[2] == b"noted"
                assert heads[-1].memo.meaning == 1
            assert len(site.server._heads) <= limits.KNOWN_HEADS

    asyncio.run(main())
