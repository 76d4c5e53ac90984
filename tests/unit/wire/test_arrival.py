"""Fragments of a message: how much of each is taken, in how many scans, and what is kept to stand for it."""

from __future__ import annotations

import pytest

from arrivals import TEXT, WORD, arrive, count_scanned, fragments_of, large_result
from penstock import limits
from penstock.wire.json import arrival
from penstock.wire.json.ambiguity import NotJson
from penstock.wire.json.arrival import Arrival

IN_ARRAY, IN_NAME, IN_VALUE = b'{"a":{"b":["', b'{"a":{"b":{"', b'{"a":{"b":[[{"q":"'
BEHIND_COMMA = b'{"a":{"b":[1,'


def _taken(monkeypatch: pytest.MonkeyPatch, *fragments: bytes) -> tuple[int, int, bytes]:
    """Of the last of these fragments: how much was taken, in how many scans, and the digest then."""
    scanned = count_scanned(monkeypatch)
    judge = Arrival()
    taken = 0
    for fragment in fragments:
        scanned.clear()
        taken = judge._take(fragment)
    return taken, len(scanned), bytes(judge._kept)


@pytest.mark.parametrize(
    ("fragment", "left"),
    [
        (b'{"a":{"b":{"c":["x', 0),
        (b'{"a":{"b":{"c":"x', 0),
        (b'{"a":{"b":{"c":1,"x', 0),
        (b'{"a":{"b":{"x', 0),
        (b'{"a":{"b":{ \n"x', 0),
        (b'{"a":{"b":{"c": "x', 0),
        (b'{"a":{"b":{"c":"x"', 1),  # what comes behind the last comma is a string: up to its end
        (b'{"a":{"b":{"c":"x" ', 2),
        (b'{"a":{"b":{"c" :', 3),
        (b'{"a":{"b":{"c":12', 4),
        (b'{"a":{"b":{"c":[{', 4),
        (b'{"a":{"b":["c",12', 2),
        (b'{"a":{"b":["c",[{', 2),
        (b'{"a":{"b":["c" , 12', 3),
        (b'{"a":{"b":[["c"],[12],[{', 2),
        (b'{"', 0),
        (b' {"a', 0),
        (b'\t{"a":1,', 0),
        (b'{"a":1}', 4),
        (b'{"a":[1,]', 1),
        (b'{"a":"\\', 1),
        (b'{"a":"\\u00e', 5),
        (b'{"a":"\\u00e9', 0),
        (b'{"a":"\xe2\x82', 2),
    ],
)
def test_a_fragment_is_taken_up_to_its_last_cut_in_one_scan(
    fragment: bytes, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = fragment[: len(fragment) - left]
    assert _taken(monkeypatch, fragment) == (len(kept), 1, kept)


def test_a_string_that_just_ends_may_be_a_name_or_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _taken(monkeypatch, b'{"a":{"c"') == (8, 2, b'{"a":{"c')


@pytest.mark.parametrize(
    ("first", "second", "left", "digest"),
    [
        (IN_ARRAY, b'xx",2,"yy', 0, b'{"a":{"b":["'),
        (IN_ARRAY, b'xx"],"n', 0, b'{"a":{"b":["xx"],"n'),
        (IN_ARRAY, b'xx"]},"c":{"', 0, b'{"a":{"b":["xx"]},"c":{"'),
        (IN_ARRAY, b'xx"]},"c":1,', 0, b'{"a":{"b":["xx"]},"c":1,'),
        (IN_ARRAY, b'xx",[[{"', 0, b'{"a":{"b":["",[[{"'),
        (IN_ARRAY, b'xx",[[{"q":"', 0, b'{"a":{"b":["",[[{"":"'),
        (IN_ARRAY, b'xx",[[1,', 0, b'{"a":{"b":["",[[0,'),
        (IN_ARRAY, b'",1', 1, b'{"a":{"b":["",'),
        (IN_ARRAY, b'xx"}', 2, b'{"a":{"b":["'),
        (IN_NAME, b'xx":2,"yy', 0, b'{"a":{"b":{"'),
        (IN_NAME, b'xx":2},"n', 0, b'{"a":{"b":{"xx":2},"n'),
        (IN_NAME, b'xx":[[{"', 0, b'{"a":{"b":{"":0,"":[[{"'),
        (IN_NAME, b'xx":{"q":"', 0, b'{"a":{"b":{"":0,"":{"":"'),
        (IN_NAME, b'xx":[[1,', 0, b'{"a":{"b":{"":0,"":[[0,'),
        (IN_NAME, b'xx":"', 0, b'{"a":{"b":{"":0,"":"'),
        (IN_NAME, b'xx":1,', 0, b'{"a":{"b":{"":0,'),
        (IN_NAME, b'xx":1}}}', 6, b'{"a":{"b":{"'),
        (IN_VALUE, b'x"}],[[1,', 0, b'{"a":{"b":[[{"q":""}],[[0,'),
        (IN_VALUE, b'x"},{"z', 0, b'{"a":{"b":[[{"q":""},{"'),
        (IN_VALUE, b'x"},{"z":[2,', 0, b'{"a":{"b":[[{"q":""},{"":[0,'),
        (IN_VALUE, b'x"},"w', 0, b'{"a":{"b":[[{"q":""},"'),
        (IN_VALUE, b'x","y', 0, b'{"a":{"b":[[{"q":"","'),
        (IN_VALUE, b'x","y":"z', 0, b'{"a":{"b":[[{"q":"'),
        (IN_VALUE, b'x"}],3,', 0, b'{"a":{"b":[[{"q":""}],'),
        (IN_VALUE, b'x"}]],"n', 0, b'{"a":{"b":[[{"q":"x"}]],"n'),
        (BEHIND_COMMA, b"2,3,", 0, b'{"a":{"b":[1,'),
        (BEHIND_COMMA, b"2,3", 1, b'{"a":{"b":[1,'),
        (BEHIND_COMMA, b'2],"n', 0, b'{"a":{"b":[1,2],"n'),
        (BEHIND_COMMA, b'"xx', 0, b'{"a":{"b":[1,0,"'),
        (BEHIND_COMMA, b'["xx', 0, b'{"a":{"b":[1,0,["'),
        (BEHIND_COMMA, b'{"xx":1,', 0, b'{"a":{"b":[1,0,{"":0,'),
        (BEHIND_COMMA, b'2]},"q":{"r":{"s', 0, b'{"a":{"b":[1,2]},"q":{"r":{"s'),
    ],
)
def test_what_nobody_looks_at_is_left_out_of_the_digest(
    first: bytes, second: bytes, left: int, digest: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one scan; where a string was cut, one more has shown that it ends in this fragment."""
    scans = 1 if first is BEHIND_COMMA else 2
    assert _taken(monkeypatch, first, second) == (len(second) - left, scans, digest)


def test_half_a_pair_of_escapes_is_taken_for_a_character(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the readers take it; that costs a second scan."""
    for half in (b"\\ud83d", b"\\ude00"):
        assert _taken(monkeypatch, BEHIND_COMMA, b'"%b",' % half) == (9, 2, BEHIND_COMMA)


def test_a_string_that_goes_on_becomes_too_long_for_a_word_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with fragments_of(8, 4096):
        fill = b"x" * WORD
        begin = b'{"a":"'
        assert _taken(monkeypatch, begin, b"yy") == (2, 1, begin + fill)
        assert _taken(monkeypatch, begin, b"yy", b"zz") == (2, 1, begin + fill)
        again = b'","c":{"d":"'
        assert _taken(monkeypatch, begin, b"yy", again, b"zz") == (2, 1, begin + fill + again + fill)
        assert _taken(monkeypatch, IN_NAME, b"yy", b"zz") == (2, 1, IN_NAME + b"yyzz")  # a name is kept
        assert _taken(monkeypatch, IN_ARRAY, b"yy", b"zz") == (2, 1, IN_ARRAY)


BROKEN, BEHIND, NO_TEXT = "it is malformed", "it goes on behind its end", "it is not valid UTF-8"
UNEVEN = f"it is malformed, or nests deeper than {limits.NESTING} levels"


@pytest.mark.parametrize(
    ("first", "bad", "why"),
    [
        (b"", b"{1,", BROKEN),
        (b"", b'{"a":1}},', UNEVEN),
        (b"", b'{"a":1},', BEHIND),
        (b"", b'{"a":' + b"[" * limits.NESTING + b"1,", UNEVEN),
        (BEHIND_COMMA, b"2]},1,", BROKEN),
        (BEHIND_COMMA, b",2", BROKEN),
        (BEHIND_COMMA, b"2]}}}},", UNEVEN),
        (BEHIND_COMMA, b"2]}},", BEHIND),
        (BEHIND_COMMA, b'"\xff", ', NO_TEXT),
        (BEHIND_COMMA, b'"\\ud83d" 1,', BROKEN),
        (IN_ARRAY, b'xx"},1,', BROKEN),
        (IN_ARRAY, b'xx":1,', BROKEN),
        (IN_NAME, b'xx",1,', BROKEN),
        (IN_ARRAY, b"x\xffxxx", NO_TEXT),
        (IN_ARRAY, b"x\xe2\x82x", NO_TEXT),
    ],
)
def test_what_no_more_could_make_json_is_refused_with_its_fragment(
    first: bytes, bad: bytes, why: str
) -> None:
    judge = Arrival()
    if first:
        assert judge._take(first) == len(first)
    with pytest.raises(NotJson, match=f"^{why}$"):
        judge._take(bad)


@pytest.mark.parametrize(
    ("end", "size"),
    [
        *((b"x", 0), (b"\xbf", 0), (b"\xc0", 1), (b"\xc3", 1), (b"\xc3\xa9", 0), (b"\xdf\xbf", 0)),
        *((b"\xe0", 1), (b"\xe0\xa0", 2), (b"\xe2\x82\xac", 0), (b"\xef\xbf\xbf", 0)),
        *((b"\xf0", 1), (b"\xf0\x90", 2), (b"\xf0\x90\x80", 3), (b"\xf0\x9f\x98\x80", 0)),
        *((b"\\", 1), (b"\\\\", 0), (b"\\\\\\", 1), (b"\\n", 0), (b"\\u", 2), (b"\\u1", 3), (b"\\u12", 4)),
        *(
            (b"\\u123", 5),
            (b"\\u1234", 0),
            (b"\\\\u123", 0),
            (b"\\\\\\u123", 5),
            (b"\\nu123", 0),
            (b"\\x123", 0),
        ),
    ],
)
def test_neither_a_character_nor_an_escape_is_cut(end: bytes, size: int) -> None:
    for before in (b"", b"a", b"12345", b'"', b"X", b"\\\\"):
        assert arrival._unfinished_bytes(before + end) == size


NOT_TO_BE_CUT = [
    b"[" + TEXT[:100_000],
    b' "' + TEXT[:100_000],
    b'{"a":"b","id":' + b"1" * 500_000,
    b'{"a":"b",' + b"".join(b'"n%d":"%b",' % (n, b"x" * 100) for n in range(4_000)),
    b'{"a":[' + b'"x",' * 50_000 + b"nul," + b'"x",' * 50_000,
]


@pytest.mark.parametrize("raw", NOT_TO_BE_CUT, ids=["array", "string", "number", "members", "fault"])
@pytest.mark.parametrize("step", [3_000, 600_000])
def test_who_has_given_up_keeps_nothing(raw: bytes, step: int) -> None:
    judge, _ = arrive(raw, step)
    assert judge.takes(b'"x",' * 30_000)
    assert (judge._pending, judge._kept) == (b"", b"")
    assert judge.maybe_digest() is None


def test_a_number_may_be_as_long_as_the_largest_fragment() -> None:
    """The fragments grow by 24, up to 96 bytes, from behind the first comma on."""
    for digits in range(60, 130):
        raw = b'{"a":[[[1,%b,%b2]]]}' % (b"2" * digits, b"3," * 60)
        with fragments_of(24, 96):
            judge, seen = arrive(raw, 1_000)
            assert seen is None
            assert (judge.maybe_digest() is None) is (digits + 1 > 96), digits


def test_what_is_no_larger_than_its_first_fragment_has_no_digest() -> None:
    for size in (30, 200):
        raw = large_result(b'{"a":["%b"]}' % (b"x" * size))
        with fragments_of(2 * 90, 4096):
            judge, seen = arrive(raw, 7)
            assert seen is None
            assert (judge.maybe_digest() is None) is (len(raw) < 90)


def test_of_the_end_no_more_is_kept_than_two_edges() -> None:
    for size in range(70_000, 140_000, 2_000):
        judge, _ = arrive(large_result(b'{"a":["%b"]}' % (b"x" * size)), 9_000)
        digest = judge.maybe_digest()
        assert digest is not None
        assert len(digest) <= 3 * 4096  # one at the beginning


def test_a_fault_near_the_end_is_found_when_the_message_is_whole() -> None:
    judge, seen = arrive(large_result(b'{"a":["%b",nul,"%b"]}' % (b"x" * 70_000, b"x" * 9_000)), 5_000)
    assert seen is None
    assert judge.maybe_digest() is None
