"""HTTP upstreams that refuse, break, lie or vanish: who is told, and what."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from scripted_http import Line, Request, ScriptedHttp
from test_streamable_upstream import RESULT, echo, legacy

from doors import LegacyDoor
from gate import wait_until
from http_gate import INITIALIZE, META, Gate, call
from pairs import Proxy, Upstream

BIG = 11 * 1024 * 1024
HALF_A_HEAD = b"HTTP/1.1 200"  # it has begun to answer, so what ends the connection is more than bad timing


def answers(status: int, body: bytes, *headers: str):
    """A script that answers request 2 like this and every other one well."""

    def then(request: Request, line: Line) -> None:
        if request.message["id"] == 2:
            line.reply(status, body, *headers)
        else:
            line.json(request.result())

    return legacy(then)


@pytest.mark.parametrize(
    ("status", "content_type", "body"),
    [
        (400, "text/plain", b"no"),
        (401, "text/plain", b"who are you"),
        (403, "application/json", b'{"error":"forbidden"}'),
        (413, "text/html", b"<html>big</html>"),
        (429, "text/plain", b"slow down"),
        (500, "application/json", b"not json"),
        (502, "text/html", b"<html>" + b"x" * 100_000),
        (503, "text/event-stream", b"data: {}\n\n"),
        (200, "text/html", b"<html>hello</html>"),
        (204, "text/plain", b""),
        (202, "text/plain", b""),
        (200, "application/json", b"{not json"),
        (200, "application/json", b'{"jsonrpc":"2.0","id":99,"result":{}}'),
        (200, "application/json", b'{"jsonrpc":"2.0","method":"notifications/x"}'),
    ],
)
def test_a_bad_answer_is_an_error_for_its_own_request_and_nobody_else(
    status: int, content_type: str, body: bytes
):
    script = answers(status, body, f"Content-Type: {content_type}")
    with ScriptedHttp(script) as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        gate.send(call(b"2"))
        reply = gate.read_json()
        if "method" in reply:
            reply = gate.read_json()
        assert reply["id"] == 2
        assert reply["error"]["code"] == -32603
        if status >= 400:
            assert reply["error"]["message"] == f"Upstream MCP answered HTTP {status}"
            assert reply["error"]["data"] == {"code": "INVALID_RESPONSE", "status": status}
        assert b'"result"' in gate.ask(call(b"3"))
        assert gate.leave() == 0
    assert ("--header" in gate.stderr) == (status in (401, 403))


@pytest.mark.parametrize("status", [400, 404, 500])
def test_a_json_rpc_error_passes_whatever_the_status(status: int):
    error = b'{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"\\u006eo","data":1.0}}'
    script = answers(status, error, "Content-Type: application/json; charset=utf-8")
    with ScriptedHttp(script) as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        assert gate.ask(call(b"2")) == error


@pytest.mark.parametrize("id_member", [b'"id":null,', b""])
@pytest.mark.parametrize("status", [200, 400])
def test_an_error_that_names_nobody_is_given_to_the_request_that_got_it(status: int, id_member: bytes):
    error = b'{"jsonrpc":"2.0",%b"error":{"code":-32600, "message":"Bad"}}' % id_member
    script = answers(status, error, "Content-Type: application/json")
    with ScriptedHttp(script) as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        assert gate.ask(call(b"2")) == b'{"jsonrpc":"2.0","id":2,"error":{"code":-32600, "message":"Bad"}}'


def test_a_redirect_is_not_followed_and_takes_no_credentials_along():
    with ScriptedHttp(echo) as elsewhere:
        script = answers(307, b"", f"Location: {elsewhere.url}")
        with (
            ScriptedHttp(script) as upstream,
            Gate("--upstream", upstream.url, "--header", "Authorization: Bearer secret") as gate,
        ):
            gate.shake_hands()
            assert json.loads(gate.ask(call(b"2")))["error"]["message"] == "Upstream MCP answered HTTP 307"
            assert b'"result"' in gate.ask(call(b"3"))
        assert elsewhere.connections == 0
    assert "secret" not in gate.stderr


def test_a_compressed_answer_is_refused():
    script = answers(200, b"\x1f\x8b", "Content-Type: application/json", "Content-Encoding: gzip")
    with ScriptedHttp(script) as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        assert json.loads(gate.ask(call(b"2")))["error"]["code"] == -32603
        assert b'"result"' in gate.ask(call(b"3"))
        gate.leave()
    assert "compressed" in gate.stderr


@pytest.mark.parametrize("is_sse", [False, True])
@pytest.mark.parametrize("order", ["id first", "id last"])
def test_an_answer_over_the_limit_is_refused_under_its_id_and_never_kept_whole(is_sse: bool, order: str):
    def then(request: Request, line: Line) -> None:
        if request.message["id"] != 2:
            line.json(request.result())
            return
        filling = b'"result":"%b"' % (b"x" * BIG)
        if order == "id first":
            body = b'{"jsonrpc":"2.0","id":2,' + filling + b"}"
        else:
            body = b"{" + filling + b',"jsonrpc":"2.0","id":2}'
        if is_sse:
            line.events(b"data: " + body + b"\n\n")
        else:
            line.json(body)

    with ScriptedHttp(legacy(then)) as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        reply = json.loads(gate.ask(call(b"2")))
        assert (reply["id"], reply["error"]["code"]) == (2, -32603)
        assert b'"result"' in gate.ask(call(b"3"))


def test_an_answer_just_below_the_limit_passes():
    filling = b"x" * (10 * 1024 * 1024 - 100)

    def then(request: Request, line: Line) -> None:
        body = request.result(b'"' + filling + b'"')
        if request.message["id"] == 2:
            line.events(b"data: " + body + b"\n\n")
        else:
            line.json(body)

    with ScriptedHttp(legacy(then)) as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        for token in (b"2", b"3"):
            expected = b'{"jsonrpc":"2.0","id":%b,"result":"%b"}' % (token, filling)
            assert gate.ask(call(token), 30) == expected


# --- loss ------------------------------------------------------------------------------------------------


def assert_lost(gate: Gate) -> None:
    assert gate.wait() == 1
    assert "Error: Lost connection to upstream MCP\nShutting down proxy\n" in gate.stderr
    assert "Traceback" not in gate.stderr


def breaks(how: str):
    def then(request: Request, line: Line) -> None:
        if request.message["id"] == 3:
            threading.Event().wait(20)  # never answered by itself
        elif how == "reset":
            line.send(HALF_A_HEAD)
            line.reset()
        elif how == "hang up":
            line.send(HALF_A_HEAD)
            line.hang_up()
        elif how == "in json":
            line.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{")
            line.reset()
        elif how == "in events":
            line.events(b'data: {"jsonrpc":"2.0","id":2,', is_open=True)
            line.reset()
        elif how == "session":
            line.json(
                b'{"jsonrpc":"2.0","id":2,"error":{"code":-32600,"message":"Session not found"}}', status=404
            )

    return legacy(then)


@pytest.mark.parametrize("how", ["reset", "hang up", "in json", "in events", "session"])
def test_a_lost_upstream_ends_everything_at_once_and_everybody_who_waits_hears_it(how: str):
    with ScriptedHttp(breaks(how)) as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        gate.send(call(b"3"))
        upstream.wait(lambda: upstream.posted("tools/call"))
        gate.send(call(b"2"))
        replies = [gate.read_json(), gate.read_json()]
        assert sorted(reply["id"] for reply in replies) == [2, 3]
        assert {reply["error"]["message"] for reply in replies} == {"Lost connection to upstream MCP"}
        assert_lost(gate)


def test_an_idle_client_learns_from_the_stream_that_the_upstream_is_gone():
    def script(request: Request, line: Line) -> None:
        if request.method == "GET":
            line.events(b": here\nretry: 10\n\n", is_open=True)
            time.sleep(20)
        else:
            legacy(echo)(request, line)

    with ScriptedHttp(script) as upstream, Gate("--upstream", upstream.url) as gate:
        gate.shake_hands()
        upstream.wait(lambda: upstream.asked("GET"))
        time.sleep(0.2)
        upstream.stop()
        assert_lost(gate)


def test_a_listen_stream_that_breaks_is_an_error_for_the_listener_alone():
    def script(request: Request, line: Line) -> None:
        if request.rpc == "subscriptions/listen":
            line.events(b": silence\n\n", is_open=True)
            line.reset()
        else:
            line.json(request.result())

    with ScriptedHttp(script) as upstream, Gate("--upstream", upstream.url) as gate:
        listen = b'{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":%b}}' % META
        assert json.loads(gate.ask(listen))["error"]["code"] == -32603
        assert b'"result"' in gate.ask(call(b"2", meta=META))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
def test_an_upstream_that_is_not_there_is_named_at_once(path: str):
    url = f"http://127.0.0.1:{free_port()}"
    started = time.monotonic()
    with Gate("--upstream", url + path) as gate:
        assert gate.wait() == 1
        text = f"Error: Failed to connect to upstream MCP at {url}{path}\nConnection refused\n"
        assert f"\n{text}" in gate.stderr
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
def test_an_upstream_that_takes_the_connection_and_says_nothing_times_out(path: str):
    def script(request: Request, line: Line) -> None:
        time.sleep(20)

    with (
        ScriptedHttp(script, path) as upstream,
        Gate("--upstream", upstream.url, "--connect-timeout", "400ms") as gate,
    ):
        reply = json.loads(gate.ask(INITIALIZE))
        assert reply["error"]["message"] == "Failed to connect to upstream MCP"
        assert gate.wait() == 1
        assert "Connection timeout after 400ms" in gate.stderr


def test_something_that_does_not_speak_http_is_named():
    def script(request: Request, line: Line) -> None:
        line.send(b"SSH-2.0-OpenSSH\r\n")
        time.sleep(5)

    with ScriptedHttp(script) as upstream, Gate("--upstream", upstream.url) as gate:
        gate.send(INITIALIZE)
        assert gate.wait() == 1
        assert "Failed to connect to upstream MCP" in gate.stderr
        assert "Not an HTTP response" in gate.stderr


def test_tools_of_an_upstream_that_is_not_there_is_a_connect_failure():
    url = f"http://127.0.0.1:{free_port()}/mcp"
    with Gate("tools", "--upstream", url) as gate:
        assert gate.wait() == 1
        assert "Failed to connect to upstream MCP" in gate.stderr


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Key and certificate of a server at 127.0.0.1, in one file."""
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    options = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test -addext subjectAltName=IP:127.0.0.1"
    command = ["openssl", *options.split(), "-keyout", str(path), "-out", str(path.with_suffix(".crt"))]
    subprocess.run(command, check=True, capture_output=True)
    path.write_text(path.read_text() + path.with_suffix(".crt").read_text())
    return path


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
@pytest.mark.parametrize("is_trusted", [True, False])
def test_https_works_with_certificates_that_the_system_trusts_and_no_others(
    certificate: Path, is_trusted: bool
):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    env = {"SSL_CERT_FILE": str(certificate.with_suffix(".crt"))} if is_trusted else {}
    with ScriptedHttp(legacy(echo), tls=tls) as upstream, Gate("--upstream", upstream.url, env=env) as gate:
        if is_trusted:
            gate.shake_hands()
            assert b'"result"' in gate.ask(call(b"2"))
            assert gate.leave() == 0
        else:
            assert gate.wait() == 1
            assert "TLS certificate not accepted" in gate.stderr
            assert not upstream.requests


