"""How it ends: signals, losses, clients that are cut off, and nobody left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from doors import INITIALIZED, LegacyDoor, SseDoor, StdioDoor
from gate import DEADLINE, children_of, is_running, request, wait_until
from pairs import DENY, PAIRS, TRANSPORTS, Proxy, Upstream

every_upstream = pytest.mark.parametrize("upstream", TRANSPORTS)
OVER_HTTP = [pair for pair in PAIRS if pair[0] != "stdio"]
over_http = pytest.mark.parametrize(
    ("client", "upstream"), OVER_HTTP, ids=[f"{c}-to-{u}" for c, u in OVER_HTTP]
)
LOST = {"code": -32603, "message": "Lost connection to upstream MCP", "data": {"code": "REFUSED"}}
HELLO = request(
    b"1",
    "initialize",
    b'{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}',
)
LIST = request(b"2", "tools/list")


@pytest.mark.parametrize("era", ["legacy", "modern"])
@over_http
def test_sigterm_lets_a_call_under_way_finish(client: str, upstream: str, era: str, tmp_path: Path):
    with Upstream(upstream, tmp_path) as there, Proxy(tmp_path, there.words(), "--deny", DENY) as proxy:
        door, idle = proxy.connect(client, era), proxy.connect(client, era)
        door.begin()
        idle.begin()
        door.begin_order("nap", b"5", seconds=1)
        assert wait_until(lambda: any(b"x/nap" in line for line in there.reached()))
        children = children_of(proxy.process.pid)
        proxy.process.send_signal(signal.SIGTERM)
        assert b'"result":{}' in door.answer(b"5")
        assert proxy.process.wait(DEADLINE) == 0
        assert wait_until(lambda: not any(map(is_running, children)))
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", proxy.port))
        assert "SIGTERM: ending." in proxy.stderr
        assert "Error" not in proxy.stderr
        assert "warning" not in proxy.stderr
        door.close()
        idle.close()


@over_http
def test_a_second_signal_ends_it_at_once(client: str, upstream: str, tmp_path: Path):
    with Upstream(upstream, tmp_path) as there, Proxy(tmp_path, there.words(), "--deny", DENY) as proxy:
        door = proxy.connect(client, "legacy")
        door.begin()
        door.begin_order("hold", b"5", mark="m")
        assert wait_until(lambda: any(b"x/hold" in line for line in there.reached()))
        children = children_of(proxy.process.pid)
        proxy.process.send_signal(signal.SIGTERM)
        assert wait_until(lambda: "SIGTERM: ending." in proxy.stderr)
        proxy.process.send_signal(signal.SIGTERM)
        assert proxy.process.wait(DEADLINE) == 128 + signal.SIGTERM
        assert wait_until(lambda: not any(map(is_running, children)))
        door.close()


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("upstream", ["sse", "streamable"])
@pytest.mark.parametrize("client", ["stdio", "sse", "streamable"])
def test_141_147_a_lost_upstream_is_told_to_all_and_ends_the_proxy(
    client: str, upstream: str, era: str, tmp_path: Path
):
    with Upstream(upstream, tmp_path) as there, contextlib.ExitStack() as stack:
        doors: list[Any]
        if client == "stdio":
            words = [sys.executable, "-m", "penstock", "--stdio", "--deny", DENY, *there.words()]
            with (tmp_path / "errors").open("wb") as errors:
                doors = [StdioDoor(words, era, errors)]
            process = doors[0].process
        else:
            proxy = stack.enter_context(Proxy(tmp_path, there.words(), "--deny", DENY))
            process = proxy.process
            doors = [proxy.connect(client, era) for _ in range(3)]
        for number, door in enumerate(doors):
            door.begin()
            door.begin_order("hold", b"%d" % number, mark=f"lost-{number}")
        assert wait_until(lambda: sum(b"x/hold" in line for line in there.reached()) == len(doors))
        there.stop()
        for number, door in enumerate(doors):
            answer = door.message(lambda raw, number=number: b'"id":%d,' % number in raw).raw
            assert b'"code":-32603,"message":"Lost connection to upstream MCP"' in answer
        assert process.wait(DEADLINE) == 1
        said = (tmp_path / "errors").read_text() if client == "stdio" else proxy.stderr
        assert "Error: Lost connection to upstream MCP\nShutting down proxy\n" in said
        assert "Traceback" not in said
        for door in doors:
            door.close()


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("client", ["sse", "streamable"])
def test_a_child_that_dies_takes_only_its_own_session(client: str, era: str, tmp_path: Path):
    # Clients of the modern era share a child over Streamable HTTP; another is started on request.
    more = ("--on-upstream-loss", "reconnect") if (client, era) == ("streamable", "modern") else ()
    with Upstream("stdio", tmp_path) as there, Proxy(tmp_path, there.words(), "--deny", DENY, *more) as proxy:
        victim, other = proxy.connect(client, era), proxy.connect(client, era)
        victim.begin()
        other.begin()
        victim.begin_order("die", b"6", status=3)
        answer = victim.message(lambda raw: b'"id":6,' in raw).raw
        assert b'"code":-32603,"message":"Lost connection to upstream MCP"' in answer
        assert other.is_alive()
        assert proxy.process.poll() is None
        if (client, era) == ("streamable", "legacy"):
            headers = {**victim.headers(), "Mcp-Session-Id": victim.session}
            assert victim.whole("POST", "/mcp", headers, request(b"7", "ping")).status == 404
        victim.close()
        other.close()


@pytest.mark.parametrize(
    ("upstream", "options"),
    [("sse", ()), ("streamable", ()), ("streamable", ("--bearer", "ann"))],
    ids=["sse", "streamable", "locked"],
)
def test_no_client_ends_the_proxy_by_what_it_says_first(
    upstream: str, options: tuple[str, ...], tmp_path: Path
):
    """A tool list that one session does not get is the business of that session."""
    with (
        Upstream(upstream, tmp_path, *options) as there,
        Proxy(tmp_path, there.words(), "--deny", DENY) as proxy,
    ):
        mine = {"Authorization": "Bearer ann"} if options else {}
        with LegacyDoor(proxy.port, "legacy", mine) as other:
            other.begin()
            for words in ([INITIALIZED], [HELLO, INITIALIZED], [HELLO, INITIALIZED, LIST]):
                with SseDoor(proxy.port, "legacy", mine) as rude:
                    rude.more = {}
                    for said in words:
                        rude.say(said)
                    rude.say(LIST)
                    rude.until(lambda rude=rude: rude.stream.is_over or rude.heard)
            assert other.is_alive()
        assert proxy.process.poll() is None
        assert "Traceback" not in proxy.stderr


def test_a_session_that_the_upstream_has_ended_is_not_the_end_of_the_others(tmp_path: Path):
    with (
        Upstream("streamable", tmp_path) as there,
        Proxy(tmp_path, there.words(), "--deny", DENY) as proxy,
        SseDoor(proxy.port, "legacy") as ended,
        SseDoor(proxy.port, "legacy") as other,
    ):
        ended.begin()
        assert ended.is_alive()
        session = there.heads()[-1]["mcp-session-id"]
        other.begin()
        at_upstream = LegacyDoor(int(there.url.split("/")[2].partition(":")[2]), "legacy")
        gone = at_upstream.whole("DELETE", "/mcp", {"Mcp-Session-Id": session})
        assert gone.status == 200
        ended.request(b"7", "ping")
        assert b"Lost connection to upstream MCP" in ended.answer(b"7")
        assert other.is_alive()
        assert proxy.process.poll() is None


@every_upstream
@pytest.mark.parametrize("client", ["sse", "streamable"])
def test_nobody_is_left_behind_by_clients_that_come_and_go(client: str, upstream: str, tmp_path: Path):
    """A third leave as they should, a third are cut off midway, a third without having heard a word."""
    count = 45 if upstream == "stdio" else 120
    with Upstream(upstream, tmp_path) as there, Proxy(tmp_path, there.words(), "--deny", DENY) as proxy:
        pid = proxy.process.pid
        for number in range(3):
            _come_and_go(proxy, client, number)
        assert wait_until(lambda: len(children_of(pid)) <= 1)  # the warden stays
        resident, files = len(children_of(pid)), _files(pid)
        for number in range(count):
            _come_and_go(proxy, client, number)
        assert wait_until(lambda: len(children_of(pid)) == resident, 60), children_of(pid)
        assert wait_until(lambda: _files(pid) <= files + 3, 60), (_files(pid), files)
        with proxy.connect(client, "legacy") as door:
            door.begin()
            assert door.is_alive()


def _come_and_go(proxy: Proxy, client: str, number: int) -> None:
    way = number % 3
    if way == 2:
        with socket.create_connection(("127.0.0.1", proxy.port)) as raw:
            if client == "sse":
                raw.sendall(b"GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
            else:
                head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                head += b"Content-Length: %d\r\n\r\n"
                raw.sendall(head % len(HELLO) + HELLO)
            _reset(raw)
        return
    door = proxy.connect(client, "legacy")
    if way == 1 and client == "sse":
        door.say(HELLO)
        _reset(door.stream.connection)
    elif way == 1:
        door.begin()
        door.begin_order("hold", b"5", mark="m")
        _reset(door.posts[b"5"].connection)
        assert door.whole("DELETE", "/mcp", door.headers()).status == 200
    else:
        door.begin()
        if client == "streamable":
            assert door.whole("DELETE", "/mcp", door.headers()).status == 200
    door.close()


def _reset(connection: socket.socket) -> None:
    """Cuts a connection as a lost machine would: no good-bye, what is unread is lost."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


