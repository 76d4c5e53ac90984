"""README's first example, and the tools of published servers, as `make real-world` tries them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gate import ROOT

BIN = ROOT / ".peers" / "node" / "node_modules" / ".bin"
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


def test_published_servers_show_the_same_tools_through_penstock() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/real_world.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "DIFFERENT" not in done.stdout
    assert done.stdout.count("| same |") >= 2
