"""Several processes on one port: sessions that work at each, and a worker that is killed under load."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from doors import LegacyDoor
from fleet import flood, limit_rule, refused
from gate import children_of, is_running, wait_until
from pairs import Proxy, Upstream

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="SO_REUSEPORT as Linux has it")


def serve(work: Path, upstream: Upstream, **more: Any) -> Proxy:
    file = work / "workers.json"
    file.write_text(json.dumps({"workers": 3, **more}))
    return Proxy(work, upstream.words(), "--config", str(file))


def workers_of(proxy: Proxy) -> list[int]:
    return [pid for pid in children_of(proxy.process.pid) if is_running(pid)]


def test_a_session_works_at_every_worker(tmp_path: Path) -> None:
    with serve(tmp_path, Upstream("stdio", tmp_path)) as proxy:
        assert wait_until(lambda: len(workers_of(proxy)) == 3)
        clients = [LegacyDoor(proxy.port, "legacy", listens=False) for _ in range(4)]
        for client in clients:
            client.begin()
        tags = {(client.session or "").split("-")[1] for client in clients}
        for client in clients:
            for _ in range(6):  # a connection for each: they land anywhere
                assert client.ask("x/nothing") is not None
            client.close()
        assert len(tags) >= 1


def test_20_a_worker_is_killed_and_replaced(tmp_path: Path) -> None:
    with Upstream("streamable", tmp_path) as upstream, serve(tmp_path, upstream) as proxy:
        assert wait_until(lambda: len(workers_of(proxy)) == 3)
        before = workers_of(proxy)
        flood([proxy.port], 50, 16)
        os.kill(before[0], signal.SIGKILL)
        assert wait_until(lambda: len(workers_of(proxy)) == 3 and before[0] not in workers_of(proxy))
        after = flood([proxy.port], 200, 32)
        assert all(call.passed for call in after)
        family = [proxy.process.pid, *workers_of(proxy)]
        began = time.monotonic()
        proxy.process.terminate()
        assert proxy.process.wait(20) == 0
        assert wait_until(lambda: not any(is_running(pid) for pid in family))
        assert time.monotonic() - began < 15


def owners(proxy: Proxy) -> dict[int, int]:
    """Which worker has which connection of a client, by the client's port."""
    sockets: dict[str, int] = {}
    for pid in workers_of(proxy):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                sockets[os.readlink(entry)] = pid
    found = {}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, *_, inode = line.split()[:10]
        pid = sockets.get(f"socket:[{inode}]")
        if pid is not None and int(local.rpartition(":")[2], 16) == proxy.port:
            found[int(remote.rpartition(":")[2], 16)] = pid
    return found


def test_20_a_worker_that_is_killed_under_load_takes_its_own_connections_and_no_other(tmp_path: Path) -> None:
    with Upstream("streamable", tmp_path) as upstream, serve(tmp_path, upstream, workers=4) as proxy:
        assert wait_until(lambda: len(workers_of(proxy)) == 4)
        clients = [socket.create_connection(("127.0.0.1", proxy.port), timeout=30) for _ in range(32)]
        ask = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

        def served(client: socket.socket) -> bool:
            try:
                client.sendall(ask)
                return client.recv(4096).startswith(b"HTTP/1.1 200")
            except ConnectionError:
                return False

        assert all(served(client) for client in clients)
        whose = owners(proxy)
        parts = {client: whose[client.getsockname()[1]] for client in clients}
        killed = parts[clients[0]]
        os.kill(killed, signal.SIGKILL)
        for client in clients:
            assert served(client) == (parts[client] != killed)
            client.close()
        assert wait_until(lambda: len(workers_of(proxy)) == 4 and killed not in workers_of(proxy))
        assert all(call.passed for call in flood([proxy.port], 100, 16))


def test_20_who_waits_in_the_queue_of_a_killed_worker_is_served_by_the_next(tmp_path: Path) -> None:
    with Upstream("streamable", tmp_path) as upstream, serve(tmp_path, upstream, workers=2) as proxy:
        assert wait_until(lambda: len(workers_of(proxy)) == 2)
        flood([proxy.port], 20, 8)
        stopped = workers_of(proxy)[0]
        os.kill(stopped, signal.SIGSTOP)  # its queue fills and nobody takes from it
        answers: list[bytes] = []

        def ask() -> None:
            with socket.create_connection(("127.0.0.1", proxy.port), timeout=30) as connection:
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                answers.append(connection.recv(4096))

        threads = [threading.Thread(target=ask) for _ in range(12)]
        for thread in threads:
            thread.start()
        assert wait_until(lambda: len(answers) >= 1)
        os.kill(stopped, signal.SIGKILL)
        for thread in threads:
            thread.join(30)
        assert len(answers) == 12
        assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)


def test_workers_end_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    with Upstream("streamable", tmp_path) as upstream, serve(tmp_path, upstream, workers=2) as proxy:
        assert wait_until(lambda: len(workers_of(proxy)) == 2)
        flood([proxy.port], 4, 2)
        family = workers_of(proxy)
        proxy.process.kill()
        assert wait_until(lambda: not any(is_running(pid) for pid in family))


def test_limits_are_divided_where_that_was_asked_for(tmp_path: Path) -> None:
    rules = {"rules": [limit_rule(30, "60s")]}
    more = {"worker_limits": "divide", "interceptor": rules}
    with Upstream("streamable", tmp_path) as upstream, serve(tmp_path, upstream, **more) as proxy:
        assert wait_until(lambda: len(workers_of(proxy)) == 3)
        assert 10 <= sum(call.passed for call in flood([proxy.port], 300, 64)) <= 30


def test_22_limits_that_would_be_a_multiple_are_refused(tmp_path: Path) -> None:
    rules = {"rules": [limit_rule(5, "60s")]}
    assert "count limits for itself" in refused(tmp_path, workers=2, interceptor=rules)
    state = {"rules": [{"id": "s", "actions": [{"set_state": {"key": "a", "value": 1}}]}]}
    url = {"url": "http://127.0.0.1:1/mcp"}
    assert "own state" in refused(tmp_path, workers=2, interceptor=state, upstream=url)
    assert "metrics" in refused(tmp_path, workers=2, metrics={"listen": 0})
