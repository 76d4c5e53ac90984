"""Node's own JSON.parse, in a process that stays open."""

from __future__ import annotations

import base64
import functools
import json
import shutil
import subprocess
from typing import Any

from gate import ROOT

_SCRIPT = ROOT / "tests" / "node" / "json_reader.mjs"
_OWN = ROOT / ".peers" / "node" / "node_modules" / ".bin" / "node"


def maybe_node() -> str | None:
    """The Node that scripts/node_setup brought, or else the machine's."""
    return str(_OWN) if _OWN.exists() else shutil.which("node")


class NodeReader:
    """One Node process, asked line by line."""

    def __init__(self, node: str) -> None:
        self._process = subprocess.Popen(
            [node, str(_SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self._out: Any = self._process.stdout

    def __call__(self, raw: bytes) -> list[Any]:
        """What JSON.parse makes of `raw`: one value, or none."""
        assert self._process.stdin is not None
        self._process.stdin.write(base64.b64encode(raw) + b"\n")
        line = bytearray()
        while not line.endswith(b"\n"):
            piece = self._out.read(1 << 20)
            assert piece, "Node ended"
            line += piece
        try:
            return [json.loads(line)] if line.strip() else []
        except RecursionError:  # deeper than Python can follow, and far deeper than the gate lets pass
            return []


@functools.cache
def node_reader() -> NodeReader:
    """The one process of this run; it ends when its stdin does."""
    node = maybe_node()
    assert node is not None
    return NodeReader(node)
