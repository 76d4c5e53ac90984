"""Answers of our own to an upstream's questions."""

from __future__ import annotations

from penstock.wire.mcp.message import METHOD_NOT_FOUND, Batch, Kind, Message, read_upstream_message
from penstock.wire.mcp.replies import error_reply, result_reply


def as_message(raw: bytes) -> Message:
    """A message that we made ourselves."""
    message = read_upstream_message(raw)
    assert not isinstance(message, Batch)
    return message


def reply_alone(message: Message) -> Message | None:
    """What is answered where there is no client that could be asked; None to a notification."""
    if message.kind is not Kind.REQUEST or message.id_token is None:
        return None
    if message.method == "ping":
        return as_message(result_reply(message.id_token, b"{}"))
    if message.method == "roots/list":
        return as_message(result_reply(message.id_token, b'{"roots":[]}'))
    return as_message(error_reply(message.id_token, METHOD_NOT_FOUND, "Method not found"))
