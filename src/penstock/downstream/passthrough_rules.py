"""Which rules a client over HTTP meets, and their look at what its upstream says to one request."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from penstock.net.http_exchange import Request
from penstock.relay.catalogs import principal_of
from penstock.relay.pending import Exchange
from penstock.wire.mcp.eras import Era, era_of_header
from penstock.wire.mcp.message import Batch, Kind, Message, read_upstream_message

if TYPE_CHECKING:
    from penstock.relay.review import Asked, Review, Reviews

log = logging.getLogger("penstock")

Then = Callable[[bytes | None], None]
"""Gets what may pass, None when nothing may."""


def review_of(reviews: Reviews, request: Request, message: Message | None, rights: bytes) -> Review:
    """The rules as this client meets them: by session, or by principal where there are no sessions."""
    if era_of_header(request.header(b"mcp-protocol-version")) is Era.MODERN:
        # There are no sessions in this era: an id is whatever the client likes, and a new one each time
        # would be a way out of every limit.
        return reviews.find(b"principal " + principal_of(request.header(b"authorization")), None, rights)
    session = request.header(b"mcp-session-id")
    if session is not None:
        return reviews.find(b"session " + session, session, rights)
    if message is not None and message.method == "initialize":
        return reviews.new(None, rights)
    return reviews.find(b"connection %d" % request.connection_id, None, rights)


class PassthroughRules:
    """Asks the rules about the messages of one response."""

    def __init__(
        self, review: Review, asked: Asked | None, method: str | None, answer: Callable[[bytes], None]
    ) -> None:
        """`asked` and `method` are of the client's request; `answer` gives the upstream an answer of ours."""
        self._review = review
        self._asked = asked
        self._method = method
        self._answer = answer

    def rule(self, raw: bytes, then: Then) -> None:
        """Lets the rules look at `raw`, one message or several."""
        message = read_upstream_message(raw)
        if isinstance(message, Batch):
            self._rule_batch(raw, message.parts, then)
            return
        asked = self._maybe_asked(message)
        if asked is None:
            log.warning("Dropped a response from the upstream that nobody asked for.")
            then(None)
        elif asked.watches("upstream"):
            self._review.ask_upstream(
                message,
                asked,
                lambda passed: self._take(passed, asked, then),
                lambda reply: self._take_refusal(reply, then),
            )
        else:
            self._take(message, asked, then)

    def _rule_batch(self, raw: bytes, parts: list[bytes], then: Then) -> None:
        kept: list[bytes | None] = [None] * len(parts)
        undecided = set(range(len(parts)))

        def settle(place: int, ruled: bytes | None) -> None:
            kept[place] = ruled
            undecided.discard(place)
            if not undecided:
                passed = [part for part in kept if part is not None]
                then(raw if passed == parts else b"[%b]" % b",".join(passed) if passed else None)

        for place, part in enumerate(parts):
            self.rule(part, partial(settle, place))

    def _maybe_asked(self, message: Message) -> Asked | None:
        """What the rules know of the request that this answers; None when there are rules and no request."""
        review = self._review
        if message.kind is not Kind.RESPONSE:
            return review.begin_upstream(message)
        review.note(message, self._method)
        exchange = None if message.id_token is None else review.requests.close(message.id_token)
        if self._asked is not None:
            return self._asked
        if exchange is not None and exchange.asked is not None:
            asked: Asked = exchange.asked
            return asked
        # A complaint that names no request is nobody's answer, and harmless.
        is_complaint = message.id_token in (None, b"null") and not message.has_result
        return None if review.is_ruled and not is_complaint else review.begin_upstream(message)

    def _take(self, passed: Message, asked: Asked, then: Then) -> None:
        if passed.kind is Kind.REQUEST and passed.id_token is not None:
            waiting = self._review.upstream_requests
            waiting.close(passed.id_token)
            waiting.open(Exchange(passed.id_token, passed.method or "", asked=asked))
        then(passed.raw)

    def _take_refusal(self, reply: bytes | None, then: Then) -> None:
        if reply is not None:
            self._answer(reply)
        then(None)
