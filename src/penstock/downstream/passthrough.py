"""Pass-through: Streamable HTTP on both sides, every byte as it came, with the gate in it.

Status codes, session ids, headers, event ids and bodies are the upstream's own. Tool lists and tools that are
not in the catalog are answered here; everything else goes up as the bytes it came in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import msgspec

from penstock import limits
from penstock.downstream.catalog_fetch import ABOUT_THE_BODY, JSON_BOTH_WAYS
from penstock.downstream.client_catalogs import ClientCatalogs
from penstock.downstream.ignore_response import IgnoreResponse
from penstock.downstream.mcp_head import peer_of
from penstock.downstream.oauth_metadata import own_challenge
from penstock.downstream.passthrough_batch import PostedBatch
from penstock.downstream.passthrough_head import HeadReader, PassthroughHead
from penstock.downstream.passthrough_response import PassthroughResponse
from penstock.downstream.replies import (
    drop_posted,
    is_denied,
    refuse,
    refuse_unread,
    send_event,
    send_json,
    status_for,
)
from penstock.errors import ClientProtocolError, UpstreamError
from penstock.gate.carry import carry_out
from penstock.gate.gate import Gate
from penstock.net.http_client import HttpClient
from penstock.net.http_exchange import Reply, Request
from penstock.policy.exchange import Exchange, Session
from penstock.policy.tools import tool_gate
from penstock.policy.tools.catalog import ToolCatalog
from penstock.policy.verdict import FORWARD, Answer, Verdict, Wait
from penstock.relay.catalogs import Catalogs
from penstock.relay.contracts import LinkFacts
from penstock.relay.kept_lists import CatalogKey
from penstock.wire.http.bodies import to_body
from penstock.wire.http.http1 import Headers
from penstock.wire.json.ambiguity import members
from penstock.wire.mcp.eras import Era
from penstock.wire.mcp.mcp_headers import TRACED, with_name_of, with_params_of, with_traceparent
from penstock.wire.mcp.message import (
    Batch,
    Kind,
    Message,
    read_client_message,
)
from penstock.wire.mcp.replies import upstream_error_reply
from penstock.wire.mcp.routing_headers import check_routing_headers, refuse_routing_headers

if TYPE_CHECKING:  # loaded only where there are rules or observers
    from penstock.gate.pending import PendingTable
    from penstock.gate.session_table import SessionTable, TrackedSession

log = logging.getLogger("penstock")

_REQUEST, _RESPONSE, _LEGACY = Kind.REQUEST, Kind.RESPONSE, Era.LEGACY


class Passthrough:
    """The door for clients of Streamable HTTP when the upstream speaks it too."""

    def __init__(
        self,
        client: HttpClient,
        headers: Headers,
        gate: Gate,
        catalogs: Catalogs,
        on_lost: Callable[[UpstreamError], None],
        facts: LinkFacts,
        known: SessionTable | None,
        tools_seconds: float = limits.TOOLS_SECONDS,
        passes_cookies: bool = False,
        connect_seconds: float = limits.CONNECT_SECONDS,
    ) -> None:
        """`facts` are what our own handshake has shown of the upstream; `known` are the sessions, where
        somebody asks whose a message is."""
        self.client = client
        self._connect_seconds = connect_seconds
        self.gate = gate
        self.known = known
        self._everybody = Session()  # where nobody asks
        self.on_lost = on_lost
        self.sessions: dict[bytes, None] = {}  # ids seen to work, oldest first
        self._answers_with_events = facts.answers_with_events  # so do we, for lists
        self.heads = HeadReader(client, headers, catalogs, passes_cookies)
        self.catalogs = ClientCatalogs(client, gate, catalogs, tools_seconds)
        self._lists = catalogs.lists
        # Whether the upstream gives ids to sessions. Who was refused for want of credentials has not seen it.
        self.has_sessions = None if self._lists.is_by_principal else facts.has_session
        self.own_path = b"/mcp"
        self._response = PassthroughResponse
        if gate.passes_unread:
            from penstock.downstream.passthrough_unread import UnreadResponse

            self._response = UnreadResponse
        self.under_way: set[PassthroughResponse] = set()
        self.unheard: dict[PassthroughResponse, None] = {}  # whose clients are gone, oldest first

    def carried(self, headers: Headers) -> Headers:
        """What of a client's headers goes up where its message is translated."""
        return self.heads.carried(headers)

    def serve_at(self, public_url: str | None, path: bytes) -> None:
        """Says where clients find this door, if that is not where they write in Host, at /mcp."""
        self.own_path = path
        if public_url is not None:
            self.heads.origin = public_url.encode()

    def own_challenge(self, headers: Headers, origin: bytes) -> Headers:
        """Headers of a refusal that point to metadata at our address."""
        return own_challenge(headers, origin, self.client.url, self.own_path)

    def handle(self, request: Request, reply: Reply) -> None:
        """Takes one request to the MCP endpoint."""
        head = self.heads.read(request)
        if head.is_session_malformed:
            refuse(reply, 400, "Invalid request: malformed session id")
        elif request.method == b"POST":
            self._post(request, reply, head)
        elif request.method in (b"GET", b"DELETE"):
            self.pass_on(
                request, reply, head, None, b"", Exchange(session=self.session_of(request, head, None))
            )
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
        if path.endswith(self.own_path):
            path = path[: -len(self.own_path)] + self.client.url.target.partition(b"?")[0].rstrip(b"/")
        target = path + (b"?" + query if query else b"")
        self.pass_on(request, reply, self.heads.read(request), None, b"", Exchange(), target)

    # --- requests ---------------------------------------------------------------------------------------

    def _post(self, request: Request, reply: Reply, head: PassthroughHead) -> None:
        if head.wrong_body is not None:
            refuse(reply, *head.wrong_body)
            return
        try:
            message = read_client_message(request.body)
            if isinstance(message, Batch):
                refuse_routing_headers(request.fields)
                PostedBatch(self, message, request, reply, head).take()
                return
            if head.is_routed:
                check_routing_headers(message, request.fields, self._is_answerable(message, head))
        except ClientProtocolError as refusal:
            session = self.session_of(request, head, None)
            refuse_unread(reply, refusal, self.gate, request.body, session)
            return
        catalog = self.catalogs.maybe_known(head.key) if message.method in tool_gate.GATED else None
        if self.known is None:  # as `session_of` and `exchange_of` say, without asking
            exchange = Exchange(
                message.id_token or b"",
                message.method or "",
                None,
                self._everybody,
                catalog,
                request.headers,
                None,
                head.version,
            )
        else:
            whom: Session | None = None
            principal = ""
            if head.session is not None and head.era is _LEGACY and self.has_sessions is not False:
                # Nearly always: as `session_of` says, without asking.
                if head.whose is None:
                    head.whose = self.known.whose(head.session, head.rights)
                key, principal = head.whose
                find = self.known.maybe_known
                whom = find(key)
            if whom is None or whom.principal != principal:
                whom = self.session_of(request, head, message)
            if message.kind is _RESPONSE:
                exchange = self.exchange_of(message, whom, catalog, request.headers, head)
            else:
                exchange = Exchange(
                    message.id_token or b"",
                    message.method or "",
                    None,
                    whom,
                    catalog,
                    request.headers,
                    None,
                    head.version,
                )
        verdict = self.gate.client_says(message, exchange)
        if verdict is FORWARD:
            self.pass_on(request, reply, head, message, message.raw, exchange)
        elif isinstance(verdict, Answer):  # as a rule: the list
            self._answer_message(verdict, message, request, reply)
        else:
            self._carry_out(verdict, message, exchange, request, reply)

    def exchange_of(
        self,
        message: Message,
        session: Session,
        catalog: ToolCatalog | None,
        headers: Headers,
        head: PassthroughHead,
    ) -> Exchange:
        """The exchange that a client's message begins, or, for a response, that of the upstream's request."""
        if message.kind is _RESPONSE and self.known is not None and message.id_token is not None:
            found = _tracked(session).upstream_requests.close(message.id_token)
            if found is not None:
                return found
        return Exchange(
            message.id_token or b"", message.method or "", None, session, catalog, headers, None, head.version
        )

    def _carry_out(
        self, verdict: Verdict, message: Message, exchange: Exchange, request: Request, reply: Reply
    ) -> None:
        """Does what was decided about a message of a client's."""
        head = self.heads.read(request)
        if isinstance(verdict, Wait):
            verdict.hear(message, None)  # its reply begins with the upstream's status, which nobody knows yet
            if head.era is Era.MODERN and message.kind is Kind.REQUEST:
                reply.on_gone = verdict.cancel  # whoever hangs up has cancelled

        def judge(catalog: ToolCatalog | UpstreamError) -> None:
            self._judge(message, exchange, catalog, request, reply)

        carry_out(
            verdict,
            message,
            lambda passed: self.pass_on(request, reply, head, passed, passed.raw, exchange),
            lambda answer: self._answer_message(answer, message, request, reply),
            lambda drop: drop_posted(drop, message, reply),
            lambda: self.catalogs.wait(reply, head, message.params, judge),
        )

    def _judge(
        self,
        message: Message,
        exchange: Exchange,
        catalog: ToolCatalog | UpstreamError,
        request: Request,
        reply: Reply,
    ) -> None:
        """Asks the gate once more, now that the catalog is there."""
        if reply.is_gone:
            return
        if isinstance(catalog, UpstreamError):
            if not is_denied(reply, message.id_token, catalog):
                raw = upstream_error_reply(message.id_token, catalog)
                self.gate.said("penstock", "answer", raw, None, exchange, status=502)
                send_json(reply, 502, raw)
            return
        exchange.catalog = catalog
        self._carry_out(self.gate.client_says(message, exchange), message, exchange, request, reply)

    def _answer_message(self, verdict: Answer, message: Message, request: Request, reply: Reply) -> None:
        """Answers here; what the upstream would answer itself, only if the session lives."""
        head, why = self.heads.read(request), verdict.why
        is_of_filter = why is not None and why.rule == tool_gate.STAGE and message.method in tool_gate.GATED
        is_unproven = self.has_sessions and head.era is not Era.MODERN and head.session not in self.sessions
        if not is_unproven or not (verdict.is_list or is_of_filter):
            self._answer(verdict, head.era, reply)
        else:
            # Only the upstream knows whether this session lives: it is asked with a ping.
            ping = b'{"jsonrpc":"2.0","id":"penstock-ping","method":"ping"}'
            exchange = Exchange(session=self.session_of(request, head, None))
            response = self._response(self, reply, None, head, exchange)
            response.on_success = lambda: self._answer(verdict, head.era, reply)
            self.under_way.add(response)
            response.ticket = self.client.request_as(head.start, request.method, ping, response)

    def _is_answerable(self, message: Message, head: PassthroughHead) -> bool:
        """Whether we may answer a modern request ourselves; then the server's duty to check is ours."""
        return self.gate.is_filtering and message.method in tool_gate.GATED and head.era is Era.MODERN

    def _answer(self, verdict: Answer, era: Era, reply: Reply) -> None:
        is_event = verdict.is_list and era is Era.LEGACY and self._answers_with_events
        if is_event and len(verdict.raw) < limits.EVENT_BYTES:
            send_event(reply, verdict.raw)
        else:
            send_json(reply, status_for(verdict, era), verdict.raw)

    # --- passing on -------------------------------------------------------------------------------------

    def pass_on(
        self,
        request: Request,
        reply: Reply,
        head: PassthroughHead,
        message: Message | None,
        body: bytes,
        exchange: Exchange,
        target: bytes | None = None,
        batch: list[Message] | None = None,
        first: list[bytes] | None = None,
        remembered: Sequence[Exchange] = (),
    ) -> None:
        """Sends `body` upstream; `message` is what is in it, None for a GET, a DELETE or a batch."""
        response = self._response(self, reply, message, head, exchange)
        if request.method != b"POST":
            response.method = request.method
        if target is not None:
            response.is_endpoint = False
        if message is not None and self.known is not None:
            if message.kind is _REQUEST and head.era is _LEGACY and self.gate.keeps_requests:
                # As `remember` does, without asking.
                requests: PendingTable = exchange.session.requests  # type: ignore[attr-defined]
                (requests.open_anew if requests.exchanges else requests.open)(exchange)
            remembered = (exchange,)
        if remembered:
            response.remembered = remembered
        if batch is not None:
            response.expect_batch(batch, first or [])
        if message is not None and message.method == "initialize":
            from penstock.downstream.call_timer import limit_hello  # once a session

            limit_hello(response, self.client.url.shown, self._connect_seconds)
        body = to_body(body, message is not None and message.method is not None)
        if target is None and not exchange.modified:
            self.under_way.add(response)
            response.ticket = self.client.request_as(head.start, request.method, body, response)
        else:
            self._send_changed(request, response, head, body, target)

    def remember(self, message: Message, exchange: Exchange, head: PassthroughHead) -> None:
        """Keeps a request whose answer may come by another way than it went, as long as it is under way."""
        if self.known is None or head.era is Era.MODERN or not self.gate.keeps_requests:
            return
        if message.kind is _REQUEST and message.id_token is not None:
            session: TrackedSession = exchange.session  # type: ignore[assignment]  # the table made it
            session.requests.open_anew(exchange)

    def _send_changed(
        self,
        request: Request,
        response: PassthroughResponse,
        head: PassthroughHead,
        body: bytes,
        target: bytes | None,
    ) -> None:
        """Sends what goes elsewhere, or with other headers than its client's."""
        self.under_way.add(response)
        exchange, headers = response.exchange, head.headers
        if exchange.modified:
            headers = with_name_of(headers, exchange.request)
            if head.era is Era.MODERN and exchange.method == tool_gate.CALL:
                headers = self._with_params_of(headers, exchange, head)
            if TRACED in exchange.modified:
                headers = with_traceparent(headers, exchange.record.trace)
        response.upstream_headers = headers
        target = target or self.client.url.target
        response.ticket = self.client.request(request.method, target, headers, body, response)

    def _with_params_of(self, headers: Headers, exchange: Exchange, head: PassthroughHead) -> Headers:
        """The headers of a call with what the rules made of the arguments that they repeat."""
        try:
            name = msgspec.json.decode((exchange.request.params or {}).get("name", b"null"))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return headers
        for key in (head.key, CatalogKey(Era.LEGACY, head.key.principal)):
            tools = self._lists.maybe_kept(key)
            for tool in tools.tools if tools is not None else ():
                if tool.name == name:
                    return with_params_of(headers, exchange.request, members(tool.raw)["inputSchema"])
        return headers

    def answer_upstream(self, raw: bytes, headers: Headers) -> None:
        """Answers a request of the upstream's that the rules keep from the client."""
        kept = [field for field in headers if field[0].lower() not in ABOUT_THE_BODY]
        self.client.request(b"POST", self.client.url.target, [*kept, *JSON_BOTH_WAYS], raw, IgnoreResponse())

    def session_of(self, request: Request, head: PassthroughHead, message: Message | None) -> Session:
        """Whose a message is: by session, or by principal where there are no sessions."""
        if self.known is None:
            return self._everybody
        # Ids and credentials count where the upstream looks at them; else they are the client's to choose.
        return self.known.find_http(
            head.era,
            None if self.has_sessions is False else head.session,
            head.principal if self._lists.is_by_principal else b"",
            head.rights,
            peer_of(request),
            message is not None and message.method == "initialize" and self.has_sessions is not False,
        )

    def begin_session(self, session: bytes | None, tracked: Session) -> None:
        """The upstream has answered a handshake, with a session id or without."""
        if self.has_sessions is None:
            self.has_sessions = session is not None
        if session is not None and self.known is not None:
            self.known.begin(session, _tracked(tracked))

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
        if self.known is not None:
            self.known.forget(session)
        for response in tuple(self.unheard):
            if response.head.session == session:
                response.give_up()

    def end_streams(self) -> None:
        """Ends what has no end of its own: the streams on which clients only listen."""
        for response in tuple(self.under_way):
            if response.is_listening:
                response.end_stream()

    def fail_all(self, error: UpstreamError) -> None:
        """The upstream is gone: everybody who waits hears it."""
        if self.known is not None:
            self.known.end_all(error.safe_message)
        for response in tuple(self.under_way):
            response.on_failure(error)
            if response.ticket is not None:
                response.ticket.cancel()  # what still comes would be a second answer


def _tracked(session: Session) -> TrackedSession:
    """The session as the table of sessions made it."""
    return cast("TrackedSession", session)
