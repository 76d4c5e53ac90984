"""Wrapping a server at a URL: secrets stay out of the list of processes, logins stay with the client."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gate import Gate
from home_folder import Home, sha

VALUE = "Bearer of-good-news-2026"


class Keeper(BaseHTTPRequestHandler):
    """A Streamable HTTP server of two tools that lets in who knows the secret."""

    protocol_version = "HTTP/1.1"
    seen: list[str | None] = []  # noqa: RUF012

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen.append(self.headers.get("X-Api-Key"))
        if self.headers.get("X-Api-Key") != VALUE:
            self._answer(401, b"")
            return
        method, results = (
            message.get("method"),
            {
                "initialize": {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "keeper", "version": "1"},
                },
                "tools/list": {
                    "tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("look", "burn")]
                },
                "tools/call": {"content": [{"type": "text", "text": "done"}]},
            },
        )
        if "id" not in message:
            self._answer(202, b"")
            return
        body = {"jsonrpc": "2.0", "id": message["id"], "result": results.get(method, {})}
        self._answer(200, json.dumps(body).encode())

    def do_GET(self) -> None:
        self._answer(405, b"")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Keeper)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/mcp"
    server.shutdown()
    server.server_close()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def _talk(tmp_path: Path, command: list[str], env: dict[str, str]) -> tuple[list[str], Any, str]:
    with Gate(tmp_path, direct=True, command=command, env=env) as gate:
        gate.handshake()
        listed = subprocess.run(
            ["ps", "-ww", "-o", "args=", "-p", str(gate.process.pid)],
            capture_output=True,
            text=True,
            check=True,
        )
        names = [tool["name"] for tool in gate.ask("tools/list")["result"]["tools"]]
        called = gate.ask("tools/call", b'{"name":"look","arguments":{}}')
        gate.end()
        return names, called, listed.stdout


def test_a_header_moves_into_a_variable_and_the_call_works(home: Home, url: str, tmp_path: Path) -> None:
    text = json.dumps(
        {"mcpServers": {"k": {"type": "http", "url": url, "headers": {"X-Api-Key": VALUE}}}}, indent=2
    )
    path = home.write("project", ".mcp.json", text)
    before = sha(path)
    done = home.run("wrap", "k", "--client", "claude-code", "--deny", "burn", "--yes", "--absolute")
    assert done.returncode == 0, done.stderr
    assert VALUE not in done.stdout + done.stderr
    entry = json.loads(path.read_text())["mcpServers"]["k"]
    assert entry["type"] == "stdio"
    assert entry["args"] == [
        "--deny",
        "burn",
        "--header-from",
        "X-Api-Key=PENSTOCK_HEADER_X_API_KEY",
        "--upstream",
        url,
    ]
    assert entry["env"] == {"PENSTOCK_HEADER_X_API_KEY": VALUE}
    names, called, listed = _talk(tmp_path, [entry["command"], *entry["args"]], entry["env"])
    assert names == ["look"]
    assert called["result"]["content"][0]["text"] == "done"
    assert "--header-from" in listed
    assert VALUE not in listed
    assert home.run("unwrap", "--undo").returncode == 0
    assert sha(path) == before


def test_unwrapping_a_url_without_a_backup_brings_it_back(home: Home, url: str) -> None:
    entry = {"url": url, "headers": {"X-Api-Key": VALUE}, "note": 1}
    home.write("project", ".cursor/mcp.json", json.dumps({"mcpServers": {"k": entry}}))
    assert home.run("wrap", "k", "--client", "cursor", "--deny", "burn", "--yes").returncode == 0
    assert home.run("wrap", "k", "--client", "cursor", "--allow", "look", "--yes").returncode == 0
    assert home.run("unwrap", "k", "--client", "cursor", "--yes").returncode == 0
    assert json.loads((home.project / ".cursor/mcp.json").read_text())["mcpServers"]["k"] == entry


def test_a_server_that_wants_a_login_is_refused(home: Home, url: str) -> None:
    text = json.dumps({"mcpServers": {"k": {"type": "http", "url": url}}})
    path = home.write("project", ".mcp.json", text)
    done = home.run("wrap", "k", "--client", "claude-code", "--deny", "burn", "--yes")
    assert done.returncode == 1
    assert "only its client can log in" in done.stderr
    assert "--listen" in done.stderr
    assert path.read_text() == text


def test_toml_goose_and_opencode_urls(home: Home, url: str) -> None:
    codex = home.write(
        "user",
        ".codex/config.toml",
        f'[mcp_servers.k]\nurl = "{url}"  # mine\n\n'
        f'[mcp_servers.k.http_headers]\nX-Api-Key = "{VALUE}" # s\n',
    )
    goose = home.write(
        "user",
        ".config/goose/config.yaml",
        f"extensions:\n  k:\n    type: streamable_http\n    uri: {url}\n"
        f"    headers:\n      X-Api-Key: {VALUE}\n",
    )
    opencode = home.write(
        "user",
        ".config/opencode/opencode.json",
        json.dumps({"mcp": {"k": {"type": "remote", "url": url, "headers": {"X-Api-Key": VALUE}}}}),
    )
    before = [sha(path) for path in (codex, goose, opencode)]
    done = home.run("wrap", "k", "--deny", "burn", "--yes", "--bare")
    assert done.returncode == 0, done.stderr
    words = ["--deny", "burn", "--header-from", "X-Api-Key=PENSTOCK_HEADER_X_API_KEY", "--upstream", url]
    env = {"PENSTOCK_HEADER_X_API_KEY": VALUE}
    entry = tomllib.loads(codex.read_text())["mcp_servers"]["k"]
    assert entry == {"command": "penstock", "args": words, "env": env}
    assert "# mine" in codex.read_text()
    import yaml

    assert yaml.safe_load(goose.read_text())["extensions"]["k"] == {
        "type": "stdio",
        "cmd": "penstock",
        "args": words,
        "envs": env,
    }
    found = json.loads(opencode.read_text())["mcp"]["k"]
    assert found == {"type": "local", "command": ["penstock", *words], "environment": env}
    for record in reversed([line.split()[-1] for line in done.stderr.splitlines() if "--undo" in line]):
        assert home.run("unwrap", "--undo", record).returncode == 0
    assert [sha(path) for path in (codex, goose, opencode)] == before


@pytest.mark.parametrize("pair", ["X", "=V", "X=", "X=a b", "X=${Y}", "Host=HOME"])
def test_a_header_from_nowhere_is_an_error(home: Home, pair: str) -> None:
    done = home.run("tools", "--header-from", pair, "--upstream", "http://127.0.0.1:1/mcp")
    assert done.returncode == 1
    assert "--header-from" in done.stderr


def test_a_variable_that_is_not_set_is_named(home: Home) -> None:
    done = home.run("tools", "--header-from", "X=NOBODY_SETS_THIS", "--upstream", "http://127.0.0.1:1/mcp")
    assert done.returncode == 1
    assert "NOBODY_SETS_THIS is not set" in done.stderr
    plain = home.run("tools", "--header-from", "X=HOME", "--", sys.executable)
    assert plain.returncode == 2
