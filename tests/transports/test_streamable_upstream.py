"""A client on stdio, an upstream that speaks Streamable HTTP: every header and byte that passes between."""

from __future__ import annotations

import base64
import json
import threading
import time

import pytest
from scripted_http import Line, Request, ScriptedHttp

from http_gate import INITIALIZE, INITIALIZED, META, Gate, call

RESULT = b'{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s"}}'


def legacy(then):
    """A script that does the handshake of a session and leaves the rest to `then`."""

    def script(request: Request, line: Line) -> None:
        if request.method == "GET":
            line.reply(405)
        elif request.method == "DELETE":
            line.reply(200)
        elif request.rpc == "initialize":
            line.json(request.result(RESULT), "Mcp-Session-Id: s-1")
        elif "id" not in request.message:
            line.accepted()
        else:
            then(request, line)

    return script


def echo(request: Request, line: Line) -> None:
    line.json(request.result())


NEWER = ("--era", "modern")  # so that it is not asked before the first request
# --- headers ---------------------------------------------------------------------------------------------


def test_a_legacy_session_carries_its_id_and_version_from_the_handshake_on():
    with (
        ScriptedHttp(legacy(echo)) as upstream,
        Gate("--upstream", upstream.url, "--header", "Authorization:Bearer t:0") as gate,
    ):
        gate.shake_hands()
        gate.ask(call(b"2"))
        assert gate.leave() == 0
    first, *others = upstream.requests
    assert first.rpc == "initialize"
    assert first.body == INITIALIZE
    assert first.header("Mcp-Session-Id") is None
    assert first.header("MCP-Protocol-Version") is None
    assert {one.rpc or one.method for one in others} == {
        "notifications/initialized",
        "tools/call",
        "GET",
        "DELETE",
    }
    for one in others:
        assert one.header("Mcp-Session-Id") == "s-1"
        assert one.header("MCP-Protocol-Version") == "2025-06-18"
        assert one.header("Mcp-Method") is None
    for one in upstream.requests:
        assert one.header("Authorization") == "Bearer t:0"
        assert one.header("Accept-Encoding") == "identity"
        assert one.header("Host") == f"127.0.0.1:{upstream.port}"
        if one.method == "POST":
            assert one.header("Accept") == "application/json, text/event-stream"
            assert one.header("Content-Type") == "application/json"
    assert next(one for one in others if one.method == "GET").header("Accept") == "text/event-stream"


