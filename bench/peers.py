"""Peers from PyPI and npm, where `make bench-peers` has installed them, each started as its own pages say."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.targets import ROOT, Place, Spec

HOME = ROOT / ".peers" / "bench"


@dataclass(frozen=True)
class Peer:
    """A program, and how it is told of every pair of transports that it can stand between."""

    name: str
    binary: Path
    pairs: dict[tuple[str, str], Callable[[Place], list[str]]]

    def is_there(self) -> bool:
        return self.binary.exists()

    def spec(self, front: str, back: str) -> Spec:
        words = self.pairs[front, back]
        return Spec(
            self.name,
            front,
            back,
            lambda place: [str(self.binary), *words(place)],
            is_peer=True,
            # What a program may keep in its user's home goes where the run's own files go.
            keeps_home=False,
        )


def _one_server(place: Place) -> str:
    """A file that names the upstream, for programs that take nothing else."""
    command, *words = place.words()
    server = {"url": command} if place.back != "stdio" else {"command": command, "args": words}
    file = place.work / f"servers-{place.port}.json"
    file.write_text(json.dumps({"mcpServers": {"upstream": server}}))
    return str(file)


def _url(place: Place) -> str:
    return place.words()[0]


def _fastmcp(front: str) -> Callable[[Place], list[str]]:
    def words(place: Place) -> list[str]:
        spec = _one_server(place) if place.back == "stdio" else _url(place)
        listen = [] if front == "stdio" else ["--host", "127.0.0.1", "--port", str(place.port)]
        return ["run", spec, "--no-banner", "--log-level", "ERROR", "--transport", front, *listen]

    return words


def _pypi_mcp_proxy_serves(place: Place) -> list[str]:
    return ["--log-level", "ERROR", "--port", str(place.port), "--", *place.words()]


def _pypi_mcp_proxy_calls(transport: str) -> Callable[[Place], list[str]]:
    return lambda place: ["--log-level", "ERROR", "--transport", transport, _url(place)]


def _supergateway_serves(transport: str) -> Callable[[Place], list[str]]:
    def words(place: Place) -> list[str]:
        more = ["--stateful"] if transport == "streamableHttp" else []
        return [
            *("--stdio", shlex.join(place.words())),
            *("--outputTransport", transport, "--port", str(place.port), "--logLevel", "none"),
            *more,
        ]

    return words


def _npm_mcp_proxy_serves(kind: str) -> Callable[[Place], list[str]]:
    return lambda place: [
        *("--port", str(place.port), "--host", "127.0.0.1", "--server", kind, "--"),
        *place.words(),
    ]


FRONTS = ("stdio", "http", "sse")
PEERS = [
    Peer(
        "mcp-proxy (PyPI)",
        HOME / "mcp-proxy" / "bin" / "mcp-proxy",
        {
            ("http", "stdio"): _pypi_mcp_proxy_serves,
            ("sse", "stdio"): _pypi_mcp_proxy_serves,
            ("stdio", "http"): _pypi_mcp_proxy_calls("streamablehttp"),
            ("stdio", "sse"): _pypi_mcp_proxy_calls("sse"),
        },
    ),
    Peer(
        "fastmcp run",
        HOME / "fastmcp" / "bin" / "fastmcp",
        {(front, back): _fastmcp(front) for front in FRONTS for back in FRONTS},
    ),
    Peer(
        "supergateway",
        HOME / "node" / "node_modules" / ".bin" / "supergateway",
        {
            ("http", "stdio"): _supergateway_serves("streamableHttp"),
            ("sse", "stdio"): _supergateway_serves("sse"),
            ("stdio", "http"): lambda place: ["--streamableHttp", _url(place), "--logLevel", "none"],
            ("stdio", "sse"): lambda place: ["--sse", _url(place), "--logLevel", "none"],
        },
    ),
    Peer(
        "mcp-proxy (npm)",
        HOME / "node" / "node_modules" / ".bin" / "mcp-proxy",
        {("http", "stdio"): _npm_mcp_proxy_serves("stream"), ("sse", "stdio"): _npm_mcp_proxy_serves("sse")},
    ),
    Peer(
        "mcp-remote",
        HOME / "node" / "node_modules" / ".bin" / "mcp-remote",
        {
            ("stdio", "http"): lambda place: [_url(place), "--transport", "http-only", "--allow-http"],
            ("stdio", "sse"): lambda place: [_url(place), "--transport", "sse-only", "--allow-http"],
        },
    ),
]


def peers_for(front: str, back: str) -> list[Spec]:
    """Those that are installed and can stand between these two transports."""
    return [peer.spec(front, back) for peer in PEERS if (front, back) in peer.pairs and peer.is_there()]


def versions() -> dict[str, str]:
    """What is installed."""
    found = {}
    for name in ("mcp-proxy", "fastmcp"):
        for info in (HOME / name).glob(f"lib/python*/site-packages/{name.replace('-', '_')}-*.dist-info"):
            found[f"{name} (PyPI)"] = info.name.removesuffix(".dist-info").rpartition("-")[2]
    for name in ("supergateway", "mcp-proxy", "mcp-remote"):
        file = HOME / "node" / "node_modules" / name / "package.json"
        if file.exists():
            found[f"{name} (npm)"] = json.loads(file.read_text())["version"]
    return found
