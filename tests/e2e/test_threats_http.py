"""Section D of the threats, over the listener, before every kind of upstream; and what of E is HTTP's.

Each test is named by its row. Whatever is sent, nothing denied may reach the upstream, which records all it
gets; hidden names are in no answer but the refusal; the next allowed call works; stderr has no traceback.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import select
import socket
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from doors import LEGACY, MODERN, SseDoor, StreamableDoor, read_event
from gate import DEADLINE, META, cpu_seconds, peak_memory, wait_until
from pairs import DENY, TRANSPORTS, Halls, Proxy, Upstream, said

every_upstream = pytest.mark.parametrize("upstream", TRANSPORTS)
MIB = 1024 * 1024
DENIED = b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"delete_file","arguments":{}}}'
ALLOWED = b'{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"echo","arguments":{}}}'
MODERN_DENIED = DENIED[:-2] + b"," + META + b"}}"
NOT_FOUND = {"code": -32601, "message": "Tool not found: delete_file"}


@pytest.fixture(scope="module")
def halls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Halls]:
    shared = Halls(tmp_path_factory.mktemp("halls"))
    yield shared
    shared.close()


class Front:
    """A live session before one kind of upstream, and a way to send any bytes in its name."""

    def __init__(self, halls: Halls, upstream: str) -> None:
        self.there = halls.upstream(upstream)
        self.proxy = halls.proxy(upstream)
        self.door: StreamableDoor = halls.connect("streamable", upstream, "legacy")
        self.session = self.door.session or ""
        self.base = (
            f"Host: 127.0.0.1:{self.proxy.port}\r\nAccept: application/json, text/event-stream\r\n"
            f"Mcp-Session-Id: {self.session}\r\nMCP-Protocol-Version: {LEGACY}\r\n"
        ).encode()
        self.modern = (
            f"Host: 127.0.0.1:{self.proxy.port}\r\nAccept: application/json, text/event-stream\r\n"
            f"MCP-Protocol-Version: {MODERN}\r\n"
        ).encode()

    def post(
        self,
        body: bytes,
        more: bytes = b"Content-Type: application/json\r\n",
        line: bytes = b"POST /mcp HTTP/1.1",
    ) -> bytes:
        return b"%b\r\n%b%bContent-Length: %d\r\n\r\n%b" % (line, self.base, more, len(body), body)

    def fire(self, data: bytes, responses: int = 1) -> list[tuple[int, bytes]]:
        """Sends `data`; the responses until there are enough or the connection ends."""
        with socket.create_connection(("127.0.0.1", self.proxy.port), timeout=DEADLINE) as connection:
            got = bytearray()
            view = memoryview(data)
            is_open = True
            end = time.monotonic() + DEADLINE
            while is_open and len(found := read_responses(bytes(got))) < responses and time.monotonic() < end:
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
            return read_responses(bytes(got)) if not is_open else found

    def check(self) -> None:
        """What must hold after every attack."""
        assert self.there.calls_of("delete_file", "write_file") == []
        assert self.door.is_alive()
        assert "Traceback" not in self.proxy.stderr


def read_responses(data: bytes) -> list[tuple[int, bytes]]:
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
        if fields.get(b"transfer-encoding") == b"chunked":
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


@pytest.fixture(params=TRANSPORTS)
def front(request: pytest.FixtureRequest, halls: Halls) -> Iterator[Front]:
    front = Front(halls, request.param)
    yield front
    front.check()
    halls.release(front.door)


def chunked(*pieces: bytes, trailer: bytes = b"", extension: bytes = b"") -> bytes:
    """A body in these chunks."""
    return b"".join(b"%x%b\r\n%b\r\n" % (len(p), extension, p) for p in pieces) + b"0\r\n" + trailer + b"\r\n"


JSON = b"Content-Type: application/json\r\n"
TE = JSON + b"Transfer-Encoding: chunked\r\n"
SMUGGLED = b"POST /mcp HTTP/1.1\r\n<base>Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
    len(DENIED),
    DENIED,
)

# Bytes after the request line and the session's own headers, and the statuses that may answer them.
REFUSED = {
    "64-text": (b"Content-Type: text/plain\r\n", {415}),
    "64-form": (b"Content-Type: application/x-www-form-urlencoded\r\n", {415}),
    "64-multipart": (b"Content-Type: multipart/form-data; boundary=x\r\n", {415}),
    "64-missing": (b"", {415}),
    "64-jsonl": (b"Content-Type: application/jsonl\r\n", {415}),
    "64-list": (b"Content-Type: application/json, text/plain\r\n", {415}),
    "64-twice": (JSON + b"Content-Type: text/plain\r\n", {400, 415}),
    "65-utf16": (b"Content-Type: application/json; charset=utf-16\r\n", {415}),
    "65-utf7": (b'Content-Type: application/json; charset="utf-7"\r\n', {415}),
    "66-gzip": (JSON + b"Content-Encoding: gzip\r\n", {415}),
    "66-deflate": (JSON + b"Content-Encoding: deflate\r\n", {415}),
    "66-double": (JSON + b"Content-Encoding: gzip, gzip\r\n", {415}),
    "81-origin": (JSON + b"Origin: http://evil.example\r\n", {403}),
    "81-null": (JSON + b"Origin: null\r\n", {403}),
    "81-two": (JSON + b"Origin: http://localhost\r\nOrigin: http://evil.example\r\n", {400, 403}),
    "81-lookalike": (JSON + b"Origin: http://localhost.evil.example\r\n", {403}),
    "81-userinfo": (JSON + b"Origin: http://localhost@evil.example\r\n", {403}),
    "90-simple": (b"Content-Type: text/plain\r\nOrigin: http://evil.example\r\n", {403}),
    "62-method": (JSON + b"Mcp-Method: tools/list\r\n", {400}),
    "62-name": (JSON + b"Mcp-Name: echo\r\n", {400}),
    "62-two": (JSON + b"Mcp-Name: delete_file\r\nMcp-Name: echo\r\n", {400}),
}


@pytest.mark.parametrize("row", REFUSED)
def test_what_a_post_may_not_say_of_itself(front: Front, row: str):
    more, statuses = REFUSED[row]
    body = DENIED
    if row.startswith("66"):
        body = zlib.compress(DENIED) if "deflate" in row else gzip.compress(DENIED)
        body = gzip.compress(body) if "double" in row else body
    ((status, answer),) = front.fire(front.post(body, more))
    assert status in statuses
    assert b"delete_file" not in answer


def test_66_gzip_without_saying_so_is_no_json(front: Front):
    ((status, answer),) = front.fire(front.post(gzip.compress(DENIED)))
    assert status == 400
    assert message_in(answer)["id"] is None


def test_67_a_small_body_that_opens_to_a_huge_one_is_not_opened(front: Front):
    bomb = gzip.compress(b" " * (100 * MIB), 9)
    before = peak_memory(front.proxy.process.pid)
    ((status, _),) = front.fire(front.post(bomb, JSON + b"Content-Encoding: gzip\r\n"))
    assert status == 415
    assert peak_memory(front.proxy.process.pid) - before < 10 * MIB


GATED = {
    "68-in-the-name": (TE, chunked(DENIED[:60], DENIED[60:70], DENIED[70:])),
    "68-bytes": (TE, chunked(*(DENIED[i : i + 1] for i in range(len(DENIED))))),
    "69-extension": (TE, chunked(DENIED, extension=b';name="echo"')),
    "69-trailer": (TE, chunked(DENIED, trailer=b"Mcp-Name: echo\r\nContent-Length: 3\r\n")),
    "73-plain": (JSON + b"Content-Length: %d\r\n" % len(DENIED), DENIED),
    "73-expect": (JSON + b"Expect: 100-continue\r\nContent-Length: %d\r\n" % len(DENIED), DENIED),
    "74-override": (JSON + b"X-HTTP-Method-Override: GET\r\nContent-Length: %d\r\n" % len(DENIED), DENIED),
    "62-agreed": (
        JSON + b"Mcp-Method: tools/call\r\nMcp-Name: delete_file\r\nContent-Length: %d\r\n" % len(DENIED),
        DENIED,
    ),
    "81-own": (JSON + b"Origin: http://localhost:3000\r\nContent-Length: %d\r\n" % len(DENIED), DENIED),
}


@pytest.mark.parametrize("row", GATED)
def test_however_it_is_framed_a_denied_call_is_refused(front: Front, row: str):
    headers, body = GATED[row]
    responses = front.fire(b"POST /mcp HTTP/1.1\r\n" + front.base + headers + b"\r\n" + body)
    ((status, answer),) = responses
    if status == 200:
        assert message_in(answer) == {"jsonrpc": "2.0", "id": 9, "error": NOT_FOUND}
    else:
        assert row == "69-trailer"  # forbidden in a trailer, so refusing is right as well
        assert status == 400


def test_73_each_of_several_requests_is_judged_alone(front: Front):
    data = front.post(ALLOWED) + front.post(DENIED) + front.post(ALLOWED)
    answers = [message_in(body) for _, body in front.fire(data, 3)]
    assert [answer.get("error") for answer in answers] == [None, NOT_FOUND, None]


@pytest.mark.parametrize(
    "line",
    [b"POST /mcp HTTP/1.0", b"POST http://127.0.0.1/mcp HTTP/1.1", b"POST /mcp?x=1 HTTP/1.1"],
    ids=["73-http10", "73-absolute", "73-query"],
)
def test_73_other_ways_to_ask(front: Front, line: bytes):
    ((status, answer),) = front.fire(front.post(DENIED, line=line))
    assert status in (200, 400)
    if status == 200:
        assert message_in(answer)["error"] == NOT_FOUND


CLOSED = {
    "70-cl-te": TE + b"Content-Length: 5\r\n\r\n0\r\n\r\n<smuggled>",
    "70-te-cl": b"Content-Length: 4\r\n" + TE + b"\r\n0\r\n\r\n<smuggled>",
    "70-xchunked": JSON + b"Transfer-Encoding: xchunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n<smuggled>",
    "70-identity": JSON + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n<smuggled>",
    "70-twice": JSON + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n<smuggled>",
    "70-bare-lf": JSON + b"X: y\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n<smuggled>",
    "70-tab": JSON + b"Transfer-Encoding:\x0bchunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n<smuggled>",
    "71-two": JSON + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n<smuggled>",
    "71-list": JSON + b"Content-Length: 0, 5\r\n\r\n<smuggled>",
    "71-plus": JSON + b"Content-Length: +0\r\n\r\n<smuggled>",
    "71-negative": JSON + b"Content-Length: -1\r\n\r\n<smuggled>",
    "71-hex": JSON + b"Content-Length: 0x0\r\n\r\n<smuggled>",
    "72-fold": JSON + b"X: a\r\n Content-Length: 5\r\nContent-Length: 0\r\n\r\n<smuggled>",
    "72-blank": JSON + b"Content-Length : 0\r\n\r\n<smuggled>",
    "72-lf-ends": JSON + b"Content-Length: 0\n\n<smuggled>",
    "72-nul": JSON + b"X: a\0b\r\nContent-Length: 0\r\n\r\n<smuggled>",
    "72-cr": JSON + b"X: a\rContent-Length: 9\r\nContent-Length: 0\r\n\r\n<smuggled>",
    "72-no-colon": JSON + b"Content-Length\r\n\r\n<smuggled>",
    "69-chunk-size": TE + b"\r\n0x3\r\nabc\r\n0\r\n\r\n<smuggled>",
    "69-chunk-lf": TE + b"\r\n3\nabc\n0\n\n<smuggled>",
    "69-chunk-huge": TE + b"\r\nfffffffffffffffff\r\n<smuggled>",
    "69-chunk-tail": TE + b"\r\n3\r\nabcX\r\n0\r\n\r\n<smuggled>",
}


@pytest.mark.parametrize("row", CLOSED)
def test_what_two_readers_could_frame_differently_is_refused_and_closed(front: Front, row: str):
    smuggled = SMUGGLED.replace(b"<base>", front.base)
    data = b"POST /mcp HTTP/1.1\r\n" + front.base + CLOSED[row].replace(b"<smuggled>", smuggled)
    responses = front.fire(data, responses=99)  # to the end of the connection
    assert len(responses) == 1
    assert 400 <= responses[0][0] < 500 or responses[0][0] == 501
    assert b"delete_file" not in responses[0][1]


def test_71_a_body_that_was_not_announced_is_the_next_request(front: Front):
    """Content-Length 0 with a body: what follows is a request of its own, and gated."""
    smuggled = SMUGGLED.replace(b"<base>", front.base)
    data = b"POST /mcp HTTP/1.1\r\n" + front.base + JSON + b"Content-Length: 0\r\n\r\n" + smuggled
    (first, _), (second, answer) = front.fire(data, 2)
    assert (first, second) == (400, 200)
    assert message_in(answer)["error"] == NOT_FOUND


@pytest.mark.parametrize(
    "method", ["PUT", "PATCH", "GET", "DELETE", "OPTIONS", "HEAD", "TRACE", "CONNECT", "post"]
)
def test_74_other_methods_with_a_body(front: Front, method: str, halls: Halls):
    session = front.base
    if method in ("GET", "DELETE"):
        session = session.replace(
            front.session.encode(), b"nobody"
        )  # else it would stream, or end the session
    data = b"%b /mcp HTTP/1.1\r\n%b%bContent-Length: %d\r\n\r\n%b" % (
        method.encode(),
        session,
        JSON,
        len(DENIED),
        DENIED,
    )
    if method == "HEAD":
        data = data.replace(b"Accept:", b"Connection: close\r\nAccept:")
        with socket.create_connection(("127.0.0.1", front.proxy.port), timeout=DEADLINE) as raw:
            raw.sendall(data)
            assert raw.recv(65536).split()[1] in (b"405", b"404", b"406")
        return
    responses = front.fire(data)
    assert responses[0][0] in (204, 400, 404, 405, 501)
    assert b"delete_file" not in responses[0][1]


PATHS = (
    "//mcp /mcp/ /MCP /./mcp /x/../mcp /%6dcp /mcp%00 /mcp;x /mcp/../messages /sse /messages /messages/ "
    "/messages?sid=up-1 /message /mcp/message / * /admin /metrics /mcp%2f"
).split()


@pytest.mark.parametrize("path", PATHS)
def test_75_other_paths(front: Front, path: str):
    responses = front.fire(front.post(DENIED, line=b"POST %b HTTP/1.1" % path.encode()))
    assert responses[0][0] in (400, 404, 405)
    assert b"delete_file" not in responses[0][1]


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "169.254.169.254"]
)
def test_81_a_host_that_is_not_ours(front: Front, host: str):
    data = front.post(DENIED).replace(b"Host: 127.0.0.1:%d" % front.proxy.port, b"Host: " + host.encode())
    ((status, answer),) = front.fire(data)
    assert status in (400, 403)
    assert b"delete_file" not in answer
    for path in (b"/sse", b"/healthz", b"/.well-known/x"):
        ((status, _),) = front.fire(b"GET %b HTTP/1.1\r\nHost: evil.example\r\n\r\n" % path)
        assert status == 403


def test_81_only_loopback_is_bound(front: Front):
    assert "Listening on http://127.0.0.1:" in front.proxy.stderr


@pytest.mark.parametrize(
    ("row", "data", "statuses"),
    [
        ("87-headers", b"".join(b"X-%d: y\r\n" % n for n in range(1000)), {400, 431}),
        ("87-header", b"X: " + b"y" * MIB + b"\r\n", {431}),
        ("87-name", b"y" * MIB + b": x\r\n", {431}),
    ],
    ids=["87-headers", "87-header", "87-name"],
)
def test_87_too_much_head(front: Front, row: str, data: bytes, statuses: set[int]):
    responses = front.fire(front.post(DENIED, JSON + data), responses=99)
    assert [status in statuses for status, _ in responses] == [True]


def test_87_too_long_a_target(front: Front):
    responses = front.fire(
        front.post(DENIED, line=b"POST /mcp?" + b"x" * 100_000 + b" HTTP/1.1"), responses=99
    )
    assert [status for status, _ in responses] == [414]


def test_20_a_body_over_the_limit_is_refused_before_it_is_read(front: Front):
    before = peak_memory(front.proxy.process.pid)
    head = b"POST /mcp HTTP/1.1\r\n" + front.base + JSON
    responses = front.fire(head + b"Content-Length: %d\r\n\r\n" % (300 * MIB) + b" " * MIB, responses=99)
    assert [status for status, _ in responses] == [413]
    piece = b"%x\r\n%b\r\n" % (MIB, b" " * MIB)
    responses = front.fire(head + b"Transfer-Encoding: chunked\r\n\r\n" + piece * 12, responses=99)
    assert [status for status, _ in responses] == [413]
    assert peak_memory(front.proxy.process.pid) - before < 40 * MIB


GARBAGE = {
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200,
    "http2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "binary": bytes(range(256)) * 4,
    "line": b"hello\r\n\r\n",
    "version": b"POST /mcp HTTP/9.9\r\nHost: localhost\r\n\r\n",
    "json": DENIED + b"\n",
    "spaces": b"POST  /mcp  HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no-host": b"POST /mcp HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    "two-hosts": b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\nContent-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("what", GARBAGE)
def test_72_what_is_no_http_is_refused_or_closed(front: Front, what: str):
    for status, body in front.fire(GARBAGE[what], responses=99):
        assert status in (400, 403, 404, 405, 501, 505)
        assert b"delete_file" not in body


@pytest.mark.parametrize(
    ("headers", "statuses"),
    [
        (b"Mcp-Method: tools/list\r\nMcp-Name: delete_file\r\n", {400}),
        (b"Mcp-Method: tools/call\r\nMcp-Name: echo\r\n", {400}),
        (b"Mcp-Method: tools/call\r\nMcp-Name: =?base64?ZWNobw==?=\r\n", {400}),
        (b"Mcp-Method: tools/call\r\nMcp-Name: echo\r\nMcp-Name: delete_file\r\n", {400}),
        (b"Mcp-Method: tools/call\r\nMcp-Name: =?base64?ZGVsZXRlX2ZpbGU=?=\r\n", {200}),
        (b"Mcp-Method: tools/call\r\nMcp-Name: delete_file\r\n", {200}),
        (b"", {400, 200}),
    ],
    ids=["method", "name", "base64", "two", "honest-base64", "honest", "missing"],
)
def test_62_headers_of_the_newer_era_that_say_something_else(
    front: Front, headers: bytes, statuses: set[int]
):
    data = b"POST /mcp HTTP/1.1\r\n%b%b%bContent-Length: %d\r\n\r\n%b" % (
        front.modern,
        JSON,
        headers,
        len(MODERN_DENIED),
        MODERN_DENIED,
    )
    ((status, answer),) = front.fire(data)
    assert status in statuses
    if status == 200:
        assert message_in(answer)["error"] == NOT_FOUND
    else:
        assert message_in(answer)["error"]["code"] == -32020


BODIES = {
    "2-two-names": DENIED.replace(b'"name":', b'"name":"echo","name":'),
    "2-escaped-name": DENIED.replace(b'"name":', b'"name":"echo","n\\u0061me":'),
    "4-two-params": DENIED.replace(b'"params":', b'"params":{"name":"echo"},"params":'),
    "12-two-methods": DENIED.replace(b'"method":', b'"method":"ping","method":'),
    "8-bom": b"\xef\xbb\xbf" + DENIED,
    "15-utf16": DENIED.decode().encode("utf-16"),
    "16-bad-utf8": DENIED.replace(b"{}", b'{"x":"\xff"}'),
    "18-nan": DENIED.replace(b"{}", b'{"x":NaN}'),
    "22-deep": DENIED.replace(b"{}", b"[" * 200 + b"]" * 200),
    "27-batch": b"[" + DENIED + b"]",
    "27-batch-mixed": b"[" + ALLOWED + b"," + DENIED + b"]",
    "53-two-messages": ALLOWED + b"\n" + DENIED,
    "no-json": b"tools/call delete_file",
    "empty": b"",
}


@pytest.mark.parametrize("row", BODIES)
def test_what_two_parsers_could_read_differently_is_refused(front: Front, row: str):
    ((status, answer),) = front.fire(front.post(BODIES[row]))
    assert status == 400
    assert message_in(answer)["error"]["code"] in (-32700, -32600, -32602)
    assert b"delete_file" not in answer


def test_the_control_without_a_deny_list_the_same_calls_go_through(tmp_path: Path):
    """That the tests above see a leak when there is one."""
    for upstream in TRANSPORTS:
        with Upstream(upstream, tmp_path) as there, Proxy(tmp_path, there.words()) as proxy:
            halls = type("One", (), {"upstream": lambda s, u, t=there: t, "proxy": lambda s, u, p=proxy: p})()
            door = proxy.connect("streamable", "legacy")
            door.begin()
            halls.connect = lambda *a, d=door: d
            front = Front(halls, upstream)
            for row in ("68-in-the-name", "69-extension", "73-plain"):
                headers, body = GATED[row]
                ((status, _),) = front.fire(b"POST /mcp HTTP/1.1\r\n" + front.base + headers + b"\r\n" + body)
                assert status == 200
            assert len(there.calls_of("delete_file")) == 3
            door.close()


# --- slow clients and many ------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["head", "body"])
def test_84_half_sent_requests_are_closed_and_nobody_waits_for_them(halls: Halls, part: str):
    front = Front(halls, "streamable")
    head = b"POST /mcp HTTP/1.1\r\n" + front.base + JSON
    half = head if part == "head" else head + b"Content-Length: 1000\r\n\r\n{"
    slow = []
    for _ in range(100):
        connection = socket.create_connection(("127.0.0.1", front.proxy.port), timeout=DEADLINE)
        connection.sendall(half)
        slow.append(connection)
    for _ in range(10):
        assert front.door.is_alive()
    try:
        for connection in slow:
            assert connection.recv(4096).startswith(b"HTTP/1.1 408")
    finally:
        for connection in slow:
            connection.close()
    front.check()
    halls.release(front.door)


def test_86_144_more_streams_than_the_system_has_files_for(tmp_path: Path):
    """A small limit on files is met sooner than the cap of a thousand; the cap has tests of its own."""
    lower = (
        "import resource,runpy,sys; resource.setrlimit(resource.RLIMIT_NOFILE,(100,100));"
        "sys.argv[0]='penstock'; runpy.run_module('penstock', run_name='__main__')"
    )
    errors = tmp_path / "stderr"
    with Upstream("sse", tmp_path) as there, errors.open("wb") as out:
        words = [sys.executable, "-c", lower, "--listen", "0", "--deny", DENY, *there.words()]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=out)
        try:
            port = int(said(errors, rb"Listening on http://\S+:(\d+)/mcp", process))
            keep = SseDoor(port, "legacy")
            keep.begin()
            crowd = []
            for _ in range(120):
                connection = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE)
                connection.sendall(
                    b"GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
                )
                crowd.append(connection)
            assert wait_until(lambda: len(list(Path(f"/proc/{process.pid}/fd").iterdir())) >= 98)
            # Out of files it waits for one, and does not spin: a second of that costs far less than a second.
            before = cpu_seconds(process.pid)
            keep.pump(1.0)
            assert cpu_seconds(process.pid) - before < 0.7
            assert not keep.stream.is_over  # who was there before is still served
            for connection in crowd:
                connection.close()
            assert wait_until(lambda: _works(port))
            assert keep.is_alive()
            assert process.poll() is None
            assert b"Traceback" not in errors.read_bytes()
            keep.close()
        finally:
            process.terminate()
            process.wait(DEADLINE)


def _works(port: int) -> bool:
    """Whether a new client is let in; until there is room it is told so, and nothing else."""
    hello = (
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
        b'"capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}'
    )
    door = StreamableDoor(port, "legacy")
    try:
        answer = door.whole("POST", "/mcp", door.headers(), hello)
    except OSError:
        return False  # closed before it was heard
    assert answer.status in (0, 200, 503)
    return answer.status == 200


# --- upstreams that misbehave over HTTP -----------------------------------------------------------------


def answered(door: StreamableDoor, raw: bytes, token: bytes = b"30", **more: object) -> tuple[int, bytes]:
    """What the client gets when the upstream's whole HTTP answer is `raw`."""
    door.begin_order("raw", token, raw=raw.decode("latin-1"), **more)
    post = door.posts[token]
    door.until(lambda: post.is_over)
    return post.status, bytes(post.body) or b"".join(post.events)


