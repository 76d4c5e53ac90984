"""Who calls what when: counted in memory that does not grow with what is read."""

from __future__ import annotations

from typing import Any, cast

from penstock.watch import bounds
from penstock.watch.patterns import OTHERS, Patterns, Use
from penstock.watch.row import HubRow

DAY = 86_400
START = 1_790_000_000.0


class Call:
    """As much of a row as is counted."""

    method, kind, sender, verdict, status = "tools/call", "request", "client", "pass", "pending"

    def __init__(self, when: float, client: str, tool: str, seq: int = 1) -> None:
        self.time, self.client, self.tool, self.seq = when, client, tool, seq


def add(patterns: Patterns, when: float, client: str = "c", tool: str = "t", seq: int = 1) -> None:
    patterns.add(cast(HubRow, Call(when, client, tool, seq)))


def test_pairs_beyond_the_bound_are_counted_as_one() -> None:
    patterns = Patterns()
    for number in range(bounds.PATTERN_USES + 100):
        add(patterns, START, f"c{number}")
    assert len(patterns.uses) <= bounds.PATTERN_USES + 1
    assert patterns.uses[OTHERS, OTHERS].calls == 100
    assert patterns.is_full
    facts: dict[str, Any] = patterns.facts("client")
    assert len(facts["rows"]) == bounds.PATTERN_ROWS
    assert facts["left_off"] == bounds.PATTERN_USES + 1 - bounds.PATTERN_ROWS
    assert facts["calls"] == bounds.PATTERN_USES + 100


def test_days_are_a_ring_and_old_ones_do_not_come_back() -> None:
    use, first = Use(), int(START) // DAY
    for day in range(3 * bounds.PATTERN_DAYS):
        for _ in range(day % 3 + 1):
            use.add((first + day) * DAY, 1)
    last = first + 3 * bounds.PATTERN_DAYS - 1
    for day in range(last - bounds.PATTERN_DAYS + 1, last + 1):
        assert use.on(day) == (day - first) % 3 + 1
    assert use.on(last - bounds.PATTERN_DAYS) == 0
    assert use.on(last + 1) == 0
    use.add((last + 5 * bounds.PATTERN_DAYS) * DAY, 1)
    assert use.on(last) == 0
    use.add(last * DAY, 1)  # too late for the ring; the sums still have it
    assert use.on(last) == 0
    assert sum(use.week) == use.calls


def test_hours_of_the_week_begin_with_monday() -> None:
    use = Use()
    use.add(4 * DAY + 3 * 3_600 + 59 * 60, 1)  # Monday, 5 January 1970, 03:59
    assert use.week[3] == 1
    use.add(3 * DAY + 23 * 3_600, 1)  # the Sunday before
    assert use.week[6 * 24 + 23] == 1


def test_what_is_new_needs_a_week_before() -> None:
    patterns = Patterns()
    add(patterns, START, tool="old")
    add(patterns, START + 6 * DAY, tool="new", seq=7)
    assert patterns.news()["is_known"] is False
    add(patterns, START + 9 * DAY, tool="old")
    add(patterns, START, client="gone", tool="old")
    news: dict[str, Any] = patterns.news()
    assert [(one["tool"], one["seq"]) for one in news["new"]] == [("new", 7)]
    assert [one["client"] for one in news["gone"]] == ["gone"]


def test_messages_that_come_in_another_order_make_the_same_sums() -> None:
    forth, back = Patterns(), Patterns()
    times = [START + number * 5_000 for number in range(500)]
    for when in times:
        add(forth, when)
    for when in reversed(times):
        add(back, when)
    assert forth.facts() == back.facts()
