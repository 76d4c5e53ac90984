"""A server with tasks, made with the official Python SDK: 1.x has those of 2025-11-25, 2.x those of the
extension for 2026-07-28. Its tools say a secret, as what a task brings."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

SECRET = "the secret is hunter2"
SCHEMA = {"type": "object", "properties": {}}


def legacy() -> None:
    """Tasks as the SDK has them: asked for with `task`, fetched with `tasks/result`."""
    from mcp import types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server

    server: Any = Server("tasks")
    server.experimental.enable_tasks()

    @server.list_tools()
    async def list_tools() -> list[Any]:
        execution = types.ToolExecution(taskSupport="optional")
        return [
            types.Tool(name=name, inputSchema=SCHEMA, execution=execution) for name in ("slow", "write_slow")
        ]

    @server.call_tool()
    async def call_tool(name: str, arguments: dict[str, Any]) -> Any:
        print(f"ran {name}", file=sys.stderr, flush=True)
        answer = types.CallToolResult(content=[types.TextContent(type="text", text=SECRET)])
        context = server.request_context
        if not context.experimental.is_task:
            return answer

        async def work(task: Any) -> Any:
            return answer

        return await context.experimental.run_task(work)

    async def serve() -> None:
        async with stdio_server() as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())

    asyncio.run(serve())


def modern() -> None:
    """Tasks as the extension has them: the answer to a call may be one, and `tasks/get` brings its result."""
    from mcp.server.extension import Extension, MethodBinding
    from mcp.server.mcpserver import MCPServer
    from mcp_types import RequestParams

    class Named(RequestParams):
        """Which task."""

        taskId: str

    task = {"taskId": "t-1", "createdAt": "2026-11-18T00:00:00Z", "lastUpdatedAt": "2026-11-18T00:00:00Z"}
    result = {"content": [{"type": "text", "text": SECRET}], "resultType": "complete"}

    class Tasks(Extension):
        """Makes a task of every call."""

        identifier = "io.modelcontextprotocol/tasks"

        def methods(self) -> list[MethodBinding]:
            return [MethodBinding("tasks/get", Named, self.get)]

        async def get(self, context: Any, params: Named) -> Any:
            return {**task, "status": "completed", "result": result, "resultType": "complete"}

        async def intercept_tool_call(self, params: Any, context: Any, call_next: Any) -> Any:
            print(f"ran {params.name}", file=sys.stderr, flush=True)
            return {**task, "status": "working", "resultType": "task"}

    server = MCPServer("tasks", extensions=[Tasks()])

    @server.tool()
    def slow() -> str:
        """Never runs by itself."""
        return SECRET

    @server.tool()
    def write_slow() -> str:
        """Likewise."""
        return SECRET

    server.run()


if __name__ == "__main__":
    legacy() if sys.argv[1] == "1" else modern()