# --- how it begins ---------------------------------------------------------------------------------------


def run(*words: str, within: float = DEADLINE) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=within,
        check=False,
    )
    return done.returncode, done.stderr.decode()


def test_a_busy_port_is_said_so(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as busy, Upstream("streamable", tmp_path) as there:
        port = busy.getsockname()[1]
        code, said = run("--listen", str(port), *there.words())
        assert code == 1
        assert f"127.0.0.1:{port}" in said
        assert "Error: " in said
        assert "Traceback" not in said


def test_143_an_upstream_that_is_not_there():
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    code, said = run("--listen", "0", "--upstream", f"http://127.0.0.1:{port}/mcp")
    assert code == 1
    assert f"Error: Failed to connect to upstream MCP at http://127.0.0.1:{port}/mcp\n" in said
    assert "Traceback" not in said


def test_143_a_name_that_nobody_has():
    code, said = run("--listen", "0", "--upstream", "http://nobody.invalid/mcp")
    assert code == 1
    assert "Error: Failed to connect to upstream MCP at http://nobody.invalid" in said


@pytest.mark.parametrize("path", ["mcp", "sse"])
def test_100_an_upstream_that_never_answers(path: str):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/{path}"
        code, said = run("--listen", "0", "--connect-timeout", "300", "--upstream", url)
    assert code == 1
    assert f"Error: Failed to connect to upstream MCP at {url}\nConnection timeout after 300ms\n" in said


@every_upstream
def test_100_a_list_that_never_comes(upstream: str, tmp_path: Path):
    with Upstream(upstream, tmp_path, "--mute", "list") as there:
        code, said = run("--listen", "0", "--tools-timeout", "700", *there.words())
    assert code == 1
    assert "Error: Failed to fetch tool list from upstream MCP\nRequest timeout after 700ms\n" in said


@every_upstream
def test_100_a_list_that_comes_late_is_still_a_list(upstream: str, tmp_path: Path):
    with (
        Upstream(upstream, tmp_path, "--list-delay", "0.7") as there,
        Proxy(tmp_path, there.words()) as proxy,
    ):
        assert proxy.port


def test_91_an_upstream_that_is_no_mcp_server(tmp_path: Path):
    with Upstream("streamable", tmp_path) as there:
        url = there.url.replace("/mcp", "/elsewhere")
        code, said = run("--listen", "0", "--upstream", url)
    assert code == 1
    assert "Error: Failed to connect to upstream MCP at" in said
    assert "404" in said


def test_sigterm_before_the_upstream_has_answered(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        words = ["--upstream", f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"]
        with Proxy(tmp_path, words, wait=False) as proxy:
            silent.settimeout(DEADLINE)
            connection, _ = silent.accept()
            assert proxy.end() == 0
            connection.close()
