"""When memory that is free is given back: after a crowd, and not in the middle of one."""

from __future__ import annotations

import pytest

from penstock import limits
from penstock.net import heap
from penstock.net.byte_budget import ByteBudget


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Grows by one each time."""
    times: list[None] = []
    monkeypatch.setattr(heap, "give_back", lambda: times.append(None))
    return times


def test_memory_is_given_back_once_when_much_less_is_held_and_nothing_comes(given: list[None]) -> None:
    budget = ByteBudget(1 << 30)
    keeper = heap.HeapKeeper(budget)
    bodies = [budget.count(b"x" * (1 << 20)) for _ in range(9)]
    keeper.look()
    assert not given
    bodies.clear()
    keeper.look()  # something came since the last look
    assert (keeper.is_due, len(given)) == (True, 0)
    keeper.look()
    assert (keeper.is_due, len(given)) == (False, 1)
    keeper.look()
    assert len(given) == 1


def test_what_is_still_held_is_no_reason(given: list[None]) -> None:
    budget = ByteBudget(1 << 30)
    keeper = heap.HeapKeeper(budget)
    kept = budget.count(b"x" * (2 * limits.HEAP_BYTES))
    for _ in range(3):
        keeper.look()
    assert not keeper.is_due
    del kept
    for _ in range(3):
        keeper.look()
    assert len(given) == 1


def test_it_can_be_given_back_here() -> None:
    heap.give_back()
