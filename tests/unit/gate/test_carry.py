"""Verdicts on their way out: passed on, answered, waited for, collected."""

from __future__ import annotations

from penstock.gate.batch_verdicts import BatchVerdicts
from penstock.gate.carry import carry_out
from penstock.policy.verdict import FORWARD, HOLD, Answer, Drop, Forward, Verdict, Wait, Why
from penstock.wire.mcp.message import Kind, Message

MESSAGE = Message(b"came", Kind.REQUEST, b"1", "ping")
CHANGED = Message(b"changed", Kind.REQUEST, b"1", "ping")
DROP = Drop(Why("r", "drop", "no"))


class Ends:
    """Where messages and answers arrive."""

    def __init__(self) -> None:
        self.passed: list[Message] = []
        self.told: list[Answer] = []
        self.dropped: list[Drop] = []
        self.held = 0

    def hold(self) -> None:
        self.held += 1

    def carry(self, verdict: Verdict) -> None:
        carry_out(verdict, MESSAGE, self.passed.append, self.told.append, self.dropped.append, self.hold)


def test_what_passes_is_passed_on_as_it_came_or_as_it_was_changed() -> None:
    ends = Ends()
    ends.carry(FORWARD)
    ends.carry(Forward(CHANGED, "change"))
    assert (ends.passed, ends.told) == ([MESSAGE, CHANGED], [])


def test_an_answer_goes_back_where_somebody_takes_it() -> None:
    ends = Ends()
    ends.carry(Answer(b"no"))
    assert (ends.passed, ends.told) == ([], [Answer(b"no")])


def test_what_is_dropped_or_held_goes_nowhere_but_to_who_wants_to_know() -> None:
    ends = Ends()
    ends.carry(DROP)
    assert (ends.passed, ends.told, ends.dropped, ends.held) == ([], [], [DROP], 0)
    ends.carry(HOLD)
    assert (ends.passed, ends.told, ends.dropped, ends.held) == ([], [], [DROP], 1)


def test_nothing_passes_where_nobody_wants_to_know_why_not() -> None:
    ends = Ends()
    for verdict in (Answer(b"no"), DROP, HOLD):
        carry_out(verdict, MESSAGE, ends.passed.append)
    assert ends.passed == []


def test_every_kind_of_verdict_that_was_waited_for_gets_to_its_end() -> None:
    ends = Ends()
    for verdict in (Answer(b"no"), DROP, HOLD):
        wait = Wait(MESSAGE, True)
        ends.carry(wait)
        wait.settle(verdict)
    assert (ends.passed, ends.told, ends.dropped, ends.held) == ([], [Answer(b"no")], [DROP], 1)


def test_what_waits_is_carried_out_when_it_is_decided_and_once() -> None:
    ends, wait, next_wait = Ends(), Wait(MESSAGE, True), Wait(MESSAGE, True)
    ends.carry(wait)
    assert ends.passed == []
    wait.settle(next_wait)
    assert ends.passed == []
    next_wait.settle(Forward(CHANGED, "change"))
    assert ends.passed == [CHANGED]
    next_wait.settle(FORWARD)
    wait.settle(FORWARD)
    assert ends.passed == [CHANGED]


def test_who_comes_after_the_decision_hears_it_at_once_and_in_order() -> None:
    wait, heard = Wait(MESSAGE, False), []
    wait.then(lambda verdict: heard.append(("first", verdict)))
    wait.then(lambda verdict: heard.append(("second", verdict)))
    wait.settle(DROP)
    wait.then(lambda verdict: heard.append(("late", verdict)))
    assert heard == [("first", DROP), ("second", DROP), ("late", DROP)]
    assert (wait.message, wait.is_from_client) == (MESSAGE, False)


def test_the_verdicts_of_an_array_are_handed_over_once_and_in_order() -> None:
    done: list[list[Verdict]] = []
    verdicts, wait = BatchVerdicts(3, done.append), Wait(MESSAGE, True)
    verdicts.take(0, wait)
    verdicts.take(2, DROP)
    verdicts.take(1, Answer(b"a"))
    assert done == []
    wait.settle(FORWARD)
    assert done == [[FORWARD, Answer(b"a"), DROP]]
