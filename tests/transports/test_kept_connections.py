"""A kept connection that the upstream closes in the moment we write to it: one error, and nobody is lost.

The upstream here reads the request, so that the moment is always hit, and closes without a byte of an answer.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from scripted_http import Line, Request, ScriptedHttp
from test_streamable_upstream import RESULT

from doors import Client
from http_gate import META, Gate, call
from pairs import Proxy

SILENCE = "No answer from upstream MCP"
TOOL = b'{"name":"%b","inputSchema":{"type":"object"}}'
TOOLS = b'{"tools":[%b,%b]}' % (TOOL % b"echo", TOOL % b"drop")


class Closer:
    """Answers everything, but closes a connection that was used before when `drop` is called on it."""

    def __init__(self, how: str) -> None:
        self.how = how
        self.dropped = 0
        self.upstream: ScriptedHttp | None = None
        self._used: set[int] = set()

    def __call__(self, request: Request, line: Line) -> None:
        is_kept = id(line) in self._used
        self._used.add(id(line))
        name = request.message.get("params", {}).get("name")
        if name == "drop" and is_kept:
            self.dropped += 1
            if self.how == "gone":
                assert self.upstream is not None
                self.upstream.stop()
            elif self.how == "reset":
                line.reset()
            else:
                line.hang_up()
        elif request.method == "GET":
            line.reply(405)
        elif request.method == "DELETE":
            line.reply(200)
        elif request.rpc == "initialize":
            line.json(request.result(RESULT), "Mcp-Session-Id: s-1")
        elif request.rpc == "tools/list":
            line.json(request.result(TOOLS))
        elif "id" not in request.message:
            line.accepted()
        else:
            line.json(request.result())


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("how", ["hang up", "reset"])
def test_a_client_on_stdio_gets_one_error_and_goes_on(how: str, era: str):
    meta = META if era == "modern" else None
    closer = Closer(how)
    with ScriptedHttp(closer) as upstream, Gate("--upstream", upstream.url) as gate:
        if era == "legacy":
            gate.shake_hands()
        for number in range(10, 16):
            assert b'"result"' in gate.ask(call(b"%d" % number, meta=meta))
            dropped = json.loads(gate.ask(call(b"%d00" % number, b"drop", meta=meta)))
            assert dropped["error"] == {"code": -32603, "message": SILENCE, "data": {"code": "REFUSED"}}
        assert b'"result"' in gate.ask(call(b"2", meta=meta))
        assert gate.leave() == 0
    ids = [one.message["id"] for one in upstream.posted("tools/call")]
    assert len(ids) == len(set(ids)) == 13, "a request was sent again"
    assert closer.dropped == 6


@pytest.mark.parametrize("how", ["hang up", "reset"])
@pytest.mark.parametrize(
    ("kind", "era"), [("streamable", "legacy"), ("streamable", "modern"), ("sse", "legacy")]
)
def test_clients_over_http_get_one_error_and_others_notice_nothing(
    kind: str, era: str, how: str, tmp_path: Path
):
    closer = Closer(how)
    with (
        ScriptedHttp(closer) as upstream,
        Proxy(tmp_path, ["--upstream", upstream.url], "--deny", "^write") as proxy,
    ):
        door: Client = proxy.connect(kind, era)
        other: Client = proxy.connect(kind, era)
        door.begin()
        other.begin()
        for _ in range(5):
            assert "result" in door.call("echo")
            assert door.call("drop")["error"] == {
                "code": -32603,
                "message": SILENCE,
                "data": {"code": "REFUSED"},
            }
            assert "result" in other.call("echo")
        assert "result" in door.call("echo")
        door.close()
        other.close()
        assert proxy.end() == 0
    ids = [one.body for one in upstream.posted("tools/call")]
    assert closer.dropped == 5
    assert sum(b'"drop"' in body for body in ids) == 5, "a request was sent again"


def test_what_the_client_told_the_upstream_does_not_go_where_a_kept_connection_may_end():
    """Nobody could be told that it got lost, and whoever asked would wait for ever."""
    told = threading.Event()
    used: set[int] = set()
    question = b'data: {"jsonrpc":"2.0","id":"q","method":"roots/list"}\n\n'

    def script(request: Request, line: Line) -> None:
        is_kept = id(line) in used
        used.add(id(line))
        if "method" not in request.message and request.method == "POST":
            if is_kept:
                line.hang_up()
            else:
                line.accepted()
                told.set()
        elif request.rpc == "tools/call" and request.message["params"]["name"] == "ask":
            line.events(question, is_open=True)
            told.wait(10)
            line.chunk(b"data: %b\n\n" % request.result())
            line.send(b"0\r\n\r\n")
        else:
            Closer("hang up")(request, line)

    with ScriptedHttp(script) as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        gate.send(call(b"2"), call(b"3"), call(b"4"))  # so that several connections are kept
        for _ in range(3):
            assert b'"result"' in gate.read()
        gate.send(call(b"5", b"ask"))
        assert gate.read_json()["method"] == "roots/list"
        gate.send(b'{"jsonrpc":"2.0","id":"q","result":{"roots":[]}}')
        assert gate.read_json(5)["id"] == 5
        assert told.is_set()
        assert gate.leave() == 0


@pytest.mark.parametrize("kind", ["stdio", "streamable", "sse"])
def test_an_upstream_that_takes_no_new_connection_either_is_lost(kind: str, tmp_path: Path):
    closer = Closer("gone")
    lost = "Error: Lost connection to upstream MCP\nShutting down proxy\n"
    with ScriptedHttp(closer) as upstream:
        closer.upstream = upstream
        if kind == "stdio":
            with Gate("--upstream", upstream.url) as gate:
                gate.shake_hands()
                assert b'"result"' in gate.ask(call(b"2"))
                dropped = json.loads(gate.ask(call(b"3", b"drop")))
                assert dropped["error"]["message"] == "Lost connection to upstream MCP"
                assert gate.wait() == 1
                assert lost in gate.stderr
            return
        with Proxy(tmp_path, ["--upstream", upstream.url], "--deny", "^write") as proxy:
            door: Client = proxy.connect(kind, "legacy")
            door.begin()
            assert "result" in door.call("echo")
            assert door.call("drop")["error"]["message"] == "Lost connection to upstream MCP"
            assert proxy.process.wait(20) == 1
            assert lost in proxy.stderr
            door.close()
