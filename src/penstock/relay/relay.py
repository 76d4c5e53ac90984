"""One session: what the client says goes upstream, what the upstream says goes back, and the gate between.

The relay never waits and never re-encodes. It remembers which requests are under way in either direction,
holds tool requests until the catalog is there, and answers what must not pass.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

import msgspec
from msgspec import Raw, Struct

from penstock import limits
from penstock.errors import (
    ClientProtocolError,
    Failure,
    PenstockError,
    ToolListFailed,
    UpstreamError,
    UpstreamProtocolError,
)
from penstock.policy import tool_gate
from penstock.policy.catalog import ToolCatalog
from penstock.policy.tool_filter import ToolFilter
from penstock.policy.verdict import FORWARD, Answer, Drop, Hold, Verdict
from penstock.relay.contracts import ClientLink, Route, UpstreamLink
from penstock.relay.gathering import Gathering
from penstock.relay.list_fetch import ListFetch
from penstock.relay.tables import Exchange, PendingTable, RecentIds
from penstock.wire.ambiguity import readable
from penstock.wire.eras import BATCH_VERSION, maybe_modern_meta
from penstock.wire.ids import id_key
from penstock.wire.message import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    Batch,
    Kind,
    Message,
    read_client_message,
    read_upstream_message,
)
from penstock.wire.replies import error_reply, raw_error_reply

log = logging.getLogger("penstock")

_HOLDING = "holding"  # the reason for not reading a client whose tool requests pile up


class _Initialized(Struct):
    """What matters of the answer to initialize."""

    version: object = msgspec.field(name="protocolVersion", default=None)
    capabilities: dict[str, Raw] = {}


class Relay:
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
        catalog: ToolCatalog | None = None,
    ) -> None:
        self._client = client
        self._upstream = upstream
        self._choice = choice
        self._is_filtering = choice.is_active
        self._tools_seconds = tools_seconds
        self._on_catalog = on_catalog
        self._on_fatal = on_fatal
        self._catalog = catalog
        self._is_catalog_frozen = catalog is not None
        self._requests = PendingTable()  # the client's, on their way to the upstream
        self._upstream_requests = PendingTable()  # the upstream's, on their way to the client
        self._answered_here = RecentIds()
        self._held: deque[tuple[Message, Route | None]] = deque()
        self._held_bytes = 0
        self._fetch: ListFetch | None = None
        self._fetch_timer: asyncio.TimerHandle | None = None
        self._is_fetch_final = False  # a failed fetch ends the session, because the handshake was through
        self._version: object = None  # negotiated, legacy era
        self._was_initialize_sent = False
        self._was_initialize_answered = False
        self._has_tools = True
        self.on_idle: Callable[[], None] | None = None  # called when nothing is held any more
        upstream.receiver = self

    @property
    def is_holding(self) -> bool:
        """Whether a client's message still waits for the catalog."""
        return bool(self._held)

    @property
    def pending(self) -> int:
        """How many of the client's requests wait for the upstream."""
        return len(self._requests)

    # --- from the client -------------------------------------------------------------------------------

    def from_client(self, raw: bytes, route: Route | None = None) -> None:
        """Takes one message as the client sent it."""
        try:
            message = read_client_message(raw)
        except ClientProtocolError as refusal:
            self.refuse_client(refusal, route)
            return
        if isinstance(message, Batch):
            self._take_batch(message, route)
        else:
            self._take(message, route)

    def refuse_client(self, refusal: ClientProtocolError, route: Route | None = None) -> None:
        """Tells the client that a message of its own was not passed on."""
        log.warning("Refused a message from the client. %s.", refusal.reason)
        if refusal.id_token is not None:
            self._answered_here.add(refusal.id_token)
        self._to_client(error_reply(refusal.id_token, refusal.code, refusal.reason), route)

    def _take(self, message: Message, route: Route | None) -> bool:
        """Passes on, answers or drops one message; True when an answer to it has come or will come."""
        if message.kind is Kind.RESPONSE:
            self._take_response(message)
            return False
        verdict = self._verdict(message)
        if verdict is FORWARD:
            return self._pass_on(message, route)
        if isinstance(verdict, Answer):
            if message.id_token is not None:
                self._answered_here.add(message.id_token)
            self._to_client(verdict.raw, route)
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
        verdict = tool_gate.judge(message, self._catalog)
        if self._catalog is not None and message.method in tool_gate.GATED:
            self._is_catalog_frozen = True
        return verdict

    def _pass_on(self, message: Message, route: Route | None) -> bool:
        method = message.method
        assert method is not None
        id_token = message.id_token
        if id_token is None:
            self._upstream.send(message)
            if method == "notifications/initialized":
                self._want_catalog(None)
            return False
        meta = None
        if self._is_filtering and self._catalog is None and not self._was_initialize_sent:
            meta = maybe_modern_meta(message.params)
        if not self._requests.open(Exchange(id_token, method, route, meta)):
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
        if token is None or self._upstream_requests.close(token) is None:
            log.warning("Dropped a response from the client that nobody asked for.")
            return
        self._upstream.send(message)

    def _take_batch(self, batch: Batch, route: Route | None) -> None:
        if self._version != BATCH_VERSION or not batch.parts:
            reason = "Invalid request: batches are not part of this protocol version"
            self.refuse_client(ClientProtocolError(INVALID_REQUEST, reason), route)
            return
        gathering = Gathering(lambda raw: self._to_client(raw, route))
        for part in batch.parts:
            try:
                message = read_client_message(part)
                if isinstance(message, Batch):
                    raise ClientProtocolError(INVALID_REQUEST, "Invalid request: a batch within a batch")
            except ClientProtocolError as refusal:
                gathering.expect()
                self.refuse_client(refusal, gathering)
                continue
            if message.kind is Kind.REQUEST:
                gathering.expect()
            if not self._take(message, gathering) and message.kind is Kind.REQUEST:
                gathering.expect_less()
        gathering.seal()

    def _cancel_ends_here(self, message: Message) -> bool:
        """Whether a cancel is for a request that never went upstream; one that is held is forgotten."""
        token = (message.params or {}).get("requestId")
        if token is None:
            return False
        key = id_key(bytes(token))
        for entry in self._held:
            held, route = entry
            assert held.id_token is not None
            # Where an answer travels by a route of its own, somebody waits there for something to come.
            if route is None and id_key(held.id_token) == key:
                self._held.remove(entry)
                self._held_bytes -= len(held.raw)
                return True
        return bytes(token) in self._answered_here

    def client_ended(self) -> None:
        """The client says no more; what it waits for may still come."""
        self._upstream_requests.close_all()

    # --- the catalog -----------------------------------------------------------------------------------

    def _hold(self, message: Message, route: Route | None) -> None:
        self._held.append((message, route))
        self._held_bytes += len(message.raw)
        if self._held_bytes > limits.HELD_BYTES:
            self._client.pause(_HOLDING)
        if not self._was_initialize_sent:
            # No handshake at all: either a modern client, or one that skips it and hopes.
            self._want_catalog(maybe_modern_meta(message.params), is_final=False)
        elif self._was_initialize_answered:
            self._want_catalog(None)

    def _want_catalog(self, meta: bytes | None, is_final: bool = True) -> None:
        if not self._is_filtering or self._catalog is not None or self._fetch is not None:
            return
        self._is_fetch_final = is_final
        self._fetch = ListFetch(meta, error_means_none=not self._has_tools)
        loop = asyncio.get_running_loop()
        self._fetch_timer = loop.call_later(self._tools_seconds, self._fetch_timed_out)
        self._upstream.send(self._fetch.first_request())

    def _refresh_unused_catalog(self) -> None:
        # Some servers add tools when they have seen what the client can do. What no client has seen yet may
        # still change; from the first look on the catalog is frozen.
        if self._catalog is not None and not self._is_catalog_frozen and self._was_initialize_answered:
            self._catalog = None
            self._want_catalog(None)

    def _fetch_timed_out(self) -> None:
        milliseconds = round(self._tools_seconds * 1000)
        self._fetch_failed(ToolListFailed(f"Request timeout after {milliseconds}ms", Failure.TIMEOUT))

    def _take_list_page(self, message: Message) -> None:
        assert self._fetch is not None
        try:
            request = self._fetch.take(message)
            if request is not None:
                self._upstream.send(request)
                return
            if self._fetch.refusal is not None and not self._is_fetch_final:
                raise ToolListFailed("The upstream has no tools before its handshake")
            catalog = self._fetch.catalog(self._choice)
        except ToolListFailed as failure:
            self._fetch_failed(failure)
            return
        self._end_fetch()
        self._catalog = catalog
        self._on_catalog(catalog)
        self._release_held()

    def _fetch_failed(self, failure: ToolListFailed) -> None:
        fetch = self._fetch
        self._end_fetch()
        held, self._held = self._held, deque()
        self._held_bytes = 0
        for message, route in held:
            assert message.id_token is not None
            if fetch is not None and fetch.refusal is not None:
                raw = raw_error_reply(message.id_token, fetch.refusal)
            else:
                raw = error_reply(message.id_token, INTERNAL_ERROR, failure.safe_message)
            self._to_client(raw, route)
        if self._is_fetch_final or failure.failure is Failure.TIMEOUT:
            self._fail_pending(failure)
            self._on_fatal(failure)
            return
        log.warning("%s. %s.", failure.headline, failure.detail)
        self._client.resume(_HOLDING)
        if self.on_idle is not None:
            self.on_idle()

    def _end_fetch(self) -> None:
        self._fetch = None
        if self._fetch_timer is not None:
            self._fetch_timer.cancel()
            self._fetch_timer = None

    def _release_held(self) -> None:
        while self._held:
            message, route = self._held.popleft()
            self._take(message, route)
        self._held_bytes = 0
        self._client.resume(_HOLDING)
        if self.on_idle is not None:
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
                self.from_upstream(part)
            return
        if message.kind is Kind.RESPONSE:
            self._take_upstream_response(message)
        elif self._is_filtering and self._shows_hidden_tools(message):
            log.warning("Dropped a message from the upstream: it lists tools that are hidden.")
        else:
            if message.method == "notifications/tools/list_changed":
                self._refresh_unused_catalog()
            if message.kind is Kind.REQUEST:
                assert message.id_token is not None
                self._upstream_requests.open(Exchange(message.id_token, message.method or ""))
            self._client.send(raw, None, message)

    def _take_upstream_response(self, message: Message) -> None:
        token = message.id_token
        if self._fetch is not None and self._fetch.owns(token):
            self._take_list_page(message)
            return
        exchange = self._requests.close(token) if token is not None else None
        if exchange is None and token in (None, b"null") and "error" in message.envelope:
            # A complaint about something that the upstream could not read: nobody's answer.
            self._client.send(message.raw, None, message)
            return
        if exchange is None:
            log.warning("Dropped a response from the upstream that nobody asked for.")
            return
        if exchange.method == "initialize":
            self._take_initialized(message)
        elif exchange.meta is not None and "result" in message.envelope and not self._was_initialize_sent:
            # Only now it is certain that the upstream is a modern one; the client may have been probing.
            self._want_catalog(exchange.meta)
        self._to_client(message.raw, exchange.route, message)

    def _take_initialized(self, message: Message) -> None:
        result = message.envelope.get("result")
        if result is None:
            self._was_initialize_sent = False
            return
        try:
            answer = msgspec.json.decode(readable(result), type=_Initialized)
        except (msgspec.DecodeError, UnicodeDecodeError):
            answer = _Initialized()
        self._was_initialize_answered = True
        self._version = answer.version
        self._has_tools = "tools" in answer.capabilities
        if self._held:
            self._want_catalog(None)

    def _shows_hidden_tools(self, message: Message) -> bool:
        if message.method == "sampling/createMessage":
            return False  # tools offered to the client's own model, not the upstream's to be called
        return tool_gate.carries_tool_list(message, self._catalog)

    def upstream_refused(self, id_token: bytes | None, why: str) -> None:
        """Something of the upstream's cannot be passed on; who waits for it hears an error."""
        log.warning("Skipped a message from the upstream. %s.", why)
        if id_token is None:
            return
        if self._fetch is not None and self._fetch.owns(id_token):
            self._fetch_failed(ToolListFailed("The answer cannot be read"))
            return
        exchange = self._requests.close(id_token)
        if exchange is not None:
            reply = error_reply(exchange.id_token, INTERNAL_ERROR, "The upstream's answer is not valid")
            self._to_client(reply, exchange.route)

    def upstream_lost(self, error: UpstreamError) -> None:
        """The upstream is gone: everybody who waits hears it, then the session ends."""
        self._end_fetch()
        held, self._held = self._held, deque()
        for message, route in held:
            self._to_client(error_reply(message.id_token, INTERNAL_ERROR, error.safe_message), route)
        self._fail_pending(error)
        self._on_fatal(error)

    def _fail_pending(self, error: UpstreamError) -> None:
        for exchange in self._requests.close_all():
            self._to_client(
                error_reply(exchange.id_token, INTERNAL_ERROR, error.safe_message), exchange.route
            )

    def _to_client(self, raw: bytes, route: Route | None, message: Message | None = None) -> None:
        if isinstance(route, Gathering):
            route.take(raw)
        else:
            self._client.send(raw, route, message)
