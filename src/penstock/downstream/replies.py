"""HTTP replies that carry JSON-RPC, and requests that are refused before anybody reads their JSON."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import TypeVar

from penstock import limits
from penstock.errors import ClientProtocolError
from penstock.net.http_exchange import Reply, Request
from penstock.policy.verdict import Answer
from penstock.relay.contracts import UpstreamLink
from penstock.wire.http.http1 import Headers, response_start
from penstock.wire.mcp.eras import Era
from penstock.wire.mcp.message import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR
from penstock.wire.mcp.replies import error_reply
from penstock.wire.mcp.routing_headers import HEADER_MISMATCH

log = logging.getLogger("penstock")

Outcome = TypeVar("Outcome")

JSON: Headers = [(b"Content-Type", b"application/json")]
_JSON_START = response_start(200, JSON)
EVENTS: Headers = [
    (b"Content-Type", b"text/event-stream"),
    (b"Cache-Control", b"no-cache, no-transform"),
    (b"X-Accel-Buffering", b"no"),
]
# The header goes on to an HTTP upstream, which may decode the body by it: then other text is run than was
# judged. What some take for a charset and others do not (blanks round the "=", charset*=) is refused with it.
_JSON_IN_UTF8 = re.compile(
    rb"""(?i)application/json[\t ]*(?:;[\t ]*(?:charset=(?:utf-?8|us-ascii|"utf-?8"|"us-ascii")[\t ]*)?)?"""
).fullmatch


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


def refuse(reply: Reply, status: int, reason: str, more: Headers | None = None) -> None:
    """Replies with a JSON-RPC error that has no id: the body was not read, or is nobody's request."""
    send_json(reply, status, error_reply(None, INVALID_REQUEST, reason), more)


def refuse_message(reply: Reply, refusal: ClientProtocolError) -> None:
    """Replies that a message must not be forwarded."""
    send_json(reply, 400, error_reply(refusal.id_token, refusal.code, refusal.reason))


def is_refused_for_now(reply: Reply, link: UpstreamLink) -> bool:
    """Whether a POST is answered 503, because the upstream takes nothing and more would only pile up."""
    if link.untaken <= limits.UNANSWERED_BYTES:
        return False
    log.warning("Refused what a client posted: the upstream has not taken %d bytes yet.", link.untaken)
    refuse(reply, 503, "The upstream does not read", [(b"Retry-After", b"1")])
    return True


def maybe_wrong_body(request: Request) -> tuple[int, str] | None:
    """Status and reason when a POST is not JSON as it stands; None when its body may be read."""
    kind = request.header(b"content-type")
    if kind != b"application/json":  # as nearly everybody writes it
        if kind is None or kind.partition(b";")[0].strip().lower() != b"application/json":
            return 415, "Unsupported media type: Content-Type must be application/json"
        if _JSON_IN_UTF8(kind) is None:
            return 415, "Unsupported media type: JSON is UTF-8"
    coding = request.header(b"content-encoding")
    if coding is not None and coding.lower().strip() != b"identity":
        return 415, "Unsupported media type: a compressed body is not read"
    return None


def maybe_wrong_post(request: Request) -> tuple[int, str] | None:
    """The same for a POST to our Streamable HTTP endpoint, whose answer may be JSON or events."""
    wrong = maybe_wrong_body(request)
    if wrong is None and not (
        accepts(request, b"application/json") and accepts(request, b"text/event-stream")
    ):
        return 406, "Not acceptable: the client must accept application/json and text/event-stream"
    return wrong


def accepts(request: Request, media: bytes) -> bool:
    """Whether the client says that it takes `media`; one that says nothing takes anything."""
    accept = request.header(b"accept")
    if accept is None:
        return True
    kinds = {part.split(b";")[0].strip() for part in accept.lower().split(b",")}
    family = media.split(b"/")[0] + b"/*"
    return media in kinds or b"*/*" in kinds or family in kinds


def wants_events(request: Request) -> bool:
    """Whether the client asks for events by name. What browsers load for a page takes anything, and a stream
    that is opened costs a process: an image must not start one."""
    kinds = (request.header(b"accept") or b"").lower().split(b",")
    return any(kind.partition(b";")[0].strip() == b"text/event-stream" for kind in kinds)


def is_session_id(value: bytes) -> bool:
    """Whether `value` can be a session id: visible ASCII only."""
    return 0 < len(value) <= 1024 and all(0x21 <= byte <= 0x7E for byte in value)
