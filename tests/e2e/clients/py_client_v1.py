"""Drives the Python SDK 1.x, which knows no era but the legacy one, as a client.

It runs in the environment that `scripts/peers_setup` makes. See driver.py for the command line.
"""

from __future__ import annotations

import importlib.metadata
import os
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import anyio
from driver import CONNECT_SECONDS, Report, an_answer_for, error_of, parse
from mcp import ClientSession, McpError, StdioServerParameters, stdio_client, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

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


async def called(session: ClientSession, name: str, arguments: Any) -> dict[str, Any]:
    try:
        result = await session.call_tool(name, arguments, progress_callback=report.note_progress)
    except McpError as why:
        return {"error": error_of(why)}
    answer: dict[str, Any] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return answer


async def call_all(session: ClientSession, chosen: Any) -> None:
    report.calls = [{} for _ in chosen.call]

    async def one(place: int, name: str, arguments: Any) -> None:
        report.calls[place] = await called(session, name, arguments)

    async with anyio.create_task_group() as group:
        for place, (name, arguments) in enumerate(chosen.call):
            if chosen.at_once:
                group.start_soon(one, place, name, arguments)
            else:
                await one(place, name, arguments)


async def drive(chosen: Any) -> None:
    token = os.environ.get("DRIVER_TOKEN")
    shown = {"Authorization": f"Bearer {token}"} if token else {}
    async with AsyncExitStack() as stack:
        if chosen.stdio:
            server = StdioServerParameters(command=chosen.stdio[0], args=chosen.stdio[1:])
            incoming, outgoing = await stack.enter_async_context(stdio_client(server))
        elif chosen.sse:
            incoming, outgoing = await stack.enter_async_context(sse_client(chosen.sse, headers=shown))
        else:
            web = await stack.enter_async_context(create_mcp_http_client(headers=shown))
            link = streamable_http_client(chosen.http, http_client=web)
            incoming, outgoing, _ = await stack.enter_async_context(link)
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
        await call_all(session, chosen)
        report.ok = True


if __name__ == "__main__":
    arguments = parse(eras=("legacy",))
    try:
        anyio.run(drive, arguments)
    except BaseException as why:
        report.blame(why)
    report.finish()
