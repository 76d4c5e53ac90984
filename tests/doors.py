"""Clients on raw bytes for the three transports: one way to talk to them, no SDK and no code of ours.

A client hears everything it is sent, in order, in `heard`; it never reads unless it waits for something.
"""

from __future__ import annotations

import json
import os
import re
import select
import socket
import subprocess
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from gate import DEADLINE, META, is_answer_to, request

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class Heard(NamedTuple):
    """One message, and what it came on: the id of the POST that brought it, "GET", or "" for a pipe."""

    raw: bytes
    on: str


_BLANK_LINE = re.compile(rb"\r?\n\r?\n")  # no server of ours ends lines by CR alone


class Lost(AssertionError):
    """What was waited for did not come."""


def _unseen(data: bytes, on: object) -> None:
    """Most tests hear messages, and need no bytes."""


class Seen:
    """Every byte that came, one connection's after another's: in the order of arrival, a piece of one
    connection could stand in the middle of a name on another, and hide it from whoever looks for it."""

    def __init__(self) -> None:
        self._streams: dict[object, bytearray] = {}

    def add(self, data: bytes, on: object) -> None:
        self._streams.setdefault(on, bytearray()).extend(data)

    def __bytes__(self) -> bytes:
        return b"\n".join(self._streams.values())


class Lines:
    """Messages on a pipe, one a line."""

    def __init__(
        self, fd: int, hear: Callable[[Heard], None], see: Callable[[bytes, object], None] = _unseen
    ) -> None:
        self.fd = fd
        self._hear = hear
        self._see = see
        self._pending = bytearray()
        self.is_over = False

    def read(self) -> None:
        data = os.read(self.fd, 1 << 20)
        self.is_over = not data
        self._see(data, self)
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._hear(Heard(bytes(self._pending) + line, ""))
            self._pending.clear()
        self._pending += rest


class Response:
    """One HTTP response as it comes in. JSON bodies and events are heard as messages."""

    def __init__(
        self,
        connection: socket.socket,
        label: str,
        hear: Callable[[Heard], None],
        see: Callable[[bytes, object], None] = _unseen,
    ) -> None:
        self.connection = connection
        self.fd = connection.fileno()
        self.label = label
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.events: list[bytes] = []
        self.is_over = False
        self.was_cut = False  # ended before it was complete
        self._hear = hear
        self._see = see
        self._pending = bytearray()
        self._searched = 0
        self._left: int | None = None
        self._is_chunked = False
        self._chunk_left = 0

    @property
    def is_stream(self) -> bool:
        return self.headers.get("content-type", "").startswith("text/event-stream")

    def read(self) -> None:
        try:
            data = self.connection.recv(1 << 20)
        except ConnectionError:
            data = b""
        if not data:
            self.was_cut = not (self.status and self._left is None and not self._is_chunked)
            self._end()
            return
        self._pending += data
        if not self.status and not self._read_head():
            return
        if self._is_chunked:
            self._read_chunks()
        else:
            piece = bytes(self._pending)
            self._pending.clear()
            if self._left is not None:
                piece, more = piece[: self._left], piece[self._left :]
                self._left -= len(piece)
                self._pending += more
            self._take(piece)
            if self._left == 0:
                self._end()

    def _read_head(self) -> bool:
        end = self._pending.find(b"\r\n\r\n")
        if end < 0:
            return False
        self._see(bytes(self._pending[: end + 4]), self)
        line, *fields = bytes(self._pending[:end]).split(b"\r\n")
        del self._pending[: end + 4]
        if line.split()[1] == b"100":
            return bool(self._pending) and self._read_head()
        self.status = int(line.split()[1])
        for field in fields:
            name, _, value = field.partition(b":")
            self.headers[name.decode().lower()] = value.strip().decode("latin-1")
        self._is_chunked = self.headers.get("transfer-encoding") == "chunked"
        if "content-length" in self.headers:
            self._left = int(self.headers["content-length"])
        elif self.status in (204, 304):
            self._left = 0
        return True

    def _read_chunks(self) -> None:
        at, data = 0, bytes(self._pending)
        while True:
            if not self._chunk_left:
                end = data.find(b"\r\n", at)
                if end < 0:
                    break
                size = int(data[at:end].split(b";")[0], 16)
                if size == 0:
                    if len(data) >= end + 4:
                        at = end + 4
                        self._end()
                    break
                self._chunk_left, at = size + 2, end + 2
            piece = data[at : at + self._chunk_left]
            if not piece:
                break
            at += len(piece)
            self._take(piece[: max(0, self._chunk_left - 2)])
            self._chunk_left -= len(piece)
        del self._pending[:at]

    def _take(self, piece: bytes) -> None:
        self._see(piece, self)
        self.body += piece
        if not self.is_stream:
            return
        while blank := _BLANK_LINE.search(self.body, max(0, self._searched - 3)):
            event = bytes(self.body[: blank.end()])
            del self.body[: blank.end()]
            self._searched = 0
            self.events.append(event)
            kind, data = read_event(event)
            if kind == "message" and data:
                self._hear(Heard(data, self.label))
        self._searched = len(self.body)

    def _end(self) -> None:
        self.is_over = True
        if (
            not self.is_stream
            and self.headers.get("content-type", "").startswith("application/json")
            and self.body
        ):
            self._hear(Heard(bytes(self.body), self.label))

    def close(self) -> None:
        self.is_over = True
        self.connection.close()


