"""Drives one published Python client: lists the tools and calls echo. Runs in that client's own environment.

    clients.py PACKAGE http URL
    clients.py PACKAGE stdio COMMAND ARGUMENT...

Prints one line of JSON: {"tools": [...], "said": "..."} or {"error": "..."}.
"""

# mypy: ignore-errors
from __future__ import annotations

import asyncio
import contextlib
import io
import json
import sys

PACKAGE, KIND, *TARGET = sys.argv[1:]
WORDS = {"message": "said"}


def text_of(result):
    """The text in whatever a client makes of a result."""
    for name in ("content", "contents"):
        parts = getattr(result, name, None)
        if parts:
            return getattr(parts[0], "text", str(parts[0]))
    return str(result)


async def sdk():
    from mcp import ClientSession, StdioServerParameters, stdio_client
    from mcp.client.streamable_http import streamable_http_client

    server = StdioServerParameters(command=TARGET[0], args=TARGET[1:])
    link = stdio_client(server) if KIND == "stdio" else streamable_http_client(TARGET[0])
    async with link as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        listed = await session.list_tools()
        return [tool.name for tool in listed.tools], text_of(await session.call_tool("echo", WORDS))


async def fastmcp():
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    async with Client(StdioTransport(TARGET[0], TARGET[1:]) if KIND == "stdio" else TARGET[0]) as client:
        tools = await client.list_tools()
        return [tool.name for tool in tools], text_of(await client.call_tool("echo", WORDS))


async def mcp_use():
    from mcp_use import MCPClient

    entry = {"command": TARGET[0], "args": TARGET[1:]} if KIND == "stdio" else {"url": TARGET[0]}
    client = MCPClient.from_dict({"mcpServers": {"s": entry}})
    session = await client.create_session("s")
    try:
        tools = await session.list_tools()
        return [tool.name for tool in tools], text_of(await session.call_tool("echo", WORDS))
    finally:
        await client.close_all_sessions()


async def langchain():
    from langchain_mcp_adapters.client import MultiServerMCPClient

    entry = {"transport": "streamable_http", "url": TARGET[0]}
    if KIND == "stdio":
        entry = {"transport": "stdio", "command": TARGET[0], "args": TARGET[1:]}
    tools = await MultiServerMCPClient({"s": entry}).get_tools()
    echo = next(tool for tool in tools if tool.name == "echo")
    return [tool.name for tool in tools], str(await echo.ainvoke(WORDS))


async def pydantic_ai():
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai import mcp

    server = mcp.MCPToolset(StdioTransport(TARGET[0], TARGET[1:]) if KIND == "stdio" else TARGET[0])
    async with server:
        tools = await server.list_tools()
        return [tool.name for tool in tools], str(await server.direct_call_tool("echo", WORDS))


async def openai_agents():
    from agents.mcp import MCPServerStdio, MCPServerStreamableHttp

    if KIND == "stdio":
        server = MCPServerStdio({"command": TARGET[0], "args": TARGET[1:]}, client_session_timeout_seconds=30)
    else:
        server = MCPServerStreamableHttp({"url": TARGET[0]}, client_session_timeout_seconds=30)
    async with server:
        tools = await server.list_tools()
        return [tool.name for tool in tools], text_of(await server.call_tool("echo", WORDS))


async def llama_index():
    from llama_index.tools.mcp import BasicMCPClient

    client = BasicMCPClient(TARGET[0], args=TARGET[1:]) if KIND == "stdio" else BasicMCPClient(TARGET[0])
    listed = await client.list_tools()
    return [tool.name for tool in listed.tools], text_of(await client.call_tool("echo", WORDS))


async def agno():
    from agno.tools.mcp import MCPTools
    from mcp import StdioServerParameters

    server = StdioServerParameters(command=TARGET[0], args=TARGET[1:])
    made = (
        MCPTools(server_params=server, timeout_seconds=30)
        if KIND == "stdio"
        else MCPTools(transport="streamable-http", url=TARGET[0], timeout_seconds=30)
    )
    async with made as tools:
        return list(tools.functions), text_of(await tools.session.call_tool("echo", WORDS))


