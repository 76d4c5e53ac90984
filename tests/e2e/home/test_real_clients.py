"""Published AI clients find what was wrapped in their own files, and say that it is well.

`make real-clients` installs them; where one is not, its test is skipped.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gate import ROOT, SCRIPTED
from home_folder import Home

FOLDER = Path(os.environ.get("REAL_CLIENTS", ROOT / ".peers" / "clients")) / "node_modules" / ".bin"
SERVER = [sys.executable, "-S", str(SCRIPTED)]

CLIENTS = {
    # client: its program, how it adds a server itself, and what it says of a healthy one
    "claude-code": (
        "claude",
        ["mcp", "add", "files", "--scope", "user", "--", *SERVER],
        r"files: .*Connected",
    ),
    "codex": ("codex", ["mcp", "add", "files", "--", *SERVER], r"files .*enabled"),
    "gemini": ("gemini", ["mcp", "add", "--scope", "user", "files", *SERVER], r"files: .*Connected"),
    "opencode": ("opencode", None, r"files .*connected"),
}


@pytest.mark.parametrize("client", list(CLIENTS))
def test_a_published_client_finds_its_wrapped_server_well(client: str, tmp_path: Path) -> None:
    name, adding, healthy = CLIENTS[client]
    program = FOLDER / name
    if not program.exists():
        pytest.skip(f"{name} is not installed; make real-clients does that")
    home = Home(tmp_path)

    def run(*words: str) -> str:
        env = home.environment(GEMINI_CLI_TRUST_WORKSPACE="true")
        done = subprocess.run(
            [str(program), *words],
            cwd=home.project,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)

    if adding is None:
        words = ", ".join(f'"{word}"' for word in SERVER)
        text = f'{{"mcp": {{"files": {{"type": "local", "command": [{words}]}}}}}} // mine\n'
        home.write("user", ".config/opencode/opencode.json", text)
    else:
        run(*adding)
    rows = home.run("clients", "--client", client).stdout
    assert " files " in rows, rows
    done = home.run("wrap", "files", "--client", client, "--deny", "^write_", "--yes")
    assert done.returncode == 0, done.stderr
    shown = run("mcp", "list")
    assert re.search(healthy, shown), shown
    assert "--deny ^write_" in shown
    # Some write their file whenever they run, so that the way back leads around that.
    assert home.run("unwrap", "--undo", "--yes").returncode == 0
    rows = json.loads(home.run("clients", "--client", client, "--format", "json").stdout)
    assert [row["state"] for row in rows] == ["plain"]
    assert re.search(healthy, run("mcp", "list"))
