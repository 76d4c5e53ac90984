"""Redis as people run it: sentinels that promote a replica, a cluster, TLS, a user that may do little."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet import Instances, flood, limit_rule, shared
from gate import ROOT, wait_until
from pairs import Upstream
from redis_server import PROGRAM, RedisServer, free_port, needs_redis

pytestmark = needs_redis

COMMANDS = re.findall(
    r"\+[a-z]+", (ROOT / "docs" / "fleet.md").read_text().partition("ACL SETUSER")[2].partition("```")[0]
)
USER = ["--user", "app", "on", ">pass-of-app", "~ps1:team-a:*", *COMMANDS]


@contextlib.contextmanager
def sentinel(work: Path, primary: RedisServer, replica: RedisServer) -> Iterator[int]:
    """The port of one that watches both, and knows them."""
    assert PROGRAM is not None
    port = free_port()
    conf, said = work / "sentinel.conf", work / "sentinel.log"
    conf.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {work}\n"
        f"sentinel monitor main 127.0.0.1 {primary.port} 1\n"
        "sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n"
    )
    with said.open("wb") as log:
        process = subprocess.Popen([PROGRAM, str(conf), "--sentinel"], stdout=log, stderr=log)
    try:
        assert wait_until(lambda: b"+slave" in said.read_bytes())
        yield port
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("fault", ["the primary is killed", "the primary is made a replica"])
def test_10_a_promoted_replica_is_used_without_a_restart(tmp_path: Path, fault: str) -> None:
    with (
        RedisServer(tmp_path) as primary,
        RedisServer(tmp_path, "--replicaof", "127.0.0.1", str(primary.port)) as replica,
        Upstream("streamable", tmp_path) as upstream,
        sentinel(tmp_path, primary, replica) as port,
    ):
        settings = shared(f"redis+sentinel://127.0.0.1:{port}/main", timeout="500ms")
        document = {"shared": settings, "interceptor": {"rules": [limit_rule(1000, "60s")]}}
        with Instances(tmp_path, upstream.words(), document, count=1) as fleet:
            assert flood(fleet.ports, 1, 1)[0].passed
            if fault == "the primary is killed":
                primary.kill()
            else:
                asked = RedisServer.__new__(RedisServer)
                asked.port = port
                assert wait_until(lambda: _fails_over(asked))
                assert wait_until(lambda: b"slave" in bytes(primary.ask("ROLE")[0]))

            def is_served() -> bool:
                return flood(fleet.ports, 1, 1)[0].passed and _counts(replica) > 0

            before = _counts(replica)
            assert wait_until(is_served)
            assert wait_until(lambda: flood(fleet.ports, 1, 1)[0].passed and _counts(replica) > before)


def _counts(server: RedisServer) -> int:
    return server.calls_of("evalsha") + server.calls_of("eval")


def _fails_over(asked: RedisServer) -> bool:
    try:
        return bool(asked.ask("SENTINEL", "FAILOVER", "main"))
    except Exception:  # it may not have seen yet that the replica is well
        return False


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
