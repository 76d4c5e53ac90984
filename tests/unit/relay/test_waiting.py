"""What waits for the tool list."""

from __future__ import annotations

import asyncio

from memory_doors import CHOICE, Memory
from penstock import limits
from penstock.relay.relay import Relay

CALL = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"x":"%b"}}}'
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
HELLO = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}'
ANSWER = b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}}'


def test_a_client_that_cannot_be_paused_is_refused_when_too_much_waits() -> None:
    async def run() -> None:
        client, upstream = Memory(), Memory()
        relay = Relay(client, upstream, CHOICE)  # type: ignore[arg-type]
        text = b"x" * (limits.HELD_BYTES // 2)
        for number in range(1, 10):
            relay.from_client(CALL % (number, text))
        assert len(client.given) == 5
        assert all(b'"code":-32603' in raw for raw in client.given)
        assert sum(map(len, upstream.given)) < 1000
        relay.end()

    asyncio.run(run())


def _lists_asked_for(*said: bytes) -> int:
    """How often the upstream was asked for its tools when the client said this, and `ANSWER` came back."""

    async def run() -> int:
        upstream = Memory()
        relay = Relay(Memory(), upstream, CHOICE)  # type: ignore[arg-type]
        for raw in said:
            relay.from_upstream(raw) if raw is ANSWER else relay.from_client(raw)
        relay.end()
        return sum(b"tools/list" in raw for raw in upstream.given)

    return asyncio.run(run())


def test_the_list_is_fetched_when_both_have_begun() -> None:
    assert _lists_asked_for(HELLO, ANSWER, INITIALIZED) == 1
    assert _lists_asked_for(HELLO, INITIALIZED, ANSWER) == 1


def test_who_says_only_that_it_has_begun_makes_nobody_fetch_a_list() -> None:
    assert _lists_asked_for(INITIALIZED) == 0
    assert _lists_asked_for(HELLO, INITIALIZED) == 0
    assert _lists_asked_for(HELLO, ANSWER) == 0
