"""The pieces of the bridge, each by itself: codes, results, questions, parked calls, listeners."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from gate_messages import client, upstream
from penstock import limits
from penstock.bridge import (
    codes,
    envelope,
    legacy_results,
    listeners,
    modern_results,
    parked,
    questions,
    subscriptions,
)
from penstock.bridge.steps import ToClient, ToUpstream
from penstock.bridge.subscriptions import Subscriptions
from penstock.wire.json.ambiguity import members
from penstock.wire.mcp.message import Message


def said(**content: Any) -> Message:
    return client(json.dumps({"jsonrpc": "2.0", **content}).encode())


def heard(**content: Any) -> Message:
    return upstream(json.dumps({"jsonrpc": "2.0", **content}).encode())


def error(code: object, data: object = None) -> Message:
    return heard(id=1, error={"code": code, "message": "m", "data": data})


def new_id() -> Any:
    numbers = itertools.count(1)
    return lambda: b'"own-%d"' % next(numbers)


# --- codes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "method", "becomes"),
    [
        (-32002, "resources/read", -32602),
        (-32002, "tools/call", -32603),
        (-32019, "tools/call", -32019),
        (-32020, "tools/call", -32603),
        (-32021, "tools/call", -32021),
        (-32022, "tools/call", -32603),
        (-32042, "tools/call", -32042),
        (-32099, "tools/call", -32603),
        (-32100, "tools/call", -32100),
        (-32601, "resources/read", -32601),
        (5, "tools/call", 5),
    ],
)
def test_codes_of_a_legacy_upstream(code: int, method: str, becomes: int) -> None:
    answer = json.loads(codes.for_modern(error(code, {"d": 1}), said(id=1, method=method)))
    assert answer == {
        "jsonrpc": "2.0",
        "id": 1,
        "error": {"code": becomes, "message": "m", "data": {"d": 1}},
    }


@pytest.mark.parametrize(
    ("code", "data", "method", "becomes"),
    [
        (-32602, {"uri": "file:///a"}, "resources/read", -32002),
        (-32602, {"uri": "file:///b"}, "resources/read", -32602),
        (-32602, {}, "resources/read", -32602),
        (-32602, None, "resources/read", -32602),
        (-32602, {"uri": "file:///a"}, "tools/call", -32602),
        (-32601, {"uri": "file:///a"}, "resources/read", -32601),
    ],
)
def test_codes_of_a_modern_upstream(code: int, data: object, method: str, becomes: int) -> None:
    asked = said(id=1, method=method, params={"uri": "file:///a"})
    assert json.loads(codes.for_legacy(error(code, data), asked))["error"]["code"] == becomes


@pytest.mark.parametrize("params", [{}, {"other": 1}, None, [1]])
def test_an_error_about_no_uri_that_was_asked_for_keeps_its_code(params: object) -> None:
    asked = said(id=1, method="resources/read", **({} if params is None else {"params": params}))
    for data in ({"uri": "file:///a"}, {}):
        answer = error(-32602, data)
        assert codes.for_legacy(answer, asked) == answer.raw


def test_what_a_refusal_of_a_version_names() -> None:
    ours = ("2026-07-28",)
    assert codes.names_modern(error(-32022, {"supported": ["2026-07-28", "x"]}), ours)
    assert not codes.names_modern(error(-32022, {"supported": ["x"]}), ours)
    assert not codes.names_modern(error(-32022, {"supported": "2026-07-28"}), ours)
    assert not codes.names_modern(error(-32022, None), ours)
    assert not codes.names_modern(error(-32602, {"supported": ["2026-07-28"]}), ours)
    assert not codes.names_modern(heard(id=1, result={"supported": ["2026-07-28"]}), ours)
    assert codes.code_of(heard(id=1, result={})) is None
    assert codes.code_of(error("x")) is None
    assert codes.code_of(error(7)) == 7


# --- envelope --------------------------------------------------------------------------------------------


def test_members_are_put_in_and_taken_out_and_no_other_byte_changes() -> None:
    text = b'{ "a" : 1e400 ,"b":{"c" : 2}}'
    assert envelope.with_members(text, {"b": b"3", "n": b"4"}) == b'{ "a" : 1e400 ,"b":3,"n":4}'
    assert json.loads(envelope.without_members(text, "b", "x")) == {"a": float("inf")}
    assert envelope.maybe_members(b"[1]") is None
    assert envelope.maybe_members(b'{"a":1,"a":2}') is None
    assert envelope.maybe_members(None) is None
    assert envelope.maybe_value(None) is None
    assert envelope.maybe_value(b"{") is None
    assert envelope.maybe_value(b"[1]") == [1]
    assert envelope.request(b"7", "m", b"{}") == b'{"jsonrpc":"2.0","id":7,"method":"m","params":{}}'
    assert envelope.notification("m") == b'{"jsonrpc":"2.0","method":"m"}'
    assert envelope.notification("m", b"{}") == b'{"jsonrpc":"2.0","method":"m","params":{}}'
    assert envelope.object_of({"a": b"1", "b": b"2"}) == b'{"a":1,"b":2}'
    assert envelope.with_params(b'{"params":1,"x":2}', b"{}") == b'{"params":{},"x":2}'


# --- results ---------------------------------------------------------------------------------------------


def test_the_answer_to_initialize() -> None:
    found = members(
        b'{"capabilities":{"tools":{ },"extensions":{"io.modelcontextprotocol/tasks":{},"x":1}},'
        b'"instructions":"be \\u65e5","_meta":{"io.modelcontextprotocol/serverInfo":{"name" : "n"}}}'
    )
    for asked, becomes in (("2025-03-26", "2025-03-26"), ("2030-01-01", "2025-11-25"), (5, "2025-11-25")):
        opening = said(id=1, method="initialize", params={"protocolVersion": asked})
        answer = json.loads(legacy_results.initialize_result(found, opening))
        assert answer == {
            "protocolVersion": becomes,
            "capabilities": {"tools": {}, "extensions": {"x": 1}},
            "serverInfo": {"name": "n"},
            "instructions": "be \u65e5",
        }
    bare = json.loads(legacy_results.initialize_result({}, said(id=1, method="initialize")))
    assert bare == {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "serverInfo": {"name": "unknown", "version": "unknown"},
    }


def for_legacy(method: str, result: str) -> str:
    raw = b'{"jsonrpc":"2.0","id":1,"result":%b}' % result.encode()
    asked = said(id=1, method=method, params={"name": "t"})
    answer = legacy_results.for_legacy(raw, members(result.encode()), asked)
    return answer.decode().removeprefix('{"jsonrpc":"2.0","id":1,"result":').removesuffix("}")


def test_results_for_legacy_clients() -> None:
    for kept in ('{"structuredContent":{"a" : 1}}', '{"content":[]}', '{"x":[1]}'):
        assert for_legacy("tools/call", kept) == kept
    assert for_legacy("tools/call", '{"structuredContent": [1e400]}') == (
        '{"structuredContent": {"result":[1e400]}}'
    )
    assert for_legacy("prompts/get", '{"structuredContent":[1]}') == '{"structuredContent":[1]}'
    good = '{"name":"a","outputSchema":{"type":"object"}}'
    bad = '{"name":"b","outputSchema":{"type":"array"}}'
    assert for_legacy("tools/list", f'{{"tools":[{good}, {{}}]}}') == f'{{"tools":[{good}, {{}}]}}'
    assert json.loads(for_legacy("tools/list", f'{{"tools":[{good},{bad}]}}'))["tools"] == [
        json.loads(good),
        {"name": "b"},
    ]
    assert for_legacy("tools/list", '{"tools":"outputSchema"}') == '{"tools":"outputSchema"}'


def test_a_schema_of_no_object_is_left_out_however_its_name_is_written() -> None:
    listed = '{"tools":[{"name":"a","\\u006futputSchema":{"type":"array"}},{"name" : "b"}]}'
    assert for_legacy("tools/list", listed) == '{"tools":[{"name":"a"},{"name" : "b"}]}'


def test_tools_that_want_headers_in_a_wrong_way_are_left_out() -> None:
    right = '{"name":"a","inputSchema":{"properties":{"x":{"type":"string","x-mcp-header":"X"}}}}'
    wrong = '{"name":"b","inputSchema":{"properties":{"x":{"type":"array","x-mcp-header":"X"}}}}'
    plain = '{"name":"c","inputSchema":{}}'
    listed = f'{{"tools":[{right}, {wrong},{plain}]}}'
    raw = b'{"jsonrpc":"2.0","id":1,"result":%b}' % listed.encode()
    kept, names = legacy_results.without_wrong_marks(raw, members(listed.encode()))
    assert names == ["b"]
    assert [tool["name"] for tool in json.loads(kept)["result"]["tools"]] == ["a", "c"]
    for fine in (f'{{"tools":[{right},{plain}]}}', '{"tools":"x-mcp-header"}', '{"tools":[]}'):
        raw = b'{"jsonrpc":"2.0","id":1,"result":%b}' % fine.encode()
        assert legacy_results.without_wrong_marks(raw, members(fine.encode())) == (raw, [])


def test_the_answer_to_discovery() -> None:
    found = members(b'{"capabilities":{"tools":{},"tasks":{}},"instructions":"i","serverInfo":{"name":"n"}}')
    assert json.loads(modern_results.discover_result(found)) == {
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "ttlMs": 0,
        "cacheScope": "private",
        "instructions": "i",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "n"}},
    }
    bare = json.loads(modern_results.discover_result(members(b'{"capabilities":5}')))
    assert bare["capabilities"] == {}
    assert "instructions" not in bare
    assert "_meta" not in bare


@pytest.mark.parametrize(
    ("method", "is_cacheable"),
    [
        ("tools/list", True),
        ("prompts/list", True),
        ("resources/list", True),
        ("resources/templates/list", True),
        ("resources/read", True),
        ("tools/call", False),
        ("completion/complete", False),
    ],
)
def test_every_modern_result_says_what_it_is(method: str, is_cacheable: bool) -> None:
    raw = b'{"jsonrpc":"2.0","id":1,"result":{"a" : 1,"resultType":"input_required"}}'
    answer = json.loads(modern_results.for_modern(raw, method))["result"]
    more = {"ttlMs": 0, "cacheScope": "private"} if is_cacheable else {}
    assert answer == {"a": 1, "resultType": "complete", **more}


@pytest.mark.parametrize("result", ['{"resultType":"complete","resultType":"input_required"}', "[]", "null"])
def test_a_result_that_can_be_read_in_two_ways_is_not_passed_on(result: str) -> None:
    raw = b'{"jsonrpc":"2.0","id":"x","result":%b}' % result.encode()
    answer = json.loads(modern_results.for_modern(raw, "tools/call"))
    assert (answer["id"], answer["error"]["code"]) == ("x", -32603)


ERA = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "c"},
    "io.modelcontextprotocol/clientCapabilities": {"tasks": {}, "roots": {"listChanged": True, "x": 1}},
    "io.modelcontextprotocol/logLevel": "info",
}


def test_a_request_for_a_legacy_upstream() -> None:
    own = {"progressToken": 5, "traceparent": "00", "v/x": 1}
    params = {"name": "t", "_meta": {**ERA, **own}, "inputResponses": {}, "requestState": "s"}
    sent = json.loads(modern_results.for_legacy_upstream(said(id=1, method="tools/call", params=params)))
    assert sent["params"] == {"name": "t", "_meta": own}
    sent = json.loads(
        modern_results.for_legacy_upstream(said(id=1, method="m", params={"a": 1, "_meta": ERA}))
    )
    assert sent["params"] == {"a": 1}
    bare = said(id=1, method="m")
    assert modern_results.for_legacy_upstream(bare) == bare.raw
    odd = said(id=1, method="m", params={"_meta": 5})
    assert json.loads(modern_results.for_legacy_upstream(odd))["params"] == {"_meta": 5}


def test_the_handshake_on_behalf_of_a_modern_client() -> None:
    meta = members(json.dumps(ERA).encode())
    assert json.loads(modern_results.opening(meta, b'{"name":"us"}')) == {
        "protocolVersion": "2025-11-25",
        "capabilities": {"roots": {"x": 1}},
        "clientInfo": {"name": "c"},
    }
    assert json.loads(modern_results.opening({}, b'{"name":"us"}')) == {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "us"},
    }
    odd = members(b'{"io.modelcontextprotocol/clientCapabilities":[]}')
    assert json.loads(modern_results.opening(odd, b"{}"))["capabilities"] == {}


def test_what_every_modern_request_must_say() -> None:
    def wrong(meta: object) -> Any:
        found = modern_results.maybe_wrong_meta(said(id=1, method="m", params={"_meta": meta}))
        return None if found is None else json.loads(found)["error"]

    assert wrong(ERA) is None
    other = wrong({**ERA, "io.modelcontextprotocol/protocolVersion": "2030-01-01"})
    assert (other["code"], other["data"]) == (
        -32022,
        {"supported": ["2026-07-28"], "requested": "2030-01-01"},
    )
    for capabilities in (None, [], 5):
        assert wrong({**ERA, "io.modelcontextprotocol/clientCapabilities": capabilities})["code"] == -32602
    assert wrong({})["code"] == -32022


@pytest.mark.parametrize(
    ("wanted", "level", "is_heard"),
    [
        ("info", "info", True),
        ("info", "debug", False),
        ("debug", "debug", True),
        ("error", "emergency", True),
        ("emergency", "alert", False),
        (None, "error", False),
        ("loud", "error", False),
        ("info", "loud", False),
    ],
)
def test_who_wants_to_hear_what_is_logged(wanted: object, level: str, is_heard: bool) -> None:
    meta = {} if wanted is None else {"io.modelcontextprotocol/logLevel": wanted}
    asked = said(id=1, method="tools/call", params={"_meta": meta})
    log = heard(method="notifications/message", params={"level": level})
    assert modern_results.wants(asked, log) is is_heard


# --- questions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "params", "declared", "missing"),
    [
        ("elicitation/create", {}, {"elicitation": {}}, None),
        ("elicitation/create", {}, {}, "elicitation"),
        ("elicitation/create", {}, {"elicitation": 5}, "elicitation"),
        ("elicitation/create", {"mode": "url"}, {"elicitation": {"url": {}}}, None),
        ("elicitation/create", {"mode": "url"}, {"elicitation": {"form": {}}}, "elicitation of a URL"),
        ("elicitation/create", {"mode": "form"}, {"elicitation": {}}, None),
        ("elicitation/create", {"tools": []}, {"elicitation": {}}, None),
        ("sampling/createMessage", {}, {"sampling": {}}, None),
        ("sampling/createMessage", {"mode": "url"}, {"sampling": {}}, None),
        ("sampling/createMessage", {"tools": []}, {"sampling": {}}, "sampling with tools"),
        ("sampling/createMessage", {"tools": []}, {"sampling": {"tools": {}}}, None),
        ("sampling/createMessage", {}, {"elicitation": {}}, "sampling"),
        ("roots/list", {}, {"roots": {}}, None),
        ("roots/list", {}, {}, "roots"),
        ("v/other", {}, {"elicitation": {}}, "v/other"),
    ],
)
def test_what_a_question_needs(method: str, params: object, declared: object, missing: str | None) -> None:
    one = questions.Question("k", method, json.dumps(params).encode(), b"")
    assert questions.maybe_undeclared(one, members(json.dumps(declared).encode())) == missing


def test_questions_are_read_as_they_are_written() -> None:
    asked = (
        b'{"inputRequests":{"a":{"method":"m","params":{"x" : 1e400,"url":"u"}},"b":{"method":"n"},"c":5}}'
    )
    a, b, c = questions.read_questions(members(asked))
    assert (a.key, a.method, a.params, a.url) == ("a", "m", b'{"x" : 1e400,"url":"u"}', b'"u"')
    assert (b.key, b.method, b.params, b.url) == ("b", "n", b"{}", b"")
    assert (c.key, c.method, c.params) == ("c", "None", b"{}")
    assert questions.read_questions({}) == []
    assert a.as_input() == b'{"method":"m","params":{"x" : 1e400,"url":"u"}}'


def test_the_wait_for_a_state_grows_to_a_second() -> None:
    call = questions.Call(said(id=1, method="tools/call"), b"1")
    assert [call.longer_wait() for _ in range(7)] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert call.more_params() == {}
    call.state, call.answers = b'"s"', {"k": b"{}"}
    assert call.more_params() == {"inputResponses": b'{"k":{}}', "requestState": b'"s"'}
    assert not call.is_parked
    call.due = 0.1
    assert call.is_parked


def test_urls_in_an_error() -> None:
    def read(code: int, data: object) -> list[tuple[str, bytes]]:
        return [(one.key, one.url) for one in questions.read_urls(error(code, data))]

    one = {"mode": "url", "elicitationId": "e", "url": "u"}
    assert read(-32042, {"elicitations": [one]}) == [("e", b'"u"')]
    assert read(-32042, {"elicitations": [one, one, {"url": "v"}]}) == [
        ("e", b'"u"'),
        ("url-1", b'"u"'),
        ("url-2", b'"v"'),
    ]
    own = {"elicitationId": "url-1", "url": "u"}
    assert read(-32042, {"elicitations": [own, {"url": "v"}]}) == [("url-1", b'"u"'), ("url-1_", b'"v"')]
    for nothing in ({}, {"elicitations": 5}, {"elicitations": [5]}, {"elicitations": [{}]}, None):
        assert read(-32042, nothing) == []
    assert read(-32041, {"elicitations": [one]}) == []
    (added,) = questions.read_urls(error(-32042, {"elicitations": [{"url": "v"}]}))
    assert json.loads(added.params) == {"url": "v", "mode": "url"}


# --- parked calls ----------------------------------------------------------------------------------------


def test_keys_are_the_upstreams_ids_as_text() -> None:
    asked = dict.fromkeys(("1", "a", "a_"))
    for token, key in ((2, "2"), ("x", "x"), (1, "1_"), ("a", "a__"), (1.5, "1.5")):
        assert parked.key_for(heard(id=token, method="m"), asked) == key  # type: ignore[arg-type]


def test_what_must_be_the_same_in_every_leg() -> None:
    def binding(method: str = "tools/call", **params: object) -> bytes:
        return parked.binding_of(said(id=1, method=method, params=params))

    first = binding(name="t", arguments={"a": 1}, _meta={"x": 1})
    assert first == binding(arguments={"a": 1}, name="t", _meta={}, inputResponses={"k": 1}, requestState="s")
    assert len({first, binding(name="u", arguments={"a": 1}), binding("prompts/get", name="t")}) == 3
    assert first != binding(name="t", arguments={"a": 2})
    assert parked.binding_of(said(id=1, method="m")) != parked.binding_of(said(id=1, method="n"))


def test_questions_are_gathered_a_little_while() -> None:
    call = parked.ParkedCall(said(id=1, method="tools/call"), b"1", b"1")
    for now, until in ((1.0, 1.02), (1.01, 1.03), (1.07, 1.09), (1.095, 1.1)):
        call.ask(parked.Asked(heard(id="q", method="m"), str(now)), now)
        assert call.gather_until == pytest.approx(until)
    assert parked.unanswered(call, members(b'{"1.0":{},"1.01":5}')) == ["1.01", "1.07", "1.095"]
    assert parked.same_id(b"1", b"1")
    assert not parked.same_id(b"1", b'"1"')
    assert parked.Asked(heard(id=1, method="m", params={"a": 1}), "k").as_input() == (
        b'{"method":"m","params":{"a": 1}}'
    )
    assert parked.Asked(heard(id=1, method="m"), "k").as_input() == b'{"method":"m"}'
    call.state, call.expires = "s", 5.0
    call.go_on(said(id=2, method="tools/call", params={"_meta": {"progressToken": "p"}}))
    assert (call.leg, call.token, call.state, call.expires) == (b"2", b'"p"', None, 0.0)


# --- listeners -------------------------------------------------------------------------------------------

OFFERS = members(
    b'{"tools":{"listChanged":true},"prompts":{"listChanged":false},"resources":{"subscribe":true}}'
)


def listen(room: listeners.Listeners, token: int, **wanted: object) -> tuple[list[Any], Any]:
    steps = room.open(said(id=token, method="subscriptions/listen", params={"notifications": wanted}), OFFERS)
    up = [json.loads(step.raw) for step in steps if isinstance(step, ToUpstream)]
    (down,) = [json.loads(step.raw) for step in steps if isinstance(step, ToClient)]
    return up, down


def test_only_what_is_offered_is_granted_and_each_uri_is_subscribed_to_once() -> None:
    room = listeners.Listeners(new_id())
    wanted = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
    up, down = listen(room, 1, **wanted, resourceSubscriptions=["u", 5, "v"])
    assert [(one["method"], one["params"]) for one in up] == [
        ("resources/subscribe", {"uri": "u"}),
        ("resources/subscribe", {"uri": "v"}),
    ]
    assert down["params"] == {
        "notifications": {"toolsListChanged": True, "resourceSubscriptions": ["u", "v"]},
        "_meta": {"io.modelcontextprotocol/subscriptionId": 1},
    }
    up, down = listen(room, 2, resourceSubscriptions=["u"], toolsListChanged=False)
    assert up == []
    assert down["params"]["notifications"] == {"resourceSubscriptions": ["u"]}
    assert room.close(b"9") is None
    gone = room.close(b"1")
    assert gone is not None
    assert [json.loads(step.raw)["params"] for step in gone if isinstance(step, ToUpstream)] == [{"uri": "v"}]
    last = room.close(b"2")
    assert last is not None
    assert [json.loads(step.raw)["method"] for step in last if isinstance(step, ToUpstream)] == [
        "resources/unsubscribe"
    ]


def test_a_listener_may_name_a_thousand_resources_and_each_counts_once() -> None:
    room = listeners.Listeners(new_id())
    uris = [f"u:{number}" for number in range(limits.SUBSCRIPTIONS)]
    up, down = listen(room, 1, resourceSubscriptions=uris + uris)
    assert len(up) == limits.SUBSCRIPTIONS
    assert down["params"]["notifications"]["resourceSubscriptions"] == uris
    for more in ([*uris, "one:more"], ["x" * (limits.SUBSCRIBED_BYTES + 1)]):
        up, down = listen(room, 2, resourceSubscriptions=more)
        assert up == []
        assert (down["id"], down["error"]) == (2, {"code": -32603, "message": "Too many subscriptions"})
        assert room.close(b"2") is None
    up, _ = listen(room, 3, resourceSubscriptions=["x" * limits.SUBSCRIBED_BYTES])
    assert len(up) == 1


def test_changes_come_to_whoever_listens_for_them() -> None:
    room = listeners.Listeners(new_id())
    listen(room, 1, toolsListChanged=True)
    listen(room, 2, resourceSubscriptions=["u"])

    def told(**content: Any) -> Any:
        steps = room.hear(heard(**content))
        return None if steps is None else [json.loads(one.raw)["params"] for one in steps]  # type: ignore[union-attr]

    assert told(method="notifications/tools/list_changed") == [
        {"_meta": {"io.modelcontextprotocol/subscriptionId": 1}}
    ]
    updated = "notifications/resources/updated"
    assert told(method=updated, params={"uri": "u", "_meta": {"a": 1}}) == [
        {"uri": "u", "_meta": {"a": 1, "io.modelcontextprotocol/subscriptionId": 2}}
    ]
    assert told(method=updated, params={"uri": "v"}) == []
    assert told(method="notifications/prompts/list_changed") == []
    assert told(method="notifications/message") is None
    assert listeners.Listeners(new_id()).open(said(id=1, method="m"), {})[0].raw == (  # type: ignore[union-attr]
        b'{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{},'
        b'"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}'
    )


def test_a_subscription_waits_ten_seconds_and_a_lost_one_comes_back_later_each_time() -> None:
    room = Subscriptions(new_id())
    assert room.begin(b"{}") == []  # nothing is offered
    room.offer(members(b'{"tools":{"listChanged":true}}'))
    (opened,) = room.begin(b"{}")
    assert isinstance(opened, ToUpstream)
    assert json.loads(opened.raw)["params"]["notifications"] == {"toolsListChanged": True}
    assert room.begin(b"{}") == []
    assert room.owns(b'"own-1"')
    assert not room.owns(None)
    waits = []
    for number in range(1, 8):
        assert room.ended(b'"own-%d"' % number, 100.0) == []
        waits.append(room.next_due() - 100.0)
        assert room.tick(b"{}", room.next_due() - 0.01) == []
        assert len(room.tick(b"{}", room.next_due())) == 1
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    asked = said(id=9, method="resources/subscribe", params={"uri": "u"})
    (wanted,) = room.change(asked, b"{}", 200.0)
    assert isinstance(wanted, ToUpstream)
    assert json.loads(wanted.raw)["params"]["notifications"]["resourceSubscriptions"] == ["u"]
    assert room.next_due() == 210.0
    assert room.tick(b"{}", 209.9) == []
    (refused,) = room.tick(b"{}", 210.0)
    assert json.loads(refused.raw)["error"]["code"] == -32603  # type: ignore[union-attr]
    (known,) = room.change(asked, b"{}", 211.0)
    assert json.loads(known.raw)["result"] == {}  # type: ignore[union-attr]
    (odd,) = room.change(said(id=9, method="resources/subscribe", params={}), b"{}", 211.0)
    assert json.loads(odd.raw)["error"]["code"] == -32602  # type: ignore[union-attr]


# --- odd shapes ------------------------------------------------------------------------------------------


def test_capabilities_and_lists_of_odd_shapes() -> None:
    def capabilities(text: str) -> Any:
        found = members(f'{{"capabilities":{text}}}'.encode())
        return json.loads(legacy_results.initialize_result(found, said(id=1, method="initialize")))[
            "capabilities"
        ]

    assert capabilities("5") == {}
    assert capabilities("{}") == {}
    assert capabilities('{"extensions":5}') == {"extensions": 5}
    assert capabilities('{"extensions":{"x":1}}') == {"extensions": {"x": 1}}
    listed = '{"tools":[{"name":"b","outputSchema":{"type":"array"}},5,{"name":"c","outputSchema":7}]}'
    assert for_legacy("prompts/list", listed) == listed
    assert json.loads(for_legacy("tools/list", listed))["tools"] == [{"name": "b"}, 5, {"name": "c"}]
    assert for_legacy("tools/list", '{"x":"outputSchema"}') == '{"x":"outputSchema"}'
    mark = "\\u0078-mcp-header"
    wrong = '{"name":"b","inputSchema":{"properties":{"x":{"type":"array","%s":"X"}}}}' % mark  # noqa: UP031
    text = f'{{"tools":[5,{{}},{wrong}]}}'.encode()
    raw = b'{"jsonrpc":"2.0","id":1,"result":%b}' % text
    kept, names = legacy_results.without_wrong_marks(raw, members(text))
    assert (json.loads(kept)["result"]["tools"], names) == ([5, {}], ["b"])
    none = b'{"jsonrpc":"2.0","id":1,"result":{"x":"x-mcp-header"}}'
    assert legacy_results.without_wrong_marks(none, members(b'{"x":"x-mcp-header"}')) == (none, [])


def test_what_has_too_many_parts_to_be_taken_apart_is_left_as_it_is() -> None:
    many = limits.PATH_PARTS + 1
    tool = '{"name":"b","outputSchema":{"type":"array"}}'
    listed = f'{{"tools":[{",".join([tool] * many)}]}}'
    assert for_legacy("tools/list", listed) == listed
    assert questions.read_urls(error(-32042, {"elicitations": [{"url": "u"}] * many})) == []
    assert envelope.maybe_members(b"{%b}" % b",".join(b'"%d":1' % number for number in range(many))) is None


def test_every_level_has_its_place() -> None:
    assert modern_results.LEVELS == (
        "debug",
        "info",
        "notice",
        "warning",
        "error",
        "critical",
        "alert",
        "emergency",
    )


def test_metas_of_odd_shapes() -> None:
    assert json.loads(modern_results.discover_result({}))["capabilities"] == {}
    assert modern_results.meta_of(said(id=1, method="m")) == {}
    assert modern_results.meta_of(said(id=1, method="m", params={})) == {}
    assert modern_results.meta_of(said(id=1, method="m", params={"_meta": 5})) == {}
    sent = modern_results.for_legacy_upstream(said(id=1, method="m", params={"a": 1}))
    assert json.loads(sent)["params"] == {"a": 1}
    roots = members(b'{"io.modelcontextprotocol/clientCapabilities":{"roots":{"x":1}}}')
    assert json.loads(modern_results.opening(roots, b"{}"))["capabilities"] == {"roots": {"x": 1}}
    asked = said(id=1, method="m", params={"_meta": {"io.modelcontextprotocol/logLevel": "info"}})
    assert not modern_results.wants(asked, heard(method="notifications/message"))
    refusal = modern_results.maybe_wrong_meta(said(id=1, method="m"))
    assert refusal is not None
    assert json.loads(refusal)["error"]["message"] == "Unsupported protocol version"
    version = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    refusal = modern_results.maybe_wrong_meta(said(id=1, method="m", params={"_meta": version}))
    assert refusal is not None
    assert json.loads(refusal)["error"]["message"] == (
        "Invalid params: _meta must name io.modelcontextprotocol/clientCapabilities"
    )


def test_the_patience_with_questions() -> None:
    assert (questions.ROUNDS, questions.ROUND_SECONDS, questions.STATE_SECONDS) == (10, 600.0, 60.0)
    call = questions.Call(said(id=1, method="tools/call"), b"1")
    assert (call.round, call.due, call.state_until, call.was_resent) == (0, 0.0, 0.0, False)
    assert questions.read_urls(heard(id=1, error={"code": -32042, "message": "m"})) == []
    (one,) = questions.read_urls(error(-32042, {"elicitations": [{"mode": "x", "url": "u"}]}))
    assert (one.method, json.loads(one.params)) == ("elicitation/create", {"mode": "x", "url": "u"})
    odd = questions.Question("k", "sampling/createMessage", b"[]", b"")
    assert questions.maybe_undeclared(odd, members(b'{"sampling":{}}')) is None
    assert (parked.PARKED_MOST, parked.PARKED_IN_ALL, parked.HELD_PROGRESS) == (64, 256, 64)
    assert (parked.GATHER_SECONDS, parked.GATHER_MOST, parked.OUTSIDE_SECONDS) == (0.02, 0.1, 30.0)


def test_a_new_call_is_not_parked_and_has_no_time() -> None:
    call = parked.ParkedCall(said(id=1, method="tools/call"), b"1", b"1")
    assert (call.gather_until, call.gather_most, call.expires, call.is_unsent) == (0.0, 0.0, 0.0, False)
    assert not call.is_parked
    call.state = "s"
    assert call.is_parked
    assert call.binding == parked.binding_of(call.asked)
    assert len(call.binding) == 16
    # A name and a value that together are the same text are not the same call.
    one = parked.binding_of(said(id=1, method="m", params={"a": 1, "b": 2}))
    assert one != parked.binding_of(said(id=1, method="m", params={"a": 12}))


def test_each_list_has_its_own_listeners() -> None:
    every = members(
        b'{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true}}'
    )
    for kind in ("tools", "prompts", "resources"):
        room = listeners.Listeners(new_id())
        params = {"notifications": {f"{kind}ListChanged": True}}
        (told,) = room.open(said(id=1, method="subscriptions/listen", params=params), every)
        assert json.loads(told.raw)["params"]["notifications"] == {f"{kind}ListChanged": True}  # type: ignore[union-attr]
        for other in ("tools", "prompts", "resources"):
            steps = room.hear(heard(method=f"notifications/{other}/list_changed"))
            assert steps is not None
            assert len(steps) == (other == kind)
        nothing = listeners.Listeners(new_id())
        (told,) = nothing.open(said(id=1, method="subscriptions/listen", params=params), {})
        assert json.loads(told.raw)["params"]["notifications"] == {}  # type: ignore[union-attr]
    room = listeners.Listeners(new_id())
    room.open(
        said(id=1, method="subscriptions/listen", params={"notifications": {"toolsListChanged": True}}), every
    )
    odd = room.hear(heard(method="notifications/tools/list_changed", params={"_meta": 5}))
    assert odd is not None
    assert json.loads(odd[0].raw)["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": 1}  # type: ignore[union-attr]


def test_one_listen_request_for_all_that_is_offered() -> None:
    room = Subscriptions(new_id())
    assert room.next_due() == 0.0
    assert room.tick(b"{}", 5.0) == []
    room.offer(
        members(
            b'{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true}}'
        )
    )
    (opened,) = room.begin(b'{"m":1}')
    sent = json.loads(opened.raw)  # type: ignore[union-attr]
    assert sent["method"] == "subscriptions/listen"
    assert sent["params"] == {
        "notifications": {
            "toolsListChanged": True,
            "promptsListChanged": True,
            "resourcesListChanged": True,
        },
        "_meta": {"m": 1},
    }
    assert room.is_current(b'"own-1"')
    assert not room.is_current(b'"own-2"')

    def acknowledged(token: str, *uris: str) -> Any:
        meta = {"io.modelcontextprotocol/subscriptionId": token}
        params = {"notifications": {"resourceSubscriptions": list(uris)}, "_meta": meta}
        steps = room.acknowledged(heard(method="notifications/subscriptions/acknowledged", params=params))
        return [json.loads(step.raw) for step in steps]  # type: ignore[union-attr]

    assert acknowledged("own-1") == []  # nothing was lost, nobody waits
    room.change(said(id=7, method="resources/subscribe", params={"uri": "u"}), b"{}", 1.0)
    room.change(said(id=8, method="resources/subscribe", params={"uri": "v"}), b"{}", 1.0)
    assert acknowledged("own-2", "u") == []  # of one that another has taken the place of
    granted, refused, *gone = acknowledged("own-3", "u")
    assert (granted["id"], granted["result"]) == (7, {})
    assert (refused["id"], refused["error"]["code"]) == (8, -32602)
    assert [one["params"]["requestId"] for one in gone] == ["own-1", "own-2"]
    assert room.next_due() == 0.0
    assert room.owns(b'"own-1"')
    assert room.ended(b'"own-1"', 2.0) == []
    assert room.next_due() == 0.0  # it ended by our own wish
    (changed,) = room.change(said(id=9, method="resources/unsubscribe", params={"uri": "u"}), b"{}", 3.0)
    assert "resourceSubscriptions" not in json.loads(changed.raw)["params"]["notifications"]  # type: ignore[union-attr]
    assert acknowledged("own-4")[0]["result"] == {}
    room.change(said(id=10, method="resources/subscribe", params={"uri": "w"}), b"{}", 4.0)
    (failed,) = room.ended(b'"own-5"', 5.0)
    assert json.loads(failed.raw)["error"]["message"] == "The upstream does not answer subscriptions"  # type: ignore[union-attr]
    room.tick(b"{}", 6.0)
    told = acknowledged("own-6", "w")
    assert [one.get("method") for one in told][-3:] == [
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
    ]
    (missing,) = room.change(said(id=9, method="resources/subscribe"), b"{}", 7.0)
    assert json.loads(missing.raw)["error"]["message"] == "Invalid params: uri is missing"  # type: ignore[union-attr]


def test_a_session_has_at_most_a_thousand_subscriptions() -> None:
    room = Subscriptions(new_id())

    def change(word: str, uri: str) -> Any:
        message = said(id=1, method=f"resources/{word}subscribe", params={"uri": uri})
        (step,) = room.change(message, b"{}", 0.0)
        return json.loads(step.raw)  # type: ignore[union-attr]

    for number in range(limits.SUBSCRIPTIONS):
        assert change("", f"u:{number}")["method"] == "subscriptions/listen"
    assert change("", "one:more")["error"] == {"code": -32603, "message": "Too many subscriptions"}
    assert change("", "u:0")["result"] == {}  # it is there already
    assert change("un", "u:0")["method"] == "subscriptions/listen"
    assert change("", "one:more")["method"] == "subscriptions/listen"


def test_a_subscriptions_edges() -> None:
    room = Subscriptions(new_id())
    assert not room.is_current(b'"own-1"')
    room.offer(members(b'{"tools":{"listChanged":true}}'))
    room.begin(b"{}")
    assert not room.owns(b'"zz"')
    assert not room.owns(None)

    def acknowledged(**more: Any) -> Any:
        steps = room.acknowledged(heard(method="notifications/subscriptions/acknowledged", **more))
        return [json.loads(step.raw) for step in steps]  # type: ignore[union-attr]

    def subscribe(token: int, uri: str, now: float) -> None:
        room.change(said(id=token, method="resources/subscribe", params={"uri": uri}), b"{}", now)

    assert acknowledged() == []
    assert acknowledged(params={"notifications": 5}) == []
    subscribe(1, "u", 0.0)
    subscribe(2, "v", 5.0)
    assert room.next_due() == 10.0
    first, second = room.tick(b"{}", 10.0)  # what is not acknowledged ends for all that wait for it
    assert [json.loads(one.raw)["id"] for one in (first, second)] == [1, 2]  # type: ignore[union-attr]
    subscribe(3, "w", 20.0)
    refused, *gone = acknowledged(params={})
    assert refused["error"] == {"code": -32602, "message": "The upstream does not take this subscription"}
    assert {one["method"] for one in gone} == {"notifications/cancelled"}
    assert room.ended(b'"own-1"', 21.0) == []
    assert not room.owns(b'"own-1"')
    # The one under way is lost while somebody waits, and both come due at once.
    room.ended(b'"own-4"', 30.0)
    assert not room.is_current(b'"own-4"')
    assert not room.owns(b'"own-4"')
    room.tick(b"{}", 31.0)
    subscribe(4, "x", 32.0)
    told = acknowledged(params={"notifications": {"resourceSubscriptions": ["x"]}})
    assert [
        one.get("id", one.get("method")) for one in told if one.get("method") != "notifications/cancelled"
    ] == [
        4,
        "notifications/tools/list_changed",
    ]
    assert not [one for one in acknowledged() if one.get("method") == "notifications/tools/list_changed"]
    room.ended(b'"own-6"', 40.0)
    assert room.next_due() == 41.0  # as after the first loss
    subscribe(5, "y", 40.5)
    room.ended(b'"own-7"', 41.0)
    assert room.next_due() == 43.0


def test_a_refused_change_and_a_lost_listen_are_both_told() -> None:
    room = Subscriptions(new_id())
    room.offer(members(b'{"tools":{"listChanged":true}}'))
    room.begin(b"{}")
    room.ended(b'"own-1"', 0.0)
    room._changes.append(
        subscriptions._Change(said(id=1, method="resources/subscribe", params={"uri": "u"}), "u", 1.0)
    )
    refused, opened = room.tick(b"{}", 1.0)
    assert "error" in json.loads(refused.raw)  # type: ignore[union-attr]
    assert json.loads(opened.raw)["method"] == "subscriptions/listen"  # type: ignore[union-attr]
