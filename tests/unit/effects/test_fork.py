"""Copies for shadow upstreams: a link in memory that does what a test says, a real process, a real server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.effects.fork import Shadows, maybe_copy
from penstock.errors import ConnectFailed, UpstreamLost
from penstock.net.warden import Warden
from penstock.open_links import open_shadow
from penstock.policy.rules.effect_contract import ForkSpec
from penstock.wire.mcp.eras import META_VERSION, MODERN_VERSIONS, Era
from penstock.wire.mcp.message import Kind, Message

SPEC = ForkSpec(argv=("shadow",))
CALL = b'{ "jsonrpc":"2.0", "id" : 7, "method":"tools/call", "params":{"name":"echo","arguments":{"n":1.0}} }'
SAMPLE = Path(__file__).parents[3] / "examples" / "sample_server.py"


class Link:
    """A shadow in memory. It speaks one era and answers unless told otherwise."""

    def __init__(self, era: Era = Era.LEGACY, is_silent: bool = False) -> None:
        self.receiver: Any = None
        self.peer: Any = None
        self.era = era
        self.is_silent = is_silent
        self.is_stopped = False
        self.sent: list[Message] = []
        self.changed = asyncio.Event()

    def send(self, message: Message) -> None:
        self.sent.append(message)
        self.changed.set()
        method = message.method
        if message.kind is not Kind.REQUEST:
            return
        if method == "initialize" and self.era is Era.MODERN:
            self.say(message.id_token, b'"error":{"code":-32601,"message":"no"}')
        elif method in ("initialize", "server/discover"):
            self.say(message.id_token, b'"result":{"capabilities":{"tools":{}}}')
        elif method == "tools/list" and len(self.copies) == 0:
            self.say(message.id_token, b'"result":{"tools":[]}')
        elif not self.is_silent:
            self.say(message.id_token, b'"result":{}')

    def say(self, id_token: bytes | None, rest: bytes) -> None:
        raw = b'{"jsonrpc":"2.0","id":%b,%b}' % (id_token or b"null", rest)
        asyncio.get_running_loop().call_soon(self.receiver.from_upstream, raw)

    def pause(self, reason: str) -> None: ...

    def resume(self, reason: str) -> None: ...

    async def close(self) -> None:
        await self.stop(0)

    async def stop(self, grace: float) -> None:
        self.is_stopped = True

    @property
    def copies(self) -> list[Message]:
        ours = ("initialize", "notifications/initialized", "server/discover")
        said = [message for message in self.sent if message.method not in ours]
        return said[1:]  # the first tools/list is part of getting to know each other

    async def has(self, count: int) -> list[Message]:
        while len(self.copies) < count:
            self.changed.clear()
            await self.changed.wait()
        return self.copies


class Rest:
    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.rested = asyncio.Event()
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self.rested.set()
        await self.may_end.wait()
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def shadows(open_link: Callable[[ForkSpec], Any], **options: Any) -> AsyncIterator[Shadows]:
    house = Shadows(open_link, **options)
    try:
        yield house
    finally:
        await house.close()
        assert house.shadow_count == 0


def request(number: int, method: str = "tools/call") -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":{"name":"t"}}' % (number, method.encode())


def decoded(message: Message | None) -> dict[str, Any]:
    assert message is not None
    found: dict[str, Any] = json.loads(message.raw)
    return found


# Copies


def test_a_copy_differs_in_its_id_only():
    copy = maybe_copy(CALL, Era.LEGACY)
    assert copy is not None
    assert copy.id_token is not None
    assert copy.id_token.startswith(b'"penstock-')
    assert copy.raw.replace(copy.id_token, b"7") == CALL
    assert copy.method == "tools/call"


def test_no_two_copies_have_the_same_id():
    assert len({decoded(maybe_copy(CALL, Era.LEGACY))["id"] for _ in range(100)}) == 100


@pytest.mark.parametrize(
    "raw",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}',
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
        b'{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}',
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}',
        b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/call"}',
        b"nonsense",
        b"",
    ],
)
def test_what_a_shadow_cannot_take_is_not_copied(raw):
    assert maybe_copy(raw, Era.LEGACY) is None
    assert maybe_copy(raw, Era.MODERN) is None


def test_vendor_notifications_are_copied():
    raw = b'{"jsonrpc":"2.0","method":"vendor/event"}'
    copy = maybe_copy(raw, Era.LEGACY)
    assert copy is not None
    assert copy.raw == raw


@pytest.mark.parametrize(
    "params", [b"", b',"params":{}', b',"params":{"name":"x","_meta":{"progressToken":1}}']
)
def test_a_modern_shadow_is_told_who_asks(params):
    copy = decoded(maybe_copy(b'{"jsonrpc":"2.0","id":1,"method":"tools/call"%b}' % params, Era.MODERN))
    assert copy["params"]["_meta"][META_VERSION] == MODERN_VERSIONS[-1]
    if b"progressToken" in params:
        assert copy["params"]["_meta"]["progressToken"] == 1
        assert copy["params"]["name"] == "x"


def test_what_a_modern_client_says_of_itself_stays():
    raw = (
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"%b":"2026-07-28"}}}'
        % META_VERSION.encode()
    )
    assert decoded(maybe_copy(raw, Era.MODERN))["params"] == json.loads(raw)["params"]


def test_a_legacy_shadow_does_not_see_it():
    meta = b'{"%b":"2026-07-28","mine":1}' % META_VERSION.encode()
    raw = b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1.0,"_meta":%b}}' % meta
    assert decoded(maybe_copy(raw, Era.LEGACY))["params"] == {"a": 1.0, "_meta": {"mine": 1}}


@given(st.binary(max_size=80), st.sampled_from(list(Era)))
def test_no_bytes_trouble_the_copier(raw, era):
    maybe_copy(raw, era)
    maybe_copy(b'{"jsonrpc":"2.0","id":1,"method":"m","params":%b}' % raw, era)


# Conversations


@pytest.mark.parametrize("era", list(Era))
def test_a_shadow_is_greeted_and_gets_its_copies_in_order(era):
    async def main() -> None:
        link = Link(era)
        async with shadows(lambda _: link) as house:
            for number in range(200):
                house.fork(SPEC, request(number, f"m/{number}"))
            copies = await link.has(200)
            assert [copy.method for copy in copies] == [f"m/{number}" for number in range(200)]
            assert len({copy.id_token for copy in copies}) == 200
        assert link.is_stopped
        assert link.sent[0].method == "initialize"

    asyncio.run(main())


def test_as_many_copies_as_the_rule_says():
    async def main() -> None:
        link = Link()
        async with shadows(lambda _: link) as house:
            house.fork(ForkSpec(argv=("shadow",), copies=3), CALL)
            assert len({copy.id_token for copy in await link.has(3)}) == 3

    asyncio.run(main())


def test_forking_happens_in_no_time_whatever_the_shadow_does():
    async def main() -> None:
        opened = []
        async with shadows(lambda spec: opened.append(spec) or Link()) as house:
            house.fork(SPEC, CALL)
            assert not opened  # not even the link is opened in the caller's turn

    asyncio.run(main())


def test_a_shadow_that_does_not_answer_gets_no_more_and_the_queue_is_bounded():
    async def main() -> None:
        link = Link(is_silent=True)
        async with shadows(lambda _: link, most_copies=10) as house:
            house.fork(SPEC, request(0))
            await link.has(1)
            for number in range(1, 1_000):
                house.fork(SPEC, request(number))
                await asyncio.sleep(0)
            assert len(link.copies) == limits.FORK_UNDER_WAY
            waiting = 11  # ten in the queue, one taken out of it and not sent
            assert house.dropped_count == 1_000 - limits.FORK_UNDER_WAY - waiting

    asyncio.run(main())


def test_the_queue_is_bounded_in_bytes():
    async def main() -> None:
        async with shadows(lambda _: Link(), most_bytes=1_000) as house:
            for _ in range(100):
                house.fork(SPEC, b"x" * 300)
            assert house.dropped_count == 97

    asyncio.run(main())


def test_a_shadow_that_does_not_answer_is_hung_up_on_and_called_again():
    async def main() -> None:
        links: list[Link] = []

        def open_link(spec: ForkSpec) -> Link:
            links.append(Link(is_silent=not links))
            return links[-1]

        rest = Rest()
        async with shadows(open_link, rest=rest, answer_seconds=0.01) as house:
            for number in range(limits.FORK_UNDER_WAY + 2):
                house.fork(SPEC, request(number))
            await rest.rested.wait()
            assert links[0].is_stopped
            house.fork(SPEC, request(1_000, "again"))
            while len(links) < 2:  # noqa: ASYNC110 - it comes by itself
                await asyncio.sleep(0)
            assert (await links[1].has(1))[-1].method in ("tools/call", "again")

    asyncio.run(main())


def test_failures_are_waited_out_longer_and_longer():
    async def main() -> None:
        link = Link()
        failures = 5

        def open_link(spec: ForkSpec) -> Link:
            nonlocal failures
            failures -= 1
            if failures >= 0:
                raise ConnectFailed("shadow", "Connection refused")
            return link

        rest = Rest()
        async with shadows(open_link, rest=rest, chance=lambda: 1.0) as house:
            house.fork(SPEC, CALL)
            await link.has(1)  # what waited was not lost
        assert rest.seconds == [1.0, 2.0, 4.0, 8.0, 16.0]

    asyncio.run(main())


@pytest.mark.parametrize("failure", [ConnectFailed("shadow", "gone"), ValueError("a bug")])
def test_no_failure_comes_out(failure, caplog):
    async def main() -> None:
        def open_link(spec: ForkSpec) -> Link:
            raise failure

        rest = Rest()
        rest.may_end.clear()
        async with shadows(open_link, rest=rest) as house:
            house.fork(SPEC, CALL)
            await rest.rested.wait()
            house.fork(SPEC, CALL)

    asyncio.run(main())
    assert "A shadow upstream fails" in caplog.text


def test_a_shadow_that_goes_away_is_called_again_for_the_next_copy():
    async def main() -> None:
        links: list[Link] = []

        def open_link(spec: ForkSpec) -> Link:
            links.append(Link())
            return links[-1]

        rest = Rest()
        async with shadows(open_link, rest=rest) as house:
            house.fork(SPEC, request(1))
            await links_have(links, 1)
            await links[0].has(1)
            links[0].receiver.upstream_lost(UpstreamLost())
            await rest.rested.wait()
            house.fork(SPEC, request(2))
            await links_have(links, 2)
            await links[1].has(1)
            assert links[0].is_stopped

    asyncio.run(main())


async def links_have(links: list[Link], count: int) -> None:
    while len(links) < count:  # noqa: ASYNC110 - it comes by itself
        await asyncio.sleep(0)


def test_a_shadow_without_copies_is_left_alone_after_a_while():
    async def main() -> None:
        link = Link()
        async with shadows(lambda _: link, idle_seconds=0.0) as house:
            house.fork(SPEC, CALL)
            await link.has(1)
            while house.shadow_count:  # noqa: ASYNC110 - it comes by itself
                await asyncio.sleep(0)
            assert link.is_stopped

    asyncio.run(main())


def test_what_a_shadow_asks_is_answered():
    async def main() -> None:
        link = Link()
        async with shadows(lambda _: link) as house:
            house.fork(SPEC, CALL)
            await link.has(1)
            link.receiver.from_upstream(b'{"jsonrpc":"2.0","id":5,"method":"ping"}')
            link.receiver.from_upstream(b'{"jsonrpc":"2.0","id":6,"method":"roots/list"}')
            link.receiver.from_upstream(b"nonsense")
            link.receiver.from_upstream(b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}')
            link.peer.pause("full")
            link.receiver.from_upstream(b'{"jsonrpc":"2.0","id":7,"method":"ping"}')  # it does not read
            assert [decoded(reply)["id"] for reply in link.sent[-2:]] == [5, 6]
            assert decoded(link.sent[-1])["error"]["code"] == -32601

    asyncio.run(main())


def test_a_shadow_that_does_not_read_gets_nothing_until_it_does():
    async def main() -> None:
        link = Link()
        async with shadows(lambda _: link) as house:
            house.fork(SPEC, CALL)
            await link.has(1)
            link.peer.pause("full")
            house.fork(SPEC, CALL)
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(link.copies) == 1
            link.peer.resume("full")
            await link.has(2)

    asyncio.run(main())


# The real thing


def test_a_process_gets_copies(tmp_path):
    heard = tmp_path / "heard"
    spec = ForkSpec(argv=("/bin/sh", "-c", f"tee {heard} | {sys.executable} {SAMPLE}"))

    async def main() -> None:
        warden = Warden()
        async with shadows(lambda asked: open_shadow(asked, warden)) as house:
            house.fork(spec, CALL)
            while not heard.exists() or b"tools/call" not in heard.read_bytes():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            while house._shadows[spec]._under_way:  # noqa: ASYNC110 - until it has answered
                await asyncio.sleep(0.01)
        warden.dismiss()

    asyncio.run(main())
    methods = [json.loads(line)["method"] for line in heard.read_bytes().splitlines()]
    assert methods == ["initialize", "notifications/initialized", "tools/list", "tools/call"]


@contextlib.asynccontextmanager
async def http_shadow() -> AsyncIterator[tuple[int, list[dict[str, Any]]]]:
    heard: list[dict[str, Any]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = (
                    int(head.split(b"content-length:")[1].split(b"\r\n")[0])
                    if b"content-length" in head
                    else 0
                )
                body = await reader.readexactly(length)
                if not head.startswith(b"post"):
                    writer.write(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n")
                    continue
                message = json.loads(body)
                heard.append(message)
                if "id" not in message:
                    writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
                    continue
                results = {
                    "initialize": {
                        "protocolVersion": "2025-11-25",
                        "capabilities": {"tools": {}},
                        "serverInfo": {"name": "shadow", "version": "1"},
                    },
                    "tools/list": {"tools": []},
                }
                result = results.get(message["method"], {"content": []})
                answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
                head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                writer.write(head % len(answer) + answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], heard
    finally:
        server.close()


def test_a_server_gets_copies():
    async def main() -> None:
        warden = Warden()
        async with http_shadow() as (port, heard), shadows(lambda asked: open_shadow(asked, warden)) as house:
            spec = ForkSpec(f"http://127.0.0.1:{port}/mcp", allow_http=True, allow_private=True)
            house.fork(spec, CALL)
            while not any(message["method"] == "tools/call" for message in heard):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert heard[-1]["params"] == {"name": "echo", "arguments": {"n": 1.0}}

    asyncio.run(main())


@pytest.mark.parametrize("options", [{"allow_private": True}, {"allow_http": True}])
def test_a_server_out_of_bounds_gets_nothing(options, caplog):
    async def main() -> None:
        warden, rest = Warden(), Rest()
        rest.may_end.clear()
        async with http_shadow() as (port, heard):
            async with shadows(lambda asked: open_shadow(asked, warden), rest=rest) as house:
                house.fork(ForkSpec(f"http://127.0.0.1:{port}/mcp", **options), CALL)
                await rest.rested.wait()
            assert not heard

    asyncio.run(main())
    assert "A shadow upstream fails" in caplog.text
