"""Walking through JSON gives every part as it is written, and where it stands."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.wire.json.json_walk import (
    Broken,
    TooMany,
    caseless,
    first_byte,
    parts,
    place_to_add,
    skip_count,
    skip_unlike,
    value_end,
)

BLANKS = [b"", b" ", b"\t", b"\r", b"\n", b" \t\r\n"]
VALUES = [
    b"1",
    b"-0.5e+3",
    b"true",
    b"null",
    b'""',
    b'"a\\"]}"',
    b'"\\\\"',
    b'"\n"',  # not JSON, but nothing that this walk has to decide
    b"[]",
    b"{}",
    b'[[],{"a":[1,"]"]}]',
    b'{"}":"{"}',
]


def _walked(text: bytes, start: int = 0) -> list[tuple[bytes | None, bytes]]:
    return [(part.name, text[part.start : part.end]) for part in parts(text, start)]


@pytest.mark.parametrize("blank", BLANKS)
@pytest.mark.parametrize("value", VALUES)
def test_every_kind_of_value_ends_where_it_ends(value: bytes, blank: bytes) -> None:
    array = blank.join([b"[", value, b",", value, b"]"])
    assert _walked(array) == [(None, value), (None, value)]
    text = blank.join([b"{", b'"k"', b":", value, b",", b'"l"', b":", value, b"}"])
    assert _walked(text) == [(b'"k"', value), (b'"l"', value)]
    assert value_end(array + b"]", 0) == len(array)
    assert value_end(text + b"}", 0) == len(text)


def test_a_part_begins_with_its_name() -> None:
    text = b' { "a" : 1 , "b":2}'
    assert [text[part.begin : part.end] for part in parts(text, 1)] == [b'"a" : 1', b'"b":2']
    assert [part.begin for part in parts(b"[1, 22]", 0)] == [1, 4]


def test_repeated_names_come_as_often_as_they_stand() -> None:
    assert _walked(b'{"a":1,"\\u0061":2,"a":3}') == [(b'"a"', b"1"), (b'"\\u0061"', b"2"), (b'"a"', b"3")]


@pytest.mark.parametrize("text", [b"{}", b"[]", b"{ }", b"[\n]"])
def test_what_is_empty_has_no_parts(text: bytes) -> None:
    assert _walked(text) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"1", "no object or array"),
        (b'"[1]"', "no object or array"),
        (b" []", "no object or array"),
        (b"{1:2}", "no member name"),
        (b'{"a" 1}', "no member name"),
        (b'{x"a":1}', "no member name"),
        (b"[,]", "no value"),
        (b'["]', "no value"),
        (b"[[1", "no value"),
        (b'[["]"', "no value"),
        (b'{"a":}', "no value"),
    ],
)
def test_what_is_no_json_is_noticed(text: bytes, why: str) -> None:
    with pytest.raises(Broken, match=f"^{why} where one should be$"):
        _walked(text)


@pytest.mark.parametrize("levels", [1, 6, 7, 8, limits.NESTING - 1, limits.NESTING])
def test_values_may_nest_as_deep_as_messages(levels: int) -> None:
    value = b"[" * levels + b'"]"' + b"]" * levels
    assert _walked(b"[" + value + b",2]") == [(None, value), (None, b"2")]
    text = b'{"a":' * levels + b"1" + b"}" * levels
    assert value_end(text + b"}", 0) == len(text)


def test_only_so_many_parts_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PATH_PARTS", 3)
    assert len(_walked(b"[1,2,3]")) == 3
    with pytest.raises(TooMany, match=r"^more than 3 values to look at$"):
        _walked(b"[1,2,3,4]")


def test_members_with_other_names_are_passed_over_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PATH_PARTS", 3)
    text = b'{"x":1 , "y" : [2,{"a":0}],"z":"a","":2,"a":3,"b":4,"c":5,"a":6,"d":7}'
    found = [part.name for part in parts(text, 0, skip_unlike("a"))]
    assert found == [b'"a"', b'"a"', b'"d"']  # no comma after the last, so it is looked at


@pytest.mark.parametrize("name", ["a", "a.b", "日", 'q"', "b\\s", "tab\t", "é", "", "a\u2028", "\x7f"])
def test_the_member_that_is_asked_for_is_never_passed_over(name: str) -> None:
    for written in (json.dumps(name), json.dumps(name, ensure_ascii=False)):
        raw = written.encode()
        for blank in BLANKS:
            text = blank.join([b'{"other":0,', raw, b":", b"1", b',"last":2}'])
            found = [part.name for part in parts(text, 0, skip_unlike(name))]
            assert raw in found


def test_a_name_with_an_escape_is_left_to_a_closer_look() -> None:
    text = b'{"x":0,"\\u0061":1,"y":2}'
    assert b'"\\u0061"' in [part.name for part in parts(text, 0, skip_unlike("a"))]


@pytest.mark.parametrize("way", [b"__proto__", b"constructor", b"prototype"])
def test_a_way_to_inherit_the_name_is_never_passed_over(way: bytes) -> None:
    text = b'{"x":0,"%b":{"a":1},"y":2,"z":3}' % way
    assert [part.name for part in parts(text, 0, skip_unlike("a"))] == [b'"%b"' % way, b'"z"']


@pytest.mark.parametrize("name", ["Name", "NAME\0x", "name", "name\0"])
def test_a_name_is_the_same_in_any_case_and_up_to_a_nul(name: str) -> None:
    assert caseless(name) == skip_unlike(name).alike == "name"
    assert caseless("ÄX\0") == "äx"
    found = [part.name for part in parts(b'{"other":0,"nAME":1,"z":2}', 0, skip_unlike(name))]
    assert found == [b'"nAME"', b'"z"']


def test_a_name_that_begins_alike_is_another() -> None:
    text = b'{"ab":0,"ba":0,"a":1}'
    assert [part.name for part in parts(text, 0, skip_unlike("a"))] == [b'"a"']


@pytest.mark.parametrize("blank", BLANKS)
def test_elements_are_counted_off(blank: bytes) -> None:
    text = blank.join([b"[", b'"a"', b",", b"[1,2]", b",", b"{}", b",", b"3", b"]"])
    for count, value in enumerate([b'"a"', b"[1,2]", b"{}", b"3"]):
        first = next(iter(parts(text, 0, skip_count(count))))
        assert text[first.start : first.end] == value


def test_where_there_are_fewer_none_are_counted_off() -> None:
    assert [part.start for part in parts(b"[1,2]", 0, skip_count(5))] == [1, 3]
    assert [part.start for part in parts(b"[1,[1,2,3,4,5,6]]", 0, skip_count(5))] == [1, 3]


@pytest.mark.parametrize(
    ("text", "place", "comma"),
    [
        (b"[]", 1, False),
        (b"[ \t\r\n]", 1, False),
        (b"[1]", 2, True),
        (b'{"a":1 \n}', 6, True),
        (b'{"a":" "\r}', 8, True),
        (b'{"a":1\t}', 6, True),
    ],
)
def test_one_more_goes_right_after_the_last(text: bytes, place: int, comma: bool) -> None:
    assert place_to_add(text, 0, len(text)) == (place, comma)
    assert place_to_add(b"xx" + text + b"yy", 2, 2 + len(text)) == (2 + place, comma)


def test_the_first_byte_tells_the_kind() -> None:
    assert first_byte(b'[{"a"', 1) == b"{"
    assert first_byte(b"[", 1) == b""


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), json_values, max_size=5), st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_the_walk_reads_what_json_reads(wanted: dict[str, Any], is_ascii: bool, indent: Any) -> None:
    text = json.dumps(wanted, ensure_ascii=is_ascii, indent=indent).encode("utf-8", "surrogatepass")
    found = {json.loads(part.name or b""): json.loads(text[part.start : part.end]) for part in parts(text, 0)}
    assert found == wanted