def test_a_modern_message_says_in_headers_what_its_body_says():
    def script(request: Request, line: Line) -> None:
        if "id" in request.message:
            line.json(request.result())
        else:
            line.accepted()

    with (
        ScriptedHttp(script) as upstream,
        Gate(*NEWER, "--upstream", upstream.url) as gate,
    ):
        params = b'{"uri":"file:///a","_meta":%b}' % META
        gate.ask(b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":%b}' % params)
        gate.ask(call(b"2", b"get_weather", meta=META))
        gate.ask(b'{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"_meta":%b}}' % META)
        gate.send(b'{"jsonrpc":"2.0","method":"notifications/note","params":{}}')
        upstream.wait(lambda: len(upstream.requests) == 4)
    read, called, listed, note = upstream.requests
    assert (read.header("Mcp-Method"), read.header("Mcp-Name")) == ("resources/read", "file:///a")
    assert (called.header("Mcp-Method"), called.header("Mcp-Name")) == ("tools/call", "get_weather")
    assert (listed.header("Mcp-Method"), listed.header("Mcp-Name")) == ("tools/list", None)
    assert note.header("Mcp-Method") == "notifications/note"
    for one in upstream.requests:
        assert one.header("MCP-Protocol-Version") == "2026-07-28"
        assert one.header("Mcp-Session-Id") is None


@pytest.mark.parametrize("name", ["日本", " edge", "edge ", "a\\nb", "a\\r\\nX-Evil: 1", "=?base64?eA==?="])
def test_a_name_that_no_header_can_carry_travels_in_base64(name: str):
    with (
        ScriptedHttp(lambda request, line: line.json(request.result())) as upstream,
        Gate(*NEWER, "--upstream", upstream.url) as gate,
    ):
        gate.ask(call(b"2", name.encode(), meta=META))
    value = upstream.requests[0].header("Mcp-Name")
    assert value is not None
    payload = value.removeprefix("=?base64?").removesuffix("?=")
    assert value == f"=?base64?{payload}?="
    assert base64.b64decode(payload).decode() == json.loads(f'"{name}"')
    assert upstream.requests[0].header("X-Evil") is None


SCHEMA = (
    b'{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},'
    b'"n":{"type":"integer","x-mcp-header":"N"},"flag":{"type":"boolean","x-mcp-header":"Flag"},'
    b'"deep":{"type":"object","properties":{"er":{"type":"string","x-mcp-header":"Deeper"}}}}}'
)
TOOLS = b'{"tools":[{"name":"echo","inputSchema":%b}]}' % SCHEMA
PARAMS = {"Mcp-Param-Region": "us", "Mcp-Param-N": "12345678901234567890", "Mcp-Param-Flag": "true"}
ARGUMENTS = b'{"region":"us","n":12345678901234567890,"flag":true,"deep":{"er":"\xc3\xa9"}}'


def params_of(request: Request) -> dict[str, str]:
    return {name: value for name, value in request.headers if name.startswith("Mcp-Param-")}


def test_arguments_that_a_tool_marks_travel_in_headers_too():
    def script(request: Request, line: Line) -> None:
        line.json(request.result(TOOLS if request.rpc == "tools/list" else b"{}"))

    with ScriptedHttp(script) as upstream, Gate(*NEWER, "--upstream", upstream.url) as gate:
        gate.ask(b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":%b}}' % META)
        gate.ask(call(b"2", arguments=ARGUMENTS, meta=META))
        gate.ask(call(b"3", arguments=b'{"region":null,"deep":[],"n":1e3}', meta=META))
    assert params_of(upstream.requests[1]) == {**PARAMS, "Mcp-Param-Deeper": "=?base64?w6k=?="}
    assert params_of(upstream.requests[2]) == {"Mcp-Param-N": "1000"}


def test_our_own_tool_list_teaches_the_headers_as_well():
    def script(request: Request, line: Line) -> None:
        line.json(request.result(TOOLS if request.rpc == "tools/list" else b"{}"))

    with ScriptedHttp(script) as upstream, Gate("--upstream", upstream.url, "--deny", "^no$") as gate:
        gate.ask(call(b"2", arguments=b'{"region":"us"}', meta=META))
    assert params_of(upstream.posted("tools/call")[0]) == {"Mcp-Param-Region": "us"}


def test_a_call_refused_for_its_headers_is_made_again_with_what_the_tool_list_says():
    mismatch = b'{"jsonrpc":"2.0","id":7,"error":{"code":-32020,"message":"missing"}}'

    def script(request: Request, line: Line) -> None:
        if request.rpc == "tools/list":
            line.json(request.result(TOOLS))
        elif params_of(request):
            line.json(request.result(b'{"content":[]}'))
        else:
            line.json(mismatch, status=400)

    with ScriptedHttp(script) as upstream, Gate(*NEWER, "--upstream", upstream.url) as gate:
        assert b'"content"' in gate.ask(call(b"7", arguments=b'{"region":"us"}', meta=META))
        # A tool that wants nothing we do not send already is not asked for twice.
        assert gate.ask(call(b"7", b"other", meta=META)) == mismatch
    assert [one.rpc for one in upstream.requests] == [
        "tools/call",
        "tools/list",
        "tools/call",
        "tools/call",
        "tools/list",
    ]


# --- bytes -----------------------------------------------------------------------------------------------

ODD = [
    b'{ "jsonrpc" : "2.0", "id" : 2 , "result" : { "a" : 1.0, "b":1e400, "c":"\\u65e5\\ud800" } }',
    b'{"result":{"big":123456789012345678901234567890123456789},"jsonrpc":"2.0","id":2}',
    b'{"jsonrpc":"2.0","id":2.0,"result":{},"unknown":[null,-0.0]}',
    b'{"jsonrpc":"2.0","id":2,"error":{"code":-32042,"message":"x","data":{"k":1.50}}}',
]


@pytest.mark.parametrize("body", ODD)
@pytest.mark.parametrize("is_sse", [False, True])
def test_an_answer_arrives_as_the_bytes_it_was_sent_in(body: bytes, is_sse: bool):
    def then(request: Request, line: Line) -> None:
        if is_sse:
            line.events(b"event: message\ndata: " + body + b"\n\n")
        else:
            line.json(body)

    with ScriptedHttp(legacy(then)) as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        assert gate.ask(call(b"2")) == body


def test_a_request_arrives_as_the_bytes_it_was_sent_in():
    odd = (
        b'{"params" : {"name":"echo","arguments":{"x":1.0,"y":1e400,"z":"\\u0041"}},'
        b'"method":"tools/call","id":"\\u0032",  "jsonrpc":"2.0"}'
    )
    with ScriptedHttp(legacy(echo)) as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        assert gate.ask(odd) == b'{"jsonrpc":"2.0","id":"2","result":{}}'
    assert upstream.posted("tools/call")[0].body == odd


STREAMS = {
    "lf": b'data: {"jsonrpc":"2.0",\ndata: "id":2,"result":{}}\n\n',
    "crlf": b'data: {"jsonrpc":"2.0",\r\ndata: "id":2,"result":{}}\r\n\r\n',
    "cr": b'data: {"jsonrpc":"2.0",\rdata: "id":2,"result":{}}\r\r',
    "noise": b": ping\n\nid: 1\ndata:\n\nretry: 5\n\nevent: other\ndata: {}\n\nid:9\nevent:message\n"
    b'data:{"jsonrpc":"2.0",\ndata:"id":2,"result":{}}\n\n',
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS.keys())
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_events_are_read_however_they_are_written_and_cut(stream: bytes, step: int):
    def then(request: Request, line: Line) -> None:
        pieces = [stream[i : i + step] for i in range(0, len(stream), step)]
        line.events(*pieces)

    with ScriptedHttp(legacy(then)) as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        assert gate.ask(call(b"2")) in (
            b'{"jsonrpc":"2.0","id":2,"result":{}}',
            b'{"jsonrpc":"2.0", "id":2,"result":{}}',
        )


def test_notifications_and_requests_on_an_answer_come_before_it_in_order():
    def then(request: Request, line: Line) -> None:
        line.events(
            b'data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}\n\n',
            b'data: {"jsonrpc":"2.0","id":2,"method":"elicitation/create","params":{}}\n\n',
            b"data: " + request.result() + b"\n\n",
        )

    with ScriptedHttp(legacy(then)) as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        gate.send(call(b"2"))
        assert b"progress" in gate.read()
        assert b"elicitation/create" in gate.read()
        assert gate.read() == b'{"jsonrpc":"2.0","id":2,"result":{}}'
        reply = b'{"jsonrpc":"2.0","id":2,"result":{"action":"accept"}}'
        gate.send(reply)
        upstream.wait(lambda: any(one.body == reply for one in upstream.posted()))


# --- order and concurrency -------------------------------------------------------------------------------


def test_nothing_overtakes_initialized_and_requests_do_not_wait_for_each_other():
    taken = threading.Event()
    first = threading.Event()

    def script(request: Request, line: Line) -> None:
        if request.rpc == "initialize":
            line.json(request.result(RESULT))
        elif request.rpc == "notifications/initialized":
            time.sleep(0.3)
            assert not upstream.posted("tools/call")
            taken.set()
            line.accepted()
        elif request.method == "GET":
            line.reply(405)
        else:
            assert taken.is_set()
            if request.message["id"] == 2:
                assert first.wait(10)
            line.json(request.result())

    with ScriptedHttp(script) as upstream, Gate("--upstream", upstream.url) as gate:
        gate.send(INITIALIZE, INITIALIZED, call(b"2"), call(b"3"))
        assert gate.read_json()["id"] == 1
        assert gate.read_json()["id"] == 3
        first.set()
        assert gate.read_json()["id"] == 2


def test_a_legacy_cancel_is_posted_and_leaves_the_call_open():
    def then(request: Request, line: Line) -> None:
        upstream.wait(lambda: upstream.posted("notifications/cancelled"))
        line.json(request.result())

    with ScriptedHttp(legacy(then)) as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        gate.send(call(b"2"))
        upstream.wait(lambda: upstream.posted("tools/call"))
        gate.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}')
        assert gate.read_json()["id"] == 2


def test_a_modern_cancel_closes_the_call_and_is_not_posted():
    closed = threading.Event()

    def script(request: Request, line: Line) -> None:
        if request.message["id"] == 2:
            line.events(b'data: {"jsonrpc":"2.0","method":"notifications/progress"}\n\n', is_open=True)
            if line.is_gone(5):
                closed.set()
        else:
            line.json(request.result())

    with ScriptedHttp(script) as upstream, Gate("--upstream", upstream.url) as gate:
        assert b"progress" in gate.ask(call(b"2", meta=META))
        gate.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}')
        assert closed.wait(5)
        # Late, or for something else: it goes nowhere either.
        gate.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}')
        assert gate.is_silent(0.3)
        assert json.loads(gate.ask(call(b"3", meta=META)))["id"] == 3
    assert not upstream.posted("notifications/cancelled")


