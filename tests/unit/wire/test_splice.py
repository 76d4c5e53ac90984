"""Changing one member leaves every other byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.wire.json.ambiguity import Ambiguous, members
from penstock.wire.json.splice import maybe_sole_span, member_spans, with_member, with_value, without

_TEXTS = [
    b'{"a":1,"b":[1.0, 1e400],"c":"\\u65e5"}',
    b' {  "a" : 1 ,\t"b" : {"a":2,"c":3} , "c" : "}" }  ',
    b'{"c":",","b":"\\"b\\":1","a":""}',
]


@pytest.mark.parametrize(
    ("text", "name", "becomes"),
    [
        (b'{"a":1}', "a", b'{"a":[ new ]}'),
        (b'{"a":1}', "b", b'{"a":1,"b":[ new ]}'),
        (b"{}", "b", b'{"b":[ new ]}'),
        (b" { } ", "b", b' { "b":[ new ]} '),
        (b'{"a":{"b":2}} ', "b", b'{"a":{"b":2},"b":[ new ]} '),
        (b'{"a":"}" }', '"', b'{"a":"}" ,"\\"":[ new ]}'),
    ],
)
def test_a_member_is_replaced_or_added_behind_the_last_one(text: bytes, name: str, becomes: bytes) -> None:
    assert with_member(text, members(text), name, b"[ new ]") == becomes


@pytest.mark.parametrize("text", _TEXTS)
@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_a_new_value_takes_the_place_of_the_old_one_and_nothing_else(text: bytes, name: str) -> None:
    found = members(text)
    old = bytes(found[name])
    _, start, end = member_spans(text, found)[name]
    changed = with_value(text, found, name, b"[ new ]")
    assert text[start:end] == old
    assert changed == text[:start] + b"[ new ]" + text[end:]


@pytest.mark.parametrize("text", _TEXTS)
@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_a_removed_member_takes_one_comma_with_it(text: bytes, name: str) -> None:
    wanted = json.loads(text)
    del wanted[name]
    assert json.loads(without(text, members(text), name)) == wanted


@given(
    st.dictionaries(st.text('abc日"\\', min_size=1, max_size=3), st.integers() | st.text(max_size=4)),
    st.data(),
)
def test_any_member_can_go_and_the_others_stay_as_written(
    wanted: dict[str, Any], data: st.DataObject
) -> None:
    text = json.dumps(wanted, indent=data.draw(st.sampled_from([None, 1]))).encode()
    if not wanted:
        return
    name = data.draw(st.sampled_from(sorted(wanted)))
    found = members(text)
    left = members(without(text, found, name))
    assert list(left) == [other for other in wanted if other != name]
    assert all(bytes(left[other]) == bytes(found[other]) for other in left)


def test_members_of_another_text_are_noticed() -> None:
    with pytest.raises(ValueError, match="not the members"):
        member_spans(b"{}", members(b'{"a":1}'))


@pytest.mark.parametrize("blank", [b" ", b"\t", b"\r", b"\n", b"\r\n \t", b""])
def test_any_white_space_may_stand_anywhere_between_tokens(blank: bytes) -> None:
    text = blank.join([b"", b"{", b'"a"', b":", b"1", b",", b'"b"', b":", b"[2]", b"}", b""])
    found = members(text)
    for name, value in (("a", b"1"), ("b", b"[2]")):
        start_of_name, start, end = member_spans(text, found)[name]
        assert text[start:end] == value
        assert text[start_of_name : start_of_name + 3] == b'"%b"' % name.encode()
    assert json.loads(without(text, found, "b")) == {"a": 1}


def test_a_member_may_have_no_name_at_all() -> None:
    text = b'{"":1,"a":2}'
    assert with_value(text, members(text), "", b"3") == b'{"":3,"a":2}'


def test_what_looks_like_members_inside_a_value_is_not_found() -> None:
    text = b'{"a":"{\\"b\\":1,","b":{"a":3}}'
    assert with_value(text, members(text), "b", b"4") == b'{"a":"{\\"b\\":1,","b":4}'


@pytest.mark.parametrize("text", [b'[{"a":1}]', b'x"a":1}', b'{1,"a":1}', b'{"b":2;"a":1}'])
def test_the_text_must_be_the_object_itself(text: bytes) -> None:
    """The walk goes from token to token; it never looks further on for one that would fit."""
    wanted = members(b'{"b":2,"a":1}' if b'"b"' in text else b'{"a":1}')
    with pytest.raises(ValueError, match=r"^these are not the members of this text$"):
        member_spans(text, wanted)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"token":5}', b"5"),
        (b'{"token": "x" }', b'"x"'),
        (b'{"a":1,"token":[1,2],"b":2}', b"[1,2]"),
        (b'{"t\\u006fken":5}', b"5"),
        (b'{"a":"token","token":5}', b"5"),
        (b'{"a":{"token":1},"token":5}', b"5"),
        (b'{"a":"\\ud800","token":5}', b"5"),
        (b'{"\\ud800":1,"token":5}', b"5"),
        (b'{"a":1,"a":2,"token":5}', b"5"),
    ],
)
def test_the_sole_member_of_a_name_is_found_however_it_is_written(text: bytes, value: bytes) -> None:
    span = maybe_sole_span(text, "token")
    assert span is not None
    assert text[slice(*span)] == value


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b'{"a":1}',
        b'{"a":"token"}',
        b'{"a":{"token":1}}',
        b'{"tokens":1}',
        b'{"\\n":1}',
    ],
)
def test_where_no_member_has_the_name_there_is_no_place(text: bytes) -> None:
    assert maybe_sole_span(text, "token") is None


@pytest.mark.parametrize("other", [b"token", b"t\\u006fken"])
def test_a_name_that_stands_twice_has_no_one_place(other: bytes) -> None:
    with pytest.raises(Ambiguous, match=r"^a member name stands twice$"):
        maybe_sole_span(b'{"token":1,"%b":2}' % other, "token")


@pytest.mark.parametrize(
    "other",
    [
        b"Token",
        b"TO\\u212aEN",
        "to\u212aen".encode(),
        b" token ",
        b"token\\u0000",
        b"t\\u200boken",
    ],
)
def test_a_name_that_some_take_for_another_has_no_place_beside_it_or_alone(other: bytes) -> None:
    for text in (b'{"%b":2}', b'{"token":1,"%b":2}', b'{"%b":2,"token":1}'):
        with pytest.raises(Ambiguous, match=r"^a member name looks like another$"):
            maybe_sole_span(text % other, "token")


@pytest.mark.parametrize("name", [b"__proto__", b"constructor"])
def test_a_name_that_some_inherit_has_no_place(name: bytes) -> None:
    with pytest.raises(Ambiguous, match=r"^a member name looks like another$"):
        maybe_sole_span(b'{"%b":{"token":1}}' % name, "token")


def test_among_too_many_members_none_is_looked_for() -> None:
    crowd = b'"a":1,' * limits.PATH_PARTS
    with pytest.raises(Ambiguous, match=r'^there is too much beside "token"$'):
        maybe_sole_span(b'{%b"token":1}' % crowd, "token")
    assert maybe_sole_span(b'{%b"b":1}' % crowd, "token") is None
