"""Legacy clients over an upstream that speaks only the newer era, over every pair of transports."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from doors import Client, StdioDoor
from gate import META, ROOT, Gate, request
from pairs import Proxy, Upstream

DENY = ("--deny", "^(write|delete)_")
PAIRS = [
    (client, upstream)
    for client in ("stdio", "sse", "streamable")
    for upstream in ("stdio", "sse", "streamable")
]
CAN_ASK = b'{"elicitation":{},"sampling":{},"roots":{}}'


@pytest.fixture(params=PAIRS, ids="-".join)
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    kind, transport = request.param
    with Upstream(transport, tmp_path, "--modern-only") as upstream:
        door: Client
        if kind == "stdio":
            words = [sys.executable, "-m", "penstock", "--stdio", *DENY, *upstream.words()]
            with (tmp_path / "errors").open("wb") as errors:
                door = StdioDoor(words, "legacy", errors)
            with door:
                door.begin(capabilities=CAN_ASK)
                door.upstream = upstream  # type: ignore[attr-defined]
                yield door
        else:
            with Proxy(tmp_path, upstream.words(), *DENY) as proxy, proxy.connect(kind, "legacy") as door:
                door.begin(capabilities=CAN_ASK)
                door.upstream = upstream  # type: ignore[attr-defined]
                yield door


def test_a_legacy_client_lists_and_calls_and_asks_in_the_middle(client: Any) -> None:
    names = [tool["name"] for tool in client.ask("tools/list")["result"]["tools"]]
    assert names == ["echo", "read_file"]
    assert client.call("delete_file")["error"] == {"code": -32601, "message": "Tool not found: delete_file"}
    assert not client.upstream.calls_of("delete_file")
    assert client.call("echo", b'{"n" : 1e400,"u":"\\u65e5"}')["result"]["called"] == "echo"
    assert any(b'"arguments":{"n" : 1e400,"u":"\\u65e5"}' in line for line in client.upstream.reached())
    assert client.ask("ping")["result"] == {}
    assert client.ask("v/unknown")["result"] == {"heard": "v/unknown"}
    token = client.new_id()
    question = {"who": {"method": "elicitation/create", "params": {"message": "who?"}}}
    client.request(token, "x/input", json.dumps({"ask": question}).encode())
    asked = json.loads(client.message(lambda raw: b"elicitation/create" in raw).raw)
    assert asked["params"] == {"message": "who?"}
    answer = {"action": "accept", "content": {"name": "me"}}
    client.say(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}).encode())
    result = json.loads(client.answer(token))["result"]
    assert result["answers"] == {"who": answer}
    assert result["state"] == "st\u00e4te"


def test_an_upstream_of_the_clients_own_era_is_never_asked_for_the_other(tmp_path: Path) -> None:
    with Gate(tmp_path, *DENY) as gate:
        gate.handshake()
        assert gate.is_alive()
        assert not [line for line in gate.reached() if b"discover" in line]


def test_a_refusal_without_proof_of_the_other_era_is_the_upstreams_own(tmp_path: Path) -> None:
    error = '"error":{"code":-32000,"message":"not \\\\u65e5"}'
    refusing = (
        "import sys, json\n"
        "for line in sys.stdin:\n"
        "    id = json.dumps(json.loads(line).get('id'))\n"
        f'    print(\'{{"jsonrpc":"2.0", "id":\' + id + \',{error}}}\', flush=True)\n'
    )
    with Gate(tmp_path, *DENY, command=[sys.executable, "-c", refusing]) as gate:
        gate.say(request(b"1", "initialize", b'{"protocolVersion":"2025-11-25","capabilities":{}}'))
        assert gate.answer(b"1") == (
            b'{"jsonrpc":"2.0", "id":1,"error":{"code":-32000,"message":"not \\u65e5"}}'
        )


def test_what_was_asked_before_the_handshake_is_answered_whenever_that_comes(tmp_path: Path) -> None:
    """The list that an early call waits for is answered while we ask the upstream for its era."""
    late = (
        "import sys, json\n"
        "def say(id, **more): print(json.dumps({'jsonrpc': '2.0', 'id': id, **more}), flush=True)\n"
        "early = None\n"
        "for line in sys.stdin:\n"
        "    message = json.loads(line)\n"
        "    id, method = message.get('id'), message.get('method')\n"
        "    if method == 'tools/list' and early is None:\n"
        "        early = id\n"
        "    elif method == 'tools/list':\n"
        "        say(id, result={'tools': []})\n"
        "    elif method == 'initialize':\n"
        "        data = {'supported': ['2026-07-28'], 'requested': 'x'}\n"
        "        say(id, error={'code': -32022, 'message': 'no', 'data': data})\n"
        "    elif method == 'server/discover':\n"
        "        say(early, error={'code': -32600, 'message': 'too early'})\n"
        "        say(id, result={'supportedVersions': ['2026-07-28'], 'capabilities': {'tools': {}}})\n"
    )
    with Gate(tmp_path, *DENY, command=[sys.executable, "-c", late]) as gate:
        gate.say(request(b'"t"', "tools/call", b'{"name":"delete_file","arguments":{}}'))
        gate.say(request(b"1", "initialize", b'{"protocolVersion":"2025-11-25","capabilities":{}}'))
        assert json.loads(gate.answer(b'"t"'))["error"]["message"] == "too early"
        assert json.loads(gate.answer(b"1"))["result"]["protocolVersion"] == "2025-11-25"


def test_same_means_never_translated(tmp_path: Path) -> None:
    with Gate(tmp_path, *DENY, "--era", "same", upstream=["--modern-only"]) as gate:
        gate.say(request(b"1", "initialize", b'{"protocolVersion":"2025-11-25","capabilities":{}}'))
        assert json.loads(gate.answer(b"1"))["error"]["code"] == -32022
        assert len(gate.reached()) == 1


def test_nothing_of_the_bridge_is_loaded_before_a_refusal(tmp_path: Path) -> None:
    import os

    with Gate(tmp_path, *DENY, env={**os.environ, "PYTHONVERBOSE": "1"}) as gate:
        gate.handshake()
        assert gate.is_alive()
        assert "penstock.bridge" not in gate.stderr
    assert (ROOT / "src" / "penstock" / "bridge").is_dir()


def test_no_face_is_loaded_for_a_modern_client_of_a_modern_upstream(tmp_path: Path) -> None:
    import os

    with Gate(tmp_path, *DENY, env={**os.environ, "PYTHONVERBOSE": "1"}) as gate:
        for token, method in ((b"1", "server/discover"), (b"2", "resources/list")):
            gate.say(request(token, method, b"{%b}" % META))
            gate.answer(token)
        assert "penstock.relay.adapters" in gate.stderr
        assert not {"legacy_face", "modern_face"} & set(re.findall(r"penstock\.bridge\.(\w+)", gate.stderr))


BRIDGE = ("--era", "bridge")


@pytest.fixture(params=PAIRS, ids="-".join)
def modern(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A modern client over an upstream that speaks only the older era."""
    kind, transport = request.param
    with Upstream(transport, tmp_path, "--legacy-only") as upstream:
        door: Client
        if kind == "stdio":
            words = [sys.executable, "-m", "penstock", "--stdio", *DENY, *BRIDGE, *upstream.words()]
            with (tmp_path / "errors").open("wb") as errors:
                door = StdioDoor(words, "modern", errors)
            with door:
                door.upstream = upstream  # type: ignore[attr-defined]
                yield door
        else:
            with (
                Proxy(tmp_path, upstream.words(), *DENY, *BRIDGE) as proxy,
                proxy.connect(kind, "modern") as door,
            ):
                door.upstream = upstream  # type: ignore[attr-defined]
                yield door


