"""What waits for the tool list."""

from __future__ import annotations

import asyncio
from typing import Any

import hostile
from memory_doors import GATE, Memory, post
from penstock import limits
from penstock.downstream.modern_http import ModernDoor as ModernHttpDoor
from penstock.net.http_exchange import Reply
from penstock.relay.catalogs import Catalogs
from penstock.relay.kept_lists import KeptLists
from penstock.relay.session_relay import SessionRelay
from penstock.relay.shared_link import SharedLink

CALL = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"x":"%b"}}}'
MODERN_CALL = (
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","_meta":%b}}' % hostile.META % b""
)
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
HELLO = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}'
ANSWER = b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}}'


def test_a_client_that_cannot_be_paused_is_refused_when_too_much_waits() -> None:
    async def run() -> None:
        client, upstream = Memory(), Memory()
        relay = SessionRelay(client, upstream, GATE)  # type: ignore[arg-type]
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
        relay = SessionRelay(Memory(), upstream, GATE)  # type: ignore[arg-type]
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


async def _never(*what: object) -> Any:
    raise AssertionError("nobody asks for this")


def test_who_hangs_up_is_not_kept_until_the_upstream_answers() -> None:
    async def run() -> None:
        shared_link = SharedLink(
            Memory,  # type: ignore[arg-type]
            GATE,
            Catalogs(GATE.choice, KeptLists(_never)),
            60.0,
            lambda error: None,
        )
        door = ModernHttpDoor(shared_link, GATE, None)
        replies = [Reply(Memory(), False, True) for _ in range(3)]  # type: ignore[arg-type]
        for reply in replies:
            door.handle(post(MODERN_CALL, b"2026-07-28"), reply)
        assert len(shared_link._waiting) == 3
        for reply in replies[:2]:
            reply.is_gone = True
            assert reply.on_gone is not None
            reply.on_gone()
        assert len(shared_link._waiting) == 1
        await shared_link.close()

    asyncio.run(run())
