"""Large messages over HTTP: judged while they arrive, and passed as they come where nobody looks."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from scripted_http import Line, Request, Script, ScriptedHttp
from test_streamable_upstream import echo, legacy

from http_gate import call
from pairs import Proxy

MANY = 8_000_000
GOOD = b'{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"%b"}]}}'
BAD = b'{"jsonrpc":"2.0","id":2,"result":{"content":[[1 2],"' + b"x" * 400_000
HEAD = (
    "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    "Mcp-Session-Id: s-1\r\nMCP-Protocol-Version: 2025-11-25\r\n"
    "Accept: application/json, text/event-stream\r\nContent-Length: {size}\r\n\r\n"
)
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
LENGTH = ANSWER + b"Content-Length: %d\r\n\r\n"
CHUNKED = ANSWER + b"Transfer-Encoding: chunked\r\n\r\n"
TOOLS = b'{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}'
FILTER = ("--deny", "^x$")
OFF = ("--validate", "off")


class Wire:
    """A client's connection, byte by byte."""

    def __init__(self, proxy: Proxy) -> None:
        self.port = proxy.port
        self.sock = socket.create_connection(("127.0.0.1", proxy.port), 30)
        self.got = b""

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *why: object) -> None:
        self.sock.close()

    def post(self, body: bytes, size: int | None = None) -> None:
        head = HEAD.format(port=self.port, size=len(body) if size is None else size)
        self.sock.sendall(head.encode() + body)

    def until(self, holds: Callable[[bytes], bool]) -> bytes:
        while not holds(self.got):
            piece = self.sock.recv(1 << 16)
            if not piece:
                break
            self.got += piece
        return self.got

    def reply(self) -> tuple[int, bytes]:
        head = self.until(lambda got: b"\r\n\r\n" in got).partition(b"\r\n\r\n")[0]
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        self.until(lambda got: len(got) >= len(head) + 4 + size)
        return int(head[9:12]), self.got[len(head) + 4 :]


@contextmanager
def serving(work: Path, then: Script, *options: str) -> Iterator[tuple[ScriptedHttp, Proxy, Wire]]:
    """A proxy before an upstream that answers request 2 as `then` says and every other one well."""

    def script(request: Request, line: Line) -> None:
        if request.rpc == "tools/list":
            line.json(request.result(TOOLS))
        elif request.message.get("id") == 2:
            then(request, line)
        else:
            legacy(echo)(request, line)

    with (
        ScriptedHttp(script) as upstream,
        Proxy(work, ["--upstream", upstream.url], *options) as proxy,
        Wire(proxy) as wire,
    ):
        yield upstream, proxy, wire


def in_two_parts(begin: bytes, end: bytes, go_on: threading.Event, kind: str = "length") -> Script:
    """Answers in two parts, the second when it is told to."""

    def then(request: Request, line: Line) -> None:
        if kind == "length":
            line.send(LENGTH % (len(begin) + len(end)) + begin)
        elif kind == "chunked":
            line.send(CHUNKED)
            line.chunk(begin)
        else:
            line.events(b"data: " + begin, is_open=True)
        go_on.wait(30)
        if kind == "length":
            line.send(end)
        else:
            line.chunk(end + b"\n\n")
            line.send(b"0\r\n\r\n")

    return then


def is_well(proxy: Proxy) -> bool:
    """Whether another client is answered."""
    with Wire(proxy) as other:
        other.post(call(b"3"))
        return other.reply()[0] == 200


def test_a_request_that_can_be_no_message_is_refused_before_it_is_whole(tmp_path: Path) -> None:
    with serving(tmp_path, echo, *FILTER) as (upstream, proxy, wire):
        begin = b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"a":[1 2],'
        wire.post(begin + b" " * 300_000, MANY)
        status, body = wire.reply()
        assert status == 400
        assert json.loads(body)["error"]["code"] == -32700
        assert json.loads(body)["id"] == 2
        assert b"connection: close" in wire.got.lower()
        assert is_well(proxy)
        assert not [request for request in upstream.requests if request.message.get("id") == 2]


