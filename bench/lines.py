"""How a client reaches a target: over HTTP, legacy SSE or a pipe. Raw bytes, kept alive, one poll for all.

A line is given requests by `ask` and gives back what was answered by `read`, as pairs of id and answer.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import time
from collections.abc import Iterable

from bench.messages import FIRST_ID, LEGACY, MODERN, PREFIX
from bench.processes import Program, Unfit
from bench.workloads import Workload

Answers = list[tuple[int, bytes | bytearray]]
ANSWER_SECONDS = 60
WORDS = b"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"


class Head:
    """What the head of a response says; heads repeat, so each is read once."""

    known: dict[bytes, Head] = {}  # noqa: RUF012 - one for all

    def __init__(self, raw: bytes) -> None:
        first, *lines = raw.split(b"\r\n")
        self.status = int(first.split()[1])
        self.fields = {n.lower(): v.strip() for n, _, v in (line.partition(b":") for line in lines)}
        self.is_stream = self.fields.get(b"content-type", b"").startswith(b"text/event-stream")
        self.is_chunked = b"chunked" in self.fields.get(b"transfer-encoding", b"")
        length = self.fields.get(b"content-length")
        self.length = None if length is None else int(length)

    @classmethod
    def read(cls, raw: bytes) -> Head:
        head = cls.known.get(raw)
        if head is None:
            if len(cls.known) > 1000:
                cls.known.clear()
            head = cls.known[raw] = cls(raw)
        return head


class Chunks:
    """Takes the chunked coding off, as bytes come."""

    def __init__(self) -> None:
        self.line = b""  # the beginning of a line that says how long a chunk is
        self.left = 0  # bytes of the chunk that are still to come, with its line end
        self.is_last = False
        self.is_over = False

    def feed(self, data: bytes) -> bytes:
        at, out = 0, []
        while at < len(data) and not self.is_over:
            if self.left:
                end = min(len(data), at + self.left)
                self.left -= end - at
                out.append(data[at : end - max(0, 2 - self.left)])  # the line end is no content
                at = end
                self.is_over = self.is_last and not self.left
                continue
            end = data.find(b"\n", at)
            if end < 0:
                self.line += data[at:]
                break
            size = int((self.line + data[at:end]).partition(b";")[0], 16)
            self.line = b""
            self.is_last = size == 0
            self.left = size + 2
            at = end + 1
        return b"".join(out)


def connect(port: int, seconds: float = ANSWER_SECONDS) -> socket.socket:
    """A blocking socket whose waits end after `seconds`: the kernel's limit costs no extra call."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=seconds)
    sock.settimeout(None)
    limit = struct.pack("ll", int(seconds), 0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def messages_in(events: bytes) -> list[bytes]:
    """The data of whole events, in order."""
    found = []
    if b"\r\n" in events:
        events = events.replace(b"\r\n", b"\n")
    for event in events.split(b"\n\n"):
        data = [line[5:].lstrip(b" ") for line in event.split(b"\n") if line.startswith(b"data:")]
        if data and data != [b""]:
            found.append(b"\n".join(data))
    return found


class HttpLine:
    """One connection to a Streamable HTTP endpoint, one request at a time."""

    def __init__(self, port: int, path: str, session: bytes, workload: Workload | None = None) -> None:
        self.port = port
        self.sock = connect(port)
        self.fds = [self.sock.fileno()]
        self.progress = 0
        version = LEGACY
        extra = b"Mcp-Session-Id: %b\r\n" % session if session else b""
        if workload is not None and workload.is_modern:
            version = MODERN
            extra = b"Mcp-Method: %b\r\n" % workload.method.encode()
            if workload.tool:
                extra += b"Mcp-Name: %b\r\n" % workload.tool.encode()
        if session or (workload is not None and workload.is_modern):
            extra += b"MCP-Protocol-Version: %b\r\n" % version.encode()
        self.head = b"POST %b HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%b%bContent-Length: " % (
            path.encode(),
            port,
            WORDS,
            extra,
        )
        self.number = 0
        self.pending = b""
        self.body: bytearray | None = None  # a long answer, as far as it has come
        self.at = 0
        self.stream: tuple[Chunks, list[bytes]] | None = None

    def ask(self, requests: Iterable[tuple[int, bytes]]) -> None:
        for number, body in requests:
            self.number = number
            self.sock.sendall(b"%b%d\r\n\r\n%b" % (self.head, len(body), body))

    def read(self) -> Answers:
        if self.body is not None:
            self.at += self.got(self.sock.recv_into(memoryview(self.body)[self.at :]))
            if self.at < len(self.body):
                return []
            body, self.body = self.body, None
            return [(self.number, body)]
        data = self.sock.recv(1 << 17)
        self.got(len(data))
        if self.stream is not None:
            return self.read_stream(data)
        if self.pending:
            data, self.pending = self.pending + data, b""
        end = data.find(b"\r\n\r\n")
        if end < 0:
            self.pending = data
            return []
        head = Head.read(data[:end])
        if head.status != 200:
            raise Unfit(f"HTTP status {head.status}: {data[end + 4 : end + 200]!r}")
        if head.is_stream or head.is_chunked:
            self.stream = (Chunks(), [])
            self.is_stream = head.is_stream
            return self.read_stream(data[end + 4 :])
        if head.length is None:
            raise Unfit("an answer without a length")
        rest = len(data) - end - 4
        if rest == head.length:
            return [(self.number, data[end + 4 :])]
        self.body = bytearray(head.length)
        self.body[:rest] = data[end + 4 :]
        self.at = rest
        return []

    def read_stream(self, data: bytes) -> Answers:
        assert self.stream is not None
        chunks, parts = self.stream
        parts.append(chunks.feed(data))
        if not chunks.is_over:
            return []
        self.stream = None
        body = b"".join(parts)
        if not self.is_stream:
            return [(self.number, body)]
        *before, last = messages_in(body)
        self.progress += sum(b"notifications/progress" in message for message in before)
        return [(self.number, last)]

    @staticmethod
    def got(count: int) -> int:
        if not count:
            raise Unfit("the connection was closed before the answer")
        return count

    def close(self) -> None:
        self.sock.close()


class SseLine:
    """One session of the legacy transport: a stream that stays open, and a connection for posting."""

    def __init__(self, port: int, path: str) -> None:
        self.progress = 0
        self.down = connect(port)
        host = b"Host: 127.0.0.1:%d\r\n" % port
        self.down.sendall(b"GET %b HTTP/1.1\r\n%bAccept: text/event-stream\r\n\r\n" % (path.encode(), host))
        data = b""
        while b"\r\n\r\n" not in data:
            data += self.got(self.down.recv(1 << 16))
        raw, _, rest = data.partition(b"\r\n\r\n")
        head = Head(raw)
        if head.status != 200 or not head.is_stream:
            raise Unfit(f"HTTP status {head.status} where an event stream was expected")
        self.chunks = Chunks() if head.is_chunked else None
        self.events: list[bytes] = []
        messages = self.take(rest)
        while not messages:
            messages = self.take(self.got(self.down.recv(1 << 16)))
        endpoint = messages[0]
        if endpoint.startswith(b"http"):
            endpoint = b"/" + endpoint.split(b"/", 3)[3]
        self.up = connect(port)
        self.fds = [self.down.fileno(), self.up.fileno()]
        self.head = b"POST %b HTTP/1.1\r\n%bContent-Type: application/json\r\nContent-Length: " % (
            endpoint,
            host,
        )
        self.receipt = b""
        self.is_received = False
        self.number = 0
        self.answer: bytes | None = None

    def ask(self, requests: Iterable[tuple[int, bytes]]) -> None:
        for number, body in requests:
            self.number = number
            self.answer = None
            self.is_received = False
            self.up.sendall(b"%b%d\r\n\r\n%b" % (self.head, len(body), body))

    def read(self) -> Answers:
        """Whichever of the two has come; the answer counts when its receipt is there too."""
        readable, _, _ = select.select([self.down, self.up], [], [], 0)
        if self.up in readable:
            self.receipt += self.got(self.up.recv(1 << 16))
            end = self.receipt.find(b"\r\n\r\n")
            head = Head.read(self.receipt[:end]) if end > 0 else None
            if head is not None and head.status not in (200, 202):
                raise Unfit(f"HTTP status {head.status}")
            is_whole = head is not None and (
                self.receipt.endswith(b"0\r\n\r\n")
                if head.is_chunked
                else len(self.receipt) >= end + 4 + (head.length or 0)
            )
            if is_whole:
                self.receipt = b""
                self.is_received = True
        if self.down in readable:
            for message in self.take(self.got(self.down.recv(1 << 18))):
                if b"notifications/progress" in message[:80]:
                    self.progress += 1
                elif b'"id":%d' % self.number in message[:80] or b'"id":%d' % self.number in message[-80:]:
                    self.answer = message
        if self.answer is None or not self.is_received:
            return []
        answer, self.answer = self.answer, None
        return [(self.number, answer)]

    def take(self, data: bytes) -> list[bytes]:
        """The messages that are whole with what has come now."""
        self.events.append(self.chunks.feed(data) if self.chunks is not None else data)
        if not self.events[-1].endswith((b"\n", b"\r")):
            return []
        text = b"".join(self.events)
        cut = max(text.rfind(b"\n\n") + 2, text.rfind(b"\r\n\r\n") + 4)
        if cut < 4:
            self.events = [text]
            return []
        self.events = [text[cut:]] if cut < len(text) else []
        return messages_in(text[:cut])

    @staticmethod
    def got(data: bytes) -> bytes:
        if not data:
            raise Unfit("the connection was closed before the answer")
        return data

    def close(self) -> None:
        self.down.close()
        self.up.close()


class PipeLine:
    """A program's stdin and stdout; as many requests at a time as wanted."""

    def __init__(self, program: Program) -> None:
        assert program.process.stdin is not None
        assert program.process.stdout is not None
        self.program = program
        self.progress = 0
        self.to = program.process.stdin.fileno()
        self.fds = [program.process.stdout.fileno()]
        self.parts: list[bytes] = []

    def ask(self, requests: Iterable[tuple[int, bytes]]) -> None:
        view = memoryview(b"".join([body + b"\n" for _, body in requests]))
        while view:
            view = view[os.write(self.to, view) :]

    def read(self) -> Answers:
        answers: Answers = []
        for line in self.lines():
            if line.startswith(PREFIX) and (end := line.find(b",", 22, 40)) > 0:
                answers.append((int(line[22:end]), line))
            elif b"notifications/progress" in line[:80]:
                self.progress += 1
            elif (message := json.loads(line)).get("id", 0) and "method" not in message:
                answers.append((message["id"], line))
        return [pair for pair in answers if pair[0] >= FIRST_ID]

    def lines(self) -> list[bytes]:
        data = os.read(self.fds[0], 1 << 20)
        if not data:
            raise Unfit(f"stdout was closed: {self.program.last_words()}")
        self.parts.append(data)
        if b"\n" not in data:
            return []
        *lines, rest = b"".join(self.parts).split(b"\n")
        self.parts = [rest] if rest else []
        return [line for line in lines if line]

    def one(self, seconds: float) -> bytes:
        """The next message, whatever it is."""
        until = time.monotonic() + seconds
        while select.select([self.fds[0]], [], [], max(0.0, until - time.monotonic()))[0]:
            if lines := self.lines():
                return lines[0]
        raise Unfit(f"no answer within {seconds:.0f} s: {self.program.last_words()}")

    def close(self) -> None:
        """The pipe is the program's own."""


Line = HttpLine | SseLine | PipeLine
