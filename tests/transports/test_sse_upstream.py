"""A client on stdio, an upstream that speaks legacy HTTP+SSE; and finding out which of the two it speaks."""

from __future__ import annotations

import json
import queue
import threading
import time

import pytest
from piped_gate import INITIALIZE, INITIALIZED, META, Gate, call
from scripted_http import Line, Request, ScriptedHttp
from test_streamable_upstream import ODD, RESULT, echo, legacy


class SseScript:
    """A legacy SSE server: what is posted is answered on the stream, by `reply` if there is one."""

    def __init__(self, endpoint: str = "/messages?session=a%20b", reply=None, status: int = 202) -> None:
        self.endpoint = endpoint
        self.reply = reply or (lambda request: request.result())
        self.status = status
        self.opened = 0
        self._said: queue.Queue[bytes | None] = queue.Queue()

    def say(self, raw: bytes | None) -> None:
        """Puts a message on the stream; None ends it."""
        self._said.put(raw)

    def __call__(self, request: Request, line: Line) -> None:
        if request.method == "GET":
            self.opened += 1
            self._said = queue.Queue()
            line.events(b"event: endpoint\r\ndata: " + self.endpoint.encode() + b"\r\n\r\n", is_open=True)
            while (raw := self._said.get()) is not None:
                line.chunk(b": ping\r\n\r\nevent: message\r\ndata: " + raw + b"\r\n\r\n")
            line.hang_up()
        elif not request.target.startswith("/messages"):
            line.reply(405, b"Method Not Allowed", "Content-Type: text/plain")
        elif request.rpc == "initialize":
            line.reply(self.status, b"Accepted")
            self.say(request.result(RESULT))
        elif "id" in request.message and request.rpc:
            line.reply(self.status, b"Accepted")
            reply = self.reply(request)
            if reply is not None:
                self.say(reply)
        else:
            line.reply(self.status, b"Accepted")


@pytest.mark.parametrize("path", ["/sse", "/v1/sse/", "/mcp", "/"])
@pytest.mark.parametrize("status", [200, 202])
def test_messages_are_posted_to_the_endpoint_and_answered_on_the_stream(path: str, status: int):
    script = SseScript(status=status)
    with (
        ScriptedHttp(script, path) as upstream,
        Gate("--upstream", upstream.url, "--header", "X-Key: k") as gate,
    ):
        gate.shake_hands()
        assert gate.ask(call(b"2")) == b'{"jsonrpc":"2.0","id":2,"result":{}}'
        script.say(b'{"jsonrpc":"2.0","id":2,"method":"ping"}')
        assert gate.read() == b'{"jsonrpc":"2.0","id":2,"method":"ping"}'
        gate.send(b'{"jsonrpc":"2.0","id":2,"result":{}}')
        upstream.wait(lambda: upstream.requests[-1].message.get("result") == {})
        assert gate.leave() == 0
    posts = [one for one in upstream.posted() if one.target == "/messages?session=a%20b"]
    assert [one.rpc for one in posts] == ["initialize", "notifications/initialized", "tools/call", None]
    assert posts[0].body == INITIALIZE
    for one in upstream.requests:
        assert one.header("X-Key") == "k"
        assert one.header("Mcp-Session-Id") is None
    assert upstream.asked("GET")[0].header("Accept") == "text/event-stream"
    # A path that says so is tried as SSE first; any other is posted to once.
    assert (upstream.requests[0].method == "GET") == ("sse" in path)
    assert script.opened == 1


@pytest.mark.parametrize("body", ODD)
def test_bytes_pass_as_they_are_over_sse(body: bytes):
    script = SseScript(reply=lambda request: body)
    with ScriptedHttp(script, "/sse") as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        assert gate.ask(call(b"2")) == body


def test_messages_reach_a_legacy_upstream_in_the_order_in_which_they_were_said():
    script = SseScript()
    with ScriptedHttp(script, "/sse") as upstream, Gate("--upstream", upstream.url) as gate:
        messages = [call(b"%d" % number) for number in range(10, 60)]
        gate.send(INITIALIZE, INITIALIZED, *messages)
        assert [gate.read_json()["id"] for _ in range(51)] == [1, *range(10, 60)]
    assert [one.body for one in upstream.posted("tools/call")] == messages


