"""What rules cost a message that none of them names: the same, however many they are."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest

from in_memory import REQUEST, RESPONSE, Pair, others, same


def calls_of(pair: Pair) -> int:
    """How many functions, in Python and in C, one exchange calls."""
    pair.exchange()  # what is looked up once has been looked up
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    gc.collect()
    gc.disable()  # hypothesis listens to the collector, and would be counted when it runs
    sys.setprofile(note)
    try:
        pair.exchange()
    finally:
        sys.setprofile(before)
        gc.enable()
    assert pair.upstream.last == REQUEST
    assert pair.client.last == RESPONSE
    return count


@pytest.mark.parametrize("number", [1, 10, 1000])
def test_a_message_that_no_rule_names_costs_the_same_with_no_rules_and_with_a_thousand(number: int) -> None:
    assert calls_of(Pair(others(number))) == calls_of(Pair([]))


def test_rules_that_name_the_method_are_what_costs() -> None:
    none, one, ten, hundred = (calls_of(Pair(same(number))) for number in (0, 1, 10, 100))
    assert none < one
    assert one == ten == hundred  # rules that ask for a text at a path are found by the text
    assert calls_of(Pair(same(10) + [{**rule, "id": f"o{n}"} for n, rule in enumerate(others(500))])) == ten


def test_without_a_configuration_nothing_of_the_rules_is_called() -> None:
    assert calls_of(Pair(None)) < calls_of(Pair([]))


def matching(count: int) -> list[dict[str, Any]]:
    """Rules that look for a pattern at one path, and do not hold."""
    return [
        {
            "id": f"r{n}",
            "conditions": [
                {"method_equals": "tools/call"},
                {"param_matches": {"field": "arguments.*", "pattern": f"secret{n}[0-9]"}},
            ],
            "actions": [{"block": "x"}],
        }
        for n in range(count)
    ]


def test_one_more_rule_about_a_path_costs_a_few_calls() -> None:
    """The path is walked, its values are decoded and the patterns are searched once for all of them."""
    ten, twenty = (calls_of(Pair(matching(number))) for number in (10, 20))
    assert (twenty - ten) / 10 <= 12
