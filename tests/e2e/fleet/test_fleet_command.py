"""`penstock fleet`, and what is said when a fleet cannot be what it should."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

from fleet import SECRET, Instances, limit_rule, refused, run, shared
from gate import wait_until
from pairs import Upstream
from redis_server import RedisServer, needs_redis


@needs_redis
def test_21_the_fleet_is_seen_and_judged(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as redis, Upstream("streamable", tmp_path) as upstream:
        document: dict[str, Any] = {
            "shared": shared(redis.url),
            "interceptor": {"rules": [limit_rule(5, "60s")]},
        }
        with Instances(tmp_path, upstream.words(), document, count=2) as fleet:
            config = ("--config", str(fleet.file))
            seen = run("fleet", *config, "--check")
            assert seen.returncode == 0, seen
            assert len(seen.stdout.splitlines()) == 3
            rows = json.loads(run("fleet", *config, "--format", "json").stdout)
            assert len({row["tag"] for row in rows}) == 2
            document["interceptor"]["rules"] = [limit_rule(6, "60s")]
            fleet.file.write_text(json.dumps(document))
            fleet.all[0].process.send_signal(signal.SIGHUP)
            assert wait_until(lambda: run("fleet", *config, "--check").returncode == 3)
            assert SECRET not in seen.stdout + seen.stderr


@needs_redis
def test_22_what_cannot_be_is_said_in_two_lines(tmp_path: Path) -> None:
    with RedisServer(tmp_path, "--requirepass", "right-pass-word") as redis:
        wrong = redis.url.replace("redis://", "redis://:wrong-pass-word@")
        assert "password" in refused(tmp_path, shared=shared(wrong))
        assert "password" in refused(tmp_path, shared=shared(redis.url))
        port = redis.port
    assert "Nobody answers" in refused(tmp_path, shared=shared(f"redis://127.0.0.1:{port}/0"))
    assert "too short" in refused(tmp_path, shared={"url": "redis://x", "secret": "pass-word"})
    assert "no address of Redis" in refused(tmp_path, shared=shared("http://user:pass-word@host/"))
    assert "no address of Redis" in refused(tmp_path, shared=shared("redis://user:pass-word@a b/"))


def test_22_without_the_driver_the_extra_is_named(tmp_path: Path) -> None:
    (tmp_path / "redis.py").write_text("raise ImportError('not here')\n")
    file = tmp_path / "fleet.json"
    document = {"upstream": {"command": ["true"]}, "listen": "0", "shared": shared("redis://127.0.0.1:1/0")}
    file.write_text(json.dumps(document))
    done = run("--config", str(file), env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert "pip install 'penstock[redis]'" in done.stderr