def test_a_server_that_answers_the_post_only_when_it_is_done_does_not_hold_up_the_client():
    asked = threading.Event()

    def script(request: Request, line: Line) -> None:
        if request.rpc == "tools/call":
            sse.say(b'{"jsonrpc":"2.0","id":9,"method":"elicitation/create"}')
            assert asked.wait(10)
            sse.say(request.result())
            line.accepted()
        elif request.message.get("id") == 9:
            asked.set()
            line.accepted()
        else:
            sse(request, line)

    sse = SseScript()
    with ScriptedHttp(script, "/sse") as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        assert b"elicitation" in gate.ask(call(b"2"))
        gate.send(b'{"jsonrpc":"2.0","id":9,"result":{"action":"accept"}}')
        assert gate.read_json()["id"] == 2


@pytest.mark.parametrize(
    "endpoint", ["http://evil.example/messages", "//evil.example/m", "https://127.0.0.1/m", "http://u:p@x/m"]
)
def test_an_endpoint_elsewhere_is_refused_and_gets_no_credentials(endpoint: str):
    with (
        ScriptedHttp(SseScript(endpoint), "/sse") as upstream,
        Gate("--upstream", upstream.url, "--header", "Authorization: secret") as gate,
    ):
        gate.send(INITIALIZE)
        assert gate.wait() == 1
        assert "Failed to connect to upstream MCP" in gate.stderr
        assert "same origin" in gate.stderr
    assert not upstream.posted()


def test_an_endpoint_may_be_relative_or_absolute_on_the_same_origin():
    for endpoint in ("messages/x", "http://127.0.0.1:{}/messages/x"):
        script = SseScript()
        with ScriptedHttp(script, "/sse") as upstream:
            script.endpoint = endpoint.format(upstream.port)
            with Gate("--upstream", upstream.url) as gate:
                gate.shake_hands()
        assert upstream.posted()[0].target == "/messages/x"


def test_the_end_of_the_stream_is_the_end_of_the_session():
    script = SseScript(reply=lambda request: None)
    with ScriptedHttp(script, "/sse") as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        gate.send(call(b"2"))
        upstream.wait(lambda: upstream.posted("tools/call"))
        script.say(None)
        assert gate.read_json()["error"]["message"] == "Lost connection to upstream MCP"
        assert gate.wait() == 1
        assert "Error: Lost connection to upstream MCP\nShutting down proxy\n" in gate.stderr


def test_a_post_that_is_refused_is_an_error_for_its_request_alone():
    def script(request: Request, line: Line) -> None:
        if request.message.get("id") == 2:
            line.reply(413, b"too big", "Content-Type: text/plain")
        elif request.message.get("id") == 3:
            line.json(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"m"}}', status=400)
        else:
            sse(request, line)

    sse = SseScript()
    with ScriptedHttp(script, "/sse") as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        assert json.loads(gate.ask(call(b"2")))["error"]["message"] == "Upstream MCP answered HTTP 413"
        assert gate.ask(call(b"3")) == b'{"jsonrpc":"2.0","id":3,"error":{"code":-32000,"message":"m"}}'
        assert b'"result"' in gate.ask(call(b"4"))


def test_a_message_over_the_limit_on_the_stream_is_refused_under_its_id():
    def reply(request: Request) -> bytes:
        return request.result(b'"%b"' % (b"x" * (11 * 1024 * 1024 if request.message["id"] == 2 else 1)))

    with ScriptedHttp(SseScript(reply=reply), "/sse") as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        assert json.loads(gate.ask(call(b"2"), 20))["error"]["code"] == -32603
        assert b'"result"' in gate.ask(call(b"3"))


def test_with_reconnect_a_lost_stream_is_opened_again_with_the_same_words():
    script = SseScript(reply=lambda request: None if request.message["id"] == 2 else request.result())
    with (
        ScriptedHttp(script, "/sse") as upstream,
        Gate("--upstream", upstream.url, "--on-upstream-loss", "reconnect") as gate,
    ):
        gate.shake_hands()
        gate.send(call(b"2"))
        upstream.wait(lambda: upstream.posted("tools/call"))
        script.say(None)
        assert gate.read_json()["error"]["code"] == -32603
        assert b'"result"' in gate.ask(call(b"3"))
        assert gate.is_silent(0.2)
        assert gate.leave() == 0
    first, again = upstream.posted("initialize")
    assert first.message["params"] == again.message["params"]
    assert first.message["id"] != again.message["id"]
    assert [one.rpc for one in upstream.posted()][-2:] == ["notifications/initialized", "tools/call"]


