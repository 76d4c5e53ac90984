"""Changing one member leaves every other byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.ambiguity import members
from penstock.wire.splice import member_spans, with_value, without

_TEXTS = [
    b'{"a":1,"b":[1.0, 1e400],"c":"\\u65e5"}',
    b' {  "a" : 1 ,\t"b" : {"a":2,"c":3} , "c" : "}" }  ',
    b'{"c":",","b":"\\"b\\":1","a":""}',
]


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
