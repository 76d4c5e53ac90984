"""One answer over every door: what a client is told does not depend on the way it came in."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from memory_doors import CHOICE, DOORS, Memory, post
from penstock.gate.gate import Gate
from penstock.gate.ruled import RuledGate, Rules
from penstock.gate.session_table import SessionTable, TrackedSession
from penstock.net.http_exchange import Reply, Request
from penstock.policy.rules.interceptor import Interceptor
from penstock.policy.rules.interceptor_config import build
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.state.memory import MemoryTable

META = b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}'
OPEN = Gate(ToolFilter())


def request(method: bytes, token: bytes, params: bytes = b"") -> bytes:
    """A request that is good in either era."""
    inner = b",".join(filter(None, [params, META]))
    return b'{"jsonrpc":"2.0","id":%b,"method":"%b","params":{%b}}' % (token, method, inner)


def answers(said: list[bytes]) -> list[Any]:
    """The JSON-RPC messages in what a door wrote, whatever they are wrapped in."""
    found = re.findall(rb'\{"jsonrpc":.*\}', b"".join(said))
    return [json.loads(text) for text in found]


def status(said: list[bytes]) -> int | None:
    """The HTTP status of what a door wrote; none over a pipe."""
    head = b"".join(said)
    return int(head.split()[1]) if head.startswith(b"HTTP/") else None


def sessions() -> SessionTable:
    known: MemoryTable[bytes, TrackedSession] = MemoryTable(9, 9.0, time.monotonic)
    return SessionTable("up", known)


def ruled(*rules: dict[str, Any]) -> RuledGate:
    config, faults = build({"rules": list(rules)})
    assert config is not None, faults
    return RuledGate(CHOICE, None, Rules(Interceptor(config, None)))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["echo", "write_file"])
@pytest.mark.parametrize("method", [b"tools/call", b"tools/list"])
@pytest.mark.parametrize("gate", [None, OPEN], ids=["filter", "no filter"])
@pytest.mark.parametrize("door", DOORS)
def test_a_tool_request_with_an_id_of_null_gets_one_answer(
    door: str, gate: Gate | None, method: bytes, name: str
) -> None:
    more = {"gate": gate} if gate is not None else {}
    up, back = DOORS[door](**more).take(request(method, b"null", b'"name":"%b"' % name.encode()))
    assert up == []
    text = f"Invalid request: {method.decode()} with an id of null"
    assert answers(back) == [{"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": text}}]
    assert status(back) in (None, 400)


@pytest.mark.parametrize("door", DOORS)
def test_a_tool_notification_goes_nowhere_and_gets_no_answer(door: str) -> None:
    raw = b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo",%b}}' % META
    up, back = DOORS[door]().take(raw)
    assert (up, answers(back), status(back)) == ([], [], None if door == "pipe" else 202)


CODES = [
    (-32700, 400),
    (-32600, 400),
    (-32602, 400),
    (-32601, 404),
    (-32020, 400),
    (-32021, 400),
    (-32022, 400),
    (-32603, 200),
    (-32000, 200),
]


@pytest.mark.parametrize(("code", "modern"), CODES)
@pytest.mark.parametrize("door", [*DOORS, "passthrough, modern"])
def test_an_error_that_a_rule_injects_has_the_status_of_its_era_whatever_the_door(
    door: str, code: int, modern: int
) -> None:
    rule = {
        "id": "r",
        "conditions": [{"method_equals": "prompts/get"}],
        "actions": [{"inject_error": {"code": code, "message": "m"}}],
    }
    name, _, era = door.partition(", ")
    more: dict[str, Any] = {"version": b"2026-07-28"} if era else {}
    up, back = DOORS[name](gate=ruled(rule), sessions=sessions(), **more).take(
        request(b"prompts/get", b"1", b'"name":"p"')
    )
    assert up == []
    assert [answer["error"]["code"] for answer in answers(back)] == [code]
    is_modern = "modern" in (name, era)
    old = {"pipe": None, "sse": 202}.get(name, 200)  # over SSE the answer has a stream of its own
    assert status(back) == (modern if is_modern else old)


@pytest.mark.parametrize("door", DOORS)
def test_a_denied_call_and_an_unknown_one_look_the_same_and_are_no_error_of_http(door: str) -> None:
    def said(name: bytes) -> list[bytes]:
        up, back = DOORS[door]().take(request(b"tools/call", b"1", b'"name":"%b"' % name))
        assert up == []
        return [line.replace(name, b"?").replace(b"%d" % len(name), b"") for line in back]

    assert answers(said(b"write_file")) == answers(said(b"nothing_at"))
    assert status(said(b"write_file")) == {"pipe": None, "sse": 202}.get(door, 200)


@pytest.mark.parametrize("door", DOORS)
def test_a_conversation_is_counted_the_same_over_every_door(door: str) -> None:
    made: list[TrackedSession] = []
    table = sessions()
    new = table.new
    table.new = lambda *what: made.append(new(*what)) or made[-1]  # type: ignore[method-assign, func-returns-value]
    opened = DOORS[door](gate=ruled(), sessions=table)
    before = sum(session.message_count for session in made)
    opened.take(request(b"tools/list", b"1"))  # answered here: the request, and the list
    opened.take(request(b"tools/call", b"2", b'"name":"write_file"'))  # refused here: the request
    opened.take(request(b"ping", b"3"))  # passed on: the request
    assert sum(session.message_count for session in made) - before == 4


def calls(run: Callable[[], None]) -> int:
    """How many functions of ours it calls."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call" and "/penstock/" in frame.f_code.co_filename

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize(
    ("door", "version", "ceiling"),
    [("legacy", b"2025-11-25", 25), ("passthrough", b"2025-11-25", 18), ("modern", b"2026-07-28", 64)],
)
def test_a_call_costs_so_many_functions_of_ours_on_its_way_up(
    door: str, version: bytes, ceiling: int
) -> None:
    # From the door to the link; reading HTTP and writing to the upstream come on top: about 15 each way.
    opened: Any = DOORS[door](**({} if door == "modern" else {"version": version}))
    more = [(b"Mcp-Session-Id", opened._session)] if door == "legacy" else []
    first = post(request(b"tools/call", b"1", b'"name":"echo"'), version, *more)

    def handle(one: Request) -> None:
        opened._door.handle(one, Reply(Memory(), False, True))  # type: ignore[arg-type]

    handle(first)  # what a head means is found out once
    body = request(b"tools/call", b"2", b'"name":"echo"')
    again = Request(first.method, first.target, first.headers, body, None, 1, first.fields, first.memo)
    assert calls(lambda: handle(again)) <= ceiling


def test_a_call_over_a_pipe_costs_so_many_functions_of_ours_on_its_way_up() -> None:
    door = DOORS["pipe"]()
    raw = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{}}}'
    door.take(raw % 1)
    assert calls(lambda: door.relay.from_client(raw % 2)) <= 13  # type: ignore[union-attr]
