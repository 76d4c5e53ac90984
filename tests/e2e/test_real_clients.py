"""Real clients of four SDK generations and the Inspector, through each listener, before real servers.

Each hears through Penstock what it hears directly, but for the tools that are denied. The table is chosen so
that every client meets every listener, and every upstream transport appears with each.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gate import ROOT
from pairs import Proxy

CLIENTS = Path(__file__).parent / "clients"
FIXTURE = [sys.executable, str(ROOT / "tests" / "upstreams" / "conformance_server.py")]
NODE_BIN = ROOT / ".peers" / "node" / "node_modules" / ".bin"
NODE = NODE_BIN / "node"
PEERS = ROOT / ".peers" / "mcp1" / "bin"

node = [pytest.mark.node, pytest.mark.skipif(not NODE.exists(), reason="run scripts/node_setup first")]
peers = [
    pytest.mark.peers,
    pytest.mark.skipif(not (PEERS / "python").exists(), reason="run scripts/peers_setup first"),
]
DRIVERS = {
    "py": ([sys.executable, "py_client.py"], []),
    "py-v1": ([str(PEERS / "python"), "py_client_v1.py"], peers),
    "ts-v1": ([str(NODE), "ts_v1.mjs"], node),
    "ts-v2": ([str(NODE), "ts_v2.mjs"], node),
}
DENY = "^test_(image|audio)_content$"
DENIED = ("test_image_content", "test_audio_content")
ASKING = {"legacy": "test_elicitation", "modern": "test_input_required_result_elicitation"}
TABLE = [
    # driver, era, listener, upstream
    ("py", "legacy", "stdio", "http"),
    ("py", "legacy", "mcp", "stdio"),
    ("py", "legacy", "sse", "sse"),
    ("py", "modern", "stdio", "stdio"),
    ("py", "modern", "mcp", "sse"),
    ("py-v1", "legacy", "stdio", "sse"),
    ("py-v1", "legacy", "mcp", "http"),
    ("py-v1", "legacy", "sse", "stdio"),
    ("ts-v1", "legacy", "stdio", "stdio"),
    ("ts-v1", "legacy", "mcp", "sse"),
    ("ts-v1", "legacy", "sse", "http"),
    ("ts-v2", "legacy", "stdio", "http"),
    ("ts-v2", "legacy", "sse", "sse"),
    ("ts-v2", "modern", "mcp", "stdio"),
    ("ts-v2", "modern", "stdio", "sse"),
    ("ts-v2", "modern", "mcp", "http"),
]


def drive(driver: str, *options: str) -> Any:
    (program, script), _ = DRIVERS[driver]
    done = subprocess.run(
        [program, str(CLIENTS / script), *options], capture_output=True, text=True, timeout=90, check=False
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def command(words: list[str]) -> list[str]:
    """How Penstock is told to spawn a server, in one word: some of the clients have a `--` of their own."""
    return ["--upstream-cmd", shlex.join(words)]


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, list[str]]]:
    """How Penstock is led to the fixture over each transport."""
    with contextlib.ExitStack() as stack:
        found = {"stdio": command([*FIXTURE, "--transport", "stdio"])}
        for transport in ("sse", "http"):
            words = [*FIXTURE, "--transport", transport, "--port", "0"]
            server = stack.enter_context(subprocess.Popen(words, stderr=subprocess.PIPE, text=True))
            stack.callback(server.terminate)
            assert server.stderr is not None
            url = re.search(r"http://\S+", server.stderr.readline())
            assert url is not None
            found[transport] = ["--upstream", url[0]]
        yield found


@pytest.fixture(scope="module")
def direct(servers: dict[str, list[str]]) -> Any:
    """What a driver hears without Penstock; the fixture says the same over every transport."""
    known: dict[tuple[str, str], Any] = {}

    def ask(driver: str, era: str, *calls: str) -> Any:
        if (driver, era) not in known:
            known[driver, era] = drive(driver, "--era", era, *calls, "--http", servers["http"][1])
        return known[driver, era]

    return ask


@contextlib.contextmanager
def listening(work: Path, listener: str, words: list[str], deny: str) -> Iterator[list[str]]:
    """The options that lead a driver to this listener of Penstock."""
    if listener == "stdio":
        yield ["--stdio", sys.executable, "-m", "penstock", "--stdio", "--deny", deny, *words]
        return
    with Proxy(work, words, "--deny", deny) as proxy:
        option = "--sse" if listener == "sse" else "--http"
        yield [option, f"http://127.0.0.1:{proxy.port}/{listener}"]


def calls_for(era: str) -> list[str]:
    calls = ["--call", "echo", '{"word":"日本"}', "--call", ASKING[era], '{"message":"Who?"}']
    return [*calls, "--call", "test_simple_text", "{}", "--call", DENIED[0], "{}"]


@pytest.mark.parametrize(
    ("driver", "era", "listener", "upstream"),
    [pytest.param(*row, marks=DRIVERS[row[0]][1], id="-".join(row)) for row in TABLE],
)
def test_a_client_hears_what_it_hears_directly_but_for_what_is_denied(
    driver: str, era: str, listener: str, upstream: str, servers: Any, direct: Any, tmp_path: Path
):
    expected = direct(driver, era, *calls_for(era))
    assert expected["ok"]
    assert set(DENIED) <= set(expected["tools"])
    with listening(tmp_path, listener, servers[upstream], DENY) as where:
        report = drive(driver, "--era", era, *calls_for(era), *where)
    assert report["ok"], report["error"]
    assert (report["version"], report["server"]) == (expected["version"], expected["server"])
    assert report["tools"] == [tool for tool in expected["tools"] if tool not in DENIED]
    assert report["calls"][:-1] == expected["calls"][:-1]
    assert report["asked"] == expected["asked"] == ["elicitation/create"]
    assert "error" not in expected["calls"][-1]
    assert report["calls"][-1]["error"]["code"] == -32601
    assert "Tool not found: test_image_content" in report["calls"][-1]["error"]["message"]


# --- published servers -----------------------------------------------------------------------------------


@pytest.mark.peers
@pytest.mark.skipif(not (PEERS / "mcp-server-time").exists(), reason="run scripts/peers_setup first")
@pytest.mark.parametrize(("listener", "driver"), [("stdio", "py"), ("mcp", "py-v1")])
def test_the_published_time_server(listener: str, driver: str, tmp_path: Path):
    words = [str(PEERS / "mcp-server-time")]
    calls = ["--call", "convert_time", "{}", "--call", "get_current_time", '{"timezone":"Etc/UTC"}']
    plain = drive(driver, "--era", "legacy", *calls, "--stdio", *words)
    assert plain["tools"] == ["get_current_time", "convert_time"]
    with listening(tmp_path, listener, command(words), "convert") as where:
        report = drive(driver, "--era", "legacy", *calls, *where)
    assert report["ok"], report["error"]
    assert report["tools"] == ["get_current_time"]
    assert report["calls"][0]["error"]["code"] == -32601
    assert not report["calls"][1].get("isError")


@pytest.mark.node
@pytest.mark.skipif(not NODE.exists(), reason="run scripts/node_setup first")
@pytest.mark.parametrize(("listener", "driver"), [("mcp", "ts-v2"), ("sse", "ts-v1")])
def test_the_published_everything_server(listener: str, driver: str, tmp_path: Path):
    script = NODE_BIN.parent / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
    words = [str(NODE), str(script), "stdio"]
    calls = ["--call", "echo", '{"message":"hi"}', "--call", "get-sum", '{"a":1,"b":2}']
    plain = drive(driver, "--era", "legacy", *calls, "--stdio", *words)
    with listening(tmp_path, listener, command(words), "^get-env$,sum") as where:
        report = drive(driver, "--era", "legacy", *calls, *where)
    assert report["ok"], report["error"]
    hidden = {"get-env", "get-sum"}
    assert hidden <= set(plain["tools"])
    # A listener offers every capability when it asks, so it may be shown more than this client would be.
    assert set(report["tools"]) >= set(plain["tools"]) - hidden
    assert not hidden & set(report["tools"])
    assert report["calls"][0] == plain["calls"][0]
    assert report["calls"][1]["error"]["code"] == -32601


@pytest.mark.node
@pytest.mark.skipif(not NODE.exists(), reason="run scripts/node_setup first")
@pytest.mark.parametrize(("listener", "upstream"), [("stdio", "stdio"), ("mcp", "http"), ("sse", "sse")])
def test_the_inspector_lists_what_is_left(listener: str, upstream: str, servers: Any, tmp_path: Path):
    with listening(tmp_path, listener, servers[upstream], DENY) as where:
        target = where[1:]
        done = subprocess.run(
            [
                str(NODE),
                str((NODE_BIN / "mcp-inspector").resolve()),
                "--cli",
                *target,
                "--method",
                "tools/list",
            ]
            if listener != "stdio"
            else [
                str(NODE),
                str((NODE_BIN / "mcp-inspector").resolve()),
                "--cli",
                "--method",
                "tools/list",
                *target,
            ],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    assert done.returncode == 0, done.stderr
    names = [tool["name"] for tool in json.loads(done.stdout)["tools"]]
    assert "echo" in names
    assert not set(DENIED) & set(names)
