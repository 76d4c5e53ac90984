"""Leading clients of Streamable HTTP to the door of their era."""

from __future__ import annotations

from penstock.downstream.mcp_head import Door, read_head
from penstock.downstream.replies import refuse
from penstock.net.http_exchange import Reply, Request
from penstock.wire.mcp.eras import Era


def by_era(legacy: Door, modern: Door) -> Door:
    """A door that leads on to one of these."""

    def handle(request: Request, reply: Reply) -> None:
        head = read_head(request)
        if head.is_version_repeated:
            refuse(reply, 400, "Invalid request: repeated MCP-Protocol-Version")
        elif head.era is Era.MODERN:
            modern(request, reply)
        else:
            legacy(request, reply)

    return handle
