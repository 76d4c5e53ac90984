"""What the gate and the rules make of the messages of a batch, and what they know of any message."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from penstock.policy.verdict import FORWARD, Answer, Verdict, is_open
from penstock.relay.pending import Exchange, PendingTable
from penstock.wire.mcp.message import INTERNAL_ERROR, Kind, Message, read_upstream_message
from penstock.wire.mcp.replies import CANCELLED, error_reply

if TYPE_CHECKING:  # loaded only where there are rules
    from penstock.relay.review import Asked, Review

Settle = Callable[[Message | None, bytes | None], None]


class BatchReview:
    """Judges every message of a batch; then says, once, which pass and which answers there are already."""

    def __init__(
        self,
        messages: list[Message],
        judge: Callable[[Message], Verdict],
        review: Review | None,
        send: Callable[[list[Message], list[bytes]], None],
    ) -> None:
        self._judge = judge
        self._review = review
        self._send = send
        self._decided: list[tuple[Message | None, bytes | None]] = [(None, None)] * len(messages)
        self._undecided = set(range(len(messages)))
        for place, message in enumerate(messages):
            self._take(message, partial(self._settle, place))

    def _settle(self, place: int, passed: Message | None, answer: bytes | None) -> None:
        self._decided[place] = passed, answer
        self._undecided.discard(place)
        if not self._undecided:
            self._send(
                [passed for passed, _ in self._decided if passed is not None],
                [answer for _, answer in self._decided if answer is not None],
            )

    def _take(self, message: Message, settle: Settle) -> None:
        review = self._review
        if review is None:
            self._follow(message, None, settle)
        elif cancels_what_waits(message, review):
            settle(None, None)
        else:
            asked = begin(message, review)
            if is_open(self._judge(message)) and asked.watches("client"):
                review.ask_client(
                    message,
                    asked,
                    lambda passed: self._follow(passed, asked, settle),
                    lambda raw: self._refused(message, raw, settle),
                )
            else:
                self._follow(message, asked, settle)

    def _follow(self, passed: Message, asked: Asked | None, settle: Settle) -> None:
        review = self._review
        verdict = self._judge(passed)
        if verdict is FORWARD:
            if review is not None and asked is not None:
                remember(review.requests, passed, asked)
            settle(passed, None)
        elif not isinstance(verdict, Answer):
            settle(None, None)
        elif verdict.is_list and review is not None and asked is not None and asked.watches("upstream"):
            listed = read_upstream_message(verdict.raw)
            assert isinstance(listed, Message)
            review.ask_upstream(listed, asked, lambda said: settle(None, said.raw), lambda raw: None)
        else:
            settle(None, verdict.raw)

    def _refused(self, message: Message, raw: bytes | None, settle: Settle) -> None:
        if raw is None and message.kind is Kind.REQUEST:
            raw = error_reply(message.id_token, INTERNAL_ERROR, CANCELLED)
        settle(None, raw)


def begin(message: Message, review: Review) -> Asked:
    """What the rules know of a client's message; of a response: what they know of the upstream's request."""
    if message.kind is Kind.RESPONSE and message.id_token is not None:
        exchange = review.upstream_requests.close(message.id_token)
        if exchange is not None and exchange.asked is not None:
            asked: Asked = exchange.asked
            return asked
    return review.begin(message)


def remember(table: PendingTable, message: Message, asked: Asked) -> None:
    """Notes a request whose answer may come by another way than it went."""
    if message.kind is Kind.REQUEST and message.id_token is not None:
        table.close(message.id_token)
        table.open(Exchange(message.id_token, message.method or "", asked=asked))


def cancels_what_waits(message: Message, review: Review) -> bool:
    """Whether this cancels a request that waits for the rules, and now does so no more."""
    token = (message.params or {}).get("requestId") if message.method == "notifications/cancelled" else None
    return token is not None and review.cancel(bytes(token))
