"""A relay with rules: what the tool gate has nothing against, the rules look at before it goes on."""

from __future__ import annotations

from typing import Any

from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.verdict import Answer, Hold, Verdict, is_open
from penstock.relay.contracts import ClientLink, Route, UpstreamLink
from penstock.relay.pending import Exchange
from penstock.relay.review import Asked, Review
from penstock.relay.session_relay import SessionRelay
from penstock.wire.mcp.message import INTERNAL_ERROR, Kind, Message, read_upstream_message
from penstock.wire.mcp.replies import CANCELLED, error_reply


class RuledSessionRelay(SessionRelay):
    """The conversation of one client under rules. A message that no rule watches costs one lookup more."""

    def __init__(
        self, client: ClientLink, upstream: UpstreamLink, choice: ToolFilter, review: Review, **options: Any
    ) -> None:
        """`options` are those of a relay without rules."""
        super().__init__(client, upstream, choice, **options)
        self._review = review
        review.on_idle = self._say_if_idle

    @property
    def is_holding(self) -> bool:
        """Whether a client's message still waits, for the catalog or for the rules."""
        return super().is_holding or self._review.is_waiting

    def give_up(self, why: str) -> None:
        """Nothing goes upstream any more: what waits for the rules to get there is answered."""
        self._review.fail_requests(why)

    def end(self) -> None:
        """The session is over, and nobody waits for verdicts."""
        super().end()
        self._review.end()

    def _follow(self, verdict: Verdict, message: Message, route: Route | None, asked: Any = None) -> bool:
        if asked is not None or isinstance(verdict, Hold):
            return super()._follow(verdict, message, route, asked)
        asked = self._review.begin(message)
        if not (is_open(verdict) and asked.watches("client")):
            return super()._follow(verdict, message, route, asked)
        # What the rules changed is looked at once more: no rule makes a hidden tool callable.
        self._review.ask_client(
            message,
            asked,
            lambda passed: self._follow_passed(passed, route, asked),
            lambda reply: self._refuse(message, reply, route),
        )
        return message.kind is Kind.REQUEST

    def _follow_passed(self, message: Message, route: Route | None, asked: Asked) -> None:
        self._follow(self._verdict(message), message, route, asked)

    def _refuse(self, message: Message, reply: bytes | None, route: Route | None) -> None:
        if message.id_token is None:
            return
        self._answered_here.add(message.id_token)
        if reply is None and route is not None:
            # Cancelled. Nobody wants the answer, but somebody waits for this exchange to end.
            reply = error_reply(message.id_token, INTERNAL_ERROR, CANCELLED)
        if reply is not None:
            self._to_client(reply, route)

    def _cancel_ends_here(self, message: Message) -> bool:
        if super()._cancel_ends_here(message):
            return True
        token = (message.params or {}).get("requestId")
        return token is not None and self._review.cancel(bytes(token))

    def _answer_here(self, verdict: Answer, message: Message, route: Route | None, asked: Any) -> None:
        if not verdict.is_list or message.id_token is None or asked is None:
            super()._answer_here(verdict, message, route, asked)
            return
        # A list from the catalog is a response like any other to the rules.
        self._answered_here.add(message.id_token)
        listed = read_upstream_message(verdict.raw)
        assert isinstance(listed, Message)
        exchange = Exchange(message.id_token, message.method or "", route, asked=asked)
        if asked.watches("upstream"):
            self._deliver(listed, exchange)
        else:
            self._review.note(listed, exchange.method)
            self._to_client(verdict.raw, route)

    def _send_response(self, message: Message, exchange: Exchange) -> None:
        self._review.note(message, exchange.method)
        if exchange.asked is not None and exchange.asked.watches("client"):
            self._review.ask_client(message, exchange.asked, self._upstream.send, lambda reply: None)
        else:
            super()._send_response(message, exchange)

    def _send_unasked(self, message: Message, asked: Any = None) -> None:
        if asked is not None:
            super()._send_unasked(message, asked)
            return
        asked = self._review.begin_upstream(message)
        if not asked.watches("upstream"):
            super()._send_unasked(message, asked)
            return
        self._review.ask_upstream(
            message,
            asked,
            lambda passed: self._send_unasked(passed, asked),
            lambda reply: None if reply is None else self._answer_upstream(reply),
        )

    def _deliver(self, message: Message, exchange: Exchange) -> None:
        self._review.note(message, exchange.method)
        if exchange.asked is not None and exchange.asked.watches("upstream"):
            self._review.ask_upstream(
                message,
                exchange.asked,
                lambda passed: self._to_client(passed.raw, exchange.route, passed),
                lambda reply: None,
            )
        else:
            super()._deliver(message, exchange)
