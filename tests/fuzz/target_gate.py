"""The gate against every parser: what goes up calls nothing denied, and what comes back shows nothing denied.

A first byte under 128 makes the rest a client's or an upstream's bytes as they stand; from 128 on the rest is
a row of choices for the hostile grammar, so that a mutation changes the message and not only its bytes.
"""

from __future__ import annotations

import asyncio

import hostile
from claims import hidden_names, is_strict, readers_of, wrong_calls
from hostile import Choices
from memory_doors import DOORS, GATE, Memory, PipeDoor, forget_doors
from penstock.errors import UpstreamProtocolError
from penstock.relay.session_relay import SessionRelay
from penstock.wire.mcp.message import read_upstream_message
from penstock.wire.mcp.ndjson import to_line
from readers import LINE_READERS

_LOOP = asyncio.Runner()
_FAULT = b"Internal error"


def check(data: bytes) -> None:
    """Raises AssertionError where a claim does not hold."""
    kind, rest = (data[0], data[1:]) if data else (0, b"")
    door = list(DOORS)[kind % len(DOORS)]
    if kind >= 128:
        choose = Choices(rest)
        choose.is_modern = door == "modern"
        raw = hostile.message(choose)
        listing = hostile.answer(Choices(rest), b"9")
    else:
        raw = listing = rest
    _check_client(raw, door)
    _check_upstream(listing)
    _LOOP.run(_check_catalog(listing))


def _check_client(raw: bytes, door: str) -> None:
    up, back = DOORS[door]().take(raw)
    forget_doors()
    for wire in up:
        found = wrong_calls(wire, readers_of(door))
        assert not found, (door, raw, found)
        assert is_strict(wire), (door, raw)
    said = b"".join(back)
    assert hostile.UNSPOKEN.encode() not in said or hostile.UNSPOKEN.encode() in raw, (door, raw, said)
    assert _FAULT not in said, (door, raw, said)


def _check_upstream(raw: bytes) -> None:
    door = PipeDoor()
    door.relay.from_client(b'{"jsonrpc":"2.0","id":9,"method":"x/list"}')
    door.relay.from_upstream(raw)
    for heard in door.client.given:
        found = hidden_names(to_line(heard), LINE_READERS)
        assert not found, (raw, found)


async def _check_catalog(raw: bytes) -> None:
    """The same bytes as the upstream's answer to our own request for its list."""
    client, upstream = Memory(), Memory()
    relay = SessionRelay(client, upstream, GATE)  # type: ignore[arg-type]
    relay.from_client(b'{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{}}')
    relay.from_upstream(b'{"jsonrpc":"2.0","id":"hello","result":{"capabilities":{"tools":{}}}}')
    relay.from_client(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    asked = read_upstream_message(upstream.given[-1])
    token = getattr(asked, "id_token", b"")
    client.given.clear()
    try:
        relay.from_upstream(raw.replace(b'"id":9', b'"id":' + token))
    except UpstreamProtocolError as refusal:
        raise AssertionError((raw, refusal)) from None
    relay.from_client(b'{"jsonrpc":"2.0","id":5,"method":"tools/list"}')
    relay.end()
    for heard in client.given:
        found = hidden_names(to_line(heard), LINE_READERS)
        assert not found, (raw, found)
