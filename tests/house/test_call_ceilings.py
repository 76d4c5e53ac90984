"""How many Python functions run for one call on its way up, in a real process between two real ends.

Counted, not timed: a busy machine changes nothing. A ceiling is raised only on purpose.
"""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import mmap
import os
import queue
import re
import socket
import statistics
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc whether it sleeps")

DEADLINE = 60.0
CALLS = 15
HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "count", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}

# Penstock, with every call of a Python function counted where this test can read it.
COUNTED = """
import mmap, os, runpy, struct, sys
path, *words = sys.argv[1:]
with open(path, "r+b") as file:
    shared = mmap.mmap(file.fileno(), 8)
count, own = 0, os.getpid()
def note(frame, event, argument, pack=struct.pack_into, getpid=os.getpid):
    global count
    if event == "call" and getpid() == own:
        count += 1
        pack("Q", shared, 0, count)
sys.argv = ["penstock", *words]
sys.setprofile(note)
runpy.run_module("penstock", run_name="__main__")
"""

# An upstream on a pipe that says when a call has come, and answers it when it is told to.
ON_A_PIPE = """
import json, sys
seen, go = open(sys.argv[1], "w"), open(sys.argv[2])
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "tools/call":
        seen.write("x\\n")
        seen.flush()
        go.readline()
    if "id" in message:
        results = {"initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                                  "serverInfo": {"name": "u", "version": "1"}},
                   "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}}
        result = results.get(message["method"], {"content": []})
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        print(json.dumps(answer, separators=(",", ":")), flush=True)
"""


def call(number: int) -> dict[str, Any]:
    params = {"name": "echo", "arguments": {"text": "hello"}}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def text_of(message: dict[str, Any]) -> str:
    """A message as most clients write it."""
    return json.dumps(message, separators=(",", ":"))


