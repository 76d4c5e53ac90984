"""Metrics of rules."""

from __future__ import annotations

import math

from penstock import limits
from penstock.effects.counters import OTHERS, Counted, Counters


def test_counts_and_sums():
    counters = Counters()
    counters.count("calls", 1)
    counters.count("calls", 1)
    counters.count("bytes", 2.5)
    assert counters.snapshot() == {"calls": Counted(2, 2.0), "bytes": Counted(1, 2.5)}


def test_a_snapshot_does_not_change_any_more():
    counters = Counters()
    counters.count("calls", 1)
    before = counters.snapshot()
    counters.count("calls", 1)
    assert before["calls"].count == 1


def test_names_are_bounded_and_nothing_is_lost():
    counters = Counters(most_names=2)
    for number in range(10):
        counters.count(f"name {number}", 1)
    counters.count("x" * 1_000, 1)
    assert len(counters.snapshot()) == 3
    assert counters.snapshot()[OTHERS].count == 9


def test_names_are_cut():
    counters = Counters()
    counters.count("x" * 1_000, 1)
    assert [len(name) for name in counters.snapshot()] == [limits.COUNTER_NAME_LENGTH]


def test_what_is_no_number_does_not_spoil_a_sum():
    counters = Counters()
    for value in (1.0, math.nan, math.inf):
        counters.count("sum", value)
    assert counters.snapshot() == {"sum": Counted(1, 1.0)}
