"""Drives the Python SDK 2.x as a client. See driver.py for the command line and what is printed."""

from __future__ import annotations

import importlib.metadata
import os
import warnings
from typing import Any

import anyio
import mcp_types as types
from driver import CONNECT_SECONDS, MODERN, Report, an_answer_for, error_of, parse
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

# Sampling, roots and logging are deprecated, and still something that a proxy has to carry.
warnings.filterwarnings("ignore", category=MCPDeprecationWarning)

report = Report(f"mcp {importlib.metadata.version('mcp')}")


async def elicited(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    report.asked.append("elicitation/create")
    return types.ElicitResult(action="accept", content=an_answer_for(getattr(params, "requested_schema", {})))


async def sampled(context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    report.asked.append("sampling/createMessage")
    words = types.TextContent(text="a sample")
    return types.CreateMessageResult(role="assistant", content=words, model="none", stop_reason="endTurn")


async def listed_roots(context: Any) -> types.ListRootsResult:
    report.asked.append("roots/list")
    return types.ListRootsResult(
        roots=[types.Root(uri=os.environ.get("DRIVER_ROOT", "file:///somewhere"), name="somewhere")]
    )


async def logged(params: types.LoggingMessageNotificationParams) -> None:
    report.logs.append(params.data)


async def all_tools(client: Client) -> list[str]:
    names: list[str] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        names += [tool.name for tool in page.tools]
        if page.next_cursor is None:
            return names
        cursor = page.next_cursor


async def drive(chosen: Any) -> None:
    if chosen.stdio:
        server: Any = StdioServerParameters(command=chosen.stdio[0], args=chosen.stdio[1:])
    else:
        server = chosen.http or sse_client(chosen.sse)
    client = Client(
        server,
        mode={"auto": "auto", "legacy": "legacy", "modern": MODERN}[chosen.era],
        read_timeout_seconds=CONNECT_SECONDS,
        elicitation_callback=elicited,
        sampling_callback=sampled,
        list_roots_callback=listed_roots,
        logging_callback=logged,
        log_level="debug",
    )
    async with client:
        report.version = client.protocol_version
        report.server = client.server_info.name if client.server_info else None
        report.tools = await all_tools(client)
        for name, arguments in chosen.call:
            try:
                result = await client.call_tool(name, arguments, progress_callback=report.note_progress)
            except MCPError as why:
                report.calls.append({"error": error_of(why)})
            else:
                report.calls.append(result.model_dump(mode="json", by_alias=True, exclude_none=True))
        report.ok = True


if __name__ == "__main__":
    arguments = parse(eras=("auto", "legacy", "modern"))
    try:
        anyio.run(drive, arguments)
    except BaseException as why:
        report.blame(why)
    report.finish()
