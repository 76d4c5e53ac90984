"""An upstream that costs little: it echoes numbered calls over stdio, legacy SSE or Streamable HTTP.

It counts what reaches it and adds up a hash of each message, so that what was sent and what arrived can be
compared without writing either down; and it sees when the calls of one session come out of order.
`GET /stats`, or the method `x/stats`, tells. With SOAK_LIE=change or SOAK_LIE=twice in its environment it
does one call wrong, so that a test can see that wrong is noticed. Standard library only.

    python -S -m trials.soak.upstream stdio|sse|streamable
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
from typing import ClassVar

MASK = (1 << 64) - 1
LIE, LIE_AT = os.environ.get("SOAK_LIE"), 50
TOOLS = 100
NOTE = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%b"}}\n\n'


def digest_of(arguments: bytes) -> int:
    """A number for these bytes; the sum of many does not depend on their order."""
    return int.from_bytes(hashlib.blake2b(arguments, digest_size=8).digest(), "big")


class Book:
    """What has come in."""

    def __init__(self) -> None:
        self.calls = 0
        self.digest = 0
        self.disorder = 0
        self.last: dict[bytes, int] = {}  # by session, the number of its last call

    def stats(self) -> bytes:
        counts = {"calls": self.calls, "digest": self.digest, "disorder": self.disorder}
        return json.dumps({**counts, "pid": os.getpid()}).encode()

    def answer(self, raw: bytes, session: bytes) -> bytes | None:
        """The answer to a message, None when there is none. Calls are read as our own drivers write them."""
        if b'"name":"stall"' in raw[:120]:
            return None  # and nobody hears of it again
        if b'"method":"tools/call"' in raw[:80]:
            token = raw[raw.index(b'"id":') + 5 : raw.index(b',"method"')]
            arguments = raw[raw.index(b'"arguments":') + 12 : -2]
            self.calls += 1
            self.digest = (self.digest + digest_of(arguments)) & MASK
            number = int(arguments[5 : arguments.index(b",")])
            if number <= self.last.get(session, -1):
                self.disorder += 1
            self.last[session] = number
            if self.calls == LIE_AT and LIE == "twice":
                self.calls += 1
            if self.calls == LIE_AT and LIE == "change":
                arguments = arguments[:-3] + b'!"}'
            return b'{"jsonrpc":"2.0","id":%b,"result":{"echo":%b}}' % (token, arguments)
        message = json.loads(raw)
        if "id" not in message or "method" not in message:
            return None
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (
            json.dumps(message["id"]).encode(),
            self._result(message["method"], message.get("params") or {}),
        )

    def _result(self, method: str, params: dict) -> bytes:
        if method == "initialize":
            return (
                b'{"protocolVersion":%b,"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}'
                % json.dumps(params["protocolVersion"]).encode()
            )
        if method == "server/discover":
            return (
                b'{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},'
                b'"serverInfo":{"name":"s","version":"1"}}'
            )
        if method == "tools/list":
            names = ["echo", "flood", "stall", *(f"tool_{number}" for number in range(TOOLS - 3))]
            return json.dumps(
                {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in names]}
            ).encode()
        return self.stats() if method == "x/stats" else b"{}"


BOOK = Book()


class Connection(asyncio.Protocol):
    """One HTTP connection."""

    streams: ClassVar[dict[bytes, Connection]] = {}  # of legacy SSE, by session
    sessions = 0

    def __init__(self, is_sse: bool) -> None:
        self._is_sse = is_sse
        self._buffer = bytearray()
        self._session = b""
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._flood: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        self.streams.pop(self._session, None)
        if self._flood is not None:
            self._flood.cancel()

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._buffer[:end])
            length = int(field(head, b"content-length") or b"0")
            if len(self._buffer) < end + 4 + length:
                return
            body = bytes(self._buffer[end + 4 : end + 4 + length])
            del self._buffer[: end + 4 + length]
            self._serve(head, body)

    def _serve(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"GET /stats"):
            self._reply(b"200 OK", BOOK.stats())
        elif self._is_sse:
            self._serve_sse(head, body)
        elif head.startswith(b"POST"):
            session = field(head, b"mcp-session-id") or b""
            more = b""
            if not session and b'"method":"initialize"' in body[:80]:
                Connection.sessions += 1
                session = b"s-%d" % Connection.sessions
                more = b"Mcp-Session-Id: %b\r\n" % session
            if b'"name":"flood"' in body[:120]:
                self._flood = asyncio.get_running_loop().create_task(self._pour(body))
                return
            if b"json" not in (field(head, b"accept") or b"json"):
                self._reply(
                    b"406 Not Acceptable", b'{"jsonrpc":"2.0","id":"e","error":{"code":-32600,"message":"x"}}'
                )
                return
            if b'"name":"stall"' in body[:120]:
                return
            answer = BOOK.answer(body, session)
            self._reply(b"200 OK" if answer is not None else b"202 Accepted", answer or b"", more)
        elif head.startswith(b"GET"):
            self._begin_stream(b": here\n\n")
        else:
            self._reply(b"200 OK", b"")

    def _serve_sse(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"GET /sse"):
            Connection.sessions += 1
            self._session = b"s-%d" % Connection.sessions
            self.streams[self._session] = self
            self._begin_stream(b"event: endpoint\ndata: /messages?sid=%b\n\n" % self._session)
            return
        session = head.split(b"sid=", 1)[-1].split(b" ", 1)[0]
        stream = self.streams.get(session)
        if not head.startswith(b"POST /messages") or stream is None:
            self._reply(b"404 Not Found", b"")
            return
        self._reply(b"202 Accepted", b"")
        answer = BOOK.answer(body, session)
        if answer is not None:
            stream.event(b"event: message\ndata: " + answer + b"\n\n")

    def _reply(self, status: bytes, body: bytes, more: bytes = b"") -> None:
        kind = b"Content-Type: application/json\r\n" if body else b""
        self._transport.write(
            b"HTTP/1.1 %b\r\n%b%bContent-Length: %d\r\n\r\n%b" % (status, kind, more, len(body), body)
        )

    def _begin_stream(self, first: bytes) -> None:
        self._transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        self.event(first)

    def event(self, event: bytes) -> None:
        self._transport.write(b"%x\r\n%b\r\n" % (len(event), event))

    async def _pour(self, body: bytes) -> None:
        """Streams notifications until somebody has had enough."""
        count = int(json.loads(body)["params"]["arguments"]["count"])
        self._begin_stream(b": flood\n\n")
        note = NOTE % (b"x" * 60_000)
        for _ in range(count):
            await self._can_write.wait()
            self.event(note)
        token = json.dumps(json.loads(body)["id"]).encode()
        self.event(b'data: {"jsonrpc":"2.0","id":%b,"result":{}}\n\n' % token)
        self._transport.write(b"0\r\n\r\n")


def field(head: bytes, name: bytes) -> bytes | None:
    """A header of a request."""
    at = head.lower().find(b"\r\n" + name + b":")
    if at < 0:
        return None
    return head[at + len(name) + 3 :].split(b"\r\n", 1)[0].strip()


def serve_stdio() -> None:
    pending = b""
    while data := os.read(0, 1 << 20):
        *lines, pending = (pending + data).split(b"\n")
        answers = [BOOK.answer(line, b"") for line in lines]
        view = memoryview(b"".join(answer + b"\n" for answer in answers if answer is not None))
        while view:
            view = view[os.write(1, view) :]


async def serve_http(is_sse: bool) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(is_sse), "127.0.0.1", 0, backlog=2048)
    port = server.sockets[0].getsockname()[1]
    print(f"listening on http://127.0.0.1:{port}{'/sse' if is_sse else '/mcp'}", file=sys.stderr, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        serve_stdio()
    else:
        asyncio.run(serve_http(sys.argv[1] == "sse"))
