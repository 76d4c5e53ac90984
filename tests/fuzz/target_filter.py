"""The words of a filter: they mean something, or it is told where they do not; and every row is judged."""

from __future__ import annotations

import msgspec

from penstock.observe.filter_words import FilterFault, compile_filter
from penstock.observe.reader import maybe_line
from penstock.observe.rows import Rows

_CALL = (
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":{"b":[1,"x"]}}}}'
)
_ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hi"}]}}'


def _line(number: int, sender: bytes, member: bytes, raw: bytes) -> bytes:
    head = b'{"i":%d,"t":1763400000.5,"s":"a1","from":"%b","kind":"request","us":5,"n":%d,"%b":'
    return head % (number, sender, len(raw), member) + (raw if member == b"msg" else _quoted(raw)) + b"}\n"


def _quoted(raw: bytes) -> bytes:
    return msgspec.json.encode(raw.decode())


_HALF = _CALL.replace(b'"x"', b'"\\ud800"').replace(b"echo", b"\\udc00")  # half a pair, as JSON may have it
_RAW = [
    _line(1, b"client", b"msg", _CALL),
    _line(2, b"upstream", b"msg", _ANSWER),
    _line(3, b"client", b"text", _HALF),
]
_LINES = [line for raw in _RAW if (line := maybe_line(raw)) is not None]


def check(data: bytes) -> None:
    """`data` is what somebody typed."""
    words = data.decode("utf-8", "surrogateescape")
    try:
        found = compile_filter(words, now=1_763_400_000.0)
    except FilterFault as fault:
        assert str(fault), words
        return
    rows = Rows()
    assert len(_LINES) == len(_RAW)
    for line in _LINES:
        assert found.matches(rows.row(line)) in (True, False), words
    again = compile_filter(words, now=1_763_400_000.0)
    assert again.fields == found.fields, words
