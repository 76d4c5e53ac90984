"""A small MCP server on nothing but the standard library: the bundled sample upstream, and the fast one.

It speaks both eras over stdio. Six tools, two of which nobody wants an agent to have.
"""

import json
import sys

TOOLS = [
    {
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": {"type": "object", "properties": properties, "required": list(properties)},
        "annotations": {"readOnlyHint": read_only},
    }
    for name, title, description, properties, read_only in [
        ("read_file", "Read", "Read a file.", {"path": {"type": "string"}}, True),
        ("list_directory", "List", "List a directory.", {"path": {"type": "string"}}, True),
        ("search_files", "Search", "Find files by name.", {"query": {"type": "string"}}, True),
        (
            "write_file",
            "Write",
            "Write a file.",
            {"path": {"type": "string"}, "text": {"type": "string"}},
            False,
        ),
        ("delete_file", "Delete", "Delete a file for good.", {"path": {"type": "string"}}, False),
        ("echo", "Echo", "Say it again.", {"text": {"type": "string"}}, True),
    ]
]


def answer(request: dict) -> dict:
    method, params = request["method"], request.get("params") or {}
    if method == "initialize":
        return {
            "result": {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "sample", "version": "1"},
            }
        }
    if method == "server/discover":
        return {
            "result": {
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}},
            }
        }
    if method == "ping":
        return {"result": {}}
    if method == "tools/list":
        return {"result": {"tools": TOOLS}}
    if method == "tools/call" and any(tool["name"] == params.get("name") for tool in TOOLS):
        text = f"{params['name']} was called with {json.dumps(params.get('arguments'))}"
        return {"result": {"content": [{"type": "text", "text": text}], "isError": False}}
    return {"error": {"code": -32601, "message": f"Not here: {method}"}}


def main() -> None:
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "id" in request and "method" in request:
            reply = {"jsonrpc": "2.0", "id": request["id"], **answer(request)}
            sys.stdout.buffer.write(json.dumps(reply).encode() + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
