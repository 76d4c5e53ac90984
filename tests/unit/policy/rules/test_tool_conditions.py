"""Rules can name tools, and go by what the upstream says of them."""

from __future__ import annotations

from typing import Any

import pytest
from scenes import Outcome, Pass, answer, client, context, interceptor, request, response, rule, send, session

from penstock import limits
from penstock.policy.rules.interceptor import Session
from penstock.policy.rules.interceptor_config import build

LIST = request("tools/list", {})
NOT_READING = {"not": {"tool_annotation": "readOnlyHint"}}


def _tool(name: str, **annotations: object) -> dict[str, object]:
    entry: dict[str, object] = {"name": name, "inputSchema": {"type": "object"}}
    return {**entry, "annotations": annotations} if annotations else entry


def _call(name: str) -> Any:
    return request("tools/call", {"name": name, "arguments": {}})


def _passes(outcome: Outcome) -> bool:
    return isinstance(outcome.verdict, Pass) and outcome.blocked_by is None


@pytest.mark.parametrize(
    ("given", "called", "holds"),
    [
        ("read_file", "read_file", True),
        ("read_file", "read_files", False),
        ("read_*", "read_file", True),
        ("read_*", "unread_file", False),
        ("*", "ns/any.thing", True),
        ("*_file", "a\nb_file", True),
        ("[dr]m", "rm", True),
        ("[!d]m", "dm", False),
        ("a.c", "abc", False),
        (["x", "y*"], "yes", True),
    ],
)
def test_a_tool_is_named_or_matched_from_end_to_end(given: object, called: str, holds: bool) -> None:
    box = interceptor(rule({"block": "no"}, when=[{"tool": given}]))
    assert _passes(send(box, _call(called))) is not holds


def test_a_tool_is_also_that_of_the_answer() -> None:
    box = interceptor(rule({"block": "no"}, when=[{"tool": "rm"}], direction="upstream"))
    assert not _passes(answer(box, response({"content": []}), _call("rm")))
    assert _passes(answer(box, response({"content": []}), _call("mv")))


def test_a_rule_about_tools_watches_calls_and_nothing_else() -> None:
    box = interceptor(rule({"block": "no"}, when=[{"tool": "rm"}]))
    assert box.watches("tools/call", "client")
    assert not box.watches("prompts/get", "client")


@pytest.mark.parametrize("given", ["", [], [""], [1], 3, {"name": "x"}, "[z-a]*"])
def test_what_names_no_tool_is_a_fault(given: object) -> None:
    _, faults = build({"rules": [rule({"block": "no"}, when=[{"tool": given}])]})
    assert faults


def _listed(*tools: object) -> tuple[Any, Session]:
    box = interceptor(rule({"block": "no"}, when=[{"method_equals": "tools/call"}, NOT_READING]))
    state = session()
    assert _passes(answer(box, response({"tools": list(tools)}), LIST, state))
    return box, state


def test_calls_are_judged_by_the_annotations_in_the_list_that_the_session_saw() -> None:
    box, state = _listed(_tool("look", readOnlyHint=True), _tool("write", readOnlyHint=False), _tool("none"))
    assert _passes(send(box, _call("look"), state))
    assert not _passes(send(box, _call("write"), state))
    assert not _passes(send(box, _call("none"), state))  # the default of MCP is false


def test_what_was_in_no_list_may_be_anything() -> None:
    box, state = _listed(_tool("look", readOnlyHint=True))
    assert not _passes(send(box, _call("other"), state))
    assert not _passes(send(box, _call("look"), session()))  # another session's list is not known to this one
    dangerous = {"tool_annotation": {"name": "destructiveHint", "value": True}}
    blocking = interceptor(rule({"block": "no"}, when=[dangerous]))
    assert not _passes(send(blocking, _call("other")))


def test_a_tool_that_is_listed_twice_or_unclearly_is_not_known() -> None:
    box, state = _listed(_tool("look", readOnlyHint=True), _tool("look", readOnlyHint=True))
    assert not _passes(send(box, _call("look"), state))
    raw = (
        b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"look","inputSchema":{"type":"object"},'
        b'"annotations":{"readOnlyHint":true,"readOnlyHint":false}}]}}'
    )
    from scenes import upstream

    answer(box, upstream(raw), LIST, state)
    assert state.annotations == {"look": None}
    assert not _passes(send(box, _call("look"), state))


def test_what_is_remembered_of_a_list_is_bounded() -> None:
    tools = [_tool(f"t{number}", readOnlyHint=True) for number in range(limits.SESSION_TOOLS + 1)]
    box, state = _listed(*tools)
    assert len(state.annotations) == limits.SESSION_TOOLS
    assert _passes(send(box, _call("t0"), state))
    assert not _passes(send(box, _call(f"t{limits.SESSION_TOOLS}"), state))
    box, state = _listed(
        _tool("long", readOnlyHint=True, title="x" * limits.ANNOTATIONS_BYTES),
        _tool("n" * (limits.NAME_LENGTH + 1), readOnlyHint=True),
    )
    assert state.annotations == {"long": None}
    assert not _passes(send(box, _call("long"), state))


def test_pages_add_up_and_a_new_list_counts() -> None:
    box, state = _listed(_tool("look", readOnlyHint=True))
    answer(box, response({"tools": [_tool("see", readOnlyHint=True)]}), LIST, state)
    assert _passes(send(box, _call("look"), state))
    assert _passes(send(box, _call("see"), state))
    answer(box, response({"tools": [_tool("look", readOnlyHint=False)]}), LIST, state)
    assert not _passes(send(box, _call("look"), state))


def test_nobody_watches_lists_unless_a_rule_asks_for_annotations() -> None:
    assert not interceptor(rule({"block": "no"}, when=[{"tool": "x"}])).watches("tools/list", "upstream")
    assert _listed()[0].watches("tools/list", "upstream")


def test_a_name_with_two_readings_is_judged_by_both() -> None:
    message = client(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm\\u0000x"}}')
    box = interceptor(rule({"block": "no"}, when=[{"tool": "rm"}]))
    assert not _passes(send(box, message))
    allowing = interceptor(
        rule("allow", when=[{"tool": "rm*"}], priority=1), rule({"block": "no"}, id="rest")
    )
    assert _passes(send(allowing, message))
    exact = interceptor(rule("allow", when=[{"tool": "rm"}], priority=1), rule({"block": "no"}, id="rest"))
    assert not _passes(send(exact, message))
    assert context() is not None
