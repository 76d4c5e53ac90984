"""The store over a line that spoils what it carries: nobody gets an answer that is another's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.config.shared import parse_address
from penstock.state.redis_link import RedisLink
from penstock.state.redis_store import RedisStore
from penstock.state.store import Admission, StoreDown
from redis_server import RedisServer, needs_redis
from trials.faults.tcp_relay import TcpRelay
from trials.faults.toxics import Toxic

pytestmark = needs_redis


def with_store(
    work: Path, use: Callable[[RedisStore, TcpRelay, RedisServer], Awaitable[None]], timeout: float = 5.0
) -> None:
    """Runs `use` with a store behind a relay."""

    async def main(relay: TcpRelay, redis: RedisServer) -> None:
        address = parse_address(f"redis://127.0.0.1:{relay.port}/0")
        store = RedisStore(RedisLink(address, timeout), timeout, b"ps1:probe")
        try:
            await use(store, relay, redis)
        finally:
            await store.close()

    with RedisServer(work) as redis, TcpRelay("127.0.0.1", redis.port) as relay:
        asyncio.run(main(relay, redis))


async def admitted(store: RedisStore, key: bytes, limit: int) -> Admission | None:
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    store.admit(key, limit, 60.0, done.set_result)
    found: Admission | None = await done
    return found


def test_replies_that_come_in_pieces_are_put_together(tmp_path: Path) -> None:
    async def use(store: RedisStore, relay: TcpRelay, redis: RedisServer) -> None:
        relay.toxic = Toxic("slicer")
        values = {b"k%d" % number: bytes([number % 256]) * (number * 7 % 300) for number in range(40)}
        await asyncio.gather(*(store.keep(key, value, 60.0) for key, value in values.items()))
        found = await asyncio.gather(*(store.get(key) for key in values))
        assert found == list(values.values())
        words = await asyncio.gather(*(admitted(store, b"one", 3) for _ in range(10)))
        assert sum(word is not None and word.may_pass for word in words) == 3

    with_store(tmp_path, use, timeout=30.0)


@pytest.mark.parametrize("kind", ["cut", "reset", "stall"])
def test_a_reply_that_was_cut_is_nobodys(tmp_path: Path, kind: str) -> None:
    """After a broken line every value is still the one of its own key."""

    async def use(store: RedisStore, relay: TcpRelay, redis: RedisServer) -> None:
        keys = [b"key-%d" % number for number in range(20)]
        await asyncio.gather(*(store.keep(key, b"of " + key, 60.0) for key in keys))
        for after in (1, 3, 17, 40):
            relay.toxic = Toxic(kind, after=after, seconds=3.0)
            told = await asyncio.gather(*(store.get(key) for key in keys), return_exceptions=True)
            right = [b"of " + key for key in keys]
            assert all(isinstance(one, StoreDown) or one == own for one, own in zip(told, right, strict=True))
            assert any(isinstance(one, StoreDown) for one in told)
            relay.toxic = Toxic()
            while True:
                try:
                    assert [await store.get(key) for key in keys] == [b"of " + key for key in keys]
                    break
                except StoreDown:
                    await asyncio.sleep(0.05)

    with_store(tmp_path, use, timeout=0.5)


def test_who_stops_waiting_shifts_no_reply(tmp_path: Path) -> None:
    async def use(store: RedisStore, relay: TcpRelay, redis: RedisServer) -> None:
        await store.keep(b"a", b"of a", 60.0)
        await store.keep(b"b", b"of b", 60.0)
        relay.toxic = Toxic("latency", seconds=0.05)
        for _ in range(20):
            given_up = asyncio.ensure_future(store.get(b"a"))
            await asyncio.sleep(0.01)
            given_up.cancel()
            assert await store.get(b"b") == b"of b"

    with_store(tmp_path, use)


def test_a_server_that_has_forgotten_the_scripts_is_told_them_again(tmp_path: Path) -> None:
    async def use(store: RedisStore, relay: TcpRelay, redis: RedisServer) -> None:
        for _ in range(3):
            word = await admitted(store, b"k", 100)
            assert word is not None
            assert word.may_pass
            redis.ask("SCRIPT", "FLUSH")

    with_store(tmp_path, use)


def test_whoever_waits_is_told_when_the_store_closes(tmp_path: Path) -> None:
    async def use(store: RedisStore, relay: TcpRelay, redis: RedisServer) -> None:
        await store.get(b"a")
        redis.freeze()
        waiting = [asyncio.ensure_future(store.get(b"a")) for _ in range(2)]
        await asyncio.sleep(0.05)
        waiting.append(asyncio.ensure_future(store.get(b"b")))
        await asyncio.sleep(0)
        await store.close()
        told = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(one) for one in told] == [StoreDown] * 3
        redis.thaw()

    with_store(tmp_path, use, timeout=30.0)


def test_what_is_lent_counts_as_used_at_the_last_moment_and_only_while_there_is_room(tmp_path: Path) -> None:
    async def use(store: RedisStore, relay: TcpRelay, redis: RedisServer) -> None:
        async def ask(more: int) -> Admission | None:
            done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            store.admit(b"k", 100, 60.0, done.set_result, 0.5, more)
            found: Admission | None = await done
            return found

        def stamps() -> list[int]:
            return [int(stamp) for stamp in redis.ask("LRANGE", b"k", "0", "-1")]

        first = await ask(40)
        assert first is not None
        assert first.lent == 40
        held = stamps()
        assert held == [held[-1] + 500_000] * 40 + [held[-1]]
        for _ in range(38):
            last = await ask(0)
        assert stamps() == sorted(stamps(), reverse=True)  # whoever comes before that moment stands below
        last = await ask(1)
        assert last is not None
        assert last.may_pass
        assert last.lent == 0  # a fifth of the limit is for those who ask
        passed = [await ask(5) for _ in range(30)]
        assert sum(one is not None and one.may_pass for one in passed) == 20
        assert len(stamps()) == 100

    with_store(tmp_path, use)
