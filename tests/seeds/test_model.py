"""The data model of a tool filter, row by row."""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
from pathlib import Path

import pytest
from black_box import SAMPLE_COMMAND, get, run
from seed_rows import row

from gate import SCRIPTED, Gate, call, request
from pairs import Proxy, Upstream
from penstock import limits


@pytest.mark.parametrize("url", ["ftp://h/mcp", "localhost:3000", "http://", "http://h:99999/"])
@row("A4")
def test_the_url_must_be_http(url: str) -> None:
    done = run("tools", "--upstream", url)
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert "URL" in done.stderr


@pytest.mark.parametrize(("pattern", "word"), [("a(", "Invalid regex"), ("(x*)*", "Unsafe regex")])
@row("A5", "A6")
def test_deny_patterns_are_checked_at_the_start(pattern: str, word: str) -> None:
    done = run("--deny", pattern, "--", *SAMPLE_COMMAND)
    assert done.returncode == 1
    assert word in done.stderr


@row("A7", "E70")
def test_neither_configuration_nor_list_changes_after_the_start(tmp_path: Path) -> None:
    with Gate(tmp_path, "--deny", "^delete_") as gate:
        gate.handshake()
        before = gate.ask("tools/list")["result"]
        gate.order("retool", raw='{"tools":[{"name":"later","inputSchema":{"type":"object"}}]}')
        assert gate.ask("tools/list")["result"] == before
        gate.say(call("later", b"1"))
        assert b"Tool not found" in gate.answer(b"1")


@row("A8", "A9")
def test_the_defaults_are_thirty_and_ten_seconds() -> None:
    assert limits.CONNECT_SECONDS == 30
    assert limits.TOOLS_SECONDS == 10


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "abc", ""])
@pytest.mark.parametrize("option", ["--connect-timeout", "--tools-timeout"])
@row("A10")
def test_timeouts_are_positive_whole_milliseconds(option: str, value: str) -> None:
    done = run(f"{option}={value}", "--", *SAMPLE_COMMAND)
    assert done.returncode in (1, 2)
    assert option in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("options", [(), ("--deny", "^x")], ids=["open", "filtering"])
@row("B25")
def test_a_tool_that_is_none_is_left_out_aloud(tmp_path: Path, options: tuple[str, ...]) -> None:
    tools = [
        b'{"name":"good","inputSchema":{"type":"object"}}',
        b'{"name":"no_object","inputSchema":{"type":"array"}}',
        b'{"name":"bad_text","description":1,"inputSchema":{"type":"object"}}',
        b'{"name":"no_schema"}',
    ]
    with Gate(tmp_path, *options, pages=[b'{"tools":[%b]}' % b",".join(tools)]) as gate:
        gate.handshake()
        assert [tool["name"] for tool in gate.ask("tools/list")["result"]["tools"]] == ["good"]
        for name in ("no_object", "bad_text", "no_schema"):
            assert name in gate.stderr


@row("B26")
def test_a_description_is_optional(gate: Gate) -> None:
    tools = {tool["name"]: tool for tool in gate.ask("tools/list")["result"]["tools"]}
    assert "description" not in tools["read_file"]


@row("B27")
def test_no_tool_is_both_allowed_and_denied() -> None:
    done = run("tools", "--allow", "file", "--deny", "^write", "--format", "json", "--", *SAMPLE_COMMAND)
    shown = json.loads(done.stdout)
    allowed, denied = ({tool["name"] for tool in shown[state]} for state in ("allowed", "denied"))
    assert allowed
    assert denied
    assert not allowed & denied


@row("B28")
def test_a_pattern_that_matched_nothing_is_told() -> None:
    done = run("tools", "--deny", "^zzz_none$", "--", *SAMPLE_COMMAND)
    assert done.returncode == 0
    assert "^zzz_none$" in done.stderr


@row("B29")
def test_more_than_a_hundred_tools_are_supported(tmp_path: Path) -> None:
    tools = b",".join(b'{"name":"t%d","inputSchema":{"type":"object"}}' % n for n in range(1000))
    with Gate(tmp_path, "--deny", "7$", pages=[b'{"tools":[%b]}' % tools]) as gate:
        gate.handshake()
        assert len(gate.ask("tools/list")["result"]["tools"]) == 900


@row("C50")
def test_the_cached_list_decides_what_may_be_called(gate: Gate) -> None:
    listed = {tool["name"] for tool in gate.ask("tools/list")["result"]["tools"]}
    for name in ("echo", "read_file", "write_file", "delete_file", "other"):
        gate.say(call(name, b'"c"'))
        assert (b'"called"' in gate.answer(b'"c"')) is (name in listed)


@row("E69")
def test_the_state_of_the_connection_is_visible(tmp_path: Path) -> None:
    with (
        Upstream("streamable", tmp_path) as upstream,
        Proxy(tmp_path, upstream.words(), "--deny", "^x") as proxy,
    ):
        status, body = get(proxy.port, "/readyz")
        assert status == 200
        assert json.loads(body)["state"] == "connected"
        assert "since" in json.loads(body)


@row("F88")
def test_what_a_client_is_told_has_no_path_and_no_trace(tmp_path: Path) -> None:
    with Gate(tmp_path, "--deny", "^x") as gate:
        gate.handshake()
        gate.say(request(b'"p"', "x/die", b"{}"))
        told = gate.answer(b'"p"')
        assert b"Traceback" not in told
        assert not re.search(rb"/(home|usr|tmp|work|root)/", told)


@row("F89")
def test_a_connection_error_has_its_code() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        refused = free.getsockname()[1]
    done = run("tools", "--log-format", "json", "--upstream", f"http://127.0.0.1:{refused}/mcp")
    assert _code(done.stderr) == "REFUSED"
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(1)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"
        done = run("tools", "--log-format", "json", "--connect-timeout", "300", "--upstream", url)
    assert _code(done.stderr) == "TIMEOUT"
    with socket.socket() as odd:
        odd.bind(("127.0.0.1", 0))
        odd.listen(4)

        def serve() -> None:
            try:
                while True:
                    peer, _ = odd.accept()
                    peer.recv(65536)
                    peer.sendall(b"what?\r\n\r\n")
                    peer.close()
            except OSError:
                pass

        threading.Thread(target=serve, daemon=True).start()
        url = f"http://127.0.0.1:{odd.getsockname()[1]}/mcp"
        done = run("tools", "--log-format", "json", "--upstream", url)
    assert _code(done.stderr) == "INVALID_RESPONSE"


def _code(stderr: str) -> str | None:
    codes = [json.loads(line).get("code") for line in stderr.splitlines() if line.startswith("{")]
    return next((code for code in codes if code), None)


@row("B16")
def test_the_list_of_a_listener_is_the_one_of_its_start(tmp_path: Path) -> None:
    words = ["--", sys.executable, "-S", str(SCRIPTED)]
    with Proxy(tmp_path, words, "--deny", "^delete_") as proxy:
        with proxy.connect("streamable", "legacy") as client:
            client.begin()
            before = client.ask("tools/list")["result"]["tools"]
            client.order("retool", raw='{"tools":[{"name":"later","inputSchema":{"type":"object"}}]}')
            assert client.ask("tools/list")["result"]["tools"] == before
        with proxy.connect("streamable", "modern") as other:
            other.begin()
            assert [tool["name"] for tool in other.ask("tools/list")["result"]["tools"]] == [
                tool["name"] for tool in before
            ]
