"""The upstream of every measurement: one thread, raw bytes, over stdio, Streamable HTTP and legacy SSE.

    python -S -E bench/upstream.py stdio [TOOLS]
    python -S -E bench/upstream.py http [TOOLS]      prints its port; /mcp and /sse

It answers a request that it has seen before by putting the id before bytes that it keeps, so that little of
what is measured is its own; every other request is read with a JSON parser.
"""

from __future__ import annotations

import os
import select
import socket
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bench.messages import LEGACY, META, MODERN, PREFIX, STEPS, TEXT, large_result, listing, text_result

ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
EVENTS = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"X-Accel-Buffering: no\r\nTransfer-Encoding: chunked\r\n\r\n"
)
LAST_ID = b',"jsonrpc":"2.0","id":'  # where SDKs of JavaScript write it
EVENT = b'"name":"event"'  # the tool whose answer comes as an event
REMEMBERED = 4096  # bytes of a request that is worth remembering
LONG = 1 << 16  # bytes of an answer that is not copied once more before it is written

Message = tuple[bytes, bytes]  # the beginning with the id, and the rest


class Answers:
    """What is answered to a message."""

    def __init__(self, tools: int) -> None:
        self.tools = listing(tools)
        self.known: dict[bytes, bytes] = {}
        self.large: dict[tuple[str, int], bytes] = {}

    def to(self, raw: bytes) -> list[Message]:
        """The messages that answer `raw`, the response last; none if it is no request."""
        if raw.startswith(PREFIX):
            end = raw.find(b",", 22, 64)
            known = self.known.get(raw[end:]) if end > 0 and len(raw) < REMEMBERED else None
            if known is not None:
                return [(PREFIX + raw[22:end], known)]
        elif (at := raw.rfind(LAST_ID, -64)) > 0 and raw[:at] in self.known:
            return [(PREFIX + raw[at + len(LAST_ID) : -1], self.known[raw[:at]])]
        import json

        message = json.loads(raw)
        if "id" not in message or "method" not in message:
            return []
        token = json.dumps(message["id"]).encode()
        params = message.get("params") or {}
        tail = b',"result":' + self.result(message["method"], params) + b"}"
        progress = (params.get("_meta") or {}).get("progressToken")
        if progress is None and raw.startswith(PREFIX + token + b",") and len(raw) < REMEMBERED:
            self.known[raw[22 + len(token) :]] = tail
        elif progress is None and raw.endswith(LAST_ID + token + b"}") and len(raw) < REMEMBERED:
            self.known[raw[: -len(LAST_ID + token) - 1]] = tail
        answers = [(PREFIX + token, tail)]
        if params.get("name") == "stream" and progress is not None:
            front = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%b,'
            front %= json.dumps(progress).encode()
            answers[:0] = [
                (front, b'"progress":%d,"total":%d}}' % (step, STEPS)) for step in range(1, STEPS + 1)
            ]
        return answers

    def result(self, method: str, params: dict[str, Any]) -> bytes:
        is_modern = (params.get("_meta") or {}).get("io.modelcontextprotocol/protocolVersion") == MODERN
        if method == "tools/call":
            arguments = params.get("arguments") or {}
            if "bytes" not in arguments:
                return text_result(TEXT.encode(), is_modern)
            key = arguments.get("kind", "text"), arguments["bytes"]
            if key not in self.large:
                self.large[key] = large_result(*key)
            return self.large[key]
        if method == "tools/list":
            extra = b'"resultType":"complete","ttlMs":60000,"cacheScope":"public",' if is_modern else b""
            return b'{%b"tools":[%b]}' % (extra, self.tools)
        capabilities = b'"capabilities":{"tools":{}}'
        server = b'"serverInfo":{"name":"bench-upstream","version":"1"}'
        if method == "initialize":
            version = str(params.get("protocolVersion", LEGACY)).encode()
            return b'{"protocolVersion":"%b",%b,%b}' % (version, capabilities, server)
        if method == "server/discover":
            return b'{"resultType":"complete","supportedVersions":["%b"],%b,"ttlMs":60000,%b}' % (
                MODERN.encode(),
                capabilities,
                META,
            )
        return b"{}"


