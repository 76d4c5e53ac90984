"""An answer is given twice only where it would have been the same twice."""

from __future__ import annotations

import json
from typing import Any

import pytest
from scenes import (
    NotedEffects,
    Outcome,
    Pass,
    Refuse,
    context,
    error_of,
    finish,
    interceptor,
    request,
    response,
    rule,
    session,
)

from penstock.policy.rules.interceptor import Context, Interceptor, Session
from penstock.wire.mcp.message import Message

CACHE = rule(
    {"cache": {"key": "${method}:${params_hash}", "ttl": "300s"}}, when=[{"method_equals": "prompts/list"}]
)
LIST = {"prompts": [{"name": "p"}]}


def _exchange(
    box: Interceptor, message: Message, result: Any, state: Session | None = None
) -> tuple[Outcome, Context]:
    where = context(state or session(), "client", message)
    outcome = finish(box.on_client(message, where), message)
    if isinstance(outcome.verdict, Pass):
        back = Context(where.session, "upstream", where.now, where.exchange)
        finish(box.on_upstream(result if isinstance(result, Message) else response(result), back))
    return outcome, where


def test_the_second_request_is_answered_from_the_first() -> None:
    effects = NotedEffects()
    box = interceptor(CACHE, effects=effects)
    assert box.watches("prompts/list", "upstream")
    first, _ = _exchange(box, request("prompts/list", {"a": 1}), LIST)
    assert first.verdict == Pass(request("prompts/list", {"a": 1}).raw, False)
    again, _ = _exchange(box, request("prompts/list", {"a": 1}, id="x"), LIST)
    assert again.verdict == Refuse(
        b'{"jsonrpc":"2.0","id":"x","result":{"prompts":[{"name":"p"}]}}', "r", "cache"
    )
    assert again.blocked_by is None
    assert [ttl for _, ttl in effects.stored.values()] == [300.0]


@pytest.mark.parametrize(
    ("params", "state"),
    [
        ({"a": 2}, {}),
        ({"a": 1}, {"principal": "bob"}),
        ({"a": 1}, {"upstream": "other"}),
    ],
)
def test_other_params_rights_or_upstreams_share_nothing(params: object, state: dict[str, str]) -> None:
    box = interceptor(CACHE)
    _exchange(box, request("prompts/list", {"a": 1}), LIST)
    outcome, _ = _exchange(box, request("prompts/list", params), LIST, session(**state))
    assert isinstance(outcome.verdict, Pass)


def test_another_rule_set_shares_nothing() -> None:
    effects = NotedEffects()
    _exchange(interceptor(CACHE, effects=effects), request("prompts/list"), LIST)
    other = interceptor(CACHE, {**CACHE, "id": "z"}, effects=effects)
    assert isinstance(_exchange(other, request("prompts/list"), LIST)[0].verdict, Pass)


@pytest.mark.parametrize(
    "result",
    [
        response(error={"code": 1, "message": "m"}),
        {"prompts": [], "nextCursor": "c"},
        {"resultType": "input_required", "inputRequests": {}},
        {"content": [], "isError": True},
        {"task": {"taskId": "t"}},
        {"prompts": [], "ttlMs": 0},
        {"prompts": [], "ttlMs": "soon"},
    ],
)
def test_what_is_not_complete_and_successful_is_not_kept(result: Any) -> None:
    effects = NotedEffects()
    _exchange(interceptor(CACHE, effects=effects), request("prompts/list"), result)
    assert effects.stored == {}


def test_an_answer_is_kept_no_longer_than_it_says() -> None:
    effects = NotedEffects()
    _exchange(interceptor(CACHE, effects=effects), request("prompts/list"), {**LIST, "ttlMs": 1500})
    assert [ttl for _, ttl in effects.stored.values()] == [1.5]


def test_a_private_answer_is_for_its_own_session_alone() -> None:
    box = interceptor(CACHE)
    private = {**LIST, "cacheScope": "private"}
    _exchange(box, request("prompts/list"), private, session(id="a"))
    assert isinstance(_exchange(box, request("prompts/list"), private, session(id="b"))[0].verdict, Pass)
    assert isinstance(_exchange(box, request("prompts/list"), private, session(id="a"))[0].verdict, Refuse)


def test_what_is_kept_is_what_the_client_got() -> None:
    effects = NotedEffects()
    mask = {
        "id": "mask",
        "conditions": [{"result_exists": "prompts"}],
        "actions": [{"set_result": {"field": "prompts.*.name", "value": "-"}}],
    }
    _exchange(interceptor(CACHE, mask, effects=effects), request("prompts/list"), LIST)
    ((kept, _),) = effects.stored.values()
    assert json.loads(kept) == {"prompts": [{"name": "-"}]}


def test_a_rule_further_down_may_still_block_what_the_cache_knows() -> None:
    late = {"id": "late", "priority": -1, "conditions": [{"state_equals": {"key": "bad", "value": True}}]}
    box = interceptor(CACHE, {**late, "actions": [{"block": "no more"}]})
    _exchange(box, request("prompts/list"), LIST)
    outcome, _ = _exchange(box, request("prompts/list"), LIST, session(values={"bad": True}))
    assert error_of(outcome)["message"] == "no more"
