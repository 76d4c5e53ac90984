"""Row 20 of the eras: credentials of clients go up through translated links, refusals come back.

And of row 26: clients that show different credentials never share an upstream session.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gate import META, request
from pairs import Proxy, Upstream

CHALLENGE = 'Bearer realm="up", resource_metadata="http://x/"'
DENY = ("--deny", "^(write|delete)_")
NAMES = ["echo", "read_file"]


@pytest.fixture(params=["auto", "bridge", "said"])
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def options(era: str, said: str) -> list[str]:
    return ["--era", said if era == "said" else era, *DENY]


@pytest.fixture
def newer(tmp_path: Path, era: str) -> Iterator[Any]:
    """An upstream that speaks only the newer era and wants credentials, behind Penstock."""
    with (
        Upstream("streamable", tmp_path, "--modern-only", "--bearer", "one,two") as upstream,
        Proxy(tmp_path, upstream.words(), *options(era, "modern")) as proxy,
    ):
        yield upstream, proxy


@pytest.fixture
def older(tmp_path: Path, era: str) -> Iterator[Any]:
    """The same of the older era."""
    with (
        Upstream("streamable", tmp_path, "--legacy-only", "--bearer", "one,two") as upstream,
        Proxy(tmp_path, upstream.words(), *options(era, "legacy")) as proxy,
    ):
        yield upstream, proxy


def bearer(word: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {word}"}


OPENING = b'{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}'


def test_a_legacy_clients_token_goes_up_and_the_upstreams_401_comes_back(newer: Any) -> None:
    upstream, proxy = newer
    with proxy.connect("streamable", "legacy") as nobody:
        response = nobody.post(request(b"1", "initialize", OPENING))
        nobody.until(lambda: response.is_over)
        assert response.status == 401
        assert response.headers["www-authenticate"] == CHALLENGE
        assert "mcp-session-id" not in response.headers
    with proxy.connect("streamable", "legacy", more=bearer("wrong")) as wrong:
        response = wrong.post(request(b"1", "initialize", OPENING))
        wrong.until(lambda: response.is_over)
        assert (response.status, response.headers["www-authenticate"]) == (401, CHALLENGE)
    with proxy.connect("streamable", "legacy", more=bearer("one")) as client:
        client.begin()
        assert [tool["name"] for tool in client.ask("tools/list")["result"]["tools"]] == NAMES
        assert client.is_alive()
        assert client.call("delete_file")["error"]["code"] == -32601
        # A token that has ended: the client hears it, and goes on in its session with another one.
        client.more = bearer("ended")
        token = client.new_id()
        client.request(token, "tools/call", b'{"name":"echo","arguments":{"n":1}}')
        client.until(lambda: client.posts[token].is_over)
        assert client.posts[token].status == 401
        assert client.posts[token].headers["www-authenticate"] == CHALLENGE
        client.more = bearer("two")
        assert client.is_alive()
        assert [tool["name"] for tool in client.ask("tools/list")["result"]["tools"]] == NAMES
    shown = {head.get("authorization") for head in upstream.heads() if head["line"].startswith("POST")}
    assert {"Bearer one", "Bearer ended", "Bearer two"} <= shown


def test_who_knows_a_session_id_and_no_token_gets_nothing_by_it(newer: Any) -> None:
    upstream, proxy = newer
    with proxy.connect("streamable", "legacy", more=bearer("one")) as client:
        client.begin()
        assert client.is_alive()
        before = len(upstream.reached())
        with proxy.connect("streamable", "legacy", listens=False) as thief:
            thief.session, thief.version = client.session, client.version
            answer = thief.post(request(b"1", "tools/call", b'{"name":"echo","arguments":{}}'))
            thief.until(lambda: answer.is_over)
            assert answer.status == 401
            answer = thief.post(request(b"2", "tools/list"))
            thief.until(lambda: answer.is_over)
            assert not any(b"read_file" in heard.raw for heard in thief.heard)
        assert not [line for line in upstream.reached()[before:] if b"tools/call" in line]


def modern(token: bytes, method: str, more: bytes = b"") -> bytes:
    return request(token, method, b"{%b%b}" % (more, META))


def test_a_modern_clients_token_goes_up_and_the_upstreams_401_comes_back(older: Any) -> None:
    upstream, proxy = older
    for more in ({}, bearer("wrong")):
        with proxy.connect("streamable", "modern", more=more) as nobody:
            response = nobody.post(modern(b"1", "tools/list"))
            nobody.until(lambda response=response: response.is_over)
            assert (response.status, response.headers["www-authenticate"]) == (401, CHALLENGE)
    with (
        proxy.connect("streamable", "modern", more=bearer("one")) as one,
        proxy.connect("streamable", "modern", more=bearer("two")) as two,
    ):
        for client in (one, two):
            assert [tool["name"] for tool in client.ask("tools/list")["result"]["tools"]] == NAMES
            assert client.is_alive()
            assert client.call("delete_file")["error"]["code"] == -32601
    calls = [head for head in upstream.heads() if head["line"].startswith("POST")]
    by_session: dict[str, set[str]] = {}
    for head in calls:
        if "mcp-session-id" in head:
            by_session.setdefault(head["mcp-session-id"], set()).add(head.get("authorization", ""))
    assert len(by_session) >= 2
    assert all(len(shown) == 1 for shown in by_session.values())
    assert {"Bearer one", "Bearer two"} <= set().union(*by_session.values())


def test_an_upstream_that_takes_everybody_still_gets_each_clients_token(tmp_path: Path) -> None:
    with (
        Upstream("streamable", tmp_path, "--legacy-only") as upstream,
        Proxy(tmp_path, upstream.words(), *DENY) as proxy,
        proxy.connect("streamable", "modern", more={**bearer("mine"), "X-Api-Key": "k"}) as client,
    ):
        assert client.call("echo")["result"]["resultType"] == "complete"
        heads = [head for head in upstream.heads() if head.get("authorization") == "Bearer mine"]
        assert heads
        assert all(head["x-api-key"] == "k" for head in heads)
        assert all("mcp-method" not in head for head in heads if "mcp-session-id" in head)


def test_discovery_is_answered_by_the_upstream_itself_unless_all_is_to_be_translated(tmp_path: Path) -> None:
    with (
        Upstream("streamable", tmp_path, "--legacy-only") as upstream,
        Proxy(tmp_path, upstream.words(), *DENY) as proxy,
        proxy.connect("streamable", "modern") as client,
    ):
        for _ in range(2):
            said = client.ask("server/discover")
            assert said["error"]["message"] == "not before the handshake", json.dumps(said)
        assert client.is_alive()
