"""What a task brings is, to rules, the answer to the call that began it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from scenes import (
    NotedEffects,
    Outcome,
    Pass,
    Refuse,
    answer,
    context,
    error_of,
    finish,
    interceptor,
    request,
    response,
    rule,
    upstream,
)
from scenes import session as new_session

from penstock import limits
from penstock.policy.rules.interceptor import Interceptor, Session

FETCH = request("tools/call", {"name": "fetch", "arguments": {}})
OTHER = request("tools/call", {"name": "other", "arguments": {}})
RESULT = {"content": [{"type": "text", "text": "mail a@b.org"}]}
BEGUN = {
    "2025-11-25": {"task": {"taskId": "t1", "status": "working"}},
    "2026-07-28": {"resultType": "task", "taskId": "t1", "status": "working", "ttlMs": None},
}
NO_FETCH = rule(
    {"block": "not to be read"},
    when=[
        {"method_equals": "tools/call"},
        {"param_equals": {"field": "name", "value": "fetch"}},
        {"result_exists": "content"},
    ],
)
MASK = rule(
    {"transform": {"call": "penstock.policy.masks:mask_emails", "field": "content.*.text"}},
    when=[{"method_equals": "tools/call"}],
    direction="upstream",
)


def _note(result: dict[str, Any], task: str) -> Any:
    params = {"taskId": task, "status": "completed", "result": result}
    return upstream(
        json.dumps({"jsonrpc": "2.0", "method": "notifications/tasks", "params": params}).encode()
    )


def _brought(
    box: Interceptor, how: str, state: Session, task: str = "t1", result: dict[str, Any] = RESULT
) -> Outcome:
    if how == "notifications/tasks":
        return finish(box.on_upstream(_note(result, task), context(state, "upstream")))
    body = result if how == "tasks/result" else {"taskId": task, "status": "completed", "result": result}
    return answer(box, response(body), request(how, {"taskId": task}), state)


HOWS = ["tasks/result", "tasks/get", "notifications/tasks"]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("era", BEGUN)
def test_the_result_of_a_task_is_judged_as_the_answer_to_its_call(era: str, how: str) -> None:
    box, state = interceptor(NO_FETCH), new_session()
    assert isinstance(answer(box, response(BEGUN[era]), FETCH, state).verdict, Pass)
    outcome = _brought(box, how, state)
    if how == "notifications/tasks":
        assert isinstance(outcome.verdict, Refuse)
    else:
        assert error_of(outcome)["message"] == "not to be read"
    assert outcome.blocked_by == "r"
    answer(box, response(BEGUN[era]), OTHER, state)
    assert _brought(box, how, state).blocked_by is None


@pytest.mark.parametrize("how", HOWS)
def test_what_a_rule_changes_in_results_it_changes_in_late_ones(how: str) -> None:
    box, state = interceptor(MASK), new_session()
    answer(box, response(BEGUN["2025-11-25"]), FETCH, state)
    passed = _brought(box, how, state).verdict.raw or b""
    assert b"a@b.org" not in passed
    assert b"mail [masked]" in passed
    assert b"t1" in passed or how == "tasks/result"


@pytest.mark.parametrize("how", HOWS)
def test_what_comes_of_a_task_that_nobody_remembers_does_not_pass(how: str) -> None:
    outcome = _brought(interceptor(MASK), how, new_session(), "unknown")
    assert outcome.blocked_by == "task"
    only_lists = interceptor(rule({"block": "no"}, when=[{"method_equals": "prompts/list"}]))
    assert _brought(only_lists, how, new_session(), "unknown").blocked_by is None


def test_states_and_errors_pass_without_being_remembered() -> None:
    box, state = interceptor(MASK), new_session()
    poll = request("tasks/get", {"taskId": "t9"})
    for said in (
        response({"taskId": "t9", "status": "working"}),
        response(error={"code": 1, "message": "x"}),
    ):
        assert answer(box, said, poll, state).verdict == Pass(said.raw, False)
    failed = response(error={"code": -32602, "message": "no such task"})
    assert answer(box, failed, request("tasks/result", {"taskId": "t9"}), state).verdict.raw == failed.raw


def test_state_set_by_a_late_result_holds_for_what_follows() -> None:
    taints = rule(
        {"set_state": {"key": "tainted", "value": True}},
        when=[{"method_equals": "tools/call"}, {"result_exists": "content"}],
    )
    box, state = interceptor(taints), new_session()
    answer(box, response(BEGUN["2026-07-28"]), FETCH, state)
    assert "tainted" not in state.values
    _brought(box, "tasks/get", state)
    assert state.values["tainted"] is True


def test_a_request_in_the_state_of_a_task_is_judged() -> None:
    no = rule({"block": "no"}, when=[{"method_equals": "elicitation/create"}], direction="upstream")
    asks = {"who": {"method": "elicitation/create", "params": {"message": "password?"}}}
    params = {"taskId": "t1", "status": "input_required", "inputRequests": asks}
    note = upstream(
        json.dumps({"jsonrpc": "2.0", "method": "notifications/tasks", "params": params}).encode()
    )
    assert isinstance(finish(interceptor(no).on_upstream(note, context(None, "upstream"))).verdict, Refuse)


def test_only_so_many_tasks_are_remembered() -> None:
    box, state = interceptor(MASK, effects=NotedEffects()), new_session()
    for number in range(limits.SESSION_TASKS + 5):
        answer(box, response({"task": {"taskId": f"t{number}"}}), FETCH, state)
    assert len(state.tasks) == limits.SESSION_TASKS
    assert "t0" not in state.tasks
    large = request("tools/call", {"name": "x" * limits.SESSION_TASK_BYTES})
    answer(box, response({"task": {"taskId": "large"}}), large, state)
    assert list(state.tasks) == ["large"]
