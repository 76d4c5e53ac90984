"""A home folder of a test's own, with files of AI clients in it, and Penstock run as its user would."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

PENSTOCK = Path(sys.executable).with_name("penstock")

JSON = """{
  // what I use
  "other": {"keep": [1, 2.0, "x"]},
  "%s": {
    "first": { "command": "first-server", "env": {"A": "1"} },
    "files": {
      "command": "npx",   /* mine */
      "args": [
        "-y",
        "some-server",    // the one that I like
        "${workspaceFolder}",
      ],
      "env": {"TOKEN": "${env:TOKEN}"},
    },
  },
}
"""
GOOSE = """# my extensions
anchors: &same {a: 1}
again: *same
extensions:
  memory:
    type: builtin
    name: memory
  files:
    cmd: npx   # mine
    args:
      - -y
      - some-server   # the one that I like
    enabled: true
    envs: {TOKEN: x}
    type: stdio
"""
CONTINUE = """name: mine
mcpServers:
  - name: first
    command: first-server
  - name: files
    command: 'npx'
    args: [-y, some-server]   # the one that I like
    env:
      TOKEN: x
"""
CODEX = """model = "o4"   # mine

[mcp_servers.first]
command = "first-server"

[mcp_servers."files"]
command = 'npx'   # mine
args = [
  "-y",           # say yes
  "some-server",
]
env = { "TOKEN" = "x" }

[other]
when = 2026-01-01
"""
OPENCODE = """{
  "$schema": "https://opencode.ai/config.json",
  "mcp": {
    "files": {
      "type": "local",
      "command": ["npx", "-y", "some-server"],  // mine
      "environment": {"TOKEN": "x"},
    },
  },
}
"""

ROWS: dict[str, tuple[str, str, str]] = {
    "claude-code": ("user", ".claude.json", JSON % "mcpServers"),
    "claude-desktop": ("user", ".config/Claude/claude_desktop_config.json", JSON % "mcpServers"),
    "cursor": ("project", ".cursor/mcp.json", JSON % "mcpServers"),
    "vscode": ("project", ".vscode/mcp.json", JSON % "servers"),
    "vscode-insiders": ("user", ".config/Code - Insiders/User/profiles/p1/mcp.json", JSON % "servers"),
    "windsurf": ("user", ".codeium/windsurf/mcp_config.json", JSON % "mcpServers"),
    "devin": ("user", ".config/devin/mcp_config.json", JSON % "mcpServers"),
    "codex": ("user", ".codex/config.toml", CODEX),
    "gemini": ("user", ".gemini/settings.json", JSON % "mcpServers"),
    "zed": ("user", ".config/zed/settings.json", JSON % "context_servers"),
    "cline": ("user", ".cline/data/settings/cline_mcp_settings.json", JSON % "mcpServers"),
    "goose": ("user", ".config/goose/config.yaml", GOOSE),
    "continue": ("user", ".continue/config.yaml", CONTINUE),
    "jetbrains": ("user", ".ai/mcp/mcp.json", JSON % "mcpServers"),
    "junie": ("project", ".junie/mcp/mcp.json", JSON % "mcpServers"),
    "copilot-jetbrains": ("user", ".config/github-copilot/intellij/mcp.json", JSON % "servers"),
    "lmstudio": ("user", ".lmstudio/mcp.json", JSON % "mcpServers"),
    "opencode": ("user", ".config/opencode/opencode.json", OPENCODE),
    "copilot-cli": ("user", ".copilot/mcp-config.json", JSON % "mcpServers"),
    "kiro": ("user", ".kiro/settings/mcp.json", JSON % "mcpServers"),
    "amp": ("user", ".config/amp/settings.json", JSON % "amp.mcpServers"),
    "antigravity": ("user", ".gemini/antigravity/mcp_config.json", JSON % "mcpServers"),
}
"""One fixture for each row of the table of clients: scope, file, text. The server is called `files`."""


class Home:
    """A home folder and a project in it."""

    def __init__(self, root: Path) -> None:
        self.root = root / "home"
        self.project = self.root / "work" / "project"
        self.project.mkdir(parents=True)

    def write(self, scope: str, name: str, text: str | bytes) -> Path:
        path = (self.project if scope == "project" else self.root) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def environment(self, **more: str) -> dict[str, str]:
        keep = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {**keep, "HOME": str(self.root), "TERM": "dumb", **more}

    def run(
        self, *words: str, typed: str | None = None, penstock: Path = PENSTOCK, **env: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(penstock), *words],
            cwd=self.project,
            env=self.environment(**env),
            input=typed,
            stdin=subprocess.DEVNULL if typed is None else None,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    @property
    def state(self) -> Path:
        return self.root / ".local" / "state" / "penstock"


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
