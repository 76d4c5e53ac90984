"""A rule that can never fire is found, and one that may is left alone."""

from __future__ import annotations

from typing import Any

import pytest
from scenes import loaded, rule

from penstock.policy.rules.dead_rules import maybe_why_dead

CALL = {"method_equals": "tools/call"}
NAMED = {"param_equals": {"field": "name", "value": "rm"}}
BLOCK = {"block": "no"}


def _why(*rules: dict[str, Any], **section: object) -> str | None:
    """Why the last rule never fires."""
    for number, one in enumerate(rules):
        one["id"] = f"r{number}"
    config = loaded({"rules": list(rules), **section})
    return maybe_why_dead(config.rules[-1], config.rules, config.chain.fail_fast)


def _param(name: str, value: object, field: str = "arguments.n") -> dict[str, object]:
    return {f"param_{name}": {"field": field, "values" if name == "in" else "value": value}}


DEAD: list[tuple[list[Any], dict[str, object], str]] = [
    ([CALL, {"method_equals": "tools/list"}], {}, "no message has all of these methods"),
    ([{"tool": "x"}, {"method_in": ["resources/read", "prompts/get"]}], {}, "no message has all"),
    ([{"all": [CALL]}, {"method_equals": "ping"}], {}, "no message has all"),
    ([CALL, {"any": []}], {}, "any of nothing"),
    ([NAMED, {"not": NAMED}], {}, "the opposite"),
    ([_param("greater_than", 5), _param("less_than", 5)], {}, "no value of arguments.n"),
    ([_param("equals", 1), _param("equals", 2)], {}, "no value of arguments.n"),
    ([_param("in", [1, 2]), _param("equals", 3)], {}, "no value of arguments.n"),
    ([_param("in", [1, 2, "x"]), _param("greater_than", 2)], {}, "no value of arguments.n"),
    ([CALL, {"result_exists": "content"}], {"direction": "client"}, "direction: upstream"),
    ([{"method_equals": "notifications/message"}], {}, "only the upstream sends these"),
    ([{"method_equals": "notifications/initialized"}], {"direction": "upstream"}, "only the client sends"),
    ([{"method_equals": "notifications/progress"}, {"result_exists": "a"}], {}, "nobody answers"),
]


@pytest.mark.parametrize(("conditions", "more", "why"), DEAD)
def test_what_contradicts_itself_is_found(conditions: list[Any], more: dict[str, object], why: str) -> None:
    assert why in (_why(rule(BLOCK, when=conditions, **more)) or "")


ALIVE: list[tuple[list[Any], dict[str, object]]] = [
    ([], {}),
    ([CALL, NAMED], {}),
    ([CALL, {"method_matches": "call"}], {}),
    ([{"any": [CALL, {"method_equals": "ping"}]}, {"method_in": ["ping", "x"]}], {}),
    ([_param("greater_than", 5), _param("less_than", 6)], {}),
    ([_param("greater_than", 5), _param("less_than", 5, "arguments.m")], {}),
    ([_param("equals", 1, "arguments.*"), _param("equals", 2, "arguments.*")], {}),
    ([_param("in", [1, 2]), _param("in", [2, 3])], {}),
    ([_param("equals", 2), _param("greater_than", 1)], {}),
    ([_param("equals", "2"), _param("greater_than", 1)], {}),  # some servers take it for the number
    ([_param("equals", 1), _param("equals", True)], {}),
    ([{"method_equals": "sampling/createMessage"}, {"result_exists": "a"}], {"direction": "client"}),
    ([{"method_equals": "sampling/createMessage"}], {}),  # the client answers it
    ([{"method_equals": "notifications/progress"}], {}),
    ([CALL, {"result_exists": "a"}], {}),
    ([CALL], {"direction": "upstream"}),
]


@pytest.mark.parametrize(("conditions", "more"), ALIVE)
def test_what_may_happen_is_left_alone(conditions: list[Any], more: dict[str, object]) -> None:
    assert _why(rule(BLOCK, when=conditions, **more)) is None


def test_a_rule_behind_one_that_blocks_all_of_it_is_found() -> None:
    assert "blocks all" in (_why(rule(BLOCK, when=[CALL]), rule({"log": "x"}, when=[CALL, NAMED])) or "")
    assert "blocks all" in (_why(rule(BLOCK), rule(BLOCK, when=[CALL])) or "")
    early = rule(BLOCK, when=[CALL], priority=-1)
    assert _why(early, rule({"log": "x"}, when=[CALL, NAMED])) is None
    assert _why(rule(BLOCK, when=[CALL, NAMED]), rule(BLOCK, when=[CALL])) is None
    assert _why(rule(BLOCK, when=[CALL]), rule(BLOCK, when=[CALL], direction="both")) is None
    assert _why(rule(BLOCK, when=[CALL]), rule(BLOCK, when=[CALL]), chain={"fail_fast": False}) is None


def test_a_rule_behind_one_that_allows_all_of_it_is_found() -> None:
    allow = rule("allow", when=[CALL], priority=1)
    assert "allows all" in (_why(allow, rule(BLOCK, when=[CALL, NAMED])) or "")
    # Of the same priority all are heard, and what two readers see differently is not allowed.
    assert _why(rule("allow", when=[CALL]), rule(BLOCK, when=[CALL, NAMED])) is None
    assert _why(rule("allow", when=[CALL, NAMED], priority=1), rule(BLOCK, when=[CALL, NAMED])) is None
