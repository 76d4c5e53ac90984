"""What becomes of line breaks in a message that goes out as an HTTP body."""

from __future__ import annotations

import pytest

from penstock.wire.http.bodies import to_body

INNER = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}'


@pytest.mark.parametrize(
    "raw",
    [
        INNER,
        INNER + b"\r\n",
        b'{\n  "jsonrpc": "2.0",\r\n  "method": "tools/call",\n  "params": {\n    "name": "x"\n  }\n}',
        '{"method":"m",\n"params":{"メソッド":1,"\\u65e5":2,"methods":3,"m":{}}}'.encode(),
    ],
    ids=["no-break", "at-the-end", "pretty", "other-names"],
)
def test_line_breaks_of_an_honest_message_stay(raw: bytes):
    assert to_body(raw, True) is raw


@pytest.mark.parametrize("line_break", [b"\r", b"\n", b"\r\n"])
@pytest.mark.parametrize(
    "key",
    [
        b"method",
        b"Method",
        b"\\u006dethod",
        "ｍethod".encode(),
        b"method\\u0000",
        b" method",
        b"m\\u200bethod",
    ],
)
def test_no_line_of_it_is_a_message_of_its_own(line_break: bytes, key: bytes):
    inner = INNER.replace(b'"method"', b'"%b"' % key)
    raw = b'{"jsonrpc":"2.0","method":"n","params":{"a":' + line_break + inner + line_break + b"}}"
    assert to_body(raw, True) == raw.replace(b"\r", b" ").replace(b"\n", b" ")


def test_a_response_may_hold_none_at_all():
    raw = b'{"jsonrpc":"2.0","id":1,"result":\r' + INNER + b"\r}"
    assert to_body(raw, False) == raw.replace(b"\r", b" ")
    plain = b'{"jsonrpc":"2.0",\n"id":1,"result":{}}'
    assert to_body(plain, False) is plain


@pytest.mark.parametrize("unit", [b'\\"m', b'\\"method\\":', b"\\\\"])
def test_a_text_full_of_quotes_is_read_once(unit: bytes):
    """One client could hold up everybody for minutes with 300 kB of these."""
    raw = b'{"method":"n",\n"params":{"x":"%b"}}' % (unit * 500_000)
    assert to_body(raw, True) is raw


def test_of_too_many_odd_names_one_may_be_a_method():
    odd = b'"\\u0061":1,' * 60_000
    raw = b'{"method":"n",\n"params":{%b"x":1}}' % odd
    assert to_body(raw, True) == raw.replace(b"\n", b" ")
