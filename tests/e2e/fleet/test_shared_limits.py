"""A limit of 100 is 100 over all instances: real processes, a real redis-server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
import time
from pathlib import Path

from fleet import Instances, flood, flood_async, limit_rule, shared
from gate import wait_until
from pairs import Upstream
from redis_server import RedisServer, needs_redis
from trials.faults.tcp_relay import TcpRelay
from trials.faults.toxics import Toxic

pytestmark = needs_redis

OUTAGE_SECONDS = float(os.environ.get("OUTAGE_SECONDS", "2"))
"""How long Redis stays away once everybody has noticed; 30 before a release."""


def test_01_a_limit_of_100_is_100_over_four_instances(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as redis, Upstream("streamable", tmp_path) as upstream:
        document = {"shared": shared(redis.url), "interceptor": {"rules": [limit_rule(100, "60s")]}}
        with Instances(tmp_path, upstream.words(), document, count=4) as fleet:
            calls = flood(fleet.ports, 10_000, 200)
            assert sum(call.passed for call in calls) == 100
            assert len(upstream.calls_of("echo")) == 100
            refused = [call for call in calls if not call.passed]
            assert {call.answer["error"]["message"] for call in refused} == {"Rate limit exceeded"}


def test_04_known_refusals_cost_redis_nothing(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as redis, Upstream("streamable", tmp_path) as upstream:
        document = {"shared": shared(redis.url), "interceptor": {"rules": [limit_rule(2, "60s")]}}
        with Instances(tmp_path, upstream.words(), document, count=1) as fleet:
            flood(fleet.ports, 4, connections=1)
            before = redis.calls_of("evalsha")
            beats = redis.calls_of("zadd")
            assert not any(call.passed for call in flood(fleet.ports, 10_000, connections=16))
            # A heartbeat is one EVALSHA, and says so itself.
            assert redis.calls_of("evalsha") - before == redis.calls_of("zadd") - beats


def test_05_calls_that_come_together_are_asked_together(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as redis, Upstream("streamable", tmp_path) as upstream:
        document = {"shared": shared(redis.url), "interceptor": {"rules": [limit_rule(1000, "60s")]}}
        with Instances(tmp_path, upstream.words(), document, count=1) as fleet:
            flood(fleet.ports, 1, connections=1)  # Redis knows the script from now on
            redis.freeze()
            loop = asyncio.new_event_loop()
            calls = loop.create_task(flood_async(fleet.ports, 64, 64))
            loop.run_until_complete(asyncio.sleep(1.0))  # all have arrived, and wait for Redis
            before_thaw = calls.done()
            redis.thaw()
            done = loop.run_until_complete(calls)
            loop.close()
            assert not before_thaw
            assert sum(call.passed for call in done) == 64
            assert redis.calls_of("evalsha") - redis.calls_of("zadd") <= 1 + 4


def test_07_without_redis_each_has_its_part_or_the_whole(tmp_path: Path) -> None:
    for word, most in (("divide", 25), ("local", 100)):
        work = tmp_path / word
        work.mkdir()
        with RedisServer(work) as redis, Upstream("streamable", work) as upstream:
            settings = shared(redis.url, timeout="300ms", when_down={"limits": word})
            document = {"shared": settings, "interceptor": {"rules": [limit_rule(100, "60s")]}}
            with Instances(work, upstream.words(), document, count=4) as fleet:
                assert wait_until(lambda redis=redis: redis.ask("DBSIZE") >= 3)
                time.sleep(2.5)  # a heartbeat: each has heard of the other
                redis.kill()
                passed = [sum(call.passed for call in flood([port], 150, 4)) for port in fleet.ports]
                assert passed == [most] * 4


def test_06_and_08_a_killed_redis_blocks_what_is_limited_and_is_found_again(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as redis, Upstream("streamable", tmp_path) as upstream:
        settings = shared(redis.url, timeout="100ms")
        rule = limit_rule(1000, "60s")
        rule["conditions"].append({"param_equals": {"field": "arguments.limited", "value": True}})
        document = {"shared": settings, "interceptor": {"rules": [rule]}}
        with Instances(tmp_path, upstream.words(), document, count=1) as fleet:
            limited = b'{"limited":true}'
            assert flood(fleet.ports, 1, 1, more=limited)[0].passed
            redis.kill()
            refused = flood(fleet.ports, 20, 1, more=limited)
            assert {call.answer["error"]["code"] for call in refused} == {-32001}
            assert {call.answer["error"]["message"] for call in refused} == {
                "Rate limit cannot be checked now"
            }
            took = sorted(call.answered - call.sent for call in refused[10:])
            assert took[len(took) // 2] < 0.1  # nobody is asked any more
            assert all(call.passed for call in flood(fleet.ports, 20, 4))
            redis.start()
            assert wait_until(lambda: flood(fleet.ports, 1, 1, more=limited)[0].passed)
            assert "Redis is down" in fleet.all[0].stderr
            assert "Redis is back" in fleet.all[0].stderr


class Refusing(threading.Thread):
    """Stands where Redis was: takes each connection, counts it and closes it."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.count = 0
        self._socket = socket.create_server(("127.0.0.1", port))
        self.start()

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._socket.accept()[0].close()
                self.count += 1

    def stop(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self.join()


def test_08_an_empty_redis_after_an_outage_is_found_by_few_connects(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as redis, Upstream("streamable", tmp_path) as upstream:
        document = {"shared": shared(redis.url), "interceptor": {"rules": [limit_rule(50, "600s")]}}
        with Instances(tmp_path, upstream.words(), document, count=3) as fleet:
            before = sum(call.passed for call in flood(fleet.ports, 200, 8))
            assert before == 50
            redis.kill()
            nobody = Refusing(redis.port)
            assert not any(call.passed for call in flood(fleet.ports, 60, 8))
            # Who refuses without asking finds out by its heartbeats only.
            assert wait_until(lambda: all("Redis is down" in one.stderr for one in fleet.all))
            time.sleep(OUTAGE_SECONDS)
            nobody.stop()
            assert nobody.count <= 3 * 20
            redis.start()
            assert wait_until(lambda: all(one.stderr.count("Redis is back") == 1 for one in fleet.all))
            assert before + sum(call.passed for call in flood(fleet.ports, 400, 8)) <= 2 * 50


def test_05_a_limit_and_a_cache_are_asked_in_one_round_trip(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as redis, Upstream("streamable", tmp_path) as upstream:
        cache = {"id": "kept", "actions": [{"cache": {"ttl": "60s"}}]}
        cache["conditions"] = [{"method_equals": "tools/call"}]
        rules = [limit_rule(1000, "60s", priority=1), cache]
        document = {"shared": shared(redis.url), "interceptor": {"rules": rules}}

        def reads() -> int:
            return int(redis.ask("INFO", "stats")["total_reads_processed"])

        with Instances(tmp_path, upstream.words(), document, count=1) as fleet:
            flood(fleet.ports, 1, 1)
            before, began = reads(), time.monotonic()
            for number in range(60):
                assert flood(fleet.ports, 1, 1, more=b'{"n":%d}' % number)[0].passed
            beats = 4 * (1 + (time.monotonic() - began) / 2)
            # One for the limit with both looks into the cache, one to keep the answer.
            assert reads() - before <= 2 * 60 + beats + 5
            assert len(upstream.calls_of("echo")) == 61


def test_09_a_redis_that_is_five_seconds_away_is_down(tmp_path: Path) -> None:
    with (
        RedisServer(tmp_path) as redis,
        TcpRelay("127.0.0.1", redis.port) as relay,
        Upstream("streamable", tmp_path) as upstream,
    ):
        settings = shared(f"redis://127.0.0.1:{relay.port}/0", timeout="100ms", required=False)
        document = {"shared": settings, "interceptor": {"rules": [limit_rule(1000, "60s")]}}
        with Instances(tmp_path, upstream.words(), document, count=1) as fleet:
            assert wait_until(lambda: flood(fleet.ports, 1, 1)[0].passed)
            relay.toxic = Toxic("latency", seconds=5.0)
            refused = flood(fleet.ports, 20, 4)
            assert {call.answer["error"]["code"] for call in refused[8:]} == {-32001}
            relay.toxic = Toxic()
            assert wait_until(lambda: flood(fleet.ports, 1, 1)[0].passed)


def test_09_a_redis_that_says_nothing_is_down(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as redis, Upstream("streamable", tmp_path) as upstream:
        settings = shared(redis.url, timeout="100ms")
        document = {"shared": settings, "interceptor": {"rules": [limit_rule(1000, "60s")]}}
        with Instances(tmp_path, upstream.words(), document, count=1) as fleet:
            assert flood(fleet.ports, 1, 1)[0].passed
            redis.freeze()
            refused = flood(fleet.ports, 20, 4)
            redis.thaw()
            assert {call.answer["error"]["code"] for call in refused} == {-32001}
            assert wait_until(lambda: flood(fleet.ports, 1, 1)[0].passed)


def test_a_rule_may_count_for_itself(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as redis, Upstream("streamable", tmp_path) as upstream:
        rules = [limit_rule(5, "60s", shared=False)]
        document = {"shared": shared(redis.url), "interceptor": {"rules": rules}}
        with Instances(tmp_path, upstream.words(), document, count=2) as fleet:
            for port in fleet.ports:
                assert sum(call.passed for call in flood([port], 10, 2)) == 5


def test_12_nothing_in_redis_tells_who_asked_for_what(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as redis, Upstream("streamable", tmp_path) as upstream:
        rules = [
            limit_rule(50, "60s", key="${session_id}:${method}:${param.arguments.canary}"),
            {"id": "kept", "actions": [{"set_state": {"key": "canary-name", "value": "x"}}]},
        ]
        document = {"shared": shared(redis.url), "interceptor": {"rules": rules}}
        with Instances(tmp_path, upstream.words(), document, count=1) as fleet:
            token = {"Authorization": "Bearer canary-token"}
            flood(fleet.ports, 10, 2, more=b'{"canary":"canary-argument\\r\\n*1"}', extra=token)
            keys = redis.ask("KEYS", "*")
            assert len(keys) >= 3
            for key in keys:
                assert key.startswith(b"ps1:default:"), key
                assert redis.ask("PTTL", key) > 0, key
                for word in (b"canary", b"echo", b"tools", b"limit"):
                    assert word not in key
                held = redis.ask("DUMP", key)
                assert b"canary-token" not in held
                assert b"canary-name" not in held
