"""Ten megabytes of tiny parts are refused before they become half a gigabyte of objects."""

from __future__ import annotations

import tracemalloc

import pytest
from msgspec import Raw

from gate_messages import client
from penstock import limits
from penstock.errors import ClientProtocolError, UpstreamProtocolError
from penstock.wire.mcp.eras import maybe_modern_meta
from penstock.wire.mcp.mcp_headers import SchemaBook, maybe_modern_version
from penstock.wire.mcp.message import read_client_message, read_upstream_message
from penstock.wire.mcp.response_id import maybe_response_id

MANY = limits.PATH_PARTS + 10


@pytest.mark.parametrize(
    "raw",
    [
        b"[" + b"[]," * MANY + b"[]]",
        b"[" + b"{}," * (limits.MESSAGE_BYTES // 4) + b"{}]",
        b' [ "" ' + b',""' * MANY + b"]",
        b'{"jsonrpc":"2.0","method":"ping",%b}' % b",".join(b'"%d":0' % n for n in range(MANY)),
        b'{"jsonrpc":"2.0","method":"ping","params":{%b}}' % b",".join(b'"%d":0' % n for n in range(MANY)),
    ],
    ids=["arrays", "objects", "texts", "envelope", "params"],
)
def test_a_crowd_is_refused_without_being_taken_apart(raw: bytes):
    with pytest.raises(ClientProtocolError):
        read_client_message(b"[]x")  # so that nothing is loaded for the first time below
    tracemalloc.start()
    try:
        with pytest.raises(ClientProtocolError, match="more than"):
            read_client_message(raw)
        assert tracemalloc.get_traced_memory()[1] < 4 * limits.READ_BYTES + len(raw)
    finally:
        tracemalloc.stop()


def test_what_is_crowded_further_down_is_the_tools_own_affair():
    inner = b"[" + b"[]," * MANY + b"[]]"
    raw = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":%b}}}' % inner
    message = client(raw)
    assert message.raw == raw


def test_in_a_crowded_meta_only_what_is_looked_for_is_made():
    crowd = b",".join(b'"%x":1' % n for n in range(200_000))
    meta = Raw(b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28",%b}' % crowd)
    tracemalloc.start()
    try:
        assert maybe_modern_version({"_meta": meta}) == "2026-07-28"
        wanted = b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}'
        assert maybe_modern_meta({"_meta": meta}) == wanted
        assert tracemalloc.get_traced_memory()[1] < len(crowd) // 10
    finally:
        tracemalloc.stop()


MEMBERS = b",".join(b'"%x":0' % n for n in range(MANY))


def _look_at_meta(raw: bytes) -> None:
    assert maybe_modern_meta({"_meta": raw}) is None  # type: ignore[dict-item]
    assert maybe_modern_version({"_meta": raw}) is None  # type: ignore[dict-item]


def _read(raw: bytes) -> None:
    try:
        read_upstream_message(raw)
    except UpstreamProtocolError:
        assert b'"x":1' in raw


@pytest.mark.parametrize(
    ("raw", "look"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{%b}}', _read),
        (b'{"jsonrpc":"2.0","id":1,"result":{"content":[],%b}}', _read),
        (b'{"jsonrpc":"2.0","id":1,"x":1,"result":{},%b}', _read),
        (b'{%b,"x":1,"jsonrpc":"2.0","id":1,"result":{}}', maybe_response_id),
        (b"{%b}", _look_at_meta),
        (
            b'{"result":{"tools":[{"name":"x","inputSchema":{"properties":{"x-mcp-header":{%b}}}}]}}',
            SchemaBook().learn,
        ),
    ],
    ids=["result", "usual result", "envelope", "glance", "meta", "schema"],
)
def test_no_table_is_made_of_a_crowd_that_an_upstream_sends(raw: bytes, look) -> None:
    """The members themselves would take seventeen times their own bytes."""
    look(raw % b'"a":0')  # so that nothing is loaded for the first time below
    raw %= MEMBERS
    tracemalloc.start()
    try:
        look(raw)
        assert tracemalloc.get_traced_memory()[1] < 4 * limits.READ_BYTES + 3 * len(raw)
    finally:
        tracemalloc.stop()


def test_a_list_of_very_many_tools_is_not_searched_for_headers() -> None:
    tools = b'{"name":"","inputSchema":{"properties":{"a":{"x-mcp-header":"A","type":"string"}}}}'
    book = SchemaBook()
    params = {"name": b'""', "arguments": b'{"a":"x"}'}
    book.learn(b'{"result":{"tools":[%b]}}' % b",".join([tools] * MANY))
    assert book.headers(params) == []  # type: ignore[arg-type]
    book.learn(b'{"result":{"tools":[%b]}}' % tools)
    assert book.headers(params) == [(b"Mcp-Param-A", b"x")]  # type: ignore[arg-type]
