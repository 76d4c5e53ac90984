"""Spellings of one id meet; different ids stay apart."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.mcp.ids import exact_key, id_key, maybe_id_at_edges


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"1", b"1.0"),
        (b"1", b"1e0"),
        (b"100", b"1E2"),
        (b"0", b"-0"),
        (b'"a"', b'"\\u0061"'),
        (b'"/"', b'"\\/"'),
        (b"12345678901234567890123456789012345678901", b"1.2345678901234568e+40"),
    ],
)
def test_two_spellings_of_one_id_meet(one: bytes, other: bytes) -> None:
    assert id_key(one) == id_key(other)


@pytest.mark.parametrize(
    ("one", "other"), [(b"1", b'"1"'), (b"null", b'"null"'), (b"1", b"2"), (b"1.5", b"1")]
)
def test_different_ids_stay_apart(one: bytes, other: bytes) -> None:
    assert id_key(one) != id_key(other)


@pytest.mark.parametrize(
    "token", [b"9" * 5_000, b"1e400", b"-1e400", b"1.5", b'"\\ud800"', b"-0.0", b"1e-400"]
)
def test_no_id_is_too_odd(token: bytes) -> None:
    assert id_key(token) == id_key(token)


@given(st.integers() | st.text(st.characters(exclude_categories=["Cs"])), st.booleans())
def test_ascii_or_not_does_not_matter(value: int | str, is_ascii: bool) -> None:
    assert id_key(json.dumps(value).encode()) == id_key(json.dumps(value, ensure_ascii=is_ascii).encode())


@pytest.mark.parametrize(
    ("token", "key"),
    [
        (b"0", b"0"),
        (b"-0", b"0"),
        (b"0.0", b"0"),
        (b"7", b"7"),
        (b"-7", b"-7"),
        (b"10", b"10"),
        (b"1e3", b"1000"),
        (b"-2.50e1", b"-25"),
        (b"1.5", b"1.5"),
        (b"999999999999999", b"999999999999999"),
        (b"999999999999999.0", b"999999999999999"),
        (b"1000000000000000", b"1000000000000000.0"),
        (b"1000000000000000.0", b"1000000000000000.0"),
        (b"1e15", b"1000000000000000.0"),
        (b"9007199254740993", b"9007199254740992.0"),
        (b"1e400", b"inf"),
        (b"-1e400", b"-inf"),
        (b"null", b"null"),
        (b'""', b'""'),
        (b'"a b"', b'"a b"'),
        (b'"\\u0061"', b'"a"'),
        (b'"\\/"', b'"/"'),
        (b'"\\\\"', b'"\\\\"'),
        (b'"\\ud800"', b'"\\ud800"'),  # half a pair has no other spelling that we could compare
        (b'"\xff\\n"', b'"\xff\\n"'),
        (b'"a"b"', b'"a"b"'),
        (b"nonsense", b"nonsense"),
    ],
)
def test_every_spelling_of_an_id_has_one_key(token: bytes, key: bytes) -> None:
    assert id_key(token) == key


@pytest.mark.parametrize(
    ("token", "key"),
    [
        (b"0", b"0"),
        (b"-7", b"-7"),
        (b"9007199254740993", b"9007199254740993"),
        (b"-9007199254740993", b"-9007199254740993"),
        (b"7.0", b"7"),
        (b"-0", b"0"),
        (b"7e0", b"7"),
        (b'"\\u0061"', b'"a"'),
    ],
)
def test_exact_keys_keep_every_digit_of_an_integer(token: bytes, key: bytes) -> None:
    assert exact_key(token) == key


EDGE_IDS = [
    b"0", b"-1", b"12", b"1.5", b"-0.25", b"10e5", b"1E-7", b"2e+3", b"3.0e1",
    b'""', b'"a"', b'" !#[]~"', b'"AZaz09{}"',
    *(b'"\\%b"' % sign for sign in (b'"', b"\\", b"/", b"b", b"f", b"n", b"r", b"t")),
    b'"\\u00e9"', b'"\\uABCF"', b'"\\u0a9f"', b'"a\\\\\\"b"',
]  # fmt: skip


@pytest.mark.parametrize("blank", [b"", b" ", b"\t\n"])
@pytest.mark.parametrize("token", EDGE_IDS)
def test_the_id_of_an_unreadable_message_is_seen_at_either_edge(token: bytes, blank: bytes) -> None:
    first = blank.join([b"", b"{", b'"id"', b":", token, b",", b'"params":['])
    second = blank.join([b"", b"{", b'"jsonrpc"', b":", b'"2.0"', b",", b'"id"', b":", token, b",", b'"x'])
    third = blank.join(
        [b"{", b'"method"', b":", b'""', b",", b'"jsonrpc"', b":", b'"2.0"', b",", b'"id"', b":", token, b","]
    )
    for head in (first, second, third):
        assert maybe_id_at_edges(head, b"") == token
    last = blank.join([b'x"', b",", b'"jsonrpc"', b":", b'"2.0"', b",", b'"id"', b":", token, b"}", b""])
    assert maybe_id_at_edges(b"", last) == token


@pytest.mark.parametrize(
    "head",
    [
        b'{"id":1',  # it may go on: 12
        b'{"id":1}',
        b'{"id":01,',
        b'{"id":1.,',
        b'{"id":1e,',
        b'{"id":.5,',
        b'{"id":+1,',
        b'{"id":--1,',
        b'{"id":"\\x",',
        b'{"id":"\\u12g4",',
        b'{"id":"\\u123",',
        b'{"id":"a"b",',
        b'{"id":"\x01",',
        b'{"id":"\x7f",',
        b'{"id":"\xc3\xa9",',
        b'{"id":true,',
        b'{"id":[1],',
        b'{"id":,',
        b'{"ID":1,',
        b'{"params":{"id":1,',
        b'[{"id":1,',
        b'{"other":"x","id":1,',
        b'{"method":"a\\"","id":1,',
        b'{"method":1,"id":1,',
        b'{"method":"x" "id":1,',
        b'x{"id":1,',
        b'{"method":"' + b"x" * 1024 + b'","id":1,',
    ],
)
def test_what_could_be_another_id_is_none(head: bytes) -> None:
    assert maybe_id_at_edges(head, b"") is None


@pytest.mark.parametrize(
    "tail",
    [
        b'"id":1}',
        b'"jsonrpc":"2.0","id":1',
        b'"jsonrpc":"2.0","id":1}x',
        b'"jsonrpc":"2.0","id":1]}',
        b'"jsonrpc":"2x0","id":1}',
        b'"jsonrpc":"1.0","id":1}',
        b'"jsonrpc":"2.0","id":1,"x":{}}',
        b'"jsonrpc":"2.0","id":1}' + b" " * 1024,
        b'"jsonrpc":"2.0","id":"' + b"x" * 1024 + b'"}',
    ],
)
def test_a_tail_that_could_end_something_else_has_no_id(tail: bytes) -> None:
    assert maybe_id_at_edges(b"", tail) is None


def test_only_the_outermost_kilobyte_is_looked_at() -> None:
    room = 1024 - len(b'{"method":"","id":1,')
    assert maybe_id_at_edges(b'{"method":"%b","id":1,' % (b"x" * room), b"") == b"1"
    assert maybe_id_at_edges(b'{"method":"%b","id":1,' % (b"x" * (room + 1)), b"") is None
    room = 1024 - len(b'"jsonrpc":"2.0","id":""}')
    tail = b'x"jsonrpc":"2.0","id":"%b"}'
    assert maybe_id_at_edges(b"", tail % (b"y" * room)) == b'"%b"' % (b"y" * room)
    assert maybe_id_at_edges(b"", tail % (b"y" * (room + 1))) is None


def test_the_head_is_believed_before_the_tail() -> None:
    assert maybe_id_at_edges(b'{"id":1,', b'"jsonrpc":"2.0","id":2}') == b"1"


@pytest.mark.parametrize(
    "head",
    [
        b'{"method":"a","x":"b","id":1,',
        b'{"method":"\\","id":1,',  # the quote is escaped, so all of this is still the method
    ],
)
def test_an_id_inside_or_behind_something_else_is_not_taken(head: bytes) -> None:
    assert maybe_id_at_edges(head, b"") is None