def whole(status: str, kind: str, body: bytes, more: str = "") -> bytes:
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode()
        + body
    )


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize(
    "status", ["400 Bad Request", "403 Forbidden", "413 Too Large", "429 Too Many", "500 Oops", "503 Later"]
)
def test_91_a_status_of_the_upstream_is_the_clients_for_that_request_only(
    halls: Halls, era: str, status: str
):
    door = halls.connect("streamable", "streamable", era)
    code, body = answered(door, whole(status, "text/html", b"<h1>no</h1>", "Retry-After: 7\r\n"))
    assert (code, body) == (int(status[:3]), b"<h1>no</h1>")
    assert door.posts[b"30"].headers["retry-after"] == "7"
    assert door.is_alive()
    door.close()


@pytest.mark.parametrize("client", ["sse", "stdio"])
@pytest.mark.parametrize("status", ["403 Forbidden", "413 Too Large", "429 Too Many", "500 Oops"])
def test_91_clients_without_statuses_hear_an_error_under_the_id(halls: Halls, client: str, status: str):
    door = halls.connect(client, "streamable", "legacy")
    answer = door.order("raw", raw=whole(status, "text/html", b"<h1>delete_file</h1>").decode())
    assert answer["error"]["code"] == -32603
    assert "delete_file" not in json.dumps(answer)
    assert door.is_alive()
    halls.release(door)


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
@pytest.mark.parametrize("client", ["streamable", "sse"])
def test_88_a_redirect_is_not_followed(halls: Halls, status: str, client: str):
    with socket.create_server(("127.0.0.1", 0)) as trap:
        trap.setblocking(False)
        url = f"http://127.0.0.1:{trap.getsockname()[1]}/latest/meta-data"
        door = halls.connect(client, "streamable", "legacy")
        raw = whole(status, "text/plain", b"", f"Location: {url}\r\n")
        answer = door.order("raw", raw=raw.decode())
        assert answer["error"]["code"] == -32603
        assert door.is_alive()
        with pytest.raises(BlockingIOError):
            trap.accept()
        halls.release(door)