def test_an_answer_that_can_be_no_message_is_withheld_before_it_is_whole(tmp_path: Path) -> None:
    is_cut = threading.Event()

    def then(request: Request, line: Line) -> None:
        line.send(LENGTH % MANY + BAD)
        if line.is_gone(30):
            is_cut.set()

    with serving(tmp_path, then, *FILTER) as (_, proxy, wire):
        wire.post(call(b"2"))
        status, body = wire.reply()
        assert (status, json.loads(body)["error"]["code"]) == (200, -32603)
        assert is_cut.wait(30)
        wire.got = b""
        wire.post(call(b"3"))
        assert wire.reply()[0] == 200
        assert "Withheld an answer of the upstream. Parse error" in proxy.stderr


@pytest.mark.parametrize("kind", ["length", "chunked", "events"])
def test_where_nobody_looks_bytes_pass_as_they_come(tmp_path: Path, kind: str) -> None:
    go_on = threading.Event()
    whole = GOOD % (b"x" * 300_000)
    then = in_two_parts(whole[:100_000], whole[100_000:], go_on, kind)
    with serving(tmp_path, then, *OFF) as (_, _, wire):
        wire.post(call(b"2"))
        wire.until(lambda got: got.count(b"x") > 99_000)
        go_on.set()  # only now
        wire.until(lambda got: b'"}]}}' in got)
        assert wire.got.count(b"x") >= 300_000


@pytest.mark.parametrize("options", [(), FILTER, FILTER + OFF])
def test_where_somebody_looks_nothing_passes_before_it_is_judged(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    go_on = threading.Event()
    whole = GOOD % (b"x" * 300_000)
    with serving(tmp_path, in_two_parts(whole[:-1], whole[-1:], go_on), *options) as (_, proxy, wire):
        wire.post(call(b"2"))
        assert is_well(proxy)
        wire.sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            wire.sock.recv(1)
        wire.sock.settimeout(30)
        go_on.set()
        assert wire.reply() == (200, whole)


@pytest.mark.parametrize("options", [FILTER, OFF, ()])
def test_large_messages_pass_to_the_byte_in_odd_pieces(tmp_path: Path, options: tuple[str, ...]) -> None:
    text = b'{\\"a\\": [1, \xc3\xa9\xe2\x82\xac]}\\n' * 9_000
    params = b'{"name":"echo","arguments":{"t":"%b"}}' % text
    question = b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":%b}' % params

    def then(request: Request, line: Line) -> None:
        answer = GOOD % text
        line.send(LENGTH % len(answer))
        for at in range(0, len(answer), 70_001):
            line.send(answer[at : at + 70_001])

    with serving(tmp_path, then, *options) as (upstream, _, wire):
        wire.post(question[:1], len(question))
        for at in range(1, len(question), 33_331):
            wire.sock.sendall(question[at : at + 33_331])
        assert wire.reply() == (200, GOOD % text)
        assert question in [request.body for request in upstream.requests]


def test_an_answer_that_stops_half_way_is_never_taken_for_a_whole_one(tmp_path: Path) -> None:
    def then(request: Request, line: Line) -> None:
        line.send(CHUNKED)
        line.chunk(b'{"jsonrpc":"2.0","id":2,"result":{}')
        line.hang_up()

    with serving(tmp_path, then, *OFF) as (_, _, wire):
        wire.post(call(b"2"))
        with suppress(ConnectionResetError):
            wire.until(lambda got: False)
        assert b'"result":{}' in wire.got
        assert not wire.got.endswith(b"0\r\n\r\n")


def test_what_passes_unread_is_within_the_limit_too(tmp_path: Path) -> None:
    def then(request: Request, line: Line) -> None:
        line.send(LENGTH % 30_000_000 + b"{")
        line.is_gone(30)

    with serving(tmp_path, then, *OFF) as (_, _, wire):
        wire.post(call(b"2"))
        status, body = wire.reply()
        assert status == 502
        assert json.loads(body)["error"]["code"] == -32603
