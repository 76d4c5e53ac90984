"""Requests of the upstream that come within a result.

Since 2026-07-28 an upstream asks the client for something by answering `input_required`, with the requests in
`inputRequests`; and not only to a call, as the state of a task may hold them too. To rules they are what they
were before: requests of the upstream with a method of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from penstock.policy.rules.json_values import text_of
from penstock.policy.rules.message_parts import member_place, result_of
from penstock.policy.rules.paths import Span, parse_path
from penstock.wire.json.json_walk import first_byte
from penstock.wire.mcp.message import Message, read_upstream_message

_REQUESTS = parse_path("inputRequests.*")
_METHOD = parse_path("method")
_MAY_CARRY = re.compile(rb"(?i:inputrequests)|\\|[\x80-\xff]").search
_PARAMS = parse_path("params")


class Carried(Struct, frozen=True):
    """A request within a result: as a message of its own, and where it stands."""

    message: Message
    span: Span
    params: Span | None  # where its params stand; None when it has none


def carried_methods(message: Message) -> list[str]:
    """The methods of the requests that a result carries, each as often as it is written."""
    return [method for _, method in _entries(message)]


def carried_requests(message: Message) -> list[Carried]:
    """The requests that a result carries. Raises ProtocolError for one that cannot be read by itself."""
    text = message.raw
    out = []
    for span, method in _entries(message):
        all_params: list[Span | None] = list(_PARAMS.find(text, span.start, span.end))
        for params in all_params or [None]:
            tail = b',"params":' + text[params.start : params.end] if params else b""
            raw = b'{"jsonrpc":"2.0","id":0,"method":%b%b}' % (msgspec.json.encode(method), tail)
            request = read_upstream_message(raw)
            assert isinstance(request, Message)
            out.append(Carried(request, span, params))
    return out


def _entries(message: Message) -> Iterator[tuple[Span, str]]:
    result = result_of(message)
    if message.method == "notifications/tasks":  # the state of a task, as tasks/get gives it
        result = member_place(message, "params")
    if result is None or not _MAY_CARRY(message.raw):
        return
    for span in _REQUESTS.find(result.text, result.start, result.end):
        for method in _METHOD.find(result.text, span.start, span.end):
            if first_byte(result.text, method.start) == b'"':
                yield span, text_of(result.text[method.start : method.end])
