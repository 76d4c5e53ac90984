"""The specification of a tool filter, row by row."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import anyio
import pytest
from black_box import SAMPLE_COMMAND, run
from seed_rows import row

from gate import SCRIPTED, Gate, call
from pairs import Proxy, Upstream
from several import Several

ROOT = Path(__file__).parents[2]
TWENTY = b'{"tools":[%b]}' % b",".join(
    b'{"name":"tool_%02d","inputSchema":{"type":"object"}}' % number for number in range(20)
)
UP = [sys.executable, "-S", str(SCRIPTED)]


def names(gate: Gate) -> list[str]:
    return [tool["name"] for tool in gate.ask("tools/list")["result"]["tools"]]


@row("A1")
def test_the_upstream_is_a_url_on_the_command_line(tmp_path: Path) -> None:
    with Upstream("sse", tmp_path) as upstream:
        done = run("tools", "--format", "names", "--upstream", upstream.url)
        assert done.stdout.split() == ["echo", "write_file", "read_file", "delete_file"]


@row("A2", "A15")
def test_the_deny_list_is_patterns_separated_by_commas() -> None:
    done = run("tools", "--format", "names", "--deny", "^write_.*$,.*_directory$", "--", *SAMPLE_COMMAND)
    assert set(done.stdout.split()) == {"read_file", "search_files", "delete_file", "echo"}


@row("A3")
def test_the_command_may_be_one_text() -> None:
    done = run("tools", "--format", "names", "--upstream-cmd", " ".join(SAMPLE_COMMAND))
    assert "echo" in done.stdout.split()


@pytest.mark.parametrize("options", [(), ("--deny", "")])
@row("A11", "B22")
def test_without_patterns_every_tool_is_there(tmp_path: Path, options: tuple[str, ...]) -> None:
    with Gate(tmp_path, *options) as gate:
        gate.handshake()
        assert names(gate) == ["echo", "write_file", "read_file", "delete_file"]


@row("A12", "C49")
def test_an_mcp_client_that_spawns_it_sees_only_the_allowed_tools() -> None:
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    words = ["-m", "penstock", "--deny", "^(write|delete)_", "--", *SAMPLE_COMMAND]

    async def seen() -> list[str]:
        async with Client(stdio_client(StdioServerParameters(command=sys.executable, args=words))) as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    assert anyio.run(seen) == ["read_file", "list_directory", "search_files", "echo"]


@row("A13")
def test_instances_with_their_own_lists_share_an_upstream(tmp_path: Path) -> None:
    with (
        Upstream("streamable", tmp_path) as upstream,
        Proxy(tmp_path, upstream.words(), "--deny", "^write_") as one,
        Proxy(tmp_path, upstream.words(), "--deny", "^delete_") as two,
    ):
        seen = []
        for proxy in (one, two):
            with proxy.connect("streamable", "legacy") as client:
                client.begin()
                seen.append([tool["name"] for tool in client.ask("tools/list")["result"]["tools"]])
        assert seen == [["echo", "read_file", "delete_file"], ["echo", "write_file", "read_file"]]


@row("A14")
def test_it_can_be_published_as_it_is() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "MIT" in str(project["license"])
    assert (ROOT / "LICENSE").exists()
    assert run.__module__  # its dependencies and their licences: `make audit`, in CI
    assert "make audit" in (ROOT / ".ci" / "run").read_text()


@row("B21")
def test_of_twenty_tools_five_vanish(tmp_path: Path) -> None:
    with Gate(tmp_path, "--deny", "^tool_0[0-4]$", pages=[TWENTY]) as gate:
        gate.handshake()
        assert names(gate) == [f"tool_{number:02}" for number in range(5, 20)]


@row("B23", "B24")
def test_patterns_may_match_nothing_or_everything(tmp_path: Path) -> None:
    with Gate(tmp_path, "--deny", "nothing_like_it,.") as gate:
        gate.handshake()
        assert names(gate) == []
        assert "nothing_like_it" in gate.stderr


@row("B30", "C46", "G95")
def test_a_denied_tool_is_gone_however_it_is_named(gate: Gate) -> None:
    gate.say(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
    assert b"delete_file" not in gate.answer(b"1")
    spellings = [
        b'"delete_file"',
        b'"delete\\u005ffile"',
        b'"DELETE_FILE"',
        b'" delete_file"',
        b'"delete_file "',
    ]
    before = gate.reached()
    for number, spelling in enumerate(spellings, 10):
        raw = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%b}}' % (number, spelling)
        gate.say(raw)
        assert b'"error"' in gate.answer(b"%d" % number)
    gate.say(b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","name":"delete_file"}}')
    assert b'"error"' in gate.answer(b"2")
    gate.say(b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"delete_file"}}')
    gate.ask("ping")
    assert not [line for line in gate.reached()[len(before) :] if b"tools/call" in line]


@pytest.mark.parametrize("transport", ["sse", "stdio", "streamable"])
@row("C47", "C48")
def test_every_transport_has_every_feature(tmp_path: Path, transport: str) -> None:
    with (
        Upstream("sse", tmp_path) as upstream,
        Proxy(tmp_path, upstream.words(), "--deny", "^(write|delete)_") as proxy,
    ):
        if transport == "stdio":
            words = ["--stdio", "--deny", "^(write|delete)_", *upstream.words()]
            with Gate(tmp_path, command=[sys.executable, "-m", "penstock", *words], direct=True) as gate:
                gate.handshake()
                assert names(gate) == ["echo", "read_file"]
                gate.say(call("delete_file", b"1"))
                assert b"Tool not found" in gate.answer(b"1")
                return
        with proxy.connect(transport, "legacy") as client:
            client.begin()
            assert [tool["name"] for tool in client.ask("tools/list")["result"]["tools"]] == [
                "echo",
                "read_file",
            ]
            assert "Tool not found" in client.call("delete_file")["error"]["message"]
            assert "result" in client.call("echo")


@row("E73")
def test_talking_to_the_upstream_has_a_limit(tmp_path: Path) -> None:
    with Gate(tmp_path, "--call-timeout", "300") as gate:
        gate.handshake()
        gate.say(b'{"jsonrpc":"2.0","id":"slow","method":"x/say","params":{"raw":"","mute":true}}')
        error = json.loads(gate.answer(b'"slow"'))["error"]
        assert error["code"] == -32603
        assert gate.is_alive()
        assert any(b"notifications/cancelled" in line for line in gate.reached())


@row("E77")
def test_an_upstream_that_is_not_there_fails_the_start(tmp_path: Path) -> None:
    done = run("--listen", "0", "--upstream", "http://127.0.0.1:9/mcp", "--deny", "x")
    assert done.returncode == 1
    assert "Error: Failed to connect to upstream MCP at http://127.0.0.1:9" in done.stderr


@row("G90", "G91")
def test_patterns_are_judged_before_anything_starts(tmp_path: Path) -> None:
    mark = tmp_path / "started"
    for pattern in ("(a|a)*$", "a{1", "(?=x)"):
        done = run("--deny", pattern, "--", "sh", "-c", f"touch {mark}")
        assert done.returncode == 1
        assert "Error: " in done.stderr
    assert not mark.exists()


@row("G96")
def test_what_is_no_message_does_not_reach_the_client(gate: Gate) -> None:
    for raw in (
        '{"jsonrpc":"1.0","method":"x"}',
        '{"jsonrpc":"2.0","id":[1],"result":1}',
        '{"jsonrpc":"2.0"}',
    ):
        gate.order("say", raw=raw + "\n")
        assert raw.encode() not in gate.unasked


@row("H104", "H105")
def test_filtering_happens_once_and_nothing_else_is_kept(tmp_path: Path) -> None:
    with Gate(tmp_path, "--deny", "^(write|delete)_") as gate:
        gate.handshake()
        assert gate.is_alive()
        before = gate.stderr
        for _ in range(50):
            assert gate.is_alive()
        assert sum(b"tools/list" in line for line in gate.reached()) == 1
        assert gate.stderr == before


@row("O190")
def test_several_upstreams_stand_behind_one_proxy(tmp_path: Path) -> None:
    several = Several(tmp_path).add("one", tools=["read", "write"]).add("two", tools=["read", "list"])
    with several.stdio("--deny", "write") as client:
        listed = {tool["name"] for tool in client.ask("tools/list")["result"]["tools"]}
        assert listed == {"read", "two__read", "list"}
        assert "result" in client.call("two__read")
        assert client.call("write")["error"]["code"] == -32601
    assert (several.calls("one"), several.calls("two")) == ([], ["read"])
