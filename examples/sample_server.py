"""A small MCP server on nothing but the standard library, to try Penstock with.

It speaks both eras of MCP over stdio and has six tools, two of which nobody wants an agent to have.
"""

from __future__ import annotations

import json
import sys
from typing import Any

PATH = {"path": {"type": "string", "description": "Where, from the top of the workspace"}}


def tool(
    name: str, title: str, description: str, properties: dict[str, Any], read_only: bool
) -> dict[str, Any]:
    return {
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": {"type": "object", "properties": properties, "required": list(properties)},
        "annotations": {"readOnlyHint": read_only},
    }


TEXT = {"text": {"type": "string"}}
TOOLS = [
    tool("read_file", "Read a file", "Gives the text of a file in the workspace.", PATH, True),
    tool("list_directory", "List a directory", "Gives the names in a directory.", PATH, True),
    tool(
        "search_files",
        "Search",
        "Finds files whose name contains a word.",
        {"word": {"type": "string"}},
        True,
    ),
    tool("write_file", "Write a file", "Replaces a file, or makes a new one.", {**PATH, **TEXT}, False),
    tool("delete_file", "Delete a file", "Deletes a file for good. There is no undo.", PATH, False),
    tool("echo", "Echo", "Says it again.", TEXT, True),
]


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The result or error for one request."""
    info = {"name": "sample", "version": "1"}
    if method == "initialize":
        version = params.get("protocolVersion", "2025-11-25")
        return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
    # The modern era (2026-07-28) has no handshake: every request says so, and results say more.
    is_modern = "io.modelcontextprotocol/protocolVersion" in params.get("_meta", {})
    complete = {"resultType": "complete"} if is_modern else {}
    cacheable = {**complete, "ttlMs": 60_000, "cacheScope": "public"} if is_modern else {}
    if method == "server/discover" and is_modern:
        return {"result": {**cacheable, "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}}
    if method == "ping":
        return {"result": {}}
    if method == "tools/list":
        return {"result": {**cacheable, "tools": TOOLS}}
    if method == "tools/call" and any(one["name"] == params.get("name") for one in TOOLS):
        text = f"{params['name']} was called with {json.dumps(params.get('arguments'))}"
        return {"result": {**complete, "content": [{"type": "text", "text": text}], "isError": False}}
    return {"error": {"code": -32601, "message": f"Method not found: {method}"}}


def main() -> None:
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" in message and "method" in message:
            reply = {"jsonrpc": "2.0", "id": message["id"]}
            reply |= answer(message["method"], message.get("params") or {})
            sys.stdout.buffer.write(json.dumps(reply).encode() + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
