"""Clients are kept to the catalog, whatever they call and however they spell it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate_messages import client
from penstock.policy.patterns.patterns import compile_pattern
from penstock.policy.tools import tool_gate
from penstock.policy.tools.catalog import ToolCatalog, build_catalog, view
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.tools.upstream_tools import UpstreamTools
from penstock.policy.verdict import FORWARD, HOLD, Answer, Drop, Verdict, Why

CATALOG = build_catalog([b'{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}'], ToolFilter())
HIDING = ToolFilter(deny=(compile_pattern("hidden", "deny list"),))


def _judge(raw: bytes, catalog: ToolCatalog | None = CATALOG) -> Verdict:
    message = client(raw)
    return tool_gate.judge(message, catalog)


def _call(name: str) -> bytes:
    return (
        b'{"jsonrpc":"2.0","id":"i","method":"tools/call","params":{"name":%b}}' % json.dumps(name).encode()
    )


def _error(verdict: Verdict) -> tuple[int, str]:
    assert isinstance(verdict, Answer)
    error = json.loads(verdict.raw)["error"]
    return error["code"], error["message"]


def test_what_is_in_the_catalog_passes() -> None:
    assert _judge(_call("echo")) is FORWARD


@given(st.text(st.characters(exclude_categories=["Cs"])).filter(lambda name: name != "echo"))
def test_every_other_name_gets_the_same_answer(name: str) -> None:
    verdict = _judge(_call(name))
    assert isinstance(verdict, Answer)
    plain = _judge(_call("p"))
    assert isinstance(plain, Answer)
    shown = json.loads(verdict.raw)["error"]["message"].removeprefix("Tool not found: ")
    assert shown.isprintable()
    assert len(shown) <= 128
    assert verdict.raw == plain.raw.replace(
        b': p"', b": " + json.dumps(shown, ensure_ascii=False).encode()[1:]
    )


@pytest.mark.parametrize(
    "name", ["Echo", "echo ", "echo\0", "e\u200bcho", "ｅcho", "ECHO", "./echo", "echo\u202e"]
)
def test_look_alikes_are_not_the_tool(name: str) -> None:
    assert _error(_judge(_call(name)))[0] == -32601


@pytest.mark.parametrize(
    "params", [b"null", b"[]", b'["echo"]', b"5", b"{}", b'{"name":5}', b'{"name":["echo"]}']
)
def test_a_call_that_names_no_tool_has_invalid_params(params: bytes) -> None:
    raw = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}' % params
    assert _error(_judge(raw))[0] == -32602


def test_a_call_without_params_has_invalid_params() -> None:
    assert _error(_judge(b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}'))[0] == -32602


@pytest.mark.parametrize("method", ["tools/call", "tools/list"])
def test_tool_requests_without_an_id_are_dropped(method: str) -> None:
    raw = b'{"jsonrpc":"2.0","method":"%b","params":{"name":"echo"}}' % method.encode()
    assert isinstance(_judge(raw), Drop)


@pytest.mark.parametrize("name", ["echo", "write_file", "nobody"])
@pytest.mark.parametrize("method", ["tools/call", "tools/list"])
def test_tool_requests_with_an_id_of_null_are_refused_whatever_the_tool(method: str, name: str) -> None:
    raw = b'{"jsonrpc":"2.0","id":null,"method":"%b","params":{"name":"%b"}}'
    verdict = _judge(raw % (method.encode(), name.encode()))
    assert isinstance(verdict, Answer)
    assert verdict.is_malformed
    reason = f"Invalid request: {method} with an id of null".encode()
    assert verdict.raw == b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"%b"}}' % reason


@pytest.mark.parametrize(
    "method",
    [
        *(
            "Tools/Call",
            "tools/call ",
            " tools/call",
            "tools//call",
            "/tools/call",
            "tools/call/",
            "tools\\call",
            "t ools/call",
            "tools/call\x7f",
            "to\x1eols/call",
        ),
        *("tools／call", "to\u200bols/call", "tools/call\0", "TOOLS/LIST", "tools/list\u3000", "ｔools/list"),
    ],
)
def test_a_method_that_merely_looks_gated_is_unknown(method: str) -> None:
    text = json.dumps(method).encode()
    assert _error(_judge(b'{"jsonrpc":"2.0","id":1,"method":%b}' % text)) == (-32601, "Method not found")
    assert isinstance(_judge(b'{"jsonrpc":"2.0","method":%b}' % text), Drop)


@pytest.mark.parametrize(
    "method",
    ["ping", "x/tools.call", "tools/call2", "prompts/get", "logging/setLevel", "notifications/tools/x"],
)
def test_other_methods_are_not_the_gates_business(method: str) -> None:
    assert _judge(b'{"jsonrpc":"2.0","id":1,"method":"%b"}' % method.encode(), None) is FORWARD


def test_tool_requests_wait_for_the_catalog() -> None:
    assert _judge(_call("echo"), None) is HOLD
    assert _judge(_call("write"), None) is HOLD
    assert _judge(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', None) is HOLD


def test_the_list_comes_from_the_catalog() -> None:
    for params in (b"", b',"params":{}', b',"params":{"cursor":null}', b',"params":{"_meta":{"x":1}}'):
        verdict = _judge(b'{"jsonrpc":"2.0","id":1.0,"method":"tools/list"%b}' % params)
        assert isinstance(verdict, Answer)
        assert verdict.raw == b'{"jsonrpc":"2.0","id":1.0,"result":%b}' % CATALOG.result


@pytest.mark.parametrize(
    "params", [b'{"cursor":""}', b'{"cursor":"x"}', b'{"cursor":5}', b"null", b"[]", b'"x"']
)
def test_a_cursor_that_cannot_be_ours_is_refused(params: bytes) -> None:
    raw = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":%b}' % params
    assert _error(_judge(raw))[0] == -32602


def test_an_upstream_without_tools_answers_in_its_own_words() -> None:
    verdict = _judge(
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
        view(UpstreamTools(refusal=b'{"code":1.0}'), ToolFilter()),
    )
    assert verdict == Answer(b'{"jsonrpc":"2.0","id":1,"error":{"code":1.0}}')


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'"method":"tools/call"', (-32602, "Invalid params: params must be an object")),
        (b'"method":"tools/call","params":[]', (-32602, "Invalid params: params must be an object")),
        (b'"method":"tools/call","params":{}', (-32602, "Invalid params: name must be a string")),
        (b'"method":"tools/call","params":{"name":5}', (-32602, "Invalid params: name must be a string")),
        (
            b'"method":"tools/call","params":{"name":"\\ud800"}',
            (-32602, "Invalid params: name must be a string"),
        ),
        (b'"method":"tools/list","params":[]', (-32602, "Invalid params: params must be an object")),
        (b'"method":"tools/list","params":{"cursor":"x"}', (-32602, "Invalid params: unknown cursor")),
        (b'"method":"Tools/list"', (-32601, "Method not found")),
        (b'"method":"tools/call","params":{"name":"x"}', (-32601, "Tool not found: x")),
    ],
)
def test_a_refusal_says_what_was_wrong(body: bytes, error: tuple[int, str]) -> None:
    verdict = _judge(b'{"jsonrpc":"2.0","id":1,%b}' % body)
    assert _error(verdict) == error
    assert isinstance(verdict, Answer)
    assert not verdict.is_list
    # A tool that is not there is an answer like any other; what breaks the protocol is told apart over HTTP.
    assert verdict.code == (0 if "Tool not" in error[1] else error[0])


def test_the_tool_list_counts_as_the_upstreams_own_answer() -> None:
    verdict = _judge(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
    assert isinstance(verdict, Answer)
    assert verdict.is_list
    assert verdict.code == 0


def test_what_is_dropped_is_dropped_for_a_reason_that_can_be_logged() -> None:
    for method, why in (
        ("tools/call", "tools/call without an id"),
        ("tools/list", "tools/list without an id"),
        ("TOOLS/call", "a notification whose method merely looks like a tool method"),
    ):
        assert _judge(b'{"jsonrpc":"2.0","method":"%b"}' % method.encode()) == Drop(
            Why("tool filter", "drop", why)
        )


def test_a_response_of_the_clients_is_not_the_gates_business() -> None:
    assert _judge(b'{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}', None) is FORWARD


@pytest.mark.parametrize(
    "method",
    ["TOOLS/CALL", "Tools/list", "ｔools/list", "\ttools/call", "tools/\u200dcall", "ｔｏｏｌｓ/list"],
)
def test_no_shortcut_lets_a_look_alike_through(method: str) -> None:
    verdict = _judge(b'{"jsonrpc":"2.0","id":1,"method":%b}' % json.dumps(method).encode())
    assert _error(verdict) == (-32601, "Method not found")


def test_a_denied_call_says_who_denied_it_and_why() -> None:
    verdict = _judge(_call("gone"))
    assert isinstance(verdict, Answer)
    assert (verdict.word, verdict.why) == (
        "deny",
        Why(tool_gate.STAGE, "deny", "Tool not found: gone", CATALOG.deny_code),
    )
    verdict = _judge(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}')
    assert isinstance(verdict, Answer)
    text = "Invalid params: name must be a string"
    assert (verdict.word, verdict.why) == ("refuse", Why(tool_gate.STAGE, "refuse", text, -32602))


def test_people_hear_once_of_each_tool_that_was_denied_and_no_more_are_remembered_than_may_be(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "penstock")
    told: dict[tuple[int, str], None] = {}
    monkeypatch.setattr(tool_gate, "_told", told)
    monkeypatch.setattr(tool_gate, "_MOST_TOLD", 2)
    for name in ("a", "a", "b", "c", "b", "a"):
        _judge(_call(name))
        assert len(told) <= 2
    assert [(one.name, one.getMessage()) for one in caplog.records] == [
        ("penstock", f"Denied a call of {name}: it is not among the tools that clients may use.")
        for name in ("a", "b", "c", "a")
    ]
    told.clear()
    _judge(_call("x" * 1_000_000))
    assert all(len(name) < 1_000 for _, name in told)
