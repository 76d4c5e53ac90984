"""HTTP to HTTP: what an upstream says is looked at whatever its status, and what was made for one client is
never another's, whatever its credentials are called."""

from __future__ import annotations

import http.client
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from scripted_http import Line, Request, ScriptedHttp

from http_gate import META
from pairs import Proxy
from ruled import Hook

HIDDEN = b'{"tools":[{"name":"write_file","inputSchema":{"type":"object"}}]}'
SECRET = b'{"content":[],"secret":true}'
RULES = {
    "interceptor": {
        "rules": [
            {"id": "r", "conditions": [{"result_exists": "secret"}], "actions": [{"block": "kept back"}]},
            {
                "id": "late",
                "priority": 1,
                "conditions": [
                    {"method_equals": "tools/call"},
                    {"param_equals": {"field": "name", "value": "fetch"}},
                    {"result_exists": "late"},
                ],
                "actions": [{"block": "kept back"}],
            },
            {"id": "c", "conditions": [{"method_equals": "v/cached"}], "actions": [{"cache": {"ttl": "1h"}}]},
            {
                "id": "once",
                "conditions": [{"method_equals": "v/once"}],
                "actions": [{"rate_limit": {"limit": 1, "window": "1h"}}],
            },
        ]
    }
}


def said(request: Request, result: bytes, is_array: bool = False) -> bytes:
    raw = request.result(result)
    return b"[%b]" % raw if is_array else raw


def script(request: Request, line: Line) -> None:
    """Answers as it is told to: v/STATUS/FORM."""
    if request.method == "GET":
        body = b'data: {"jsonrpc":"2.0","method":"notifications/x","params":%b}\n\n' % HIDDEN
        line.json(body)
    elif request.rpc == "initialize":
        version = json.dumps(request.message["params"]["protocolVersion"]).encode()
        line.json(
            request.result(b'{"protocolVersion":%b,"capabilities":{}}' % version), "Mcp-Session-Id: s-1"
        )
    elif "id" not in request.message:
        line.accepted()
    elif request.rpc == "server/discover":
        line.json(request.result(b'{"supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0}'))
    elif request.rpc == "tools/list":
        tool = b'{"name":"fetch","inputSchema":{"type":"object"}}'
        line.json(request.result(b'{"tools":[%b],"ttlMs":0,"cacheScope":"public"}' % tool))
    elif request.rpc == "tools/call":
        line.json(request.result(b'{"task":{"taskId":"t1","status":"working"}}'))
    elif request.rpc == "tasks/result":
        line.json(request.result(b'{"content":[],"late":1}'))
    elif request.rpc == "v/packed":
        # As one joined header this says gzip; and what is packed ends in a line end that can be seen.
        packed = zlib.compressobj(9, zlib.DEFLATED, 31)
        body = packed.compress(b"data: %b\n\n" % request.result(HIDDEN)) + packed.flush(zlib.Z_SYNC_FLUSH)
        kinds = ["Content-Type: text/event-stream", "Content-Encoding: identity", "Content-Encoding: gzip"]
        line.reply(200, body + b"\x00\x02\x00\xfd\xff\n\n", *kinds)
    elif request.rpc in ("v/wide", "v/shifted"):
        # To a reader of bytes these are lines of no meaning; one of them ends the event.
        coding = "utf-16-le" if request.rpc == "v/wide" else "utf-7"
        text = "data: " + request.result(HIDDEN).decode() + "\n\n:\u0a0a\n"
        body = text.replace("data", "d\u0000ata" if coding == "utf-7" else "data").encode(coding)
        line.reply(200, body + b"\n\n", f"Content-Type: text/event-stream; charset={coding}")
    elif request.rpc == "v/latin":
        kind = 'Content-Type: text/event-stream; Charset="ISO-8859-1"'
        line.reply(200, b"data: %b\n\n" % request.result(), kind)
    elif request.rpc == "v/twice":
        kinds = ["Content-Type: text/event-stream", "Content-Type: application/json"]
        line.reply(200, request.result(HIDDEN) + b"\n\n", *kinds)
    elif str(request.rpc).startswith("v/nearly"):
        # A message for who reads one value and stops, or passes over what stands before it.
        _, _, status, what, before, after = str(request.rpc).split("/")
        body = said(request, HIDDEN if what == "hidden" else SECRET)
        line.json(before.encode() + body + after.encode(), status=int(status))
    elif str(request.rpc).startswith("v/2"):
        _, status, form, what = str(request.rpc).split("/")
        body = said(request, HIDDEN if what == "hidden" else SECRET, form == "array")
        if form == "events":
            line.reply(int(status), b"data: %b\n\n" % body, "Content-Type: text/event-stream")
        else:
            line.json(body, status=int(status))
    else:
        line.json(request.result(b'{"for":"%b"}' % (request.header("x-api-key") or "nobody").encode()))


