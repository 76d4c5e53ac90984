"""The stage that keeps clients to the catalog, whatever they call and however they spell it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from penstock.policy.catalog import ToolCatalog
from penstock.policy.verdict import FORWARD, HOLD, Answer, Drop, Verdict
from penstock.wire.ambiguity import folded, readable
from penstock.wire.message import INVALID_PARAMS, METHOD_NOT_FOUND, Kind, Message
from penstock.wire.replies import error_reply, raw_error_reply, result_reply, tool_not_found

CALL = "tools/call"
LIST = "tools/list"
GATED = frozenset({CALL, LIST})

_decode_text = msgspec.json.Decoder(str).decode


def judge(message: Message, catalog: ToolCatalog | None) -> Verdict:
    """What becomes of a client's request or notification; Hold while the catalog is on its way."""
    method = message.method
    if method not in GATED:
        if method is not None and _looks_gated(method):
            if message.kind is not Kind.REQUEST:
                return Drop("a notification whose method merely looks like a tool method")
            return Answer(error_reply(message.id_token, METHOD_NOT_FOUND, "Method not found"))
        return FORWARD
    if message.kind is not Kind.REQUEST or message.id_token == b"null":
        return Drop(f"{method} without an id")
    if catalog is None:
        return HOLD
    return _list(message, catalog) if method == LIST else _call(message, catalog)


def _looks_gated(method: str) -> bool:
    if "tool" not in method and method.isascii() and method.islower() and method.isprintable():
        return False
    plain = "/".join(part for part in folded(method).replace("\\", "/").split("/") if part)
    return plain in GATED


def _call(message: Message, catalog: ToolCatalog) -> Verdict:
    assert message.id_token is not None
    params = message.params
    if params is None:
        return Answer(
            error_reply(message.id_token, INVALID_PARAMS, "Invalid params: params must be an object")
        )
    try:
        name = _decode_text(params["name"])
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
        return Answer(error_reply(message.id_token, INVALID_PARAMS, "Invalid params: name must be a string"))
    if name in catalog.names:
        return FORWARD
    return Answer(tool_not_found(message.id_token, name))


def _list(message: Message, catalog: ToolCatalog) -> Verdict:
    assert message.id_token is not None
    if "params" in message.envelope and message.params is None:
        return Answer(
            error_reply(message.id_token, INVALID_PARAMS, "Invalid params: params must be an object")
        )
    if message.params is not None and bytes(message.params.get("cursor", b"null")) != b"null":
        # The list has one page, so no cursor can be ours.
        return Answer(error_reply(message.id_token, INVALID_PARAMS, "Invalid params: unknown cursor"))
    if catalog.refusal is not None:
        return Answer(raw_error_reply(message.id_token, catalog.refusal))
    return Answer(result_reply(message.id_token, catalog.result))


def carries_tool_list(message: Message, catalog: ToolCatalog | None) -> bool:
    """Whether something the upstream sends unasked lists a tool that is hidden.

    While the catalog is not there, nobody can say which tools are, so every list counts.
    """
    params = bytes(message.envelope.get("params", b""))
    if b"tools" not in params and b"\\u" not in params:
        return False
    try:
        content = msgspec.json.decode(readable(params))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    names = catalog.names if catalog is not None else frozenset()
    return any(name not in names for name in _listed_names(content))


def _listed_names(content: object) -> Iterator[str]:
    """The names of everything that looks like a tool in a list of tools, however deep it lies."""
    if isinstance(content, dict):
        tools = content.get("tools")
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                yield tool["name"]
    if isinstance(content, dict | list):
        for part in content.values() if isinstance(content, dict) else content:
            yield from _listed_names(part)
