"""Sliding windows against a model that remembers everything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.effects.rate_limit import SlidingWindows


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Naive:
    """Every passage ever, looked through each time."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.passed: dict[tuple[str, int, float], list[float]] = {}

    def may_pass(self, key: str, limit: int, window: float) -> bool:
        passed = self.passed.setdefault((key, limit, window), [])
        recent = sum(self.clock.now - then < window for then in passed)
        if recent < limit:
            passed.append(self.clock.now)
        return recent < limit


KEYS = st.sampled_from("abcdefgh")
LIMITS = st.integers(0, 4)
WINDOWS = st.sampled_from([1.0, 2.5, 10.0])
STEPS = st.lists(st.tuples(KEYS, LIMITS, WINDOWS, st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0])), max_size=200)


@given(STEPS)
def test_with_room_for_all_it_does_what_the_model_does(steps):
    clock = Clock()
    windows, naive = SlidingWindows(clock), Naive(clock)
    for key, limit, window, wait in steps:
        clock.now += wait
        assert windows.may_pass(key, limit, window) == naive.may_pass(key, limit, window)


@given(STEPS, st.integers(0, 5), st.integers(0, 12))
def test_without_room_it_lets_through_less_and_never_more(steps, most_keys, most_stamps):
    clock = Clock()
    windows = SlidingWindows(clock, most_keys=most_keys, most_stamps=most_stamps)
    passed: dict[tuple[str, int, float], list[float]] = {}
    for key, limit, window, wait in steps:
        clock.now += wait
        if windows.may_pass(key, limit, window):
            passed.setdefault((key, limit, window), []).append(clock.now)
        assert windows.key_count <= most_keys
    for (_, limit, window), times in passed.items():
        for start in times:
            assert sum(start <= then < start + window for then in times) <= limit


@given(STEPS)
def test_everything_is_forgotten_in_the_end(steps):
    clock = Clock()
    windows = SlidingWindows(clock, most_keys=3)
    for key, limit, window, wait in steps:
        clock.now += wait
        windows.may_pass(key, limit, window)
    clock.now += 100
    assert windows.may_pass("last", 1, 1.0)
    assert windows.key_count == 1
    assert windows._stamp_count == 1
    assert not windows._shared


def test_the_window_slides_and_is_no_bucket():
    clock = Clock()
    windows = SlidingWindows(clock)
    clock.now = 1_059.0
    assert windows.may_pass("k", 2, 60.0)
    assert windows.may_pass("k", 2, 60.0)
    clock.now = 1_061.0  # another minute on the wall, the same two seconds
    assert not windows.may_pass("k", 2, 60.0)
    clock.now = 1_119.0
    assert windows.may_pass("k", 2, 60.0)


def test_a_crowd_of_new_keys_does_not_reset_anybody():
    clock = Clock()
    windows = SlidingWindows(clock, most_keys=100)
    assert windows.may_pass("victim", 1, 60.0)
    for number in range(10_000):
        windows.may_pass(f"crowd {number}", 1, 60.0)
    assert not windows.may_pass("victim", 1, 60.0)
    assert windows.key_count == 100


def test_newcomers_past_the_last_place_share_one_count():
    clock = Clock()
    windows = SlidingWindows(clock, most_keys=1)
    assert windows.may_pass("first", 3, 60.0)
    passed = sum(windows.may_pass(f"newcomer {number}", 3, 60.0) for number in range(50))
    assert passed == 3


def test_a_newcomer_does_not_pass_twice_by_getting_a_place():
    clock = Clock()
    windows = SlidingWindows(clock, most_keys=1)
    assert windows.may_pass("first", 2, 10.0)
    clock.now += 9
    assert windows.may_pass("newcomer", 2, 10.0)
    assert windows.may_pass("newcomer", 2, 10.0)
    clock.now += 2  # the first one's place is free now
    assert not windows.may_pass("newcomer", 2, 10.0)
    clock.now += 9
    assert windows.may_pass("newcomer", 2, 10.0)


def test_refused_attempts_do_not_count():
    clock = Clock()
    windows = SlidingWindows(clock)
    assert windows.may_pass("k", 1, 10.0)
    for _ in range(20):
        clock.now += 0.4
        assert not windows.may_pass("k", 1, 10.0)
    clock.now += 2.1
    assert windows.may_pass("k", 1, 10.0)


def test_no_limit_is_above_what_can_be_remembered():
    windows = SlidingWindows(Clock(), most_stamps=10)
    assert sum(windows.may_pass("k", limits.RATE_MOST * 10, 60.0) for _ in range(50)) == 10