# --- streams that end, and go on -------------------------------------------------------------------------


def test_what_the_upstream_says_unasked_comes_on_a_stream_that_is_opened_again():
    def script(request: Request, line: Line) -> None:
        if request.method == "GET":
            number = len(upstream.asked("GET"))
            note = b'{"jsonrpc":"2.0","method":"notifications/n","params":{"n":%d}}' % number
            line.events(b"retry: 20\nid: e-%d\ndata: %b\n\n" % (number, note), is_open=number == 3)
            if number == 2:
                line.reset()
        elif request.rpc == "initialize":
            line.json(request.result(RESULT), "Mcp-Session-Id: s-1")
        else:
            line.accepted()

    with ScriptedHttp(script) as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        assert [gate.read_json()["params"]["n"] for _ in range(3)] == [1, 2, 3]
        assert gate.is_silent(0.2)
    assert [one.header("Last-Event-ID") for one in upstream.asked("GET")] == [None, "e-1", "e-2"]


@pytest.mark.parametrize("status", [400, 404, 405, 409])
def test_an_upstream_without_a_stream_of_its_own_is_fine(status: int):
    def script(request: Request, line: Line) -> None:
        if request.method == "GET":
            line.reply(status)
        else:
            legacy(lambda request, line: line.json(request.result()))(request, line)

    with ScriptedHttp(script) as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        upstream.wait(lambda: upstream.asked("GET"))
        assert gate.ask(call(b"2")) == b'{"jsonrpc":"2.0","id":2,"result":{}}'
        time.sleep(0.2)
        assert len(upstream.asked("GET")) == 1
        assert gate.leave() == 0