# --- which of the two ------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 404, 405, 406])
def test_a_streamable_endpoint_at_a_path_that_ends_in_sse_is_found(status: int):
    def script(request: Request, line: Line) -> None:
        if request.method == "GET":
            line.reply(status, b"no", "Content-Type: text/plain")
        else:
            legacy(echo)(request, line)

    with ScriptedHttp(script, "/sse") as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        assert b'"result"' in gate.ask(call(b"2"))
        assert gate.leave() == 0
    assert upstream.requests[0].method == "GET"
    assert upstream.posted()[0].body == INITIALIZE


@pytest.mark.parametrize("status", [400, 404, 405, 406, 415])
def test_an_sse_endpoint_is_found_when_it_does_not_take_a_post(status: int):
    def script(request: Request, line: Line) -> None:
        if request.method == "POST" and request.target == "/mcp":
            line.reply(status, b"<html>no</html>", "Content-Type: text/html")
        else:
            sse(request, line)

    sse = SseScript()
    with ScriptedHttp(script) as upstream, Gate("--upstream", upstream.url) as gate:
        gate.send(INITIALIZE, INITIALIZED, call(b"2"))
        assert [gate.read_json()["id"] for _ in range(2)] == [1, 2]
    assert [one.target for one in upstream.posted()].count("/mcp") == 1


@pytest.mark.parametrize("code", [-32020, -32022, -32601, -32600, -32000])
def test_a_json_rpc_error_shows_that_it_is_streamable_after_all(code: int):
    error = b'{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":"m"}}' % code

    def script(request: Request, line: Line) -> None:
        if request.rpc == "server/discover":
            line.json(error, status=404 if code == -32601 else 400)
        else:
            legacy(echo)(request, line)

    with ScriptedHttp(script) as upstream, Gate("--upstream", upstream.url) as gate:
        discover = b'{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{"_meta":%b}}' % META
        reply = json.loads(gate.ask(discover))
        assert (reply["id"], reply["error"]["code"]) == ("d", code)
        assert not upstream.asked("GET")
        gate.shake_hands()
        assert b'"result"' in gate.ask(call(b"2"))


@pytest.mark.parametrize("status", [401, 403, 429, 500])
def test_other_refusals_are_no_reason_to_try_another_way(status: int):
    def script(request: Request, line: Line) -> None:
        line.reply(status, b"no", "Content-Type: text/plain")

    with ScriptedHttp(script) as upstream, Gate("--upstream", upstream.url) as gate:
        assert json.loads(gate.ask(INITIALIZE))["error"]["message"] == f"Upstream MCP answered HTTP {status}"
        assert gate.leave() == 0
    assert not upstream.asked("GET")


def test_an_older_server_that_shrugs_at_the_newer_era_still_gets_its_handshake():
    def script(request: Request, line: Line) -> None:
        if request.rpc == "server/discover":
            line.reply(400, b"Missing session", "Content-Type: text/plain")
        else:
            legacy(echo)(request, line)

    with ScriptedHttp(script) as upstream, Gate("--upstream", upstream.url) as gate:
        discover = b'{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{"_meta":%b}}' % META
        assert json.loads(gate.ask(discover))["error"]["code"] == -32601
        gate.shake_hands()
        assert b'"result"' in gate.ask(call(b"2"))


@pytest.mark.parametrize("path", ["/wrong", "/sse"])
def test_an_address_with_no_mcp_server_at_all_is_named(path: str):
    def script(request: Request, line: Line) -> None:
        line.reply(404, b"<html>Not Found</html>", "Content-Type: text/html")

    with ScriptedHttp(script, path) as upstream, Gate("--upstream", upstream.url) as gate:
        assert json.loads(gate.ask(INITIALIZE))["error"]["message"] == "Failed to connect to upstream MCP"
        assert gate.wait() == 1
        assert "No MCP server there: HTTP 404 to POST, HTTP 404 to GET" in gate.stderr


def test_the_stream_slows_down_with_a_client_that_does_not_read():
    note = b'{"jsonrpc":"2.0","method":"notifications/n","params":{"x":"%b"}}' % (b"x" * 60_000)
    sent = 0

    def script(request: Request, line: Line) -> None:
        nonlocal sent
        if request.method != "GET":
            line.accepted()
            return
        line.events(b"event: endpoint\ndata: /messages\n\n", is_open=True)
        while sent < 200_000_000:
            line.chunk(b"data: " + note + b"\n\n")
            sent += len(note)

    with ScriptedHttp(script, "/sse") as upstream, Gate("--upstream", upstream.url, is_read=False) as gate:
        gate.send(INITIALIZE)
        before = -1
        while sent != before or not sent:
            before = sent
            time.sleep(0.5)
        assert sent < 40_000_000
