"""The HTTP client over real sockets, against servers that keep to a script."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import errno
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import h11
import pytest

from penstock.errors import ConnectFailed, Failure, RequestFailed, UpstreamError, UpstreamLost
from penstock.net.http_client import HttpClient, Ticket
from penstock.wire.http.url import parse_url

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Ear:
    """A receiver that remembers what it heard."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = bytearray()
        self.error: UpstreamError | None = None
        self.over = asyncio.Event()
        self.began = asyncio.Event()

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.heard.append("head")
        self.status, self.headers = status, headers
        self.began.set()

    def on_data(self, chunk: bytes) -> None:
        assert chunk
        self.heard.append("data")
        self.body += chunk

    def on_end(self) -> None:
        self.heard.append("end")
        self.over.set()

    def on_failure(self, error: UpstreamError) -> None:
        self.heard.append("failure")
        self.error = error
        self.over.set()

    async def done(self) -> Ear:
        await asyncio.wait_for(self.over.wait(), 5)
        assert self.heard.count("end") + self.heard.count("failure") == 1
        assert self.heard[-1] in ("end", "failure")
        return self


class Line:
    """The server's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def request(self) -> tuple[bytes, bytes]:
        """The head and body of the next request, by its content-length."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line[15:])
        return head, await self.reader.readexactly(length)

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def drained(self) -> None:
        await self.writer.drain()

    def reset(self) -> None:
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.writer.transport.abort()

    async def closed_by_peer(self) -> None:
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(65_536):
                pass


Script = Callable[[Line], Awaitable[None]]


