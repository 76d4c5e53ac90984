"""Ten megabytes of tiny parts are refused before they become half a gigabyte of objects."""

from __future__ import annotations

import tracemalloc

import pytest
from msgspec import Raw

from penstock import limits
from penstock.errors import ClientProtocolError
from penstock.wire.eras import maybe_modern_meta
from penstock.wire.mcp_headers import maybe_modern_version
from penstock.wire.message import Message, read_client_message

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
    message = read_client_message(raw)
    assert isinstance(message, Message)
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
