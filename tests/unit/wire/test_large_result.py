"""Large results are read in one pass, and as the strict reading reads them."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import limits
from penstock.wire.json import large_result
from penstock.wire.json.ambiguity import members
from penstock.wire.json.large_result import maybe_large_result
from penstock.wire.mcp import message as reading
from penstock.wire.mcp.message import Batch, Message, read_upstream_message
from two_readings import edits, outcome

PAD = b"x" * 17_000
BODY = {
    b"content": b'[{"type":"text","text":"x"}]',
    b"structuredContent": b'{"a":1}',
    b"isError": b"false",
    b"resultType": b'"complete"',
    b"_meta": b"{}",
    b"contents": b"[]",
    b"messages": b"[1]",
    b"ttlMs": b"5",
    b"cacheScope": b'"private"',
}
BLOCK = {
    b"type": b'"text"',
    b"text": b'"a[\\"{"',
    b"data": b'"AAAA"',
    b"mimeType": b'"image/png"',
    b"annotations": b'{"audience":["user"]}',
    b"_meta": b'{"a":[]}',
    b"resource": b'{"uri":"file:///a","text":"b"}',
    b"uri": b'"file:///a"',
    b"name": b'"n"',
    b"title": b'"t"',
    b"description": b'"d"',
    b"size": b"5",
}


def _object(pairs: dict[bytes, bytes]) -> bytes:
    return b"{%b}" % b",".join(b'"%b":%b' % pair for pair in pairs.items())


def _answer(body: dict[bytes, bytes], id_token: bytes = b"1") -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (id_token, _object(body))


def _with_block(block: dict[bytes, bytes], **more: bytes) -> bytes:
    return _answer({b"content": b"[%b]" % _object(block), **{k.encode(): v for k, v in more.items()}})


@pytest.mark.parametrize("names", [list(BODY), [], *([name] for name in BODY)])
def test_every_member_that_large_results_have_is_known(names: list[bytes]) -> None:
    raw = _answer({name: BODY[name] for name in names})
    found = maybe_large_result(raw)
    assert found is not None
    assert bytes(found.id) == b"1"
    assert sorted(found.names) == sorted(name.decode() for name in names)


@pytest.mark.parametrize("names", [list(BLOCK), [], *([name] for name in BLOCK)])
def test_every_member_that_a_block_has_is_known(names: list[bytes]) -> None:
    block = {name: BLOCK[name] for name in names}
    for raw in (_with_block(block), _with_block(block, isError=b"true", _meta=b'{"a":1}')):
        found = maybe_large_result(raw)
        assert found is not None
        assert set(found.names) == set(json.loads(raw)["result"])


def test_blocks_of_another_kind_are_taken_as_they_are() -> None:
    for content in (b'[{"type":"text","other":1}]', b"[{},{}]", b"[]", b"[1]", b'"x"', b"{}"):
        found = maybe_large_result(_answer({b"content": content, b"isError": b"false"}))
        assert found is not None
        assert found.names == ["content", "isError"]


@pytest.mark.parametrize(
    "raw",
    [
        _answer({b"content": b"[]", b"x": b"1"}),
        _answer({b"content": b"[]", b"tools": b"[]"}),
        _answer({b"content": b"[]", b"t\\u006fols": b"[]"}),
        _answer(BODY).replace(b'"isError"', b'"is\\u0045rror"'),
        _answer(BODY).replace(b":", b": "),
        _answer(BODY) + b" ",
        _answer(BODY)[:-1],
        _answer(BODY)[:-1] + b',"id":1}',
        _answer(BODY)[:-1] + b',"x":1}',
        _answer(BODY).replace(b"2.0", b"2.1"),
        _answer({b"_meta": b"{}"}).replace(b'"_meta"', b'"_meta":[],"_meta"'),
        _with_block({b"type": b'"text"', b"text": b'"a","text":[[]],"text":"b"'}),
        _with_block({b"type": b'"t\xff"'}),
        b'{"jsonrpc":"2.0","id":1,"error":{}}',
        b'{"jsonrpc":"2.0","id":1,"result":[]}',
        b"[]",
        b"",
    ],
)
def test_what_is_not_plain_is_left_to_the_strict_reading(raw: bytes) -> None:
    assert maybe_large_result(raw) is None


_SHAPES = [
    _with_block({b"type": b'"text"', b"text": b'"<pad>"'}),
    _with_block({b"type": b'"text"', b"text": b'"[{\\"a\\":[1]}]<pad>"', b"_meta": b"{}"}, isError=b"false"),
    _with_block({b"type": b'"text"', b"text": b'"x"'}, structuredContent=b'{"a":["<pad>",[{}]]}'),
    _answer({b"content": b'[{"type":"text","text":"<pad>"},{"type":"text"}]', b"isError": b"true"}, b'"i"'),
    _answer({b"contents": b'[{"uri":"a","text":"<pad>"}]', b"ttlMs": b"5"}),
    _answer({b"other": b'"<pad>"'}),
    b'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"<pad>"}}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"<pad>"}}',
]


@settings(max_examples=1500, deadline=None)
@given(st.one_of(*(edits(shape) for shape in _SHAPES)))
def test_both_readings_of_a_large_message_agree(shape: bytes) -> None:
    raw = shape.replace(b"<pad>", PAD)
    assert outcome(read_upstream_message, raw) == outcome(reading._read_upstream_strictly, raw)
    found = maybe_large_result(raw)
    if found is not None:
        strict = reading._read_upstream_strictly(raw)
        assert not isinstance(strict, Batch)
        assert set(found.names) == set(members(strict.envelope["result"]))


def _nest(depth: int) -> bytes:
    return b"[" * depth + b'"%b"' % PAD + b"]" * depth


_PLACES: list[tuple[int, Any]] = [
    (2, lambda nest: _with_block({b"type": b'"text"'}, structuredContent=nest)),
    (2, lambda nest: _with_block({b"type": b'"text"'}, _meta=nest)),
    (2, lambda nest: _answer({b"content": nest})),
    (2, lambda nest: _answer({b"structuredContent": nest, b"content": b"[]"})),
    (2, lambda nest: _answer({b"contents": nest})),
    (4, lambda nest: _with_block({b"type": b'"text"', b"annotations": nest})),
    (4, lambda nest: _with_block({b"text": nest})),
    (4, lambda nest: _with_block({b"resource": nest, b"_meta": b"{}"}, isError=b"false")),
]


@pytest.mark.parametrize("place", range(len(_PLACES)))
def test_each_member_may_nest_to_the_last_level_and_no_further(place: int) -> None:
    above, make = _PLACES[place]
    for depth in (1, limits.NESTING - above - 1, limits.NESTING - above):
        assert maybe_large_result(make(_nest(depth))) is not None
        assert isinstance(read_upstream_message(make(_nest(depth))), Message)
    for depth in (limits.NESTING - above + 1, 500, 100_000):
        assert maybe_large_result(make(_nest(depth))) is None
        assert outcome(read_upstream_message, make(_nest(depth)))[0] == reading.PARSE_ERROR  # type: ignore[index]


def test_short_values_are_not_counted_and_cannot_be_deep() -> None:
    for above, make in _PLACES:
        levels = limits.NESTING - above
        assert maybe_large_result(make(b"[" * levels + b"]" * levels)) is not None
        assert maybe_large_result(make(b"[" * (levels + 1) + b"]" * (levels + 1))) is None


def test_a_plain_large_result_needs_no_second_look() -> None:
    raw = _SHAPES[1].replace(b"<pad>", PAD)
    message = read_upstream_message(raw)
    assert isinstance(message, Message)
    assert message.members is None
    assert message.result is not None
    assert set(message.result) == {"content", "isError"}
    assert message.has_result
    odd = read_upstream_message(_answer({b"content": b'"%b"' % PAD}, b"null"))
    assert isinstance(odd, Message)
    assert odd.members is not None


def test_a_message_over_the_limit_is_refused_also_when_it_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = _SHAPES[0].replace(b"<pad>", PAD)
    monkeypatch.setattr(limits, "MESSAGE_BYTES", len(raw))
    assert isinstance(read_upstream_message(raw), Message)
    monkeypatch.setattr(limits, "MESSAGE_BYTES", len(raw) - 1)
    assert outcome(read_upstream_message, raw)[0] == reading.INVALID_REQUEST  # type: ignore[index]


_ROW = b'{"id":1,"tags":["a","b]"],"note":"line\\n"},'
_WEIGHTS = {
    "text": _with_block({b"type": b'"text"', b"text": b'"%b"' % (b"words " * 500_000)}),
    "JSON in text": _with_block(
        {b"type": b'"text"', b"text": json.dumps((b"[%b{}]" % (_ROW * 60_000)).decode()).encode()}
    ),
    "structured": _answer({b"content": b"[]", b"structuredContent": b'{"rows":[%b{}]}' % (_ROW * 70_000)}),
    "both": _with_block(
        {b"type": b'"text"', b"text": json.dumps((b"[%b{}]" % (_ROW * 30_000)).decode()).encode()},
        structuredContent=b'{"rows":[%b{}]}' % (_ROW * 30_000),
    ),
    "not ASCII": _with_block({b"type": b'"text"', b"text": '"{}"'.format("größer 日本 " * 180_000).encode()}),
    "two blocks": _answer({b"content": b'[{"type":"text"},{"text":"%b"}]' % (b"[] " * 900_000)}),
    "many small things": _answer({b"content": b"[%b{}]" % (b"{}," * 900_000)}),
}


@pytest.mark.parametrize("which", _WEIGHTS)
def test_reading_a_large_result_copies_none_of_it(which: str) -> None:
    raw = _WEIGHTS[which]
    maybe_large_result(b"")
    tracemalloc.start()
    message = read_upstream_message(raw)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(message, Message)
    assert message.members is None
    assert peak < len(raw) // 2


def test_only_what_can_nest_is_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a string nor what is too short to nest so deep, whatever stands beside them."""
    looked: list[int] = []
    monkeypatch.setattr(large_result, "nests_deeper", lambda text, levels: looked.append(len(text)))
    deep = b'"%b"' % (b"[" * 5_000)
    for block, body in itertools.product(BLOCK, BODY):
        looked.clear()
        maybe_large_result(
            _answer(
                {
                    body: BODY[body],
                    b"content": b"[%b]" % _object({block: BLOCK[block], b"text": deep}),
                    b"structuredContent": b"[%b1]" % (b"1," * 500),
                }
            )
        )
        is_of_a_block = body not in (b"contents", b"messages", b"ttlMs", b"cacheScope")
        assert (looked == [1003]) is is_of_a_block, (block, body)
