"""`penstock fleet`, and what is said when a fleet cannot be what it should."""

from __future__ import annotations

import json
import signal
import socketserver
import threading
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


class OldRedis(socketserver.StreamRequestHandler):
    """A Redis that says that it is of 2021: none can be installed any more, so its words are written here."""

    def handle(self) -> None:
        while (count := self.rfile.readline()).startswith(b"*"):
            words = []
            for _ in range(int(count[1:])):
                size = int(self.rfile.readline()[1:])
                words.append(self.rfile.read(size + 2)[:-2].upper())
            told = b"redis_version:6.2.7\r\nrun_id:0\r\n"
            if words[0] == b"HELLO":
                self.wfile.write(b"-ERR unknown command\r\n")
            else:
                self.wfile.write(b"$%d\r\n%b\r\n" % (len(told), told) if words[0] == b"INFO" else b"+OK\r\n")


def test_22_a_redis_that_is_too_old_is_refused(tmp_path: Path) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), OldRedis) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        said = refused(tmp_path, shared=shared(f"redis://127.0.0.1:{server.server_address[1]}/0"))
        server.shutdown()
    assert "is too old: 6.2.7" in said
    assert "7.0 or newer is needed" in said


def test_22_without_the_driver_the_extra_is_named(tmp_path: Path) -> None:
    (tmp_path / "redis.py").write_text("raise ImportError('not here')\n")
    file = tmp_path / "fleet.json"
    document = {"upstream": {"command": ["true"]}, "listen": "0", "shared": shared("redis://127.0.0.1:1/0")}
    file.write_text(json.dumps(document))
    done = run("--config", str(file), env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert "pip install 'penstock[redis]'" in done.stderr
