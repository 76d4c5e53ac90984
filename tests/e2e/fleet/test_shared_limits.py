"""A limit of 100 is 100 over all instances: real processes, a real redis-server."""

from __future__ import annotations

from pathlib import Path

from fleet import Instances, flood, limit_rule, shared
from pairs import Upstream
from redis_server import RedisServer, needs_redis

pytestmark = needs_redis


def test_01_a_limit_of_100_is_100_over_four_instances(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as redis, Upstream("streamable", tmp_path) as upstream:
        document = {"shared": shared(redis.url), "interceptor": {"rules": [limit_rule(100, "60s")]}}
        with Instances(tmp_path, upstream.words(), document, count=4) as fleet:
            calls = flood(fleet.ports, 2000)
            assert sum(call.passed for call in calls) == 100
            assert len(upstream.calls_of("echo")) == 100
            refused = [call for call in calls if not call.passed]
            assert {call.answer["error"]["message"] for call in refused} == {"Rate limit exceeded"}
