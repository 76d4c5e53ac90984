"""Answers of our own, to clients and to upstreams' questions."""

from __future__ import annotations

import msgspec

from penstock.wire.mcp.message import METHOD_NOT_FOUND, Batch, Kind, Message, read_upstream_message
from penstock.wire.mcp.replies import error_reply, result_reply

_VERSION = msgspec.Raw(b'"2.0"')


def as_message(raw: bytes) -> Message:
    """A message that we made ourselves."""
    message = read_upstream_message(raw)
    assert not isinstance(message, Batch)
    return message


def answer_with(raw: bytes, id_token: bytes, result: msgspec.Raw) -> Message:
    """The answer `raw` with a `result` that we made ourselves, of parts that were read strictly. A list of
    many tools is not read again to find out what we have written."""
    members = {"jsonrpc": _VERSION, "id": msgspec.Raw(id_token), "result": result}
    return Message(raw, Kind.RESPONSE, id_token, None, members)


def reply_alone(message: Message) -> Message | None:
    """What is answered where there is no client that could be asked; None to a notification."""
    if message.kind is not Kind.REQUEST or message.id_token is None:
        return None
    if message.method == "ping":
        return as_message(result_reply(message.id_token, b"{}"))
    if message.method == "roots/list":
        return as_message(result_reply(message.id_token, b'{"roots":[]}'))
    return as_message(error_reply(message.id_token, METHOD_NOT_FOUND, "Method not found"))
