"""Drives the Python SDK 1.x, which knows no era but the legacy one, as a client.

It runs in the environment that `scripts/peers_setup` makes. See driver.py for the command line.
"""

from __future__ import annotations

import importlib.metadata
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import anyio
from driver import CONNECT_SECONDS, Report, an_answer_for, error_of, parse
from mcp import ClientSession, McpError, StdioServerParameters, stdio_client, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

report = Report(f"mcp {importlib.metadata.version('mcp')}")


async def elicited(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    report.asked.append("elicitation/create")
    return types.ElicitResult(action="accept", content=an_answer_for(getattr(params, "requestedSchema", {})))


async def sampled(context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    report.asked.append("sampling/createMessage")
    words = types.TextContent(type="text", text="a sample")
    return types.CreateMessageResult(role="assistant", content=words, model="none", stopReason="endTurn")


async def listed_roots(context: Any) -> types.ListRootsResult:
    report.asked.append("roots/list")
    return types.ListRootsResult(roots=[types.Root(uri="file:///somewhere", name="somewhere")])


async def logged(params: types.LoggingMessageNotificationParams) -> None:
    report.logs.append(params.data)


async def all_tools(session: ClientSession) -> list[str]:
    names: list[str] = []
    cursor: str | None = None
    while True:
        page = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
        names += [tool.name for tool in page.tools]
        if page.nextCursor is None:
            return names
        cursor = page.nextCursor


async def drive(chosen: Any) -> None:
    async with AsyncExitStack() as stack:
        if chosen.stdio:
            server = StdioServerParameters(command=chosen.stdio[0], args=chosen.stdio[1:])
            incoming, outgoing = await stack.enter_async_context(stdio_client(server))
        elif chosen.sse:
            incoming, outgoing = await stack.enter_async_context(sse_client(chosen.sse))
        else:
            incoming, outgoing, _ = await stack.enter_async_context(streamable_http_client(chosen.http))
        session = await stack.enter_async_context(
            ClientSession(
                incoming,
                outgoing,
                read_timeout_seconds=timedelta(seconds=CONNECT_SECONDS),
                elicitation_callback=elicited,
                sampling_callback=sampled,
                list_roots_callback=listed_roots,
                logging_callback=logged,
            )
        )
        server_info = await session.initialize()
        report.version = str(server_info.protocolVersion)
        report.server = server_info.serverInfo.name
        report.tools = await all_tools(session)
        for name, arguments in chosen.call:
            try:
                result = await session.call_tool(name, arguments, progress_callback=report.note_progress)
            except McpError as why:
                report.calls.append({"error": error_of(why)})
            else:
                report.calls.append(result.model_dump(mode="json", by_alias=True, exclude_none=True))
        report.ok = True


if __name__ == "__main__":
    arguments = parse(eras=("legacy",))
    try:
        anyio.run(drive, arguments)
    except BaseException as why:
        report.blame(why)
    report.finish()
