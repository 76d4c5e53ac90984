"""One session: what the client says goes upstream, what the upstream says goes back, and the gate between.

The relay never waits and never re-encodes. It knows which requests are under way in either direction, holds
tool requests until the catalog is there, and answers what must not pass.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from penstock import limits
from penstock.errors import (
    ClientProtocolError,
    PenstockError,
    ToolListFailed,
    UpstreamError,
    UpstreamProtocolError,
)
from penstock.gate.carry import carry_out
from penstock.gate.gate import NO_MESSAGE, Gate
from penstock.gate.pending import PendingTable, RecentIds
from penstock.policy.exchange import Exchange, Headers, Route, Session
from penstock.policy.tools import tool_gate
from penstock.policy.tools.catalog import ToolCatalog
from penstock.policy.verdict import FORWARD, Answer, Drop, Forward, Hold, Verdict, Wait, Why
from penstock.relay.batch_replies import BatchReplies, no_batches, parts_of, take_batch
from penstock.relay.catalogs import LIST_CHANGED, maybe_own
from penstock.relay.contracts import ClientLink, UpstreamLink
from penstock.relay.handshake import Handshake
from penstock.relay.held_requests import HeldRequests
from penstock.relay.list_change import ListChange
from penstock.wire.mcp.eras import Era, maybe_modern_meta
from penstock.wire.mcp.message import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    Batch,
    Kind,
    Message,
    read_client_message,
    read_upstream_message,
)
from penstock.wire.mcp.replies import CANCELLED, error_reply, raw_error_reply, told, upstream_error_reply

log = logging.getLogger("penstock")

_RESPONSE = Kind.RESPONSE
# These may wait for ever: a handshake with an upstream that hangs, a subscription until somebody ends it.
_LASTING = frozenset({"initialize", "subscriptions/listen"})
_HOLDING = "holding"  # the reason for not reading a client whose tool requests pile up
_UNASKED = Why("relay", "drop", "it answers a question that nobody asked")


class SessionRelay:
    """The conversation of one client with its own upstream link."""

    def __init__(
        self,
        client: ClientLink,
        upstream: UpstreamLink,
        gate: Gate,
        session: Session | None = None,
        *,
        tools_seconds: float = limits.TOOLS_SECONDS,
        first_seconds: float = limits.START_SECONDS,
        on_catalog: Callable[[ToolCatalog], None] = lambda catalog: None,
        on_fatal: Callable[[PenstockError], None] = lambda error: None,
        catalogs: dict[Era, ToolCatalog] | None = None,
        translates: bool = True,
        refreshes: bool = False,
    ) -> None:
        self._client = client
        self._upstream = upstream
        self._gate = gate
        self._is_filtering = gate.is_filtering
        self._session = session = Session() if session is None else session
        self._on_catalog, self._on_fatal = on_catalog, on_fatal
        self._catalogs = catalogs or {}  # what is known before this client has spoken
        self._catalog: ToolCatalog | None = None
        self._was_catalog_seen = False
        self._change = ListChange(refreshes)
        self.requests = PendingTable()  # the client's, on their way to the upstream
        self._upstream_requests = PendingTable(limits.UPSTREAM_REQUESTS)  # the upstream's, to the client
        self._answered_here = RecentIds()
        taken, failed = self._take_catalog, self._take_catalog_failure
        self.room = HeldRequests(upstream, gate, session, tools_seconds, first_seconds, taken, failed)
        self._handshake = Handshake(session, translates)
        self.on_idle: Callable[[], None] | None = None  # called when nothing is held any more
        self.is_loss_felt = False  # the upstream was lost, and somebody waited for it
        session.on_idle = self._say_if_idle
        upstream.receiver = self

    def use(self, link: UpstreamLink) -> None:
        """Speaks with the upstream over `link` from now on."""
        self._upstream = self.room.upstream = link

    @property
    def is_holding(self) -> bool:
        """Whether a message still waits, for the catalog or for the rules."""
        return not self.room.is_empty or bool(self._session.waiting)

    @property
    def pending(self) -> int:
        """How many of the client's requests wait for the upstream."""
        return len(self.requests)

    @property
    def is_answering(self) -> bool:
        """Whether a request waits for the upstream that it could answer any moment."""
        return any(exchange.method not in _LASTING for exchange in self.requests)

    def from_client(self, raw: bytes, route: Route | None = None, headers: Headers = ()) -> None:
        """Takes one message as the client sent it, with the headers of what brought it."""
        try:
            message = read_client_message(raw)
        except ClientProtocolError as refusal:
            self.refuse_client(refusal, route, raw)
            return
        try:
            self.take(message, route, headers)
        except Exception:
            # A fault of ours must neither let a message pass half judged nor end the session.
            log.exception("A message from the client could not be handled.")
            token = None if isinstance(message, Batch) else message.id_token
            self._client.refuse(error_reply(token, INTERNAL_ERROR, "Internal error"), route)

    def take(self, message: Message | Batch, route: Route | None = None, headers: Headers = ()) -> bool:
        """Passes on, answers or drops what a client said; True when an answer has come or will come."""
        if not isinstance(message, Message):
            return self._take_batch(message, route, headers)
        if message.kind is _RESPONSE:
            self._take_response(message)
            return False
        method = message.method or ""
        if self._is_filtering:
            if self._catalog is None:
                if self._catalogs:
                    self._catalog = maybe_own(self._catalogs, message, self._handshake.is_begun)
            elif not self._was_catalog_seen and method in tool_gate.GATED:
                self._was_catalog_seen = True
        exchange = Exchange(message.id_token or b"", method, route, self._session, self._catalog, headers)
        if method == "notifications/cancelled" and self._is_ended_here(message):
            return False
        verdict = self._gate.client_says(message, exchange)
        if verdict is FORWARD:
            return self._pass_on(message, exchange)
        return self._carry_out(verdict, message, exchange)

    def refuse_client(
        self, refusal: ClientProtocolError, route: Route | None = None, raw: bytes = b""
    ) -> None:
        """Tells the client that a message of its own was not passed on; `raw` is what could not be read."""
        log.warning("Refused a message from the client. %s.", refusal.reason)
        if refusal.id_token is not None:
            self._answered_here.add(refusal.id_token)
        reply = error_reply(refusal.id_token, refusal.code, refusal.reason)
        why = Why("protocol", "refuse", refusal.reason, refusal.code)
        self._gate.said("client", "refuse", raw, why, session=self._session, sent=reply)
        self._refuse(reply, route)

    def _refuse(self, reply: bytes, route: Route | None) -> None:
        if isinstance(route, BatchReplies):
            route.take(reply)
        else:
            self._client.refuse(reply, route)

    def _carry_out(self, verdict: Verdict, message: Message, exchange: Exchange) -> bool:
        """Does what was decided; True when an answer has come or will come."""
        if isinstance(verdict, Forward):
            return self._pass_on(verdict.message or message, exchange)
        if isinstance(verdict, Answer):
            self._answered_here.add(exchange.id_token)
            (self._refuse if verdict.is_malformed else self._to_client)(verdict.raw, exchange.route)
            return True
        if isinstance(verdict, Hold):
            self._hold(message, exchange)
            return True
        if isinstance(verdict, Wait):
            verdict.then(lambda settled: self._carry_out_later(settled, message, exchange))
            verdict.hear(message, self._client)
            return message.kind is Kind.REQUEST
        log.warning("Dropped a message from the client: %s.", verdict.why.reason)
        return False

    def _carry_out_later(self, verdict: Verdict, message: Message, exchange: Exchange) -> None:
        """The same, some time after it came."""
        if isinstance(verdict, Drop) and message.kind is Kind.REQUEST:
            self._answered_here.add(exchange.id_token)
            if exchange.route is not None:
                # Cancelled. Nobody wants the answer, but somebody waits for this exchange to end.
                self._to_client(error_reply(message.id_token, INTERNAL_ERROR, CANCELLED), exchange.route)
        else:
            self._carry_out(verdict, message, exchange)

    def _pass_on(self, message: Message, exchange: Exchange) -> bool:
        method = message.method
        assert method is not None
        id_token = message.id_token
        if id_token is None:
            self._upstream.send(message)
            if method == "notifications/initialized":
                self._handshake.is_confirmed = True
                if self._handshake.is_answered:  # anybody can say it, and nobody has a list before that
                    self._want_catalog(None)
            return False
        if self._is_filtering and self._catalog is None and not self._handshake.is_begun:
            exchange.meta = maybe_modern_meta(message.params)
        if not self.requests.open(exchange):
            reason = "Invalid request: this id is already waiting for an answer"
            refusal = ClientProtocolError(INVALID_REQUEST, reason, id_token)
            self.refuse_client(refusal, exchange.route, message.raw)
            return True
        self._answered_here.discard(id_token)
        if method == "initialize":
            self._handshake.begin(message)
        self._upstream.send(message)
        return True

    def _take_response(self, message: Message) -> None:
        exchange = None if message.id_token is None else self._upstream_requests.close(message.id_token)
        if exchange is None:
            log.warning("Dropped a response from the client that nobody asked for.")
            self._gate.said("client", "drop", message.raw, _UNASKED, session=self._session)
            return
        carry_out(self._gate.client_says(message, exchange), message, self._upstream.send)

    def _take_batch(self, batch: Batch, route: Route | None, headers: Headers) -> bool:
        if not (self._handshake.has_batches and self._gate.takes_batches and batch.parts):
            self.refuse_client(no_batches(), route, batch.raw)
            return True
        take, deliver = partial(self.take, headers=headers), partial(self._to_client, route=route)
        with self._gate.in_batch("client", batch.raw, self._session):
            return take_batch(batch, take, self.refuse_client, deliver)

    def _is_ended_here(self, message: Message) -> bool:
        """Whether a cancel is for a request that never went upstream; one that is held is forgotten."""
        token = bytes((message.params or {}).get("requestId") or b"")
        if not token or not (self.room.forget(token) or token in self._answered_here):
            return False
        why = Why("relay", "drop", "it cancels a request that never went upstream")
        log.warning("Dropped a message from the client: %s.", why.reason)
        self._gate.said("client", "drop", message.raw, why, session=self._session)
        return True

    def give_up(self, why: str) -> None:
        """Nothing goes upstream any more: what waits for the rules to get there is answered."""
        self._session.fail_requests(why)

    def end(self) -> None:
        """The session is over, and nobody waits for verdicts."""
        self.room.stop()
        self._session.end()

    def client_ended(self) -> None:
        """The client says no more; what it waits for may still come, unless it waits for a person."""
        self._upstream_requests.close_all()
        self._session.client_left()

    def _hold(self, message: Message, exchange: Exchange) -> None:
        if self.room.bytes_held > 2 * limits.HELD_BYTES:  # from a client whose reading cannot be paused
            self._fail(exchange, "Too much waits already")
            return
        self.room.hold(message, exchange)
        if self.room.bytes_held > limits.HELD_BYTES:
            self._client.pause(_HOLDING)
        if not self._handshake.is_begun:
            # No handshake at all: either a modern client, or one that skips it and hopes.
            self._want_catalog(maybe_modern_meta(message.params), is_final=False)
        elif self._handshake.is_answered:
            self._want_catalog(None)

    def _want_catalog(self, meta: bytes | None, is_final: bool = True) -> None:
        if self._is_filtering and self._catalog is None:
            self.room.fetch(meta, is_final, error_means_none=not self._handshake.has_tools)

    def _refresh_unseen_catalog(self) -> None:
        # Some upstreams add tools when they have heard what the client can do. What no client has seen yet
        # may still change; from the first look on the catalog is frozen.
        is_fixed = self._catalog is None or bool(self._catalogs) or self._was_catalog_seen
        if not is_fixed and self._handshake.is_answered:
            self._catalog = None
            self._want_catalog(None)

    def _take_catalog(self, catalog: ToolCatalog) -> None:
        if not self._change.is_news(self._catalog, catalog, self._client):
            return
        self._catalog = catalog
        self._on_catalog(catalog)
        for message, exchange in self.room.leave():
            self._was_catalog_seen = True
            exchange.catalog = catalog
            self._carry_out(self._gate.client_says(message, exchange), message, exchange)
        self._go_on()

    def _take_catalog_failure(self, failure: ToolListFailed, refusal: bytes | None, is_final: bool) -> None:
        self._change.forget()
        for _, exchange in self.room.leave():
            if refusal is not None:
                self._reply(exchange, raw_error_reply(exchange.id_token, self._gate.shown_error(refusal)))
            else:
                self._lose(exchange, failure)
        if is_final:
            self._fail_pending(failure)
            self._on_fatal(failure)
            return
        log.warning("%s. %s.", failure.headline, failure.detail, extra=failure.for_log)
        self._go_on()

    def _go_on(self) -> None:
        self._client.resume(_HOLDING)
        self._say_if_idle()

    def _say_if_idle(self) -> None:
        if self.on_idle is not None and not self.is_holding:
            self.on_idle()

    def from_upstream(self, raw: bytes) -> None:
        """Takes one message as the upstream sent it."""
        try:
            message = read_upstream_message(raw)
        except UpstreamProtocolError as refusal:
            self.upstream_refused(refusal.id_token, refusal.reason, raw)
            return
        if isinstance(message, Batch):
            with self._gate.in_batch("upstream", raw, self._session):
                for part in parts_of(message, self._handshake.has_batches):
                    self.from_upstream(part)
        elif message.kind is _RESPONSE:
            self.take_upstream_response(message)
        else:
            exchange = self._new_exchange(message)
            carry_out(
                self._gate.upstream_says(message, exchange),
                message,
                lambda passed: self._send_unasked(passed, exchange),
                self._answer_upstream,
            )

    def _send_unasked(self, message: Message, exchange: Exchange) -> None:
        if message.method == LIST_CHANGED and self._is_filtering:
            is_seen = self._was_catalog_seen and self._catalog is not None
            if self._change.is_held(message, is_seen, lambda: self.room.fetch(None, False, False)):
                return
            self._refresh_unseen_catalog()
        if message.kind is Kind.REQUEST:
            self._upstream_requests.open(exchange)
        self._client.send(message.raw, None, message)

    def take_upstream_response(self, message: Message) -> None:
        """Takes one response that was read already, as `from_upstream` reads it."""
        exchange = None if message.id_token is None else self.requests.close(message.id_token)
        if exchange is None:
            self._take_stray_response(message)
            return
        if exchange.method == "initialize":
            if not self._is_handshake_taken(message, exchange):
                return
        elif exchange.meta is not None and "result" in message.envelope and not self._handshake.is_begun:
            # Only now it is certain that the upstream is a modern one; the client may have been probing.
            self._want_catalog(exchange.meta)
        verdict = self._gate.upstream_says(message, exchange)
        if verdict is FORWARD:
            self._to_client(message.raw, exchange.route, message)
        else:
            self._carry_back(verdict, message, exchange)

    def _is_handshake_taken(self, message: Message, exchange: Exchange) -> bool:
        """Takes the answer to initialize; False when the upstream is asked first for the other era."""
        opening = self._handshake.take_opening()
        if opening is not None and not message.has_result:
            from penstock.relay.adapters.era_link import LegacyClientLink

            self.requests.open(exchange)
            self.use(LegacyClientLink(self._upstream, self, opening, message))
            return False
        if self._handshake.take_answer(message) and (self._handshake.is_confirmed or not self.room.is_empty):
            self._want_catalog(None)
        return True

    def _carry_back(self, verdict: Verdict, message: Message, exchange: Exchange) -> None:
        """Gives the client the answer to its request, or what stands in its place."""
        carry_out(verdict, message, lambda passed: self._to_client(passed.raw, exchange.route, passed))

    def _new_exchange(self, message: Message) -> Exchange:
        """What a message of the upstream's begins."""
        return Exchange(message.id_token or b"", message.method or "", session=self._session)

    def _take_stray_response(self, message: Message) -> None:
        """Takes what answers no request of the client's."""
        if self.room.owns(message.id_token):
            self.room.take_page(message)
        elif message.id_token in (None, b"null") and "error" in message.envelope:
            # A complaint about something that the upstream could not read: nobody's answer.
            exchange = self._new_exchange(message)
            self._carry_back(self._gate.upstream_says(message, exchange), message, exchange)
        else:
            log.warning("Dropped a response from the upstream that nobody asked for.")
            self._gate.said("upstream", "drop", message.raw, _UNASKED, session=self._session)

    def _answer_upstream(self, verdict: Answer) -> None:
        answer = read_upstream_message(verdict.raw)
        assert isinstance(answer, Message)
        self._upstream.send(answer)

    def upstream_noise(self, raw: bytes) -> None:
        """A line that is no message was skipped, and told."""
        self._gate.said("upstream", "skip", raw, Why("protocol", "skip", NO_MESSAGE), session=self._session)

    def upstream_refused(self, id_token: bytes | None, why: str, raw: bytes = b"") -> None:
        """Something of the upstream's cannot be passed on; who waits for it hears an error."""
        log.warning("Skipped a message from the upstream. %s.", why)
        exchange = self.requests.close(id_token) if id_token is not None else None
        self._gate.said("upstream", "skip", raw, Why("protocol", "skip", why), exchange, self._session)
        if id_token is not None and self.room.owns(id_token):
            self.room.fail(ToolListFailed("The answer cannot be read"))
        elif exchange is not None:
            self._fail(exchange, told(why))

    def upstream_lost(self, error: UpstreamError) -> None:
        """The upstream is gone: everybody who waits hears it, then the session ends."""
        self.is_loss_felt = self.is_holding or self.pending > 0
        self.room.stop()
        for _, exchange in self.room.leave():
            self._lose(exchange, error)
        self._fail_pending(error)
        self.give_up(error.safe_message)
        self._on_fatal(error)

    def _fail_pending(self, error: UpstreamError) -> None:
        for exchange in self.requests.close_all():
            self._lose(exchange, error)

    def _lose(self, exchange: Exchange, error: UpstreamError) -> None:
        if self._gate.answers_losses or exchange.route is not None:  # a POST always gets an answer
            self._reply(exchange, upstream_error_reply(exchange.id_token, error))

    def _fail(self, exchange: Exchange, why: str) -> None:
        self._reply(exchange, error_reply(exchange.id_token, INTERNAL_ERROR, why))

    def _reply(self, exchange: Exchange, raw: bytes) -> None:
        """Answers a request ourselves, because nobody else will."""
        self._gate.said("penstock", "answer", raw, None, exchange)
        self._to_client(raw, exchange.route)

    def _to_client(self, raw: bytes, route: Route | None, message: Message | None = None) -> None:
        if isinstance(route, BatchReplies):
            route.take(raw)
        else:
            self._client.send(raw, route, message)
