"""Pass-through, on the way back: asks the gate about whatever a response holds, and does what it says."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

from penstock.downstream.answer_bodies import has_events, has_messages_in_events, is_nearly_a_message
from penstock.gate.batch_verdicts import BatchVerdicts
from penstock.policy.exchange import Exchange
from penstock.policy.verdict import FORWARD, Answer, Forward, Verdict, Wait
from penstock.wire.mcp.message import Batch, Kind, Message, read_upstream_message

if TYPE_CHECKING:
    from penstock.downstream.passthrough_response import PassthroughResponse
    from penstock.gate.session_table import TrackedSession

_REQUEST, _RESPONSE, _NOTIFICATION = Kind.REQUEST, Kind.RESPONSE, Kind.NOTIFICATION

Then = Callable[[bytes | None], None]
"""Gets what may pass, None when nothing may."""


def judge(response: PassthroughResponse, message: Message | Batch, raw: bytes, then: Then) -> None:
    """Asks the gate about what the upstream says; `then` gets what may pass, at once or later."""
    if isinstance(message, Batch):
        _judge_batch(response, message, then)
        return
    gate = response.passthrough.gate
    if gate.keeps_requests or (
        message.kind is not _NOTIFICATION and (message.kind is not _RESPONSE or response.message is None)
    ):
        exchange = _exchange_of(response, message)
    else:
        exchange = response.exchange
    verdict = gate.upstream_says(message, exchange)
    if verdict is FORWARD and (message.kind is _RESPONSE or not gate.keeps_requests):
        then(raw)
    else:
        _carry_out(response, verdict, message, exchange, then)


def maybe_hidden(response: PassthroughResponse, body: bytes, is_answer: bool, is_stream: bool) -> str | None:
    """Why something that is no answer of the protocol must not pass: some client would find one in it."""
    gate = response.passthrough.gate
    if gate.lists_hidden_tools(body):
        return "It lists tools that are hidden"
    if not gate.may_object:
        return None
    if is_answer and response.is_endpoint and response.method == b"GET" and has_events(body):
        # Some clients read whatever a GET brings as a stream, and ask for no type.
        return "It is a stream of events that does not say so"
    if has_messages_in_events(body, is_stream):
        return f"It has messages in events, and is no stream (HTTP {response.status})"
    if gate.is_ruled and is_nearly_a_message(body):
        return f"It has a message with something around it (HTTP {response.status})"
    return None


def _judge_batch(response: PassthroughResponse, batch: Batch, then: Then) -> None:
    """Asks about each message of an array; what is left of it passes when all are decided."""
    parts = batch.parts

    def done(kept: list[bytes | None]) -> None:
        left = [part for part in kept if part is not None]
        then(batch.raw if left == parts else _joined(left, response.message is not None))

    verdicts = BatchVerdicts(len(parts), done)
    with response.passthrough.gate.in_batch("upstream", batch.raw, response.exchange.session):
        for place, part in enumerate(parts):
            judge(response, read_upstream_message(part), part, partial(verdicts.take, place))
    if not parts:
        then(batch.raw)


def _exchange_of(response: PassthroughResponse, message: Message) -> Exchange:
    """The exchange that a message of the upstream's belongs to, or begins."""
    own = response.exchange
    is_known = response.passthrough.known is not None
    session: TrackedSession = own.session  # type: ignore[assignment]  # where it is known, the table made it
    if is_known and 200 <= response.status < 300:
        session.is_proven = True
    if message.kind is _RESPONSE:
        found = None
        if is_known and message.id_token is not None:
            found = session.requests.close(message.id_token)
        if response.message is not None:
            if found is own:
                response.remembered = ()  # it is in no table any more
            found = own
        if found is not None:
            found.status = response.status
            return found
    return Exchange(
        message.id_token or b"", message.method or "", session=own.session, version=response.head.version
    )


def _carry_out(
    response: PassthroughResponse, verdict: Verdict, message: Message, exchange: Exchange, then: Then
) -> None:
    """Does what was decided about a message of the upstream's."""
    if isinstance(verdict, Wait):
        verdict.then(lambda settled: _carry_out(response, settled, message, exchange, then))
    elif isinstance(verdict, Forward):
        passed = verdict.message or message
        if passed.kind is _REQUEST and passed.id_token is not None:
            _remember(response, passed.id_token, exchange)
        if verdict.word == "block":
            response.stand_in_head()
        then(passed.raw)
    else:
        if isinstance(verdict, Answer):
            response.passthrough.answer_upstream(verdict.raw, response.upstream_headers)
        then(None)


def _remember(response: PassthroughResponse, id_token: bytes, exchange: Exchange) -> None:
    """Keeps a request of the upstream's until its client has answered it."""
    if response.passthrough.known is not None:
        waiting = cast("TrackedSession", exchange.session).upstream_requests
        waiting.close(id_token)
        waiting.open(exchange)


def _joined(left: list[bytes], is_for_one: bool) -> bytes | None:
    """What is left of an array; whoever posted one message gets one error, and no array of it."""
    if len(left) == 1 and is_for_one:
        return left[0]
    return b"[%b]" % b",".join(left) if left else None
