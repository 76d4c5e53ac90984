"""What a blocked message's sender, or whoever waits for it, is told."""

from __future__ import annotations

from penstock.policy.rules.chain import Blocked
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.json_values import text_of
from penstock.policy.rules.message_parts import method_of, params_of
from penstock.policy.rules.paths import parse_path
from penstock.wire.json.json_walk import first_byte
from penstock.wire.mcp.eras import maybe_modern_meta
from penstock.wire.mcp.message import METHOD_NOT_FOUND, Kind, Message
from penstock.wire.mcp.replies import (
    TOOL_NOT_FOUND,
    error_reply,
    failed_call,
    raw_error_reply,
    result_reply,
    tool_not_found,
)

_NAME = parse_path("name")


def refusal(message: Message, context: Context, blocked: Blocked, code: int) -> bytes | None:
    """The error with the message's id; None where nobody is answered, as for a notification."""
    if message.kind is Kind.NOTIFICATION:
        return None
    id_token = message.id_token or b"null"
    stop = blocked.stop
    if stop.is_silent:
        return None
    if blocked.is_opaque:
        if method_of(message, context) == "tools/call":
            catalog = context.exchange.catalog if context.exchange is not None else None
            code = TOOL_NOT_FOUND if catalog is None else catalog.deny_code
            return tool_not_found(id_token, _tool_name(message, context), code)
        return error_reply(id_token, METHOD_NOT_FOUND, "Method not found")
    if stop.is_told_as_result and method_of(message, context) == "tools/call":
        return result_reply(id_token, failed_call(stop.reason, _is_modern(message, context)))
    if stop.error is not None:
        return raw_error_reply(id_token, stop.error)
    data = {"rule": blocked.rule, "action": stop.action}
    return error_reply(id_token, code if stop.code is None else stop.code, stop.reason, data)


def _is_modern(message: Message, context: Context) -> bool:
    if message.kind is Kind.RESPONSE:
        if context.exchange is None:
            return False
        message = context.exchange.request
    return maybe_modern_meta(message.params) is not None


def _tool_name(message: Message, context: Context) -> str:
    place = params_of(message, context)
    if place is not None:
        for span in _NAME.find(place.text, place.start, place.end):
            if first_byte(place.text, span.start) == b'"':
                return text_of(place.text[span.start : span.end])
    return ""
