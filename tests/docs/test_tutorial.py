"""docs/tutorial.md, followed by somebody who does what it says, with an agent in between."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gate import Gate

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "tutorial.md").read_text()


class Reader:
    """Somebody in a project of their own, with nothing but what the page says."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.project.mkdir()
        self.home = folder / "home"
        self.home.mkdir()
        shutil.copy(ROOT / "examples" / "sample_server.py", self.project / "server.py")
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.env = {"HOME": str(self.home), "PATH": programs, "LANG": "C.UTF-8"}

    def follow(self, block: str) -> str:
        """Runs a block of the page; each of its commands must work."""
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", block],
            cwd=self.project,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    @property
    def entry(self) -> list[str]:
        """What the client starts."""
        entry = json.loads((self.project / ".mcp.json").read_text())["mcpServers"]["files"]
        return [entry["command"], *entry["args"]]

    def work(self, folder: Path) -> tuple[list[str], list[dict[str, object]]]:
        """An agent's session: the tools it sees, and the answers to its calls."""
        folder.mkdir()
        calls = [
            b'{"name":"read_file","arguments":{"path":"notes/a.txt"}}',
            b'{"name":"write_file","arguments":{"path":"notes/a.txt","text":"x"}}',
            b'{"name":"write_file","arguments":{"path":"/etc/passwd","text":"x"}}',
        ]
        with Gate(folder, direct=True, command=self.entry, env=self.env, cwd=self.project) as gate:
            gate.handshake()
            names = [tool["name"] for tool in gate.ask("tools/list")["result"]["tools"]]
            answers = [gate.ask("tools/call", call) for call in calls]
            gate.end()
        return names, answers


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_tutorial_can_be_followed(tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("its commands are for a shell")
    reader = Reader(tmp_path)
    (reader.project / ".mcp.json").write_text(blocks("json")[0])
    (reader.project / "rules.yaml").write_text(blocks("yaml")[0])
    before = (reader.project / ".mcp.json").read_bytes()
    front, seen, checked, tried, agreed, ci, back = blocks("sh")

    reader.follow(front)
    names, answers = reader.work(tmp_path / "first")
    assert "delete_file" not in names
    assert "read_file" in names
    assert all("result" in answer for answer in answers)

    shown = reader.follow(seen)
    assert "write_file" in shown
    assert "write-notes-only" in reader.follow(checked)
    tried_on = reader.follow(tried)
    assert "1 newly blocked" in tried_on
    assert "write-notes-only" in tried_on

    reader.follow(agreed)
    names, answers = reader.work(tmp_path / "second")
    assert "delete_file" not in names
    assert ["result" in answer for answer in answers] == [True, True, False]

    reader.follow(ci)
    server = reader.project / "server.py"
    server.write_text(server.read_text().replace("Read", "Always read"))
    with pytest.raises(AssertionError):
        reader.follow("penstock lock penstock.lock --check -- python3 server.py")
    reader.follow(back)
    assert (reader.project / ".mcp.json").read_bytes() == before