# --- reconnect -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["reset", "session"])
def test_with_reconnect_a_lost_session_is_begun_again_with_the_same_words(how: str):
    sessions: list[str] = []

    def script(request: Request, line: Line) -> None:
        if request.method == "GET":
            line.reply(405)
        elif request.rpc == "initialize":
            sessions.append(f"s-{len(sessions)}")
            line.json(request.result(RESULT), f"Mcp-Session-Id: {sessions[-1]}")
        elif "id" not in request.message:
            line.accepted()
        elif request.message["id"] == 2 and request.header("Mcp-Session-Id") == "s-0":
            if how == "reset":
                line.send(HALF_A_HEAD)
                line.reset()
            else:
                line.reply(404, b"Session not found")
        else:
            line.json(request.result())

    with (
        ScriptedHttp(script) as upstream,
        Gate("--upstream", upstream.url, "--on-upstream-loss", "reconnect") as gate,
    ):
        gate.shake_hands()
        reply = json.loads(gate.ask(call(b"2")))
        # What may have been acted on is not sent again; what certainly was not, is.
        assert ("error" in reply) == (how == "reset")
        assert b'"result"' in gate.ask(call(b"3"))
        assert gate.leave() == 0
    first, again = upstream.posted("initialize")
    assert again.message["params"] == first.message["params"]
    assert again.message["id"] != first.message["id"]
    assert len(upstream.posted("notifications/initialized")) == 2
    assert upstream.posted("tools/call")[-1].header("Mcp-Session-Id") == "s-1"


