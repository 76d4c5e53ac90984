"""Places of a limit that instances have in hand: never more than the limit, and nearly all of it."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

from fleet import Instances, flood, limit_rule, refused, shared
from pairs import Upstream
from penstock.config.shared import parse_address
from penstock.effects.shared_limits import SharedLimits
from penstock.state.redis_link import RedisLink
from penstock.state.redis_store import RedisStore
from penstock.state.seals import Seals
from redis_server import RedisServer, needs_redis
from trials.fleet.checker import Span, unfounded, worst_window

pytestmark = needs_redis

LIMIT, WINDOW, LEASE = 1000, 2.0, 0.1


class Load:
    """Several instances' limits on one Redis, and clients that ask them."""

    def __init__(self, limit: int = LIMIT, instances: int = 4, clients: int = 16) -> None:
        self._limit, self._instances, self._clients = limit, instances, clients
        self.admitted: list[Span] = []
        self.refused: list[Span] = []

    async def run(self, url: str, lease: float, seconds: float) -> None:
        count = self._instances
        stores = [
            RedisStore(RedisLink(parse_address(url), 5.0), 5.0, b"ps1:probe%d" % n) for n in range(count)
        ]
        counts = [SharedLimits(store, Seals(b"s" * 32), time.monotonic, lambda: count) for store in stores]
        end = time.monotonic() + seconds

        async def client(number: int) -> None:
            chance = random.Random(number)
            while time.monotonic() < end:
                for _ in range(chance.randrange(1, 12)):
                    await self._ask(counts[number % count], lease)
                await asyncio.sleep(chance.random() * 0.12)

        try:
            await asyncio.gather(*(client(number) for number in range(self._clients)))
        finally:
            for store in stores:
                await store.close()

    async def _ask(self, counts: SharedLimits, lease: float) -> None:
        done: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()
        sent = time.monotonic()
        counts.ask("k", self._limit, WINDOW, done.set_result, lease)
        passed = await done
        span = sent, time.monotonic()
        (self.admitted if passed else self.refused).append(span)


def test_03_with_leases_no_window_has_more_and_none_loses_a_twentieth(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as redis:
        load = Load()
        asyncio.run(load.run(redis.url, LEASE, 8.0))
        assert worst_window(load.admitted, WINDOW) <= LIMIT
        assert unfounded(load.admitted, load.refused, LIMIT, WINDOW, 0.05) == 0
        assert len(load.admitted) > LIMIT


def test_03_what_is_in_hand_is_not_asked_for(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as redis:
        load = Load(limit=50_000, instances=1, clients=1)
        asyncio.run(load.run(redis.url, LEASE, 3.0))
        assert not load.refused
        assert redis.calls_of("evalsha") < 0.95 * len(load.admitted)


def test_03_small_limits_lend_nothing(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as redis, Upstream("streamable", tmp_path) as upstream:
        rules = [limit_rule(40, "60s", lease="100ms")]
        document = {"shared": shared(redis.url), "interceptor": {"rules": rules}}
        with Instances(tmp_path, upstream.words(), document, count=3) as fleet:
            assert sum(call.passed for call in flood(fleet.ports, 400, 32)) == 40


def test_03_a_lease_is_short(tmp_path: Path) -> None:
    assert "more than 1s" in refused(tmp_path, interceptor={"rules": [limit_rule(5, "60s", lease="2s")]})