async def strands():
    from mcp import StdioServerParameters, stdio_client
    from mcp.client.streamable_http import streamable_http_client
    from strands.tools.mcp import MCPClient

    server = StdioServerParameters(command=TARGET[0], args=TARGET[1:])

    def work():
        make = (
            (lambda: stdio_client(server)) if KIND == "stdio" else (lambda: streamable_http_client(TARGET[0]))
        )
        with MCPClient(make) as client:
            tools = client.list_tools_sync()
            called = client.call_tool_sync("1", "echo", WORDS)
            return [tool.tool_name for tool in tools], str(called["content"])

    return await asyncio.to_thread(work)


async def autogen():
    from autogen_core import CancellationToken
    from autogen_ext.tools.mcp import StdioServerParams, StreamableHttpServerParams, mcp_server_tools

    params = (
        StdioServerParams(command=TARGET[0], args=TARGET[1:], read_timeout_seconds=30)
        if KIND == "stdio"
        else StreamableHttpServerParams(url=TARGET[0])
    )
    tools = await mcp_server_tools(params)
    echo = next(tool for tool in tools if tool.name == "echo")
    said = await echo.run_json(WORDS, CancellationToken())
    return [tool.name for tool in tools], str(said)


async def haystack():
    from haystack_integrations.tools.mcp import MCPToolset, StdioServerInfo, StreamableHttpServerInfo

    info = (
        StdioServerInfo(command=TARGET[0], args=TARGET[1:])
        if KIND == "stdio"
        else StreamableHttpServerInfo(url=TARGET[0])
    )

    def work():
        tools = MCPToolset(info, eager_connect=True)
        echo = next(tool for tool in tools if tool.name == "echo")
        return [tool.name for tool in tools], str(echo.invoke(**WORDS))

    return await asyncio.to_thread(work)


async def adk():
    from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams, StreamableHTTPConnectionParams
    from mcp import StdioServerParameters

    server = StdioServerParameters(command=TARGET[0], args=TARGET[1:])
    params = (
        StdioConnectionParams(server_params=server, timeout=30)
        if KIND == "stdio"
        else StreamableHTTPConnectionParams(url=TARGET[0], timeout=30)
    )
    toolset = McpToolset(connection_params=params)
    tools = await toolset.get_tools()
    echo = next(tool for tool in tools if tool.name == "echo")
    said = await echo.run_async(args=WORDS, tool_context=_Nobody())
    await toolset.close()
    return [tool.name for tool in tools], str(said)


class _Nobody:
    """Stands for the agent that would call."""

    def __getattr__(self, name):
        return None


async def smolagents():
    from mcp import StdioServerParameters
    from smolagents import MCPClient

    server = StdioServerParameters(command=TARGET[0], args=TARGET[1:])
    where = server if KIND == "stdio" else {"url": TARGET[0], "transport": "streamable-http"}

    def work():
        with MCPClient(where, structured_output=False) as tools:
            echo = next(tool for tool in tools if tool.name == "echo")
            return [tool.name for tool in tools], str(echo(**WORDS))

    return await asyncio.to_thread(work)


CLIENTS = {
    "mcp": sdk,
    "mcp<2": sdk,
    "fastmcp": fastmcp,
    "mcp-use": mcp_use,
    "langchain-mcp-adapters": langchain,
    "pydantic-ai-slim[mcp]": pydantic_ai,
    "openai-agents": openai_agents,
    "llama-index-tools-mcp": llama_index,
    "agno": agno,
    "strands-agents": strands,
    "autogen-ext[mcp]": autogen,
    "mcp-haystack": haystack,
    "google-adk": adk,
    "smolagents[mcp]": smolagents,
}


def main() -> None:
    """One client, one line."""
    noise = io.StringIO()
    try:
        with contextlib.redirect_stdout(noise):
            tools, said = asyncio.run(CLIENTS[PACKAGE]())
        report = {"tools": tools, "said": said}
    except BaseException as why:
        while isinstance(why, BaseExceptionGroup):
            why = why.exceptions[0]
        report = {"error": f"{type(why).__name__}: {why}"}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