def test_with_reconnect_a_client_does_not_notice_that_the_upstream_was_restarted():
    port = free_port()
    first = ScriptedHttp(legacy(echo), port=port)
    with Gate("--upstream", first.url, "--on-upstream-loss", "reconnect") as gate:
        gate.shake_hands()
        assert b'"result"' in gate.ask(call(b"2"))
        first.stop()
        assert b'"error"' in gate.ask(call(b"3"))
        gate.send(call(b"4"))
        time.sleep(1)
        with ScriptedHttp(legacy(echo), port=port) as second:
            assert gate.read_json(20)["id"] == 4
            assert [one.rpc for one in second.posted()][:3] == [
                "initialize",
                "notifications/initialized",
                "tools/call",
            ]


@pytest.mark.parametrize("upstream", ["streamable", "sse"])
@pytest.mark.parametrize("kind", ["streamable", "sse"])
def test_with_reconnect_a_listener_outlives_its_upstream(kind: str, upstream: str, tmp_path: Path):
    with Upstream(upstream, tmp_path) as there:
        port = urlsplit(there.url).port
        assert port is not None
        options = ("--on-upstream-loss", "reconnect", "--deny", "^write")
        with Proxy(tmp_path, there.words(), *options) as proxy:
            door = proxy.connect(kind, "legacy")
            door.begin()
            assert door.is_alive()
            door.begin_order("hold", b"7", mark="m")
            assert wait_until(lambda: any(b"x/hold" in line for line in there.reached()))
            there.stop()
            assert b'"error"' in door.answer(b"7")
            there.start(port)
            another = proxy.connect(kind, "legacy")
            another.begin()
            assert another.is_alive()
            door.close()
            another.close()
            assert proxy.end() == 0


