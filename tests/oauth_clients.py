"""The SDKs' own OAuth providers, each driven by a small client of its own."""

from __future__ import annotations

import sys

import pytest

from gate import ROOT

NODE = ROOT / ".peers" / "node" / "node_modules" / ".bin" / "node"
OLD_PYTHON = ROOT / ".peers" / "mcp1" / "bin" / "python"
CLIENTS = ROOT / "tests" / "e2e" / "clients"
PYTHON_CLIENT, NODE_CLIENT = str(CLIENTS / "oauth_client.py"), str(CLIENTS / "oauth_client.mjs")
node = [pytest.mark.node, pytest.mark.skipif(not NODE.exists(), reason="run scripts/node_setup first")]
peers = [
    pytest.mark.peers,
    pytest.mark.skipif(not OLD_PYTHON.exists(), reason="run scripts/peers_setup first"),
]
CLIENT = pytest.mark.parametrize(
    "client",
    [
        pytest.param([sys.executable, PYTHON_CLIENT], id="python 2.x"),
        pytest.param([str(OLD_PYTHON), PYTHON_CLIENT], id="python 1.x", marks=peers),
        pytest.param([str(NODE), NODE_CLIENT, "1"], id="typescript 1.x", marks=node),
        pytest.param([str(NODE), NODE_CLIENT, "2"], id="typescript 2.x", marks=node),
    ],
)