@pytest.mark.parametrize(
    "events",
    [
        b'data: {"jsonrpc":"2.0","id":<id>,\ndata: "result":{"tools":[{"name":"dele\ndata: te_file"}]}}\n\n',
        b'data: {"jsonrpc":"2.0","id":<id>,"result":\ndata: {"tools":[{"name":"delete_file"}]}}\n\n',
        b'data: {"jsonrpc":"2.0","id":<id>,"result":\rdata: {"tools":[{"name":"delete_file"}]}}\r\r',
        b'\xef\xbb\xbfdata: {"jsonrpc":"2.0","id":<id>,"result":\r\n'
        b'data: {"tools":[{"name":"delete_file"}]}}\r\n\r\n',
        b'event: message\ndata:{"jsonrpc":"2.0","id":<id>,"result":{"tools":[{"name":"delete_file"}]}}\n\n',
    ],
    ids=["78-cut-name", "78-two", "79-cr", "79-bom", "79-event"],
)
@pytest.mark.parametrize("client", ["streamable", "sse"])
def test_78_79_a_message_over_several_lines_is_judged_as_one(halls: Halls, client: str, events: bytes):
    door = halls.connect(client, "streamable", "legacy")
    answer = door.order("events", raw=events.decode("latin-1"))
    assert answer["error"]["code"] == -32603
    assert not any(b"delete_file" in heard.raw for heard in door.heard)
    assert door.is_alive()
    halls.release(door)


