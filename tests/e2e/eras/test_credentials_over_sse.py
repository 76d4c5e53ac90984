"""Row 20 of the eras where one side is SSE: what clients show goes up, and what the upstream wants comes back
as far as the transport has a way to say it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from doors import HttpDoor, SseDoor
from gate import META, request
from pairs import Proxy, Upstream

CHALLENGE = 'Bearer realm="up", resource_metadata="http://x/"'
DENY = ("--deny", "^(write|delete)_")
NAMES = ["echo", "read_file"]
ERAS = ["--modern-only", "--legacy-only"]
OPENING = b'{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}'


def bearer(word: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {word}"}


@pytest.fixture(params=["streamable", "sse"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=ERAS)
def site(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> Iterator[Any]:
    """An upstream over `kind` that wants credentials, behind Penstock."""
    with (
        Upstream(kind, tmp_path, request.param, "--bearer", "one,two") as upstream,
        Proxy(tmp_path, upstream.words(), *DENY) as proxy,
    ):
        yield upstream, proxy


def test_an_sse_clients_token_goes_up_and_the_upstreams_401_comes_back(site: Any) -> None:
    upstream, proxy = site
    for more in ({}, bearer("wrong")):
        with HttpDoor(proxy.port, "legacy", more) as nobody:
            stream = nobody.whole("GET", "/sse", {"Accept": "text/event-stream"})
            assert (stream.status, stream.headers["www-authenticate"]) == (401, CHALLENGE)
            assert json.loads(stream.body)["id"] is None
    with proxy.connect("sse", "legacy", more=bearer("one")) as client:
        client.begin()
        assert [tool["name"] for tool in client.ask("tools/list")["result"]["tools"]] == NAMES
        assert client.is_alive()
        assert client.call("delete_file")["error"]["code"] == -32601
        # A token that was never good is told in the answer to the post, and nowhere else.
        client.more = bearer("ended")
        client.request(b"7", "tools/call", b'{"name":"echo","arguments":{}}')
        assert (client.last.status, client.last.headers["www-authenticate"]) == (401, CHALLENGE)
        assert not [one for one in client.heard if one.on == "GET" and json.loads(one.raw).get("id") == 7]
        client.more = bearer("two")
        assert client.is_alive()
        assert client.last.status == 202
        assert [tool["name"] for tool in client.ask("tools/list")["result"]["tools"]] == NAMES
    shown = {head.get("authorization") for head in upstream.heads() if head["line"].startswith("POST")}
    assert {"Bearer one", "Bearer ended", "Bearer two"} <= shown


def test_a_token_that_ends_is_told_on_the_stream_once_and_then_in_every_post(tmp_path: Path) -> None:
    with (
        Upstream("streamable", tmp_path, "--modern-only", "--bearer", "one") as upstream,
        Proxy(tmp_path, upstream.words()) as proxy,
        proxy.connect("sse", "legacy", more=bearer("one")) as client,
    ):
        client.begin()
        assert client.is_alive()
        port = upstream.url.rpartition(":")[2].partition("/")[0]
        upstream.stop()
        upstream.command[upstream.command.index("one")] = "another"
        upstream.start(int(port))
        ended = client.call("echo")["error"]
        assert (client.last.status, ended["data"]["status"]) == (202, 401)
        for token in (b"8", b"9"):
            client.request(token, "tools/call", b'{"name":"echo","arguments":{}}')
            assert (client.last.status, client.last.headers["www-authenticate"]) == (401, CHALLENGE)


def test_who_knows_an_sse_session_and_no_token_gets_nothing_by_it(site: Any) -> None:
    upstream, proxy = site
    with proxy.connect("sse", "legacy", more=bearer("one")) as client:
        client.begin()
        assert client.is_alive()
        before = len(upstream.reached())
        with HttpDoor(proxy.port, "legacy") as thief:
            for method, params in (("tools/call", b'{"name":"echo","arguments":{}}'), ("tools/list", b"{}")):
                body = request(b'"stolen"', method, params)
                answer = thief.whole("POST", client.endpoint, {"Content-Type": "application/json"}, body)
                assert answer.status == 401
        assert client.is_alive()
        assert not [one for one in client.heard if b"stolen" in one.raw]
        assert not [line for line in upstream.reached()[before:] if b"stolen" in line]


@pytest.mark.parametrize("option", ERAS)
def test_a_legacy_clients_token_goes_up_to_an_sse_upstream(option: str, tmp_path: Path) -> None:
    with (
        Upstream("sse", tmp_path, option, "--bearer", "one,two") as upstream,
        Proxy(tmp_path, upstream.words(), *DENY) as proxy,
    ):
        for more in ({}, bearer("wrong")):
            with proxy.connect("streamable", "legacy", more=more) as nobody:
                response = nobody.post(request(b"1", "initialize", OPENING))
                nobody.until(lambda response=response: response.is_over)
                assert (response.status, response.headers["www-authenticate"]) == (401, CHALLENGE)
                assert "mcp-session-id" not in response.headers
        with (
            proxy.connect("streamable", "legacy", more=bearer("one")) as one,
            proxy.connect("streamable", "legacy", more=bearer("two")) as two,
        ):
            for client in (one, two):
                client.begin()
                assert [tool["name"] for tool in client.ask("tools/list")["result"]["tools"]] == NAMES
                assert client.is_alive()
                assert client.call("delete_file")["error"]["code"] == -32601
            one.more = bearer("ended")
            token = one.new_id()
            one.request(token, "tools/call", b'{"name":"echo","arguments":{}}')
            one.until(lambda: one.posts[token].is_over)
            assert one.posts[token].status == 401
            assert one.posts[token].headers["www-authenticate"] == CHALLENGE
        streams = [head for head in upstream.heads() if head["line"].startswith("GET")]
        assert {"Bearer one", "Bearer two"} <= {head.get("authorization") for head in streams}


def test_a_modern_clients_token_goes_up_to_an_sse_upstream_of_the_older_era(tmp_path: Path) -> None:
    with (
        Upstream("sse", tmp_path, "--legacy-only", "--bearer", "one,two") as upstream,
        Proxy(tmp_path, upstream.words(), *DENY) as proxy,
    ):
        for more in ({}, bearer("wrong")):
            with proxy.connect("streamable", "modern", more=more) as nobody:
                response = nobody.post(request(b"1", "tools/list", b"{%b}" % META))
                nobody.until(lambda response=response: response.is_over)
                assert (response.status, response.headers.get("www-authenticate")) == (401, CHALLENGE)
        with (
            proxy.connect("streamable", "modern", more=bearer("one")) as one,
            proxy.connect("streamable", "modern", more=bearer("two")) as two,
        ):
            for client in (one, two):
                assert [tool["name"] for tool in client.ask("tools/list")["result"]["tools"]] == NAMES
                assert client.is_alive()
                assert client.call("delete_file")["error"]["code"] == -32601
        streams = [head for head in upstream.heads() if head["line"].startswith("GET")]
        assert {"Bearer one", "Bearer two"} <= {head.get("authorization") for head in streams}


def test_what_the_user_gives_goes_before_what_clients_show(kind: str, tmp_path: Path) -> None:
    with (
        Upstream(kind, tmp_path, "--modern-only", "--bearer", "one") as upstream,
        Proxy(tmp_path, [*upstream.words(), "--header", "Authorization: Bearer one"], *DENY) as proxy,
        SseDoor(proxy.port, "legacy", bearer("mine")) as client,
    ):
        client.begin()
        assert client.is_alive()
        shown = {head.get("authorization") for head in upstream.heads() if head["line"].startswith("POST")}
        assert shown == {"Bearer one"}
