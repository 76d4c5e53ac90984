"""The stage that keeps clients to the catalog, whatever they call and however they spell it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from penstock import limits
from penstock.policy.tools.catalog import ToolCatalog
from penstock.policy.verdict import FORWARD, HOLD, Answer, Drop, Verdict, Why
from penstock.wire.json.ambiguity import as_lax_readers_see
from penstock.wire.mcp.eras import maybe_modern_meta
from penstock.wire.mcp.message import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, Kind, Message
from penstock.wire.mcp.replies import (
    error_reply,
    failed_call,
    printable,
    raw_error_reply,
    result_reply,
    tool_not_found,
)

if TYPE_CHECKING:
    from penstock.policy.tools.argument_types import ArgumentTypes

CALL = "tools/call"
LIST = "tools/list"
STAGE = "tool filter"
GATED = frozenset({CALL, LIST})
_REQUEST = Kind.REQUEST

_decode_text = msgspec.json.Decoder(str).decode

log = logging.getLogger("penstock")


def judge(message: Message, catalog: ToolCatalog | None) -> Verdict:
    """What becomes of a client's request or notification; Hold while the catalog is on its way."""
    method = message.method
    if method == CALL and catalog is not None and message.tool in catalog.names:
        # The hot path. Whoever told the tool's name has seen an id and an object called params.
        return FORWARD
    if method not in GATED:
        if method is not None and _looks_gated(method):
            if message.kind is not _REQUEST:
                return Drop(Why(STAGE, "drop", "a notification whose method merely looks like a tool method"))
            return _protocol_error(message, METHOD_NOT_FOUND, "Method not found")
        return FORWARD
    if message.kind is not _REQUEST:
        return Drop(Why(STAGE, "drop", f"{method} without an id"))
    if message.id_token == b"null":
        return null_id(message)
    if catalog is None:
        return HOLD
    return _list(message, catalog) if method == LIST else _call(message, catalog)


def null_id(message: Message) -> Answer:
    """The answer to a request about tools whose id is null: the protocol forbids it, and what it began could
    be told from nothing else."""
    return _protocol_error(message, INVALID_REQUEST, f"Invalid request: {message.method} with an id of null")


def _looks_gated(method: str) -> bool:
    is_plain = method.isascii() and method.islower() and method.isprintable() and " " not in method
    if is_plain and "tool" not in method:
        return False
    return as_lax_readers_see(method) in GATED


def _call(message: Message, catalog: ToolCatalog) -> Verdict:
    assert message.id_token is not None
    name = message.tool
    if name is None:
        params = message.params
        if params is None:
            return _protocol_error(message, INVALID_PARAMS, "Invalid params: params must be an object")
        try:
            name = _decode_text(params["name"])
        except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
            return _protocol_error(message, INVALID_PARAMS, "Invalid params: name must be a string")
    if name in catalog.names:
        return FORWARD
    if catalog.typed is not None and name in catalog.typed:
        return _typed_call(message, name, catalog.typed[name])
    why = Why(STAGE, "deny", f"Tool not found: {printable(name)}", catalog.deny_code)
    _say_once(catalog, name)
    return Answer(tool_not_found(message.id_token, name, catalog.deny_code), word="deny", why=why)


_told: dict[tuple[int, str], None] = {}
_MOST_TOLD = 1_000


def _say_once(catalog: ToolCatalog, name: str) -> None:
    """Tells people of a denied call, once for each tool and catalog: a client may try for ever."""
    key = (id(catalog), name[: limits.NAME_ECHO])
    if key not in _told:
        if len(_told) >= _MOST_TOLD:
            _told.pop(next(iter(_told)))
        _told[key] = None
        log.info("Denied a call of %s: it is not among the tools that clients may use.", printable(name))


def _typed_call(message: Message, name: str, types: ArgumentTypes) -> Verdict:
    assert message.id_token is not None
    params = message.params or {}
    found = params.get("arguments")
    objection = types.maybe_objection(name, None if found is None else bytes(found))
    if objection is None:
        return FORWARD
    is_modern = maybe_modern_meta(params) is not None
    reply = result_reply(message.id_token, failed_call(objection, is_modern))
    return Answer(reply, word="deny", why=Why(STAGE, "arguments", objection, INVALID_PARAMS))


def _list(message: Message, catalog: ToolCatalog) -> Verdict:
    assert message.id_token is not None
    if "params" in message.envelope and message.params is None:
        return _protocol_error(message, INVALID_PARAMS, "Invalid params: params must be an object")
    if message.params is not None and bytes(message.params.get("cursor", b"null")) != b"null":
        # The list has one page, so no cursor can be ours.
        return _protocol_error(message, INVALID_PARAMS, "Invalid params: unknown cursor")
    if catalog.refusal is not None:
        return Answer(raw_error_reply(message.id_token, catalog.refusal))
    return Answer(result_reply(message.id_token, catalog.result), is_list=True)


def _protocol_error(message: Message, code: int, reason: str) -> Answer:
    why = Why(STAGE, "refuse", reason, code)
    return Answer(error_reply(message.id_token, code, reason), code, word="refuse", why=why)
