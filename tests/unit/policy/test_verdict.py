"""What a verdict leaves open."""

from __future__ import annotations

import pytest

from penstock.policy.verdict import FORWARD, HOLD, Answer, Drop, Verdict, Why, is_open


def test_rules_have_a_say_in_what_passes_and_in_lists_that_we_give_for_the_upstream() -> None:
    assert is_open(FORWARD)
    assert is_open(Answer(b"{}", is_list=True))


@pytest.mark.parametrize(
    "verdict", [Answer(b"{}"), Answer(b"{}", -32602), Drop(Why("filter", "drop", "no id")), HOLD]
)
def test_rules_have_none_in_what_was_refused(verdict: Verdict) -> None:
    assert not is_open(verdict)


def test_an_answer_is_no_error_and_no_list_unless_it_says_so() -> None:
    assert Answer(b"{}") == Answer(b"{}", 0, False)


def test_a_reason_has_no_code_and_names_no_rules_unless_it_is_said() -> None:
    assert (Why("r", "log", "m").code, Why("r", "log", "m").rules) == (0, ())
