"""README's first example, and the tools of published servers, as `make real-world` tries them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gate import ROOT
from trials.real_world.servers import Server, compare

BIN = ROOT / ".peers" / "node" / "node_modules" / ".bin"
OLD = ROOT / ".peers" / "mcp1" / "bin"
PORT = (("PORT", "{port}"),)
pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(not (BIN / "mcp-server-filesystem").exists(), reason="run scripts/node_setup first"),
]


def test_the_first_example_of_the_readme_is_what_that_server_shows(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    found = re.search(r"```\nbefore (.*?)\nafter (.*?)\n\n", text, re.DOTALL)
    assert found is not None
    before, after = (re.findall(r"[a-z_]+", names) for names in found.groups())
    assert "penstock --read-only -- npx -y @modelcontextprotocol/server-filesystem" in text
    shown = subprocess.run(
        [
            sys.executable,
            "-m",
            "penstock",
            "tools",
            "--read-only",
            "--format",
            "json",
            "--",
            str(BIN / "mcp-server-filesystem"),
            str(tmp_path),
        ],
        capture_output=True,
        timeout=60,
        check=True,
    )
    report = json.loads(shown.stdout)
    assert [tool["name"] for tool in report["allowed"]] == after
    assert sorted(tool["name"] for part in ("allowed", "denied") for tool in report[part]) == sorted(before)


def test_tools_that_depend_on_what_a_client_can_do_are_not_missing() -> None:
    shown = subprocess.run(
        [
            sys.executable,
            "-m",
            "penstock",
            "tools",
            "--format",
            "names",
            "--",
            str(BIN / "mcp-server-everything"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    names = shown.stdout.split()
    for wanted in ("trigger-url-elicitation", "trigger-sampling-request", "get-roots-list"):
        assert wanted in names


@pytest.mark.parametrize(
    "server",
    [
        Server("npm", "everything", (str(BIN / "mcp-server-everything"),)),
        Server("npm", "everything", (str(BIN / "mcp-server-everything"), "streamableHttp"), "http", env=PORT),
        Server("npm", "everything", (str(BIN / "mcp-server-everything"), "sse"), "sse", "/sse", PORT),
        Server("npm", "filesystem", (str(BIN / "mcp-server-filesystem"), "{work}")),
        Server("npm", "github", (str(BIN / "mcp-server-github"),)),
        Server("pypi", "fetch", (str(OLD / "mcp-server-fetch"),)),
        Server("pypi", "git", (str(OLD / "mcp-server-git"),)),
        Server("pypi", "time", (str(OLD / "mcp-server-time"),)),
    ],
    ids=lambda server: server.label,
)
def test_a_published_server_shows_the_same_tools_through_penstock(server: Server) -> None:
    if not Path(server.words[0]).exists():
        pytest.skip("run scripts/peers_setup first")
    outcome = compare(server, "")
    assert outcome.same == "same", outcome
    assert " is gone, " in outcome.denied, outcome
