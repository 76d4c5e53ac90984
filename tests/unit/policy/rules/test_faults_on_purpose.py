"""The action `fault`: the same seed, the same faults."""

from __future__ import annotations

import json
from typing import Any

import pytest
from scenes import NotedEffects, answer, client, interceptor, loaded, rule, send, session, upstream

from penstock.policy.rules.interceptor import Interceptor


def call(number: int) -> Any:
    return client(f'{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{{"name":"t"}}}}'.encode())


def hit(seed: int) -> list[int]:
    box = interceptor(rule({"fault": {"kind": "error", "rate": "5%", "seed": seed}}))
    return [number for number in range(2000) if send(box, call(number), session()).blocked_by]


def test_acceptance_34_the_same_seed_has_the_same_faults() -> None:
    first = hit(7)
    assert first == hit(7)
    assert first[:6] == [15, 17, 19, 44, 49, 53]  # in every process, and after a restart
    assert first != hit(8)
    assert 60 <= len(first) <= 140  # 5 % of 2,000, within four deviations


def test_what_is_dropped_is_not_answered() -> None:
    box = interceptor(rule({"fault": {"kind": "drop"}}))
    outcome = send(box, call(1), session())
    assert outcome.blocked_by == "r"
    assert outcome.said.word == "block"
    assert not hasattr(outcome.said, "raw")


def test_only_reports_of_progress_are_dropped() -> None:
    tree = {"rules": [rule({"fault": {"kind": "drop_progress"}}, direction="upstream")]}
    box = Interceptor(loaded(tree), NotedEffects())
    report = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}'
    other = b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}'
    assert answer(box, upstream(report), call(1), session()).blocked_by == "r"
    assert answer(box, upstream(other), call(1), session()).blocked_by is None


def test_a_page_is_cut_short() -> None:
    tree = {"rules": [rule({"fault": {"kind": "truncate_page"}}, direction="upstream")]}
    box = Interceptor(loaded(tree), NotedEffects())
    page = b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"},{"name":"b"}],"nextCursor":"x"}}'
    asked = client(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
    outcome = answer(box, upstream(page), asked, session())
    assert json.loads(outcome.verdict.raw or b"")["result"] == {"tools": [{"name": "a"}]}


@pytest.mark.parametrize("rate", ["0%", "101%", "often", True, -1])
def test_a_rate_is_a_share(rate: Any) -> None:
    from penstock.policy.rules.interceptor_config import build

    config, faults = build({"rules": [rule({"fault": {"kind": "error", "rate": rate}})]})
    assert config is None
    assert "share" in faults[0].message
