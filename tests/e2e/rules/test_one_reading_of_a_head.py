"""What a head says to us it says to the upstream: no header that rules go by stays behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from doors import LEGACY, MODERN, LegacyDoor
from gate import META
from pairs import DENY, Proxy, Upstream
from ruled import Ruled, rule

TAINTED = [
    rule("taint", [{"method_equals": "v/fetch"}], {"set_state": {"key": "dirty", "value": True}}),
    rule(
        "hold",
        [{"method_equals": "v/send"}, {"state_equals": {"key": "dirty", "value": True}}],
        {"block": "not after that"},
    ),
    rule("few", [{"method_equals": "v/few"}], {"rate_limit": {"limit": 2, "window": "1h"}}),
]


def post(client: LegacyDoor, method: str, headers: dict[str, str]) -> tuple[int, bytes]:
    body = b'{"jsonrpc":"2.0","id":7,"method":"%b","params":{"_meta":%b}}' % (
        method.encode(),
        b"{" + META.partition(b"{")[2],
    )
    fields = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Mcp-Session-Id": str(client.session),
        **headers,
    }
    answer = client.whole("POST", "/mcp", fields, body)
    return answer.status, bytes(answer.body) + b"".join(answer.events)


def test_connection_hides_neither_era_nor_session_nor_principal_from_the_upstream(tmp_path: Path) -> None:
    with Ruled("passthrough", tmp_path, {"rules": TAINTED}) as ruled:
        client = ruled.client
        plain = {"MCP-Protocol-Version": LEGACY}
        assert client.ask("v/fetch")["result"]
        assert b"not after that" in post(client, "v/send", plain)[1]
        modern = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "v/send"}
        tricks = [
            {**modern, "Connection": "mcp-protocol-version"},
            {**modern, "Connection": "close, MCP-Protocol-Version"},
            {**plain, "Connection": "keep-alive, mcp-session-id"},
            {**plain, "Connection": "authorization", "Authorization": "Bearer 1"},
            {**plain, "Connection": "x-api-key", "X-Api-Key": "1"},
        ]
        for trick in tricks:
            assert post(client, "v/send", trick)[0] == 400, trick
        assert ruled.reached("v/send") == []
        assert b"not after that" in post(client, "v/send", plain)[1]
        for number in range(6):
            fields = {**plain, "Connection": "authorization", "Authorization": f"Bearer {number}"}
            post(client, "v/few", fields)
        assert len(ruled.reached("v/few")) == 0


@pytest.mark.parametrize("upstream", ["stdio", "sse", "streamable"])
def test_a_head_whose_connection_names_what_we_read_is_refused_at_every_door(
    upstream: str, tmp_path: Path
) -> None:
    with (
        Upstream(upstream, tmp_path) as there,
        Proxy(tmp_path, there.words(), "--deny", DENY) as proxy,
    ):
        door = proxy.connect("streamable", "legacy")
        door.begin()
        for name in ("mcp-session-id", "Content-Type", "accept", "Host", "content-length"):
            assert post(door, "v/x", {"MCP-Protocol-Version": LEGACY, "Connection": name})[0] == 400, name
        assert door.is_alive()
        assert not [line for line in there.reached() if b"v/x" in line]
        door.close()
