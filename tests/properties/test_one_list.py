"""Whatever an upstream answers: no parser of a client finds a denied tool in its tool list."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import hostile
from claims import hidden_names
from hostile import Choices, row_of
from memory_doors import GATE, Memory, PipeDoor
from node_reader import maybe_node, node_reader
from penstock.policy.tools import tool_lists
from penstock.relay.session_relay import SessionRelay
from penstock.wire.mcp.ndjson import to_line
from readers import LINE_READERS, Reader

ROWS = st.binary(min_size=192, max_size=192)
_OWN_ID = re.compile(rb'"id":("penstock-[0-9a-f]+")')
_LOOP = asyncio.Runner()
ALL_READERS: dict[str, Reader] = dict(LINE_READERS)
if maybe_node() is not None:
    ALL_READERS["node"] = lambda raw: node_reader()(raw)


def in_params(value: Any) -> Iterator[dict[str, Any]]:
    """Tools listed anywhere in the params of a message."""
    if isinstance(value, dict):
        yield from anywhere(value.get("params"))


def anywhere(value: Any) -> Iterator[dict[str, Any]]:
    """What stands in a list called tools, however deep: for messages that nobody asked for."""
    if isinstance(value, dict):
        tools = value.get("tools")
        yield from (tool for tool in tools if isinstance(tool, dict)) if isinstance(tools, list) else ()
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from anywhere(part)


class Asked:
    """A client that has shaken hands, and an upstream that answers every page as the row says."""

    def __init__(self, choose: Choices) -> None:
        self.client, self.upstream = Memory(), Memory()
        self.relay = SessionRelay(self.client, self.upstream, GATE)  # type: ignore[arg-type]
        self._choose = choose

    async def list_tools(self) -> list[bytes]:
        """Everything the client hears after it has asked for the list."""
        relay = self.relay
        relay.from_client(b'{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{}}')
        relay.from_upstream(
            b'{"jsonrpc":"2.0","id":"hello","result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}}'
        )
        relay.from_client(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        self.client.given.clear()
        for page in range(4):
            own = _OWN_ID.search(self.upstream.given[-1])
            if own is None or (page and self._last == own[1]):
                break
            self._last = own[1]
            cursor = b'"c%d"' % page if self._choose.rarely(3) else None
            relay.from_upstream(hostile.answer(self._choose, own[1], cursor))
        relay.from_client(b'{"jsonrpc":"2.0","id":5,"method":"tools/list"}')
        relay.end()
        return [to_line(raw) for raw in self.client.given]


@given(row=ROWS)
def test_no_reader_finds_a_denied_tool_in_the_list(row: bytes) -> None:
    lines = _LOOP.run(Asked(Choices(row)).list_tools())
    event("listed" if any(b'"tools"' in line for line in lines) else "refused")
    for line in lines:
        assert not hidden_names(line, ALL_READERS), line


@given(row=ROWS)
def test_no_reader_finds_a_denied_tool_in_another_answer(row: bytes) -> None:
    door = PipeDoor()
    door.relay.from_client(b'{"jsonrpc":"2.0","id":9,"method":"x/list"}')
    door.relay.from_upstream(hostile.answer(Choices(row), b"9"))
    for raw in door.client.given:
        assert not hidden_names(to_line(raw), ALL_READERS), raw


@given(row=ROWS)
def test_no_reader_finds_a_denied_tool_in_what_comes_unasked(row: bytes) -> None:
    door = PipeDoor()
    door.relay.from_upstream(hostile.notification(Choices(row)))
    event("passed" if door.client.given else "stopped")
    for raw in door.client.given:
        assert not hidden_names(to_line(raw), ALL_READERS, in_params), raw


@given(row=ROWS)
def test_no_reader_finds_a_denied_tool_in_what_is_too_large_for_a_tree(row: bytes) -> None:
    """The same messages, looked at as messages of megabytes are."""
    usual, tool_lists._DEEP_BYTES = tool_lists._DEEP_BYTES, 0
    try:
        test_no_reader_finds_a_denied_tool_in_what_comes_unasked.hypothesis.inner_test(row)
    finally:
        tool_lists._DEEP_BYTES = usual


def test_without_a_gate_many_of_these_lists_would_show_a_denied_tool() -> None:
    lines = [to_line(hostile.answer(Choices(row_of(seed)), b"9")) for seed in range(300)]
    shown = [hidden_names(line, ALL_READERS) for line in lines]
    for which in ALL_READERS:
        assert sum(which in names for names in shown) >= 30, which
    assert sum(0 < len(names) < len(ALL_READERS) for names in shown) >= 30  # readers disagree
    heard = [_LOOP.run(Asked(Choices(row_of(seed))).list_tools()) for seed in range(300)]
    assert sum(b'"tools"' in b"".join(lines) for lines in heard) >= 60


pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
