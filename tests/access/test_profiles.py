"""Profiles: the same endpoint with less in it, by credential, path, header or the name of the client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gate import wait_until
from guarded import POST, Guarded, reach, row, shown, tools_of
from pairs import Upstream

FREE = "canary-token-free"
PINNED = "canary-token-pinned"
EVERYTHING = "canary-token-everything"
LOST = "canary-token-lost"
PROFILES: dict[str, Any] = {
    "reader": {"tools": {"deny": ["^(write|delete)_"]}},
    "echoer": {"tools": {"allow": ["^echo$"]}},
}


def config_of(upstream: Upstream, **more: Any) -> dict[str, Any]:
    return {"upstream": reach(upstream), "profiles": PROFILES, **more}


@pytest.fixture(scope="module", params=["stdio", "streamable"])
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    work = tmp_path_factory.mktemp("profiles")
    with Upstream(request.param, work) as upstream:
        tokens = [
            row("free", FREE),
            row("pinned", PINNED, profile="echoer"),
            row("everything", EVERYTHING, profile="all"),
            row("lost", LOST, profile="nowhere"),
        ]
        choose = {"header": "X-Profile", "clients": {"toy": "echoer"}, "default": "reader"}
        config = config_of(upstream, auth={"tokens": tokens}, choose=choose)
        with Guarded(work, config) as proxy:
            yield proxy


def seen(proxy: Guarded, token: str, path: str = "/mcp", era: str = "legacy", **more: str) -> list[str]:
    door = proxy.door(token, era, path, **more)
    if era == "legacy":
        door.begin()
    return tools_of(door)


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_27_a_profile_by_each_source(guarded: Guarded, era: str) -> None:
    whole = seen(guarded, EVERYTHING, era=era)
    reader = [name for name in whole if not name.startswith(("write_", "delete_"))]
    assert "echo" in reader
    assert len(reader) < len(whole)
    assert seen(guarded, FREE, era=era) == reader  # the default
    assert seen(guarded, PINNED, era=era) == ["echo"]  # the credential
    assert seen(guarded, FREE, "/p/echoer/mcp", era) == ["echo"]  # the path
    assert seen(guarded, FREE, era=era, X_Profile="echoer") == ["echo"]  # the header
    assert seen(guarded, PINNED, "/p/echoer/mcp", era, x_profile="echoer") == ["echo"]  # all agree


def test_27_a_profile_by_the_name_of_the_client(guarded: Guarded) -> None:
    hello = guarded.hello(FREE, name="toy")
    door = guarded.door(FREE)
    door.session, door.version = hello.headers["mcp-session-id"], "2025-11-25"
    door.say(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    assert tools_of(door) == ["echo"]


def test_27_sources_that_disagree_are_told_the_same_as_for_what_is_not_there(guarded: Guarded) -> None:
    unknown = guarded.hello(FREE, "/p/no-such-profile/mcp")
    assert unknown.status == 404
    for refused in (
        guarded.hello(PINNED, "/p/reader/mcp"),
        guarded.hello(PINNED, X_Profile="reader"),
        guarded.hello(FREE, "/p/reader/mcp", X_Profile="echoer"),
        guarded.hello(FREE, X_Profile="no-such-profile"),
        guarded.hello(FREE, X_Profile="echoer, reader"),
        guarded.hello(FREE, "/p/reader/mcp", "toy"),
        guarded.hello(EVERYTHING, name="toy"),
        guarded.hello(EVERYTHING, "/p/reader/mcp"),
    ):
        assert refused.status == 404
        assert bytes(refused.body) == bytes(unknown.body)


def test_27_over_the_older_transport(guarded: Guarded) -> None:
    with guarded.sse(PINNED) as older:
        older.begin()
        assert tools_of(older) == ["echo"]
        assert older.endpoint.startswith("/p/echoer/messages?")
    with guarded.sse(FREE, "/p/echoer/sse") as older:
        older.begin()
        assert tools_of(older) == ["echo"]


def test_a_hidden_tool_does_not_run_by_any_profile(guarded: Guarded) -> None:
    for token, path in ((PINNED, "/mcp"), (FREE, "/p/echoer/mcp"), (FREE, "/mcp")):
        door = guarded.door(token, path=path)
        door.begin()
        refused = door.call("write_file", b'{"path":"x"}')
        assert refused["error"]["code"] == -32601
        assert door.is_alive()


def test_a_session_stays_in_its_profile(guarded: Guarded) -> None:
    door = guarded.door(FREE, path="/p/echoer/mcp")
    door.begin()
    call = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"write_file","arguments":{}}}'
    for path in ("/p/reader/mcp",):
        refused = door.whole("POST", path, {**POST, **door.headers()}, call)
        assert refused.status == 404
        assert shown(refused)["error"]["message"] == "Session not found"
    # At the common door the session leads back to its own profile, and to no other.
    answer = shown_message(door.whole("POST", "/mcp", {**POST, **door.headers()}, call))
    assert answer["error"]["code"] == -32601


def shown_message(response: Any) -> Any:
    import json

    from doors import read_event

    if response.is_stream:
        return json.loads(read_event(response.events[0])[1])
    return shown(response)


@pytest.mark.parametrize(
    "path",
    [
        "//p/reader/mcp",
        "/p//reader/mcp",
        "/p/reader//mcp",
        "/p/reader/mcp/",
        "/p/reader%2fmcp",
        "/p%2freader/mcp",
        "/p/%72eader/mcp",
        "/p/echoer/../reader/mcp",
        "/p/echoer/..%2freader/mcp",
        "/p/./reader/mcp",
        "/p/reader/./mcp",
        "/p/reader;x/mcp",
        "/p/reader/mcp;x",
        "/p\\reader\\mcp",
        "/P/reader/mcp",
        "/p/Reader/mcp",
        "/p/reader\u00a0/mcp",
        "/p/reader/MCP",
        "/p//mcp",
        "/p/mcp",
        "/mcp/",
        "/%6dcp",
        "/./mcp",
        "/p/all/../mcp",
    ],
)
def test_a_path_is_what_it_is_byte_for_byte(path: str, guarded: Guarded) -> None:
    assert guarded.hello(FREE, path.replace("\u00a0", "%c2%a0")).status == 404
    assert guarded.hello(None, path.replace("\u00a0", "%c2%a0")).status == 401


def test_28_a_credential_whose_profile_is_not_there_gets_nothing(guarded: Guarded) -> None:
    for path in ("/mcp", "/p/reader/mcp", "/p/nowhere/mcp", "/p/all/mcp"):
        assert guarded.hello(LOST, path).status == 403


@pytest.mark.parametrize("transport", ["stdio", "streamable"])
def test_28_a_pinned_profile_that_is_deleted_shows_nothing(transport: str, tmp_path: Path) -> None:
    with Upstream(transport, tmp_path) as upstream:
        auth = {"tokens": [row("pinned", PINNED, profile="echoer"), row("free", FREE)]}
        config = config_of(upstream, auth=auth, choose={"default": "reader"})
        with Guarded(tmp_path, config) as proxy:
            live, other = proxy.door(PINNED), proxy.door(FREE)
            live.begin()
            other.begin()
            assert tools_of(live) == ["echo"]
            proxy.write({**config, "profiles": {"reader": PROFILES["reader"]}})
            assert wait_until(lambda: proxy.hello(PINNED).status == 403)
            assert tools_of(live) == []
            assert live.call("echo")["error"]["code"] == -32601
            assert live.ask("resources/read", b'{"uri":"x://y"}')["error"]["code"] == -32601
            assert other.is_alive()
            proxy.write(config)
            assert wait_until(lambda: proxy.hello(PINNED).status == 200)
            assert seen(proxy, PINNED) == ["echo"]
            assert other.is_alive()


@pytest.mark.parametrize("transport", ["stdio", "streamable"])
@pytest.mark.parametrize("how", ["deleted", "changed"])
def test_28_a_call_under_way_in_a_profile_that_goes_ends_nobody_else(
    transport: str, how: str, tmp_path: Path
) -> None:
    with Upstream(transport, tmp_path) as upstream:
        config = config_of(upstream, choose={"default": "reader"})
        with Guarded(tmp_path, config) as proxy:
            live, other = proxy.door(path="/p/echoer/mcp"), proxy.door()
            live.begin()
            other.begin()
            live.begin_order("hold", b"77", mark="m")
            assert wait_until(lambda: any(b"x/hold" in line for line in upstream.reached()))
            profiles: dict[str, Any] = {"reader": PROFILES["reader"]}
            if how == "changed":
                profiles["echoer"] = {"tools": {"allow": ["^(echo|ask)$"]}}
            proxy.write({**config, "profiles": profiles})
            assert wait_until(lambda: "as the file says now" in proxy.stderr)
            live.until(lambda: live.posts[b"77"].is_over)  # whoever waits hears something
            assert other.is_alive()
            assert proxy.process.poll() is None


@pytest.mark.parametrize("transport", ["stdio", "streamable"])
def test_a_stream_that_is_older_than_a_reload_still_ends_with_the_process(
    transport: str, tmp_path: Path
) -> None:
    with Upstream(transport, tmp_path) as upstream:
        config = config_of(upstream, choose={"default": "reader"})
        with Guarded(tmp_path, config) as proxy:
            other = proxy.door()
            other.begin()
            stream = other.listen()
            proxy.write({**config, "profiles": {"reader": PROFILES["reader"]}})
            assert wait_until(lambda: "as the file says now" in proxy.stderr)
            assert other.is_alive()
            proxy.process.terminate()
            other.until(lambda: stream.is_over)
            assert not stream.was_cut
            assert proxy.process.wait(20) == 0


def test_a_token_that_is_taken_out_opens_nothing_any_more(tmp_path: Path) -> None:
    with Upstream("stdio", tmp_path) as upstream:
        both = {"tokens": [row("free", FREE), row("other", EVERYTHING)]}
        config = {"upstream": reach(upstream), "auth": both}
        with Guarded(tmp_path, config) as proxy:
            door, other = proxy.door(FREE), proxy.door(EVERYTHING)
            door.begin()
            other.begin()
            proxy.write({**config, "auth": {"tokens": [both["tokens"][1]]}})
            assert wait_until(lambda: proxy.hello(FREE).status == 401)
            call = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo"}}'
            assert door.whole("POST", "/mcp", door.headers(), call).status == 401
            assert other.is_alive()
            proxy.file.write_text("auth: [")  # a bad file changes nothing
            assert wait_until(lambda: "not right" in proxy.stderr)
            assert other.is_alive()
            assert proxy.hello(FREE).status == 401


def test_profiles_without_credentials(tmp_path: Path) -> None:
    with Upstream("streamable", tmp_path) as upstream:
        proxy = Guarded(tmp_path, config_of(upstream, choose={"clients": {"toy": "echoer"}}))
        with proxy:
            door = proxy.door(path="/p/echoer/mcp")
            door.begin()
            assert tools_of(door) == ["echo"]
            whole = proxy.door()
            whole.begin()
            assert "write_file" in tools_of(whole)
            toy = proxy.hello(name="toy").headers["mcp-session-id"]
            whole.session = toy
            assert tools_of(whole) == ["echo"]


@pytest.mark.parametrize("transport", ["stdio", "streamable"])
def test_rules_know_the_profile_and_no_credential(transport: str, tmp_path: Path) -> None:
    rule = {
        "id": "not-here",
        "conditions": [{"method_equals": "tools/call"}, {"profile_in": ["reader"]}],
        "actions": [{"block": "Not in ${profile}"}],
    }
    seen_by_rules = {
        "id": "canary",
        "conditions": [{"header_matches": {"name": "Authorization", "pattern": "."}}],
        "actions": [{"block": "a credential"}],
    }
    with Upstream(transport, tmp_path) as upstream:
        tokens = [row("free", FREE), row("pinned", PINNED, profile="echoer")]
        config = config_of(
            upstream,
            auth={"tokens": tokens},
            choose={"default": "reader"},
            interceptor={"rules": [rule, seen_by_rules]},
        )
        with Guarded(tmp_path, config) as proxy:
            for era in ("legacy", "modern"):
                refused, served = proxy.door(FREE, era), proxy.door(PINNED, era)
                if era == "legacy":
                    refused.begin()
                    served.begin()
                assert refused.call("echo")["error"]["message"] == "Not in reader"
                assert served.is_alive()
