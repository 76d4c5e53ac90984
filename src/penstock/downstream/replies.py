"""HTTP replies that carry JSON-RPC, and requests that are refused before anybody reads their JSON."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from penstock.errors import ClientProtocolError, UpstreamError
from penstock.gate.gate import Gate
from penstock.net.http_exchange import Reply
from penstock.policy.exchange import Session
from penstock.policy.verdict import Answer, Drop, Why
from penstock.relay.backlog import BACKLOG, Piled
from penstock.wire.http.http1 import Headers, response_start
from penstock.wire.http.sse import encode_event
from penstock.wire.json.ambiguity import members
from penstock.wire.json.splice import with_value
from penstock.wire.mcp.eras import Era
from penstock.wire.mcp.message import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Kind,
    Message,
)
from penstock.wire.mcp.replies import CANCELLED, error_reply, upstream_error_reply
from penstock.wire.mcp.routing_headers import HEADER_MISMATCH

if TYPE_CHECKING:  # loaded where an upstream has refused somebody
    from penstock.wire.mcp.carried import HttpRefusal

log = logging.getLogger("penstock")

Outcome = TypeVar("Outcome")

JSON: Headers = [(b"Content-Type", b"application/json")]
_JSON_START = response_start(200, JSON)
EVENTS: Headers = [
    (b"Content-Type", b"text/event-stream"),
    (b"Cache-Control", b"no-cache, no-transform"),
    (b"X-Accel-Buffering", b"no"),
]
_EVENTS_START = response_start(200, EVENTS)


def send_json(reply: Reply, status: int, raw: bytes, more: Headers | None = None) -> None:
    """Replies with one JSON-RPC message."""
    if status == 200 and not more:
        reply.send_as(_JSON_START, raw)
        return
    reply.send(status, JSON + more if more else JSON, raw)


MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
"""The HTTP statuses that the modern era has for errors of the protocol; all else is 200."""


def status_of(code: int) -> int:
    """The HTTP status that the modern era has for an answer with this error; 0 is none."""
    return STATUS.get(code, 200)


def status_for(verdict: Answer, era: Era) -> int:
    """The HTTP status of an answer of ours. The older era has one only for what could not be read."""
    if era is Era.MODERN:
        return status_of(verdict.code)
    return 400 if verdict.is_malformed else 200


def send_event(reply: Reply, raw: bytes) -> None:
    """Replies with one JSON-RPC message in a stream that ends with it."""
    reply.stream_as(_EVENTS_START, encode_event(raw, "message"))


def wait_unless_gone(
    reply: Reply,
    wait: Callable[[Callable[[Outcome], None]], None],
    withdraw: Callable[[Callable[[Outcome], None]], None],
    then: Callable[[Outcome], None],
) -> None:
    """Waits for something with `wait` and goes on with `then`; withdraws when the client hangs up first."""

    def waiter(outcome: Outcome) -> None:
        reply.on_gone = None
        then(outcome)

    def leave() -> None:
        reply.on_gone = None  # which knows the reply: untied, both are gone without the collector
        withdraw(waiter)

    reply.on_gone = leave
    wait(waiter)


def is_denied(reply: Reply, id_token: bytes | None, error: UpstreamError) -> bool:
    """Whether the error is the upstream's wish for other credentials; then the client has been told."""
    from penstock.wire.mcp.carried import Denied

    if not isinstance(error, Denied):
        return False
    deny(reply, id_token, error.refusal)
    return True


def deny(reply: Reply, id_token: bytes | None, refusal: HttpRefusal) -> None:
    """Says to the client what the upstream has said of its credentials."""
    raw = with_value(bytes(refusal), members(refusal), "id", id_token or b"null")
    send_json(reply, refusal.status, raw, refusal.headers)


def send_failure(reply: Reply, id_token: bytes | None, error: UpstreamError) -> None:
    """Replies that the upstream cannot be asked, or in its own words that it wants other credentials."""
    if not is_denied(reply, id_token, error):
        send_json(reply, 502, upstream_error_reply(id_token, error))


def refuse(reply: Reply, status: int, reason: str, more: Headers | None = None) -> None:
    """Replies with a JSON-RPC error that has no id: the body was not read, or is nobody's request."""
    send_json(reply, status, error_reply(None, INVALID_REQUEST, reason), more)


def refuse_message(reply: Reply, refusal: ClientProtocolError) -> None:
    """Replies that a message must not be forwarded."""
    send_json(reply, 400, error_reply(refusal.id_token, refusal.code, refusal.reason))


def refuse_unread(
    reply: Reply, refusal: ClientProtocolError, gate: Gate, body: bytes, session: Session | None = None
) -> None:
    """The same for what never gets to the gate; people and observers hear of it."""
    log.warning("Refused a message from a client. %s.", refusal.reason)
    why = Why("protocol", "refuse", refusal.reason, refusal.code)
    gate.said("client", "refuse", body, why, session=session, status=400)
    refuse_message(reply, refusal)


def drop_posted(verdict: Drop, message: Message, reply: Reply) -> None:
    """Replies to a message that is neither passed on nor answered; who waits for an answer hears so."""
    log.warning("Dropped a message from a client: %s.", verdict.why.reason)
    if message.kind is Kind.REQUEST:  # it was cancelled while it waited
        send_json(reply, 200, error_reply(message.id_token, INTERNAL_ERROR, CANCELLED))
    else:
        reply.send(202, [])


def is_refused_for_now(reply: Reply, sender: Piled) -> bool:
    """Whether a POST of one who has more than a little waiting is answered 503, because the upstream does not
    keep up and more would only pile up."""
    objection = BACKLOG.maybe_objection(sender)
    if objection is None:
        return False
    log.warning("Refused what a client posted: %s are not taken or not answered yet.", objection)
    refuse(reply, 503, "The upstream does not keep up", [(b"Retry-After", b"1")])
    return True