class Asker:
    """A client of few words."""

    def __init__(self, port: int) -> None:
        self._port = port

    def ask(
        self, method: str, era: str = "2025-11-25", given: dict[str, Any] | None = None, **headers: str
    ) -> bytes:
        params: dict[str, Any] = dict(given or {})
        named = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        named["MCP-Protocol-Version"] = era
        if era == "2026-07-28":
            params["_meta"] = json.loads(META)
            named["Mcp-Method"] = method
        else:
            named["Mcp-Session-Id"] = "s-1"
        named.update({name.replace("_", "-"): value for name, value in headers.items()})
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        return self.http("POST", body, named)

    def http(self, method: str, body: str | None, headers: dict[str, str]) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
        try:
            connection.request(method, "/mcp", body, headers)
            return connection.getresponse().read()
        finally:
            connection.close()


@pytest.fixture(scope="module")
def asker(tmp_path_factory: pytest.TempPathFactory) -> Any:
    work = tmp_path_factory.mktemp("disguise")
    file = work / "rules.json"
    file.write_text(json.dumps(RULES))
    with ScriptedHttp(script) as upstream:
        words = ["--upstream", upstream.url, "--deny", "^write_", "--config", str(file)]
        with Proxy(work, words) as proxy:
            yield Asker(proxy.port)


@pytest.mark.parametrize("form", ["plain", "array", "events"])
@pytest.mark.parametrize("status", [200, 201, 203, 206, 299])
def test_rules_and_filter_look_at_every_success(asker: Asker, status: int, form: str) -> None:
    hidden = asker.ask(f"v/{status}/{form}/hidden")
    assert b"write_file" not in hidden, hidden
    kept = asker.ask(f"v/{status}/{form}/secret")
    assert b'"secret"' not in kept, kept
    assert b"kept back" in kept, kept


@pytest.mark.parametrize(("before", "after"), [("", "x"), ("", "\0"), ("1 ", ""), ("\0", ""), ("{} ", "{")])
@pytest.mark.parametrize("status", [202, 400, 404, 500])
def test_what_is_nearly_a_message_shows_nothing_hidden_and_no_rule_misses_it(
    asker: Asker, status: int, before: str, after: str
) -> None:
    for what, secret in (("hidden", b"write_file"), ("secret", b'"secret"')):
        answer = asker.ask(f"v/nearly/{status}/{what}/{before}/{after}")
        assert secret not in answer, answer


def test_what_a_task_brings_is_an_answer_to_its_call(asker: Asker) -> None:
    assert b'"t1"' in asker.ask("tools/call", given={"name": "fetch", "task": {}})
    late = asker.ask("tasks/result", given={"taskId": "t1"})
    assert b'"late"' not in late.replace(b'"rule":"late"', b"")
    assert b"kept back" in late


def test_a_stream_that_calls_itself_something_else_is_withheld(asker: Asker) -> None:
    headers = {"Accept": "text/event-stream", "Mcp-Session-Id": "s-1", "MCP-Protocol-Version": "2025-11-25"}
    assert b"write_file" not in asker.http("GET", None, headers)


@pytest.mark.parametrize("how", ["v/packed", "v/twice", "v/wide", "v/shifted"])
def test_an_answer_that_some_would_read_in_another_way_is_withheld(asker: Asker, how: str) -> None:
    answer = asker.ask(how)
    assert json.loads(answer)["error"]["code"] == -32603


def test_a_stream_may_say_that_it_is_in_a_common_encoding(asker: Asker) -> None:
    assert b'"result":{}' in asker.ask("v/latin")


def test_what_was_kept_for_one_key_is_not_given_to_another(asker: Asker) -> None:
    for era in ("2025-11-25", "2026-07-28"):
        first = asker.ask("v/cached", era, X_Api_Key="alice")
        again = asker.ask("v/cached", era, X_Api_Key="alice", User_Agent="other", Traceparent="00-1")
        other = asker.ask("v/cached", era, X_Api_Key="bob")
        assert b"alice" in first
        assert again == first
        assert b"bob" in other, other


def test_a_made_up_session_is_no_way_out_of_a_limit_in_the_newer_era(asker: Asker) -> None:
    answers = [asker.ask("v/once", "2026-07-28", Mcp_Session_Id=f"made-up-{number}") for number in range(3)]
    assert [b"Rate limit" in answer for answer in answers] == [False, True, True]


def test_nobody_cancels_what_another_client_waits_for_in_the_newer_era(tmp_path: Path) -> None:
    hook = Hook()
    hook.gate.clear()
    waits = {"id": "w", "conditions": [{"method_equals": "v/wait"}], "actions": [hook.action(wait=True)]}
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"interceptor": {"chain": {"timeout": "60s"}, "rules": [waits]}}))
    with (
        hook,
        ScriptedHttp(script) as upstream,
        Proxy(tmp_path, ["--upstream", upstream.url, "--config", str(file)]) as proxy,
    ):
        waiting = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=30)
        named = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        named["MCP-Protocol-Version"] = "2026-07-28"
        meta = b'"_meta":' + META
        wait = b'{"jsonrpc":"2.0","id":7,"method":"v/wait","params":{%b}}' % meta
        waiting.request("POST", "/mcp", wait, {**named, "Mcp-Method": "v/wait"})
        hook.wait(1)
        cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,%b}}' % meta
        asker = Asker(proxy.port)
        asker.http("POST", cancel.decode(), {**named, "Mcp-Method": "notifications/cancelled"})
        hook.gate.set()
        assert b'"result"' in waiting.getresponse().read()
        waiting.close()