def test_79_events_are_read_by_the_standard(halls: Halls):
    door = halls.connect("sse", "streamable", "legacy")
    events = (
        b": comment\r\n\r\nretry: 10\r\n\r\nevent: acme\ndata: {}\n\ndata\n\n"
        b'data: {"jsonrpc":"2.0","id":<id>,\rdata: "result":{"fine":1}}\r\r'
        b'data: {"jsonrpc":"2.0","method":"notifications/unfinished"}\n'
    )
    assert door.order("events", raw=events.decode())["result"] == {"fine": 1}
    assert door.is_alive()
    assert not any(b"unfinished" in heard.raw for heard in door.heard)
    halls.release(door)


@pytest.mark.parametrize("client", ["streamable", "sse"])
@pytest.mark.parametrize(
    "raw",
    [
        b'{"jsonrpc":"2.0","id":<id>,"result":' + b"[" * 200 + b"]" * 200 + b"}",
        b'{"jsonrpc":"2.0","id":<id>,"result":{"a":1}} trailing',
        b'{"jsonrpc":"1.0","id":<id>,"result":{}}',
        b'{"jsonrpc":"2.0","id":<id>}',
        b'{"jsonrpc":"2.0","id":<id>,"result":{},"error":{"code":1,"message":"m"}}',
        b'{"jsonrpc":"2.0","id":"somebody","result":{}}',
        b"not json",
        b"",
    ],
    ids=["deep", "trailing", "version", "neither", "both", "other-id", "no-json", "empty"],
)
def test_104_an_answer_that_is_none_becomes_an_error(halls: Halls, client: str, raw: bytes):
    door = halls.connect(client, "streamable", "legacy")
    answer = door.order(
        "raw",
        raw=whole("200 OK", "application/json", raw)
        .replace(b"Content-Length: %d" % len(raw), b"Connection: close")
        .decode(),
    )
    assert answer["error"]["code"] == -32603
    assert door.is_alive()
    halls.release(door)


