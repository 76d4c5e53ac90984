"""Servers of the official SDKs, run live, as readers of values: what does a tool get of what was sent?"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from typing import Any

import pytest

from gate import ROOT
from node_reader import maybe_node

_PYTHON = str(ROOT / "tests" / "upstreams" / "converting_server.py")
_NODE = str(ROOT / "tests" / "upstreams" / "converting_server.mjs")
_OLD = ROOT / ".peers" / "mcp1" / "bin" / "python"
_PEERS = ROOT / ".peers" / "node" / "node_modules" / "@modelcontextprotocol"

COMMANDS: dict[str, list[str]] = {
    "python 2.x": [sys.executable, _PYTHON],
    "python 1.x": [str(_OLD), _PYTHON],
    "typescript 1.x": [maybe_node() or "node", _NODE, "1"],
    "typescript 2.x": [maybe_node() or "node", _NODE, "2"],
}

_needs_old = [
    pytest.mark.peers,
    pytest.mark.skipif(not _OLD.exists(), reason="run scripts/peers_setup first"),
]


def _needs_node(package: str) -> list[pytest.MarkDecorator]:
    reason = f"{package} is not installed: run scripts/node_setup first"
    return [pytest.mark.node, pytest.mark.skipif(not (_PEERS / package).exists(), reason=reason)]


SDKS = [
    pytest.param("python 2.x"),
    pytest.param("python 1.x", marks=_needs_old),
    pytest.param("typescript 1.x", marks=_needs_node("sdk")),
    pytest.param("typescript 2.x", marks=_needs_node("server")),
]


class SdkServer:
    """One server, spoken with directly over its pipes."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._last = 0
        info = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        self.ask("initialize", json.dumps(info).encode())
        self._say(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def __enter__(self) -> SdkServer:
        return self

    def __exit__(self, *why: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(20)

    def _say(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()

    def ask(self, method: str, params: bytes) -> dict[str, Any]:
        """The response to a request with these params, as written."""
        self._last += 1
        self._say(
            b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}' % (self._last, method.encode(), params)
        )
        assert self._process.stdout is not None
        while True:
            line = self._process.stdout.readline()
            assert line, "the server ended"
            found: dict[str, Any] = json.loads(line)
            if found.get("id") == self._last:
                return found

    def maybe_given(self, tool: str, arguments: bytes) -> dict[str, Any] | None:
        """What the tool was given; None when it was not run."""
        answer = self.ask("tools/call", b'{"name":"%b","arguments":%b}' % (tool.encode(), arguments))
        result = answer.get("result") or {}
        if result.get("isError") or "content" not in result:
            return None
        given: dict[str, Any] = json.loads(result["content"][0]["text"])
        return given

    def maybe_read(self, uri: str) -> dict[str, Any] | None:
        """What the resource was asked for; None when it was not read."""
        answer = self.ask("resources/read", json.dumps({"uri": uri}).encode())
        contents = (answer.get("result") or {}).get("contents")
        return json.loads(contents[0]["text"]) if contents else None


@functools.cache
def sdk_server(sdk: str) -> SdkServer:
    """The one process of each kind in this run; it ends when its stdin does."""
    return SdkServer(COMMANDS[sdk])
