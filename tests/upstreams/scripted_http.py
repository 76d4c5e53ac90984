"""An HTTP upstream whose every byte a test decides, and which remembers every request as it came.

    def answer(request, line):
        line.json(request.body_with_result(b'{"n": 1.0}'))

    with ScriptedHttp(answer) as upstream: ... upstream.url ... upstream.requests

The script runs in a thread of its own for each connection; `line` is the way back to whoever asked.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Request:
    """One request as it arrived."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    number: int = 0
    message: dict[str, Any] = field(default_factory=dict)

    def header(self, name: str) -> str | None:
        """The value of a header, which must not stand twice."""
        values = [value for key, value in self.headers if key.lower() == name.lower()]
        assert len(values) < 2, f"{name} came {len(values)} times"
        return values[0] if values else None

    @property
    def rpc(self) -> str | None:
        """The JSON-RPC method."""
        return self.message.get("method")

    def result(self, result: bytes = b"{}") -> bytes:
        """A response to this request."""
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (json.dumps(self.message["id"]).encode(), result)


class Line:
    """What a script can do to the connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def reply(self, status: int, body: bytes = b"", *headers: str) -> None:
        lines = [f"HTTP/1.1 {status} X", *headers, f"Content-Length: {len(body)}", "", ""]
        self.send("\r\n".join(lines).encode() + body)

    def json(self, body: bytes, *headers: str, status: int = 200) -> None:
        self.reply(status, body, "Content-Type: application/json", *headers)

    def accepted(self) -> None:
        self.reply(202)

    def events(self, *events: bytes, headers: tuple[str, ...] = (), is_open: bool = False) -> None:
        """Begins a chunked event stream; ends it unless `is_open`."""
        lines = ["HTTP/1.1 200 OK", "Content-Type: text/event-stream", *headers, "Transfer-Encoding: chunked"]
        self.send("\r\n".join([*lines, "", ""]).encode())
        for event in events:
            self.chunk(event)
        if not is_open:
            self.send(b"0\r\n\r\n")

    def chunk(self, data: bytes) -> None:
        self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def hang_up(self) -> None:
        """Closes as a process does that ends."""
        self.sock.shutdown(socket.SHUT_RDWR)

    def reset(self) -> None:
        """Closes as a network does that fails, a moment later: a reset takes back what was not read yet."""
        time.sleep(0.1)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.sock.detach())  # not close(): the stream that reads requests would keep it open

    def is_gone(self, seconds: float) -> bool:
        """Whether the other side closes within so many seconds."""
        self.sock.settimeout(seconds)
        try:
            return self.sock.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:
            return True


Script = Callable[[Request, Line], None]


class ScriptedHttp:
    """Listens on a free port of this machine, or on the given one."""

    def __init__(
        self, script: Script, path: str = "/mcp", port: int = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        self.script = script
        self.requests: list[Request] = []
        self.faults: list[Exception] = []  # what went wrong in the script itself
        self.connections = 0
        self._lock = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", port))
        self._sockets: set[socket.socket] = set()
        self.port = self._listener.getsockname()[1]
        self._tls = tls
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}{path}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> ScriptedHttp:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.stop()
        if kind is None and self.faults:
            raise self.faults[0]

    def stop(self) -> None:
        """As if its process had been killed."""
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()
        with self._lock:
            sockets = list(self._sockets)
        for sock in sockets:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def posted(self, rpc: str | None = None) -> list[Request]:
        """The POSTs so far, of one JSON-RPC method or of all."""
        with self._lock:
            return [one for one in self.requests if one.method == "POST" and rpc in (None, one.rpc)]

    def asked(self, method: str) -> list[Request]:
        """The requests of an HTTP method so far."""
        with self._lock:
            return [one for one in self.requests if one.method == method]

    def wait(self, is_so: Callable[[], object], seconds: float = 10.0) -> None:
        """Waits until the requests make `is_so` true."""
        deadline = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < deadline, f"not within {seconds} s; came: {self.requests}"
            with self._lock:
                self._lock.wait(0.02)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._sockets.add(sock)
                self.connections += 1
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_side=True)
            line = Line(sock)
            with sock:
                stream = sock.makefile("rb")
                while (request := _read_request(stream)) is not None:
                    with self._lock:
                        request.number = len(self.requests)
                        self.requests.append(request)
                        self._lock.notify_all()
                    self.script(request, line)
        except OSError:
            pass
        except Exception as fault:
            self.faults.append(fault)
        finally:
            with self._lock:
                self._sockets.discard(sock)


def _read_request(stream: Any) -> Request | None:
    first = stream.readline()
    if not first:
        return None
    method, target, _ = first.decode().split(" ")
    headers = []
    while (row := stream.readline()) not in (b"\r\n", b""):
        name, _, value = row.decode().partition(":")
        headers.append((name, value.strip()))
    length = int(next((value for name, value in headers if name.lower() == "content-length"), 0))
    body = stream.read(length)
    request = Request(method, target, headers, body)
    try:
        message = json.loads(body)
    except ValueError:
        message = {}
    request.message = message if isinstance(message, dict) else {}
    return request
