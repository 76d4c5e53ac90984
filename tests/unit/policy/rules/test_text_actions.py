"""Texts are replaced and cut where the rule says, and every other byte stays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenes import Pass, answer, client, error_of, interceptor, request, response, rule, send, upstream

from penstock.policy.rules.interceptor_config import build


def _sent(action: dict[str, object], arguments: bytes) -> bytes:
    raw = (
        b'{"jsonrpc":"2.0", "id":1.0, "method":"tools/call","params":{"name":"t","arguments":%b}}' % arguments
    )
    verdict = send(interceptor(rule(action)), client(raw)).verdict
    assert isinstance(verdict, Pass)
    head, tail = raw.split(arguments)
    assert verdict.raw.startswith(head)
    assert verdict.raw.endswith(tail)
    return verdict.raw[len(head) : len(verdict.raw) - len(tail)]


def _replace(**given: object) -> dict[str, object]:
    return {"replace": given}


@pytest.mark.parametrize(
    ("action", "before", "after"),
    [
        (
            _replace(field="arguments.a", pattern="b+", **{"with": "X"}),
            b'{ "a" : "abba" }',
            b'{ "a" : "aXa" }',
        ),
        (_replace(field="arguments.a", pattern="b"), b'{"a":"abc"}', b'{"a":"ac"}'),
        (_replace(field="arguments.a", pattern="x"), b'{"a":"\\u0061"}', b'{"a":"\\u0061"}'),
        (
            _replace(field="arguments.*", pattern="b"),
            b'{"a":"b","c":["b"],"d":"b"}',
            b'{"a":"","c":["b"],"d":""}',
        ),
        (
            _replace(pattern="b", **{"with": '"\\1$0'}),
            b'{"b":["b",{"c":"b"}]}',
            b'{"b":["\\"\\\\1$0",{"c":"\\"\\\\1$0"}]}',
        ),
        (
            _replace(field="arguments.a", pattern="b", **{"with": "${method}"}),
            b'{"a":"b"}',
            b'{"a":"tools/call"}',
        ),
        (
            _replace(field="arguments.a", pattern="b", **{"with": "c"}),
            b'{"a":"b","A":"b"}',
            b'{"a":"c","A":"c"}',
        ),
        (_replace(field="arguments.a", pattern="1"), b'{"a":1}', b'{"a":1}'),
        (_replace(field="arguments.a", pattern="."), '{"a":"日本"}'.encode(), b'{"a":""}'),
        (
            {"truncate": {"field": "arguments.a", "bytes": 3}},
            b'{"a":"abcdef", "b":"abcdef"}',
            b'{"a":"abc", "b":"abcdef"}',
        ),
        (
            {"truncate": {"field": "arguments.a", "bytes": 4, "note": "..."}},
            '{"a":"日本"}'.encode(),
            '{"a":"日..."}'.encode(),
        ),
        (
            {"truncate": {"field": "arguments.a", "bytes": 6}},
            b'{"a":"\\u65e5\\u672c"}',
            b'{"a":"\\u65e5\\u672c"}',
        ),
        ({"truncate": {"field": "arguments.a", "bytes": "1kB"}}, b'{"a":"abc"}', b'{"a":"abc"}'),
        ({"truncate": 2}, b'{"long name":["abc",{"x":"abc"}]}', b'{"long name":["ab",{"x":"ab"}]}'),
    ],
)
def test_only_the_text_that_is_meant_changes(action: dict[str, object], before: bytes, after: bytes) -> None:
    assert _sent(action, before) == after


def test_texts_that_hold_json_are_looked_into() -> None:
    before = json.dumps({"a": '{"b": ["\\u0065vil", 1.0]}'}).encode()
    after = _sent(_replace(pattern="evil", **{"with": "good"}), before)
    assert json.loads(after)["a"] == '{"b": ["good", 1.0]}'
    blocking = interceptor(rule({"block": "no"}, when=[{"text_matches": "evil"}]))
    message = request(params={"arguments": json.loads(before)})
    assert not isinstance(send(blocking, message).verdict, Pass)


def test_results_are_changed_too() -> None:
    box = interceptor(
        rule(
            {"replace": {"field": "content.*.text", "pattern": "[0-9]{3}", "with": "#"}},
            {"truncate": {"field": "content.*.text", "bytes": 6, "note": " [cut]"}},
            direction="upstream",
        )
    )
    raw = (
        b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type" : "text","text":"a 123 and more"}], "n":1.0}}'
    )
    verdict = answer(box, upstream(raw), request(params={"name": "t"})).verdict
    assert verdict.raw == raw.replace(b"a 123 and more", b"a # an [cut]")


@given(text=st.text(max_size=40), size=st.integers(1, 20))
def test_what_is_cut_is_the_beginning_of_what_it_was(text: str, size: int) -> None:
    before = json.dumps({"a": text}).encode()
    after = json.loads(_sent({"truncate": {"field": "arguments.a", "bytes": size}}, before))["a"]
    assert text.startswith(after)
    assert len(after.encode("utf-8", "surrogatepass")) <= size
    if len(text.encode("utf-8", "surrogatepass")) <= size:
        assert after == text
    else:
        assert len((after + text[len(after)]).encode("utf-8", "surrogatepass")) > size


@pytest.mark.parametrize("pattern", ["x*", "^", "", "(a|)"])
def test_a_pattern_that_is_found_in_no_text_at_all_is_a_fault(pattern: str) -> None:
    _, faults = build({"rules": [rule({"replace": {"field": "a", "pattern": pattern, "with": "y"}})]})
    assert faults


def _blocked(message: Any, **more: object) -> dict[str, Any]:
    box = interceptor(rule({"block": {"reason": "not ${param.name}", "as": "result"}}, **more))
    raw = send(box, message).verdict.raw
    assert raw is not None
    answered: dict[str, Any] = json.loads(raw)
    return answered


def test_a_blocked_call_can_be_answered_with_a_result_that_a_model_reads() -> None:
    result = {"content": [{"type": "text", "text": "not rm"}], "isError": True}
    assert _blocked(request("tools/call", {"name": "rm"}))["result"] == result


def test_a_modern_call_gets_a_modern_result() -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    answered = _blocked(request("tools/call", {"name": "rm", "_meta": meta}))
    assert answered["result"]["resultType"] == "complete"


def test_what_is_no_call_is_answered_with_an_error_all_the_same() -> None:
    assert _blocked(request("prompts/get", {"name": "p"}))["error"]["message"] == "not p"


def test_an_opaque_rule_says_nothing_but_that_there_is_no_such_tool() -> None:
    assert _blocked(request("tools/call", {"name": "rm"}), opaque=True)["error"]["code"] == -32601


def test_a_blocked_answer_can_become_such_a_result() -> None:
    box = interceptor(rule({"block": {"reason": "secret", "as": "result"}}, direction="upstream"))
    outcome = answer(
        box, response({"content": [{"type": "text", "text": "x"}]}), request(params={"name": "t"})
    )
    assert isinstance(outcome.verdict, Pass)
    assert json.loads(outcome.verdict.raw)["result"]["isError"] is True
    assert outcome.blocked_by == "r"


def test_a_result_has_no_code() -> None:
    _, faults = build({"rules": [rule({"block": {"reason": "x", "as": "result", "code": 1}})]})
    assert faults
    box = interceptor(rule({"block": {"reason": "x", "as": "error", "code": 7}}))
    assert error_of(send(box, request()))["code"] == 7
