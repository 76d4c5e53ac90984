"""What waits over all sessions together has a bound."""

from __future__ import annotations

import pytest

from penstock import limits
from penstock.relay.backlog import Backlog

SMALL = limits.BACKLOG_SMALL_BYTES


class Sender:
    """One with so much waiting."""

    def __init__(self, backlog: int) -> None:
        self.backlog = backlog


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> int:
    """A bound of ten times a little."""
    monkeypatch.setattr(limits, "BACKLOG_BYTES", 10 * SMALL)
    return 10 * SMALL


def test_all_together_have_a_bound(bound: int) -> None:
    backlog = Backlog()
    crowd = [Sender(4 * SMALL) for _ in range(3)]
    assert [backlog.maybe_objection(one) for one in crowd[:2]] == [None, None]
    assert backlog.maybe_objection(crowd[2]) == f"{12 * SMALL} bytes of all sessions"


def test_one_alone_has_a_bound_of_its_own(bound: int) -> None:
    size = limits.UNANSWERED_BYTES + 1
    assert Backlog().maybe_objection(Sender(size)) == f"{size} bytes of its session"


def test_what_was_taken_or_is_gone_counts_no_more(bound: int) -> None:
    backlog = Backlog()
    first, second, third = (Sender(5 * SMALL) for _ in range(3))
    assert [backlog.maybe_objection(one) for one in (first, second)] == [None, None]
    assert backlog.maybe_objection(third) is not None
    first.backlog = 0
    assert backlog.maybe_objection(third) is None
    del second
    assert backlog.maybe_objection(Sender(5 * SMALL)) is None
