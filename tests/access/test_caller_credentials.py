"""Several upstreams that see callers' own credentials: each on links of its own, and nobody on another's."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from authorization_server import AuthorizationServer
from doors import Client
from gate import wait_until
from guarded import POST, Guarded, free_port, row, shown, tools_of
from pairs import Upstream
from several import member_entry as entry

CI, DEV = "canary-token-of-ci", "canary-token-of-dev"
AUTH = {"tokens": [row("ci", CI), row("dev", DEV)]}
RELAY = {"relay": {"X-Up": "Authorization"}, "lists": "caller"}
SECRET = "canary secret/with:odd+letters"


def relaying(work: Path, upstream: Upstream, auth: Any = RELAY, **more: Any) -> dict[str, Any]:
    servers = {"local": entry("local", "near", record=work / "local.record")}
    return {
        "mcpServers": {**servers, "up": {"url": upstream.url, "auth": auth}},
        "lists": {"debounce": "10ms"},
        "auth": AUTH,
        **more,
    }


def begun(proxy: Guarded, token: str, era: str = "legacy", **more: str) -> Client:
    door = proxy.door(token, era, **more)
    if era == "legacy":
        door.begin()
    return door


def credentials(upstream: Upstream) -> dict[str, set[str]]:
    """By the sessions of the upstream, what it was shown in them."""
    found: dict[str, set[str]] = {}
    for head in upstream.heads():
        fields = {name.lower(): value for name, value in head.items()}
        if "authorization" in fields:
            found.setdefault(fields.get("mcp-session-id", ""), set()).add(fields["authorization"])
    return found


def status(proxy: Guarded, name: str) -> str:
    lines = proxy.door().whole("GET", "/status").body.decode().splitlines()
    return next(line for line in lines if line.startswith(f"{name} "))


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_31_relay_over_several_upstreams(era: str, tmp_path: Path) -> None:
    with Upstream("streamable", tmp_path, "--bearer", "of-ci,of-dev") as upstream:
        with Guarded(tmp_path, relaying(tmp_path, upstream)) as proxy:
            ci = begun(proxy, CI, era, X_Up="Bearer of-ci", Cookie="canary=1", X_Other="canary")
            dev = begun(proxy, DEV, era, X_Up="Bearer of-dev")
            for door in (ci, dev, ci, dev):
                assert wait_until(lambda door=door: "echo" in tools_of(door))
                assert door.is_alive()
                assert door.call("near")["result"]["member"] == "local"
            assert status(proxy, "up").startswith("up ready")
        seen = credentials(upstream)
        assert {"Bearer of-ci"} in seen.values()
        assert {"Bearer of-dev"} in seen.values()
        # In a session of the upstream there is one credential, from its first word to its last.
        assert all(len(shown) == 1 for session, shown in seen.items() if session)
        assert "canary" not in upstream.heads_file.read_text()
        assert "of-ci" not in (tmp_path / "local.record").read_text()


def test_31_over_the_older_transport(tmp_path: Path) -> None:
    with Upstream("streamable", tmp_path, "--bearer", "of-ci") as upstream:
        config = relaying(tmp_path, upstream)
        del config["auth"]
        with Guarded(tmp_path, config) as proxy:
            older = proxy.connect("sse", "legacy", more={"X-Up": "Bearer of-ci"})
            older.begin()
            assert wait_until(lambda: "echo" in tools_of(older))
            assert older.is_alive()
            older.close()


def test_31_a_credential_that_is_not_taken_is_one_callers_trouble(tmp_path: Path) -> None:
    with Upstream("streamable", tmp_path, "--bearer", "of-ci") as upstream:
        with Guarded(tmp_path, relaying(tmp_path, upstream)) as proxy:
            ci = begun(proxy, CI, X_Up="Bearer of-ci")
            assert wait_until(lambda: "echo" in tools_of(ci))
            assert ci.is_alive()
            for _ in range(7):  # more often than opens a breaker
                dev = begun(proxy, DEV, X_Up="Bearer wrong")
                refused = dev.call("echo")
                assert refused["error"]["code"] == -32603
                assert "x-up" not in json.dumps(refused).lower()
                assert dev.call("near")["result"]["member"] == "local"
                none = begun(proxy, DEV)
                assert none.call("echo")["error"]["code"] == -32603
            assert ci.is_alive()
            assert status(proxy, "up").startswith("up ready")
            assert begun(proxy, CI, X_Up="Bearer of-ci").is_alive()
        assert "of-ci" not in proxy.stderr


def test_31_a_session_is_bound_to_what_it_began_with(tmp_path: Path) -> None:
    with Upstream("streamable", tmp_path, "--bearer", "one,two") as upstream:  # noqa: SIM117
        with Guarded(tmp_path, relaying(tmp_path, upstream)) as proxy:
            door = proxy.door(CI, X_Up="Bearer one")
            door.begin()
            assert wait_until(lambda: "echo" in tools_of(door))
            call = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"near"}}'
            for other in ({"X-Up": "Bearer two"}, {}):
                headers = {**POST, **door.headers(), "Authorization": f"Bearer {CI}", **other}
                plain = proxy.door()
                refused = plain.whole("POST", "/mcp", headers, call)
                assert refused.status == 404
                assert shown(refused)["error"]["message"] == "Session not found"
            assert door.is_alive()


def test_31_lists_are_nobodys_unless_the_file_says_so(tmp_path: Path) -> None:
    with Upstream("streamable", tmp_path, "--bearer", "of-ci") as upstream:
        auth = {"relay": {"X-Up": "Authorization"}}
        with Guarded(tmp_path, relaying(tmp_path, upstream, auth)) as proxy:
            ci = begun(proxy, CI, X_Up="Bearer of-ci")
            assert tools_of(ci) == ["near"]
            assert status(proxy, "up").startswith("up needs-auth")


def test_links_of_a_credential_leave_when_nobody_uses_them(tmp_path: Path) -> None:
    with Upstream("streamable", tmp_path, "--bearer", "of-ci") as upstream:
        config = relaying(tmp_path, upstream, timeouts={"session_idle": "1s"})
        with Guarded(tmp_path, config) as proxy:
            ci = begun(proxy, CI, X_Up="Bearer of-ci")
            assert wait_until(lambda: "echo" in tools_of(ci))
            assert ci.is_alive()
            assert "links=1" in status(proxy, "up")
            assert wait_until(lambda: "links=0" in status(proxy, "up"))
            assert begun(proxy, CI, X_Up="Bearer of-ci").is_alive()


# --- swap ------------------------------------------------------------------------------------------------


@pytest.fixture
def issuer() -> Iterator[AuthorizationServer]:
    with AuthorizationServer() as server:
        server.secrets["gate"] = SECRET
        yield server


def swapping(
    work: Path, upstream: Upstream, issuer: AuthorizationServer, port: int, **more: Any
) -> dict[str, Any]:
    swap = {
        "token_url": f"{issuer.issuer}/token",
        "client_id": "gate",
        "client_secret": "${GATE_SECRET}",
        "audience": "the-upstream",
        "scopes": ["read", "write"],
    }
    return {
        **relaying(work, upstream, {"swap": swap, **more}),
        "public_url": f"http://127.0.0.1:{port}",
        "auth": {"jwt": {"issuer": issuer.issuer}, "tokens": [row("ci", CI)]},
    }


def claims_of(header: str) -> dict[str, Any]:
    body = header.removeprefix("Bearer ").split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return found


def test_31_swap_gives_each_caller_a_token_of_its_own(
    issuer: AuthorizationServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATE_SECRET", SECRET)
    port = free_port()
    with Upstream("streamable", tmp_path) as upstream:
        config = swapping(tmp_path, upstream, issuer, port)
        with Guarded(tmp_path, config, listen=str(port)) as proxy:
            audience = f"http://127.0.0.1:{port}/mcp"
            tokens = {who: issuer.token(audience, sub=who) for who in ("ann", "bob", "eve")}
            issuer.refused.add("eve")
            for era in ("legacy", "modern"):
                doors = {who: begun(proxy, token, era) for who, token in tokens.items()}
                for who in ("ann", "bob", "ann"):
                    assert doors[who].is_alive()
                for _ in range(3):
                    refused = doors["eve"].call("echo")
                    assert refused["error"]["code"] == -32603
                    assert doors["eve"].call("near")["result"]["member"] == "local"
                assert begun(proxy, CI, era).call("near")["result"]["member"] == "local"
            assert doors["ann"].is_alive()
        asked = [one for one in issuer.swapped if one["subject_token"] != tokens["eve"]]
        assert len(asked) == 2  # one for each caller, whatever the era and however many sessions
        assert {one["audience"] for one in asked} == {"the-upstream"}
        assert {one["scope"] for one in asked} == {"read write"}
        assert {one["subject_token"] for one in asked} == {tokens["ann"], tokens["bob"]}
        seen = credentials(upstream)
        assert all(len(headers) == 1 for session, headers in seen.items() if session)
        made = {claims_of(header)["sub"] for headers in seen.values() for header in headers}
        assert made == {"ann", "bob"}
        heads = upstream.heads_file.read_text()
        for secret in (*tokens.values(), CI, SECRET):
            assert secret not in heads
            assert secret not in proxy.stderr
        assert "could not be exchanged: HTTP 400 invalid_grant" in proxy.stderr


def test_swap_is_one_exchange_for_calls_at_once_and_another_when_it_has_lapsed(
    issuer: AuthorizationServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATE_SECRET", SECRET)
    port = free_port()
    issuer.seconds = 13.0  # of which the last ten do not count
    with Upstream("streamable", tmp_path) as upstream:
        config = swapping(tmp_path, upstream, issuer, port)
        with Guarded(tmp_path, config, listen=str(port)) as proxy:
            token = issuer.token(f"http://127.0.0.1:{port}/mcp", sub="ann")
            doors = [begun(proxy, token) for _ in range(8)]
            alive: list[bool] = []
            threads = [
                threading.Thread(target=lambda door=door: alive.append(door.is_alive())) for door in doors
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert alive == [True] * 8
            before = len(issuer.swapped)
            assert 1 <= before <= 2
            assert wait_until(lambda: doors[0].is_alive() and len(issuer.swapped) > before)
            assert doors[1].is_alive()
            # The session of the upstream stays the same, with the newer token.
            assert any(len(headers) > 1 for headers in credentials(upstream).values())


def test_swap_with_a_wrong_secret_serves_the_rest(
    issuer: AuthorizationServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATE_SECRET", "canary-wrong")
    port = free_port()
    with Upstream("streamable", tmp_path) as upstream:
        config = swapping(tmp_path, upstream, issuer, port)
        with Guarded(tmp_path, config, listen=str(port)) as proxy:
            door = begun(proxy, issuer.token(f"http://127.0.0.1:{port}/mcp"))
            assert door.call("echo")["error"]["code"] == -32603
            assert door.call("near")["result"]["member"] == "local"
        assert "HTTP 401 invalid_client" in proxy.stderr
        assert "canary" not in proxy.stderr


@pytest.mark.parametrize(
    ("auth", "words"),
    [
        ({"swap": {}}, "needs token_url"),
        ({"swap": {"token_url": "http://idp.example/token"}}, "https://"),
        ({"swap": {"token_url": "https://idp.example/token?x=1"}}, "no query"),
        ({"swap": {"token_url": "https://idp.example/t"}, "relay": {"X-Up": "A"}}, "one value"),
        ({"swap": {"token_url": "https://idp.example/t"}}, "swap needs auth.jwt"),
        ({"swap": {"token_url": "https://idp.example/t", "client_secret": "${NOWHERE_AT_ALL}"}}, "NOWHERE"),
        ({"relay": {"X-Up": "A"}, "lists": "everybody"}, "must be one of"),
    ],
)
def test_faults_are_told(auth: Any, words: str) -> None:
    import yaml

    from penstock.config.file import parse_file
    from penstock.errors import FaultyFile

    servers = {"a": {"command": "x"}, "b": {"url": "http://b.example/", "auth": auth}}
    with pytest.raises(FaultyFile) as found:
        parse_file("a.yaml", yaml.safe_dump({"mcpServers": servers}).encode())
    assert words in str(found.value.args) + str(found.value.faults)