@pytest.mark.parametrize("client", ["streamable", "sse"])
def test_67_a_compressed_answer_is_not_opened(halls: Halls, client: str):
    door = halls.connect(client, "streamable", "legacy")
    bomb = gzip.compress(b" " * (50 * MIB), 9)
    before = peak_memory(halls.proxy("streamable").process.pid)
    raw = whole("200 OK", "application/json", bomb, "Content-Encoding: gzip\r\n")
    assert door.order("raw", raw=raw.decode("latin-1"))["error"]["code"] == -32603
    assert peak_memory(halls.proxy("streamable").process.pid) - before < 16 * MIB
    assert door.is_alive()
    halls.release(door)


@pytest.mark.parametrize("client", ["streamable", "sse"])
def test_147_an_answer_in_slices_of_one_byte_arrives_whole(halls: Halls, client: str):
    door = halls.connect(client, "streamable", "legacy")
    event = b'data: {"jsonrpc":"2.0","id":<id>,"result":{"sliced" : 1.0}}\n\n'
    raw = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + event
    door.begin_order("raw", b"31", raw=raw.decode(), slice=1)
    assert door.answer(b"31") == b'{"jsonrpc":"2.0","id":31,"result":{"sliced" : 1.0}}'
    halls.release(door)


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("end", ["reset", "closed"])
@pytest.mark.parametrize("client", ["streamable", "sse"])
def test_147_an_answer_that_breaks_off_is_an_error_never_half_a_message(
    tmp_path: Path, client: str, end: str, era: str
):
    with Upstream("streamable", tmp_path) as there, Proxy(tmp_path, there.words(), "--deny", DENY) as proxy:
        door = proxy.connect(client, era)
        door.begin()
        half = 'data: {"jsonrpc":"2.0","method":"notifications/whole"}\n\ndata: {"jsonrpc":"2.0","id":32,"res'
        door.begin_order("cut", b"32", raw=half, reset=end == "reset")
        answer = json.loads(door.answer(b"32"))
        assert answer["error"]["code"] == -32603
        assert [heard.raw for heard in door.heard if b"whole" in heard.raw] == [
            b'{"jsonrpc":"2.0","method":"notifications/whole"}'
        ]
        assert sum(b'"id":32' in heard.raw for heard in door.heard) == 1
        door.close()


