"""The stage that keeps clients to the catalog, whatever they call and however they spell it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Raw

from penstock.policy.catalog import ToolCatalog
from penstock.policy.tool_filter import ToolFilter
from penstock.policy.verdict import FORWARD, HOLD, Answer, Drop, Verdict
from penstock.wire.ambiguity import folded
from penstock.wire.message import INVALID_PARAMS, METHOD_NOT_FOUND, Kind, Message
from penstock.wire.replies import error_reply, raw_error_reply, result_reply, tool_not_found

CALL = "tools/call"
LIST = "tools/list"
_GATED = frozenset({CALL, LIST})

_decode_text = msgspec.json.Decoder(str).decode


def judge(message: Message, catalog: ToolCatalog | None) -> Verdict:
    """What becomes of a client's request or notification; Hold while the catalog is on its way."""
    method = message.method
    if method not in _GATED:
        if method is not None and _looks_gated(method):
            if message.kind is not Kind.REQUEST:
                return Drop("a notification whose method merely looks like a tool method")
            return _protocol_error(message, METHOD_NOT_FOUND, "Method not found")
        return FORWARD
    if message.kind is not Kind.REQUEST or message.id_token == b"null":
        return Drop(f"{method} without an id")
    if catalog is None:
        return HOLD
    return _list(message, catalog) if method == LIST else _call(message, catalog)


def _looks_gated(method: str) -> bool:
    if method.isascii() and method.islower() and method.isprintable() and "//" not in method:
        return method.strip(" /") in _GATED
    plain = "/".join(part for part in folded(method).replace("\\", "/").split("/") if part)
    return plain in _GATED


def _call(message: Message, catalog: ToolCatalog) -> Verdict:
    assert message.id_token is not None
    params = message.params
    if params is None:
        return _protocol_error(message, INVALID_PARAMS, "Invalid params: params must be an object")
    try:
        name = _decode_text(params["name"])
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
        return _protocol_error(message, INVALID_PARAMS, "Invalid params: name must be a string")
    if name in catalog.names:
        return FORWARD
    return Answer(tool_not_found(message.id_token, name))


def _list(message: Message, catalog: ToolCatalog) -> Verdict:
    assert message.id_token is not None
    if "params" in message.envelope and message.params is None:
        return _protocol_error(message, INVALID_PARAMS, "Invalid params: params must be an object")
    if message.params is not None and bytes(message.params.get("cursor", b"null")) != b"null":
        # The list has one page, so no cursor can be ours.
        return _protocol_error(message, INVALID_PARAMS, "Invalid params: unknown cursor")
    if catalog.refusal is not None:
        return Answer(raw_error_reply(message.id_token, catalog.refusal))
    return Answer(result_reply(message.id_token, catalog.result))


def _protocol_error(message: Message, code: int, reason: str) -> Answer:
    return Answer(error_reply(message.id_token, code, reason), code)


def shows_hidden_tools(message: Message, choice: ToolFilter) -> bool:
    """Whether something that the upstream sends lists a tool that the client must not see.

    Tool lists are answered from the catalog, so none should ever come by; this is for upstreams that send
    one unasked, as a notification, as the answer to something else, or on a resumed stream.
    """
    if message.method == "sampling/createMessage":
        return False  # tools offered to the client's own model, not the upstream's to be called
    body = message.envelope.get("result") or message.envelope.get("params")
    if body is None or memoryview(body)[0] != _OPEN_BRACE:
        return False
    try:
        listing = _decode_listing(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    entries = [*_entries(listing.tools)]
    if listing.result:
        try:
            entries += _entries(_decode_listing(listing.result).tools)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
    return any(choice.maybe_denial(name, is_read_only) is not None for name, is_read_only in entries)


def _entries(tools: Raw) -> Iterator[tuple[str, bool]]:
    """Names and read-only hints of whatever in `tools` looks like a tool."""
    if not tools or memoryview(tools)[0] != _OPEN_BRACKET:
        return
    for entry in msgspec.json.decode(tools, type=list[Raw]):
        try:
            tool = _decode_tool(entry)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        hint = tool.annotations
        yield tool.name, isinstance(hint, dict) and hint.get("readOnlyHint") is True


class _Listing(msgspec.Struct):
    tools: Raw = Raw()
    result: Raw = Raw()


class _Tool(msgspec.Struct):
    name: str
    annotations: object = None


_decode_listing = msgspec.json.Decoder(_Listing).decode
_decode_tool = msgspec.json.Decoder(_Tool).decode
_OPEN_BRACE, _OPEN_BRACKET = b"{["