def read_event(event: bytes) -> tuple[str, bytes]:
    """The kind and the data of one event."""
    kind, data = "message", []
    for line in event.replace(b"\r\n", b"\n").split(b"\n"):
        name, _, value = line.partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
        elif name == b"event":
            kind = value.strip().decode()
    return kind, b"\n".join(data)


class Client:
    """What all three have in common."""

    kind = ""

    def __init__(self, era: str) -> None:
        self.era = era
        self.heard: list[Heard] = []
        self.seen: Seen | None = None  # set to an empty one: heads and bodies, of chunks what is in them
        self.sources: list[Lines | Response] = []
        self.responses: list[Response] = []  # also those that are over: their connections are kept
        self._next_id = 1000

    def see(self, data: bytes, on: object) -> None:
        """Something came on a connection, whatever it is."""
        if self.seen is not None:
            self.seen.add(data, on)

    # --- waiting ----------------------------------------------------------------------------------------

    def pump(self, within: float) -> bool:
        """Reads what is there, waiting for the first of it at most `within`."""
        open_sources = {source.fd: source for source in self.sources if not source.is_over}
        self.sources = list(open_sources.values())
        if not open_sources:
            time.sleep(min(within, 0.01))
            return False
        readable, _, _ = select.select(list(open_sources), [], [], max(0.0, within))
        for fd in readable:
            open_sources[fd].read()
        return bool(readable)

    def until(self, holds: Callable[[], Any], within: float = DEADLINE) -> Any:
        """Reads until something is so; gives what `holds` gave."""
        end = time.monotonic() + within
        while not (found := holds()):
            if time.monotonic() > end:
                raise Lost(
                    f"{self.kind}: not within {within} s; heard {[h.raw[:200] for h in self.heard[-5:]]}"
                )
            self.pump(min(0.5, end - time.monotonic()))
        return found

    def message(self, is_it: Callable[[bytes], Any], within: float = DEADLINE) -> Heard:
        """The first message heard, now or later, that is it."""
        seen = 0

        def found() -> Heard | None:
            nonlocal seen
            while seen < len(self.heard):
                seen += 1
                if is_it(self.heard[seen - 1].raw):
                    return self.heard[seen - 1]
            return None

        heard: Heard = self.until(found, within)
        return heard

    def answer(self, token: bytes, within: float = DEADLINE) -> bytes:
        """The answer to the request with this id, as it came."""
        return self.message(lambda raw: is_answer(raw, token), within).raw

    # --- saying -----------------------------------------------------------------------------------------

    def say(self, raw: bytes) -> None:
        """Sends one message as these bytes."""
        raise NotImplementedError

    def params(self, params: bytes | None) -> bytes | None:
        """`params` with what the era wants in them."""
        if self.era == "legacy":
            return params
        if params is None or params.strip() == b"{}":
            return b"{%b}" % META
        return b"{%b,%b" % (META, params.lstrip()[1:])

    def request(self, token: bytes, method: str, params: bytes | None = None) -> None:
        """Sends a request, the era's `_meta` included."""
        self.say(request(token, method, self.params(params)))

    def ask(self, method: str, params: bytes | None = None, within: float = DEADLINE) -> Any:
        """Sends a request under an id of its own; the decoded answer."""
        token = self.new_id()
        self.request(token, method, params)
        return json.loads(self.answer(token, within))

    def order(self, what: str, within: float = DEADLINE, **params: object) -> Any:
        """Gives the scripted upstream an order; its decoded answer."""
        return self.ask(f"x/{what}", json.dumps(params).encode(), within)

    def begin_order(self, what: str, token: bytes, **params: object) -> None:
        """The same, without waiting."""
        self.request(token, f"x/{what}", json.dumps(params).encode())

    def new_id(self) -> bytes:
        self._next_id += 1
        return b"%d" % self._next_id

    def begin(self, version: str = LEGACY, capabilities: bytes = b"{}") -> Any:
        """What the era begins with: the handshake, or discovery."""
        if self.era == "modern":
            return self.ask("server/discover")
        answer = self.ask(
            "initialize",
            b'{"protocolVersion":"%b","capabilities":%b,"clientInfo":{"name":"raw","version":"1"}}'
            % (version.encode(), capabilities),
        )
        self.say(INITIALIZED)
        return answer

    def call(self, name: str, arguments: bytes = b"{}", within: float = DEADLINE) -> Any:
        """Calls a tool; the decoded answer."""
        return self.ask(
            "tools/call", b'{"name":%b,"arguments":%b}' % (json.dumps(name).encode(), arguments), within
        )

    def is_alive(self) -> bool:
        """Whether an allowed call comes through."""
        answer = self.call("echo")
        assert "result" in answer, answer
        return bool(answer["result"]["called"] == "echo")

    def hang_up(self, token: bytes) -> None:
        """Gives up waiting for an answer by hanging up, where that is possible."""

    def close(self) -> None:
        for response in self.responses:
            response.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *why: object) -> None:
        self.close()


