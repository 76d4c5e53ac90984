"""A live session over HTTP, and a way to send any bytes in its name."""

from __future__ import annotations

import json
import select
import socket
import time
from typing import Any

from doors import MODERN, LegacyDoor, SseDoor, read_event
from gate import DEADLINE, META

JSON = b"Content-Type: application/json\r\n"
_CALL = b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":{"name":"%b","arguments":{}%b}}'


class Router:
    """What is needed to write a request by hand: where to, and the headers that make it this session's."""

    def __init__(self, door: LegacyDoor | SseDoor, version: str) -> None:
        self.door = door
        self.port = door.port
        self.client = door.kind
        self.is_modern = version == MODERN
        meta = b"," + META if self.is_modern else b""
        self.denied = _CALL % (b"9", b"delete_file", meta)
        self.allowed = _CALL % (b"8", b"echo", meta)
        self.session = ""
        fields = [f"Host: 127.0.0.1:{self.port}"]
        if isinstance(door, SseDoor):
            self.target = door.endpoint.encode()
            self.session = door.endpoint.rpartition("=")[2]
        else:
            self.target = b"/mcp"
            fields += ["Accept: application/json, text/event-stream", f"MCP-Protocol-Version: {version}"]
            if door.session:
                self.session = door.session
                fields.append(f"Mcp-Session-Id: {door.session}")
        self.bare = "".join(f"{field}\r\n" for field in fields).encode()

    @property
    def base(self) -> bytes:
        """The headers of an honest call of the denied tool, but for those about the body."""
        return self.bare + (self.mirrored(b"delete_file") if self.is_modern else b"")

    def mirrored(self, name: bytes) -> bytes:
        """What the newer era wants said in headers too, over Streamable HTTP."""
        if self.client == "sse":
            return b""
        return b"Mcp-Method: tools/call\r\nMcp-Name: %b\r\n" % name

    def post(
        self, body: bytes, more: bytes = JSON, line: bytes | None = None, base: bytes | None = None
    ) -> bytes:
        """A whole request, with its length."""
        line = line or b"POST %b HTTP/1.1" % self.target
        base = self.base if base is None else base
        return b"%b\r\n%b%bContent-Length: %d\r\n\r\n%b" % (line, base, more, len(body), body)

    def open(self, rest: bytes) -> bytes:
        """A request whose framing is the attack: everything after our own headers is `rest`."""
        return b"POST %b HTTP/1.1\r\n%b%b" % (self.target, self.base, rest)

    def fire(self, data: bytes, responses: int = 1, within: float = DEADLINE) -> list[tuple[int, bytes]]:
        """Sends `data`; the responses until there are enough or the connection ends; the door sees them."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=within) as connection:
            got = bytearray()
            view = memoryview(data)
            is_open = True
            end = time.monotonic() + within
            while is_open and len(read_responses(bytes(got))) < responses and time.monotonic() < end:
                readable, writable, _ = select.select([connection], [connection] if view else [], [], 0.5)
                if writable:
                    try:
                        view = view[connection.send(view[:65536]) :]
                    except OSError:
                        view = memoryview(b"")
                if readable:
                    try:
                        piece = connection.recv(65536)
                    except OSError:
                        piece = b""
                    is_open = bool(piece)
                    got += piece
            self.door.see(bytes(got), connection)
            return read_responses(bytes(got), is_head=data.startswith(b"HEAD "))


def read_responses(data: bytes, is_head: bool = False) -> list[tuple[int, bytes]]:
    """The whole responses in `data`: status and body."""
    found = []
    while b"\r\n\r\n" in data:
        head, _, rest = data.partition(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        fields = {
            name.strip().lower(): value.strip()
            for name, _, value in (f.partition(b":") for f in head.split(b"\r\n")[1:])
        }
        if status == 100:
            data = rest
            continue
        if is_head:
            body = b""
        elif fields.get(b"transfer-encoding") == b"chunked":
            body = b""
            while True:
                size, separator, rest = rest.partition(b"\r\n")
                if not separator:
                    return found
                length = int(size, 16)
                body, rest = body + rest[:length], rest[length + 2 :]
                if length == 0:
                    break
        else:
            length = int(fields.get(b"content-length", b"0"))
            if len(rest) < length:
                return found
            body, rest = rest[:length], rest[length:]
        found.append((status, body))
        data = rest
    return found


def message_in(body: bytes) -> Any:
    """The JSON-RPC message in a body, be it JSON or one event."""
    return json.loads(body if body[:1] == b"{" else read_event(body)[1])


def chunked(*pieces: bytes, trailer: bytes = b"", extension: bytes = b"") -> bytes:
    """A body in these chunks."""
    return b"".join(b"%x%b\r\n%b\r\n" % (len(p), extension, p) for p in pieces) + b"0\r\n" + trailer + b"\r\n"
