"""Caches and session state that one instance fills and another reads."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from doors import LegacyDoor
from fleet import Connection, Instances, flood, shared
from gate import wait_until
from pairs import Upstream
from redis_server import RedisServer, needs_redis

pytestmark = needs_redis

STATE_CALLS = int(os.environ.get("STATE_CALLS", "2000"))
"""Calls that must all be judged by what another instance was told; 10,000 before a release."""


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


def cache_rule(**more: Any) -> dict[str, Any]:
    return {
        "id": "kept",
        "conditions": [{"method_equals": "tools/call"}],
        "actions": [{"cache": {"ttl": "60s"}}],
        **more,
    }


def one(port: int, more: bytes = b"{}", **extra: str) -> Any:
    async def ask() -> Any:
        connection = Connection(port)
        try:
            return await connection.call(1, more, extra)
        finally:
            connection.close()

    return asyncio.run(ask())


def test_13_what_one_has_cached_answers_at_the_other(redis: RedisServer, tmp_path: Path) -> None:
    with Upstream("streamable", tmp_path) as upstream:
        document = {
            "shared": shared(redis.url, namespace="thirteen"),
            "interceptor": {"rules": [cache_rule()]},
        }
        with Instances(tmp_path, upstream.words(), document, count=3) as fleet:
            first, second, third = fleet.ports
            assert one(first).passed
            assert wait_until(
                lambda: any(
                    redis.ask("TYPE", key) == b"string" and len(redis.ask("GET", key)) > 100
                    for key in _keys(redis)
                )
            )
            assert one(second).answer["result"] == one(first).answer["result"]
            assert len(upstream.calls_of("echo")) == 1
            assert one(second, Authorization="Bearer other").passed  # other rights: asked anew
            assert len(upstream.calls_of("echo")) == 2
            other = {**document, "interceptor": {"rules": [cache_rule(priority=7)]}}
            place = tmp_path / "other"
            place.mkdir()
            with Instances(place, upstream.words(), other, count=1) as elsewhere:  # other rules: likewise
                assert one(elsewhere.ports[0]).passed
            assert len(upstream.calls_of("echo")) == 3
            for key in _keys(redis):
                held = redis.ask("GET", key) if redis.ask("TYPE", key) == b"string" else b""
                if b"called" in held:
                    redis.ask("SET", key, held.replace(b"called", b"hacked"), "PX", "60000")
            answer = one(third).answer
            assert "hacked" not in str(answer)
            assert len(upstream.calls_of("echo")) == 4
            assert "changed by somebody else" in fleet.all[2].stderr


def _keys(redis: RedisServer) -> list[bytes]:
    return list(redis.ask("KEYS", "ps1:thirteen:*"))


def test_14_many_who_ask_at_once_ask_the_upstream_once(redis: RedisServer, tmp_path: Path) -> None:
    with Upstream("streamable", tmp_path) as upstream:
        document = {
            "shared": shared(redis.url, namespace="fourteen"),
            "interceptor": {"rules": [cache_rule()]},
        }
        with Instances(tmp_path, upstream.words(), document, count=4) as fleet:
            calls = flood(fleet.ports, 200, connections=200, more=b'{"same":1}')
            assert all(call.passed for call in calls)
            assert len(upstream.calls_of("same")) == 1


def test_14_when_the_one_who_asks_is_killed_another_does(redis: RedisServer, tmp_path: Path) -> None:
    with Upstream("streamable", tmp_path) as upstream:
        document = {
            "shared": shared(redis.url, namespace="killed"),
            "interceptor": {"rules": [cache_rule()]},
        }
        with Instances(tmp_path, upstream.words(), document, count=2) as fleet:
            asker, other = fleet.all
            assert upstream.process is not None
            assert one(other.port, b'{"first":1}').passed
            os.kill(upstream.process.pid, signal.SIGSTOP)
            with ThreadPoolExecutor() as pool:
                lost = pool.submit(one, asker.port, b'{"same":2}')
                assert wait_until(lambda: any(redis.ask("GET", key) == b"?" for key in _strings(redis)))
                waiting = pool.submit(one, other.port, b'{"same":2}')
                asker.process.kill()
                os.kill(upstream.process.pid, signal.SIGCONT)
                answered = waiting.result(20)
                assert lost.exception(20) is not None
            assert answered.passed
            assert answered.answered - answered.sent < 10  # 2.5 s, on a machine that has them to spare
            fleet.all.remove(asker)


def _strings(redis: RedisServer) -> list[bytes]:
    return [key for key in redis.ask("KEYS", "ps1:killed:*") if redis.ask("TYPE", key) == b"string"]


def state_rules() -> list[dict[str, Any]]:
    """An answer marks the session; a later call of a marked one is blocked."""
    marks = {
        "id": "marks",
        "direction": "client",
        "conditions": [
            {"method_equals": "tools/call"},
            {"param_equals": {"field": "arguments.mark", "value": True}},
        ],
        "actions": [{"set_state": {"key": "marked", "value": True}}, {"set_state": {"key": "n", "add": 1}}],
    }
    blocks = {
        "id": "blocks",
        "conditions": [
            {"method_equals": "tools/call"},
            {"param_equals": {"field": "arguments.try", "value": True}},
            {"state_equals": {"key": "marked", "value": True}},
        ],
        "actions": [{"block": "marked"}],
    }
    return [marks, blocks]


def test_18_what_a_rule_sets_at_one_holds_at_the_other(redis: RedisServer, tmp_path: Path) -> None:
    with Upstream("streamable", tmp_path) as upstream:
        document = {
            "shared": shared(redis.url, namespace="eighteen"),
            "interceptor": {"rules": state_rules()},
        }
        with Instances(tmp_path, upstream.words(), document, count=2) as fleet:
            clients = [LegacyDoor(fleet.ports[0], "legacy", listens=False) for _ in range(20)]
            for client in clients:
                client.begin()
            for number in range(STATE_CALLS):
                client = clients[number % len(clients)]
                if number < len(clients):
                    assert "result" in _call(client, fleet.ports[1], "try")
                    assert "result" in _call(client, fleet.ports[0], "mark")
                refused = _call(client, fleet.ports[1 - number % 2], "try")
                assert refused["error"]["message"] == "marked", number
            for key in redis.ask("KEYS", "ps1:eighteen:*"):
                if redis.ask("TYPE", key) == b"hash":
                    for field in redis.ask("HKEYS", key):
                        if field.startswith(b"v"):
                            redis.ask("HSET", key, field, b"0" * 16 + b"false")
            lied_to = _call(clients[1], fleet.ports[1], "try")
            assert "error" in lied_to  # a value that somebody made up opens nothing
            for client in clients:
                client.close()


def _call(client: LegacyDoor, port: int, what: str) -> Any:
    client.port = port
    params = {"name": "echo", "arguments": {what: True}}
    asked = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    body = json.dumps(asked).encode()
    found = bytes(client.whole("POST", "/mcp", client.headers(body), body).body)
    return json.loads(found[found.index(b"{") : found.rindex(b"}") + 1])  # one message, as an event or bare


def test_18_without_redis_what_needs_state_is_blocked(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as own, Upstream("streamable", tmp_path) as upstream:
        document = {"shared": shared(own.url, timeout="200ms"), "interceptor": {"rules": state_rules()}}
        with Instances(tmp_path, upstream.words(), document, count=1) as fleet:
            assert one(fleet.ports[0], b'{"try":true}').passed
            own.kill()
            answer = one(fleet.ports[0], b'{"try":true}').answer
            assert answer["error"]["message"] == "The state of the session cannot be checked now"