class Upstream:
    """A server that plays one script on each connection."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.connections = 0
        self.requests: list[tuple[bytes, bytes]] = []
        self.ended = asyncio.Event()
        self.port = 0
        self.server: asyncio.Server = None  # type: ignore[assignment]
        self.client: HttpClient = None  # type: ignore[assignment]
        self._running: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            await self.script(Line(reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._running.discard(task)
            self.ended.set()
            writer.close()

    def ask(
        self, body: bytes = b"{}", method: bytes = b"POST", target: bytes = b"/mcp"
    ) -> tuple[Ear, Ticket]:
        ear = Ear()
        return ear, self.client.request(method, target, [(b"X", b"y")], body, ear)

    async def asked(self, body: bytes = b"{}", method: bytes = b"POST") -> Ear:
        return await self.ask(body, method)[0].done()


@contextlib.asynccontextmanager
async def upstream(script: Script, **options: object) -> AsyncIterator[Upstream]:
    site = Upstream(script)
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0, limit=1 << 20)
    site.server = server
    site.port = server.sockets[0].getsockname()[1]
    site.client = HttpClient(parse_url(f"http://127.0.0.1:{site.port}/mcp"), environ={}, **options)  # type: ignore[arg-type]
    try:
        yield site
    finally:
        await site.client.close()
        assert site.client.connection_count == 0
        server.close()
        for task in site._running:
            task.cancel()
        await asyncio.sleep(0)


def answering(*answers: bytes) -> Script:
    """Answers each request on a connection with the next of `answers`, and the last for ever."""

    async def script(line: Line) -> None:
        for number in range(10_000):
            await line.request()
            line.send(answers[min(number, len(answers) - 1)])

    return script


def answering_once(answer: bytes) -> Script:
    async def script(line: Line) -> None:
        await line.request()
        line.send(answer)

    return script


def answering_twice(first: bytes, second: bytes) -> Script:
    async def script(line: Line) -> None:
        for answer in (first, second):
            await line.request()
            line.send(answer)

    return script


async def soon(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - what is awaited has no event of its own
            await asyncio.sleep(0.005)


# Answers


def test_h11_reads_what_we_ask():
    async def main() -> None:
        seen: list[object] = []

        async def script(line: Line) -> None:
            server = h11.Connection(h11.SERVER)
            while True:
                event = server.next_event()
                if event is h11.NEED_DATA:
                    server.receive_data(await line.reader.read(65_536))
                    continue
                seen.append(event)
                if isinstance(event, h11.EndOfMessage):
                    headers = [("Content-Length", "5"), ("X-Answer", "42")]
                    line.send(server.send(h11.Response(status_code=201, headers=headers)))
                    line.send(server.send(h11.Data(data=b"hello")) + server.send(h11.EndOfMessage()))
                    server.start_next_cycle()
                elif isinstance(event, h11.ConnectionClosed):
                    return

        async with upstream(script) as site:
            ear = await site.asked(b"body")
            assert (ear.status, bytes(ear.body), ear.heard) == (201, b"hello", ["head", "data", "end"])
            assert ear.headers == [(b"Content-Length", b"5"), (b"X-Answer", b"42")]
            await site.asked(b"", b"GET")
            post, data, _, get, _ = seen
            assert (post.method, post.target, bytes(data.data)) == (b"POST", b"/mcp", b"body")
            host = b"127.0.0.1:%d" % site.port
            assert post.headers.raw_items() == [(b"Host", host), (b"X", b"y"), (b"Content-Length", b"4")]
            assert get.headers.raw_items() == [(b"Host", host), (b"X", b"y")]
            assert site.connections == 1

    asyncio.run(main())


ANSWERS = [
    pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello", True, id="length"),
    pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"", True, id="empty"),
    pytest.param(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nhel\r\n2\r\nlo\r\n0\r\nX: y\r\n\r\n",
        b"hello",
        True,
        id="chunks",
    ),
    pytest.param(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello", b"hello", False, id="until-close"),
    pytest.param(b"HTTP/1.0 200 OK\r\n\r\nhello", b"hello", False, id="http10"),
    pytest.param(
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello",
        b"hello",
        True,
        id="http10-kept",
    ),
    pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", b"", True, id="204"),
    pytest.param(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", b"", True, id="304"),
    pytest.param(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK,
        b"ok",
        True,
        id="1xx",
    ),
    pytest.param(
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", b"ok", False, id="not-kept"
    ),
]


@pytest.mark.parametrize("step", [1, 3, 10_000])
@pytest.mark.parametrize(("answer", "body", "is_kept"), ANSWERS)
def test_answers_do_not_depend_on_how_the_bytes_arrive(answer, body, is_kept, step):
    async def main() -> None:
        async def script(line: Line) -> None:
            for _ in range(2):
                await line.request()
                for at in range(0, len(answer), step):
                    line.send(answer[at : at + step])
                    await asyncio.sleep(0.0005 if step == 1 else 0)
                if not is_kept:
                    return

        async with upstream(script) as site:
            for _ in range(2):
                ear = await site.asked()
                assert (bytes(ear.body), ear.error) == (body, None)
                assert ear.heard.count("head") == 1
            assert site.connections == (1 if is_kept else 2)

    asyncio.run(main())


@pytest.mark.parametrize(("answer", "body", "is_kept"), ANSWERS)
def test_every_cut_in_two_gives_the_same_answer(answer, body, is_kept):
    """Straight into data_received, where the kernel cannot join what was cut."""

    async def main() -> None:
        async def silent(line: Line) -> None:
            await line.closed_by_peer()

        async with upstream(silent) as site:
            for cut in range(1, len(answer)):
                ear, _ = site.ask()
                await soon(lambda: site.client.connection_count == 1)
                (connection,) = site.client._open
                await soon(lambda c=connection: c._ticket is not None)
                connection.data_received(answer[:cut])
                connection.data_received(answer[cut:])
                if not is_kept and b"Content-Length" not in answer:
                    connection.eof_received()
                await ear.done()
                assert (bytes(ear.body), ear.error) == (body, None)
                connection.close_now()
                await soon(lambda: site.client.connection_count == 0)

    asyncio.run(main())


def test_head_requests_have_no_body():
    async def main() -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
        async with upstream(answering(head, OK, head)) as site:
            for method, body in ((b"HEAD", b""), (b"GET", b"ok"), (b"HEAD", b"")):
                ear = await site.asked(b"", method)
                assert (ear.status, bytes(ear.body)) == (200, body)
            assert site.connections == 1

    asyncio.run(main())


def test_redirects_are_answers():
    async def main() -> None:
        async with upstream(
            answering(b"HTTP/1.1 307 x\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n")
        ) as site:
            assert (await site.asked()).status == 307
            assert site.connections == 1

    asyncio.run(main())


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nX: y\r\n z\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabX",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1_001 + b"\r\n",
    ],
)
def test_a_malformed_answer_is_a_failure(answer):
    async def main() -> None:
        async with upstream(answering(answer)) as site:
            ear = await site.asked()
            assert ear.error is not None
            assert ear.error.failure is Failure.INVALID_RESPONSE
            assert not isinstance(ear.error, ConnectFailed | UpstreamLost)
            await soon(lambda: site.client.connection_count == 0)

    asyncio.run(main())


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 O",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n0\r\n",
    ],
)
def test_an_answer_cut_off_is_a_failure_and_nothing_is_sent_again(answer):
    async def main() -> None:
        requests: list[bytes] = []

        async def script(line: Line) -> None:
            requests.append((await line.request())[1])
            line.send(answer)

        async with upstream(script) as site:
            ear = await site.asked(b"once")
            assert isinstance(ear.error, UpstreamLost)
            assert requests == [b"once"]
            assert site.connections == 1

    asyncio.run(main())


def test_a_reset_is_not_the_end_of_a_body():
    async def main() -> None:
        async def script(line: Line) -> None:
            await line.request()
            line.send(b"HTTP/1.1 200 OK\r\n\r\nhel")
            await asyncio.sleep(0.05)
            line.reset()

        async with upstream(script) as site:
            ear = await site.asked()
            assert isinstance(ear.error, UpstreamLost)
            assert bytes(ear.body) == b"hel"

    asyncio.run(main())


def test_an_early_answer_to_a_big_request_is_heard():
    async def main() -> None:
        async def script(line: Line) -> None:
            await line.reader.readuntil(b"\r\n\r\n")
            line.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
            await asyncio.sleep(60)

        async with upstream(script) as site:
            for connections in (1, 2):  # the rest of the body must not become the next request
                ear = await site.asked(b"x" * 8_000_000)
                assert (ear.status, ear.error) == (413, None)
                assert site.connections == connections

    asyncio.run(main())


# Connections


def test_a_connection_is_used_again_and_concurrent_requests_have_their_own():
    async def main() -> None:
        async with upstream(answering(OK)) as site:
            for _ in range(20):
                await site.asked()
            assert site.connections == 1
            ears = [site.ask()[0] for _ in range(5)]
            for ear in ears:
                assert bytes((await ear.done()).body) == b"ok"
            assert site.connections == 5
            for _ in range(5):
                await site.asked()
            assert site.connections == 5

    asyncio.run(main())


def test_the_next_request_may_be_sent_from_on_end():
    async def main() -> None:
        async with upstream(answering(OK)) as site:

            class Again(Ear):
                def on_end(self) -> None:
                    super().on_end()
                    if left:
                        left.pop()
                        last.append(Again())
                        site.client.request(b"POST", b"/", [], b"", last[-1])

            left, last = [1] * 50, [Again()]
            site.client.request(b"POST", b"/", [], b"", last[0])
            await soon(lambda: len(last) == 51 and last[-1].over.is_set())
            assert site.connections == 1

    asyncio.run(main())


def test_a_connection_idle_for_too_long_is_closed_and_not_used_again():
    async def main() -> None:
        async with upstream(answering(OK), idle_seconds=0.1) as site:
            await site.asked()
            assert site.client.connection_count == 1
            await soon(lambda: site.client.connection_count == 0)
            await site.asked()
            assert site.connections == 2

    asyncio.run(main())


def test_an_old_connection_is_not_used_even_before_it_is_swept():
    async def main() -> None:
        async with upstream(answering(OK)) as site:
            await site.asked()
            (connection,) = site.client._idle
            connection.idle_since -= 4.1
            await site.asked()
            assert site.connections == 2

    asyncio.run(main())


def test_a_connection_that_the_server_closed_is_dropped_at_once():
    async def main() -> None:
        async with upstream(answering_once(OK)) as site:
            await site.asked()
            await soon(lambda: site.client.connection_count == 0)
            assert (await site.asked()).error is None
            assert site.connections == 2

    asyncio.run(main())


def test_an_end_that_only_the_kernel_has_seen_is_noticed():
    async def main() -> None:
        sockets: list[socket.socket] = []

        async def script(line: Line) -> None:
            fd = line.writer.get_extra_info("socket").fileno()
            sockets.append(socket.socket(fileno=os.dup(fd)))
            await answering(OK)(line)

        async with upstream(script) as site:
            await site.asked()
            sockets[0].shutdown(socket.SHUT_WR)
            sockets[0].close()  # and no turn of the loop before the next request
            ear, _ = site.ask()
            assert (await ear.done()).error is None
            assert site.connections == 2

    asyncio.run(main())


@pytest.mark.parametrize("how", ["there", "gone", "dying"])
def test_a_kept_connection_that_ends_unanswered_loses_the_server_only_if_nobody_takes_another(how):
    async def main() -> None:
        requests: list[bytes] = []

        async def script(line: Line) -> None:
            if how == "dying" and site.connections > 2:
                return  # the kernel took it, for a process that is no more
            await line.request()
            line.send(OK)
            requests.append((await line.request())[1])
            if how == "gone":
                site.server.close()

        async with upstream(script) as site:
            await asyncio.gather(site.asked(), site.asked())
            ears = await asyncio.gather(site.asked(b"once"), site.asked(b"twice"))
            kind = RequestFailed if how == "there" else UpstreamLost
            assert [type(ear.error) for ear in ears] == [kind, kind]
            assert sorted(requests) == [b"once", b"twice"]
            assert site.connections == (2 if how == "gone" else 3), (
                "one call for both, and nothing sent on it"
            )

    asyncio.run(main())


def test_a_kept_connection_that_ends_within_an_answer_loses_the_server():
    async def main() -> None:
        async with upstream(answering_twice(OK, b"HTTP/1.1 200")) as site:
            await site.asked()
            assert isinstance((await site.asked()).error, UpstreamLost)
            assert site.connections == 1

    asyncio.run(main())


def test_close_fails_what_waits_to_hear_whether_anybody_is_there(monkeypatch):
    async def nobody_answers(*_: object) -> None:
        await asyncio.sleep(60)

    async def main() -> None:
        async with upstream(answering_twice(OK, b"")) as site:
            await site.asked()
            monkeypatch.setattr("penstock.net.http_client.dial", nobody_answers)
            ear, _ = site.ask()
            await soon(lambda: site.client._call is not None)
            await site.client.close()
            assert isinstance((await ear.done()).error, UpstreamLost)

    asyncio.run(main())


def test_a_machine_without_descriptors_says_nothing_against_the_server(monkeypatch):
    def no_more(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    async def main() -> None:
        async with upstream(answering(OK)) as site:
            with monkeypatch.context() as shortage:
                shortage.setattr("penstock.net.connect.socket.socket", no_more)
                assert isinstance((await site.asked()).error, RequestFailed)
            assert (await site.asked()).error is None

    asyncio.run(main())


@pytest.mark.parametrize("extra", [b"x", OK])
def test_a_connection_with_stray_bytes_is_not_used_again(extra):
    async def main() -> None:
        async with upstream(answering(OK + extra)) as site:
            for _ in range(3):
                ear = await site.asked()
                assert (bytes(ear.body), ear.heard) == (b"ok", ["head", "data", "end"])
            assert site.connections == 3

    asyncio.run(main())


def test_bytes_that_nobody_asked_for_end_the_connection():
    async def main() -> None:
        async def script(line: Line) -> None:
            await line.request()
            line.send(OK)
            await asyncio.sleep(0.05)
            line.send(OK)
            await line.closed_by_peer()

        async with upstream(script, idle_seconds=60.0) as site:
            await site.asked()
            await soon(lambda: site.client.connection_count == 0)
            assert (await site.asked()).heard == ["head", "data", "end"]
            assert site.connections == 2

    asyncio.run(main())


def test_an_answer_before_the_question_is_heard():
    """A server over its cap says 503 as soon as it is connected."""

    async def main() -> None:
        async def script(line: Line) -> None:
            line.send(b"HTTP/1.1 503 x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await line.request()

        async with upstream(script) as site:
            assert (await site.asked()).status == 503

    asyncio.run(main())


# Tickets


def test_a_cancelled_request_is_deaf_and_its_connection_closed():
    async def main() -> None:
        closed = asyncio.Event()

        async def script(line: Line) -> None:
            await line.request()
            line.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
            await line.closed_by_peer()
            closed.set()

        async with upstream(script) as site:
            ear, ticket = site.ask()
            await asyncio.wait_for(ear.began.wait(), 5)
            await soon(lambda: bytes(ear.body) == b"abc")
            ticket.cancel()
            ticket.cancel()
            await asyncio.wait_for(closed.wait(), 5)
            await soon(lambda: site.client.connection_count == 0)
            assert ear.heard == ["head", "data"]
            assert ticket.is_done

    asyncio.run(main())


def test_cancel_before_the_answer_and_before_the_connection():
    async def main() -> None:
        async def script(line: Line) -> None:
            await line.request()
            arrived.set()
            await line.closed_by_peer()

        arrived = asyncio.Event()
        async with upstream(script) as site:
            early, ticket = site.ask()
            ticket.cancel()
            await asyncio.sleep(0.05)
            assert early.heard == []
            assert not arrived.is_set()
            late, ticket = site.ask()
            await asyncio.wait_for(arrived.wait(), 5)
            ticket.cancel()
            await soon(lambda: site.client.connection_count == 0)
            assert late.heard == []

    asyncio.run(main())


def test_cancel_after_the_end_keeps_the_connection():
    async def main() -> None:
        async with upstream(answering(OK)) as site:
            ear, ticket = site.ask()
            await ear.done()
            other, _ = site.ask()
            ticket.cancel()
            ticket.pause()
            assert (await other.done()).error is None
            assert site.connections == 1

    asyncio.run(main())


@pytest.mark.parametrize("moment", ["on_head", "on_data"])
def test_cancel_from_within_a_callback(moment):
    async def main() -> None:
        async with upstream(answering(OK)) as site:
            ear, ticket = site.ask()
            told = getattr(ear, moment)

            def cancelling(*args: object) -> None:
                told(*args)
                ticket.cancel()

            setattr(ear, moment, cancelling)
            await soon(lambda: bool(ear.heard) and site.client.connection_count == 0)
            assert ear.heard == ["head"] if moment == "on_head" else ["head", "data"]

    asyncio.run(main())


def test_a_paused_answer_stays_where_it_is():
    async def main() -> None:
        size = 30_000_000
        sent = 0

        async def script(line: Line) -> None:
            nonlocal sent
            await line.request()
            line.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
            while sent < size:
                line.send(b"x" * 100_000)
                sent += 100_000
                await line.drained()
            await line.closed_by_peer()

        async with upstream(script) as site:
            ear, ticket = site.ask()
            await asyncio.wait_for(ear.began.wait(), 5)
            ticket.pause()
            held = len(ear.body)
            before = -1
            while before != sent:
                before = sent
                await asyncio.sleep(0.05)
            assert len(ear.body) <= held + 256 * 1024
            assert sent < size
            ticket.resume()
            await ear.done()
            assert len(ear.body) == size

    asyncio.run(main())


def test_a_connection_paused_at_its_end_serves_the_next_request():
    async def main() -> None:
        async with upstream(answering(OK)) as site:
            for _ in range(3):
                ear, ticket = site.ask()
                told = ear.on_data

                def pausing(chunk: bytes, told=told, ticket=ticket) -> None:
                    told(chunk)
                    ticket.pause()

                ear.on_data = pausing  # type: ignore[method-assign]
                assert (await ear.done()).error is None
            assert site.connections == 1

    asyncio.run(main())


def test_a_pause_before_the_connection_holds():
    async def main() -> None:
        async with upstream(answering(OK)) as site:
            ear, ticket = site.ask()
            ticket.pause()
            await soon(lambda: site.connections == 1)
            await asyncio.sleep(0.1)
            assert ear.heard == []
            ticket.resume()
            assert (await ear.done()).error is None

    asyncio.run(main())


def test_a_receiver_that_raises_fails_alone(caplog):
    async def main() -> None:
        async with upstream(answering(OK)) as site:
            ear, _ = site.ask()

            def fail(chunk: bytes) -> None:
                raise ValueError("receiver trouble")

            ear.on_data = fail  # type: ignore[method-assign]
            assert (await ear.done()).error is not None
            assert (await site.asked()).error is None
            assert site.connections == 2

    asyncio.run(main())
    assert "receiver trouble" in caplog.text


def test_close_fails_what_is_under_way():
    async def main() -> None:
        async def script(line: Line) -> None:
            await line.request()
            await line.closed_by_peer()

        async with upstream(script) as site:
            running, _ = site.ask()
            await soon(lambda: site.connections == 1)
            connecting, _ = site.ask()
            await site.client.close()
            assert isinstance((await running.done()).error, UpstreamLost)
            assert isinstance((await connecting.done()).error, UpstreamError)
            assert isinstance((await site.asked()).error, ConnectFailed)

    asyncio.run(main())


# Connecting


async def failure_at(url: str, **options: object) -> ConnectFailed:
    options.setdefault("environ", {})
    client = HttpClient(parse_url(url), **options)  # type: ignore[arg-type]
    ear = Ear()
    client.request(b"POST", b"/", [(b"Authorization", b"Bearer secret")], b"{}", ear)
    await ear.done()
    await client.close()
    assert isinstance(ear.error, ConnectFailed)
    assert "secret" not in str(ear.error)
    return ear.error


def unused_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_refused_connection_says_so(host):
    url = f"http://{host}:{unused_port()}"
    error = asyncio.run(failure_at(url + "/mcp?token=secret"))
    assert error.headline == f"Failed to connect to upstream MCP at {url}/mcp"
    assert (error.detail, error.failure) == ("Connection refused", Failure.REFUSED)


def test_an_unknown_name_says_so():
    error = asyncio.run(failure_at("http://no-such-host.invalid/"))
    assert error.detail == "Name not known: no-such-host.invalid"


def test_a_connection_that_never_opens_times_out():
    async def main() -> None:
        with socket.socket() as deaf:
            deaf.bind(("127.0.0.1", 0))
            deaf.listen(0)
            port = deaf.getsockname()[1]
            fillers = []
            for _ in range(4):  # the kernel's queue is full after one or two
                filler = socket.socket()
                filler.setblocking(False)
                filler.connect_ex(("127.0.0.1", port))
                fillers.append(filler)
            error = await failure_at(f"http://127.0.0.1:{port}", connect_timeout=0.3)
            for filler in fillers:
                filler.close()
        assert (error.detail, error.failure) == ("Connection timeout after 300ms", Failure.TIMEOUT)

    asyncio.run(main())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> Path:
    """A key and a self-signed certificate for upstream.test, localhost and 127.0.0.1 in one file."""
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "upstream.test")])
    now = datetime.datetime.now(datetime.UTC)
    names = [
        x509.DNSName("upstream.test"),
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(days=1))
    builder = builder.not_valid_after(now + datetime.timedelta(days=1))
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    made = builder.sign(key, hashes.SHA256())
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


async def tls_server(certificate: Path, script: Script) -> tuple[asyncio.Server, int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            await script(Line(reader, writer))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    return server, server.sockets[0].getsockname()[1]


def trusting(certificate: Path) -> Callable[[], ssl.SSLContext]:
    return lambda: ssl.create_default_context(cafile=str(certificate))


def test_tls_with_a_trusted_certificate(certificate):
    async def main() -> None:
        server, port = await tls_server(certificate, answering(OK))
        client = HttpClient(
            parse_url(f"https://localhost:{port}/"), environ={}, new_tls=trusting(certificate), idle_seconds=4
        )
        for _ in range(3):
            ear = Ear()
            client.request(b"POST", b"/", [], b"{}", ear)
            assert bytes((await ear.done()).body) == b"ok"
            assert ear.error is None
        assert client.connection_count == 1
        await client.close()
        server.close()

    asyncio.run(main())


def test_tls_after_a_start_without_it(certificate):
    """What a plain start leaves out can still be had, when a reload of the rules first asks for it."""
    source = f"""
