"""Asking a modern upstream for its tools once more, because a call lacked headers that one of them wants."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from penstock.errors import ProtocolError, UpstreamError
from penstock.relay.tool_list_pages import ToolListPages
from penstock.wire.mcp.eras import maybe_modern_meta
from penstock.wire.mcp.message import Batch, Message, read_upstream_message


async def relist(ask: Callable[[Message], Awaitable[bytes]], call: Message) -> None:
    """Walks through the tool list on behalf of `call`; whoever carries the answers learns from them."""
    fetch = ToolListPages(maybe_modern_meta(call.params))
    request: Message | None = fetch.first_request()
    try:
        while request is not None:
            page = read_upstream_message(await ask(request))
            if isinstance(page, Batch):
                return
            request = fetch.take(page)
    except (ProtocolError, UpstreamError):
        return
