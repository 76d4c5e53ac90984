"""An SDK client before Penstock, for the suites that judge clients: they see Penstock, and this drives it.

    judged.py ERA OTHER URL

ERA is what the client speaks, OTHER what the suite's server at URL speaks. It lists everything there
is, calls every tool with something that fits, or what the suite says in MCP_CONFORMANCE_CONTEXT, gets every
prompt and reads every resource.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import anyio
import mcp_types as types
from driver import CONNECT_SECONDS, MODERN, an_answer_for
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError


async def elicited(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=an_answer_for(getattr(params, "requested_schema", {})))


async def sampled(context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    words = types.TextContent(text="a sample")
    return types.CreateMessageResult(role="assistant", content=words, model="none", stop_reason="endTurn")


async def drive(era: str, other: str, url: str) -> None:
    options = ["--stdio", "--era", other, "--upstream", url]
    client = Client(
        StdioServerParameters(
            command=sys.executable, args=["-m", "penstock", *options], env=dict(os.environ)
        ),
        mode={"legacy": "legacy", "modern": MODERN}[era],
        read_timeout_seconds=CONNECT_SECONDS,
        elicitation_callback=elicited,
        sampling_callback=sampled,
    )
    async with client:
        listed = (await client.list_tools()).tools
        said = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}").get("toolCalls")
        calls = [(one["name"], one.get("arguments", {})) for one in said or []]
        calls = calls or [(tool.name, an_answer_for(tool.input_schema)) for tool in listed]
        for name, arguments in calls:
            await tried(client.call_tool, name, arguments)
        prompts = await tried(client.list_prompts)
        for prompt in prompts.prompts if prompts else []:
            await tried(client.get_prompt, prompt.name, {})
        resources = await tried(client.list_resources)
        for resource in resources.resources if resources else []:
            await tried(client.read_resource, str(resource.uri))


async def tried(what: Any, *arguments: Any) -> Any:
    try:
        return await what(*arguments)
    except (MCPError, ValueError) as why:  # the suites' servers do not answer everything, nor well
        print(f"{what.__name__} {arguments}: {why}", file=sys.stderr)
        return None


if __name__ == "__main__":
    anyio.run(drive, *sys.argv[1:])
