"""The tree of a pattern says what RE2 says: whatever RE2 accepts is read as RE2 reads it."""

from __future__ import annotations

import pytest
import re2
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from penstock import limits
from penstock.policy.patterns import char_sets
from penstock.policy.patterns.char_sets import CharSet
from penstock.policy.patterns.pattern_tree import (
    Assertion,
    Char,
    Choice,
    NestedTooDeeply,
    Node,
    Repeat,
    Sequence,
    read,
)

SAMPLE = [chr(code) for code in range(0x180)] + [
    "\u212a",
    "\u0416",
    "\u0436",
    "\u4e2d",
    "\u03b1",
    "\U0001f600",
]


OPTIONS = re2.Options()
OPTIONS.log_errors = False


def matches(source: str, text: str) -> bool:
    """Does RE2 match all of `text`?"""
    return re2.compile(source, OPTIONS).fullmatch(text) is not None


def matched_letters(source: str) -> list[str]:
    engine = re2.compile(source, OPTIONS)
    return [letter for letter in SAMPLE if engine.fullmatch(letter)]


def is_valid(source: str) -> bool:
    try:
        re2.compile(source, OPTIONS)
    except re2.error:
        return False
    return True


def read_letters(chars: CharSet) -> list[str]:
    return [letter for letter in SAMPLE if any(low <= ord(letter) <= high for low, high in chars)]


def written(node: Node) -> str:
    """The same pattern again in the plainest words."""
    match node:
        case Char(chars):
            inside = "".join(rf"\x{{{low:x}}}-\x{{{high:x}}}" for low, high in chars)
            return f"[{inside}]" if inside else r"[^\x{0}-\x{10ffff}]"
        case Assertion():
            return ""
        case Sequence(items):
            return "(?:" + "".join(map(written, items)) + ")"
        case Choice(options):
            return "(?:" + "|".join(map(written, options)) + ")"
        case Repeat(item, least, most):
            return f"(?:{written(item)}){{{least},{'' if most is None else most}}}"


ONE_CHARACTER = r"""
a . (?s). (?-s). (?s-s). (?i-i)a } ] \d \D \w \W \s \S \n \t \a \f \r \v \. \_
\x41 \x{416} \x{0000000041} \101 \0 \07 \176 \QA\E \Q* \Q\
[a-z] [^a-z] []a] [^]a] [a-] [-a] [--z] [a-c-e] [a^] [$-*] [[:a] [[.a.] [^\x00-\x{10FFFF}]
[\d-z] [\w-] [\]a] [\x41-\x{5a}] [\101-\132] [^\D] [\n-\r] [\t\-\^]
[[:alpha:]-z] [[:alpha:]_] [[:^alpha:]] [^[:^space:]]
"""


@pytest.mark.parametrize("source", [*ONE_CHARACTER.split(), *(f"[[:{name}:]]" for name in char_sets.NAMED)])
def test_a_character_stands_for_what_re2_says_it_does(source):
    tree = read(source).tree
    assert isinstance(tree, Char)
    assert read_letters(tree.chars) == matched_letters(source)


@pytest.mark.parametrize(
    "source",
    [
        "(?i)k",
        "(?i)[a-z]",
        "(?i)S",
        "(?i)é",
        "(?i)[^a]",
        "(?i)[K\u017f]",
        "(?i)Ж",
        r"\pL",
        r"\p{Greek}",
        r"\C",
    ],
)
def test_a_character_with_case_or_property_stands_for_at_least_what_re2_says(source):
    tree = read(source).tree
    assert isinstance(tree, Char)
    assert set(read_letters(tree.chars)) >= set(matched_letters(source)) != set()


def test_ascii_letters_without_case_stand_for_no_more_than_both_forms():
    assert read("(?i)a").tree == Char(char_sets.union([(0x41, 0x41), (0x61, 0x61)]))
    assert read("(?i)[x-z0]").tree == read("[X-Zx-z0]").tree


members = st.sampled_from(
    [
        "a",
        "f",
        "z",
        "-",
        "^",
        "[",
        ":",
        "]",
        r"\]",
        r"\-",
        r"\d",
        r"\W",
        r"\x41",
        r"\n",
        "[:alpha:]",
        "[:^digit:]",
        "é",
    ]
)


@given(st.sampled_from(["", "^"]), st.lists(members, min_size=1, max_size=6).map("".join))
def test_a_class_of_anything_stands_for_what_re2_says(negation, inside):
    source = f"[{negation}{inside}]"
    tree = read(source).tree
    assume(is_valid(source) and isinstance(tree, Char))
    assert read_letters(tree.chars) == matched_letters(source)


PIECES = r"""
a b A . , [ab] [^a] [ ] [] ^] ( (?: (?P<n> (?<m> (?i: (?i) (?-i) (?s) (?U) ) ) |
* + ? {2} {1,} {0,2} {3,1} {,2} { } \Q \E \\ \d \x61 \
"""
pieces = st.sampled_from(PIECES.split())


@given(st.lists(pieces, max_size=9).map("".join), st.lists(st.text("abAB{}2,*", max_size=6), min_size=5))
@settings(max_examples=300)
@example("a|(b(?i)c|d)e", ["bCe", "dE", "De", "A"])
@example(r"\Qa*\E*", ["a", "a***", ""])
@example("a(?i)*", ["", "A", "aa"])
@example("(a|b", ["a"])
def test_the_tree_of_a_pattern_matches_what_the_pattern_matches(source, texts):
    reading = read(source)
    assume(is_valid(source) and not reading.has_loose_brace)
    assume(not ("(?i" in source and "[^" in source))  # read as more than it is, to be on the safe side
    for text in texts:
        assert matches(source, text) == matches(written(reading.tree), text)


@pytest.mark.parametrize(
    ("source", "least", "most"),
    [("a*", 0, None), ("a+?", 1, None), ("a?", 0, 1), ("a{2}", 2, 2), ("a{2,}", 2, None), ("a{2,3}?", 2, 3)],
)
def test_a_repetition_has_its_least_and_its_most(source, least, most):
    assert read(source).tree == Repeat(read("a").tree, least, most)


def test_repetitions_and_counts_are_counted_wherever_they_stand():
    reading = read("a*b+?c?(d{2}|e{3,7}){4,}[*+?]\\*\\Q+\\E")
    assert (reading.repetitions, reading.highest_count) == (6, 4)


def test_lookaround_takes_up_no_text_and_keeps_what_it_looks_for():
    assert read("(?!a)").tree == Assertion(read("a").tree)
    assert read("(?<=a*)").tree == Assertion(read("a*").tree)


@pytest.mark.parametrize("anchor", ["^", "$", r"\b", r"\B", r"\A", r"\z"])
def test_anchors_take_up_no_text(anchor):
    assert read(anchor).tree == Assertion()


def test_only_groups_make_a_pattern_deep():
    depth = limits.PATTERN_NESTING
    assert read("(" * depth + "a" + ")" * depth).tree == read("a").tree
    assert read("(a)" * depth * 2 + "(?i)" * depth * 2)
    with pytest.raises(NestedTooDeeply):
        read("(" * (depth + 1))
