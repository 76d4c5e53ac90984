"""Redis as people run it: sentinels that promote a replica, a cluster, TLS, a user that may do little."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from fleet import Instances, flood, limit_rule, shared
from gate import wait_until
from pairs import Upstream
from redis_server import PROGRAM, RedisServer, free_port, needs_redis

pytestmark = needs_redis

COMMANDS = (
    "+evalsha +eval +get +set +del +hmget +hget +hset +hdel +hincrbyfloat +lindex +lrange +lpush +rpush "
    "+rpop +pexpire +time +zadd +zrem +zrange +zrangebyscore +zremrangebyscore +info +cluster +command"
)
USER = ["--user", "app", "on", ">pass-of-app", "~ps1:team-a:*", *COMMANDS.split()]


def test_10_a_promoted_replica_is_used_without_a_restart(tmp_path: Path) -> None:
    assert PROGRAM is not None
    with RedisServer(tmp_path) as primary, Upstream("streamable", tmp_path) as upstream:
        replica = RedisServer(tmp_path, "--replicaof", "127.0.0.1", str(primary.port))
        port = free_port()
        conf = tmp_path / "sentinel.conf"
        conf.write_text(
            f"port {port}\nbind 127.0.0.1\ndir {tmp_path}\n"
            f"sentinel monitor main 127.0.0.1 {primary.port} 1\n"
            "sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n"
        )
        with (tmp_path / "sentinel.log").open("wb") as log:
            sentinel = subprocess.Popen([PROGRAM, str(conf), "--sentinel"], stdout=log, stderr=log)
        try:
            assert wait_until(
                lambda: (
                    b"slave0" in (tmp_path / "sentinel.log").read_bytes()
                    or b"+slave" in (tmp_path / "sentinel.log").read_bytes()
                )
            )
            settings = shared(f"redis+sentinel://127.0.0.1:{port}/main", timeout="500ms")
            document = {"shared": settings, "interceptor": {"rules": [limit_rule(1000, "60s")]}}
            with Instances(tmp_path, upstream.words(), document, count=1) as fleet:
                assert flood(fleet.ports, 1, 1)[0].passed
                primary.kill()
                assert wait_until(lambda: flood(fleet.ports, 1, 1)[0].passed)
                assert wait_until(lambda: replica.calls_of("evalsha") + replica.calls_of("eval") > 0)
        finally:
            sentinel.kill()
            sentinel.wait()
            replica.kill()


def test_11_a_limit_holds_in_a_cluster_for_a_user_that_may_do_little(tmp_path: Path) -> None:
    nodes: list[RedisServer] = []
    try:
        ports = [free_port() for _ in range(3)]
        for port in ports:
            options = ("--cluster-enabled", "yes", "--cluster-port", str(port), *USER)
            nodes.append(RedisServer(tmp_path, *options))
        bounds = [(0, 5460), (5461, 10922), (10923, 16383)]
        for node, (first, last) in zip(nodes, bounds, strict=True):
            node.ask("CLUSTER", "ADDSLOTSRANGE", str(first), str(last))
        for node, bus in zip(nodes[1:], ports[1:], strict=True):
            nodes[0].ask("CLUSTER", "MEET", "127.0.0.1", str(node.port), str(bus))
        assert wait_until(lambda: all("ok" in str(node.ask("CLUSTER", "INFO")) for node in nodes))
        assert wait_until(lambda: all(_knows_all(node) for node in nodes))
        url = f"redis+cluster://app:pass-of-app@127.0.0.1:{nodes[0].port},127.0.0.1:{nodes[1].port}"
        with Upstream("streamable", tmp_path) as upstream:
            document = {
                "shared": shared(url, namespace="team-a"),
                "interceptor": {"rules": [limit_rule(40, "60s")]},
            }
            with Instances(tmp_path, upstream.words(), document, count=2) as fleet:
                assert sum(call.passed for call in flood(fleet.ports, 300, 32)) == 40
    finally:
        for node in nodes:
            node.kill()


def _knows_all(node: RedisServer) -> bool:
    info = node.ask("CLUSTER", "INFO")
    text = info.decode() if isinstance(info, bytes) else str(info)
    return "cluster_slots_ok" in text and "16384" in text and "cluster_state" in text and "fail'" not in text


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl to make a certificate with")
def test_11_tls_and_a_user_of_one_namespace(tmp_path: Path) -> None:
    _certificates(tmp_path)
    port = free_port()
    files = ("--tls-cert-file", "cert.pem", "--tls-key-file", "key.pem", "--tls-ca-cert-file", "ca.pem")
    where = [str(tmp_path / word) if word.endswith(".pem") else word for word in files]
    options = ("--port", "0", "--tls-port", str(port), "--tls-auth-clients", "no", *where, *USER)
    with RedisServer(tmp_path, *options, port=port), Upstream("streamable", tmp_path) as upstream:
        url = f"rediss://app:pass-of-app@127.0.0.1:{port}/0"
        settings = shared(url, namespace="team-a", ca=str(tmp_path / "ca.pem"))
        document = {"shared": settings, "interceptor": {"rules": [limit_rule(10, "60s")]}}
        with Instances(tmp_path, upstream.words(), document, count=2) as fleet:
            assert sum(call.passed for call in flood(fleet.ports, 60, 8)) == 10
        # Keys of another namespace are another tenant's: this user gets at none of them.
        document["shared"] = {**settings, "namespace": "team-b", "when_down": {"limits": "block"}}
        with Instances(tmp_path, upstream.words(), document, count=1) as fleet:
            assert not flood(fleet.ports, 1, 1)[0].passed


def _certificates(work: Path) -> None:
    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=work, check=True, capture_output=True)

    new = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    openssl(*new, "-subj", "/CN=test ca", "-keyout", "ca-key.pem", "-out", "ca.pem")
    openssl(
        *new,
        "-subj",
        "/CN=127.0.0.1",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca-key.pem",
        "-keyout",
        "key.pem",
        "-out",
        "cert.pem",
    )
