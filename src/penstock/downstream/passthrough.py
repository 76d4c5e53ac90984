"""Pass-through: Streamable HTTP on both sides, every byte as it came, with the gate in it.

Status codes, session ids, headers, event ids and bodies are the upstream's own. Tool lists and tools that are
not in the catalog are answered here; everything else goes up as the bytes it came in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from penstock import limits
from penstock.downstream.catalog_fetch import ABOUT_THE_BODY, JSON_BOTH_WAYS, CatalogFetch
from penstock.downstream.ignore_response import IgnoreResponse
from penstock.downstream.passthrough_batch import BatchReview, begin, cancels_what_waits, remember
from penstock.downstream.passthrough_head import HeadReader, PassthroughHead
from penstock.downstream.passthrough_response import PassthroughResponse
from penstock.downstream.passthrough_rules import review_of
from penstock.downstream.replies import (
    EVENTS,
    refuse,
    refuse_message,
    send_json,
    status_of,
    wait_unless_gone,
)
from penstock.errors import ClientProtocolError, UpstreamError
from penstock.net.http_client import HttpClient
from penstock.net.http_exchange import Reply, Request
from penstock.policy.tools import tool_gate
from penstock.policy.tools.catalog import ToolCatalog
from penstock.policy.tools.schema import SchemaCheck
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.verdict import FORWARD, Answer, Drop, Hold, Verdict, is_open
from penstock.relay.catalogs import CatalogKey, Catalogs
from penstock.wire.http.bodies import to_body
from penstock.wire.http.http1 import Headers
from penstock.wire.http.sse import encode_event
from penstock.wire.mcp.eras import BATCH_VERSION, Era
from penstock.wire.mcp.mcp_headers import with_name_of
from penstock.wire.mcp.message import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    Batch,
    Kind,
    Message,
    read_client_message,
    read_upstream_message,
)
from penstock.wire.mcp.replies import CANCELLED, error_code, error_reply
from penstock.wire.mcp.routing_headers import check_routing_headers, refuse_routing_headers

if TYPE_CHECKING:  # loaded only where there are rules
    from penstock.relay.review import Asked, Review, Reviews

log = logging.getLogger("penstock")

_RESPONSE = Kind.RESPONSE


class Passthrough:
    """The door for clients of Streamable HTTP when the upstream speaks it too."""

    def __init__(
        self,
        client: HttpClient,
        headers: Headers,
        choice: ToolFilter,
        catalogs: Catalogs,
        on_catalog: Callable[[ToolCatalog], None],
        on_lost: Callable[[UpstreamError], None],
        has_sessions: bool,
        schema: SchemaCheck | None,
        reviews: Reviews | None,
        tools_seconds: float = limits.TOOLS_SECONDS,
        passes_cookies: bool = False,
    ) -> None:
        self.client = client
        self._tools_seconds = tools_seconds
        self.choice = choice
        self.schema = schema
        self.reviews = reviews
        self.is_filtering = choice.is_active
        self.on_lost = on_lost
        self.sessions: dict[bytes, None] = {}  # ids seen to work, oldest first
        self.answers_with_events = (
            False  # how the upstream last answered a legacy request: so do we, for lists
        )
        self._heads = HeadReader(client, headers, passes_cookies)
        self.kept_from_clients = self._heads.kept_from_clients
        self._catalogs = catalogs
        self._on_catalog = on_catalog
        self._has_sessions = has_sessions
        self.under_way: set[PassthroughResponse] = set()
        self.unheard: dict[PassthroughResponse, None] = {}  # whose clients are gone, oldest first

    def handle(self, request: Request, reply: Reply) -> None:
        """Takes one request to the MCP endpoint."""
        head = self._heads.read(request)
        if head.is_session_malformed:
            refuse(reply, 400, "Invalid request: malformed session id")
        elif request.method == b"POST":
            self._post(request, reply, head)
        elif request.method in (b"GET", b"DELETE"):
            self._pass_on(request, reply, None, b"", review=self._maybe_review(request, None))
        else:
            refuse(reply, 405, "Method not allowed", [(b"Allow", b"GET, POST, DELETE")])

    def handle_well_known(self, request: Request, reply: Reply) -> None:
        """Takes a request for the upstream's metadata, such as clients make before they authorize."""
        if request.method != b"GET":
            refuse(reply, 405, "Method not allowed", [(b"Allow", b"GET")])
            return
        # Metadata of the endpoint lives under the endpoint's path, which is another one upstream.
        target = request.target
        path, _, query = target.partition(b"?")
        if path.endswith(b"/mcp"):
            path = path[: -len(b"/mcp")] + self.client.url.target.partition(b"?")[0].rstrip(b"/")
        target = path + (b"?" + query if query else b"")
        self._pass_on(request, reply, None, b"", target)

    # --- requests ---------------------------------------------------------------------------------------

    def _post(self, request: Request, reply: Reply, head: PassthroughHead) -> None:
        if head.wrong is not None:
            refuse(reply, *head.wrong)
            return
        try:
            message = read_client_message(request.body)
            if isinstance(message, Batch):
                refuse_routing_headers(request.fields)
                self._take_batch(message, request, reply)
                return
            if head.is_routed:
                check_routing_headers(message, request.fields, self._is_answerable(message, head))
        except ClientProtocolError as refusal:
            log.warning("Refused a message from a client. %s.", refusal.reason)
            refuse_message(reply, refusal)
            return
        if not self.is_filtering or message.kind is _RESPONSE:
            self._through_rules(FORWARD, message, request, reply)
            return
        is_gated = message.method in tool_gate.GATED
        catalog = self._catalogs.maybe_known(self._catalog_key(request)) if is_gated else None
        verdict = tool_gate.judge(message, catalog)
        if isinstance(verdict, Drop):
            self._drop(verdict, message, reply)
        elif isinstance(verdict, Hold):
            self._with_catalog(
                request, reply, message, lambda catalog: self._judge(message, catalog, request, reply)
            )
        elif verdict is FORWARD and self.reviews is None:
            self._pass_on(request, reply, message, message.raw)
        elif verdict is FORWARD or is_gated:
            self._through_rules(verdict, message, request, reply, catalog)
        else:
            assert isinstance(verdict, Answer)
            self._answer(verdict, head.era, reply)

    def _judge(
        self, message: Message, catalog: ToolCatalog | UpstreamError, request: Request, reply: Reply
    ) -> None:
        if reply.is_gone:
            return
        if isinstance(catalog, UpstreamError):
            send_json(reply, 502, error_reply(message.id_token, INTERNAL_ERROR, catalog.safe_message))
            return
        self._through_rules(tool_gate.judge(message, catalog), message, request, reply, catalog)

    def _through_rules(
        self,
        verdict: Verdict,
        message: Message,
        request: Request,
        reply: Reply,
        catalog: ToolCatalog | None = None,
    ) -> None:
        """Lets the rules look at what the tool gate has nothing against, then does what was decided."""
        review = self._maybe_review(request, message)
        if review is None:
            self._follow(verdict, message, request, reply, None, None)
            return
        era = self._heads.read(request).era
        # In the newer era whoever cancels hangs up; an id there may be that of another client as well.
        if era is Era.LEGACY and cancels_what_waits(message, review):
            reply.send(202, [])
            return
        asked = begin(message, review)
        if not (is_open(verdict) and asked.watches("client")):
            self._follow(verdict, message, request, reply, review, asked)
            return
        waiting = review.ask_client(
            message,
            asked,
            lambda passed: self._follow(
                self._verdict(passed, catalog), passed, request, reply, review, asked
            ),
            lambda raw: self._refused(message, raw, era, reply),
        )
        if waiting is not None and era is Era.MODERN and message.kind is Kind.REQUEST:
            reply.on_gone = waiting.cancel  # whoever hangs up has cancelled

    def _refused(self, message: Message, raw: bytes | None, era: Era, reply: Reply) -> None:
        """The rules keep a message from going on; `raw` is the answer, if there is one."""
        if raw is None and message.kind is Kind.REQUEST:
            raw = error_reply(message.id_token, INTERNAL_ERROR, CANCELLED)
        if raw is None:
            reply.send(202, [])
        else:
            has_status = era is Era.MODERN and message.method != tool_gate.CALL  # as the tool gate answers
            send_json(reply, status_of(error_code(raw)) if has_status else 200, raw)

    def _verdict(self, message: Message, catalog: ToolCatalog | None) -> Verdict:
        if not self.is_filtering or message.kind is Kind.RESPONSE:
            return FORWARD
        return tool_gate.judge(message, catalog)

    def _follow(
        self,
        verdict: Verdict,
        message: Message,
        request: Request,
        reply: Reply,
        review: Review | None,
        asked: Asked | None,
    ) -> None:
        if verdict is FORWARD:
            self._pass_on(request, reply, message, message.raw, review=review, asked=asked)
            return
        if not isinstance(verdict, Answer):
            # A rule made a tool call of something else, before any catalog was needed.
            send_json(reply, 200, error_reply(message.id_token, INTERNAL_ERROR, "Internal error"))
            return
        if verdict.is_list and review is not None and asked is not None and asked.watches("upstream"):
            listed = read_upstream_message(verdict.raw)
            assert isinstance(listed, Message)
            review.ask_upstream(
                listed,
                asked,
                lambda passed: self._answer_live(Answer(passed.raw), request, reply),
                lambda raw: None,
            )
        else:
            self._answer_live(verdict, request, reply)

    def _answer_live(self, verdict: Answer, request: Request, reply: Reply) -> None:
        """Answers here, if the session lives."""
        head = self._heads.read(request)
        if head.era is Era.MODERN or not self._has_sessions or head.session in self.sessions:
            self._answer(verdict, head.era, reply)
        else:
            # Only the upstream knows whether this session lives: it is asked with a ping.
            ping = b'{"jsonrpc":"2.0","id":"penstock-ping","method":"ping"}'
            response = PassthroughResponse(self, reply, None, head)
            response.on_success = lambda: self._answer(verdict, head.era, reply)
            self._send(request, response, head, ping)

    def _catalog_key(self, request: Request) -> CatalogKey:
        head = self._heads.read(request)
        return self._catalogs.key(head.era, head.headers)

    def _with_catalog(
        self,
        request: Request,
        reply: Reply,
        message: Message,
        then: Callable[[ToolCatalog | UpstreamError], None],
    ) -> None:
        head = self._heads.read(request)
        key = self._catalog_key(request)
        known = self._catalogs.maybe_known(key)
        if known is not None:
            then(known)
            return

        start = None
        if self._catalogs.is_by_principal:
            fetch = CatalogFetch(
                self.client, self.choice, key, self._catalogs, self._on_catalog, self._tools_seconds
            )
            start = partial(fetch.start, head.headers, message.params, head.era)
        wait_unless_gone(
            reply,
            lambda waiter: self._catalogs.wait(key, waiter, start),
            lambda waiter: self._catalogs.withdraw(key, waiter),
            then,
        )

    def _is_answerable(self, message: Message, head: PassthroughHead) -> bool:
        """Whether we may answer a modern request ourselves; then the server's duty to check is ours."""
        return self.is_filtering and message.method in tool_gate.GATED and head.era is Era.MODERN

    def _answer(self, verdict: Answer, era: Era, reply: Reply) -> None:
        is_event = verdict.is_list and era is Era.LEGACY and self.answers_with_events
        if is_event and len(verdict.raw) < limits.EVENT_BYTES:
            reply.start(200, EVENTS)
            reply.write(encode_event(verdict.raw, "message"))
            reply.finish()
            return
        send_json(reply, status_of(verdict.code) if era is Era.MODERN else 200, verdict.raw)

    def _drop(self, verdict: Drop, message: Message, reply: Reply) -> None:
        log.warning("Dropped a message from a client: %s.", verdict.why)
        if message.id_token is None:
            reply.send(202, [])
        else:
            refuse(reply, 400, f"Invalid request: {verdict.why}")

    def _take_batch(self, batch: Batch, request: Request, reply: Reply) -> None:
        version = request.header(b"mcp-protocol-version")
        if (version is not None and version != BATCH_VERSION.encode()) or not batch.parts:
            raise ClientProtocolError(
                INVALID_REQUEST, "Invalid request: batches are not part of this protocol version"
            )
        messages: list[Message] = []
        for part in batch.parts:
            message = read_client_message(part)
            if isinstance(message, Batch):
                raise ClientProtocolError(INVALID_REQUEST, "Invalid request: a batch within a batch")
            messages.append(message)
        if not self.is_filtering:
            self._judge_batch(messages, None, request, reply)
            return
        self._with_catalog(
            request, reply, messages[0], lambda catalog: self._judge_batch(messages, catalog, request, reply)
        )

    def _judge_batch(
        self,
        messages: list[Message],
        catalog: ToolCatalog | UpstreamError | None,
        request: Request,
        reply: Reply,
    ) -> None:
        if isinstance(catalog, UpstreamError):
            refuse(reply, 502, catalog.safe_message)
            return
        review = self._maybe_review(request, messages[0])

        def send(passed: list[Message], answers: list[bytes]) -> None:
            if passed == messages:
                self._pass_on(request, reply, None, request.body, batch=passed, review=review)
            elif passed:
                body = b"[%b]" % b",".join(message.raw for message in passed)
                self._pass_on(request, reply, None, body, batch=passed, first=answers, review=review)
            elif answers:
                send_json(reply, 200, b"[%b]" % b",".join(answers))
            else:
                reply.send(202, [])

        BatchReview(messages, lambda message: self._verdict(message, catalog), review, send)

    # --- passing on -------------------------------------------------------------------------------------

    def _pass_on(
        self,
        request: Request,
        reply: Reply,
        message: Message | None,
        body: bytes,
        target: bytes | None = None,
        batch: list[Message] | None = None,
        first: list[bytes] | None = None,
        review: Review | None = None,
        asked: Asked | None = None,
    ) -> None:
        head = self._heads.read(request)
        response = PassthroughResponse(self, reply, message, head)
        response.method = request.method
        response.is_endpoint = target is None
        if review is not None:
            response.review, response.asked = review, asked
            if head.era is Era.LEGACY and message is not None and asked is not None:
                remember(review.requests, message, asked)
        if batch is not None:
            response.expect_batch(batch, first or [])
        body = to_body(body, message is not None and message.method is not None)
        self._send(request, response, head, body, target)

    def _send(
        self,
        request: Request,
        response: PassthroughResponse,
        head: PassthroughHead,
        body: bytes,
        target: bytes | None = None,
    ) -> None:
        self.under_way.add(response)
        asked = response.asked
        if target is None and (asked is None or not asked.state.modified):
            response.ticket = self.client.request_as(head.start, request.method, body, response)
            return
        headers = head.headers
        if asked is not None and asked.state.modified:
            headers = with_name_of(headers, asked.state.request)
        response.upstream_headers = headers
        target = target or self.client.url.target
        response.ticket = self.client.request(request.method, target, headers, body, response)

    def answer_upstream(self, raw: bytes, headers: Headers) -> None:
        """Answers a request of the upstream's that the rules keep from the client."""
        kept = [field for field in headers if field[0].lower() not in ABOUT_THE_BODY]
        self.client.request(b"POST", self.client.url.target, [*kept, *JSON_BOTH_WAYS], raw, IgnoreResponse())

    def _maybe_review(self, request: Request, message: Message | None) -> Review | None:
        if self.reviews is None:
            return None
        return review_of(self.reviews, request, message, self._heads.rights(request))

    def remember_session(self, session: bytes) -> None:
        """This session id works."""
        if len(session) > limits.KNOWN_SESSION_ID_BYTES:
            return
        self.sessions[session] = None
        if len(self.sessions) > limits.KNOWN_SESSION_IDS:
            del self.sessions[next(iter(self.sessions))]

    def keep_unheard(self, response: PassthroughResponse) -> None:
        """Lets the upstream finish an answer that nobody waits for, unless there are too many of them."""
        self.unheard[response] = None
        if len(self.unheard) > limits.UNHEARD_ANSWERS:
            next(iter(self.unheard)).give_up()

    def forget_session(self, session: bytes) -> None:
        """This session is over, and so is what nobody waits for in it."""
        self.sessions.pop(session, None)
        if self.reviews is not None:
            self.reviews.forget(b"session " + session)
        for response in tuple(self.unheard):
            if response.session == session:
                response.give_up()

    def end_streams(self) -> None:
        """Ends what has no end of its own: the streams on which clients only listen."""
        for response in tuple(self.under_way):
            if response.is_listening:
                response.end_stream()

    def fail_all(self, error: UpstreamError) -> None:
        """The upstream is gone: everybody who waits hears it."""
        if self.reviews is not None:
            self.reviews.end_all(error.safe_message)
        for response in tuple(self.under_way):
            response.on_failure(error)
            if response.ticket is not None:
                response.ticket.cancel()  # what still comes would be a second answer
