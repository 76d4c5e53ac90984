"""The short way of a call to one of several upstreams, and of its answer: what it must not leave out."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from memory_doors import HELLO, Memory
from penstock import limits
from penstock.gate.gate import Gate
from penstock.policy.patterns.patterns import compile_pattern
from penstock.policy.several.terms import MemberTerms, SeveralTerms
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.relay.adapters.aggregate.aggregate import Aggregate
from penstock.relay.adapters.aggregate.hub import Hub
from penstock.relay.adapters.aggregate.member import Member
from penstock.relay.contracts import LinkFacts
from penstock.relay.session_relay import SessionRelay
from penstock.wire.mcp.message import Message

LOOK_BYTES = 64 * 1024
PLAIN = b'{"jsonrpc":"2.0","id":%b,"result":{"content":[{"type":"text","text":"done"}]}}'
LIST = b'{"jsonrpc":"2.0","id":%b,"result":{"content":[],"tools":[{"name":"hidden"}]}}'


def in_a_loop(scenario: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(scenario)
    def test(**named: Any) -> None:
        asyncio.run(scenario(**named))

    return test


def denying(name: str) -> ToolFilter:
    return ToolFilter(deny=(compile_pattern(name, "deny list"),))


class Upstream(Memory):
    """A member that greets, lists its tools, and answers calls when it is told to."""

    facts = LinkFacts("memory")

    def __init__(self, terms: MemberTerms, tools: tuple[str, ...]) -> None:
        super().__init__()
        self.terms = terms
        self.tools = tools
        self.calls: list[bytes] = []
        self.untaken = 0

    def send(self, message: Message) -> None:  # type: ignore[override]
        """Takes a message."""
        if message.method == "initialize":
            result: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
        elif message.method == "tools/list":
            result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in self.tools]}
        else:
            self.calls += [message.raw] if message.method == "tools/call" else []
            return
        assert message.id_token is not None
        raw = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (message.id_token, json.dumps(result).encode())
        asyncio.get_running_loop().call_soon(self.receiver.from_upstream, raw)

    async def close(self) -> None:
        """Nothing to close."""

    async def stop(self, grace: float) -> None:
        """Nothing to end."""

    def kill(self) -> None:
        """Nothing to end."""


class Place:
    """A client, several upstreams in memory, and the real code between them."""

    def __init__(self, *members: MemberTerms, choice: ToolFilter) -> None:
        self.ups: dict[str, Upstream] = {}
        self.terms = SeveralTerms(members=members)
        self.hub = Hub(self.terms, self.open, learns=False)
        self.aggregate = Aggregate(self.hub, self.hub.new_view(choice), owns_hub=True)
        self.client = Memory()
        self.relay = SessionRelay(self.client, self.aggregate, Gate(ToolFilter()))  # type: ignore[arg-type]
        self.last = 0

    def open(self, terms: MemberTerms, *more: object) -> Any:
        up = self.ups[terms.name] = Upstream(terms, (f"{terms.name}_tool", "hidden", "shared"))
        return up

    def call(self, tool: str, more: bytes = b"", number: int | None = None) -> bytes:
        """Sends a call; gives its id."""
        if number is None:
            self.last += 1
            number = self.last
        raw = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%b","arguments":{}%b}}'
        self.relay.from_client(raw % (number, tool.encode(), more))
        return b"%d" % number

    def answers(self) -> list[Any]:
        """What the client was told since the last time."""
        given, self.client.given = self.client.given, []
        return [json.loads(raw) for raw in given]


@asynccontextmanager
async def place(*members: MemberTerms, choice: ToolFilter = ToolFilter()) -> AsyncIterator[Place]:  # noqa: B008
    found = Place(*members, choice=choice)
    found.relay.from_client(HELLO)
    await until(lambda: found.client.given)
    found.relay.from_client(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    found.client.given = []
    try:
        yield found
    finally:
        await found.aggregate.stop()


async def until(holds: Callable[[], object]) -> None:
    for _ in range(1000):
        if holds():
            return
        await asyncio.sleep(0)
    raise AssertionError("it does not come to be so")


ONE, TWO = MemberTerms("one", "one"), MemberTerms("two", "two")


@in_a_loop
async def test_a_call_goes_to_its_owner_as_it_is_and_only_the_owner_answers_it() -> None:
    async with place(ONE, TWO) as found:
        one, two = found.ups["one"], found.ups["two"]
        token = found.call("two_tool")
        assert not one.calls
        (raw,) = two.calls
        assert json.loads(raw)["params"] == {"name": "two_tool", "arguments": {}}
        one.receiver.from_upstream(PLAIN % token)
        assert not found.answers()
        two.receiver.from_upstream(PLAIN % token)
        two.receiver.from_upstream(PLAIN % token)
        (answer,) = found.answers()
        assert (answer["id"], answer["result"]["content"][0]["text"]) == (1, "done")


@pytest.mark.parametrize("spelt", [b"7.0", b"70e-1", b"7"])
@in_a_loop
async def test_an_id_is_the_same_however_it_is_spelt(spelt: bytes) -> None:
    async with place(ONE, TWO) as found:
        found.call("one_tool", number=7)
        found.ups["one"].receiver.from_upstream(PLAIN % spelt)
        assert len(found.answers()) == 1


@in_a_loop
async def test_an_upstream_that_takes_nothing_gets_no_more_and_one_that_does_again_does() -> None:
    async with place(ONE, TWO) as found:
        one = found.ups["one"]
        one.untaken = limits.PENDING_BYTES + 1
        for _ in range(2):
            sent = len(one.calls)
            while not (answers := found.answers()):
                found.call("one_tool", b',"_meta":{"fill":"%b"}' % (b"x" * 10_000))
                assert sum(map(len, one.calls[sent:])) < 2 * LOOK_BYTES
            assert answers[0]["error"]["message"] == "one is not available"
            # From then on each one is refused until something is taken.
            for _ in range(3):
                sent = len(one.calls)
                found.call("one_tool")
                assert found.answers()[0]["error"]["message"] == "one is not available"
                assert len(one.calls) == sent
            found.call("two_tool")
            assert not found.answers()
            one.untaken = 0
            found.call("one_tool")
            assert not found.answers()
            assert len(one.calls) == sent + 1
            one.untaken = limits.PENDING_BYTES + 1


@in_a_loop
async def test_a_hidden_tool_is_not_called_and_not_shown_on_the_short_way_either() -> None:
    async with place(ONE, TWO, choice=denying("hidden")) as found:
        token = found.call("one_tool")
        found.ups["one"].receiver.from_upstream(PLAIN % token)
        assert "result" in found.answers()[0]
        found.call("hidden")
        assert found.answers()[0]["error"]["message"] == "Tool not found: hidden"
        token = found.call("one_tool")
        found.ups["one"].receiver.from_upstream(LIST % token)
        (answer,) = found.answers()
        assert answer["error"]["code"] == -32603
        assert "hidden" not in json.dumps(answer)
        assert len(found.ups["one"].calls) == 2


@in_a_loop
async def test_nothing_goes_over_a_link_that_has_ended() -> None:
    async with place(ONE, TWO) as found:
        link = found.aggregate.links["one"]
        await link.stop()
        found.call("one_tool")
        await until(lambda: found.ups["one"].calls or found.client.given)
        assert link.member.links == 1  # another one was opened for it
        assert found.aggregate.links["one"] is not link


@in_a_loop
async def test_each_link_is_looked_at_by_the_terms_that_it_was_opened_with() -> None:
    """A member that a new file hides tools of, with a call under way at the one before."""
    async with place(ONE, TWO) as found:
        old = found.ups["one"]
        token = found.call("one_tool")
        changed = MemberTerms("one", "one", choice=denying("hidden"))
        terms = SeveralTerms(members=(changed, TWO))
        assert found.hub.reload(terms, found.open, frozenset({"one"}))
        old.receiver.from_upstream(LIST % token)
        assert "result" in found.answers()[0]  # it was asked when nothing was hidden
        await until(lambda: "one_tool" in found.aggregate.view.tools.owners)
        new = found.ups["one"]
        assert new is not old
        token = found.call("one_tool")
        await until(lambda: new.calls)
        new.receiver.from_upstream(LIST % token)
        assert found.answers()[-1]["error"]["code"] == -32603


@in_a_loop
async def test_members_of_one_name_have_a_gate_each() -> None:
    async with place(ONE, TWO) as found:
        view = found.aggregate.view
        before = Member(ONE, lambda credential: Upstream(ONE, ()))  # type: ignore[arg-type, return-value]
        after = Member(
            MemberTerms("one", "one", choice=denying("hidden")),
            lambda credential: Upstream(ONE, ()),  # type: ignore[arg-type, return-value]
        )
        assert not view.gate_of(before).is_filtering
        assert view.gate_of(after).is_filtering
        assert view.gate_of(before) is view.gate_of(before)
