"""Guards, rules and interceptors in order; what fails never lets a reviewed message through."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenes import (
    NotedEffects,
    Pass,
    Refuse,
    answer,
    client,
    context,
    error_of,
    finish,
    interceptor,
    request,
    response,
    rule,
    send,
    session,
    upstream,
)

from penstock import limits
from penstock.policy.rules.interceptor import ALLOWED, EffectVerdict
from penstock.policy.rules.interceptor_config import build
from penstock.policy.verdict import FORWARD
from penstock.wire.mcp.message import Kind

CALL = request("tools/call", {"name": "t", "arguments": {"a": 1}})
OTHER = request("prompts/get", {"name": "p"})
ASK = {"webhook": {"url": "https://example.org/ask", "wait": True}}


def _named(id: str, *actions: object, **more: Any) -> dict[str, object]:
    return rule(*actions, **{"id": id, **more})


# --- order and disagreement ---------------------------------------------------------------------------


def test_rules_run_by_priority_then_in_the_order_of_the_file_and_see_what_came_before() -> None:
    box = interceptor(
        _named("b", {"set_param": {"field": "x", "value": "${param.x}b"}}, priority=5),
        _named("a", {"set_param": {"field": "x", "value": "${param.x}a"}}, priority=5),
        _named("z", {"set_param": {"field": "x", "value": "z"}}, priority=9),
    )
    outcome = send(box, CALL)
    assert json.loads(outcome.verdict.raw or b"")["params"]["x"] == "zba"
    assert outcome.rules == ("z", "b", "a")


def test_fail_fast_stops_at_the_first_block() -> None:
    effects = NotedEffects()
    rules = [
        _named("a", {"block": "first"}, priority=2),
        _named("b", {"block": "second"}, {"metric": "heard"}),
    ]
    assert error_of(send(interceptor(*rules, effects=effects), CALL))["message"] == "first"
    assert effects.metrics == {}


def test_without_fail_fast_all_are_heard_and_the_first_block_stands() -> None:
    effects = NotedEffects()
    rules = [
        _named("a", {"block": "first"}, priority=2),
        _named("b", {"block": "second"}, {"metric": "heard"}),
    ]
    box = interceptor(*rules, effects=effects, chain={"fail_fast": False})
    assert error_of(send(box, CALL))["message"] == "first"
    assert effects.metrics == {"heard": 1}


def test_allow_ends_the_chain_for_lower_priorities() -> None:
    box = interceptor(_named("yes", "allow", priority=2), _named("no", {"block": "x"}, priority=1))
    assert send(box, CALL).verdict == Pass(CALL.raw, False)


@pytest.mark.parametrize("ids", [("a", "b"), ("b", "a")])
def test_block_wins_over_an_allow_of_the_same_priority(ids: tuple[str, str]) -> None:
    box = interceptor(_named(ids[0], "allow"), _named(ids[1], {"block": "x"}))
    assert isinstance(send(box, CALL).verdict, Refuse)


def test_without_fail_fast_block_wins_over_any_allow() -> None:
    rules = [_named("yes", "allow", priority=2), _named("no", {"block": "x"}, priority=1)]
    assert isinstance(send(interceptor(*rules, chain={"fail_fast": False}), CALL).verdict, Refuse)


def test_a_rule_that_is_switched_off_does_nothing() -> None:
    box = interceptor(_named("a", {"block": "x"}, enabled=False))
    assert not box.watches("tools/call", "client")
    assert send(interceptor(_named("a", {"block": "x"}), enabled=False), CALL).verdict == Pass(
        CALL.raw, False
    )


# --- attention ----------------------------------------------------------------------------------------


THOUSAND = [
    _named(f"r{n}", {"block": "x"}, when=[{"method_equals": f"vendor/m{n}"}, {"param_exists": "a"}])
    for n in range(1000)
]


@settings(max_examples=20)
@given(st.binary(max_size=8), st.sampled_from([" ", "\t", ""]))
def test_a_thousand_rules_that_do_not_name_the_method_change_nothing(value: bytes, blank: str) -> None:
    box = _thousand
    text = json.dumps(value.hex()).encode()
    raw = b'{"jsonrpc":"2.0",%b"id":1.0,"method":"tools/call","params":{"v":%b}}' % (blank.encode(), text)
    assert not box.watches("tools/call", "client")
    assert box.on_client(client(raw), context(of=client(raw))) is FORWARD


_thousand = interceptor(*THOUSAND)


def test_rules_are_found_by_what_they_say_about_the_method() -> None:
    box = interceptor(
        _named("in", {"block": "x"}, when=[{"method_in": ["a/b", "a/c"]}]),
        _named(
            "any", {"block": "x"}, when=[{"any": [{"method_equals": "d"}, {"all": [{"method_equals": "e"}]}]}]
        ),
        _named("prefix", {"block": "x"}, when=[{"method_starts_with": "p/"}, {"param_exists": "q"}]),
        _named("not", {"block": "x"}, when=[{"not": {"method_matches": "^[a-z]"}}]),
        _named("both", {"block": "x"}, when=[{"method_equals": "f"}], direction="both"),
        _named("none", {"block": "x"}, when=[{"method_equals": "g"}, {"method_equals": "h"}]),
    )
    watched = {
        m
        for m in ("a/b", "a/c", "a/d", "d", "e", "f", "g", "h", "p/x", "X", None)
        if box.watches(m, "client")
    }
    assert watched == {"a/b", "a/c", "d", "e", "f", "p/x", "X", None}
    assert [m for m in ("a/b", "f", "X") if box.watches(m, "upstream")] == ["f"]


def test_rules_without_a_method_apply_to_all_of_their_direction() -> None:
    box = interceptor(rule({"block": "x"}))
    assert box.watches("anything", "client")
    assert not box.watches("anything", "upstream")


def test_rules_that_speak_of_results_look_at_the_upstream() -> None:
    box = interceptor(rule({"block": "x"}, when=[{"not": {"result_exists": "ok"}}]))
    assert not box.watches("tools/call", "client")
    assert box.watches("tools/call", "upstream")


def test_many_unknown_methods_do_not_fill_the_memory() -> None:
    box = interceptor(rule({"block": "x"}, when=[{"method_equals": "a"}]))
    for number in range(3000):
        assert not box.watches(f"x{number}", "client")
    assert len(box._plans) <= 1024


@pytest.mark.parametrize(
    "method",
    ["Resources/Read", "resources//read", "resources/read ", "resources\\read", "resources/re\u200bad"],
)
def test_another_spelling_of_a_method_is_no_way_round(method: str) -> None:
    box = interceptor(rule({"block": "no"}, when=[{"method_equals": "prompts/get"}]))
    assert error_of(send(box, request(method, {"uri": "file:///x"})))["code"] == -32601
    assert error_of(send(box, request("PROMPTS/get", {"name": "p"})))["code"] == -32601
    note = client(b'{"jsonrpc":"2.0","method":"Resources/Read"}')
    assert isinstance(send(box, note).verdict, Refuse)
    for passed in ("resources/read", "resources/readme", "vendor/READ", "Ping"):
        assert isinstance(send(box, request(passed, {"uri": "file:///x"})).verdict, Pass)


# --- failures -----------------------------------------------------------------------------------------


def explode(value: object) -> object:
    raise RuntimeError("secret")


BOOM = {"transform": f"{__name__}:explode"}


@pytest.mark.parametrize(
    ("message", "chain", "classes", "passes"),
    [
        (CALL, {}, {}, False),
        (OTHER, {}, {}, True),
        (OTHER, {"default_action": "block"}, {}, False),
        (OTHER, {}, {"prompts/*": "review"}, False),
        (CALL, {}, {"tools/call": "log"}, True),
        (CALL, {}, {"tools/*": "log", "tools/call": "review"}, False),
    ],
)
def test_a_rule_that_fails_blocks_what_is_reviewed(
    message: Any, chain: Any, classes: Any, passes: bool
) -> None:
    box = interceptor(rule(BOOM), chain=chain, classes=classes)
    outcome = send(box, message)
    assert isinstance(outcome.verdict, Pass) is passes
    if not passes:
        assert error_of(outcome)["data"] == {"rule": "r", "action": "error"}
        assert "secret" not in error_of(outcome)["message"]


def test_rules_after_a_failed_one_are_still_heard() -> None:
    box = interceptor(_named("a", BOOM), _named("b", {"block": "heard"}))
    assert error_of(send(box, OTHER))["message"] == "heard"


def test_a_failure_after_a_block_takes_nothing_back() -> None:
    assert error_of(send(interceptor(rule({"block": "x"}, BOOM)), OTHER))["message"] == "x"


def test_a_failed_rule_on_a_response_of_a_reviewed_request_does_not_let_it_through() -> None:
    box = interceptor(rule(BOOM, direction="upstream"))
    assert "error" in json.loads(answer(box, response({"a": 1}), CALL).verdict.raw or b"")
    assert answer(box, response({"a": 1}), OTHER).verdict.raw == response({"a": 1}).raw


@pytest.mark.parametrize(("message", "passes"), [(CALL, False), (OTHER, True)])
def test_a_chain_that_takes_too_long_blocks_what_is_reviewed(message: Any, passes: bool) -> None:
    effects = NotedEffects()
    effects.times_out = True
    outcome = send(interceptor(rule(ASK), effects=effects), message)
    assert isinstance(outcome.verdict, Pass) is passes
    if not passes:
        assert error_of(outcome)["data"]["action"] == "timeout"


def test_a_message_with_too_much_to_look_at_is_blocked() -> None:
    raw = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{'
        + b'"a":1,' * 60_000
        + b'"b":1}}}'
    )
    box = interceptor(rule({"log": "x"}, when=[{"param_equals": {"field": "arguments.a", "value": 2}}]))
    assert error_of(send(box, client(raw)))["data"]["action"] == "error"


CROWD = b'"\\u0061":1,' * (limits.PATH_PARTS + 1)


@pytest.mark.parametrize(
    "made",
    [
        rule({"block": "no"}, when=[{"param_equals": {"field": "arguments.b", "value": 1}}]),
        rule({"remove_param": "arguments.b"}),
        rule({"set_param": {"field": "arguments.b", "value": 2}}),
    ],
    ids=["condition", "remove", "set"],
)
def test_a_crowd_opens_nothing_in_a_method_that_is_not_reviewed(made: Any) -> None:
    raw = b'{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"arguments":{%b"b":1}}}' % CROWD
    assert error_of(send(interceptor(made), client(raw)))["data"]["action"] == "error"


# --- default_action -----------------------------------------------------------------------------------


def test_default_action_block_stops_what_no_rule_speaks_about_whatever_its_method() -> None:
    only_read = _named("read", "allow", when=[{"param_equals": {"field": "name", "value": "read"}}])
    box = interceptor(only_read, chain={"default_action": "block"})
    assert isinstance(send(box, request("tools/call", {"name": "read"})).verdict, Pass)
    for message in (CALL, OTHER, request("tools/list"), request("vendor/thing")):
        assert error_of(send(box, message))["data"]["rule"] == "default_action"
    assert isinstance(answer(box, response({}), CALL).verdict, Pass)
    for vital in (request("ping"), request("initialize"), request("server/discover")):
        assert isinstance(send(box, vital).verdict, Pass)
    news = client(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    assert isinstance(send(box, news).verdict, Pass)


def test_default_action_can_be_told_by_class() -> None:
    box = interceptor(chain={"default_action": {"review": "block", "log": "allow"}})
    assert error_of(send(box, CALL))["data"]["rule"] == "default_action"
    assert isinstance(send(box, OTHER).verdict, Pass)
    box = interceptor(chain={"default_action": {"log": "block"}})
    assert isinstance(send(box, CALL).verdict, Pass)
    assert error_of(send(box, OTHER))["data"]["rule"] == "default_action"
    _, faults = build({"chain": {"default_action": {"reviewed": "block"}}})
    assert "reviewed" in str(faults[0])


def test_transport_rules_see_frames_and_stand_beside_the_others() -> None:
    frames = [{"id": "f", "conditions": [{"text_matches": "forbidden"}], "actions": [{"block": "bytes"}]}]
    box = interceptor(
        rule({"block": "method"}, when=[{"method_equals": "prompts/get"}]), transport_rules=frames
    )
    assert send(box, OTHER).reason == "method"
    assert send(box, request("v/any", {"a": ["forbidden"]})).reason == "bytes"
    assert isinstance(send(box, request("v/any", {"a": ["fine"]})).verdict, Pass)
    for condition in ({"method_equals": "x"}, {"param_exists": "a"}, {"tool": "t"}):
        _, faults = build({"transport_rules": [rule({"block": "x"}, when=[condition])]})
        assert "frames are not read" in str(faults[0])
    _, faults = build({"transport_rules": [rule({"set_param": {"field": "a", "value": 1}})]})
    assert "frames are not read" in str(faults[0])
    _, faults = build({"rules": [rule({"block": "x"})], "transport_rules": [rule({"block": "x"})]})
    assert str(faults[0]) == 'transport_rules[0].id: the id "r" is taken; see rules[0]'


def test_an_id_may_be_a_number_or_a_uuid() -> None:
    for id, shown in ((7, "7"), ("0b0e7e6c-7a51-4f0e-9f57-0a5fd0c2a7de",) * 2):
        assert send(interceptor(rule({"block": "x"}, id=id)), CALL).blocked_by == shown
    for bad in (True, 1.5, [], ""):
        _, faults = build({"rules": [rule({"block": "x"}, id=bad)]})
        assert faults


def test_a_fork_without_a_place_goes_to_the_configured_shadow() -> None:
    effects = NotedEffects()
    shadow = {"url": "https://shadow.example/mcp", "headers": {"A": "b"}}
    box = interceptor(rule({"fork": {"copies": 2}}), effects=effects, shadow=shadow)
    assert isinstance(send(box, CALL).verdict, Pass)
    _, spec, raw = effects.notes[0]
    assert (spec.url, spec.copies, spec.headers, raw) == (shadow["url"], 2, (("A", "b"),), CALL.raw)
    _, faults = build({"rules": [rule({"fork": {"copies": 2}})]})
    assert str(faults[0]).endswith('needs "url" or "command", or a "shadow" beside the rules')
    _, faults = build({"shadow": {"copies": 2}})
    assert faults


def test_a_rule_that_only_some_readers_see_hold_speaks_for_nobody() -> None:
    ok = {"param_matches": {"field": "arguments.path", "pattern": "^/ok"}}
    box = interceptor(rule({"log": "seen"}, when=[ok]), chain={"default_action": "block"})
    call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{%b}}}'
    assert isinstance(send(box, client(call % b'"path":"/ok"')).verdict, Pass)
    for arguments in (b'"path":"/ok","path":"/etc"', b'"Path":"/ok"'):
        assert error_of(send(box, client(call % arguments)))["data"]["rule"] == "default_action"


def test_default_action_block_stops_a_reviewed_request_that_has_no_id() -> None:
    box = interceptor(chain={"default_action": "block"})
    reading = b'{"jsonrpc":"2.0","method":"resources/read","params":{"uri":"file:///x"}}'
    assert isinstance(send(box, client(reading)).verdict, Refuse)
    news = b'{"jsonrpc":"2.0","method":"notifications/x"}'
    box = interceptor(chain={"default_action": "block"}, classes={"notifications/*": "review"})
    assert isinstance(send(box, client(news)).verdict, Pass)


# --- side by side -------------------------------------------------------------------------------------


def test_parallel_asks_side_by_side_and_decides_in_order() -> None:
    effects = NotedEffects()
    rules = [_named(id, ASK, when=[{"method_equals": "tools/call"}]) for id in "abc"]
    box = interceptor(*rules, effects=effects, chain={"parallel": True})
    assert send(box, CALL).verdict == Pass(CALL.raw, False)
    assert effects.side_by_side == [3]
    assert [note[2]["rule"] for note in effects.notes] == ["a", "b", "c"]
    effects.verdict = EffectVerdict("block", "no")
    assert send(box, CALL).blocked_by == "a"


def test_parallel_asks_nobody_who_would_not_have_been_asked() -> None:
    effects = NotedEffects()
    rules = [
        _named("a", ASK, priority=4),
        _named("b", {"rate_limit": {"limit": 0 + 1, "window": "1s"}}, priority=3),
        _named("c", ASK, priority=2),
    ]
    send(interceptor(*rules, effects=effects, chain={"parallel": True}), CALL)
    assert effects.side_by_side == [1, 1]


def test_parallel_asks_again_when_an_answer_changed_the_message() -> None:
    effects = NotedEffects()
    effects.verdict = EffectVerdict("allow", set_params=b'{"name":"u"}')
    rules = [_named("a", ASK), _named("b", ASK)]
    outcome = send(interceptor(*rules, effects=effects, chain={"parallel": True}), CALL)
    asked = [(note[2]["rule"], note[2]["message"]["params"]["name"]) for note in effects.notes]
    assert asked == [("a", "t"), ("b", "t"), ("b", "u")]
    assert json.loads(outcome.verdict.raw or b"")["params"] == {"name": "u"}


class Slow:
    def __init__(self, config: dict[str, Any]) -> None:
        self.verdict = EffectVerdict(**config)

    async def review(self, message: Any, context: Any, effects: Any) -> EffectVerdict:
        effects.notes.append(("slow", message.raw))
        return self.verdict


@pytest.mark.parametrize("parallel", [False, True])
def test_general_interceptors_come_last_and_decide_the_same_side_by_side(parallel: bool) -> None:
    effects = NotedEffects()
    slow = {"class": f"{__name__}:Slow"}
    box = interceptor(
        rule({"set_param": {"field": "name", "value": "u"}}),
        interceptors=[slow, {**slow, "config": {"decision": "block", "reason": "late"}}, slow],
        chain={"parallel": parallel},
        effects=effects,
    )
    outcome = send(box, CALL)
    assert error_of(outcome)["message"] == "late"
    assert error_of(outcome)["data"] == {
        "rule": f"{__name__}:Slow (interceptors[1])",
        "action": f"{__name__}:Slow",
    }
    assert all(b'"name":"u"' in raw for _, raw in effects.notes)
    assert effects.side_by_side == ([3] if parallel else [])


# --- interceptors of the user's own -------------------------------------------------------------------


class Own:
    senders = ("client",)

    def __init__(self, config: dict[str, Any]) -> None:
        self.word = config["word"]

    def review(self, message: Any, context: Any, effects: Any) -> EffectVerdict | None:
        if self.word == "crash":
            raise KeyError("secret")
        if self.word == "nonsense":
            return "yes"  # type: ignore[return-value]
        if self.word == "change":
            return EffectVerdict(set_params=b'{"changed":true}')
        return ALLOWED if self.word == "fine" else EffectVerdict("block", self.word)


def _own(word: str) -> dict[str, Any]:
    return {"class": f"{__name__}:Own", "config": {"word": word}}


@pytest.mark.parametrize(
    ("word", "reason"), [("no way", "no way"), ("crash", "Blocked because"), ("nonsense", "Blocked because")]
)
def test_a_class_of_the_users_own_blocks_or_fails(word: str, reason: str) -> None:
    box = interceptor(method_interceptors={"tools/call": _own(word)})
    assert error_of(send(box, CALL))["message"].startswith(reason)
    assert not box.watches("prompts/get", "client")
    assert not box.watches("tools/call", "upstream")


def test_rules_see_what_a_method_interceptor_changed() -> None:
    box = interceptor(
        rule({"block": "seen"}, when=[{"param_equals": {"field": "changed", "value": True}}]),
        method_interceptors={"tools/call": _own("change")},
    )
    assert error_of(send(box, CALL))["message"] == "seen"


def test_without_fail_fast_a_method_interceptor_does_not_end_the_chain() -> None:
    effects = NotedEffects()
    box = interceptor(
        rule({"metric": "heard"}),
        method_interceptors={"tools/call": _own("no")},
        chain={"fail_fast": False},
        effects=effects,
    )
    assert error_of(send(box, CALL))["message"] == "no"
    assert effects.metrics == {"heard": 1}


def test_general_interceptors_may_choose_their_methods() -> None:
    box = interceptor(interceptors=[{**_own("no"), "methods": ["a"], "direction": "upstream"}])
    assert box.watches("a", "upstream")
    assert not box.watches("a", "client")
    assert not box.watches("b", "upstream")


# --- directions, requests of the upstream, frames ------------------------------------------------------


SAMPLING = {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 5}


def test_a_blocked_request_of_the_upstream_is_answered_to_the_upstream() -> None:
    box = interceptor(
        rule(
            {"block": "no sampling"}, when=[{"method_equals": "sampling/createMessage"}], direction="upstream"
        )
    )
    message = upstream(
        json.dumps(
            {"jsonrpc": "2.0", "id": 7, "method": "sampling/createMessage", "params": SAMPLING}
        ).encode()
    )
    outcome = finish(box.on_upstream(message, context(direction="upstream", of=message)))
    assert isinstance(outcome.verdict, Refuse)
    assert json.loads(outcome.verdict.raw or b"")["id"] == 7


def _asking(params: object = SAMPLING) -> dict[str, Any]:
    return {
        "resultType": "input_required",
        "inputRequests": {"who": {"method": "sampling/createMessage", "params": params}},
        "requestState": "s",
    }


def test_a_request_within_a_result_is_judged_like_one_that_comes_alone() -> None:
    when = [{"method_equals": "sampling/createMessage"}]
    box = interceptor(rule({"block": "no sampling"}, when=when, direction="upstream"))
    assert box.watches("tools/call", "upstream")
    outcome = answer(box, response(_asking()), CALL)
    assert isinstance(outcome.verdict, Pass)
    assert error_of(outcome)["message"] == "no sampling"
    assert answer(box, response({"content": []}), CALL).verdict == Pass(response({"content": []}).raw, False)


@pytest.mark.parametrize("method", ["tasks/get", "vendor/ask", "prompts/list"])
def test_a_request_is_judged_within_the_result_of_any_method(method: str) -> None:
    no = rule(
        {"block": "no sampling"}, when=[{"method_equals": "sampling/createMessage"}], direction="upstream"
    )
    box = interceptor(no)
    to = request(method, {"taskId": "t"})
    assert error_of(answer(box, response(_asking()), to))["message"] == "no sampling"
    odd = json.dumps({"jsonrpc": "2.0", "id": 1, "result": _asking()}).replace(
        "inputRequests", "InputRequests"
    )
    assert error_of(answer(box, upstream(odd.encode()), to))["message"] == "no sampling"


def test_a_request_within_a_result_is_changed_in_its_place() -> None:
    when = [{"method_equals": "sampling/createMessage"}]
    box = interceptor(
        rule({"set_param": {"field": "maxTokens", "value": 1}}, when=when, direction="upstream")
    )
    message = response(_asking())
    outcome = answer(box, message, CALL)
    assert outcome.verdict == Pass(message.raw.replace(b'"maxTokens":5', b'"maxTokens":1'), True)


def test_an_exchange_remembers_what_was_done_to_it() -> None:
    box = interceptor(rule({"set_param": {"field": "name", "value": "u"}}))
    where = context(of=CALL)
    finish(box.on_client(CALL, where))
    assert where.exchange is not None
    assert (where.exchange.intercepted, where.exchange.modified) == (True, ("r",))
    assert b'"u"' in where.exchange.request.raw


def test_state_carries_from_a_response_to_the_next_request() -> None:
    box = interceptor(
        _named("mark", {"set_state": {"key": "tainted", "value": True}}, when=[{"result_exists": "content"}]),
        _named("stop", {"block": "tainted"}, when=[{"state_equals": {"key": "tainted", "value": True}}]),
    )
    state = session()
    assert isinstance(send(box, CALL, state).verdict, Pass)
    answer(box, response({"content": []}), CALL, state)
    assert error_of(send(box, CALL, state))["message"] == "tainted"


def test_in_mode_transport_rules_see_frames_of_no_method() -> None:
    box = interceptor(rule({"block": "too old"}, when=[{"session_age_greater_than": "1m"}]), mode="transport")
    assert box.watches("anything", "client")
    assert isinstance(send(box, CALL).verdict, Pass)
    late = finish(box.on_client(CALL, context(of=CALL, now=200.0)))
    assert error_of(late)["message"] == "too old"
    both = interceptor(rule({"metric": "frames"}, direction="both"), mode="transport")
    brought = response({"taskId": "t", "status": "completed", "result": {"content": []}})
    for method in ("anything", "tasks/get", "TOOLS/call"):
        assert answer(both, brought, request(method, {"taskId": "t"})).verdict == Pass(brought.raw, False)


def test_a_session_counts_by_method_what_came_and_what_was_blocked() -> None:
    state = session()
    state.count("tools/call", Kind.REQUEST)
    state.count("tools/call", Kind.RESPONSE)
    state.count("tools/call", Kind.RESPONSE, is_error=True)
    send(interceptor(rule({"block": "x"})), CALL, state)
    stats = state.stats["tools/call"]
    assert (stats.requests, stats.responses, stats.errors, stats.blocked) == (1, 1, 1, 1)
    for number in range(limits.SESSION_METHODS + 10):
        state.count(f"v/{number}", Kind.NOTIFICATION)
    assert len(state.stats) <= limits.SESSION_METHODS + 1
    assert state.stats["(other)"].notifications >= 10
    assert state.message_count == 3 + limits.SESSION_METHODS + 10
