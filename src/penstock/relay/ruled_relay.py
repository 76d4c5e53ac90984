"""A relay with rules: what the tool gate has nothing against, the rules look at before it goes on."""

from __future__ import annotations

from typing import Any

from penstock.policy.tool_filter import ToolFilter
from penstock.policy.verdict import Answer, Verdict
from penstock.relay.contracts import ClientLink, Route, UpstreamLink
from penstock.relay.relay import Relay
from penstock.relay.review import Asked, Review
from penstock.relay.tables import Exchange
from penstock.wire.message import Kind, Message, read_upstream_message


class RuledRelay(Relay):
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

    def _follow(self, verdict: Verdict, message: Message, route: Route | None, asked: Any = None) -> bool:
        if asked is not None or not self._review.is_concerned(message, verdict):
            return super()._follow(verdict, message, route, asked)
        asked = self._review.begin(message)
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
        if reply is not None:
            self._answer_here(Answer(reply), message, route, None)

    def _answer_here(self, verdict: Answer, message: Message, route: Route | None, asked: Any) -> None:
        if asked is None or not verdict.is_list or message.id_token is None:
            super()._answer_here(verdict, message, route, asked)
            return
        # A list from the catalog is a response like any other to the rules.
        self._answered_here.add(message.id_token)
        listed = read_upstream_message(verdict.raw)
        assert isinstance(listed, Message)
        self._deliver(listed, Exchange(message.id_token, message.method or "", route, asked=asked))

    def _send_response(self, message: Message, exchange: Exchange) -> None:
        self._review.note(message, exchange.method)
        if self._review.watches(exchange.method, "client"):
            self._review.ask_client(message, exchange.asked, self._upstream.send, lambda reply: None)
        else:
            super()._send_response(message, exchange)

    def _send_unasked(self, message: Message, asked: Any = None) -> None:
        if asked is None:
            self._review.note(message, message.method)
        if asked is not None or not self._review.watches(message.method, "upstream"):
            super()._send_unasked(message, asked)
            return
        asked = self._review.begin(message)
        self._review.ask_upstream(
            message,
            asked,
            lambda passed: self._send_unasked(passed, asked),
            lambda reply: None if reply is None else self._answer_upstream(reply),
        )

    def _deliver(self, message: Message, exchange: Exchange) -> None:
        self._review.note(message, exchange.method)
        if self._review.watches(exchange.method, "upstream"):
            self._review.ask_upstream(
                message,
                exchange.asked,
                lambda passed: self._to_client(passed.raw, exchange.route, passed),
                lambda reply: None,
            )
        else:
            super()._deliver(message, exchange)