@pytest.mark.parametrize("is_cut", [False, True])
def test_an_answer_that_stops_halfway_is_asked_for_again_where_it_stopped(is_cut: bool):
    def script(request: Request, line: Line) -> None:
        if request.rpc == "initialize":
            line.json(request.result(RESULT), "Mcp-Session-Id: s-1")
        elif request.rpc == "tools/call":
            line.events(b"id: c-1\nretry: 30\ndata:\n\n", b'data: {"half', is_open=is_cut)
            if is_cut:
                line.reset()
        elif request.method == "GET" and request.header("Last-Event-ID") == "c-1":
            line.events(b'id: c-2\ndata: {"jsonrpc":"2.0","method":"notifications/progress"}\n\n')
        elif request.method == "GET" and request.header("Last-Event-ID") == "c-2":
            line.events(b'id: c-3\ndata: {"jsonrpc":"2.0","id":2,"result":{"n":1.0}}\n\n')
        elif request.method == "GET":
            line.reply(405)
        else:
            line.accepted()

    with ScriptedHttp(script) as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        gate.send(call(b"2"))
        assert b"progress" in gate.read()
        assert gate.read() == b'{"jsonrpc":"2.0","id":2,"result":{"n":1.0}}'
        assert gate.is_silent(0.2)
    assert len(upstream.posted("tools/call")) == 1


