"""An upstream that is lost, not there yet, or back again: what the process does, and what /readyz says."""

from __future__ import annotations

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

from doors import LegacyDoor, StdioDoor
from gate import DEADLINE, SCRIPTED, wait_until
from http_gate import INITIALIZE
from pairs import Proxy, Upstream

RECONNECT = ("--on-upstream-loss", "reconnect")
LOST = "Error: Lost connection to upstream MCP\nShutting down proxy\n"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def ready(proxy: Proxy) -> tuple[int, dict[str, Any]]:
    door = LegacyDoor(proxy.port, "legacy")
    answer = door.whole("GET", "/readyz")
    return answer.status, json.loads(answer.body)


def alive(proxy: Proxy) -> int:
    return LegacyDoor(proxy.port, "legacy").whole("GET", "/healthz").status


@pytest.mark.parametrize("transport", ["sse", "streamable"])
def test_an_idle_listener_notices_that_its_upstream_died_and_ends(transport: str, tmp_path: Path) -> None:
    with Upstream(transport, tmp_path) as server, Proxy(tmp_path, server.words()) as proxy:
        assert ready(proxy)[0] == 200
        server.stop()
        assert proxy.process.wait(DEADLINE) == 1
        assert LOST in proxy.stderr


@pytest.mark.parametrize("transport", ["sse", "streamable"])
def test_a_listener_with_sessions_ends_with_its_upstream(transport: str, tmp_path: Path) -> None:
    with Upstream(transport, tmp_path) as server, Proxy(tmp_path, server.words()) as proxy:
        door = proxy.connect("sse", "legacy")
        door.begin()
        door.begin_order("hold", b"7", mark="m")
        wait_until(lambda: b"x/hold" in server.record.read_bytes())
        server.stop()
        error = json.loads(door.answer(b"7"))["error"]
        assert error["code"] == -32603
        assert error["data"] == {"code": "REFUSED"}
        assert proxy.process.wait(DEADLINE) == 1
        assert LOST in proxy.stderr


def test_the_child_of_one_session_ends_that_session_only_and_stderr_says_how(tmp_path: Path) -> None:
    with Upstream("stdio", tmp_path) as server, Proxy(tmp_path, server.words()) as proxy:
        first, second = proxy.connect("streamable", "legacy"), proxy.connect("streamable", "legacy")
        first.begin()
        second.begin()
        first.begin_order("die", b"9", status=5)
        assert "error" in json.loads(first.answer(b"9"))
        assert second.is_alive()
        assert wait_until(lambda: "exited with status 5. Its session has ended." in proxy.stderr)
        assert ready(proxy)[0] == 200


def test_a_command_that_cannot_be_started_any_more_ends_the_listener(tmp_path: Path) -> None:
    program = tmp_path / "server"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -S {SCRIPTED}\n")
    program.chmod(0o755)
    with Proxy(tmp_path, ["--", str(program)]) as proxy:
        program.unlink()
        door = proxy.connect("streamable", "legacy")
        door.request(b"1", "initialize", b"{}")
        assert json.loads(door.answer(b"1"))["error"]["code"] == -32603
        assert proxy.process.wait(DEADLINE) == 1
        assert f"Command not found: {program}" in proxy.stderr


def test_the_shared_child_of_modern_clients_is_not_replaced_unasked(tmp_path: Path) -> None:
    with Upstream("stdio", tmp_path) as server, Proxy(tmp_path, server.words()) as proxy:
        door = proxy.connect("streamable", "modern")
        door.begin()
        door.begin_order("die", b"9", status=5)
        assert "error" in json.loads(door.answer(b"9"))
        assert proxy.process.wait(DEADLINE) == 1
        assert "exited with status 5" in proxy.stderr


