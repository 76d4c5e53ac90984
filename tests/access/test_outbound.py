"""What an upstream sees of who calls: nothing of theirs, what we add, or what was asked to be passed on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from guarded import Guarded, reach, row, tools_of
from pairs import Upstream

CI, DEV = "canary-token-of-ci", "canary-token-of-dev"
AUTH = {"tokens": [row("ci", CI), row("dev", DEV)]}
PROTOCOL = {"host", "accept", "accept-encoding", "content-type", "content-length", "line"}


def names_seen(upstream: Upstream) -> set[str]:
    """The headers that reached the upstream, but for those of HTTP and MCP."""
    names = {name.lower() for head in upstream.heads() for name in head}
    return {name for name in names - PROTOCOL if not name.startswith("mcp-")}


def talk(proxy: Guarded, token: str | None, era: str, **more: str) -> None:
    door = proxy.door(token, era, **more)
    if era == "legacy":
        door.begin()
    assert "echo" in tools_of(door)
    assert door.is_alive()


MORE = {
    "X_Up": "mine",
    "Cookie": "canary=1",
    "User_Agent": "canary",
    "X_Api_Key": "canary",
    "X_Forwarded_For": "canary",
    "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
}


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_31_strip_is_the_default_where_callers_are_known(era: str, tmp_path: Path) -> None:
    with Upstream("streamable", tmp_path) as upstream:
        config: dict[str, Any] = {"upstream": reach(upstream), "auth": AUTH}
        with Guarded(tmp_path, config) as proxy:
            talk(proxy, CI, era, **MORE)
        assert names_seen(upstream) == {"traceparent"}
        assert "canary" not in upstream.heads_file.read_text()


def test_31_inject_adds_what_the_file_says(tmp_path: Path) -> None:
    with Upstream("streamable", tmp_path) as upstream:
        headers = {"Authorization": "Bearer ours", "X-Team": "a"}
        config = {"upstream": {**reach(upstream), "headers": headers}, "auth": AUTH}
        with Guarded(tmp_path, config) as proxy:
            talk(proxy, CI, "legacy", **MORE, X_Team="canary")
        assert names_seen(upstream) == {"authorization", "x-team", "traceparent"}
        text = upstream.heads_file.read_text()
        assert "canary" not in text
        assert "Bearer ours" in text


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_31_relay_passes_a_header_on_by_another_name(era: str, tmp_path: Path) -> None:
    with Upstream("streamable", tmp_path) as upstream:
        up = {**reach(upstream), "auth": {"relay": {"X-Up": "Authorization"}}}
        with Guarded(tmp_path, {"upstream": up, "auth": AUTH}) as proxy:
            talk(proxy, CI, era, **{**MORE, "X_Up": "Bearer of-ci"})
            talk(proxy, DEV, era, **{**MORE, "X_Up": "Bearer of-dev"})
            talk(proxy, DEV, era)
        assert names_seen(upstream) <= {"authorization", "traceparent"}
        assert "canary" not in upstream.heads_file.read_text()
        fields = [field for head in upstream.heads() for field in head.items()]
        seen = {value for name, value in fields if name.lower() == "authorization"}
        assert seen == {"Bearer of-ci", "Bearer of-dev"}


def test_31_strip_and_pass_are_there_for_whom_nobody_asks(tmp_path: Path) -> None:
    with Upstream("streamable", tmp_path) as upstream:
        with Guarded(tmp_path, {"upstream": {**reach(upstream), "auth": "strip"}}) as proxy:
            talk(proxy, None, "legacy", **MORE, Authorization="Bearer canary")
        assert names_seen(upstream) == {"traceparent"}
        with Guarded(tmp_path, {"upstream": {**reach(upstream), "auth": "pass"}, "auth": AUTH}) as proxy:
            talk(proxy, CI, "legacy", X_Api_Key="theirs")
        assert names_seen(upstream) == {"traceparent", "x-api-key"}
        assert CI not in upstream.heads_file.read_text()


def test_an_upstream_that_takes_no_credential_of_ours_is_not_served(tmp_path: Path) -> None:
    # One upstream's 401 is a matter between it and us: the client's own credential is a good one.
    import http.server
    import threading

    class Wants(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Bearer resource_metadata="http://evil.example/"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Wants)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}/mcp"
        config = {"upstream": {"url": url}, "auth": AUTH}
        with Guarded(tmp_path, config, wait=False) as proxy:
            assert proxy.process.wait(20) == 1
        assert "401" in proxy.stderr
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("auth", "words"),
    [
        ({"relay": {"Authorization": "Authorization"}}, "what clients show to us"),
        ({"relay": {"Cookie": "Cookie"}}, "what clients show to us"),
        ({"relay": {"X-Up": "Host"}}, "proxy's own business"),
        ({"relay": {"X-Up": "X-Team"}}, "one value"),
        ({"relay": {"X-Up": "A", "X-Other": "a"}}, "two values"),
        ({"mode": "pass", "relay": {"X-Up": "A"}}, "both"),
        ("forward", "must be one of"),
        ({}, "must be strip"),
    ],
)
def test_faults_are_told(auth: Any, words: str) -> None:
    import yaml

    from penstock.config.file import parse_file
    from penstock.errors import FaultyFile

    up = {"url": "http://up.example/mcp", "headers": {"X-Team": "a"}, "auth": auth}
    with pytest.raises(FaultyFile) as found:
        parse_file("a.yaml", yaml.safe_dump({"upstream": up}).encode())
    assert words in str(found.value.args) + str(found.value.faults)


def test_several_upstreams_never_see_all_of_a_clients_own_headers() -> None:
    import yaml

    from penstock.config.file import parse_file
    from penstock.errors import FaultyFile

    servers = {"a": {"command": "x"}, "b": {"url": "http://b.example/", "auth": "pass"}}
    with pytest.raises(FaultyFile) as found:
        parse_file("a.yaml", yaml.safe_dump({"mcpServers": servers}).encode())
    assert "single upstream" in str(found.value.faults)
