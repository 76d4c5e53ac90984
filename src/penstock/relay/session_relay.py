"""One session: what the client says goes upstream, what the upstream says goes back, and the gate between.

The relay never waits and never re-encodes. It remembers which requests are under way in either direction,
holds tool requests until the catalog is there, and answers what must not pass.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from penstock import limits
from penstock.errors import (
    ClientProtocolError,
    PenstockError,
    ToolListFailed,
    UpstreamError,
    UpstreamProtocolError,
)
from penstock.policy.tools import tool_gate, tool_lists
from penstock.policy.tools.catalog import ToolCatalog
from penstock.policy.tools.schema import SchemaCheck
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.verdict import FORWARD, Answer, Drop, Hold, Verdict
from penstock.relay.batch_replies import BatchReplies
from penstock.relay.contracts import ClientLink, Route, UpstreamLink
from penstock.relay.held_requests import HeldRequests
from penstock.relay.pending import Exchange, PendingTable, RecentIds
from penstock.relay.server_info import ServerInfo, maybe_server_info
from penstock.wire.mcp.eras import BATCH_VERSION, MODERN_VERSIONS, Era, maybe_modern_meta
from penstock.wire.mcp.message import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    Batch,
    Kind,
    Message,
    is_batch,
    read_client_message,
    read_upstream_message,
)
from penstock.wire.mcp.replies import INVALID_ANSWER, error_reply, raw_error_reply, told

log = logging.getLogger("penstock")

_RESPONSE = Kind.RESPONSE
# These may wait for ever: a handshake with an upstream that hangs, a subscription until somebody ends it.
_LASTING = frozenset({"initialize", "subscriptions/listen"})
_HOLDING = "holding"  # the reason for not reading a client whose tool requests pile up


class SessionRelay:
    """The conversation of one client with its own upstream link."""

    def __init__(
        self,
        client: ClientLink,
        upstream: UpstreamLink,
        choice: ToolFilter,
        *,
        tools_seconds: float = limits.TOOLS_SECONDS,
        on_catalog: Callable[[ToolCatalog], None] = lambda catalog: None,
        on_fatal: Callable[[PenstockError], None] = lambda error: None,
        catalogs: dict[Era, ToolCatalog] | None = None,
        schema: SchemaCheck | None = None,
    ) -> None:
        self._client = client
        self._upstream = upstream
        self._choice = choice
        self._is_filtering = choice.is_active
        self._on_catalog = on_catalog
        self._on_fatal = on_fatal
        self._schema = schema
        self._catalogs = catalogs or {}  # what is known before this client has spoken
        self._catalog: ToolCatalog | None = None
        self._was_catalog_seen = False
        self._requests = PendingTable()  # the client's, on their way to the upstream
        self._upstream_requests = PendingTable()  # the upstream's, on their way to the client
        self._answered_here = RecentIds()
        self._room = HeldRequests(
            upstream, choice, tools_seconds, self._take_catalog, self._take_catalog_failure
        )
        self._version: object = None  # negotiated, legacy era
        self._was_initialize_sent = False
        self._was_initialize_answered = False
        self._was_initialized_said = False
        self._has_tools = True
        self.on_idle: Callable[[], None] | None = None  # called when nothing is held any more
        self.is_loss_felt = False  # the upstream was lost, and somebody waited for it
        upstream.receiver = self

    @property
    def is_holding(self) -> bool:
        """Whether a client's message still waits for the catalog."""
        return not self._room.is_empty

    @property
    def pending(self) -> int:
        """How many of the client's requests wait for the upstream."""
        return len(self._requests)

    @property
    def is_answering(self) -> bool:
        """Whether a request waits for the upstream that it could answer any moment."""
        return any(exchange.method not in _LASTING for exchange in self._requests)

    # --- from the client -------------------------------------------------------------------------------

    def from_client(self, raw: bytes, route: Route | None = None) -> None:
        """Takes one message as the client sent it."""
        try:
            message = read_client_message(raw)
        except ClientProtocolError as refusal:
            self.refuse_client(refusal, route)
            return
        try:
            self.take(message, route)
        except Exception:
            # A fault of ours must neither let a message pass half judged nor end the session.
            log.exception("A message from the client could not be handled.")
            id_token = message.id_token if isinstance(message, Message) else None
            self._client.refuse(error_reply(id_token, INTERNAL_ERROR, "Internal error"), route)

    def take(self, message: Message | Batch, route: Route | None = None) -> bool:
        """Passes on, answers or drops what a client said; True when an answer has come or will come."""
        if not isinstance(message, Message):
            return self._take_batch(message, route)
        if message.kind is _RESPONSE:
            self._take_response(message)
            return False
        return self._follow(self._verdict(message), message, route)

    def refuse_client(self, refusal: ClientProtocolError, route: Route | None = None) -> None:
        """Tells the client that a message of its own was not passed on."""
        log.warning("Refused a message from the client. %s.", refusal.reason)
        if refusal.id_token is not None:
            self._answered_here.add(refusal.id_token)
        raw = error_reply(refusal.id_token, refusal.code, refusal.reason)
        if isinstance(route, BatchReplies):
            route.take(raw)
        else:
            self._client.refuse(raw, route)

    def _follow(self, verdict: Verdict, message: Message, route: Route | None, asked: Any = None) -> bool:
        """Does what was decided. `asked` is what those remember of a request who were asked about it."""
        if verdict is FORWARD:
            return self._pass_on(message, route, asked)
        if isinstance(verdict, Answer):
            self._answer_here(verdict, message, route, asked)
            return True
        if isinstance(verdict, Hold):
            self._hold(message, route)
            return True
        assert isinstance(verdict, Drop)
        log.warning("Dropped a message from the client: %s.", verdict.why)
        return False

    def _verdict(self, message: Message) -> Verdict:
        if message.method == "notifications/cancelled" and self._cancel_ends_here(message):
            return Drop("it cancels a request that never went upstream")
        if not self._is_filtering:
            return FORWARD
        if self._catalog is None:
            if self._catalogs:
                self._choose_catalog(message)
        elif not self._was_catalog_seen and message.method in tool_gate.GATED:
            self._was_catalog_seen = True
        return tool_gate.judge(message, self._catalog)

    def _choose_catalog(self, message: Message) -> None:
        """The first message that tells the era of this session tells which known catalog is its own."""
        if message.method == "initialize" or self._was_initialize_sent:
            self._catalog = self._catalogs.get(Era.LEGACY)
        elif maybe_modern_meta(message.params) is not None:
            self._catalog = self._catalogs.get(Era.MODERN)
        elif message.kind is Kind.REQUEST:
            self._catalog = self._catalogs.get(Era.LEGACY)

    def _answer_here(self, verdict: Answer, message: Message, route: Route | None, asked: Any) -> None:
        if message.id_token is not None:
            self._answered_here.add(message.id_token)
        self._to_client(verdict.raw, route)

    def _pass_on(self, message: Message, route: Route | None, asked: Any) -> bool:
        method = message.method
        assert method is not None
        id_token = message.id_token
        if id_token is None:
            self._upstream.send(message)
            if method == "notifications/initialized":
                self._was_initialized_said = True
                if self._was_initialize_answered:  # anybody can say it, and nobody has a list before that
                    self._want_catalog(None)
            return False
        meta = None
        if self._is_filtering and self._catalog is None and not self._was_initialize_sent:
            meta = maybe_modern_meta(message.params)
        if not self._requests.open(Exchange(id_token, method, route, meta, asked)):
            reason = "Invalid request: this id is already waiting for an answer"
            self.refuse_client(ClientProtocolError(INVALID_REQUEST, reason, id_token), route)
            return True
        self._answered_here.discard(id_token)
        if method == "initialize":
            self._was_initialize_sent = True
        self._upstream.send(message)
        return True

    def _take_response(self, message: Message) -> None:
        token = message.id_token
        exchange = self._upstream_requests.close(token) if token is not None else None
        if exchange is None:
            log.warning("Dropped a response from the client that nobody asked for.")
            return
        self._send_response(message, exchange)

    def _send_response(self, message: Message, exchange: Exchange) -> None:
        """Gives the upstream the client's answer to its request."""
        self._upstream.send(message)

    def _take_batch(self, batch: Batch, route: Route | None) -> bool:
        if self._version != BATCH_VERSION or not batch.parts:
            reason = "Invalid request: batches are not part of this protocol version"
            self.refuse_client(ClientProtocolError(INVALID_REQUEST, reason), route)
            return True
        batch_replies = BatchReplies(lambda raw: self._to_client(raw, route))
        for part in batch.parts:
            try:
                message = read_client_message(part)
                if isinstance(message, Batch):
                    raise ClientProtocolError(INVALID_REQUEST, "Invalid request: a batch within a batch")
            except ClientProtocolError as refusal:
                batch_replies.expect()
                self.refuse_client(refusal, batch_replies)
                continue
            if message.kind is Kind.REQUEST:
                batch_replies.expect()
            if not self.take(message, batch_replies) and message.kind is Kind.REQUEST:
                batch_replies.expect_less()
        return batch_replies.seal()

    def _cancel_ends_here(self, message: Message) -> bool:
        """Whether a cancel is for a request that never went upstream; one that is held is forgotten."""
        token = (message.params or {}).get("requestId")
        if token is None:
            return False
        return self._room.forget(bytes(token)) or bytes(token) in self._answered_here

    def give_up(self, why: str) -> None:
        """Nothing goes upstream any more."""

    def end(self) -> None:
        """The session is over."""
        self._room.stop()

    def client_ended(self) -> None:
        """The client says no more; what it waits for may still come."""
        self._upstream_requests.close_all()

    # --- the catalog -----------------------------------------------------------------------------------

    def _hold(self, message: Message, route: Route | None) -> None:
        if self._room.bytes_held > 2 * limits.HELD_BYTES:  # from a client whose reading cannot be paused
            self._to_client(error_reply(message.id_token, INTERNAL_ERROR, "Too much waits already"), route)
            return
        self._room.hold(message, route)
        if self._room.bytes_held > limits.HELD_BYTES:
            self._client.pause(_HOLDING)
        if not self._was_initialize_sent:
            # No handshake at all: either a modern client, or one that skips it and hopes.
            self._want_catalog(maybe_modern_meta(message.params), is_final=False)
        elif self._was_initialize_answered:
            self._want_catalog(None)

    def _want_catalog(self, meta: bytes | None, is_final: bool = True) -> None:
        if self._is_filtering and self._catalog is None:
            self._room.fetch(meta, is_final, error_means_none=not self._has_tools)

    def _refresh_unseen_catalog(self) -> None:
        # Some upstreams add tools when they have heard what the client can do. What no client has seen yet
        # may still change; from the first look on the catalog is frozen.
        if self._catalog is None or self._catalogs or self._was_catalog_seen:
            return
        if self._was_initialize_answered:
            self._catalog = None
            self._want_catalog(None)

    def _take_catalog(self, catalog: ToolCatalog) -> None:
        self._catalog = catalog
        self._on_catalog(catalog)
        for message, route in self._room.leave():
            self.take(message, route)
        self._go_on()

    def _take_catalog_failure(self, failure: ToolListFailed, refusal: bytes | None, is_final: bool) -> None:
        for message, route in self._room.leave():
            assert message.id_token is not None
            if refusal is not None:
                raw = raw_error_reply(message.id_token, tool_lists.shown_error(refusal, self._choice))
            else:
                raw = error_reply(message.id_token, INTERNAL_ERROR, failure.safe_message)
            self._to_client(raw, route)
        if is_final:
            self._fail_pending(failure)
            self._on_fatal(failure)
            return
        log.warning("%s. %s.", failure.headline, failure.detail)
        self._go_on()

    def _go_on(self) -> None:
        """Nothing is held any more."""
        self._client.resume(_HOLDING)
        self._say_if_idle()

    def _say_if_idle(self) -> None:
        if self.on_idle is not None and not self.is_holding:
            self.on_idle()

    # --- from the upstream -----------------------------------------------------------------------------

    def from_upstream(self, raw: bytes) -> None:
        """Takes one message as the upstream sent it."""
        try:
            message = read_upstream_message(raw)
        except UpstreamProtocolError as refusal:
            self.upstream_refused(refusal.id_token, refusal.reason)
            return
        if isinstance(message, Batch):
            if self._version != BATCH_VERSION:
                log.warning("Skipped a batch from the upstream: this protocol version has none.")
                return
            for part in message.parts:
                if is_batch(part):
                    log.warning("Skipped a batch within a batch from the upstream.")
                else:
                    self.from_upstream(part)
        elif message.kind is _RESPONSE:
            self._take_upstream_response(message)
        elif self._is_filtering and tool_lists.shows_hidden_tools(message, self._choice):
            log.warning("Dropped a message from the upstream: it lists tools that are hidden.")
        elif self._breaks_schema(message, message.method):
            if message.id_token is not None:
                self._answer_upstream(error_reply(message.id_token, INVALID_PARAMS, "Invalid params"))
        else:
            self._send_unasked(message)

    def _send_unasked(self, message: Message, asked: Any = None) -> None:
        """Gives the client a request or a notification of the upstream's."""
        if message.method == "notifications/tools/list_changed":
            self._refresh_unseen_catalog()
        if message.kind is Kind.REQUEST:
            assert message.id_token is not None
            self._upstream_requests.open(Exchange(message.id_token, message.method or "", asked=asked))
        self._client.send(message.raw, None, message)

    def _take_upstream_response(self, message: Message) -> None:
        token = message.id_token
        exchange = self._requests.close(token) if token is not None else None
        if exchange is None:
            self._take_stray_response(message)
            return
        if exchange.method == "initialize":
            self._take_initialized(message)
        elif exchange.meta is not None and "result" in message.envelope and not self._was_initialize_sent:
            # Only now it is certain that the upstream is a modern one; the client may have been probing.
            self._want_catalog(exchange.meta)
        if self._schema is not None and self._breaks_schema(message, exchange.method):
            self._to_client(error_reply(exchange.id_token, INTERNAL_ERROR, INVALID_ANSWER), exchange.route)
            return
        if self._is_filtering and tool_lists.shows_hidden_tools(message, self._choice):
            log.warning("Withheld an answer of the upstream: it lists tools that are hidden.")
            reply = error_reply(exchange.id_token, INTERNAL_ERROR, INVALID_ANSWER)
            self._to_client(reply, exchange.route)
            return
        self._deliver(message, exchange)

    def _take_stray_response(self, message: Message) -> None:
        """Takes what answers no request of the client's."""
        if self._room.owns(message.id_token):
            self._room.take_page(message)
        elif message.id_token in (None, b"null") and "error" in message.envelope:
            # A complaint about something that the upstream could not read: nobody's answer.
            self._client.send(message.raw, None, message)
        else:
            log.warning("Dropped a response from the upstream that nobody asked for.")

    def _deliver(self, message: Message, exchange: Exchange) -> None:
        """Gives the client the answer to its request."""
        self._to_client(message.raw, exchange.route, message)

    def _breaks_schema(self, message: Message, method: str | None) -> bool:
        if self._schema is None:
            return False
        version = self._version if self._was_initialize_answered else MODERN_VERSIONS[-1]
        return self._schema.maybe_objection(message, method, version) is not None

    def _answer_upstream(self, raw: bytes) -> None:
        answer = read_upstream_message(raw)
        assert isinstance(answer, Message)
        self._upstream.send(answer)

    def _take_initialized(self, message: Message) -> None:
        result = message.envelope.get("result")
        if result is None:
            self._was_initialize_sent = False
            return
        answer = maybe_server_info(result) or ServerInfo()
        self._was_initialize_answered = True
        self._version = answer.version
        self._has_tools = answer.has_tools
        if self._was_initialized_said or not self._room.is_empty:
            self._want_catalog(None)

    def upstream_refused(self, id_token: bytes | None, why: str) -> None:
        """Something of the upstream's cannot be passed on; who waits for it hears an error."""
        log.warning("Skipped a message from the upstream. %s.", why)
        if id_token is None:
            return
        if self._room.owns(id_token):
            self._room.fail(ToolListFailed("The answer cannot be read"))
            return
        exchange = self._requests.close(id_token)
        if exchange is not None:
            self._to_client(error_reply(exchange.id_token, INTERNAL_ERROR, told(why)), exchange.route)

    def upstream_lost(self, error: UpstreamError) -> None:
        """The upstream is gone: everybody who waits hears it, then the session ends."""
        self.is_loss_felt = self.is_holding or self.pending > 0
        self._room.stop()
        for message, route in self._room.leave():
            self._to_client(error_reply(message.id_token, INTERNAL_ERROR, error.safe_message), route)
        self._fail_pending(error)
        self.give_up(error.safe_message)
        self._on_fatal(error)

    def _fail_pending(self, error: UpstreamError) -> None:
        for exchange in self._requests.close_all():
            self._to_client(
                error_reply(exchange.id_token, INTERNAL_ERROR, error.safe_message), exchange.route
            )

    def _to_client(self, raw: bytes, route: Route | None, message: Message | None = None) -> None:
        if isinstance(route, BatchReplies):
            route.take(raw)
        else:
            self._client.send(raw, route, message)
