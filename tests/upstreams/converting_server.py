"""A server made with the official Python SDK, 1.x or 2.x: says what its tools and resources were given.

Its tools are typed as people type them. Whatever the SDK converts before it calls them shows in the answer.
"""

from __future__ import annotations

import json
from typing import Any

try:
    from mcp.server.mcpserver import MCPServer as Server
except ImportError:  # SDK 1.x
    from mcp.server.fastmcp import FastMCP as Server  # type: ignore[no-redef, import-not-found]

server = Server("converting")


@server.tool()
def typed(
    count: int = 0,
    ratio: float = 0.0,
    sudo: bool = False,
    paths: list[str] | None = None,
    options: dict[str, Any] | None = None,
    text: str = "",
    anything: Any = None,
) -> str:
    """Says what it was given."""
    return json.dumps(
        {
            "count": count,
            "ratio": ratio,
            "sudo": sudo,
            "paths": paths,
            "options": options,
            "text": text,
            "anything": anything,
        }
    )


@server.resource("vault://{area}/{name}")
def vault(area: str, name: str) -> str:
    """Says which of its resources was read."""
    return json.dumps({"area": area, "name": name})


if __name__ == "__main__":
    server.run()
