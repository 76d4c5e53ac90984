"""What arrives in pieces is judged on its way, as the strict readers judge the whole."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arrivals import (
    CALL,
    TEXT,
    arrive,
    check_arrival,
    check_scanned_once,
    check_what_is_left,
    large_result,
)
from gate_messages import client
from penstock import limits
from penstock.wire.json import digests
from penstock.wire.json.arrival import ARRIVAL_BYTES
from penstock.wire.mcp import message as reading
from penstock.wire.mcp.message import read_client_message, read_upstream_message
from penstock.wire.mcp.ndjson import LineSplitter
from two_readings import edits, outcome

MB = 1024 * 1024
RECORDS = [{"id": i, "name": f"r {i}", "tags": ["a", "]"], "deep": {"x": [i * 1.5, None]}} for i in range(9)]
EXAMPLES = [
    json.dumps(value, ensure_ascii=ascii_only, separators=separators).encode()
    for value in (
        {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": 'a"\\\n[{é€😀' * 9}]}},
        {"jsonrpc": "2.0", "id": "é", "result": {"content": [], "structuredContent": {"r": RECORDS}}},
        {"jsonrpc": "2.0", "id": 7, "error": {"code": -1, "message": "m" * 90, "data": [[[]], {}]}},
        {"jsonrpc": "2.0", "method": "tools/call", "id": 3, "params": {"name": "echo", "arguments": RECORDS}},
        {"jsonrpc": "2.0", "id": 3, "method": "m" * 60, "params": {"data": "d" * 200, "name": "n" * 60}},
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": RECORDS}},
        {
            "result": {"tools": [{"name": "shell", "inputSchema": {}}], "x": "y" * 99},
            "id": 9,
            "jsonrpc": "2.0",
        },
    )
    for ascii_only in (True, False)
    for separators in (None, (",", ":"))
]
HOSTILE = [
    b'{"jsonrpc":"2.0","id":1,"result":{"content":[[,1],"%b"]}}' % (b"x" * 90),
    b'{"jsonrpc":"2.0","id":1,"result":{"content":[[1 2],"%b"]}}' % (b"x" * 90),
    b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"a" "b"},"%b"]}}' % (b"x" * 90),
    b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"a":1,},"%b"]}}' % (b"x" * 90),
    b'{"jsonrpc":"2.0","id":1,"result":{"content":["%b\n%b"]}}' % (b"x" * 40, b"y" * 40),
    b'{"jsonrpc":"2.0","id":1,"result":{"content":["%b\\q%b"]}}' % (b"x" * 40, b"y" * 40),
    b'{"jsonrpc":"2.0","id":1,"result":{"content":["%b\xff%b"]}}' % (b"x" * 40, b"y" * 40),
    b'{"jsonrpc":"2.0","id":1,"result":{"content":["%b\xe2\x82%b"]}}' % (b"x" * 40, b"y" * 40),
    b'{"jsonrpc":"2.0","id":1,"result":{"content":[%b],"a":[}]}}' % b",".join([b"01"] * 30),
    b'{"jsonrpc":"2.0","id":1,"result":{"content":[%b}}' % b",".join([b"[]"] * 30),
    b'{"jsonrpc":"2.0","id":1,"result":{"a":[{"b":"%b"}]}},{"jsonrpc":"2.0"}' % (b"x" * 90),
    b'{"jsonrpc":"2.0","id":1,"result":{"a":[{"b":"%b"}]}} x' % (b"x" * 90),
    b'{"jsonrpc":"2.0","id":1,"result":{"a":[{"b":"%b"}]},"id":2}' % (b"x" * 90),
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":[{"b":"%b"}],"name":"a","Name":"b"}}'
    % (b"x" * 90),
    b'[{"jsonrpc":"2.0","id":1,"result":{"a":["%b"]}}]' % (b"x" * 90),
    b'{"jsonrpc":"2.0","id":1,"result":{"a":["%b\\ud83d","\\ude00%b\\"]}}' % (b"x" * 40, b"y" * 40),
    b'{"jsonrpc":"2.0","id":%b,"result":{}}' % (b"1" * 200),
    b'{"jsonrpc":"2.0","id":1,%b"result":{}}' % (b" " * 200),
    b'{"jsonrpc":"2.0","id":1,"result":{"%b":1,"%b":2}}' % (b"n" * 90, b"n" * 90),
    b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"result":{"a":["%b"]}}' % (b"x" * 90),
]


@pytest.mark.parametrize("raw", EXAMPLES + HOSTILE, ids=range(len(EXAMPLES + HOSTILE)))
@pytest.mark.parametrize("size", [4, 16, 64])
def test_it_is_judged_alike_whole_and_byte_by_byte(raw: bytes, size: int) -> None:
    ways = {check_arrival(raw, step, size) for step in (1, 2, 7, len(raw))}
    assert ways != {"hopeless"} or raw in HOSTILE


@pytest.mark.parametrize("raw", EXAMPLES, ids=range(len(EXAMPLES)))
def test_it_is_judged_alike_wherever_a_fragment_ends(raw: bytes) -> None:
    for size in range(2, len(raw)):
        assert check_arrival(raw, 5, size) != "hopeless"


def _json(depth: int) -> st.SearchStrategy[Any]:
    texts = st.text(max_size=30) | st.sampled_from(['"', "\\", '\\"', "]}", "[{", "\ud83d", "é€😀", "\x1f"])
    scalars = (
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
    )
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
        max_leaves=depth,
    )


@st.composite
def _messages(draw: st.DrawFn) -> bytes:
    value = draw(
        st.fixed_dictionaries(
            {"jsonrpc": st.just("2.0"), "id": st.integers() | st.text(max_size=40)},
            optional={
                "result": st.dictionaries(st.sampled_from(["content", "structuredContent", "a"]), _json(20)),
                "method": st.sampled_from(["tools/call", "m" * 50]),
                "params": st.dictionaries(st.sampled_from(["name", "arguments", "_meta"]), _json(20)),
                "error": _json(10),
            },
        )
    )
    text = json.dumps(
        dict(draw(st.permutations(list(value.items())))),
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.sampled_from([None, None, 1])),
        separators=draw(st.sampled_from([None, (",", ":")])),
    )
    return draw(edits(text.encode("utf-8", "surrogatepass")))


@settings(max_examples=600, deadline=None)
@given(
    _messages(),
    st.sampled_from([1, 3, 11, 1000]),
    st.sampled_from([3, 8, 20, 50]),
    st.sampled_from([99, 4096]),
)
def test_any_message_is_judged_on_its_way_as_it_is_whole(raw: bytes, step: int, size: int, most: int) -> None:
    check_arrival(raw, step, size, most)


@pytest.mark.parametrize(
    "raw",
    [
        TEXT,
        CALL,
        large_result(b'{"content":[{"type":"text","text":"%b"}]}' % (b'{\\"a\\":[1]}\\n' * 200_000)),
        large_result(b'{"structuredContent":{"r":[%b]}}' % b",".join([b'{"a":[1,{"b":"c"}]}'] * 100_000)),
        large_result(b'{"structuredContent":{"r":[%b]}}' % b",".join([b"[" * 60 + b"]" * 60] * 20_000)),
        large_result(b'{"content":[%b],"a":"%b"}' % (b"1," * MB + b"1", b"y" * MB)),
    ],
    ids=["text", "call", "JSON in text", "records", "nests", "numbers"],
)
def test_after_the_last_byte_the_same_little_is_left_howeverlarge_result(
    raw: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_what_is_left(raw, monkeypatch)


@pytest.mark.parametrize("raw", [TEXT, CALL], ids=["text", "call"])
def test_nothing_is_scanned_twice(raw: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    check_scanned_once(raw, monkeypatch)


def test_levels_are_counted_across_fragments() -> None:
    pad = b'"%b",' % (b"x" * ARRIVAL_BYTES)
    for levels, is_fine in ((limits.NESTING, True), (limits.NESTING + 1, False)):
        inner = levels - 2
        raw = large_result(b'{"a":%b%b%b}' % ((b"[" + pad) * inner, b"1", b"]" * inner))
        judge, seen = arrive(raw, 20_000)
        assert (judge.maybe_digest() is not None) is is_fine
        assert (seen is None) is is_fine


@pytest.mark.parametrize(
    "bad",
    [b"[" * 200, b"}", b'"a":1', b"nul,", b"\x01", b"\xff", b"01,"],
    ids=lambda bad: bad[:9].decode("latin-1"),
)
def test_what_is_hopeless_is_known_at_once(bad: bytes) -> None:
    begin = b'{"jsonrpc":"2.0","id":1,"result":{"content":[['
    raw = begin + bad + b'"x",' * MB
    judge, seen = arrive(raw, ARRIVAL_BYTES)
    assert seen is not None
    assert seen <= 2 * ARRIVAL_BYTES
    assert judge.maybe_digest() is None
    assert outcome(read_upstream_message, raw[:seen])[0] == reading.PARSE_ERROR  # type: ignore[index]


def test_what_was_left_out_is_never_taken_for_the_message() -> None:
    name = b"a" * 2000
    raw = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%b%b"}}' % (
        name,
        b"b" * 3 * ARRIVAL_BYTES,
    )
    judge, _ = arrive(raw, 9_000)
    digest = judge.maybe_digest()
    assert digest is not None
    assert len(digest) < len(raw) // 2
    assert reading._maybe_judged(raw, digest, read_client_message) is None
    digests.leave(raw, digest)
    assert outcome(read_client_message, raw) == outcome(read_client_message, raw)


def test_a_refusal_is_in_the_words_about_the_whole() -> None:
    raw = large_result(b'{"a":["%b"]},"id":2' % (b"x" * 3 * ARRIVAL_BYTES))
    judge, _ = arrive(raw, 9_000)
    digest = judge.maybe_digest()
    assert digest is not None
    for read in (read_client_message, read_upstream_message):
        digests.leave(raw, digest)
        assert outcome(read, raw) == outcome(read, raw)
        assert not digests.has(raw)


def test_judging_keeps_little() -> None:
    chunk = b"x" * ARRIVAL_BYTES
    judge, _ = arrive(large_result(b'{"content":[{"type":"text","text":"'), 99)
    tracemalloc.start()
    try:
        for _ in range(160):
            assert judge.takes(chunk)
        assert tracemalloc.get_traced_memory()[1] < 8 * ARRIVAL_BYTES
    finally:
        tracemalloc.stop()


def test_a_digest_is_for_those_very_bytes_and_for_one_reader() -> None:
    raw = bytes(bytearray(TEXT))
    digests.leave(raw, b"{}")
    assert digests.maybe_take(bytes(bytearray(raw))) is None
    assert digests.has(raw)
    assert digests.maybe_take(raw) == b"{}"
    assert digests.maybe_take(raw) is None
    digests.leave(raw, b"{}")
    digests.leave(CALL, None)
    assert not digests.has(raw)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_line_is_judged_while_it_arrives(end: bytes) -> None:
    splitter = LineSplitter()
    found = [line for at in range(0, len(CALL), 65_536) for line in splitter.feed(CALL[at : at + 65_536])]
    found += splitter.feed(end + b"{}\n")
    assert found == [CALL, b"{}"]
    assert isinstance(found[0], bytes)
    assert digests.has(found[0])
    message = client(found[0])
    assert (message.members, message.tool) == (None, "echo")
