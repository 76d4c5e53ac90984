"""Clients that cost little: raw bytes on asyncio, one class a transport, one way to call.

`call` gives back the bytes of the answer; clients of the newer era begin without a handshake. Many calls of
one session may be under way at once, except over Streamable HTTP, where a session has one connection and so
one call at a time.
"""

from __future__ import annotations

import asyncio
import re
import subprocess

HELLO = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"soak","version":"1"}}}'
)
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
MODERN = b"2026-07-28"
META = (
    b'"_meta":{"io.modelcontextprotocol/protocolVersion":"%b","io.modelcontextprotocol/clientCapabilities":{}}'
    % MODERN
)
_METHOD = re.compile(rb'"method":"([^"]*)"')
_NAME = re.compile(rb'"name":"([^"]*)"')
_ID = re.compile(rb'"id":(\d+)')
_SESSION = re.compile(rb"mcp-session-id: *(\S+)", re.IGNORECASE)


class Broken(Exception):
    """What was asked will not be answered."""


class HttpLine(asyncio.Protocol):
    """One connection that carries one request at a time."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes, bytes]] | None = None
        self.is_gone = False

    @classmethod
    async def open(cls, port: int) -> HttpLine:
        _, line = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return line

    def ask(self, raw: bytes) -> asyncio.Future[tuple[int, bytes, bytes]]:
        """Status, head and body of the response."""
        self._answer = asyncio.get_running_loop().create_future()
        if self.is_gone:
            self._answer.set_exception(Broken("the connection is closed"))
        else:
            self.transport.write(raw)
        return self._answer

    def close(self) -> None:
        self.transport.close()

    def cut(self) -> None:
        """As a machine does that is switched off."""
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_gone = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(Broken("the connection was closed"))

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        end = buffer.find(b"\r\n\r\n")
        if end < 0 or self._answer is None or self._answer.done():
            return
        whole_head = bytes(buffer[:end])
        head = whole_head.lower()
        at = head.find(b"content-length:")
        if at >= 0:
            length = int(head[at + 15 :].split(b"\r\n", 1)[0])
            if len(buffer) < end + 4 + length:
                return
            body = bytes(buffer[end + 4 : end + 4 + length])
        elif b"transfer-encoding: chunked" in head:
            if not buffer.endswith(b"0\r\n\r\n"):
                return
            body = _unchunked(bytes(buffer[end + 4 :]))
        else:
            body = b""
        buffer.clear()
        self._answer.set_result((int(head[9:12]), whole_head, body))


def _unchunked(data: bytes) -> bytes:
    pieces, at = [], 0
    while True:
        end = data.index(b"\r\n", at)
        size = int(data[at:end], 16)
        if not size:
            return b"".join(pieces)
        pieces.append(data[end + 2 : end + 2 + size])
        at = end + 4 + size


class Streamable:
    """A session of Streamable HTTP on one connection."""

    at_once = 1

    def __init__(self, port: int, is_modern: bool = False) -> None:
        self.port = port
        self.is_modern = is_modern
        self.line: HttpLine | None = None
        self._head = b""

    async def begin(self) -> Streamable:
        self.line = await HttpLine.open(self.port)
        self._head = (
            b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
            b"Accept: application/json, text/event-stream\r\n" % self.port
        )
        if self.is_modern:
            self._head += b"MCP-Protocol-Version: %b\r\n" % MODERN
            return self
        status, head, _ = await self.line.ask(self.post(HELLO))
        if status != 200:
            raise Broken(f"HTTP {status}")
        found = _SESSION.search(head)
        if found is None:
            raise Broken("no session was given")
        self._head += b"Mcp-Session-Id: %b\r\nMCP-Protocol-Version: 2025-11-25\r\n" % found[1]
        return self

    async def greet(self) -> Streamable:
        await self.begin()
        assert self.line is not None
        if not self.is_modern:
            await self.line.ask(self.post(INITIALIZED))
        return self

    def post(self, raw: bytes) -> bytes:
        head = self._head
        if self.is_modern:
            for header, pattern in ((b"Mcp-Method", _METHOD), (b"Mcp-Name", _NAME)):
                if found := pattern.search(raw[:300]):
                    head += b"%b: %b\r\n" % (header, found[1])
        return b"%bContent-Length: %d\r\n\r\n%b" % (head, len(raw), raw)

    async def call(self, token: int, raw: bytes) -> bytes:
        assert self.line is not None
        status, _, body = await self.line.ask(self.post(raw))
        if body.startswith((b"event:", b"data:")):
            body = body[body.index(b"data: ") + 6 : body.rindex(b"\n\n")]
        if status != 200:
            raise Broken(f"HTTP {status}: {body[:200]!r}")
        return body

    async def close(self) -> None:
        if self.line is not None:
            if not self.line.is_gone and not self.is_modern:
                ending = self._head.replace(b"POST", b"DELETE", 1) + b"\r\n"
                await asyncio.wait({self.line.ask(ending)}, timeout=5.0)
            self.line.close()


class Answers:
    """Calls under way on one line, found by their ids."""

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self.strays = 0

    def expect(self, token: int) -> asyncio.Future[bytes]:
        answer = self._waiting[token] = asyncio.get_running_loop().create_future()
        return answer

    def take(self, raw: bytes) -> None:
        found = _ID.search(raw[:60])
        waiting = self._waiting.pop(int(found[1]), None) if found is not None else None
        if waiting is None:
            self.strays += 1  # nobody asked, or it was answered before
        elif not waiting.done():
            waiting.set_result(raw)

    def fail(self) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(Broken("the line has ended"))
        self._waiting.clear()


class _EventLine(asyncio.Protocol):
    """A stream of events, unchunked as it comes."""

    def __init__(self, on_event: object, on_end: object) -> None:
        self._on_event, self._on_end = on_event, on_end
        self._raw = bytearray()
        self._text = bytearray()
        self._is_body = False
        self._left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_end()  # type: ignore[operator]

    def data_received(self, data: bytes) -> None:
        self._raw += data
        if not self._is_body:
            end = self._raw.find(b"\r\n\r\n")
            if end < 0:
                return
            self._is_body = True
            del self._raw[: end + 4]
        at = 0
        while at < len(self._raw):
            if not self._left:
                end = self._raw.find(b"\r\n", at)
                if end < 0:
                    break
                self._left = int(self._raw[at:end], 16) + 2
                at = end + 2
            piece = self._raw[at : at + self._left]
            at += len(piece)
            self._left -= len(piece)
            self._text += piece if self._left >= 2 else piece[: len(piece) - 2 + self._left]
        del self._raw[:at]
        *events, rest = bytes(self._text).split(b"\n\n")
        self._text = bytearray(rest)
        for event in events:
            self._on_event(event)  # type: ignore[operator]


class Sse:
    """A session of legacy HTTP+SSE: a stream, and a connection for what is posted, one at a time."""

    at_once = 8

    def __init__(self, port: int, is_modern: bool = False) -> None:
        self.port = port
        self.is_modern = is_modern
        self._answers = Answers()
        self._turn = asyncio.Lock()
        self._endpoint: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    @property
    def strays(self) -> int:
        return self._answers.strays

    async def greet(self) -> Sse:
        loop = asyncio.get_running_loop()
        _, self._stream = await loop.create_connection(
            lambda: _EventLine(self._on_event, self._answers.fail), "127.0.0.1", self.port
        )
        self._stream.transport.write(
            b"GET /sse HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAccept: text/event-stream\r\n\r\n" % self.port
        )
        endpoint = await asyncio.wait_for(self._endpoint, 20)
        self._line = await HttpLine.open(self.port)
        self._head = b"POST %b HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n" % (
            endpoint,
            self.port,
        )
        if not self.is_modern:
            await self.call(0, HELLO)
            await self._post(INITIALIZED)
        return self

    def _on_event(self, event: bytes) -> None:
        data = event[event.index(b"data: ") + 6 :] if b"data: " in event else b""
        if event.startswith(b"event: endpoint"):
            self._endpoint.set_result(data)
        elif data:
            self._answers.take(data)

    async def _post(self, raw: bytes) -> None:
        async with self._turn:
            status, _, body = await self._line.ask(
                b"%bContent-Length: %d\r\n\r\n%b" % (self._head, len(raw), raw)
            )
        if status != 202:
            raise Broken(f"HTTP {status}: {body[:200]!r}")

    async def call(self, token: int, raw: bytes) -> bytes:
        answer = self._answers.expect(token)
        await self._post(raw)
        return await answer

    async def close(self) -> None:
        self._stream.transport.close()
        self._line.close()


class Stdio:
    """The client that spawned the proxy."""

    at_once = 32

    def __init__(
        self, command: list[str], errors: object, env: dict[str, str] | None = None, is_modern: bool = False
    ) -> None:
        self._command = command
        self.is_modern = is_modern
        self._env = env
        self._errors = errors
        self._answers = Answers()
        self.process: asyncio.subprocess.Process | None = None

    @property
    def strays(self) -> int:
        return self._answers.strays

    async def greet(self) -> Stdio:
        self.process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,  # type: ignore[arg-type]
            env=self._env,
            limit=16 << 20,
        )
        self._reading = asyncio.get_running_loop().create_task(self._read())
        if not self.is_modern:
            await self.call(0, HELLO)
            self._write(INITIALIZED)
        return self

    async def _read(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            self._answers.take(line[:-1])
        self._answers.fail()

    def _write(self, raw: bytes) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(raw + b"\n")

    async def call(self, token: int, raw: bytes) -> bytes:
        answer = self._answers.expect(token)
        self._write(raw)
        return await answer

    async def close(self) -> int:
        """The exit code."""
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = await asyncio.wait_for(self.process.wait(), 30)
        await self._reading
        return code
