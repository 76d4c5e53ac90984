"""Members of a certain name, found in any valid text and misled by none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.wire.json.ambiguity import Crowded, folded
from penstock.wire.json.member_names import STRING, decoded, places_called, values_called


def _names(text: bytes) -> list[bytes]:
    return list(values_called("name", STRING, text))


@pytest.mark.parametrize(
    "text",
    [
        b'{"name":"x"}',
        b'[[{"a":{"name":"x"}}]]',
        b'{"NAME":"x"}',
        b'{"n\\u0061me":"x"}',
        b'{" name ":"x"}',
        b'{"\x7fname":"x"}',
        b'{"name\\u0000y":"x"}',
        b'{"na\\u200bme":"x"}',
        b'{"\\ud800name":"x"}',
        '{"ｎame":"x"}'.encode(),
        b'{"name" :"x"}',
        b'{"name"\t:\t"x"}',
        b'{"name"\r:\r"x"}',
        b'{"name"\n:\n"x"}',
        b'{"name": "x"}',
        b'{"other":"name","name":"x"}',
        b'{"name":5,"name":"x"}',
        b'{"":"","name":"x"}',
        b'{"q\\"":"\\"","name":"x"}',
        b'{"back\\\\":"\\\\","name":"x"}',
        # What would pair a closing quote with the next opening one.
        b'{"x" :": ","name":"x"}',
        b'{"n" :"n" ,"name":"x"}',
    ],
)
def test_a_name_is_found_however_it_is_written(text: bytes) -> None:
    json.loads(text)
    assert _names(text) == [b'"x"']
    assert list(places_called("name", STRING, text)) == [text.rindex(b'"x"')]


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b'"name"',
        b'["name","x"]',
        b'{"x":"name"}',
        b'{"name":5}',
        b'{"name":["x"]}',
        b'{"names":"x"}',
        b'{"nam":"x"}',
        b'{"a name":"x"}',
        b'{"x":"{\\"name\\":\\"x\\"}"}',
        b'{"x":"\\"name\\":\\"","y":1}',
        b'{"n\\u0061mes":"x"}',
        b'{"name\\\\":"x"}',
    ],
)
def test_what_only_looks_like_one_is_not(text: bytes) -> None:
    json.loads(text)
    assert _names(text) == []


def test_every_one_is_given_as_it_is_written() -> None:
    text = b'{"name":"a","x":[{"Name":"\\u0062"},{"name":"c\\"d"}],"name": "e"}'
    assert _names(text) == [b'"a"', b'"\\u0062"', b'"c\\"d"', b'"e"']
    assert list(values_called("x", rb"\[", text)) == [b"["]
    assert list(values_called("name", b"", text)) == [b""] * 4


def test_a_value_may_be_empty() -> None:
    assert _names(b'{"name":""}') == [b'""']


def test_the_word_is_a_word_and_no_pattern() -> None:
    assert list(values_called("a.b", b"", b'{"axb":1}')) == []
    assert list(values_called("a.b", b"", b'{"A.b":1}')) == [b""]


def _called_name(value: object) -> list[str]:
    if isinstance(value, dict):
        own = [text for key, text in value.items() if folded(key) == "name" and isinstance(text, str)]
        return own + [text for inner in value.values() for text in _called_name(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in _called_name(inner)]
    return []


_TEXTS = st.text(st.sampled_from('name":,{}[] \\\té')) | st.just("name")
_TREES = st.recursive(
    _TEXTS | st.integers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
)


@given(_TREES, st.booleans(), st.sampled_from([None, 1]))
def test_the_same_names_as_in_the_tree(tree: object, is_ascii: bool, indent: int | None) -> None:
    text = json.dumps(tree, ensure_ascii=is_ascii, indent=indent, separators=(" , ", " : "))
    found = [decoded(name) for name in values_called("name", STRING, text.encode())]
    assert sorted(found) == sorted(_called_name(tree))


def test_odd_names_are_looked_at_up_to_a_limit() -> None:
    odd = b'{"\\u0061":1}'
    most = limits.PATH_PARTS - 1
    assert _names(b"[" + b",".join([odd] * (2 * most)) + b"]") == []  # no text is the value of any
    assert list(values_called("b", b"", b"[" + b",".join([odd] * most) + b"]")) == []
    with pytest.raises(Crowded, match=r"^it has more than 50000 odd names$"):
        list(values_called("b", b"", b"[" + b",".join([odd] * (most + 1)) + b"]"))
    for plain in (b'{"a":1}', b'{"":1}', b'{"!#Aa0[]~":1}'):
        assert list(values_called("b", b"", b"[" + b",".join([plain] * (2 * most)) + b"]")) == []


@pytest.mark.parametrize("unit", [b'\\"n', b'\\"name\\":\\"', b"\\\\", b"\\u0022name\\u0022:"])
def test_a_million_escaped_quotes_are_passed_over_once(unit: bytes) -> None:
    """Looked at anew from each of its quotes, a text of this size took longer than anybody waits."""
    text = b'{"x":"%b","name":"y"}' % (unit * 500_000)
    assert _names(text) == [b'"y"']


def test_half_a_surrogate_pair_stays_one() -> None:
    assert decoded(b'"\\ud800x"') == "\ud800x"
