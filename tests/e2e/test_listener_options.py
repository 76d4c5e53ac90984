"""Options of the listener: pages and names that may use it, and answers checked against the schema."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from doors import LEGACY, LegacyDoor
from pairs import DENY, TRANSPORTS, Proxy, Upstream

PAGE = "https://app.example"
HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
HELLO = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}'
)


@pytest.fixture(scope="module", params=TRANSPORTS)
def proxy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    work = tmp_path_factory.mktemp("options")
    options = ("--deny", DENY, "--allow-origin", PAGE, "--allow-host", "penstock.example")
    with Upstream(request.param, work) as there, Proxy(work, there.words(), *options) as proxy:
        yield proxy


def test_90_a_page_that_is_allowed_may_ask_and_read(proxy: Proxy):
    door = LegacyDoor(proxy.port, "legacy")
    asked = {
        "Origin": PAGE,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type, mcp-session-id, mcp-param-a, x-evil, last-event-id",
    }
    answer = door.whole("OPTIONS", "/mcp", asked)
    assert answer.status == 204
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert "POST" in answer.headers["access-control-allow-methods"]
    allowed = answer.headers["access-control-allow-headers"].split(", ")
    assert allowed == ["content-type", "mcp-session-id", "mcp-param-a", "last-event-id"]
    answer = door.whole("POST", "/mcp", {**HEADERS, "Origin": PAGE}, HELLO)
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert answer.headers["vary"].lower().find("origin") >= 0
    assert "Mcp-Session-Id" in answer.headers["access-control-expose-headers"]
    assert "WWW-Authenticate" in answer.headers["access-control-expose-headers"]
    assert "mcp-session-id" in answer.headers
    assert "access-control-allow-credentials" not in answer.headers
    refused = door.whole("POST", "/mcp", {"Origin": PAGE}, b"")
    assert refused.status == 415
    assert refused.headers["access-control-allow-origin"] == PAGE  # or the page could not read why


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "https://app.example.evil", "http://app.example"]
)
def test_81_90_another_page_may_not(proxy: Proxy, origin: str):
    door = LegacyDoor(proxy.port, "legacy")
    for method, body in (("OPTIONS", b""), ("POST", HELLO), ("GET", b"")):
        for path in ("/mcp", "/sse", "/messages", "/healthz"):
            answer = door.whole(method, path, {**HEADERS, "Origin": origin}, body)
            assert answer.status == 403
            assert not any(name.startswith("access-control") for name in answer.headers)


def test_90_pages_of_our_own_machine_are_served_but_not_granted_anything(proxy: Proxy):
    door = LegacyDoor(proxy.port, "legacy")
    answer = door.whole(
        "OPTIONS", "/mcp", {"Origin": "http://localhost:5173", "Access-Control-Request-Method": "POST"}
    )
    assert answer.status == 204
    assert not any(name.startswith("access-control") for name in answer.headers)


def test_81_a_name_that_is_allowed(proxy: Proxy):
    door = LegacyDoor(proxy.port, "legacy")
    assert door.whole("POST", "/mcp", {**HEADERS, "Host": "penstock.example"}, HELLO).status == 200
    assert door.whole("POST", "/mcp", {**HEADERS, "Host": "penstock.example:80"}, HELLO).status == 200
    assert door.whole("POST", "/mcp", {**HEADERS, "Host": "other.example"}, HELLO).status == 403


def test_health(proxy: Proxy):
    door = LegacyDoor(proxy.port, "legacy")
    answer = door.whole("GET", "/healthz")
    assert (answer.status, bytes(answer.body)) == (200, b"ok\n")


# --- the schema ------------------------------------------------------------------------------------------

BROKEN_NOTE = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":"much"}}\n'


@pytest.mark.parametrize(
    ("mode", "client", "upstream"),
    [  # Loading the types takes a while, so not all of them: every upstream, every client, every mode.
        ("strict", "streamable", "stdio"),
        ("strict", "sse", "sse"),
        ("strict", "streamable", "streamable"),
        ("schema", "streamable", "streamable"),
        ("schema", "sse", "stdio"),
        (None, "streamable", "streamable"),
    ],
)
def test_validate(mode: str | None, client: str, upstream: str, tmp_path: Path):
    pytest.importorskip("mcp_types")
    options = ["--validate", mode] if mode else []
    with (
        Upstream(upstream, tmp_path) as there,
        Proxy(tmp_path, there.words(), "--deny", DENY, *options) as proxy,
    ):
        door = proxy.connect(client, "legacy")
        door.begin()
        # What the schema does not know passes, and so does what it knows and finds right.
        assert door.order("nothing")["result"] == {"heard": "a vendor method"}
        assert door.ask("ping")["result"] == {}
        # The scripted answer to prompts/list is no list of prompts.
        answer = door.ask("prompts/list")
        note_token = b"40"
        door.begin_order("say", note_token, raw=BROKEN_NOTE)
        door.answer(note_token)
        has_note = any(b"notifications/progress" in heard.raw for heard in door.heard)
        if mode == "strict":
            assert answer["error"] == {"code": -32603, "message": "The upstream's answer is not valid"}
            assert not has_note
        else:
            assert answer["result"] == {"heard": "prompts/list"}
            assert has_note
        said = f"breaks the MCP schema of {LEGACY} for prompts/list" in proxy.stderr
        assert said == (mode is not None)
        door.close()
