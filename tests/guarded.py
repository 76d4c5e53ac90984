"""A listening Penstock that knows its callers, from a configuration that tests write."""

from __future__ import annotations

import hashlib
import json
import socket
from pathlib import Path
from typing import Any

import yaml

from doors import Client, LegacyDoor, Response, SseDoor
from pairs import Proxy, Upstream

POST = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"%b","version":"1"}}}'
)


def row(name: str, token: str, **more: object) -> dict[str, object]:
    """A row of auth.tokens."""
    return {"id": name, "sha256": hashlib.sha256(token.encode()).hexdigest(), **more}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def free_port() -> int:
    """A port that nobody listens on, for what must know it beforehand."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def reach(upstream: Upstream) -> dict[str, Any]:
    """The upstream as the configuration names it."""
    if upstream.transport == "stdio":
        return {"command": upstream.command}
    return {"url": upstream.url}


class Guarded(Proxy):
    """A Proxy with a configuration file; `write` puts another in its place."""

    def __init__(
        self, work: Path, config: dict[str, Any], *options: str, listen: str = "0", wait: bool = True
    ) -> None:
        self.file = work / "penstock.yaml"
        self.write(config)
        super().__init__(work, ["--config", str(self.file)], *options, listen=listen, wait=wait)

    def write(self, config: dict[str, Any]) -> None:
        # In one step, so that nobody reads half of it.
        fresh = self.file.with_suffix(".new")
        fresh.write_text(yaml.safe_dump(config, sort_keys=False))
        fresh.replace(self.file)

    def door(
        self, token: str | None = None, era: str = "legacy", path: str = "/mcp", **more: str
    ) -> LegacyDoor:
        """A client of Streamable HTTP, not yet begun."""
        headers = {name.replace("_", "-"): value for name, value in more.items()}
        door = LegacyDoor(self.port, era, {**(bearer(token) if token else {}), **headers}, listens=False)
        door.path = path
        return door

    def sse(self, token: str | None = None, path: str = "/sse") -> SseDoor:
        """A client of the older transport."""

        class At(SseDoor):
            pass

        At.path = path
        return At(self.port, "legacy", bearer(token) if token else {})

    def hello(
        self, token: str | None = None, path: str = "/mcp", name: str = "test", **more: str
    ) -> Response:
        """What the first request of a client is answered."""
        door = self.door(token, path=path, **more)
        return door.whole("POST", path, POST, INITIALIZE % name.encode())


def tools_of(door: Client) -> list[str]:
    """The names of the tools that a client sees."""
    found = door.ask("tools/list")
    return [tool["name"] for tool in found["result"]["tools"]]


def shown(response: Response) -> Any:
    """The JSON in a response."""
    return json.loads(bytes(response.body))
