"""Where in a message a rule looks: its method, its params, its result, its error.

A response has no method and no params of its own. For rules it has those of the request that it answers, so
that "the results of tools/call for read_file" can be said.
"""

from __future__ import annotations

from msgspec import Struct

from penstock.policy.rules.exchange import Context
from penstock.wire.json.splice import member_spans
from penstock.wire.mcp.message import Kind, Message


class Place(Struct, frozen=True, gc=False):
    """A value within the bytes of a message."""

    text: bytes
    start: int
    end: int


def method_of(message: Message, context: Context) -> str | None:
    """The method, or, for a response, that of its request."""
    if message.method is None and context.exchange is not None:
        return context.exchange.request.method
    return message.method


def params_of(message: Message, context: Context) -> Place | None:
    """The params, or, for a response, those of its request."""
    if message.kind is Kind.RESPONSE:
        if context.exchange is None:
            return None
        message = context.exchange.request
    return member_place(message, "params")


def result_of(message: Message) -> Place | None:
    """The result of a response."""
    return member_place(message, "result")


def error_of(message: Message) -> Place | None:
    """The error of a response."""
    return member_place(message, "error")


def member_place(message: Message, name: str) -> Place | None:
    """Where one of the outermost members stands."""
    if name not in message.envelope:
        return None
    _, start, end = member_spans(message.raw, message.envelope)[name]
    return Place(message.raw, start, end)
