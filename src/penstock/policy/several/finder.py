"""A short list instead of a long one: a tool that finds tools, and two that call what was found.

A wrapped call is unwrapped before the gate, the rules and the profile look at it: whoever calls through it
can do what could be done directly, and nothing else.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from penstock.policy.several.bm25 import Index
from penstock.policy.several.terms import SearchTerms
from penstock.policy.tools.catalog import ToolCatalog
from penstock.wire.json.ambiguity import Ambiguous, NotAnObject, NotJson, members, readable
from penstock.wire.json.splice import with_value
from penstock.wire.mcp.message import INVALID_PARAMS, Message, read_client_message
from penstock.wire.mcp.replies import error_reply, printable

FIND, CALL_READ_ONLY, CALL_ANY = "find_tools", "call_read_only_tool", "call_tool"
WRAPPERS = frozenset({CALL_READ_ONLY, CALL_ANY})
OWN_NAMES = frozenset({FIND, *WRAPPERS})
_MOST_FOUND = 50


def _described(name: str, description: str, properties: dict[str, Any], is_read_only: bool) -> bytes:
    schema = {"type": "object", "properties": properties, "required": [next(iter(properties))]}
    return msgspec.json.encode(
        {
            "name": name,
            "description": description,
            "inputSchema": schema,
            "annotations": {"readOnlyHint": is_read_only},
        }
    )


_WRAPPED = {
    "name": {"type": "string", "description": "The name of the tool, as find_tools gave it"},
    "arguments": {"type": "object", "description": "What its inputSchema asks for"},
}
_OWN_TOOLS = (
    _described(
        FIND,
        "Finds tools for a task. Most tools are not in this list: describe what you want to do in a few "
        "words, then call one of the tools found with call_read_only_tool or call_tool.",
        {
            "query": {"type": "string", "description": "What you want to do, in a few words"},
            "limit": {"type": "integer", "description": "How many tools at most"},
        },
        True,
    ),
    _described(CALL_READ_ONLY, "Calls a tool that find_tools found and that only reads.", _WRAPPED, True),
    _described(CALL_ANY, "Calls a tool that find_tools found.", _WRAPPED, False),
)


class _Tool(Struct):
    description: str = ""
    annotations: Any = None
    meta: Any = msgspec.field(name="_meta", default=None)


class Finder:
    """The tools of one door, to be found."""

    def __init__(self, catalog: ToolCatalog, terms: SearchTerms) -> None:
        self._terms = terms
        self._raw = {tool.name: tool.raw for tool in catalog.allowed}
        read = {tool.name: _read(tool.raw) for tool in catalog.allowed}
        self._hidden = {name for name, tool in read.items() if _is_for_apps_only(tool)}
        self._read_only = {name for name, tool in read.items() if _is_read_only(tool)}
        self._index = Index(
            (name, tool.description) for name, tool in read.items() if name not in self._hidden
        )
        kept = [
            tool.raw
            for tool in catalog.allowed
            if tool.name in self._hidden or any(pattern.found_in(tool.name) for pattern in terms.keep)
        ]
        self.result = b'{"tools":[%b]}' % b",".join([*_OWN_TOOLS, *kept])

    def find(self, message: Message) -> bytes:
        """The answer to a call of find_tools."""
        try:
            arguments = msgspec.json.decode((message.params or {}).get("arguments", b"{}"))
        except (msgspec.DecodeError, UnicodeDecodeError):
            arguments = None
        query = arguments.get("query") if isinstance(arguments, dict) else None
        if not isinstance(query, str):
            return error_reply(message.id_token, INVALID_PARAMS, "Invalid params: query must be a string")
        limit = arguments.get("limit")
        is_count = isinstance(limit, int) and not isinstance(limit, bool) and limit > 0
        names = self._index.search(query, min(limit, _MOST_FOUND) if is_count else self._terms.limit)
        found = b'{"tools":[%b]}' % b",".join(self._raw[name] for name in names)
        text = msgspec.json.encode(found.decode("utf-8", "replace"))
        content = b'{"content":[{"type":"text","text":%b}],"structuredContent":%b}' % (text, found)
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (message.id_token or b"null", content)

    def unwrap(self, message: Message) -> Message | bytes:
        """The call that a wrapped call means, or the answer to one that means none."""
        try:
            inner = members((message.params or {})["arguments"])
            name = msgspec.json.decode(inner["name"], type=str)
        except (KeyError, Ambiguous, NotJson, NotAnObject, msgspec.DecodeError, UnicodeDecodeError):
            text = "Invalid params: name must be a string"
            return error_reply(message.id_token, INVALID_PARAMS, text)
        outer = wrapper_of(message)
        is_refused = name in OWN_NAMES or name in self._hidden
        if is_refused or (outer == CALL_READ_ONLY and name in self._raw and name not in self._read_only):
            what = f"{printable(name)} cannot be called with {outer}"
            return error_reply(message.id_token, INVALID_PARAMS, f"Invalid params: {what}")
        params = bytes(message.envelope["params"])
        params = with_value(params, members(params), "name", bytes(inner["name"]))
        params = with_value(params, members(params), "arguments", bytes(inner.get("arguments", b"{}")))
        direct = read_client_message(with_value(message.raw, message.envelope, "params", params))
        assert isinstance(direct, Message)
        return direct


def wrapper_of(message: Message) -> str | None:
    """The wrapper that a message calls; None when it calls none."""
    if message.method != "tools/call":
        return None
    name = message.tool
    if name is None:
        token = (message.params or {}).get("name")
        try:
            name = None if token is None else msgspec.json.decode(token, type=str)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
    return name if name in WRAPPERS else None


def _read(raw: bytes) -> _Tool:
    try:
        return msgspec.json.decode(readable(raw), type=_Tool)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Tool()


def _is_read_only(tool: _Tool) -> bool:
    return isinstance(tool.annotations, dict) and tool.annotations.get("readOnlyHint") is True


def _is_for_apps_only(tool: _Tool) -> bool:
    ui = tool.meta.get("ui") if isinstance(tool.meta, dict) else None
    visibility = ui.get("visibility") if isinstance(ui, dict) else None
    return isinstance(visibility, list) and "model" not in visibility