import sys
from penstock.net import loop
loop.import_asyncio("whole")
import asyncio
assert "ssl" not in sys.modules
from penstock.net.http_client import HttpClient
from penstock.wire.http.url import parse_url

async def main():
    import ssl
    client = HttpClient(
        parse_url("https://localhost:" + sys.argv[1]),
        environ={{}},
        new_tls=lambda: ssl.create_default_context(cafile={str(certificate)!r}),
    )
    await client.connect()
    await client.close()
    return 0

sys.exit(loop.run(main, "whole"))
"""

    async def main() -> None:
        server, port = await tls_server(certificate, answering(OK))
        client = await asyncio.create_subprocess_exec(sys.executable, "-c", source, str(port))
        assert await client.wait() == 0
        server.close()

    asyncio.run(main())


def test_tls_with_a_certificate_nobody_vouches_for(certificate):
    async def main() -> None:
        server, port = await tls_server(certificate, answering(OK))
        error = await failure_at(f"https://localhost:{port}/")
        assert error.detail.startswith("TLS certificate not accepted: ")
        assert error.failure is Failure.INVALID_RESPONSE
        server.close()

    asyncio.run(main())


def test_tls_with_somebody_who_does_not_speak_it():
    async def main() -> None:
        async with upstream(answering(b"HTTP/1.1 400 x\r\n\r\n")) as site:

            async def script(line: Line) -> None:
                await line.reader.read(1)
                line.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

            site.script = script
            error = await failure_at(f"https://127.0.0.1:{site.port}/")
            assert error.detail.startswith("TLS handshake failed: ")

    asyncio.run(main())


def test_tls_with_somebody_who_says_nothing():
    async def main() -> None:
        async def script(line: Line) -> None:
            await line.closed_by_peer()

        async with upstream(script) as site:
            error = await failure_at(f"https://127.0.0.1:{site.port}/", connect_timeout=0.2)
            assert error.detail == "Connection timeout after 200ms"

    asyncio.run(main())


def test_a_forward_proxy_is_told_whom_to_ask():
    async def main() -> None:
        heads: list[bytes] = []

        async def script(line: Line) -> None:
            while True:
                heads.append((await line.request())[0])
                line.send(OK)

        async with upstream(script) as proxy:
            environ = {"HTTP_PROXY": f"http://me:secret@127.0.0.1:{proxy.port}"}
            client = HttpClient(parse_url("http://upstream.test:8000/mcp"), environ=environ)
            ear = Ear()
            client.request(b"POST", b"/mcp", [], b"{}", ear)
            assert (await ear.done()).status == 200
            lines = heads[0].split(b"\r\n")
            assert lines[0] == b"POST http://upstream.test:8000/mcp HTTP/1.1"
            assert b"Host: upstream.test:8000" in lines
            assert b"Proxy-Authorization: Basic bWU6c2VjcmV0" in lines
            await client.close()

    asyncio.run(main())


def test_tls_goes_through_a_tunnel(certificate):
    async def main() -> None:
        server, port = await tls_server(certificate, answering(OK))
        heads: list[bytes] = []

        async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                while data := await reader.read(65_536):
                    writer.write(data)
            writer.close()

        async def script(line: Line) -> None:
            heads.append(await line.reader.readuntil(b"\r\n\r\n"))
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            line.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(copy(line.reader, writer), copy(reader, line.writer))

        async with upstream(script) as proxy:
            environ = {"HTTPS_PROXY": f"http://me:secret@127.0.0.1:{proxy.port}"}
            client = HttpClient(
                parse_url("https://upstream.test/"), environ=environ, new_tls=trusting(certificate)
            )
            ear = Ear()
            client.request(b"POST", b"/", [(b"Authorization", b"Bearer secret")], b"{}", ear)
            assert bytes((await ear.done()).body) == b"ok"
            assert heads[0].startswith(b"CONNECT upstream.test:443 HTTP/1.1\r\nHost: upstream.test:443\r\n")
            assert b"Bearer" not in heads[0]
            await client.close()
        server.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "answered 407"),
        (b"garbage\r\n\r\n", "did not answer as a proxy"),
        (b"", "did not answer as a proxy"),
    ],
)
def test_a_proxy_that_refuses_is_named_without_its_password(answer, words):
    async def main() -> None:
        async def script(line: Line) -> None:
            await line.reader.readuntil(b"\r\n\r\n")
            line.send(answer)

        async with upstream(script) as proxy:
            environ = {"HTTPS_PROXY": f"http://me:secret@127.0.0.1:{proxy.port}"}
            error = await failure_at("https://upstream.test/", environ=environ)
            assert error.detail == f"Proxy http://127.0.0.1:{proxy.port} {words}"

    asyncio.run(main())


def test_a_proxy_that_is_not_there_is_named():
    port = unused_port()
    environ = {"http_proxy": f"127.0.0.1:{port}"}
    error = asyncio.run(failure_at("http://upstream.test/", environ=environ))
    assert error.detail == f"Connection refused (proxy http://127.0.0.1:{port})"


def test_plain_http_does_without_the_ssl_module():
    program = """
import sys
sys.modules["ssl"] = None
import asyncio
from penstock.net.http_client import HttpClient
from penstock.net.http_server import HttpServer
from penstock.wire.http.url import parse_url

class Ear:
    def on_head(self, status, headers): print(status)
    def on_data(self, chunk): print(chunk)
    def on_end(self): done.set_result(None)
    def on_failure(self, error): done.set_exception(error)

async def main():
    global done
    done = asyncio.get_running_loop().create_future()
    server = HttpServer(lambda request, reply: reply.send(200, [], request.body))
    host, port = await server.listen("127.0.0.1", 0)
    client = HttpClient(parse_url(f"http://{host}:{port}/"), environ={})
    client.request(b"POST", b"/", [], b"hello", Ear())
    await done
    await client.close()
    await server.drain(1)

asyncio.run(main())
assert "urllib.parse" not in sys.modules and "http" not in sys.modules
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert (ran.stdout, ran.stderr) == ("200\nb'hello'\n", "")
