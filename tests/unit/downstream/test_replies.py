"""Which bodies are read at all."""

from __future__ import annotations

import pytest

from penstock.downstream.mcp_head import maybe_wrong_body


def _status(*kinds: bytes) -> int | None:
    """The status that a POST with these content types gets, None when its body is read."""
    fields = {b"content-type": b", ".join(kinds)} if kinds else {}
    wrong = maybe_wrong_body(fields)
    return wrong[0] if wrong is not None else None


@pytest.mark.parametrize(
    "kind",
    [
        b"application/json",
        b"Application/JSON",
        b"application/json;",
        b"application/json;charset=utf-8",
        b'application/json ; charset="UTF-8"',
        b"application/json; charset=us-ascii",
        b"application/json; charset=utf8",
    ],
)
def test_json_in_utf_8_is_read(kind: bytes):
    assert _status(kind) is None


@pytest.mark.parametrize(
    "kinds",
    [
        (),
        (b"text/plain",),
        (b"application/jsonl",),
        (b'application/json; profile="a b"; charset=utf-8',),
        (b"application/json; charset=utf-16",),
        (b"application/json; charset=utf-8; charset=utf-7",),
        (b"application/json; charset =utf-7",),
        (b"application/json; charset= utf-7",),
        (b"application/json; charset\t=utf-7",),
        (b"application/json; charset*=utf-7",),
        (b"application/json; charset*0=utf-7",),
        (b"application/json charset=utf-7",),
        (b"application/json; (charset=utf-8) charset=utf-7",),
        (b'application/json; a="\\"; charset =utf-7',),
        (b'application/json; a="b; charset=utf-7"',),
        (b"application/json; a=b", b"text/plain"),
        (b'application/json; a="b', b'application/json; charset =utf-7"'),
    ],
)
def test_what_a_kinder_reader_could_take_for_another_charset_is_not_read(kinds: tuple[bytes, ...]):
    assert _status(*kinds) == 415