def is_answer(raw: bytes, token: bytes) -> bool:
    """Whether `raw` is the response to the request with this id; a big one is only looked at by its edges."""
    if len(raw) > 1 << 20:
        return token in raw[:100] + raw[-100:]
    try:
        return is_answer_to(raw, token)
    except ValueError:
        return False


class StdioDoor(Client):
    """The client that spawned the proxy."""

    kind = "stdio"

    def __init__(self, words: list[str], era: str, errors: Any) -> None:
        super().__init__(era)
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in = self.process.stdin.fileno()
        os.set_blocking(self._in, False)
        self.sources.append(Lines(self.process.stdout.fileno(), self.heard.append, self.see))

    def say(self, raw: bytes) -> None:
        view = memoryview(raw + b"\n")
        end = time.monotonic() + DEADLINE
        while view:
            if select.select([], [self._in], [], 0.05)[1]:
                view = view[os.write(self._in, view[:65536]) :]
            else:
                assert time.monotonic() < end, "the proxy does not read"
                self.pump(0)

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.until(lambda: not self.sources or all(source.is_over for source in self.sources))
            self.process.wait(DEADLINE)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()


class HttpDoor(Client):
    """What clients over HTTP share."""

    def __init__(self, port: int, era: str, more: dict[str, str] | None = None) -> None:
        super().__init__(era)
        self.port = port
        self.more = more or {}

    def http(
        self, method: str, target: str, headers: dict[str, str], body: bytes = b"", label: str = ""
    ) -> Response:
        """Sends one request on a connection of its own."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE)
        fields = {"Host": f"127.0.0.1:{self.port}", **self.more, **headers}
        if body or method == "POST":
            fields["Content-Length"] = str(len(body))
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        head = f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")
        connection.sendall(head + body)
        response = Response(connection, label, self.heard.append, self.see)
        self.sources.append(response)
        self.responses.append(response)
        return response

    def whole(
        self, method: str, target: str, headers: dict[str, str] | None = None, body: bytes = b""
    ) -> Response:
        """The same, to its end."""
        response = self.http(method, target, headers or {}, body)
        self.until(lambda: response.is_over)
        response.close()
        return response


class SseDoor(HttpDoor):
    """A client of the legacy HTTP+SSE transport."""

    kind = "sse"
    path = "/sse"

    def __init__(self, port: int, era: str, more: dict[str, str] | None = None) -> None:
        super().__init__(port, era, more)
        self.stream = self.http("GET", self.path, {"Accept": "text/event-stream"}, label="GET")
        kind, data = read_event(self.until(lambda: self.stream.events or (self.stream.is_over and [b""]))[0])
        assert kind == "endpoint", (self.stream.status, bytes(self.stream.body))
        self.endpoint = data.decode()

    def say(self, raw: bytes) -> None:
        response = self.http("POST", self.endpoint, {"Content-Type": "application/json"}, raw, "POST")
        self.until(lambda: response.is_over)
        response.close()
        self.last = response


class LegacyDoor(HttpDoor):
    """A client of Streamable HTTP."""

    kind = "streamable"
    path = "/mcp"

    def __init__(self, port: int, era: str, more: dict[str, str] | None = None, listens: bool = True) -> None:
        super().__init__(port, era, more)
        self.session: str | None = None
        self.version: str | None = None
        self.stream: Response | None = None
        self.posts: dict[bytes, Response] = {}
        self._listens = listens

    def headers(self, raw: bytes = b"") -> dict[str, str]:
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        if self.session is not None:
            headers["Mcp-Session-Id"] = self.session
        if self.version is not None:
            headers["MCP-Protocol-Version"] = self.version
        if self.era == "modern":
            headers["MCP-Protocol-Version"] = MODERN
            message = json.loads(raw)
            headers["Mcp-Method"] = message["method"]
            if message["method"] in NAMED_BY:
                headers["Mcp-Name"] = message["params"][NAMED_BY[message["method"]]]
        return headers

    def post(self, raw: bytes, **more: str) -> Response:
        """Posts one message, without waiting."""
        headers = {**self.headers(raw), **{name.replace("_", "-"): value for name, value in more.items()}}
        return self.http("POST", self.path, headers, raw, label=id_of(raw) or "POST")

    def say(self, raw: bytes) -> None:
        response = self.post(raw)
        token = id_of(raw)
        if token is not None and b'"method"' in raw:
            self.posts[token.encode()] = response
        else:
            self.until(lambda: response.is_over)
            response.close()
            self.last = response

    def begin(self, version: str = LEGACY, capabilities: bytes = b"{}") -> Any:
        if self.era == "modern":
            return super().begin()
        token = self.new_id()
        self.request(
            token,
            "initialize",
            b'{"protocolVersion":"%b","capabilities":%b,"clientInfo":{"name":"raw","version":"1"}}'
            % (version.encode(), capabilities),
        )
        answer = json.loads(self.answer(token))
        self.session = self.posts[token].headers.get("mcp-session-id")
        self.version = version
        self.say(INITIALIZED)
        if self._listens:
            self.listen()
        return answer

    def listen(self) -> Response:
        """Opens the GET stream, and waits until it is open."""
        self.stream = stream = self.http("GET", self.path, self.headers(), label="GET")
        self.until(lambda: stream.status)
        return stream

    def hang_up(self, token: bytes) -> None:
        self.posts[token].close()


def id_of(raw: bytes) -> str | None:
    """The id of a message as written, for labels; good enough for what tests send."""
    at = raw.find(b'"id"')
    if at < 0:
        return None
    rest = raw[at + 4 :].lstrip().removeprefix(b":").lstrip()
    try:
        _, end = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode(rest.decode("utf-8", "replace"))
    except ValueError:
        return None
    return rest.decode("utf-8", "replace")[:end]
