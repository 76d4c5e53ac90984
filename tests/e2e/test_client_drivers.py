"""The client drivers work against the fixture alone: what fails behind Penstock is then Penstock's fault."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CLIENTS = Path(__file__).parent / "clients"
FIXTURE = [sys.executable, str(ROOT / "tests" / "upstreams" / "conformance_server.py")]
NODE = ROOT / ".peers" / "node" / "node_modules" / ".bin" / "node"
OLD_PYTHON = ROOT / ".peers" / "mcp1" / "bin" / "python"

needs_node = [
    pytest.mark.node,
    pytest.mark.skipif(not NODE.exists(), reason="run scripts/node_setup first"),
]
needs_peers = [
    pytest.mark.peers,
    pytest.mark.skipif(not OLD_PYTHON.exists(), reason="run scripts/peers_setup first"),
]
DRIVERS = [
    pytest.param([sys.executable, "py_client.py"], "legacy", id="py-legacy"),
    pytest.param([sys.executable, "py_client.py"], "modern", id="py-modern"),
    pytest.param([str(OLD_PYTHON), "py_client_v1.py"], "legacy", id="py-v1", marks=needs_peers),
    pytest.param([str(NODE), "ts_v1.mjs"], "legacy", id="ts-v1", marks=needs_node),
    pytest.param([str(NODE), "ts_v2.mjs"], "legacy", id="ts-v2-legacy", marks=needs_node),
    pytest.param([str(NODE), "ts_v2.mjs"], "modern", id="ts-v2-modern", marks=needs_node),
]
# What makes the server ask the client back is another tool in each era.
ASKING = {"legacy": "test_elicitation", "modern": "test_input_required_result_elicitation"}


@pytest.fixture(scope="module", params=["stdio", "sse", "http"])
def upstream(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Options that lead a driver to the fixture over each transport."""
    transport = request.param
    if transport == "stdio":
        yield ["--stdio", *FIXTURE, "--transport", "stdio"]
        return
    server = subprocess.Popen(
        [*FIXTURE, "--transport", transport, "--port", "0"], stderr=subprocess.PIPE, text=True
    )
    try:
        assert server.stderr is not None
        found = re.search(r"http://\S+", server.stderr.readline())
        assert found is not None
        yield [f"--{transport}", found[0]]
    finally:
        server.terminate()
        server.communicate(timeout=10)


def drive(command: list[str], *options: str) -> dict[str, Any]:
    program, script = command
    done = subprocess.run(
        [program, str(CLIENTS / script), *options], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("command", "era"), DRIVERS)
def test_a_driver_lists_calls_and_answers_over_every_transport(
    command: list[str], era: str, upstream: list[str]
):
    calls = [
        "--call",
        "echo",
        '{"word":"日本"}',
        "--call",
        ASKING[era],
        '{"message":"Who?"}',
        "--call",
        "gone",
        "{}",
    ]
    report = drive(command, "--era", era, *calls, *upstream)
    assert report["ok"], report["error"]
    assert report["version"] == {"legacy": "2025-11-25", "modern": "2026-07-28"}[era]
    assert report["tools"][0] == "test_simple_text"
    echoed, asked, unknown = report["calls"]
    assert echoed["structuredContent"] == {"word": "日本"}
    assert not asked["isError"]
    assert report["asked"] == ["elicitation/create"]
    assert unknown["error"]["code"] == -32602
