"""Upstreams at URLs among several: an AI client's own file, sessions that are forgotten, credentials."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pairs import said
from several import ROOT, Several, names, over_http, says, wait_until

EVERY = ROOT / "tests" / "upstreams" / "every_transport.py"


class HttpMember:
    """A small Streamable HTTP server of the older era, whose sessions can be forgotten."""

    def __init__(self, name: str, token: str | None = None) -> None:
        self.sessions: set[str] = set()
        self.calls: list[str] = []
        self.heads: list[dict[str, str]] = []
        member = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *words: Any) -> None:
                """Says nothing."""

            def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
                self.send_response(status)
                for key, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(key.replace("_", "-"), value)
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self) -> None:
                self.answer(405)

            def do_DELETE(self) -> None:
                self.answer(200)

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                message = json.loads(raw)
                member.heads.append({key.lower(): value for key, value in self.headers.items()})
                if token is not None and self.headers.get("Authorization") != f"Bearer {token}":
                    self.answer(401, WWW_Authenticate="Bearer")
                    return
                session = self.headers.get("Mcp-Session-Id")
                method = message.get("method")
                if method != "initialize" and session not in member.sessions:
                    self.answer(404)
                    return
                if "id" not in message:
                    self.answer(202)
                    return
                more: dict[str, str] = {}
                result: Any = {}
                if method == "initialize":
                    more["Mcp_Session_Id"] = uuid.uuid4().hex
                    member.sessions.add(more["Mcp_Session_Id"])
                    info = {"name": name, "version": "1"}
                    version = message["params"]["protocolVersion"]
                    result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
                elif method == "tools/list":
                    result = {"tools": [{"name": "remote", "inputSchema": {"type": "object"}}]}
                elif method == "tools/call":
                    member.calls.append(message["params"]["name"])
                    result = {"content": [{"type": "text", "text": f"{name}:remote"}]}
                body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
                self.answer(200, body, Content_Type="application/json", **more)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/mcp"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def member() -> Iterator[HttpMember]:
    found = HttpMember("far")
    yield found
    found.stop()


@contextmanager
def every(work: Path, transport: str) -> Iterator[str]:
    errors = work / f"{transport}-errors"
    with errors.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-S", str(EVERY), "--transport", transport],
            stdin=subprocess.DEVNULL,
            stderr=file,
        )
    try:
        yield said(errors, rb"(http://\S+)", process)
    finally:
        process.kill()
        process.wait()


def test_01_an_ai_clients_own_file_with_commands_a_url_and_sse(tmp_path: Path) -> None:
    with every(tmp_path, "streamable") as streamable, every(tmp_path, "sse") as sse:
        several = Several(tmp_path).add("near", {"type": "stdio", "autoApprove": ["echo"]}, tools=["near"])
        several.add("other", tools=["echo"])
        several.add_entry("http", {"type": "http", "url": streamable})
        several.add_entry("sse", {"type": "sse", "url": sse})
        several.path = tmp_path / ".mcp.json"
        with several.stdio() as client:
            listed = client.ask("tools/list")
            found = [tool["name"] for tool in listed["result"]["tools"]]
            expected = ["near", "echo", "http__echo", "write_file", "read_file", "delete_file"]
            expected += ["sse__echo", "sse__write_file", "sse__read_file", "sse__delete_file"]
            assert found == expected
            raw = next(one.raw for one in client.heard if b'"tools"' in one.raw and b"sse__echo" in one.raw)
            for name in (b"http__echo", b"sse__echo"):  # its upstream's own bytes, but for the name
                assert b'{ "name" : "%b" , "title":"Echo", "description": "say \\u65e5' % name in raw
            assert b"[1.0, 1e400, 12345678901234567890123456789012345678901]" in raw
            for name in found[2:]:
                assert client.call(name)["result"]["called"] == name.rpartition("__")[2]
            assert says(client.call("near")) == "near:near"


def test_21_a_forgotten_session_is_begun_again_and_the_call_runs_once(
    tmp_path: Path, member: HttpMember
) -> None:
    several = Several(tmp_path).add("near").add_entry("far", {"url": member.url})
    with several.stdio() as client:
        assert says(client.call("remote")) == "far:remote"
        member.sessions.clear()
        assert says(client.call("remote")) == "far:remote"
        assert says(client.call("echo")) == "near:echo"
    assert member.calls == ["remote", "remote"]


@pytest.mark.parametrize("door", ["stdio", "http"])
def test_19_who_wants_credentials_is_told_so_and_empties_nobody_else(tmp_path: Path, door: str) -> None:
    closed = HttpMember("closed", "right")
    try:
        several = Several(tmp_path).add("near").add_entry("closed", {"url": closed.url})
        if door == "stdio":
            with several.stdio() as client:
                assert names(client) == ["echo"]
                assert says(client.call("echo")) == "near:echo"
        else:
            with several.listening() as port, over_http(port, more={"Authorization": "Bearer right"}) as http:
                assert names(http) == ["echo"]
                status = wait_until(lambda: http.whole("GET", "/status").body.decode())
                assert "closed needs-auth" in status
        assert not any("authorization" in head for head in closed.heads)  # a client's is not for upstreams
    finally:
        closed.stop()


def test_31_headers_in_the_file_are_sent_to_their_upstream_alone(tmp_path: Path, member: HttpMember) -> None:
    closed = HttpMember("closed", "right")
    try:
        several = Several(tmp_path).add_entry("far", {"url": member.url})
        several.add_entry("closed", {"url": closed.url, "headers": {"Authorization": "Bearer right"}})
        with several.listening() as port, over_http(port) as http:
            assert names(http) == ["remote", "closed__remote"]
            assert says(http.call("closed__remote")) == "closed:remote"
            assert says(http.call("remote")) == "far:remote"
        assert not any("authorization" in head for head in member.heads)
    finally:
        closed.stop()
