"""Tries published MCP servers behind Penstock and writes what came of each into docs/real-world.md.

.venv/bin/python scripts/real_world.py          prints the table
.venv/bin/python scripts/real_world.py --write  writes docs/real-world.md

A server that is not installed here has a row that says so. Each is asked directly and through Penstock: over
stdio, and over HTTP with a filter; the tools must be the same, but for what the filter hides.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
NODE = ROOT / ".peers" / "node" / "node_modules" / ".bin"
PYTHON = ROOT / ".peers" / "mcp1" / "bin"
PAGE = ROOT / "docs" / "real-world.md"
CAPABILITIES = {"roots": {}, "sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}}}
HEAD = """# Published servers behind Penstock

Made by `make real-world`. Each server is asked for its tools directly, through Penstock over stdio, and by
`penstock tools` with the first tool denied. "same" means: the same tools in the same order, value for value.

| server | tools | over stdio | with the first tool denied |
|---|---|---|---|
"""


class Server(NamedTuple):
    """A published server and how it is started; `work` is a directory it may use."""

    name: str
    program: Path
    arguments: tuple[str, ...] = ()


SERVERS = (
    Server("@modelcontextprotocol/server-everything", NODE / "mcp-server-everything"),
    Server("@modelcontextprotocol/server-filesystem", NODE / "mcp-server-filesystem", ("{work}",)),
    Server("@modelcontextprotocol/server-github", NODE / "mcp-server-github"),
    Server("@modelcontextprotocol/server-memory", NODE / "mcp-server-memory"),
    Server("@modelcontextprotocol/server-sequential-thinking", NODE / "mcp-server-sequential-thinking"),
    Server("mcp-server-fetch", PYTHON / "mcp-server-fetch"),
    Server("mcp-server-git", PYTHON / "mcp-server-git"),
    Server("mcp-server-time", PYTHON / "mcp-server-time"),
)


def tools_of(command: list[str]) -> list[dict[str, Any]]:
    """The tools that a command on stdio lists to a client that can do everything."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def say(**message: Any) -> None:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            process.stdin.flush()

        def answer(number: int) -> Any:
            while line := process.stdout.readline():
                message = json.loads(line)
                if message.get("id") == number and "method" not in message:
                    return message["result"]
                if "method" in message and "id" in message:
                    say(id=message["id"], result={"roots": []})
            raise EOFError(f"{command[0]} ended")

        client = {"name": "real-world", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "clientInfo": client}
        say(id=1, method="initialize", params=params)
        answer(1)
        say(method="notifications/initialized")
        time.sleep(0.5)  # some add tools when they have heard what the client can do
        say(id=2, method="tools/list", params={})
        found: list[dict[str, Any]] = answer(2)["tools"]
        process.stdin.close()
        return found


def row(server: Server, work: str) -> tuple[str, bool]:
    """The row of a server, and whether all is as it should be."""
    if not server.program.exists():
        return f"| {server.name} | not installed here | | |", True
    command = [str(server.program), *(word.format(work=work) for word in server.arguments)]
    penstock = [sys.executable, "-m", "penstock"]
    direct = tools_of(command)
    through = tools_of([*penstock, "--stdio", "--", *command])
    first = direct[0]["name"]
    shown = subprocess.run(
        [*penstock, "tools", "--deny", f"^{first}$", "--format", "names", "--", *command],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    is_same = through == direct
    kept = shown.stdout.split()
    missing = [tool["name"] for tool in direct[1:] if tool["name"] not in kept]
    is_hidden = first not in kept and not missing
    words = f"{first} is gone, {len(kept)} are left" if is_hidden else f"missing: {', '.join(missing)}"
    return f"| {server.name} | {len(direct)} | {'same' if is_same else 'DIFFERENT'} | {words} |", (
        is_same and is_hidden
    )


def main() -> int:
    """Prints or writes the table; 1 when a server is not served as it should be."""
    with tempfile.TemporaryDirectory() as work:
        rows = [row(server, work) for server in SERVERS]
    text = HEAD + "\n".join(line for line, _ in rows) + "\n"
    if "--write" in sys.argv:
        PAGE.write_text(text)
    else:
        sys.stdout.write(text)
    return 0 if all(is_right for _, is_right in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