class Counted:
    """A running Penstock that counts what it calls."""

    def __init__(self, work: Path, *words: str) -> None:
        path = work / "count"
        path.write_bytes(bytes(8))
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), 8)
        self.process = subprocess.Popen(
            [sys.executable, "-c", COUNTED, str(path), "--deny", "^write", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def count(self) -> int:
        """The calls so far, once it sleeps: what it does after it has written belongs to what it wrote."""
        place = Path(f"/proc/{self.process.pid}/stat")
        while True:
            before = struct.unpack("Q", self._shared)[0]
            is_asleep = place.read_text().rpartition(")")[2].split()[0] == "S"
            if is_asleep and struct.unpack("Q", self._shared)[0] == before:
                return int(before)

    def port(self) -> int:
        """Where it listens."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            found = re.search(rb"http://[^ ]*?:(\d+)", line)
            if found:
                threading.Thread(target=self.process.stderr.read, daemon=True).start()
                return int(found.group(1))
        raise AssertionError("it does not listen")

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        self._shared.close()


class PipeUpstream:
    """The upstream on a pipe."""

    def __init__(self, work: Path) -> None:
        self._paths = [str(work / "seen"), str(work / "go")]
        for path in self._paths:
            os.mkfifo(path)
        # Both ends of each, so that nobody waits for the other to open it.
        self._seen = os.fdopen(os.open(self._paths[0], os.O_RDWR), "rb", buffering=0)
        self._go = os.fdopen(os.open(self._paths[1], os.O_RDWR), "wb", buffering=0)
        self.words = ("--", sys.executable, "-c", ON_A_PIPE, *self._paths)

    def wait_for_call(self) -> None:
        self._seen.readline()

    def let_go(self) -> None:
        self._go.write(b"x\n")

    def close(self) -> None:
        self._seen.close()
        self._go.close()


class HttpUpstream:
    """The same over Streamable HTTP."""

    def __init__(self) -> None:
        seen: queue.Queue[None] = queue.Queue()
        go: queue.Queue[None] = queue.Queue()
        self._seen, self._go = seen, go

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1

            def do_POST(self) -> None:
                message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                method = message.get("method")
                if method == "tools/call":
                    seen.put(None)
                    go.get()
                results = {
                    "initialize": {
                        "protocolVersion": "2025-11-25",
                        "capabilities": {"tools": {}},
                        "serverInfo": {"name": "u", "version": "1"},
                    },
                    "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
                    "tools/call": {"content": []},
                }
                answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message.get("id")}
                if method in results:
                    answer["result"] = results[method]
                else:
                    answer["error"] = {"code": -32601, "message": "Method not found"}
                body = text_of(answer).encode() if "id" in message else b""
                self.send_response(200 if body else 202)
                if method == "initialize":
                    self.send_header("Mcp-Session-Id", "one")
                if body:
                    self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self) -> None:
                self.send_response(405)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_DELETE = do_GET

            def log_message(self, *what: object) -> None:
                return

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.words = ("--upstream", f"http://127.0.0.1:{self._server.server_port}/mcp")

    def wait_for_call(self) -> None:
        self._seen.get(timeout=DEADLINE)

    def let_go(self) -> None:
        self._go.put(None)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class StdioClient:
    """A client on stdin and stdout."""

    def __init__(self, proxy: Counted) -> None:
        assert proxy.process.stdin is not None
        assert proxy.process.stdout is not None
        self._to, self._from = proxy.process.stdin, proxy.process.stdout

    def send(self, message: dict[str, Any]) -> None:
        self._to.write(text_of(message).encode() + b"\n")
        self._to.flush()

    def answer(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._from.readline())
        return found


class HttpClient:
    """A client of Streamable HTTP, on one connection; head and body come as one piece."""

    def __init__(self, proxy: Counted) -> None:
        self._socket = socket.create_connection(("127.0.0.1", proxy.port()), timeout=DEADLINE)
        self._head = (
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n"
        )

    def send(self, message: dict[str, Any]) -> None:
        body = text_of(message)
        self._socket.sendall(f"{self._head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        if "id" not in message:
            self._response().read()

    def answer(self) -> dict[str, Any]:
        response = self._response()
        text = response.read().decode()
        session = response.headers["Mcp-Session-Id"]
        if session is not None and session not in self._head:
            self._head += f"Mcp-Session-Id: {session}\r\n"
        if response.headers["Content-Type"].startswith("text/event-stream"):
            text = re.findall(r"^data: ?(\{.*)$", text, re.MULTILINE)[-1]
        found: dict[str, Any] = json.loads(text)
        return found

    def _response(self) -> http.client.HTTPResponse:
        response = http.client.HTTPResponse(self._socket, method="POST")
        response.begin()
        return response


@contextlib.contextmanager
def between(
    work: Path, is_http: bool, upstream: PipeUpstream | HttpUpstream
) -> Iterator[tuple[Counted, Any]]:
    proxy = Counted(work, *(("--listen", "0") if is_http else ()), *upstream.words)
    try:
        client = HttpClient(proxy) if is_http else StdioClient(proxy)
        client.send(HELLO)
        assert "result" in client.answer()
        client.send(INITIALIZED)
        yield proxy, client
    finally:
        proxy.close()
        upstream.close()


@pytest.mark.timeout(DEADLINE * 2)
@pytest.mark.parametrize(
    ("is_http", "is_upstream_http", "ceiling"),
    [
        pytest.param(False, False, 22, id="stdio to stdio"),
        pytest.param(True, True, 33, id="pass-through"),
        pytest.param(True, False, 60, id="legacy HTTP to a pipe"),
    ],
)
def test_a_call_runs_so_many_functions_on_its_way_up(
    tmp_path: Path, is_http: bool, is_upstream_http: bool, ceiling: int
) -> None:
    upstream = HttpUpstream() if is_upstream_http else PipeUpstream(tmp_path)
    with between(tmp_path, is_http, upstream) as (proxy, client):
        up, back = [], []
        for number in range(1, CALLS + 1):
            before = proxy.count()
            client.send(call(number))
            upstream.wait_for_call()
            there = proxy.count()
            upstream.let_go()
            assert client.answer()["result"] == {"content": []}
            up.append(there - before)
            back.append(proxy.count() - there)
        # The first has the list fetched and what a head means found out; timers may come in between.
        assert statistics.median(up) <= ceiling, (up, back)
        print(f"{statistics.median(up):.0f} up, {statistics.median(back):.0f} back")
