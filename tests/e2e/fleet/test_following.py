"""What one instance's child gave a modern client is served by that child, wherever the client comes back."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from across import ASKING, Asker, back, question
from doors import LegacyDoor
from fleet import Instances, shared
from gate import ROOT, children_of, wait_until
from pairs import Proxy
from redis_server import RedisServer, needs_redis

REMEMBERING = [sys.executable, "-S", str(ROOT / "tests" / "upstreams" / "remembering.py")]
ACCEPT = {"action": "accept", "content": {"n": 1}}


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


def document(redis: RedisServer, **more: Any) -> dict[str, Any]:
    peer = {"listen": "127.0.0.1:0", "drain": "1s"}
    return {"shared": shared(redis.url, namespace="following"), "peer": peer, **more}


@contextlib.contextmanager
def instances(work: Path, command: list[str], document: dict[str, Any], count: int) -> Iterator[Instances]:
    with Instances(work, ["--", *command], document, count=count) as fleet:
        yield fleet


def client(port: int, **more: str) -> Asker:
    """A modern client; its capabilities are the same wherever it asks."""
    return Asker(LegacyDoor(port, "modern", more, listens=False), Path(), str)


def at(asker: Asker, port: int) -> Asker:
    assert isinstance(asker.door, LegacyDoor)
    asker.door.port = port
    return asker


def task_of(answer: Any) -> str:
    return f'"taskId":{json.dumps(answer["result"]["taskId"])}'


def call(asker: Asker, name: str, mark: str = "", more: str = "") -> Any:
    token = asker.begin({"mark": mark}, more, name=name)
    return json.loads(asker.door.answer(token))


@needs_redis
def test_19_a_state_and_a_task_of_one_child_are_served_by_it_everywhere(
    redis: RedisServer, tmp_path: Path
) -> None:
    with instances(tmp_path, REMEMBERING, document(redis), 3) as fleet:
        one = client(fleet.ports[0])
        for number in range(6):
            home = fleet.ports[number % 3]
            asked = call(at(one, home), "ask", f"a{number}")
            begun = call(one, "slow", f"s{number}")
            pid = begun["result"]["pid"]
            for port in fleet.ports:
                gone_on = call(at(one, port), "ask", more=back(asked, q=ACCEPT))
                assert gone_on["result"]["pid"] == asked["result"]["_meta"]["pid"] == pid
                assert gone_on["result"]["of"] == {"mark": f"a{number}"}
                assert one.ask("tasks/get", task_of(begun))["result"]["pid"] == pid
        assert one.ask("tasks/get", '"taskId":"nobody"')["error"]["code"] == -32602
        for key in redis.ask("KEYS", "ps1:following:*"):
            assert redis.ask("PTTL", key) > 0
        one.door.close()


@needs_redis
def test_19_two_children_that_give_out_the_same_id_to_two_clients(redis: RedisServer, tmp_path: Path) -> None:
    with instances(tmp_path, [*REMEMBERING, "--counts"], document(redis), 2) as fleet:
        first, second = fleet.ports
        ann, bob = (client(first, Authorization=f"Bearer {name}") for name in ("ann", "bob"))
        hers, his = call(at(ann, first), "slow", "hers"), call(at(bob, second), "slow", "his")
        assert hers["result"]["taskId"] == his["result"]["taskId"]
        for port in fleet.ports:
            assert at(ann, port).ask("tasks/get", task_of(hers))["result"]["of"] == {"mark": "hers"}
            assert at(bob, port).ask("tasks/get", task_of(his))["result"]["of"] == {"mark": "his"}
        ann.door.close()
        bob.door.close()


@needs_redis
def test_19_what_is_written_into_redis_by_others_leads_nowhere(redis: RedisServer, tmp_path: Path) -> None:
    with instances(tmp_path, REMEMBERING, document(redis), 2) as fleet:
        first, second = fleet.ports
        one = client(first)
        before = set(redis.ask("KEYS", "ps1:following:*"))
        begun = call(one, "slow")
        found = [key for key in redis.ask("KEYS", "ps1:following:*") if key not in before]
        found = [key for key in found if len(redis.ask("GET", key) or b"") == 26]
        assert len(found) == 1
        held = redis.ask("GET", found[0])
        assert begun["result"]["taskId"].encode() not in found[0] + held
        redis.ask("SET", found[0], held[:16] + b"f" * 10, "PX", "60000")
        assert at(one, second).ask("tasks/get", task_of(begun))["error"]["code"] == -32602
        assert at(one, first).ask("tasks/get", task_of(begun))["result"]["pid"] == begun["result"]["pid"]
        one.door.close()


@needs_redis
def test_19_the_state_of_the_bridge_names_its_instance(redis: RedisServer, tmp_path: Path) -> None:
    record = tmp_path / "asked"
    record.touch()
    command = [sys.executable, "-S", str(ASKING), "--record", str(record)]
    with instances(tmp_path, command, document(redis, era="bridge"), 2) as fleet:
        first, second = fleet.ports
        one = client(first)
        one.record = record
        order = {"ask": [question("e")]}
        asked = one.call(order)
        state = asked["result"]["requestState"]
        assert state.startswith("p1-")
        forged = json.loads(json.dumps(asked))
        forged["result"]["requestState"] = state[:-1] + ("0" if state[-1] != "0" else "1")
        for port in fleet.ports:
            refused = at(one, port).call(order, back(forged, e=ACCEPT))
            assert refused["error"]["data"] == {"reason": "invalid_request_state"}
        gone_on = at(one, second).call(order, back(asked, e=ACCEPT))
        assert gone_on["result"]["structuredContent"] == {"e": ACCEPT}
        assert one.count("tools/call") == 1
        again = at(one, second).call(order, back(asked, e=ACCEPT))
        assert again["error"]["data"] == {"reason": "invalid_request_state"}
        waiting = at(one, first).call(order)
        fleet.all[0].process.kill()
        fleet.all[0].process.wait()
        at(one, second).call(order, back(waiting, e=ACCEPT))  # lost on its way, or refused at once
        left = one.call(order, back(waiting, e=ACCEPT))
        assert left["error"]["data"] == {"reason": "invalid_request_state"}
        assert one.count("tools/call") == 2  # it may have acted: nobody sends it again
        one.door.close()


@pytest.mark.skipif(sys.platform != "linux", reason="SO_REUSEPORT as Linux has it")
def test_19_workers_ask_their_siblings(tmp_path: Path) -> None:
    file = tmp_path / "workers.json"
    file.write_text(json.dumps({"workers": 3}))
    with Proxy(tmp_path, ["--", *REMEMBERING], "--config", str(file)) as proxy:
        assert wait_until(lambda: len(children_of(proxy.process.pid)) == 3)
        one = client(proxy.port)
        pids = set()
        for number in range(12):  # a connection for each question: they land anywhere
            begun, asked = call(one, "slow", f"s{number}"), call(one, "ask", f"a{number}")
            pids.add(begun["result"]["pid"])
            for _ in range(4):
                got = one.ask("tasks/get", task_of(begun))
                assert got["result"]["of"] == {"mark": f"s{number}"}
                gone_on = call(one, "ask", more=back(asked, q=ACCEPT))
                assert gone_on["result"]["of"] == {"mark": f"a{number}"}
        assert len(pids) > 1
        assert one.ask("tasks/get", '"taskId":"nobody"')["error"]["code"] == -32602
        door = one.door
        assert isinstance(door, LegacyDoor)
        assert door.whole("POST", "/penstock/whose", {}, b"x" * 16).status == 404
        door.close()
