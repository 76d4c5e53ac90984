"""The last line on stderr names the cause, and what to do about it."""

from __future__ import annotations

import http.server
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gate import Gate

Serve = Callable[..., str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts an HTTP server that gives one answer to everything; gives its URL."""
    servers: list[http.server.HTTPServer] = []

    def start(status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.send_response(status)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, *_: Any) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}/mcp"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock", *words], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("status", "headers", "body", "wanted"),
    [
        (
            401,
            {},
            b"",
            'It answered HTTP 401: it wants credentials; --header "Authorization: ..." can give them',
        ),
        (403, {}, b"", "HTTP 403; it does not take these credentials, or wants some: see --header"),
        (500, {}, b"out of cheese", "It answered HTTP 500: out of cheese; its own log says why"),
        (302, {"Location": "/login"}, b"", "HTTP 302 and points to /login; that is not followed"),
        (429, {"Retry-After": "7"}, b"", "HTTP 429; it wants to be asked after 7 s"),
        (503, {}, b"", "HTTP 503; it wants to be asked later"),
        (404, {}, b"", "No MCP server there: HTTP 404 to POST, HTTP 404 to GET"),
    ],
    ids=["401", "403", "500", "302", "429", "503", "404"],
)
def test_an_http_status_is_the_cause_and_not_a_method_nobody_asked_for(
    status: int, headers: dict[str, str], body: bytes, wanted: str, serve: Serve
) -> None:
    shown = run("tools", "--upstream", serve(status, headers, body))
    assert shown.returncode == 1
    assert wanted in shown.stderr.strip().splitlines()[-1]
    assert "server/discover" not in shown.stderr


def test_something_that_echoes_is_called_no_mcp_server() -> None:
    shown = run("tools", "--", "cat")
    assert shown.returncode == 1
    assert shown.stderr.strip().endswith("It sends back what it is sent, so it is no MCP server")


@pytest.mark.parametrize(
    "verb", [["tools"], ["--listen", "0"], ["--stdio"]], ids=["tools", "listen", "stdio"]
)
def test_a_command_that_exits_at_once_is_named_with_its_status_and_its_last_words(verb: list[str]) -> None:
    words = "npm error 404 Not Found - no-such-server"
    script = f"import sys; print({words!r}, file=sys.stderr); sys.exit(7)"
    command = [sys.executable, "-m", "penstock", *verb, "--", sys.executable, "-S", "-c", script]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        assert process.wait(60) == 1
    assert f"Error: Failed to connect to upstream MCP at {sys.executable} -S -c" in said
    last = f"It exited with status 7 before it answered; its last words: {words}"
    assert said.strip().splitlines()[-1].endswith(last), said
    assert words in said.splitlines()  # as it said it


def test_a_command_that_is_lost_is_named_with_its_status(tmp_path: Any) -> None:
    with Gate(tmp_path) as gate:
        gate.handshake()
        gate.say(b'{"jsonrpc":"2.0","id":5,"method":"x/die","params":{"status":9}}')
        error = gate.answer(b"5")
        assert gate.process.wait(60) == 1
        assert b'"data":{"code":"REFUSED"}' in error
        assert "Error: Lost connection to upstream MCP\nShutting down proxy\n" in gate.stderr
        last = gate.stderr.strip().splitlines()[-1]
        assert sys.executable[:30] in last  # the rest of the command may be cut, where a path is long
        assert last.endswith("exited with status 9")


def test_connect_errors_keep_the_path_and_not_the_query() -> None:
    shown = run("tools", "--upstream", "http://127.0.0.1:9/some/mcp?key=secret")
    assert "Error: Failed to connect to upstream MCP at http://127.0.0.1:9/some/mcp\n" in shown.stderr
    assert "secret" not in shown.stderr
