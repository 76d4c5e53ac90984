"""Every action does what it says, and nothing else."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from scenes import (
    NotedEffects,
    Outcome,
    Pass,
    Refuse,
    answer,
    client,
    context,
    error_of,
    interceptor,
    request,
    response,
    rule,
    send,
    session,
)
from scenes import finish as finished

from penstock.policy.rules.actions import ACTIONS
from penstock.policy.rules.interceptor import EffectVerdict, ForkSpec
from penstock.policy.verdict import Forward
from penstock.wire.mcp.message import Kind

RAW = b'{ "jsonrpc":"2.0", "method":"tools/call","id": 1.0 ,"params":{"name":"t" , "arguments":{"a":1e0}} }'
CALL = client(RAW)
NOTE = client(b'{"jsonrpc":"2.0","method":"notifications/x","params":{}}')


def _after(
    *actions: object, message: Any = CALL, effects: NotedEffects | None = None, **more: Any
) -> Outcome:
    return send(interceptor(rule(*actions, **more), effects=effects), message)


def test_allow_lets_it_pass_untouched() -> None:
    for spelling in ("allow", {"allow": None}, {"allow": {}}, {"allow": True}):
        assert _after(spelling).verdict == Pass(RAW, False)


def test_block_answers_with_the_reason_the_rule_and_the_action() -> None:
    outcome = _after({"block": "No ${param.name}"})
    assert outcome.verdict == Refuse(
        b'{"jsonrpc":"2.0","id":1.0,"error":'
        b'{"code":-32001,"message":"No t","data":{"rule":"r","action":"block"}}}',
        "r",
        "block",
    )
    assert outcome.blocked_by == "r"
    assert error_of(_after({"block": {"reason": "x", "code": -5}}))["code"] == -5


def test_a_blocked_notification_is_dropped_and_a_blocked_response_becomes_an_error() -> None:
    assert _after({"block": "x"}, message=NOTE).verdict == Refuse(None, "r", "block")
    box = interceptor(rule({"block": "x"}, direction="upstream"))
    outcome = answer(box, response({"a": 1}, id="q"), request())
    assert isinstance(outcome.verdict, Pass)
    assert json.loads(outcome.verdict.raw)["id"] == "q"
    assert error_of(outcome)["data"] == {"rule": "r", "action": "block"}


def test_an_opaque_rule_hides_like_an_unknown_tool() -> None:
    error = error_of(_after({"block": "secret reason"}, opaque=True))
    assert error == {"code": -32601, "message": "Tool not found: t"}
    other = _after({"block": "secret"}, opaque=True, message=request("prompts/get", {"name": "x"}))
    assert error_of(other) == {"code": -32601, "message": "Method not found"}


def test_delay_holds_the_message() -> None:
    effects = NotedEffects()
    assert _after({"delay": "2s"}, effects=effects).verdict == Pass(RAW, False)
    assert effects.notes == [("pause", 2.0)]


def test_set_param_changes_one_value_and_no_other_byte() -> None:
    verdict = _after({"set_param": {"field": "arguments.a", "value": "${method}"}}).verdict
    assert verdict == Pass(RAW.replace(b"1e0", b'"tools/call"'), True)
    verdict = _after({"set_param": {"field": "arguments.b", "value": [1]}}).verdict
    assert verdict == Pass(RAW.replace(b"1e0", b'1e0,"b":[1]'), True)
    bare = client(b'{"jsonrpc":"2.0","id":1,"method":"m"}')
    verdict = _after({"set_param": {"field": "a.b", "value": 1}}, message=bare).verdict
    assert verdict == Pass(b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":{"b":1}}}', True)


def test_set_param_to_what_it_is_already_changes_nothing() -> None:
    assert _after({"set_param": {"field": "name", "value": "t"}}).verdict == Pass(RAW, False)


def test_set_param_where_there_is_no_place_never_lets_a_reviewed_call_through() -> None:
    outcome = _after({"set_param": {"field": "name.x", "value": 1}})
    assert error_of(outcome)["data"] == {"rule": "r", "action": "error"}
    assert "place" not in error_of(outcome)["message"]


def test_set_param_cannot_make_a_message_that_two_readers_see_differently() -> None:
    assert error_of(_after({"set_param": {"field": "Name", "value": 1}}))["data"]["action"] == "error"


def test_remove_param_takes_all_of_them() -> None:
    raw = b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":{"x":1,"y":2,"\\u0078":3}}}'
    assert _after({"remove_param": "a.x"}, message=client(raw)).verdict.raw == raw.replace(
        b'"x":1,"y":2,"\\u0078":3', b'"y":2'
    )
    assert _after({"remove_param": "none"}).verdict == Pass(RAW, False)


def test_set_result_changes_a_result_and_leaves_errors_and_requests() -> None:
    box = interceptor(rule({"set_result": {"field": "content.0.text", "value": "hidden"}}))
    outcome = answer(box, response({"content": [{"text": "x"}], "n": 1}), request())
    assert json.loads(outcome.verdict.raw or b"")["result"] == {"content": [{"text": "hidden"}], "n": 1}
    failure = response(error={"code": 1, "message": "m"})
    assert answer(box, failure, request()).verdict == Pass(failure.raw, False)
    whole = interceptor(rule({"set_result": {"value": {}}}))
    assert json.loads(answer(whole, response([1]), request()).verdict.raw or b"")["result"] == {}


def test_inject_error_answers_requests_and_replaces_responses() -> None:
    action = {"inject_error": {"code": -7, "message": "down", "data": {"a": 1}}}
    assert error_of(_after(action)) == {"code": -7, "message": "down", "data": {"a": 1}}
    outcome = answer(interceptor(rule(action, direction="upstream")), response({}), request())
    assert error_of(outcome)["code"] == -7
    assert isinstance(outcome.verdict, Pass)


def shout(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def crash(value: Any) -> Any:
    raise ValueError("secret detail")


def test_transform_gives_the_value_to_a_function() -> None:
    action = {"transform": {"call": f"{__name__}:shout", "field": "name"}}
    assert _after(action).verdict == Pass(RAW.replace(b'"t"', b'"T"'), True)
    assert _after({"transform": f"{__name__}:shout"}).verdict == Pass(RAW, False)  # a mapping: left alone


MASKED = {"transform": {"call": "penstock.policy.masks:mask_emails", "field": "arguments"}}


@pytest.mark.parametrize(
    ("arguments", "after"),
    [
        (b'{"m":"x@y.de","m":"ok"}', b'{"m":"ok"}'),
        (b'{"a":[{"m":"x@y.de" , "m":1}]}', b'{"a":[{"m":1}]}'),
        (b'{"m":"\\u0078@y.de","h":"\\ud800"}', b'{"m":"[masked]","h":"\\ud800"}'),
        (b'{"h" : "\\ud800\\u0041"}', b'{"h" : "\\ud800\\u0041"}'),
        (b'{ "n" : 1e400, "N":1.0 }', b'{ "n" : 1e400, "N":1.0 }'),
        (b'{"m":"x@y.de","n":-1e400}', b'{"m":"[masked]","n":-1%b}' % (b"0" * 400)),
        (b'{"m":"x@y.de","n":%b}' % (b"9" * 5000), b'{"m":"[masked]","n":1%b}' % (b"0" * 400)),
        (b'{"m":"x@y.de","n":%b}' % (b"9" * 50), b'{"m":"[masked]","n":%b}' % (b"9" * 50)),
    ],
)
def test_a_transform_lets_nothing_pass_that_it_has_not_seen(arguments: bytes, after: bytes) -> None:
    raw = b'{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"t","arguments":%b}}'
    verdict = send(interceptor(rule(MASKED)), client(raw % arguments)).verdict
    assert verdict == Pass(raw % after, after != arguments)


def test_a_transform_that_raises_blocks_and_says_nothing_of_why(caplog: pytest.LogCaptureFixture) -> None:
    outcome = _after({"transform": f"{__name__}:crash"})
    assert "secret" not in str(error_of(outcome))
    assert "secret detail" in caplog.text


def test_log_says_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        _after({"log": {"level": "warn", "message": "saw ${param.name}"}})
    assert "Rule r: saw t" in caplog.text


def test_metric_counts() -> None:
    effects = NotedEffects()
    _after({"metric": "calls"}, {"metric": {"name": "cost", "value": 2.5}}, effects=effects)
    assert effects.metrics == {"calls": 1, "cost": 2.5}


def test_webhook_tells_and_does_not_wait() -> None:
    effects = NotedEffects()
    box = interceptor(rule({"webhook": "https://example.org/hook"}), effects=effects)
    assert isinstance(box.on_client(CALL, context(of=CALL)), Forward)
    ((kind, hook, body),) = effects.notes
    assert (kind, hook.url) == ("notify", "https://example.org/hook")
    assert body["message"]["params"]["name"] == "t"
    assert (body["rule"], body["direction"], body["session_id"]) == ("r", "client", "s1")
    quiet = NotedEffects()
    _after({"webhook": {"url": "https://example.org/", "include_message": False}}, effects=quiet)
    assert "message" not in quiet.notes[0][2]


@pytest.mark.parametrize(
    "action", [{"webhook": {"url": "https://e.org/", "wait": True}}, {"run_script": "/bin/x"}]
)
def test_somebody_else_decides(action: object) -> None:
    effects = NotedEffects()
    assert _after(action, effects=effects).verdict == Pass(RAW, False)
    effects.verdict = EffectVerdict("block", "not now")
    assert error_of(_after(action, effects=effects))["message"] == "not now"
    effects.verdict = EffectVerdict("allow", set_params=b'{"name":"u"}')
    assert _after(action, effects=effects).verdict == Pass(
        RAW.replace(b'{"name":"t" , "arguments":{"a":1e0}}', b'{"name":"u"}'), True
    )
    for wrong in (ValueError("boom"), EffectVerdict("allow", set_params=b"nonsense"), EffectVerdict("maybe")):  # type: ignore[arg-type]
        effects.verdict = wrong
        assert error_of(_after(action, effects=effects))["data"]["action"] == "error"


def test_an_action_that_waits_makes_the_chain_wait_and_only_that() -> None:
    box = interceptor(rule({"delay": "1s"}, when=[{"method_equals": "tools/call"}]))
    pending = box.on_client(CALL, context(of=CALL))
    assert not isinstance(pending, Forward)
    assert finished(pending, CALL).verdict == Pass(RAW, False)
    other = request("ping")
    assert isinstance(box.on_client(other, context(of=other)), Forward)


def test_fork_copies_what_the_client_sends() -> None:
    effects = NotedEffects()
    assert _after({"fork": "https://shadow.example/mcp"}, effects=effects).verdict == Pass(RAW, False)
    assert effects.notes == [("fork", ForkSpec("https://shadow.example/mcp"), RAW)]


def test_rate_limit_blocks_what_is_too_much_for_each_key() -> None:
    box = interceptor(rule({"rate_limit": {"key": "${session_id}:${method}", "limit": 2, "window": "1m"}}))
    state = session()
    assert [isinstance(send(box, CALL, state).verdict, Pass) for _ in range(3)] == [True, True, False]
    assert error_of(send(box, CALL, state))["data"] == {"rule": "r", "action": "rate_limit"}
    assert isinstance(send(box, CALL, session(id="s2")).verdict, Pass)
    # A separator in a value makes no key that is somebody else's.
    assert isinstance(send(box, request("call"), session(id="s1:tools/call")).verdict, Pass)


def test_set_state_is_there_for_the_next_message() -> None:
    state = session()
    box = interceptor(
        rule({"set_state": {"key": "n", "add": 1}}, {"set_state": {"key": "last", "value": "${param.name}"}})
    )
    send(box, CALL, state)
    send(box, CALL, state)
    assert state.values == {"n": 2, "last": "t"}


def test_all_actions_of_a_rule_run_even_after_a_block(caplog: pytest.LogCaptureFixture) -> None:
    effects = NotedEffects()
    with caplog.at_level(logging.INFO):
        outcome = _after(
            {"block": "no"},
            {"log": "it tried"},
            {"metric": "tries"},
            {"webhook": {"url": "https://e.org", "wait": True}},
            effects=effects,
        )
    assert error_of(outcome)["message"] == "no"
    assert "it tried" in caplog.text
    assert effects.metrics == {"tries": 1}
    assert effects.notes == []  # nobody is asked about what is blocked anyway


def test_approve_asks_a_person_with_the_shortest_time_and_a_block_wins() -> None:
    rules = interceptor(
        rule({"approve": {"note": "${param.name}", "timeout": "9s"}}, id="a"), rule("approve", id="b")
    )
    said = rules.on_client(CALL, context())
    assert isinstance(said, Forward)
    assert said.approval is not None
    assert (said.approval.rule, said.approval.seconds, said.approval.note) == ("a", 9.0, "t")
    assert error_of(_after({"approve": {}}, {"block": "no"}))["message"] == "no"


@pytest.mark.parametrize("of_first", [True, False])
@pytest.mark.parametrize("of_second", [True, False])
def test_a_call_is_kept_alive_if_any_rule_that_asks_says_so(of_first: bool, of_second: bool) -> None:
    rules = interceptor(
        rule({"approve": {"timeout": "9s", "keep_alive": of_first}}, id="a"),
        rule({"approve": {"timeout": "20s", "keep_alive": of_second}}, id="b"),
    )
    said = rules.on_client(CALL, context())
    assert isinstance(said, Forward)
    assert said.approval is not None
    assert (said.approval.rule, said.approval.seconds) == ("a", 9.0)
    assert said.approval.keeps_alive is (of_first or of_second)


def test_no_action_is_left_out_of_these_tests() -> None:
    others = (
        "test_rule_cache.py",
        "test_text_actions.py",
        "test_flow_conditions.py",
        "test_faults_on_purpose.py",
    )
    files = (Path(__file__), *(Path(__file__).with_name(name) for name in others))
    source = "".join(file.read_text() for file in files)
    assert [name for name in ACTIONS if f'"{name}"' not in source] == []
    assert NOTE.kind is Kind.NOTIFICATION


@pytest.mark.parametrize(
    "spellings",
    [
        [
            b'{"user":"bob"}',
            b'{"user":"\\u0062ob"}',
            b'{"user":"bob\\u0000x"}',
            b'{"user":"x1","user":"bob"}',
        ],
        [b'{"user":"bob"}', b'{"user":"bob","user":"x2"}', b'{"USER":"x3","user":"bob"}'],
        [b'{"user":1}', b'{"user":1.0}', b'{"user":10e-1}', b'{"user":1.00000000000000000001}'],
        [b'{"user":[1, "a"]}', b'{"user":[1.0,"\\u0061"]}', b'{"user":[ 1,"a"]}'],
        [b'{"user":"bob"}', b"{" + b",".join(b'"user":"%d"' % n for n in range(70)) + b',"user":"bob"}'],
    ],
)
def test_no_spelling_of_a_value_is_a_new_count(spellings: list[bytes]) -> None:
    limited = rule({"rate_limit": {"limit": 1, "window": "1m", "key": "${param.arguments.user}"}})
    box = interceptor(limited)
    raw = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":%b}}'
    verdicts = [send(box, client(raw % arguments)).verdict for arguments in spellings]
    assert [isinstance(verdict, Pass) for verdict in verdicts] == [True] + [False] * (len(spellings) - 1)
    assert isinstance(send(box, client(raw % b'{"user":"somebody else"}')).verdict, Pass)