@pytest.mark.parametrize("transport", ["sse", "streamable"])
def test_with_reconnect_a_listener_waits_for_an_upstream_that_is_not_there_yet(
    transport: str, tmp_path: Path
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"
    with Proxy(tmp_path, ["--upstream", url], *RECONNECT, "--deny", "^write") as proxy:
        status, body = ready(proxy)
        assert (status, body["state"]) == (503, "connecting")
        assert body["since"].endswith("Z")
        assert alive(proxy) == 200
        door = LegacyDoor(proxy.port, "legacy")
        refused = door.whole("POST", "/mcp", {"Content-Type": "application/json"}, b"{}")
        assert refused.status == 503
        assert json.loads(refused.body)["error"]["data"] == {"code": "REFUSED"}
        for path in ("/mcp", "/messages"):
            hello = door.whole("POST", path, {"Content-Type": "application/json"}, INITIALIZE)
            refusal = json.loads(hello.body)
            assert (hello.status, refusal["id"], refusal["error"]["code"]) == (503, 1, -32603)
        with Upstream(transport, tmp_path, port=port):
            assert wait_until(lambda: ready(proxy)[0] == 200)
            client = proxy.connect("streamable", "legacy")
            client.begin()
            assert client.is_alive()


def test_with_reconnect_readyz_follows_the_upstream(tmp_path: Path) -> None:
    with Upstream("streamable", tmp_path) as server:
        port = int(server.url.split(":")[2].split("/")[0])
        with Proxy(tmp_path, server.words(), *RECONNECT) as proxy:
            assert wait_until(lambda: ready(proxy)[1]["state"] == "connected")
            server.stop()
            assert wait_until(lambda: ready(proxy)[1]["state"] == "lost")
            assert ready(proxy)[0] == 503
            assert alive(proxy) == 200
            assert "The upstream is lost (was connected)." in proxy.stderr
            server.start(port)
            assert wait_until(lambda: ready(proxy)[0] == 200)


@pytest.mark.parametrize("transport", ["sse", "streamable"])
def test_with_reconnect_a_client_on_stdio_waits_for_an_upstream_that_is_not_there_yet(
    transport: str, tmp_path: Path
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"
    words = [sys.executable, "-m", "penstock", "--stdio", *RECONNECT, "--upstream", url]
    with (tmp_path / "errors").open("wb") as errors, StdioDoor(words, "legacy", errors) as door:
        started = threading.Timer(1.5, lambda: servers.append(Upstream(transport, tmp_path, port=port)))
        servers: list[Upstream] = []
        started.start()
        try:
            door.begin()
            assert door.is_alive()
        finally:
            started.join()
            for server in servers:
                server.stop()


def test_with_reconnect_a_command_is_started_again_and_told_the_handshake(tmp_path: Path) -> None:
    with Upstream("stdio", tmp_path) as server:
        words = [sys.executable, "-m", "penstock", "--stdio", *RECONNECT, "--deny", "^write", *server.words()]
        with (tmp_path / "errors").open("wb") as errors, StdioDoor(words, "legacy", errors) as door:
            door.begin()
            first = door.order("pid")["result"]["pid"]
            door.begin_order("hold", b"7", mark="m")
            wait_until(lambda: b"x/hold" in server.record.read_bytes())
            os.kill(first, signal.SIGKILL)
            assert "error" in json.loads(door.answer(b"7"))
            assert door.is_alive()
            assert door.order("pid")["result"]["pid"] != first
        said = (tmp_path / "errors").read_text()
        assert "was ended by SIGKILL. It is started again." in said
        begun = [line for line in server.reached() if b'"initialize"' in line]
        assert len(begun) == 2
        assert begun[0].split(b'"params"')[1] == begun[1].split(b'"params"')[1]


def test_with_reconnect_a_command_that_fails_at_first_is_tried_again(tmp_path: Path) -> None:
    mark = tmp_path / "tried"
    script = (
        f"import os, sys, runpy\nif not os.path.exists({str(mark)!r}):\n"
        f"    open({str(mark)!r}, 'w').close(); sys.exit(1)\n"
        f"sys.argv = ['s']; runpy.run_path({str(SCRIPTED)!r}, run_name='__main__')\n"
    )
    command = [sys.executable, "-S", "-c", script]
    words = [sys.executable, "-m", "penstock", "--stdio", *RECONNECT, "--", *command]
    with (tmp_path / "errors").open("wb") as errors, StdioDoor(words, "legacy", errors) as door:
        began = time.monotonic()
        door.begin()
        assert door.is_alive()
        assert time.monotonic() - began < DEADLINE
