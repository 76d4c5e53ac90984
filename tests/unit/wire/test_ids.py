"""Spellings of one id meet; different ids stay apart."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.ids import id_key


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
