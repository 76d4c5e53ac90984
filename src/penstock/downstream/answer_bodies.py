"""What a body of the upstream's is, whatever its head calls it: clients do not always look at the head."""

from __future__ import annotations

from penstock.errors import UpstreamProtocolError
from penstock.wire.http.sse import Oversize, SseEvent, SseReader
from penstock.wire.mcp.ids import id_key
from penstock.wire.mcp.message import Batch, Kind, Message, is_batch, read_upstream_message


def is_message(body: bytes) -> bool:
    """Whether `body` is a message, or several."""
    try:
        read_upstream_message(body)
    except UpstreamProtocolError:
        return False
    return True


def is_nearly_a_message(body: bytes) -> bool:
    """Whether `body` is no message, but who reads one value and stops, or passes over what stands before it,
    may find one there."""
    text = body.replace(b"\0", b"")
    return b"{" in text and (b"jsonrpc" in text.lower() or b"\\u00" in text) and not is_message(body)


def parts_of(body: bytes) -> list[bytes]:
    """The messages in `body`; none when it is no such thing."""
    try:
        message = read_upstream_message(body)
    except UpstreamProtocolError:
        return []
    return message.parts if isinstance(message, Batch) else [body]


def has_events(body: bytes) -> bool:
    """Whether who reads `body` as events finds one that could be a message to somebody."""
    return any(isinstance(event, Oversize) or b"{" in (event.data or b"") for event in _events(body))


def has_messages_in_events(body: bytes, is_stream: bool) -> bool:
    """Whether who reads `body` as events finds a message there. `is_stream` says whether it is called events;
    then what only careless readers find counts as well."""
    if b"data" not in body and not is_stream:
        return False
    for event in _events(body):
        if isinstance(event, SseEvent) and (
            (event.is_odd and is_stream) or (event.data and is_message(event.data))
        ):
            return True
    return False


def _events(body: bytes) -> list[SseEvent | Oversize]:
    # Some give out the last event also where no blank line ends it.
    return SseReader(len(body) + 2).feed(body + b"\n\n")


def read_answer(raw: bytes, ids: set[bytes] | None) -> Message | Batch | str:
    """What the upstream sent, or why nobody may have it; `ids` are those of the requests it may answer."""
    try:
        message = read_upstream_message(raw)
        if isinstance(message, Batch):
            if any(map(is_batch, message.parts)):
                return "It has a batch within a batch"
            wrong = (why for part in message.parts if isinstance(why := read_answer(part, ids), str))
            return next(wrong, message)
    except UpstreamProtocolError as refusal:
        return refusal.reason
    if message.kind is Kind.RESPONSE and ids is not None and message.id_token not in ids:
        token = message.id_token  # not as it was asked for, to the letter
        # An error that names no request is a complaint about the one that was made.
        is_complaint = token in (None, b"null") and "error" in message.envelope
        if not is_complaint and (token is None or id_key(token) not in ids):
            return "It answers a question that nobody asked"
    return message


def maybe_answered(raw: bytes) -> bytes | None:
    """The id of the request that a message answers which must not be passed on."""
    try:
        message = read_upstream_message(raw)
    except UpstreamProtocolError as refusal:
        return refusal.id_token
    is_answer = isinstance(message, Message) and message.kind is Kind.RESPONSE
    return message.id_token if is_answer and isinstance(message, Message) else None