def test_a_modern_client_lists_and_calls_over_a_legacy_upstream(modern: Any) -> None:
    discovered = modern.ask("server/discover")["result"]
    assert discovered["supportedVersions"] == ["2026-07-28"]
    assert discovered["resultType"] == "complete"
    listed = modern.ask("tools/list")["result"]
    assert [tool["name"] for tool in listed["tools"]] == ["echo", "read_file"]
    assert (listed["resultType"], listed["ttlMs"], listed["cacheScope"]) == ("complete", 0, "private")
    assert modern.call("delete_file")["error"] == {"code": -32601, "message": "Tool not found: delete_file"}
    assert not modern.upstream.calls_of("delete_file")
    answer = modern.call("echo", b'{"n" : 1e400,"u":"\\u65e5"}')["result"]
    assert (answer["called"], answer["resultType"]) == ("echo", "complete")
    (call,) = modern.upstream.calls_of("echo")
    assert b'"arguments":{"n" : 1e400,"u":"\\u65e5"}' in call
    assert b"protocolVersion" not in call
    assert modern.ask("ping")["error"]["code"] == -32601


def test_nothing_is_translated_for_a_modern_client_that_can_fall_back(tmp_path: Path) -> None:
    with (
        Upstream("stdio", tmp_path, "--legacy-only") as upstream,
        Proxy(tmp_path, upstream.words(), *DENY) as proxy,
        proxy.connect("streamable", "modern") as door,
    ):
        refused = door.ask("server/discover")
        assert refused["error"] == {"code": -32602, "message": "not before the handshake"}
        names = [tool["name"] for tool in door.ask("tools/list")["result"]["tools"]]
        assert names == ["echo", "read_file"]  # one that does not ask first is led there


