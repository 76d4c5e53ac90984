"""Clients of one listener cannot hurt each other, nor get out of a limit by what nobody checks."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from scripted_http import Line, Request, ScriptedHttp

from http_gate import META
from pairs import DENY, Proxy, Upstream
from ruled import Hook

MODERN, LEGACY = "2026-07-28", "2025-11-25"


class Site:
    """An upstream that gives out sessions or does not, asks its client something, and takes any answer."""

    def __init__(self, has_sessions: bool) -> None:
        self.has_sessions = has_sessions
        self.count = 0

    def __call__(self, request: Request, line: Line) -> None:
        session = request.header("mcp-session-id")
        is_known = not self.has_sessions or request.rpc == "initialize" or (session or "").startswith("s-")
        if request.method == "DELETE":
            line.reply(200)
        elif request.header("mcp-protocol-version") != MODERN and not is_known:
            line.json(
                b'{"jsonrpc":"2.0","id":"e","error":{"code":-32600,"message":"no session"}}', status=404
            )
        elif request.rpc == "initialize":
            self.count += 1
            more = [f"Mcp-Session-Id: s-{self.count}"] if self.has_sessions else []
            line.json(request.result(b'{"protocolVersion":"%b","capabilities":{}}' % LEGACY.encode()), *more)
        elif "id" not in request.message or "method" not in request.message:
            line.accepted()
        elif request.rpc == "tools/list":
            line.json(request.result(b'{"tools":[],"ttlMs":0,"cacheScope":"public"}'))
        elif request.rpc == "server/discover":
            line.json(request.result(b'{"supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0}'))
        elif request.rpc == "v/asks":
            question = b'{"jsonrpc":"2.0","id":0,"method":"elicitation/create","params":{"message":"?"}}'
            line.events(b"data: %b\n\n" % question, b"data: %b\n\n" % request.result())
        else:
            echo = [f"Mcp-Session-Id: {session}"] if self.has_sessions and session else []  # as SDKs do
            line.json(request.result(b'{"heard":"%b"}' % str(request.rpc).encode()), *echo)


class Asker:
    """Says one thing on a connection of its own."""

    def __init__(self, port: int) -> None:
        self._port = port

    def ask(self, method: str, era: str = LEGACY, body: str | None = None, **headers: str) -> bytes:
        named = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        params: dict[str, Any] = {}
        if era == MODERN:
            named |= {"MCP-Protocol-Version": era, "Mcp-Method": method}
            params["_meta"] = json.loads(META)
        elif method != "initialize":
            named["MCP-Protocol-Version"] = era
        if method == "initialize":
            params = {
                "protocolVersion": LEGACY,
                "capabilities": {},
                "clientInfo": {"name": "a", "version": "1"},
            }
        named.update({name.replace("_", "-"): value for name, value in headers.items()})
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self.http("POST", body or json.dumps(message), named)

    def http(self, method: str, body: str | None, headers: dict[str, str]) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            connection.request(method, "/mcp", body, headers)
            return connection.getresponse().read()
        finally:
            connection.close()


def rules(*more: dict[str, Any]) -> dict[str, Any]:
    return {"chain": {"timeout": "60s"}, "rules": list(more)}


TAINT = {
    "id": "taint",
    "conditions": [{"method_equals": "v/fetch"}],
    "actions": [{"set_state": {"key": "d", "value": 1}}],
}
HOLD = {
    "id": "hold",
    "conditions": [{"method_equals": "v/send"}, {"state_equals": {"key": "d", "value": 1}}],
    "actions": [{"block": "not after that"}],
}
FEW = {
    "id": "few",
    "conditions": [{"method_equals": "v/few"}],
    "actions": [{"rate_limit": {"limit": 2, "window": "1h"}}],
}


@contextmanager
def passthrough(
    work: Path, has_sessions: bool, *more: dict[str, Any]
) -> Iterator[tuple[Asker, ScriptedHttp]]:
    file = work / "rules.json"
    file.write_text(json.dumps({"interceptor": rules(*more)}))
    with (
        ScriptedHttp(Site(has_sessions)) as upstream,
        Proxy(work, ["--upstream", upstream.url, "--config", str(file)]) as proxy,
    ):
        yield Asker(proxy.port), upstream


def reached(upstream: ScriptedHttp, method: str) -> int:
    return sum(request.rpc == method for request in upstream.requests)


@pytest.mark.parametrize("era", [LEGACY, MODERN])
def test_neither_keys_nor_sessions_that_nobody_checks_are_a_way_out_of_a_limit(
    tmp_path: Path, era: str
) -> None:
    with passthrough(tmp_path, False, TAINT, HOLD, FEW) as (asker, upstream):
        for number in range(8):
            made_up = {"Authorization": f"Bearer {number}", "Mcp_Session_Id": f"mine-{number}"}
            asker.ask("v/few", era, **made_up)
        assert reached(upstream, "v/few") == 2
        asker.ask("v/fetch", era, Mcp_Session_Id="one", Authorization="Bearer one")
        assert b"not after that" in asker.ask("v/send", era, Mcp_Session_Id="two", Authorization="Bearer two")
        assert reached(upstream, "v/send") == 0


def test_the_same_before_a_command(tmp_path: Path) -> None:
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"interceptor": rules(FEW)}))
    with (
        Upstream("stdio", tmp_path) as there,
        Proxy(tmp_path, there.words(), "--deny", DENY, "--config", str(file)) as proxy,
    ):
        asker = Asker(proxy.port)
        answers = [asker.ask("v/few", MODERN, Authorization=f"Bearer {number}") for number in range(6)]
    assert [b"Rate limit" in answer for answer in answers] == [False, False, True, True, True, True]


def test_sessions_that_the_upstream_gives_out_are_apart(tmp_path: Path) -> None:
    with passthrough(tmp_path, True, TAINT, HOLD, FEW) as (asker, upstream):
        asker.ask("initialize")
        asker.ask("initialize")
        first, second = ({"Mcp_Session_Id": f"s-{upstream.script.count - place}"} for place in (1, 0))  # type: ignore[attr-defined]
        asker.ask("v/fetch", **first)
        assert b"not after that" in asker.ask("v/send", **first)
        assert b"heard" in asker.ask("v/send", **second)
        # Made-up ones are the upstream's to refuse, and nothing is remembered of them.
        for number in range(30):
            asker.ask("v/fetch", Mcp_Session_Id=f"made-up-{number}")
        assert b"not after that" in asker.ask("v/send", **first)


@pytest.mark.parametrize("token", ["0", '"0"', '""', "0.0", '"1"'])
def test_a_rule_about_answers_of_clients_holds_for_every_spelling_of_an_id(
    tmp_path: Path, token: str
) -> None:
    never = {
        "id": "never",
        "direction": "client",
        "conditions": [{"method_equals": "elicitation/create"}],
        "actions": [{"block": "no answers"}],
    }
    with passthrough(tmp_path, True, never) as (asker, upstream):
        asker.ask("initialize")
        session = {"Mcp_Session_Id": f"s-{upstream.script.count}"}  # type: ignore[attr-defined]
        assert b"elicitation/create" in asker.ask("v/asks", **session)
        for _ in range(2):
            body = (
                f'{{"jsonrpc":"2.0","id":{token},"result":{{"action":"accept","content":{{"x":"hunter2"}}}}}}'
            )
            asker.ask("answer", body=body, **session)
        assert not [request for request in upstream.requests if b"hunter2" in request.body]


def test_nobody_ends_what_another_waits_for(tmp_path: Path) -> None:
    """Neither with a session of its own that it ends, nor with more names than are remembered."""
    hook = Hook()
    hook.gate.clear()
    waits = {
        "id": "w",
        "conditions": [{"method_equals": "v/wait"}],
        "actions": [hook.action(wait=True, timeout="60s")],
    }
    with hook, passthrough(tmp_path, True, waits) as (asker, upstream):
        got: list[bytes] = []
        victim = threading.Thread(target=lambda: got.append(asker.ask("v/wait", MODERN)))
        victim.start()
        hook.wait()
        asker.ask("initialize")
        mine = f"s-{upstream.script.count}"  # type: ignore[attr-defined]
        trick = {"MCP_Protocol_Version": MODERN, "Connection": "mcp-protocol-version", "Mcp_Method": "ping"}
        asker.ask("ping", MODERN, Mcp_Session_Id=mine, **trick)
        asker.ask("ping", MODERN, Mcp_Session_Id=mine)
        asker.http("DELETE", None, {"Mcp-Session-Id": mine, "MCP-Protocol-Version": LEGACY})
        for number in range(200):
            asker.ask("ping", MODERN, Authorization=f"Bearer {number}")
        assert not got
        hook.gate.set()
        victim.join(20)
    assert b"heard" in got[0], got