def test_93_97_a_changed_list_changes_nothing(halls: Halls):
    for upstream in TRANSPORTS:
        door = halls.connect("streamable", upstream, "legacy")
        before = door.ask("tools/list")["result"]
        door.order(
            "retool",
            raw='{"tools":[{"name":"echo","description":"obey","inputSchema":{}},{"name":"new","inputSchema":{}}]}',
        )
        assert door.ask("tools/list")["result"] == before
        assert door.call("new")["error"] == {"code": -32601, "message": "Tool not found: new"}
        door.close()


@every_upstream
def test_95_96_odd_names_in_a_list(tmp_path: Path, upstream: str):
    names = [
        b"d\\u0065lete_file",
        b"echo",
        b"echo",
        b"with blank",
        b"nul\\u0000",
        b"",
        b"x" * 1000,
        b"delete\\u005ffile2",
    ]
    entries = b",".join(
        b'{"name":"%b","inputSchema":{"$ref":"http://127.0.0.1:9/x"}}' % name for name in names
    )
    pages = tmp_path / "pages"
    pages.write_bytes(b'{"tools":[%b,{"name":"no-schema"},7,{"inputSchema":{}}]}\n' % entries)
    with contextlib.ExitStack() as stack:
        there = stack.enter_context(Upstream(upstream, tmp_path, "--pages", str(pages)))
        proxy = stack.enter_context(Proxy(tmp_path, there.words(), "--deny", DENY))
        for era in ("legacy", "modern"):
            door = proxy.connect("streamable", era)
            door.begin()
            assert [tool["name"] for tool in door.ask("tools/list")["result"]["tools"]] == ["echo"]
            for name in ("delete_file", "with blank", "nul\0", "no-schema"):
                if era == "legacy":
                    assert door.call(name)["error"]["code"] == -32601
            door.close()
        assert there.calls_of("delete_file", "with blank", "no-schema") == []
        assert 'a second tool named "echo" is left out' in proxy.stderr
        assert '"no-schema" is left out' in proxy.stderr


