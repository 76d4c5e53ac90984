"""The cache of results: bounded every way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.effects.cache import ResultCache


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_result_is_kept_until_its_time_is_over():
    clock = Clock()
    cache = ResultCache(clock)
    cache.store(b"k", b"{}", 10.0)
    clock.now = 9.9
    assert cache.cached(b"k") == b"{}"
    clock.now = 10.0
    assert cache.cached(b"k") is None
    assert cache.byte_count == 0


def test_the_longest_unused_goes_first():
    cache = ResultCache(Clock(), most_entries=2)
    cache.store(b"a", b"1", 10.0)
    cache.store(b"b", b"2", 10.0)
    assert cache.cached(b"a") == b"1"
    cache.store(b"c", b"3", 10.0)
    assert cache.cached(b"b") is None
    assert cache.cached(b"a") == b"1"
    assert cache.cached(b"c") == b"3"


def test_one_huge_result_does_not_push_out_the_rest():
    cache = ResultCache(Clock(), most_bytes=100)
    cache.store(b"a", b"1", 10.0)
    cache.store(b"b", b"2" * 30, 10.0)
    assert cache.cached(b"b") is None
    assert cache.cached(b"a") == b"1"


def test_an_older_result_does_not_outlive_one_that_could_not_be_kept():
    cache = ResultCache(Clock(), most_bytes=100)
    cache.store(b"a", b"1", 10.0)
    cache.store(b"a", b"2" * 30, 10.0)
    assert cache.cached(b"a") is None


def test_a_result_without_a_lifetime_is_not_kept():
    cache = ResultCache(Clock())
    cache.store(b"a", b"1", 0.0)
    assert cache.entry_count == 0


_STORES = st.tuples(
    st.sampled_from([b"a", b"bb", b"ccc", b"dddd"]), st.binary(max_size=40), st.integers(0, 5)
)


@given(st.lists(_STORES, max_size=60), st.integers(0, 4), st.integers(0, 120))
def test_the_bounds_hold_and_only_what_was_stored_last_comes_back(stores, most_entries, most_bytes):
    clock = Clock()
    cache = ResultCache(clock, most_entries=most_entries, most_bytes=most_bytes)
    last: dict[bytes, tuple[float, bytes]] = {}
    for key, result, ttl in stores:
        clock.now += 1
        cache.store(key, result, ttl)
        last[key] = clock.now + ttl, result
        assert cache.entry_count <= most_entries
        assert cache.byte_count <= most_bytes
        for name, (until, stored) in last.items():
            found = cache.cached(name)
            assert found is None or (found == stored and clock.now < until)
