"""Legacy clients over upstreams of the newer era, on raw bytes.

The numbers are those of the rows that the bridge was accepted by.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from doors import StdioDoor
from gate import ROOT, wait_until
from pairs import Proxy, Upstream
from sdk_server import serving

FIXTURE = [sys.executable, str(ROOT / "tests" / "upstreams" / "conformance_server.py")]
WATCHED = "test://watched-resource"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The SDK's own server, which speaks only the newer era."""
    with serving("--era", "modern") as found:
        yield found


@pytest.fixture(params=["stdio", "streamable"])
def client(request: pytest.FixtureRequest, url: str, tmp_path: Path) -> Iterator[Any]:
    if request.param == "stdio":
        words = [sys.executable, "-m", "penstock", "--stdio", "--upstream", url]
        with (tmp_path / "errors").open("wb") as errors, StdioDoor(words, "legacy", errors) as door:
            door.begin()
            yield door
    else:
        with (
            Proxy(tmp_path, ["--upstream", url]) as proxy,
            proxy.connect("streamable", "legacy") as door,
        ):
            door.begin()
            yield door


def logs(client: Any) -> list[Any]:
    heard = [json.loads(one.raw) for one in client.heard]
    return [one["params"]["level"] for one in heard if one.get("method") == "notifications/message"]


def test_15_the_level_of_the_session_is_stamped_on_each_request(client: Any) -> None:
    assert client.ask("logging/setLevel", b'{"level":"loud"}')["error"]["code"] == -32602
    assert client.ask("logging/setLevel", b'{"level":"debug"}')["result"] == {}
    assert "result" in client.call("test_logging_tool")
    assert logs(client)


def test_16_changes_reach_the_client_until_it_unsubscribes(client: Any) -> None:
    params = json.dumps({"uri": WATCHED}).encode()
    assert client.ask("resources/subscribe", params)["result"] == {}
    client.call("test_trigger_resource_update")
    heard = json.loads(client.message(lambda raw: b"resources/updated" in raw).raw)
    assert heard["params"]["uri"] == WATCHED
    assert "subscriptionId" not in json.dumps(heard)
    client.call("test_trigger_tool_change")
    client.message(lambda raw: b"tools/list_changed" in raw)
    assert client.ask("resources/unsubscribe", params)["result"] == {}
    client.heard.clear()
    client.call("test_trigger_resource_update")
    client.call("test_trigger_tool_change")
    client.message(lambda raw: b"tools/list_changed" in raw)
    assert not [one for one in client.heard if b"resources/updated" in one.raw]


def test_18_19_errors_have_the_codes_and_the_statuses_of_the_older_era(client: Any) -> None:
    error = client.ask("resources/read", b'{"uri":"test://none"}')["error"]
    assert error["code"] == -32002
    token = client.new_id()
    client.request(token, "v/unknown")
    assert json.loads(client.answer(token))["error"]["code"] == -32601
    if client.kind == "streamable":
        assert client.posts[token].status == 200
    assert "result" in client.call("test_simple_text")
    assert client.ask("tasks/list")["error"]["code"] == -32601


def test_12_a_cancel_during_a_question_takes_it_back_and_nothing_is_sent_again(tmp_path: Path) -> None:
    with (
        Upstream("stdio", tmp_path, "--modern-only") as upstream,
        (tmp_path / "errors").open("wb") as errors,
        StdioDoor([sys.executable, "-m", "penstock", "--stdio", *upstream.words()], "legacy", errors) as door,
    ):
        door.begin(capabilities=b'{"elicitation":{}}')
        token = door.new_id()
        question = {"q": {"method": "elicitation/create", "params": {"message": "who?"}}}
        door.request(token, "x/input", json.dumps({"ask": question}).encode())
        asked = json.loads(door.message(lambda raw: b"elicitation/create" in raw).raw)
        before = len(upstream.reached())
        door.say(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}' % token)
        gone = json.loads(door.message(lambda raw: b"notifications/cancelled" in raw).raw)
        assert gone["params"]["requestId"] == asked["id"]
        late = {"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {}}}
        door.say(json.dumps(late).encode())
        assert door.is_alive()
        assert [b"x/input" in line for line in upstream.reached()[before:]].count(True) == 0


def test_17_a_listen_stream_that_is_cut_is_opened_again_and_the_client_looks_again(tmp_path: Path) -> None:
    command = [*FIXTURE, "--era", "modern", "--transport", "http", "--port"]

    def serve(port: str) -> tuple[subprocess.Popen[str], str]:
        server = subprocess.Popen([*command, port], stderr=subprocess.PIPE, text=True)
        assert server.stderr is not None
        found = re.search(r"http://\S+:(\d+)\S*", server.stderr.readline())
        assert found is not None
        return server, found[0]

    server, address = serve("0")
    port = address.rpartition(":")[2].partition("/")[0]
    errors = tmp_path / "errors"
    words = [sys.executable, "-m", "penstock", "--stdio", "--on-upstream-loss", "reconnect"]
    words += ["--upstream", address]
    try:
        with errors.open("wb") as sink, StdioDoor(words, "legacy", sink) as door:
            door.begin()
            assert "result" in door.call("test_simple_text")
            server.kill()
            server.communicate()
            server, _ = serve(port)
            assert wait_until(
                lambda: door.pump(0.1) or any(b"list_changed" in one.raw for one in door.heard), 60
            )
            door.message(lambda raw: b"list_changed" in raw, 60)
    finally:
        server.kill()
        server.communicate()