# --- bounded ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["GET", "tools/call"])
def test_a_client_that_does_not_read_slows_the_upstream_down_and_memory_stays_bounded(where: str):
    sent = 0
    note = b'data: {"jsonrpc":"2.0","method":"notifications/n","params":{"x":"%b"}}\n\n' % (b"x" * 60_000)

    def script(request: Request, line: Line) -> None:
        nonlocal sent
        if where not in (request.method, request.rpc):
            legacy(echo)(request, line)
            return
        line.events(is_open=True)
        while sent < 200_000_000:
            line.chunk(note)
            sent += len(note)

    with ScriptedHttp(script) as upstream, Gate("--upstream", upstream.url, is_read=False) as gate:
        gate.send(INITIALIZE, b'{"jsonrpc":"2.0","method":"notifications/initialized"}', call(b"2"))
        before = -1
        while sent != before or not sent:  # until the upstream can send no more
            before = sent
            time.sleep(0.5)
        assert sent < 40_000_000
        with open(f"/proc/{gate.process.pid}/statm") as statm:
            assert int(statm.read().split()[1]) * 4096 < 60_000_000
        # And it goes on as soon as somebody reads.
        assert gate.process.stdout is not None
        read, stuck = 0, sent
        while read < stuck + 10_000_000:
            read += len(gate.process.stdout.readline())


@pytest.mark.parametrize("how", ["silence", "endless events", "events that go on after the list"])
def test_a_list_for_one_clients_credentials_must_come_in_time_too(tmp_path: Path, how: str):
    """The upstream wants credentials at the start, so each client's own list is fetched when it asks."""
    ended = threading.Event()

    def answer(request: Request, line: Line) -> None:
        if request.header("Authorization") is None:
            line.reply(401, b"who are you?", "Content-Type: text/plain")
        elif request.rpc != "tools/list":
            line.json(request.result())
        elif how != "silence":
            line.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
            if how == "events that go on after the list":
                tools = b'{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}'
                line.send(b"data: %b\n\n" % request.result(tools))
            try:
                while not ended.wait(0.05):
                    line.send(b'data: {"jsonrpc":"2.0","method":"n"}\n\n')
            except OSError:
                pass
        else:
            ended.wait(20)

    headers = {"Content-Type": "application/json", "Authorization": "Bearer ann"}
    headers |= {"Accept": "application/json, text/event-stream"}
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}'
    with ScriptedHttp(answer) as upstream:
        words = ["--tools-timeout", "500", "--upstream", upstream.url]
        with Proxy(tmp_path, words, "--deny", "x") as proxy:
            reply = LegacyDoor(proxy.port, "legacy").whole("POST", "/mcp", headers, body)
        ended.set()
    if how == "events that go on after the list":
        assert (reply.status, json.loads(reply.body)["result"]) == (200, {})
    else:
        assert reply.status == 502
        assert json.loads(reply.body)["id"] == 1


def test_a_handshake_that_passes_through_has_the_time_of_a_connection(tmp_path: Path) -> None:
    gone: list[bool] = []

    def answer(request: Request, line: Line) -> None:
        if request.method != "POST":
            line.reply(405)
        elif request.rpc == "initialize" and request.message["params"]["clientInfo"]["name"] == "penstock":
            line.json(request.result(RESULT))
        elif request.rpc == "initialize":
            gone.append(line.is_gone(20))
        elif "id" not in request.message:
            line.accepted()
        else:
            line.json(request.result(b'{"tools":[]}'))

    with ScriptedHttp(answer) as upstream:
        words = ["--upstream", upstream.url, "--log-format", "json"]
        with Proxy(tmp_path, words, "--connect-timeout", "500") as proxy:
            headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
            heard = LegacyDoor(proxy.port, "legacy").whole("POST", "/mcp", headers, INITIALIZE)
            assert json.loads(heard.body) == {
                "jsonrpc": "2.0",
                "id": 1,
                "error": {
                    "code": -32603,
                    "message": "Failed to connect to upstream MCP",
                    "data": {"code": "TIMEOUT"},
                },
            }
            said = [json.loads(text) for text in proxy.stderr.splitlines() if "timeout after 500ms" in text]
            assert [line["code"] for line in said] == ["TIMEOUT"]
            upstream.wait(lambda: gone == [True])
            assert proxy.process.poll() is None