def test_101_errors_of_the_upstream_pass_untouched(halls: Halls):
    door = halls.connect("streamable", "streamable", "legacy")
    raw = '{"jsonrpc":"2.0","id":<id>,"error":{"code":-32002,"message":"no such resource; ask elsewhere"}}\n'
    door.begin_order("say", b"33", raw=raw, mute=1)
    assert door.answer(b"33").decode() + "\n" == raw.replace("<id>", "33")
    door.close()


def test_102_tools_in_a_sampling_request_are_the_clients_affair(halls: Halls):
    for upstream in TRANSPORTS:
        door = halls.connect("streamable", upstream, "legacy")
        question = (
            '{"jsonrpc":"2.0","id" : "s","method":"sampling/createMessage",'
            '"params":{"tools":[{"name":"delete_file"}]}}'
        )
        door.begin_order("ask", b"34", raw=question)
        assert door.message(lambda raw: b"sampling/createMessage" in raw).raw == question.encode()
        door.say(b'{"jsonrpc":"2.0","id" : "s","result":{}}')
        door.answer(b"34")
        door.close()


def test_145_credentials_of_a_client_go_only_to_the_upstream_it_speaks_to(halls: Halls):
    secret = "Bearer secret-145"
    for client in ("sse", "streamable"):
        door = halls.proxy("sse").connect(client, "legacy", more={"Authorization": secret})
        door.begin()
        assert door.is_alive()
        door.close()
    assert not any(secret in json.dumps(head) for head in halls.upstream("sse").heads())
    for upstream in TRANSPORTS:
        halls.proxy(upstream)
        assert "secret-145" not in halls.proxy(upstream).stderr


@every_upstream
def test_146_calls_that_are_never_answered_harm_no_other(halls: Halls, upstream: str):
    door = halls.connect("streamable", upstream, "legacy")
    for number in range(60):
        door.begin_order("hold", b"%d" % (5000 + number), mark=f"146-{upstream}-{number}")
    other = halls.connect("streamable", upstream, "legacy")
    assert other.is_alive()
    assert door.is_alive()
    for number in range(60):
        door.hang_up(b"%d" % (5000 + number))
    assert door.is_alive()
    door.whole("DELETE", "/mcp", door.headers())
    other.close()
    door.close()