@pytest.mark.parametrize("era", ["auto", "bridge", "legacy"])
def test_an_answer_without_a_handshake_does_not_prove_the_newer_era(tmp_path: Path, era: str) -> None:
    """Some legacy servers answer a modern tools/list as if there had been a handshake."""
    careless = (
        "import sys, json\n"
        "for line in sys.stdin:\n"
        "    said = json.loads(line)\n"
        "    if 'id' not in said: continue\n"
        "    method = said['method']\n"
        "    result = {'tools': [{'name': 'echo', 'inputSchema': {'type': 'object'}}]}\n"
        "    if method == 'initialize':\n"
        "        result = {'protocolVersion': '2025-11-25', 'capabilities': {'tools': {}}}\n"
        "    answer = {'jsonrpc': '2.0', 'id': said['id'], 'result': result}\n"
        "    if method == 'server/discover': answer = {'jsonrpc': '2.0', 'id': said['id'],\n"
        "        'error': {'code': -32601, 'message': 'Method not found'}}\n"
        "    print(json.dumps(answer), flush=True)\n"
    )
    with Gate(tmp_path, *DENY, "--era", era, command=[sys.executable, "-c", careless]) as gate:
        gate.say(request(b"1", "tools/list", b"{%b}" % META))
        listed = json.loads(gate.answer(b"1"))["result"]
        assert listed["resultType"] == "complete"
        assert [tool["name"] for tool in listed["tools"]] == ["echo"]


def test_a_client_that_asks_itself_hears_the_upstreams_own_refusal(tmp_path: Path) -> None:
    with Gate(tmp_path, *DENY, upstream=["--legacy-only"]) as gate:
        gate.say(request(b"1", "server/discover", b"{%b}" % META))
        assert json.loads(gate.answer(b"1"))["error"] == {
            "code": -32602,
            "message": "not before the handshake",
        }
        assert len(gate.reached()) == 1
        gate.handshake()
        assert gate.is_alive()
        assert "--era bridge" in gate.stderr


def test_a_command_that_ends_over_our_question_is_started_once_more(tmp_path: Path) -> None:
    touchy = (
        "import sys, json\n"
        "for line in sys.stdin:\n"
        "    said = json.loads(line)\n"
        "    if 'id' not in said: continue\n"
        "    if said['method'] == 'server/discover': sys.exit(3)\n"
        "    result = {'tools': [{'name': 'echo', 'inputSchema': {'type': 'object'}}]}\n"
        "    if said['method'] == 'initialize':\n"
        "        result = {'protocolVersion': '2025-11-25', 'capabilities': {'tools': {}}}\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': said['id'], 'result': result}), flush=True)\n"
    )
    command = [sys.executable, "-c", touchy]
    with Gate(tmp_path, *DENY, *BRIDGE, command=command) as gate:
        gate.say(request(b"1", "tools/list", b"{%b}" % META))
        assert json.loads(gate.answer(b"1"))["result"]["resultType"] == "complete"
    with (
        Proxy(tmp_path, ["--", *command], *DENY, *BRIDGE) as proxy,
        proxy.connect("streamable", "modern") as door,
    ):
        assert door.ask("server/discover")["result"]["supportedVersions"] == ["2026-07-28"]
        assert [tool["name"] for tool in door.ask("tools/list")["result"]["tools"]] == ["echo"]


@pytest.mark.parametrize("kind", ["stdio", "streamable"])
def test_what_the_upstream_is_said_to_speak_is_not_asked_for(tmp_path: Path, kind: str) -> None:
    for era, options, client in (
        ("legacy", "--legacy-only", "modern"),
        ("modern", "--modern-only", "legacy"),
    ):
        with Upstream("stdio", tmp_path, options) as upstream:
            with told(tmp_path, kind, client, upstream, "--era", era) as door:
                door.begin()
                names = [tool["name"] for tool in door.ask("tools/list")["result"]["tools"]]
                assert names == ["echo", "read_file"]
                assert door.is_alive()
            methods = {json.loads(line)["method"] for line in upstream.reached()}
            assert ("server/discover" in methods) is (era == "modern")
            assert ("initialize" in methods) is (era == "legacy")


@contextlib.contextmanager
def told(work: Path, kind: str, era: str, upstream: Upstream, *options: str) -> Iterator[Any]:
    """A client before a Penstock with these options."""
    if kind != "stdio":
        with (
            Proxy(work, upstream.words(), *DENY, *options) as proxy,
            proxy.connect(kind, era) as door,
        ):
            yield door
        return
    words = [sys.executable, "-m", "penstock", "--stdio", *DENY, *options, *upstream.words()]
    with (work / "errors").open("ab") as errors, StdioDoor(words, era, errors) as door:
        yield door
