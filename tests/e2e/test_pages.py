"""Pages in a browser, by the headers that browsers send for them: names that were rebound, images, frames,
links. None reaches an upstream, starts a process, or takes anything of ours along."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from scripted_http import Line, Request, ScriptedHttp

from doors import LegacyDoor
from gate import children_of, wait_until
from pairs import DENY, Proxy, Upstream

HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
HELLO = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}'
)


def ask(proxy: Proxy, headers: dict[str, str], method: str = "POST", path: str = "/mcp") -> int:
    """The status of a handshake, or of a GET, with these headers."""
    door = LegacyDoor(proxy.port, "legacy")
    return door.whole(method, path, {**HEADERS, **headers}, HELLO if method == "POST" else b"").status


@pytest.mark.parametrize("spelling", ["127.0.0.1", "LOCALHOST", "0x7f000001", "127.1", "2130706433"])
def test_the_address_that_is_bound_decides_what_loopback_is(spelling: str, tmp_path: Path):
    with (
        Upstream("stdio", tmp_path) as there,
        Proxy(tmp_path, there.words(), "--deny", DENY, listen=f"{spelling}:0") as proxy,
    ):
        evil = f"evil.example:{proxy.port}"
        assert ask(proxy, {}) == 200
        assert ask(proxy, {"Host": f"localhost:{proxy.port}"}) == 200
        assert ask(proxy, {"Origin": f"http://localhost:{proxy.port}"}) == 200
        assert ask(proxy, {"Host": evil}) == 403
        assert ask(proxy, {"Host": evil, "Origin": f"http://{evil}"}) == 403
        assert ask(proxy, {"Origin": f"http://{evil}"}) == 403
        assert "Other machines can connect" not in proxy.stderr


def test_beyond_loopback_every_origin_must_be_allowed_by_name(tmp_path: Path):
    options = ("--deny", DENY, "--allow-origin", "https://app.example", "--allow-host", "gate.example")
    with (
        Upstream("stdio", tmp_path) as there,
        Proxy(tmp_path, there.words(), *options, listen="0.0.0.0:0") as proxy,
    ):
        assert "Other machines can connect" in proxy.stderr
        for host in ("gate.example", "10.1.2.3:80", "[fe80::1]", "localhost", socket.gethostname()):
            assert ask(proxy, {"Host": host}) == 200, host
        for host in (
            "evil.example",
            f"evil.example:{proxy.port}",
            "gate.example.evil",
            "1.2.3.4.evil.example",
        ):
            assert ask(proxy, {"Host": host}) == 403, host
            assert ask(proxy, {"Host": host, "Origin": f"http://{host}"}) == 403, host
        # The same name in both is what a rebound page has; here also that of an address.
        for origin in ("http://10.1.2.3", "http://localhost:5173", f"http://127.0.0.1:{proxy.port}", "null"):
            assert ask(proxy, {"Host": "10.1.2.3", "Origin": origin}) == 403, origin
        assert ask(proxy, {"Host": "10.1.2.3", "Origin": "https://app.example"}) == 200


IMAGE = {
    "Accept": "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8",
    "Sec-Fetch-Site": "cross-site",
    "Sec-Fetch-Mode": "no-cors",
    "Sec-Fetch-Dest": "image",
}


def test_a_page_starts_no_process(tmp_path: Path):
    with (
        Upstream("stdio", tmp_path) as there,
        Proxy(tmp_path, there.words(), "--deny", DENY) as proxy,
    ):
        before = set(children_of(proxy.process.pid))
        for path in ("/sse", "/mcp", "/healthz", "/messages"):
            assert ask(proxy, IMAGE, "GET", path) == 403
            assert ask(proxy, {**IMAGE, "Sec-Fetch-Site": "same-site"}, "GET", path) == 403
            assert ask(proxy, {"Sec-Fetch-Site": "cross-site"}, "GET", path) == 403  # whatever it accepts
        # Older browsers do not say whose the page is; then what they accept tells.
        for accept in (IMAGE["Accept"], "*/*", "text/*", "text/html,*/*;q=0.8", ""):
            assert ask(proxy, {"Accept": accept}, "GET", "/sse") == 406
        assert set(children_of(proxy.process.pid)) <= before
        # A client asks by name, and gets its stream and its process.
        door = LegacyDoor(proxy.port, "legacy")
        stream = door.http("GET", "/sse", {"Accept": "text/event-stream;q=1, */*"})
        door.until(lambda: stream.events)
        assert stream.status == 200
        assert wait_until(lambda: set(children_of(proxy.process.pid)) - before)
        door.close()


def answer(request: Request, line: Line) -> None:
    if request.method == "GET":
        line.reply(200, b"<script>1</script>", "Content-Type: text/html", "Set-Cookie: mine=1")
    elif request.rpc == "initialize":
        result = b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}'
        line.json(request.result(result), "Set-Cookie: mine=1")
    elif "id" not in request.message:
        line.accepted()
    elif request.rpc == "tools/list":
        line.json(request.result(b'{"tools":[]}'))
    else:
        line.reply(400, b"<b>what?</b>", "X-Own: 1")


NAVIGATION = {"Accept": "text/html,*/*;q=0.8", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.mark.parametrize("passes", [False, True])
def test_a_link_to_us_brings_no_cookies_and_shows_no_page(tmp_path: Path, passes: bool):
    file = tmp_path / "penstock.json"
    with ScriptedHttp(answer) as upstream:
        file.write_text(json.dumps({"upstream": {"url": upstream.url, "cookies": passes}}))
        with Proxy(tmp_path, ["--config", str(file)]) as proxy:
            for path in ("/.well-known/x", "/mcp"):
                asked = len(upstream.requests)
                linked = {**NAVIGATION, "Sec-Fetch-Site": "cross-site", "Cookie": "other=secret"}
                assert ask(proxy, linked, "GET", path) == 403
                assert len(upstream.requests) == asked
                # Typed into the address bar it is answered, as nothing that a browser would run.
                typed = {**NAVIGATION, "Sec-Fetch-Site": "none", "Cookie": "other=secret"}
                response = LegacyDoor(proxy.port, "legacy").whole("GET", path, typed)
                assert response.status == 200
                assert response.headers["x-content-type-options"] == "nosniff"
                assert response.headers["content-security-policy"].startswith("sandbox")
                assert ("set-cookie" in response.headers) is passes
                assert (upstream.requests[-1].header("cookie") is not None) is passes
            response = LegacyDoor(proxy.port, "legacy").whole(
                "POST", "/mcp", {**HEADERS, "Cookie": "other=secret"}, HELLO
            )
            assert ("set-cookie" in response.headers) is passes
            assert "content-security-policy" not in response.headers  # a message is no page
            response = LegacyDoor(proxy.port, "legacy").whole(
                "POST", "/mcp", HEADERS, b'{"jsonrpc":"2.0","id":2,"method":"x"}'
            )
            assert (response.status, response.headers["x-own"]) == (400, "1")
            assert response.headers["content-security-policy"].startswith("sandbox")
