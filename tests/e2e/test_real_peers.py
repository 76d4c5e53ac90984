"""Published clients and servers, direct and through the gate: the same, less what is hidden."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = Path(__file__).parent / "clients"
BIN = ROOT / ".peers" / "node" / "node_modules" / ".bin"
NODE = BIN / "node"
OLD = ROOT / ".peers" / "mcp1" / "bin"

needs_node = [
    pytest.mark.node,
    pytest.mark.skipif(
        not (NODE.exists() and (BIN / "mcp-inspector").exists()), reason="run scripts/node_setup first"
    ),
]
needs_peers = [
    pytest.mark.peers,
    pytest.mark.skipif(not (OLD / "mcp-server-time").exists(), reason="run scripts/peers_setup first"),
]

FIXTURE = [
    sys.executable,
    str(ROOT / "tests" / "upstreams" / "conformance_server.py"),
    "--transport",
    "stdio",
]
CLIENT_KINDS = [
    pytest.param([sys.executable, "py_client.py"], "auto", id="python 2.x"),
    pytest.param([sys.executable, "py_client.py"], "legacy", id="python 2.x legacy"),
    pytest.param([str(OLD / "python"), "py_client_v1.py"], "legacy", id="python 1.x", marks=needs_peers),
    pytest.param([str(NODE), "ts_v1.mjs"], "legacy", id="typescript 1.x", marks=needs_node),
    pytest.param([str(NODE), "ts_v2.mjs"], "legacy", id="typescript 2.x legacy", marks=needs_node),
    pytest.param([str(NODE), "ts_v2.mjs"], "modern", id="typescript 2.x modern", marks=needs_node),
]


def _gated(hidden: str, command: list[str]) -> list[str]:
    """The command of an upstream, behind a gate that hides one tool."""
    return [sys.executable, "-m", "penstock", "--deny", f"^{hidden}$", "--upstream-cmd", shlex.join(command)]


class Peer(NamedTuple):
    """A published server: how to start it, one tool to hide, one to call."""

    command: list[str]
    hidden: str
    called: str
    arguments: dict[str, Any]


def _servers(work: Path) -> dict[str, Peer]:
    repository = work / "repository"
    files = work / "files"
    return {
        "mcp-server-time": Peer(
            [str(OLD / "mcp-server-time")],
            "get_current_time",
            "convert_time",
            {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
        ),
        "mcp-server-git": Peer(
            [str(OLD / "mcp-server-git")], "git_commit", "git_status", {"repo_path": str(repository)}
        ),
        "server-everything": Peer(
            [str(NODE), str(BIN / "mcp-server-everything")], "get-sum", "echo", {"message": "日本"}
        ),
        "server-filesystem": Peer(
            [str(NODE), str(BIN / "mcp-server-filesystem"), str(files)],
            "write_file",
            "read_text_file",
            {"path": str(files / "a.txt")},
        ),
    }


def _run(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, capture_output=True, text=True, timeout=90, check=False, stdin=subprocess.DEVNULL
    )


def _drive(
    client: list[str], era: str, calls: list[tuple[str, dict[str, Any]]], server: list[str]
) -> dict[str, Any]:
    program, script = client
    words = [word for name, arguments in calls for word in ("--call", name, json.dumps(arguments))]
    done = _run([program, str(CLIENTS / script), "--era", era, *words, "--stdio", *server])
    assert done.stdout, done.stderr
    assert "Traceback" not in done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["ok"], (report["error"], done.stderr)
    return report


@pytest.fixture
def servers(tmp_path: Path) -> dict[str, Peer]:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.txt").write_text("words of 日本")
    subprocess.run(["git", "init", "-q", str(tmp_path / "repository")], check=True)
    return _servers(tmp_path)


@pytest.mark.parametrize(("client", "era"), CLIENT_KINDS)
def test_a_published_client_sees_the_same_less_what_is_hidden(client: list[str], era: str) -> None:
    asking = "test_input_required_result_elicitation" if era in ("modern", "auto") else "test_elicitation"
    calls = [
        ("echo", {"word": "日本", "n": 1.5}),
        (asking, {"message": "Who?"}),
        ("test_tool_with_progress", {}),
        ("test_image_content", {}),
    ]
    hidden = "test_simple_text"
    direct = _drive(client, era, [*calls, (hidden, {})], FIXTURE)
    gated = _drive(client, era, [*calls, (hidden, {})], _gated(hidden, FIXTURE))
    assert hidden in direct["tools"]
    assert gated["tools"] == [name for name in direct["tools"] if name != hidden]
    assert gated["calls"][:-1] == direct["calls"][:-1]
    assert "error" not in direct["calls"][-1]
    assert gated["calls"][-1]["error"]["code"] == -32601
    for part in ("version", "server", "asked", "progress", "logs"):
        assert gated[part] == direct[part], part


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("mcp-server-time", marks=needs_peers),
        pytest.param("mcp-server-git", marks=needs_peers),
        pytest.param("server-everything", marks=needs_node),
        pytest.param("server-filesystem", marks=needs_node),
    ],
)
def test_a_published_server_works_as_before_less_what_is_hidden(servers: dict[str, Peer], name: str) -> None:
    peer = servers[name]
    client = [sys.executable, "py_client.py"]
    calls = [(peer.called, peer.arguments)]
    direct = _drive(client, "auto", calls, peer.command)
    gated = _drive(
        client,
        "auto",
        [*calls, (peer.hidden, {})],
        _gated(peer.hidden, peer.command),
    )
    assert peer.hidden in direct["tools"]
    assert gated["tools"] == [tool for tool in direct["tools"] if tool != peer.hidden]
    assert gated["calls"][0] == direct["calls"][0]
    assert not direct["calls"][0].get("isError")
    assert gated["calls"][1]["error"]["code"] == -32601
    assert (gated["version"], gated["server"]) == (direct["version"], direct["server"])


@pytest.mark.node
@needs_node[1]
def test_the_inspector_sees_the_same_less_what_is_hidden(servers: dict[str, Peer], tmp_path: Path) -> None:
    peer = servers["server-everything"]
    inspector = [str(NODE), str(BIN / "mcp-inspector"), "--cli"]
    wrapper = tmp_path / "gated"  # the inspector would take our options for its own
    wrapper.write_text("#!/bin/sh\nexec " + shlex.join(_gated(peer.hidden, peer.command)) + "\n")
    wrapper.chmod(0o755)
    call = ["--method", "tools/call", "--tool-name", "echo", "--tool-arg", "message=hello"]
    listed, called = (
        [json.loads(_run([*inspector, *command, *what]).stdout) for command in (peer.command, [str(wrapper)])]
        for what in (["--method", "tools/list"], call)
    )
    assert peer.hidden in [tool["name"] for tool in listed[0]["tools"]]
    assert listed[1]["tools"] == [tool for tool in listed[0]["tools"] if tool["name"] != peer.hidden]
    assert called[0] == called[1]
