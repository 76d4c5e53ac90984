"""OAuth through --listen: the metadata that a client reads names us, and keeps the authorization servers."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from doors import LegacyDoor
from pairs import Proxy
from penstock.downstream.oauth_metadata import own_challenge, own_resource
from penstock.wire.http.url import parse_url

POST = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
PATH = "/.well-known/oauth-protected-resource/mcp"
INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}'


@pytest.fixture
def upstream() -> Iterator[str]:
    """A server that wants a token, and says at /.well-known where one is to be had."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            host = self.headers["Host"]
            if self.path == "/.well-known/oauth-protected-resource/api/mcp":
                status, more = 200, {"Content-Type": "application/json"}
                body = json.dumps(
                    {"resource": f"http://{host}/api/mcp", "authorization_servers": ["https://as.example/"]}
                )
            else:
                where = f"http://{host}/.well-known/oauth-protected-resource/api/mcp"
                status, body = 401, "{}"
                more = {"WWW-Authenticate": f'Bearer error="invalid_token", resource_metadata="{where}"'}
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        do_GET = do_POST = do_DELETE = answer

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/api/mcp"
    server.shutdown()
    server.server_close()


def test_a_client_finds_metadata_that_names_the_address_it_talks_to(upstream: str, tmp_path: Path) -> None:
    with Proxy(tmp_path, ["--upstream", upstream]) as proxy:
        ours = f"http://127.0.0.1:{proxy.port}"
        door = LegacyDoor(proxy.port, "legacy")
        refused = door.whole("POST", "/mcp", POST, INITIALIZE)
        assert refused.status == 401
        challenge = refused.headers["www-authenticate"]
        assert challenge == (f'Bearer error="invalid_token", resource_metadata="{ours}{PATH}"')
        found = door.whole("GET", PATH)
        assert found.status == 200
        assert json.loads(found.body) == {
            "resource": f"{ours}/mcp",
            "authorization_servers": ["https://as.example/"],
        }


def test_everything_but_the_resource_stays_as_it_was_written() -> None:
    body = b'{ "resource" : "http://up/mcp",\n "authorization_servers":["https://as\\u002f"], "x": 1.0}'
    wanted = b'{ "resource" : "http://us/mcp",\n "authorization_servers":["https://as\\u002f"], "x": 1.0}'
    assert own_resource(body, b"http://us") == wanted


@pytest.mark.parametrize("body", [b"", b"words", b"[]", b'{"resource":"x"}', b'{"resource":1,"resource":2}'])
def test_what_is_no_such_metadata_stays_as_it_is(body: bytes) -> None:
    assert own_resource(body, b"http://us") == body


def test_metadata_of_somebody_else_is_not_ours_to_relay() -> None:
    url = parse_url("http://up/mcp")
    for value in (
        b'Bearer resource_metadata="http://other/.well-known/oauth-protected-resource"',
        b'Bearer realm="x"',
    ):
        headers = [(b"WWW-Authenticate", value), (b"X", b"y")]
        assert own_challenge(headers, b"http://us", url) == headers


def test_behind_a_proxy_that_ends_tls_the_public_address_is_named(upstream: str, tmp_path: Path) -> None:
    file = tmp_path / "penstock.json"
    file.write_text(json.dumps({"public_url": "https://gate.example"}))
    with Proxy(tmp_path, ["--config", str(file), "--upstream", upstream]) as proxy:
        door = LegacyDoor(proxy.port, "legacy")
        refused = door.whole("POST", "/mcp", POST, INITIALIZE)
        assert refused.status == 401
        assert f'resource_metadata="https://gate.example{PATH}"' in refused.headers["www-authenticate"]
        found = json.loads(door.whole("GET", PATH).body)
        assert found["resource"] == "https://gate.example/mcp"
        assert found["authorization_servers"] == ["https://as.example/"]
