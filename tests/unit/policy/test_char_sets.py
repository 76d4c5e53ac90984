"""Sets of characters behave as sets do."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.policy.patterns.char_sets import (
    ANYTHING,
    LAST,
    CharSet,
    char,
    complement,
    ignoring_case,
    share,
    union,
)

codes = st.one_of(st.integers(0, 20), st.integers(LAST - 4, LAST))
ranges = st.lists(st.tuples(codes, st.integers(0, 3)).map(lambda it: (it[0], min(sum(it), LAST))), max_size=6)
edges = [*range(25), *range(LAST - 4, LAST + 1)]


def among_edges(chars: CharSet) -> set[int]:
    return {code for code in edges if any(low <= code <= high for low, high in chars)}


@given(ranges)
def test_a_union_holds_what_its_ranges_hold_in_order_and_apart(pairs):
    chars = union(pairs)
    assert among_edges(chars) == among_edges(tuple(pairs))
    assert all(before[1] + 1 < after[0] for before, after in pairwise(chars))


@given(ranges)
def test_a_complement_holds_what_the_set_does_not(pairs):
    chars = union(pairs)
    assert among_edges(complement(chars)) == set(edges) - among_edges(chars)
    assert complement(complement(chars)) == chars


def test_nothing_is_the_complement_of_anything():
    assert complement(ANYTHING) == ()
    assert complement(()) == ANYTHING


@given(ranges, ranges)
def test_two_sets_share_a_character_or_they_do_not(pairs, other_pairs):
    one, other = union(pairs), union(other_pairs)
    meeting = any(low <= high_ and low_ <= high for low, high in one for low_, high_ in other)
    assert share(one, other) == share(other, one) == meeting


def test_sets_that_interlock_share_only_where_they_meet():
    odd, even = spelled("acegik"), spelled("bdfhjl")
    assert not share(odd, even)
    assert share(odd, union([*even, *char(ord("k"))]))
    assert share(even, union([*odd, *char(ord("l"))]))


def spelled(text: str) -> CharSet:
    return union((ord(letter), ord(letter)) for letter in text)


def test_without_case_both_forms_of_an_ascii_letter_are_in_and_nothing_beside_them():
    for lower in "abcdefghijlmnopqrtuvwxyz":
        both = spelled(lower + lower.upper())
        assert ignoring_case(char(ord(lower))) == ignoring_case(char(ord(lower.upper()))) == both
    for other in "@[`{0_":
        assert ignoring_case(spelled(other)) == spelled(other)
    assert ignoring_case(((0x58, 0x62),)) == union([(0x58, 0x62), (0x78, 0x7A), (0x41, 0x42)])


def test_without_case_k_and_s_have_a_third_form():
    assert ignoring_case(spelled("k")) == ignoring_case(spelled("K")) == spelled("kK\u212a")
    assert ignoring_case(spelled("s")) == ignoring_case(spelled("S")) == spelled("sS\u017f")


def test_without_case_one_character_beyond_ascii_stands_for_all():
    everything_else = [(0x80, LAST), (0x4B, 0x4B), (0x6B, 0x6B), (0x53, 0x53), (0x73, 0x73)]
    assert ignoring_case(char(0x80)) == union(everything_else)
    assert ignoring_case(char(0x7F)) == char(0x7F)
