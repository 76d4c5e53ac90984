"""Results of a modern upstream where a legacy client could not take them as they are."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from penstock.bridge.envelope import (
    maybe_members,
    maybe_value,
    object_of,
    with_members,
    without_members,
)
from penstock.wire.json.ambiguity import Members, NotAnArray, NotJson, elements
from penstock.wire.mcp.eras import LEGACY_VERSIONS, META_SERVER
from penstock.wire.mcp.mcp_headers import has_wrong_mark
from penstock.wire.mcp.message import Message

_TASKS = "io.modelcontextprotocol/tasks"
_UNKNOWN = b'{"name":"unknown","version":"unknown"}'


def initialize_result(discovered: Members, opening: Message) -> bytes:
    """What initialize would have been answered, out of the result of server/discover."""
    asked = maybe_value((opening.params or {}).get("protocolVersion"))
    version = asked if asked in LEGACY_VERSIONS else LEGACY_VERSIONS[-1]
    meta = maybe_members(discovered.get("_meta")) or {}
    values = {
        "protocolVersion": msgspec.json.encode(version),
        "capabilities": _capabilities(discovered.get("capabilities")),
        "serverInfo": bytes(meta.get(META_SERVER, _UNKNOWN)),
    }
    if "instructions" in discovered:
        values["instructions"] = bytes(discovered["instructions"])
    return object_of(values)


def _capabilities(offered: Raw | None) -> bytes:
    found = maybe_members(offered)
    if offered is None or found is None:
        return b"{}"
    extensions = maybe_members(found.get("extensions"))
    if extensions is None:
        return bytes(offered)
    # Tasks of the modern era are not those of the legacy one: they are not offered.
    return with_members(bytes(offered), {"extensions": without_members(bytes(found["extensions"]), _TASKS)})


def for_legacy(raw: bytes, result: Members, asked: Message) -> bytes:
    """The answer in `raw`, unchanged but for two things that legacy clients refuse."""
    if asked.method == "tools/call" and "structuredContent" in result:
        content = bytes(result["structuredContent"])
        if maybe_members(content) is None:
            return _with_result(raw, result, "structuredContent", b'{"result":%b}' % content)
    elif asked.method == "tools/list" and (b"outputSchema" in raw or b"\\u" in raw) and "tools" in result:
        return _with_object_schemas(raw, result)
    return raw


def without_wrong_marks(raw: bytes, result: Members) -> tuple[bytes, list[str]]:
    """A tool list without the tools that want arguments in headers in a way that is not allowed, as whoever
    speaks HTTP to the upstream must leave them out; and their names."""
    if b"x-mcp-header" not in raw and b"\\u" not in raw:
        return raw, []
    try:
        tools = elements(bytes(result.get("tools", b"")))
    except (NotJson, NotAnArray):
        return raw, []
    wrong = [tool for tool in tools if has_wrong_mark((maybe_members(tool) or {}).get("inputSchema", b""))]
    if not wrong:
        return raw, []
    kept = [tool for tool in tools if tool not in wrong]
    names = [str(maybe_value((maybe_members(tool) or {}).get("name"))) for tool in wrong]
    return _with_result(raw, result, "tools", b"[%b]" % b",".join(kept)), names


def _with_object_schemas(raw: bytes, result: Members) -> bytes:
    """A tool list without output schemas that describe no object: one of them would spoil the whole list."""
    try:
        tools = elements(bytes(result["tools"]))
    except (NotJson, NotAnArray):
        return raw
    kept = [_with_object_schema(tool) for tool in tools]
    if kept == tools:
        return raw
    return _with_result(raw, result, "tools", b"[%b]" % b",".join(kept))


def _with_object_schema(tool: bytes) -> bytes:
    schema = (maybe_members(tool) or {}).get("outputSchema")
    if schema is None or maybe_value((maybe_members(schema) or {}).get("type")) == "object":
        return tool
    return without_members(tool, "outputSchema")


def _with_result(raw: bytes, result: Members, name: str, value: bytes) -> bytes:
    envelope = maybe_members(raw) or {}
    return with_members(raw, {"result": with_members(bytes(envelope["result"]), {name: value})})
