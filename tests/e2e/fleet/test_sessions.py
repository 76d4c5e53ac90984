"""A session works wherever its request lands: command upstreams, real processes, a signed hop."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from doors import LegacyDoor, SseDoor
from fleet import Instances, shared
from gate import wait_until
from pairs import Upstream
from redis_server import RedisServer, needs_redis

pytestmark = needs_redis


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


def document(redis: RedisServer, **more: Any) -> dict[str, Any]:
    return {
        "shared": shared(redis.url, namespace="sessions"),
        "peer": {"listen": "127.0.0.1:0", "drain": "1s"},
        **more,
    }


@pytest.fixture(scope="module")
def fleet(redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instances]:
    work = tmp_path_factory.mktemp("fleet")
    with Instances(work, Upstream("stdio", work).words(), document(redis), count=3) as instances:
        yield instances


def peer_port(proxy: Any) -> int:
    said = proxy.stderr.partition("reach this one at 127.0.0.1:")[2]
    return int(said.split(".\n")[0])


def test_16_a_stream_at_one_posts_at_another_an_answer_at_a_third(fleet: Instances) -> None:
    first, second, third = fleet.ports
    client = LegacyDoor(first, "legacy", listens=False)
    client.begin(capabilities=b'{"sampling":{}}')
    assert (client.session or "").startswith("p1-")
    client.listen()
    client.port = second
    token = client.new_id()
    asked = (
        b'{"jsonrpc":"2.0","id":"q-1","method":"sampling/createMessage",'
        b'"params":{"messages":[],"maxTokens" : 1.0e0,"odd":"\\u0041"}}'
    )
    client.begin_order("ask", token, raw=asked.decode())
    question = client.until(lambda: next((one for one in client.heard if b"sampling/" in one.raw), None))
    assert question.raw == asked
    client.port = third
    told = b'{"jsonrpc":"2.0","id":"q-1","result":{"model" : "m"}}'
    client.say(told)
    assert client.last.status == 202
    assert client.until(lambda: [one for one in client.heard if b'{"got":%b}' % told in one.raw])
    client.close()


def test_17_the_owner_is_killed(redis: RedisServer, tmp_path: Path) -> None:
    with Instances(tmp_path, Upstream("stdio", tmp_path).words(), document(redis), count=2) as fleet:
        owner, other = fleet.all
        client, bystander = (LegacyDoor(proxy.port, "legacy") for proxy in (owner, other))
        client.begin()
        bystander.begin()
        client.port = other.port
        token = client.new_id()
        client.begin_order("hold", token, mark="stay")
        assert client.ask("x/nothing") is not None  # the hold is there before this is answered
        owner.process.kill()
        under_way = json.loads(client.answer(token))
        assert under_way["error"]["code"] == -32603
        owner.process.wait()  # while its sockets go one by one, a request may still get to it and be lost
        began = time.monotonic()
        response = client.whole("POST", "/mcp", client.headers(), b'{"jsonrpc":"2.0","id":9,"method":"ping"}')
        assert response.status == 404
        assert time.monotonic() - began < 10  # a second, on a machine that has one to spare
        assert bystander.ask("x/nothing") is not None
        client.close()
        bystander.close()
        fleet.all.remove(owner)


def test_legacy_sse_posts_go_to_the_stream_of_their_owner(fleet: Instances) -> None:
    first, second, _ = fleet.ports
    client = SseDoor(first, "legacy")
    client.port = second
    client.begin()
    assert client.ask("x/nothing") is not None
    client.close()


def test_a_session_that_was_ended_elsewhere_is_over_everywhere(fleet: Instances) -> None:
    first, second, third = fleet.ports
    client = LegacyDoor(first, "legacy", listens=False)
    client.begin()
    client.port = second
    assert client.whole("DELETE", "/mcp", client.headers()).status == 200
    client.port = third
    assert (
        client.whole("POST", "/mcp", client.headers(), b'{"jsonrpc":"2.0","id":1,"method":"ping"}').status
        == 404
    )
    client.close()


def test_ids_that_we_did_not_make_lead_nowhere(fleet: Instances) -> None:
    first, second, _ = fleet.ports
    client = LegacyDoor(first, "legacy", listens=False)
    client.begin()
    assert client.session is not None
    version, tag, random, seal = client.session.split("-")
    client.port = second
    other = "0" * len(random)
    forged = [
        f"{version}-{tag}-{other}-{seal}",
        f"{version}-{'f' * 10}-{random}-{seal}",
        f"{version}-{tag}-{random}-{'0' * 32}",
        f"p2-{tag}-{random}-{seal}",
        f"{version}-{tag}-{random}-{seal}x",
    ]
    for session in forged:
        headers = {**client.headers(), "Mcp-Session-Id": session}
        assert (
            client.whole("POST", "/mcp", headers, b'{"jsonrpc":"2.0","id":1,"method":"ping"}').status == 404
        )
    assert client.ask("x/nothing") is not None
    client.close()


def test_the_peer_door_takes_nothing_that_is_not_signed(fleet: Instances) -> None:
    client = LegacyDoor(fleet.ports[0], "legacy", listens=False)
    client.begin()
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    client.port = peer_port(fleet.all[0])
    for value in (None, "", "1;1;" + "0" * 32 + ";127.0.0.1;" + "0" * 32, "1;;;;"):
        headers = client.headers() if value is None else {**client.headers(), "Penstock-Hop": value}
        assert client.whole("POST", "/mcp", headers, ping).status == 403
    client.port = fleet.ports[0]
    headers = {**client.headers(), "Penstock-Hop": "1;1;2;3;4"}
    assert client.whole("POST", "/mcp", headers, ping).status == 400
    client.close()


def test_draining_is_told_and_takes_no_new_sessions(redis: RedisServer, tmp_path: Path) -> None:
    settings = document(redis, peer={"listen": "127.0.0.1:0", "drain": "20s"})
    with Instances(tmp_path, Upstream("stdio", tmp_path).words(), settings, count=1) as fleet:
        proxy = fleet.all[0]
        client = LegacyDoor(proxy.port, "legacy", listens=False)
        client.begin()
        assert client.whole("GET", "/healthz").body == b"ok\nshared: ok\n"
        proxy.process.terminate()
        assert wait_until(lambda: client.whole("GET", "/healthz").status == 503)
        assert client.ask("x/nothing") is not None
        newcomer = LegacyDoor(proxy.port, "legacy", listens=False)
        hello = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'
        assert newcomer.whole("POST", "/mcp", newcomer.headers(), hello).status == 503
        assert client.whole("DELETE", "/mcp", client.headers()).status == 200
        assert proxy.process.wait(20) == 0
        client.close()
        newcomer.close()