class Request:
    """What the head of a request says; heads repeat, so each is read once."""

    def __init__(self, head: bytes) -> None:
        first, *lines = head.split(b"\r\n")
        self.method, self.path, _ = first.split(b" ")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        self.length = int(fields.get(b"content-length", 0))
        self.session = fields.get(b"mcp-session-id", b"")
        self.is_modern = fields.get(b"mcp-protocol-version") == MODERN.encode()
        self.is_chunked = b"chunked" in fields.get(b"transfer-encoding", b"")
        self.is_sse_post = self.path.startswith(b"/messages")


class Connection:
    """One client connection: what is read and not yet a request, what is answered and not yet written."""

    def __init__(self, server: Server, sock: socket.socket) -> None:
        self.server = server
        self.sock = sock
        self.parts: list[bytes] = []
        self.wanted = 0  # bytes in `parts` before another look is worth it
        self.have = 0
        self.unwritten: list[memoryview] = []
        self.sse_session = b""

    def read(self) -> None:
        try:
            data = self.sock.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.server.close(self)
            return
        if self.have:
            self.parts.append(data)
            self.have += len(data)
            if self.have < self.wanted:
                return
            data = b"".join(self.parts)
            self.parts.clear()
            self.have = 0
        while data:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                self.keep(data, 0)
                return
            head = data[:end]
            request = self.server.heads.get(head)
            if request is None:
                request = self.server.read_head(head)
            stop = end + 4 + request.length
            if request.is_chunked:
                stop = data.find(b"0\r\n\r\n", end + 4) + 5
                if stop == 4:
                    self.keep(data, 0)
                    return
                self.answer(request, unchunked(data[end + 4 : stop]))
            elif len(data) < stop:
                self.keep(data, stop)
                return
            else:
                self.answer(request, data[end + 4 : stop])
            data = data[stop:]

    def keep(self, data: bytes, wanted: int) -> None:
        self.parts.append(data)
        self.have = len(data)
        self.wanted = wanted

    def answer(self, request: Request, body: bytes) -> None:
        server = self.server
        if request.method == b"POST" and request.is_sse_post:
            stream = server.streams.get(request.path.partition(b"session_id=")[2])
            if stream is None:
                self.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                return
            self.write(ACCEPTED)
            for message in server.answers.to(body):
                stream.message(message)
        elif request.method == b"POST" and request.path == b"/mcp":
            self.answer_streamable(request, body)
        elif request.method == b"GET" and request.path == b"/mcp" and not request.is_modern:
            self.write(EVENTS)
        elif request.method == b"GET" and request.path == b"/sse":
            self.sse_session = server.new_session()
            server.streams[self.sse_session] = self
            self.write(EVENTS)
            self.event(b"event: endpoint\ndata: /messages?session_id=%b\n\n" % self.sse_session)
        elif request.method == b"DELETE" and request.path == b"/mcp":
            server.sessions.discard(request.session)
            self.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        else:
            self.write(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n")

    def answer_streamable(self, request: Request, body: bytes) -> None:
        session = b""
        if not request.is_modern and request.session not in self.server.sessions:
            if b'"initialize"' not in body:
                self.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                return
            session = b"Mcp-Session-Id: %b\r\n" % self.server.new_session()
        messages = self.server.answers.to(body)
        if len(messages) == 1 and EVENT not in body[:200]:
            front, tail = messages[0]
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n%bContent-Length: %d\r\n\r\n%b"
            self.write(head % (session, len(front) + len(tail), front), tail)
        elif not messages:
            self.write(ACCEPTED)
        else:  # as servers do: every event leaves when it is there
            self.write(EVENTS)
            for message in messages:
                self.message(message)
            self.write(b"0\r\n\r\n")

    def message(self, message: Message) -> None:
        front, tail = message
        size = len(b"event: message\ndata: \n\n") + len(front) + len(tail)
        self.write(b"%x\r\nevent: message\ndata: %b" % (size, front), tail, b"\n\n\r\n")

    def event(self, data: bytes) -> None:
        self.write(b"%x\r\n%b\r\n" % (len(data), data))

    def write(self, *parts: bytes) -> None:
        if self.unwritten:
            self.unwritten += [memoryview(part) for part in parts]
            return
        if len(parts) > 1 and len(parts[1]) < LONG:
            parts = (b"".join(parts),)
        try:
            sent = self.sock.send(parts[0]) if len(parts) == 1 else self.sock.sendmsg(parts)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.server.close(self)
            return
        if sent < sum(map(len, parts)):
            self.unwritten = rest_of([memoryview(part) for part in parts], sent)
            self.server.poll.modify(self.sock.fileno(), select.EPOLLIN | select.EPOLLOUT)

    def write_on(self) -> None:
        try:
            sent = self.sock.sendmsg(self.unwritten[:16])
        except BlockingIOError:
            return
        except OSError:
            self.server.close(self)
            return
        self.unwritten = rest_of(self.unwritten, sent)
        if not self.unwritten:
            self.server.poll.modify(self.sock.fileno(), select.EPOLLIN)


def rest_of(parts: list[memoryview], written: int) -> list[memoryview]:
    """What is left to be written."""
    for number, part in enumerate(parts):
        if written < len(part):
            return [part[written:], *parts[number + 1 :]]
        written -= len(part)
    return []


class Server:
    """Streamable HTTP at /mcp and legacy SSE at /sse, on one port."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.heads: dict[bytes, Request] = {}
        self.sessions: set[bytes] = set()
        self.streams: dict[bytes, Connection] = {}
        self.connections: dict[int, Connection] = {}
        self.poll = select.epoll()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.listener.setblocking(False)
        self.poll.register(self.listener.fileno(), select.EPOLLIN)
        self.port = self.listener.getsockname()[1]

    def read_head(self, head: bytes) -> Request:
        if len(self.heads) > 10_000:
            self.heads.clear()
        request = self.heads[head] = Request(head)
        return request

    def new_session(self) -> bytes:
        session = os.urandom(16).hex().encode()
        self.sessions.add(session)
        return session

    def close(self, connection: Connection) -> None:
        if self.connections.pop(connection.sock.fileno(), None) is not None:
            self.poll.unregister(connection.sock.fileno())
            connection.sock.close()
            self.streams.pop(connection.sse_session, None)

    def run(self) -> None:
        listening = self.listener.fileno()
        connections, wait = self.connections, self.poll.poll
        while True:
            for fd, mask in wait():
                if fd == listening:
                    self.accept()
                    continue
                connection = connections.get(fd)
                if connection is None:
                    continue
                if mask & select.EPOLLOUT:
                    connection.write_on()
                if mask & ~select.EPOLLOUT and fd in connections:
                    connection.read()

    def accept(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except BlockingIOError:
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections[sock.fileno()] = Connection(self, sock)
            self.poll.register(sock.fileno(), select.EPOLLIN)


def unchunked(data: bytes) -> bytes:
    """The body of a chunked request that is there whole."""
    body, at = bytearray(), 0
    while True:
        end = data.index(b"\r\n", at)
        size = int(data[at:end], 16)
        if size == 0:
            return bytes(body)
        body += data[end + 2 : end + 2 + size]
        at = end + 4 + size


def serve_stdio(answers: Answers) -> None:
    """Lines in, lines out; all that came with one read is answered with one write."""
    pending: list[bytes] = []
    while data := os.read(0, 1 << 20):
        if b"\n" not in data:
            pending.append(data)
            continue
        pending.append(data)
        *lines, rest = b"".join(pending).split(b"\n")
        pending = [rest] if rest else []
        messages = [message for line in lines if line.strip() for message in answers.to(line)]
        if all(len(tail) < LONG for _, tail in messages):
            parts = [memoryview(b"".join([front + tail + b"\n" for front, tail in messages]))]
        else:
            parts = [memoryview(part) for front, tail in messages for part in (front, tail, b"\n")]
        while parts := [part for part in parts if part]:
            parts = rest_of(parts, os.writev(1, parts[:16]))


def main() -> None:
    kind = sys.argv[1]
    answers = Answers(int(sys.argv[2]) if len(sys.argv) > 2 else 100)
    if kind == "stdio":
        serve_stdio(answers)
        return
    server = Server(answers)
    print(server.port, flush=True)
    server.run()


if __name__ == "__main__":
    try:
        main()
    except (KeyboardInterrupt, BrokenPipeError):
        pass