def test_an_answer_without_event_ids_that_ends_halfway_is_an_error_for_that_request_alone():
    def then(request: Request, line: Line) -> None:
        if request.message["id"] == 2:
            line.events(b'data: {"jsonrpc":"2.0","method":"notifications/progress"}\n\n')
        else:
            line.json(request.result())

    with ScriptedHttp(legacy(then)) as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        gate.send(call(b"2"))
        assert b"progress" in gate.read()
        assert gate.read_json()["error"]["code"] == -32603
        assert b'"result"' in gate.ask(call(b"3"))


def test_an_upstream_that_never_brings_the_rest_is_not_asked_for_ever():
    def script(request: Request, line: Line) -> None:
        if request.method == "GET" and request.header("Last-Event-ID"):
            line.events()
        elif request.rpc == "tools/call":
            line.events(b"id: c\nretry: 1\ndata:\n\n")
        else:
            legacy(None)(request, line)

    with ScriptedHttp(script) as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        assert json.loads(gate.ask(call(b"2")))["error"]["code"] == -32603
        assert len(upstream.asked("GET")) < 12


def test_messages_one_after_another_share_a_connection():
    with ScriptedHttp(legacy(echo)) as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        for number in range(2, 22):
            gate.ask(call(b"%d" % number))
        assert gate.leave() == 0
    assert upstream.connections <= 2  # the second for the GET, which goes out beside the first call


def test_more_calls_than_may_be_under_way_at_once_are_all_answered():
    go = threading.Event()

    def then(request: Request, line: Line) -> None:
        go.wait(10)
        line.json(request.result())

    with ScriptedHttp(legacy(then)) as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        gate.send(*(call(b"%d" % number) for number in range(2, 402)))
        upstream.wait(lambda: len(upstream.posted("tools/call")) == 256)
        time.sleep(0.2)
        assert len(upstream.posted("tools/call")) == 256
        go.set()
        assert {gate.read_json()["id"] for _ in range(400)} == set(range(2, 402))


def test_the_last_calls_of_a_client_that_leaves_are_still_answered():
    def then(request: Request, line: Line) -> None:
        time.sleep(0.5)
        line.json(request.result())

    with ScriptedHttp(legacy(then)) as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        gate.send(call(b"2"))
        assert gate.leave() == 0
        assert gate.read_json()["id"] == 2
    assert upstream.requests[-1].method == "DELETE"


def test_a_batch_is_answered_in_the_one_revision_that_has_them():
    def script(request: Request, line: Line) -> None:
        if request.rpc == "tools/call":
            line.json(b"[%b]" % request.result())
        elif request.rpc == "initialize":
            line.json(request.result(RESULT.replace(b"2025-06-18", b"2025-03-26")))
        else:
            legacy(echo)(request, line)

    with ScriptedHttp(script) as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        assert gate.ask(b"[%b,%b]" % (call(b"2"), call(b"3"))).count(b'"result"') == 2
